/** The HTTP request of one attempt of a call: address, headers, body, signature. Pure. */
import { createHmac } from 'node:crypto';
import { WALLET_ACTIONS, type WalletAction } from '../contract/actions';
import { WALLET_HEADERS } from '../contract/limits';
import type { CallProfile, HmacSigning } from './profile';

/** One attempt of a call. */
export interface WalletSend {
  readonly action: WalletAction;
  readonly opId: string;
  /** Of this attempt alone. */
  readonly requestId: string;
  /** JSON, the same bytes for all attempts. */
  readonly payload: string;
}

export interface HttpRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * @param secret the key of the signature
 * @param alter changes the body before it is signed, for calls that are malformed on purpose
 * @throws TypeError where the profile does not have the action
 */
export function buildRequest(
  profile: CallProfile,
  send: WalletSend,
  nowMs: number,
  secret: () => Uint8Array,
  alter: (body: string) => string = (body) => body,
): HttpRequest {
  const path = profile.actions[send.action]?.path;
  if (path === undefined) throw new TypeError(`the profile has no ${send.action}: add it under actions`);
  const url = new URL(profile.baseUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  // The payload is kept as text: JSON that is read and written again could change its numbers.
  const outer = JSON.stringify({
    request_id: send.requestId,
    ts: timeOf(profile.ts, nowMs),
    operator_id: profile.operatorId,
  });
  const body = alter(`${outer.slice(0, -1)},"payload":${send.payload}}`);
  const { signing } = profile;
  const signed =
    signing.type === 'none' ? {} : signatureOf(signing, { send, path: url.pathname, body, nowMs }, secret());
  return {
    url,
    headers: {
      ...profile.headers,
      'content-type': 'application/json',
      accept: 'application/json',
      // A reply that unpacks to a larger one would pass the limit of its size late.
      'accept-encoding': 'identity',
      [WALLET_HEADERS.keyId]: profile.keyId,
      [WALLET_HEADERS.requestId]: send.requestId,
      [profile.idempotencyHeader.toLowerCase()]: send.opId,
      ...signed,
    },
    body,
  };
}

function timeOf(form: CallProfile['ts'], nowMs: number): string | number {
  if (form === 'iso') return new Date(nowMs).toISOString();
  return form === 'milliseconds' ? Math.floor(nowMs) : Math.floor(nowMs / 1_000);
}

interface Signed {
  readonly send: WalletSend;
  readonly path: string;
  readonly body: string;
  readonly nowMs: number;
}

function signatureOf(
  { hash, encoding, header, prefix, timestampHeader, content }: HmacSigning,
  { send, path, body, nowMs }: Signed,
  secret: Uint8Array,
): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const places: Readonly<Record<string, string>> = {
    ...{ timestamp, path, body, method: 'POST', request_id: send.requestId },
  };
  const text = content.replace(/\{\{([a-z_]+)\}\}/g, (place, name: string) =>
    Object.hasOwn(places, name) ? (places[name] ?? '') : place,
  );
  const signature = createHmac(hash, secret).update(text).digest(encoding);
  return {
    [header.toLowerCase()]: `${prefix}${signature}`,
    ...(timestampHeader !== null && { [timestampHeader.toLowerCase()]: timestamp }),
  };
}

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const HEADER_VALUE = /^[\x20-\x7e]{1,255}$/;
const OP_ID = /^[\x21-\x7e]{1,200}$/;
const FOLLOWING = /\.(rollback|reconcile)$/;
/** Ours, or those that an HTTP client sets by itself. */
const TAKEN_HEADERS: ReadonlySet<string> = new Set([
  ...['content-type', 'content-length', 'host', 'connection', 'transfer-encoding', 'accept-encoding'],
  ...Object.values(WALLET_HEADERS),
]);

/** Whether a header of a wallet call has a use of ours, or of the HTTP client, already. */
export function isTakenHeader(name: string): boolean {
  return TAKEN_HEADERS.has(name.toLowerCase());
}

/** Why no call can be sent by this profile; all faults at once, with their remedies. */
export function profileFaults(profile: CallProfile): string[] {
  const { signing } = profile;
  const names = [
    profile.idempotencyHeader,
    ...(signing.type === 'none' ? [] : [signing.header]),
    ...(signing.type === 'hmac' && signing.timestampHeader !== null ? [signing.timestampHeader] : []),
  ].map((name) => name.toLowerCase());
  const paths = Object.entries(profile.actions).map(([action, { path }]) => ({ action, path }));
  const shown = WALLET_ACTIONS.debit.path;
  return [
    ...addressFaults(profile),
    ...(HEADER_VALUE.test(profile.keyId) ? [] : ['keyId is not 1 to 255 ASCII characters: correct it']),
    ...names
      .filter((name) => !HEADER_NAME.test(name))
      .map((name) => `${JSON.stringify(name)} is no name of a header: use letters, digits and hyphens`),
    ...names
      .filter((name, place) => TAKEN_HEADERS.has(name) || names.indexOf(name) !== place)
      .map((name) => `the header ${name} has another use: choose another name`),
    ...paths
      .filter(({ path }) => !/^\/[^?#\s]*$/.test(path))
      .map(
        ({ action }) =>
          `the path of ${action} is none: begin it with a slash, without query, such as ${shown}`,
      ),
    ...(Number.isSafeInteger(profile.connections) && profile.connections >= 2
      ? []
      : ['connections is not a whole number from 2: new calls and resent ones each need one']),
  ];
}

function addressFaults({ baseUrl, environment }: CallProfile): string[] {
  if (!URL.canParse(baseUrl)) return ['baseUrl is no URL: write one such as https://wallet.example'];
  const { protocol, username, password, search, hash } = new URL(baseUrl);
  return [
    ...(protocol === 'https:' || (protocol === 'http:' && environment === 'test')
      ? []
      : ['baseUrl is not https: only the environment test may use http']),
    ...(username + password === '' ? [] : ['baseUrl has credentials: remove them, logs would show them']),
    ...(search + hash === '' ? [] : ['baseUrl has a query or a fragment: remove it']),
  ];
}

/** Why this cannot be the op_id of a new call; undefined where it can. It is the value of a header. */
export function opIdFault(opId: string): string | undefined {
  if (!OP_ID.test(opId)) return 'the op_id is not 1 to 200 visible ASCII characters';
  return FOLLOWING.test(opId) ? 'the op_id ends like those of our own rollbacks and reconciles' : undefined;
}

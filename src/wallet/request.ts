/** The HTTP request of one attempt of a call: address, headers, body, signature. Pure. */
import { createHmac } from 'node:crypto';
import type { WalletAction } from '../contract/actions';
import { WALLET_HEADERS } from '../contract/limits';
import type { CallProfile, Signing } from './profile';
import { fillText } from './template';

/** One attempt of a call. */
export interface Attempt {
  readonly opId: string;
  /** Of this attempt alone. */
  readonly requestId: string;
  /** JSON, the same bytes for all attempts. */
  readonly payload: string;
}

/** An attempt of an action that the profile has. */
export interface WalletSend extends Attempt {
  readonly action: WalletAction;
}

export interface HttpRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** @throws TypeError where the profile does not have the action */
export function pathOf({ actions }: CallProfile, action: WalletAction): string {
  const path = actions.get(action)?.path;
  if (path === undefined) throw new TypeError(`the profile has no ${action}: add it under actions`);
  return path;
}

/**
 * @param path of the action, under the base URL. @param secret the key of the signature
 * @param alter changes the body before it is signed, for calls that are malformed on purpose
 */
export function buildRequest(
  profile: CallProfile,
  path: string,
  attempt: Attempt,
  nowMs: number,
  secret: () => Uint8Array,
  alter: (body: string) => string = (body) => body,
): HttpRequest {
  const url = new URL(profile.baseUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  // The payload is kept as text: JSON that is read and written again could change its numbers.
  const outer = JSON.stringify({
    request_id: attempt.requestId,
    ts: timeOf(profile.ts, nowMs),
    operator_id: profile.operatorId,
  });
  const body = alter(`${outer.slice(0, -1)},"payload":${attempt.payload}}`);
  const { signing } = profile;
  const signed =
    signing === null
      ? {}
      : signatureOf(signing, { requestId: attempt.requestId, path: url.pathname, body, nowMs }, secret());
  return {
    url,
    headers: {
      ...Object.fromEntries([...profile.headers].map(([name, value]) => [name.toLowerCase(), value])),
      'content-type': 'application/json',
      accept: 'application/json',
      // A reply that unpacks to a larger one would pass the limit of its size late.
      'accept-encoding': 'identity',
      [WALLET_HEADERS.keyId]: profile.keyId,
      [WALLET_HEADERS.requestId]: attempt.requestId,
      [profile.idempotencyHeader.toLowerCase()]: attempt.opId,
      ...signed,
    },
    body,
  };
}

function timeOf(form: CallProfile['ts'], nowMs: number): string | number {
  if (form === 'rfc3339') return new Date(nowMs).toISOString();
  return form === 'unix_ms' ? Math.floor(nowMs) : Math.floor(nowMs / 1_000);
}

interface Signed {
  readonly requestId: string;
  readonly path: string;
  readonly body: string;
  readonly nowMs: number;
}

function signatureOf(
  { scheme, encoding, header, prefix, timestampHeader, content }: Signing,
  { requestId, path, body, nowMs }: Signed,
  secret: Uint8Array,
): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const text = fillText(content, { timestamp, path, body, method: 'POST', request_id: requestId });
  const signature = createHmac(scheme.slice('hmac-'.length), secret).update(text).digest(encoding);
  return {
    [header.toLowerCase()]: `${prefix}${signature}`,
    ...(timestampHeader !== null && { [timestampHeader.toLowerCase()]: timestamp }),
  };
}

const OP_ID = /^[\x21-\x7e]{1,200}$/;
const FOLLOWING = /\.(rollback|reconcile)$/;
/** Headers of a call that no profile may set: ours, or those that an HTTP client sets by itself. */
export const OWN_HEADERS: readonly string[] = [
  ...['content-type', 'content-length', 'host', 'connection', 'transfer-encoding', 'accept-encoding'],
  ...Object.values(WALLET_HEADERS),
];

/** Why this cannot be the op_id of a new call; undefined where it can. It is the value of a header. */
export function opIdFault(opId: string): string | undefined {
  if (!OP_ID.test(opId)) return 'the op_id is not 1 to 200 visible ASCII characters';
  return FOLLOWING.test(opId) ? 'the op_id ends like those of our own rollbacks and reconciles' : undefined;
}

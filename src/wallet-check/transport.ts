/** Sends one call to a wallet, each on a connection of its own, and may break the connection on purpose. */
import { createHmac, randomUUID } from 'node:crypto';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { WalletAction } from '../contract/actions';
import { LIMITS, WALLET_HEADERS } from '../contract/limits';
import { readUpTo } from '../lib/read-limited';
import { MAX_REPLY_BYTES, type WalletReply } from '../wallet/answer';
import type { TimestampForm, WalletProfile } from './profile';
import type { Cut } from './scenario';
import { type PayloadJson, UNKNOWN_FIELD } from './template';

export interface TransportOptions {
  /** The value of the idempotency header. */
  readonly opId: string;
  readonly path: string;
  /** Sent in place of the envelope. */
  readonly rawBody?: string | undefined;
  readonly wrongSignature?: boolean | undefined;
  /** Adds a field to the envelope that no contract knows. */
  readonly unknownFields?: boolean | undefined;
  readonly cut?: Cut | undefined;
}

/** Never rejects: a call without a reply has a reply of the type `nothing`. */
export interface WalletTransport {
  call(action: WalletAction, payload: PayloadJson, options: TransportOptions): Promise<WalletReply>;
}

type TransportProfile = Pick<
  WalletProfile,
  'baseUrl' | 'operatorId' | 'keyId' | 'idempotencyHeader' | 'headers' | 'ts' | 'signing'
>;

/** @param secret of the signature; empty where the profile has none. @param stop ends calls in flight */
export function connectWallet(profile: TransportProfile, secret: string, stop: AbortSignal): WalletTransport {
  const base = profile.baseUrl.replace(/\/+$/, '');
  return {
    call(_action, payload, options) {
      const { opId, path, rawBody, wrongSignature = false, unknownFields = false, cut } = options;
      const now = Date.now();
      const requestId = randomUUID();
      const envelope = {
        request_id: requestId,
        ts: timestamp(profile.ts, now),
        operator_id: profile.operatorId,
      };
      const body = rawBody ?? JSON.stringify({ ...envelope, payload, ...(unknownFields && UNKNOWN_FIELD) });
      const url = new URL(`${base}${path}`);
      const headers = {
        'content-type': 'application/json',
        [WALLET_HEADERS.keyId]: profile.keyId,
        [WALLET_HEADERS.requestId]: requestId,
        [profile.idempotencyHeader]: opId,
        ...Object.fromEntries(profile.headers),
        ...signed(profile, wrongSignature ? `${secret}-wrong` : secret, now, url.pathname, body),
        'content-length': String(Buffer.byteLength(body)),
      };
      return exchange({ url, headers, body: Buffer.from(body), cut, stop });
    },
  };
}

function timestamp(form: TimestampForm, now: number): string | number {
  if (form === 'rfc3339') return new Date(now).toISOString();
  return form === 'unix_ms' ? now : Math.floor(now / 1_000);
}

function signed(
  { signing }: TransportProfile,
  secret: string,
  now: number,
  path: string,
  body: string,
): Record<string, string> {
  if (signing === null) return {};
  const values: Readonly<Record<string, string>> = { timestamp: String(Math.floor(now / 1_000)), path, body };
  const content = signing.content.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name: string) => values[name] ?? '');
  return {
    [signing.header]: createHmac('sha256', secret).update(content).digest(signing.encoding),
    ...(signing.timestampHeader !== null && { [signing.timestampHeader]: values.timestamp ?? '' }),
  };
}

interface Exchange {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly cut: Cut | undefined;
  readonly stop: AbortSignal;
}

/** Beyond the deadline of the contract, so that a reply at the deadline is still seen as one. */
const GIVE_UP_MS = LIMITS.wallet_answer.value + 500;

function exchange({ url, headers, body, cut, stop }: Exchange): Promise<WalletReply> {
  return new Promise((resolve) => {
    let startedAt = performance.now();
    const send = url.protocol === 'https:' ? requestHttps : requestHttp;
    const request = send(url, { method: 'POST', headers, agent: false });
    const end = (reply: WalletReply) => {
      clearTimeout(timer);
      stop.removeEventListener('abort', interrupt);
      request.destroy();
      resolve(reply);
    };
    const interrupt = () => end({ type: 'nothing', cause: 'interrupted' });
    const timer = setTimeout(() => end({ type: 'nothing', cause: 'timeout' }), GIVE_UP_MS);
    stop.addEventListener('abort', interrupt);
    if (stop.aborted) interrupt();
    request.on('error', () => end({ type: 'nothing', cause: 'unreachable' }));
    request.on('socket', (socket) => {
      socket.once('connect', () => {
        startedAt = performance.now();
      });
    });
    request.on('response', (response) => {
      if (cut === 'at_reply') interrupt();
      else readReply(response, startedAt).then(end, interrupt);
    });
    if (cut === 'half_request') {
      // The connection breaks once the half is in the hands of the kernel, which still delivers it.
      request.write(body.subarray(0, body.length >> 1), () => interrupt());
    } else {
      request.end(body, () => {
        if (cut === 'after_request') interrupt();
      });
    }
  });
}

async function readReply(response: IncomingMessage, startedAt: number): Promise<WalletReply> {
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : value,
    ]),
  );
  const body = await readBody(response);
  return { type: 'http', status: response.statusCode ?? 0, headers, body, ms: performance.now() - startedAt };
}

async function readBody(response: IncomingMessage): Promise<Uint8Array | 'too_large' | 'cut_off'> {
  try {
    return (await readUpTo(response, MAX_REPLY_BYTES)) ?? 'too_large';
  } catch {
    return 'cut_off'; // the connection broke before the end of the body
  }
}

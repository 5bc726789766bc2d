/** Sends one call to a wallet as the service does, or breaks its connection on purpose. */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { LIMITS } from '../contract/limits';
import type { WalletReply } from '../wallet/answer';
import { readReplyBody, sendRequest } from '../wallet/client';
import type { CallProfile } from '../wallet/profile';
import { buildRequest, type HttpRequest } from '../wallet/request';
import type { Cut } from './scenario';
import { UNKNOWN_FIELD } from './written-call';

/** One call, and how it is sent. */
export interface TransportOptions {
  /** The value of the idempotency header. */
  readonly opId: string;
  /** JSON. */
  readonly payload: string;
  readonly path: string;
  /** Sent in place of the envelope. */
  readonly rawBody?: string | undefined;
  readonly wrongSignature?: boolean | undefined;
  /** Adds a field to the envelope that no contract knows. */
  readonly unknownFields?: boolean | undefined;
  /** Uses no connection of an earlier call. */
  readonly newConnection?: boolean | undefined;
  readonly cut?: Cut | undefined;
}

/** Never rejects: a call without a reply has a reply of the type `nothing`. */
export interface WalletTransport {
  call(options: TransportOptions): Promise<WalletReply>;
}

/**
 * Builds each request as the service does, and sends it by the service's client. Only calls that break their
 * connection, or need one of their own, are sent from here.
 *
 * @param secret of the signature; empty where the profile has none. @param stop ends calls in flight
 * @param deadlineMs shorter for tests
 */
export function connectWallet(
  profile: CallProfile,
  secret: string,
  stop: AbortSignal,
  deadlineMs: number = LIMITS.wallet_answer.value,
): WalletTransport {
  return {
    async call(options) {
      const { cut, newConnection = false } = options;
      const request = requestOf(profile, secret, options);
      if (cut === undefined && !newConnection)
        return (await sendRequest(request, { monotonicNow, deadlineMs }, stop)).reply;
      return exchange({ request, cut, stop, deadlineMs });
    },
  };
}

/** The code of the network's error, such as ECONNREFUSED. Null where the wallet answers anything at all. */
export async function whyUnreachable(
  profile: CallProfile,
  secret: string,
  path: string,
  stop: AbortSignal,
  deadlineMs: number = LIMITS.wallet_answer.value,
): Promise<string | null> {
  const request = requestOf(profile, secret, { opId: 'wallet-check', payload: '{}', path });
  const { reply, networkCode } = await sendRequest(request, { monotonicNow, deadlineMs }, stop);
  return reply.type === 'nothing' && reply.cause === 'timeout' ? 'no answer within 5 s' : networkCode;
}

const monotonicNow = () => performance.now();

function requestOf(
  profile: CallProfile,
  secret: string,
  { opId, payload, path, rawBody, wrongSignature = false, unknownFields = false }: TransportOptions,
): HttpRequest {
  return buildRequest(
    profile,
    path,
    { opId, requestId: randomUUID(), payload },
    Date.now(),
    () => Buffer.from(wrongSignature ? `${secret}-wrong` : secret),
    (body) => rawBody ?? (unknownFields ? withUnknownField(body) : body),
  );
}

/** An object as text, with a field more at its end. */
function withUnknownField(body: string): string {
  return `${body.slice(0, -1)},${JSON.stringify(UNKNOWN_FIELD).slice(1)}`;
}

interface Exchange {
  readonly request: HttpRequest;
  readonly cut: Cut | undefined;
  readonly stop: AbortSignal;
  readonly deadlineMs: number;
}

function exchange({
  request: { url, headers, body: text },
  cut,
  stop,
  deadlineMs,
}: Exchange): Promise<WalletReply> {
  const body = Buffer.from(text);
  return new Promise((resolve) => {
    let startedAt = performance.now();
    const send = url.protocol === 'https:' ? requestHttps : requestHttp;
    const request = send(url, {
      method: 'POST',
      headers: { ...headers, 'content-length': String(body.length) },
      agent: false,
    });
    const end = (reply: WalletReply) => {
      clearTimeout(timer);
      stop.removeEventListener('abort', interrupt);
      request.destroy();
      resolve(reply);
    };
    const interrupt = () => end({ type: 'nothing', cause: 'interrupted' });
    const timer = setTimeout(() => end({ type: 'nothing', cause: 'timeout' }), deadlineMs);
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
  const body = await readReplyBody(response);
  return { type: 'http', status: response.statusCode ?? 0, headers, body, ms: performance.now() - startedAt };
}

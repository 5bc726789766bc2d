/**
 * Answers to bytes that are not a whole request. They are written to the socket, as Node offers no response
 * object.
 */
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { DropReason } from './refusal-log';
import { type Refusal, refusal } from './responses';

/** The first byte of a TLS handshake. */
const TLS_HANDSHAKE = 0x16;

export interface Failure {
  readonly why: DropReason;
  readonly refusal: Refusal;
}

export const FAILURES = {
  late: refusal('invalid request', 'the request was not complete in time; send it again', 408),
  largeHead: refusal('invalid request', 'its headers are too large', 431),
  tls: refusal('invalid request', 'this port speaks HTTP without TLS; a proxy in front of it ends TLS'),
  http2: refusal('invalid request', 'this port speaks HTTP/1.1 and not HTTP/2'),
  connect: refusal('invalid request', 'send events by POST', 405),
  notHttp: refusal('invalid request', 'the bytes are not HTTP'),
} as const;

export const CONNECT: Failure = { why: 'connect', refusal: FAILURES.connect };

export const LATE_BODY: Failure = { why: 'late_body', refusal: FAILURES.late };

/** Error codes for a sender that has gone, or has ended its side in the middle of a request. */
const GONE: readonly unknown[] = ['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'HPE_INVALID_EOF_STATE'];

/** @param hasBegun whether the head of a request has arrived. @returns null if the sender has gone */
export function failureOf(error: Error, hasBegun: boolean): Failure | null {
  const code = 'code' in error ? error.code : undefined;
  if (GONE.includes(code)) return null;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return hasBegun ? LATE_BODY : { why: 'late_head', refusal: FAILURES.late };
  if (code === 'HPE_HEADER_OVERFLOW') return { why: 'large_head', refusal: FAILURES.largeHead };
  const packet: unknown = 'rawPacket' in error ? error.rawPacket : undefined;
  if (Buffer.isBuffer(packet) && packet[0] === TLS_HANDSHAKE && !hasBegun)
    return { why: 'tls', refusal: FAILURES.tls };
  if (code === 'HPE_PAUSED_H2_UPGRADE') return { why: 'http2', refusal: FAILURES.http2 };
  // The reason is the parser's own text: it repeats no bytes of the sender.
  const reason = 'reason' in error && typeof error.reason === 'string' ? `: ${error.reason}` : '';
  const { token, text } = FAILURES.notHttp;
  return { why: 'not_http', refusal: refusal(token, `${text}${reason}`) };
}

/** Writes an answer and ends the connection. */
export function answerRaw(socket: Socket, { status, body }: Refusal, requestId: string): void {
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    ...['connection: close', 'content-type: application/json', 'cache-control: no-store'],
    ...[`content-length: ${Buffer.byteLength(body)}`, `x-request-id: ${requestId}`],
  ];
  // There is no wait for the peer to read the answer.
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  socket.destroySoon();
}

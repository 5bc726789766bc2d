/** HTTP as bytes over a socket: requests that no client library would send. */
import { createHmac, randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { within } from '../../dev/servers/deadline';

const CLOSED_WITHIN_MS = 60_000;

/** A connection, and the bytes received over it. */
export interface Line {
  readonly socket: Socket;
  text(): string;
  /** Statuses of the answers so far. */
  statuses(): number[];
  /** Resolves with all received bytes, once the other side has ended the connection. */
  closed(): Promise<string>;
}

export function dial(port: number, host = '127.0.0.1'): Line {
  const socket = connect(port, host);
  let text = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part;
  });
  // A connection that is cut off ends with a reset.
  socket.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return {
    socket,
    text: () => text,
    statuses: () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status)),
    async closed() {
      await within('the connection is ended', CLOSED_WITHIN_MS, ended);
      return text;
    },
  };
}

export interface RawRequest {
  readonly connectionId: string;
  /** `whsec_...` */
  readonly secret: string;
  readonly body: string;
  /** Absent: that of events. */
  readonly path?: string;
  /** Further lines of its head. */
  readonly more?: readonly string[];
}

/** The head of a signed request. Its body follows. */
export function signedHead({ connectionId, secret, body, more = [], ...rest }: RawRequest): string {
  const { path = `/v1/events/${connectionId}` } = rest;
  const id = `msg_${randomUUID()}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  const lines = [
    `POST ${path} HTTP/1.1`,
    ...['host: here', 'content-type: application/json', `content-length: ${Buffer.byteLength(body)}`],
    ...[`webhook-id: ${id}`, `webhook-timestamp: ${timestamp}`, `webhook-signature: v1,${signature}`],
    ...more,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

export const signedText = (request: RawRequest): string => signedHead(request) + request.body;

/** Senders that keep their connections, and send the next request once the last one is answered. */
import { Agent, request } from 'node:http';
import { sign } from '../../src/webhook/signature';
import type { FeedMessage } from './feed';

export interface Recipient {
  readonly port: number;
  readonly connectionId: string;
  readonly secret: Buffer;
}

export interface SentRequests {
  /** Time from each request that was answered 200 to its answer. */
  readonly latenciesMs: readonly number[];
  /** Requests with any other answer. */
  readonly refused: number;
}

/** @returns the status of the answer. @throws where there is none */
export function post(
  { port, connectionId, secret }: Recipient,
  body: Buffer,
  { agent, withinMs }: { readonly agent: Agent; readonly withinMs?: number },
): Promise<number> {
  const head = { id: 'msg_bench', timestamp: String(Math.floor(Date.now() / 1000)) };
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        agent,
        port,
        host: '127.0.0.1',
        method: 'POST',
        path: `/v1/events/${connectionId}`,
        ...(withinMs !== undefined && { signal: AbortSignal.timeout(withinMs) }),
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          'webhook-id': head.id,
          'webhook-timestamp': head.timestamp,
          'webhook-signature': sign(secret, head, body),
        },
      },
      (answer) => {
        answer.resume().once('end', () => resolve(answer.statusCode ?? 0));
      },
    );
    outgoing.once('error', reject).end(body);
  });
}

/** @param size events of a request */
export async function sendFromAll(
  recipient: Recipient,
  feed: Iterator<FeedMessage>,
  { size, senders, seconds }: { readonly size: number; readonly senders: number; readonly seconds: number },
): Promise<SentRequests> {
  const agent = new Agent({ keepAlive: true, maxSockets: senders });
  const latenciesMs: number[] = [];
  let refused = 0;
  const end = performance.now() + seconds * 1000;
  const one = async () => {
    while (performance.now() < end) {
      const body = nextBody(feed, size);
      const began = performance.now();
      if ((await post(recipient, body, { agent })) === 200) latenciesMs.push(performance.now() - began);
      else refused++;
    }
  };
  await Promise.all(Array.from({ length: senders }, one));
  agent.destroy();
  return { latenciesMs, refused };
}

function nextBody(feed: Iterator<FeedMessage>, size: number): Buffer {
  const events: string[] = [];
  while (events.length < size) {
    const { value, done } = feed.next();
    if (done) throw new Error('the feed has ended');
    events.push(value.value);
  }
  return Buffer.from(size === 1 ? (events[0] ?? '') : `{"events":[${events.join()}]}`);
}

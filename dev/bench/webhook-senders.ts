/** Senders that keep their connections, and send the next request once the last one is answered. */
import { Agent, request } from 'node:http';
import { sign } from '../../src/webhook/signature';
import type { FeedMessage } from './feed';

export interface SendersOptions {
  readonly port: number;
  readonly connectionId: string;
  readonly secret: Buffer;
  readonly feed: Iterator<FeedMessage>;
  /** Events of a request. */
  readonly size: number;
}

export interface SentRequests {
  /** Time from each request that was answered 200 to its answer. */
  readonly latenciesMs: readonly number[];
  /** Requests with any other answer. */
  readonly refused: number;
}

export function makeSenders({ port, connectionId, secret, feed, size }: SendersOptions) {
  const latenciesMs: number[] = [];
  let refused = 0;

  function nextBody(): Buffer {
    const events: string[] = [];
    while (events.length < size) {
      const { value, done } = feed.next();
      if (done) throw new Error('the feed has ended');
      events.push(value.value);
    }
    return Buffer.from(size === 1 ? (events[0] ?? '') : `{"events":[${events.join()}]}`);
  }

  function send(agent: Agent, body: Buffer): Promise<number> {
    return new Promise((resolve, reject) => {
      const head = { id: 'msg_bench', timestamp: String(Math.floor(Date.now() / 1000)) };
      const outgoing = request(
        {
          ...{ agent, port, host: '127.0.0.1', method: 'POST', path: `/v1/events/${connectionId}` },
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

  return {
    async run(senders: number, seconds: number): Promise<SentRequests> {
      const agent = new Agent({ keepAlive: true, maxSockets: senders });
      const end = performance.now() + seconds * 1000;
      const one = async () => {
        while (performance.now() < end) {
          const body = nextBody();
          const began = performance.now();
          if ((await send(agent, body)) === 200) latenciesMs.push(performance.now() - began);
          else refused++;
        }
      };
      await Promise.all(Array.from({ length: senders }, one));
      agent.destroy();
      return { latenciesMs, refused };
    },
  };
}

/** Requests with the verdicts of several batches: those that go together, and those that wait for nothing. */
import { setImmediate as turn } from 'node:timers/promises';
import { MOST_ITEMS, makeJointRequests, VerdictSupply } from '../../../src/publishing/joint-requests';

/** A clock that moves by `pass` alone. */
class HandClock {
  private time = 1_000;
  private due: { readonly at: number; readonly run: () => void } | undefined;

  now(): number {
    return this.time;
  }

  after(ms: number, run: () => void): number {
    this.due = { at: this.time + ms, run };
    return 1;
  }

  cancel(): void {
    this.due = undefined;
  }

  async pass(ms: number): Promise<void> {
    const end = this.time + ms;
    for (let next = this.due; next !== undefined && next.at <= end; next = this.due) {
      this.time = next.at;
      this.due = undefined;
      next.run();
      await turn();
    }
    this.time = end;
  }
}

function scene() {
  const supply = new VerdictSupply();
  const clock = new HandClock();
  const requests: string[] = [];
  const answers: { resolve(): void; reject(error: Error): void }[] = [];
  const sendToTopics = makeJointRequests<string>(
    (byTopic) => {
      const items = [...byTopic.values()].flat();
      requests.push(items.length > 9 ? `${items.length} items` : items.join(' '));
      return new Promise((resolve, reject) => {
        answers.push({ resolve: () => resolve(byTopic), reject });
      });
    },
    supply,
    clock,
  );
  const send = (items: readonly string[]) => sendToTopics(new Map([['t', items]]));
  const answer = async (error?: Error) => {
    const next = answers.shift();
    if (error === undefined) next?.resolve();
    else next?.reject(error);
    await turn();
  };
  return { clock, supply, requests, send, sendToTopics, answer };
}

test('the first batch is sent at once, and those that come meanwhile go together, in their order [S9]', async () => {
  const { requests, send, answer } = scene();
  const first = send(['a']);
  const others = [send(['b', 'c']), send(['d'])];
  expect(requests).toEqual(['a']);
  await answer();
  expect((await first).get('t')).toEqual(['a']);
  expect(requests).toEqual(['a', 'b c d']);
  await answer();
  for (const other of others) expect((await other).get('t')).toEqual(['b', 'c', 'd']);
});

test('batches that go together keep their order in each topic [S9]', async () => {
  const { requests, send, sendToTopics, answer } = scene();
  void send(['a']);
  void sendToTopics(new Map(Object.entries({ t: ['b'], u: ['c'] })));
  void sendToTopics(new Map(Object.entries({ u: ['d'], t: ['e'] })));
  await answer();
  expect(requests).toEqual(['a', 'b e c d']);
});

test('a request has a limited number of verdicts, unless they are of one batch', async () => {
  const { requests, send, answer } = scene();
  const batch = (length: number) => Array.from({ length }, () => 'x');
  void send(['a']);
  for (const length of [MOST_ITEMS - 10, 10, 11, MOST_ITEMS + 1]) void send(batch(length));
  await answer();
  expect(requests).toEqual(['a', `${MOST_ITEMS} items`]);
  await answer();
  await answer();
  expect(requests.slice(2)).toEqual(['11 items', `${MOST_ITEMS + 1} items`]);
});

test('a request without an answer holds others up for half a second, and no longer', async () => {
  const { clock, requests, send } = scene();
  void send(['a']);
  void send(['b']);
  await clock.pass(499);
  expect(requests).toEqual(['a']);
  await clock.pass(1);
  expect(requests).toEqual(['a', 'b']);
});

test('a request that fails fails the batches in it, and the next one goes on', async () => {
  const { requests, send, answer } = scene();
  void send(['a']);
  const failing = Promise.allSettled([send(['b']), send(['c'])]);
  await answer();
  const next = send(['d']);
  await answer(new Error('gone'));
  expect((await failing).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await answer();
  await next;
  expect(requests).toEqual(['a', 'b c', 'd']);
});

describe('while more verdicts come soon', () => {
  const batch = (length: number) => Array.from({ length }, () => 'x');

  test('a request waits until it has 8,000', async () => {
    const { supply, requests, send } = scene();
    supply.set(true);
    void send(batch(4_000));
    void send(batch(3_999));
    expect(requests).toEqual([]);
    void send(['x']);
    expect(requests).toEqual(['8000 items']);
  });

  test('a request waits until no more come', async () => {
    const { supply, requests, send } = scene();
    supply.set(true);
    void send(['a']);
    supply.set(true);
    void send(['b']);
    expect(requests).toEqual([]);
    supply.set(false);
    expect(requests).toEqual(['a b']);
    void send(['c']);
    expect(requests).toEqual(['a b']);
  });

  test('a request waits for half a second, and no longer', async () => {
    const { clock, supply, requests, send } = scene();
    supply.set(true);
    void send(['a']);
    await clock.pass(300);
    void send(['b']);
    await clock.pass(199);
    expect(requests).toEqual([]);
    await clock.pass(1);
    expect(requests).toEqual(['a b']);
  });

  test('the next request waits as well, from its own first verdict on', async () => {
    const { clock, supply, requests, send, answer } = scene();
    void send(['a']);
    supply.set(true);
    await clock.pass(100);
    void send(['b']);
    await answer();
    await clock.pass(499);
    expect(requests).toEqual(['a']);
    await clock.pass(1);
    expect(requests).toEqual(['a', 'b']);
  });
});

/** Requests with the verdicts of several batches: those that go together, and those that wait for nothing. */
import { setImmediate as turn } from 'node:timers/promises';
import { MANY_ITEMS, makeJointRequests } from '../../../src/publishing/joint-requests';

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

function scene({ topics = 100 } = {}) {
  const clock = new HandClock();
  const requests: string[] = [];
  const answers: { resolve(): void; reject(error: Error): void }[] = [];
  const send = makeJointRequests<string>((items) => {
    requests.push(items.length > 9 ? `${items.length} items` : items.join(' '));
    return new Promise((resolve, reject) => {
      answers.push({ resolve: () => resolve({ unsent: new Map([['t', items]]), topics }), reject });
    });
  }, clock);
  const answer = async (error?: Error) => {
    const next = answers.shift();
    if (error === undefined) next?.resolve();
    else next?.reject(error);
    await turn();
  };
  return { clock, requests, send, answer };
}

test('the first batch is sent at once, and those that come meanwhile go together, in their order [S9]', async () => {
  const { clock, requests, send, answer } = scene();
  const first = send(['a']);
  const others = [send(['b', 'c']), send(['d'])];
  expect(requests).toEqual(['a']);
  await answer();
  expect((await first).unsent.get('t')).toEqual(['a']);
  await clock.pass(40);
  expect(requests).toEqual(['a', 'b c d']);
  await answer();
  for (const other of others) expect((await other).unsent.get('t')).toEqual(['b', 'c', 'd']);
});

test('requests begin as many milliseconds apart as the last one had topics, and at most 200', async () => {
  for (const [topics, apart] of [
    [3, 3],
    [120, 120],
    [5_000, 200],
  ] as const) {
    const { clock, requests, send, answer } = scene({ topics });
    void send(['a']);
    await answer();
    let passed = 0;
    // Batches that come all the time: nothing ends the wait but its own end.
    for (; requests.length < 2; passed++) {
      void send([`b${passed}`]);
      await clock.pass(1);
    }
    expect(passed).toBe(apart);
  }
});

test('where nothing more comes, a batch waits no longer than 40 ms, and after a pause for nothing', async () => {
  const { clock, requests, send, answer } = scene({ topics: 200 });
  void send(['a']);
  await answer();
  void send(['b']);
  await clock.pass(39);
  expect(requests).toEqual(['a']);
  await clock.pass(1);
  expect(requests).toEqual(['a', 'b']);
  await answer();
  await clock.pass(200);
  void send(['c']);
  expect(requests).toEqual(['a', 'b', 'c']);
});

test('many verdicts wait for no time, and a request has no more of them, unless they are of one batch', async () => {
  const { requests, send, answer } = scene({ topics: 200 });
  const batch = (length: number) => Array.from({ length }, () => 'x');
  void send(['a']);
  for (const length of [MANY_ITEMS - 10, 10, 11, MANY_ITEMS + 1]) void send(batch(length));
  await answer();
  expect(requests).toEqual(['a', `${MANY_ITEMS} items`]);
  await answer();
  await answer();
  expect(requests.slice(2)).toEqual(['11 items', `${MANY_ITEMS + 1} items`]);
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
  const { clock, requests, send, answer } = scene();
  void send(['a']);
  const failing = Promise.allSettled([send(['b']), send(['c'])]);
  await answer();
  await clock.pass(40);
  const next = send(['d']);
  await answer(new Error('gone'));
  expect((await failing).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await clock.pass(40);
  await answer();
  expect([requests, (await next).topics]).toEqual([['a', 'b c', 'd'], 100]);
});

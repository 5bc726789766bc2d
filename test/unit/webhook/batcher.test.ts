import { AsyncLocalStorage } from 'node:async_hooks';
import { sleep } from '../../../dev/servers/deadline';
import { systemClock } from '../../../src/lib/clock';
import { Batcher } from '../../../src/webhook/batcher';

interface Request {
  readonly name: string;
  readonly events: readonly number[];
  readonly bytes: number;
  readonly values: number;
}

const request = (name: string, events = 1, bytes = 100): Request => ({
  name,
  events: Array.from({ length: events }, (_, n) => n),
  bytes,
  values: events,
});

/** Slots whose turns the test ends. */
function makeTurns(count: number, withinMs = 5_000) {
  const begun: { turn: string; end: (isWhole?: boolean) => void; fail: () => void }[] = [];
  let passedMs = 0;
  const batcher = new Batcher<Request, string>({
    clock: { ...systemClock, now: () => systemClock.now() + passedMs },
    count,
    busy: 'busy',
    beyondShare: 'beyond its share',
    decide: (connection, requests) =>
      new Promise((resolve, reject) => {
        begun.push({
          turn: `${connection}: ${requests.map(({ name }) => name).join(' ')}`,
          end: (isWhole = true) =>
            resolve({ answers: requests.map(({ name }) => `answer to ${name}`), isWhole }),
          fail: () => reject(new Error('failed')),
        });
      }),
  });
  const decide = (connection: string, asked: Request) => batcher.decide(connection, asked, withinMs);
  /** Moves the time, but no timer. */
  const pass = (ms: number) => {
    passedMs += ms;
  };
  return { decide, begun, pass, turns: () => begun.map(({ turn }) => turn) };
}

const settled = () => sleep(1);
const MEBIBYTE = 1024 ** 2;

test('a request is decided at once where a slot is free, and waiting ones are decided together [W3]', async () => {
  const { decide, begun, turns } = makeTurns(1);
  const answers = ['a', 'b', 'c'].map((name) => decide('hook', request(name)));
  expect(turns()).toEqual(['hook: a']);
  begun[0]?.end();
  await settled();
  expect(turns()).toEqual(['hook: a', 'hook: b c']);
  begun[1]?.end();
  expect(await Promise.all(answers)).toEqual(['answer to a', 'answer to b', 'answer to c']);
});

test.each([
  ['a thousand events', { first: 1, b: 999, c: 1, d: 1, e: 5_000, f: 1 }, request],
  [
    'four MiB',
    { first: 1, b: 3 * MEBIBYTE, c: MEBIBYTE, d: 1, e: 8 * MEBIBYTE, f: 1 },
    (name: string, bytes: number) => request(name, 1, bytes),
  ],
])('a batch has at most %s, except for a single larger request', async (_, sizes, sized) => {
  const { decide, begun, turns } = makeTurns(1);
  const answers = Object.entries(sizes).map(([name, size]) => decide('hook', sized(name, size)));
  for (let turn = 0; turn < 5; turn++) {
    begun[turn]?.end();
    await settled();
  }
  expect(turns()).toEqual(['hook: first', 'hook: b c', 'hook: d', 'hook: e', 'hook: f']);
  await Promise.all(answers);
});

test('after a failure requests are decided one by one, and then in batches that double again', async () => {
  const { decide, begun, turns } = makeTurns(1);
  const names = Array.from({ length: 11 }, (_, index) => `${index}`);
  const answers = names.map((name) => decide('hook', request(name)));
  begun[0]?.end(false);
  await settled();
  for (let turn = 1; turn < 6; turn++) {
    begun[turn]?.end(turn > 1);
    await settled();
  }
  expect(turns()).toEqual(['hook: 0', 'hook: 1', 'hook: 2', 'hook: 3 4', 'hook: 5 6 7 8', 'hook: 9 10']);
  await Promise.all(answers);
});

test('connections take turns, however much one of them sends', async () => {
  const { decide, begun, turns } = makeTurns(1);
  const answers = [
    decide('loud', request('first')),
    ...[1, 2, 3].map((n) => decide('loud', request(`loud-${n}`, 1_000))),
    ...[1, 2].map((n) => decide('quiet', request(`quiet-${n}`))),
  ];
  for (let turn = 0; turn < 5; turn++) {
    begun[turn]?.end();
    await settled();
  }
  expect(turns()).toEqual([
    'loud: first',
    'loud: loud-1',
    'quiet: quiet-1 quiet-2',
    'loud: loud-2',
    'loud: loud-3',
  ]);
  await Promise.all(answers);
});

test('one connection has all slots but one, and all slots are used [W8]', async () => {
  const { decide, begun, turns } = makeTurns(3);
  const answers = ['a', 'b', 'c', 'd'].map((name) => decide('loud', request(name)));
  expect(turns()).toEqual(['loud: a', 'loud: b']);
  answers.push(decide('quiet', request('e')), decide('quiet', request('f')));
  expect(turns()).toEqual(['loud: a', 'loud: b', 'quiet: e']);
  begun[2]?.end();
  await settled();
  // The quiet connection has its turn before the loud one exceeds its share.
  expect(turns()).toEqual(['loud: a', 'loud: b', 'quiet: e', 'quiet: f']);
  begun[1]?.end();
  await settled();
  expect(turns().at(-1)).toBe('loud: c d');
  for (const { end } of begun) end();
  await Promise.all(answers);
});

test('a request times out for the share of its connection, or for a slot, with different answers [W3] [W8]', async () => {
  const { decide, begun } = makeTurns(2, 50);
  const first = decide('loud', request('a'));
  const other = decide('quiet', request('b'));
  expect(await decide('loud', request('c'))).toBe('busy');
  begun[1]?.end();
  await other;
  expect(await decide('loud', request('d'))).toBe('beyond its share');
  begun[0]?.end();
  expect(await first).toBe('answer to a');
});

test('a connection alone that waits for a slow store is not beyond its share, though a slot is free [W3] [W8]', async () => {
  const { decide, begun } = makeTurns(2, 50);
  const first = decide('alone', request('a'));
  expect(await decide('alone', request('b'))).toBe('busy');
  begun[0]?.end();
  expect(await first).toBe('answer to a');
});

test('while several connections are active, each has an equal share of the slots and smaller batches [W8]', async () => {
  const { decide, begun, turns } = makeTurns(4);
  const answers = [decide('quiet', request('q'))];
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) answers.push(decide('loud', request(name, 60)));
  expect(turns()).toEqual(['quiet: q', 'loud: a', 'loud: b']);
  begun[1]?.end();
  await settled();
  // Two of them would have more than a hundred events.
  expect(turns().at(-1)).toBe('loud: c');
  for (let turn = 0; turn < 8; turn++) {
    begun[turn]?.end();
    await settled();
  }
  await Promise.all(answers);
});

test.each([
  [
    'a tenth of four MiB',
    { b: 300, c: 109 },
    200,
    (name: string, kib: number) => request(name, 1, kib * 1024),
  ],
  ['2,000 values', { b: 1_500, c: 500 }, 1, (name: string, values: number) => ({ ...request(name), values })],
])('while several connections are active, a batch has at most %s [W8]', async (_, whole, more, sized) => {
  const { decide, begun, turns } = makeTurns(2);
  const answers = [decide('quiet', request('q')), decide('loud', request('a'))];
  for (const [name, size] of Object.entries({ ...whole, d: more }))
    answers.push(decide('loud', sized(name, size)));
  begun[1]?.end();
  await settled();
  expect(turns().at(-1)).toBe('loud: b c');
  begun[2]?.end();
  await settled();
  for (const { end } of begun) end();
  await Promise.all(answers);
  expect(turns().at(-1)).toBe('loud: d');
});

test('a connection is active while its batches run, and for a second after its last request [W8]', async () => {
  const { decide, begun, pass, turns } = makeTurns(4);
  const answers = ['q', 'r', 's', 't'].map((name) => decide('slow', request(name)));
  expect(turns()).toEqual(['slow: q', 'slow: r', 'slow: s']);
  pass(2_000);
  answers.push(decide('loud', request('a')), decide('loud', request('b')));
  begun[0]?.end();
  await settled();
  // Each has half of the slots, although the slow connection has had its turn for longer.
  expect(turns().slice(3)).toEqual(['loud: a', 'loud: b']);
  for (const { end } of begun) end();
  await settled();
  begun[5]?.end();
  await Promise.all(answers);
  pass(2_000);
  const more = ['c', 'd', 'e', 'f'].map((name) => decide('loud', request(name)));
  expect(turns().slice(5)).toEqual(['slow: t', 'loud: c', 'loud: d', 'loud: e']);
  for (const { end } of begun) end();
  await settled();
  begun.at(-1)?.end();
  await Promise.all(more);
});

test('a request that has waited too long is decided where another connection has left its share [W3] [W8]', async () => {
  const { decide, begun, pass, turns } = makeTurns(4, 50);
  const other = decide('quiet', request('q'));
  begun[0]?.end();
  await other;
  const answers = ['a', 'b', 'c'].map((name) => decide('loud', request(name)));
  expect(turns().slice(1)).toEqual(['loud: a', 'loud: b']);
  pass(2_000);
  await sleep(100);
  expect(turns().slice(1)).toEqual(['loud: a', 'loud: b', 'loud: c']);
  for (const { end } of begun) end();
  expect(await Promise.all(answers)).toEqual(['answer to a', 'answer to b', 'answer to c']);
});

test('a request that has its slot is answered, however long its batch takes [W3]', async () => {
  const { decide, begun, turns } = makeTurns(1, 50);
  const answers = ['a', 'b'].map((name) => decide('hook', request(name)));
  begun[0]?.end();
  await settled();
  expect(turns()).toEqual(['hook: a', 'hook: b']);
  await sleep(100);
  begun[1]?.end();
  expect(await Promise.all(answers)).toEqual(['answer to a', 'answer to b']);
});

test('a connection whose requests have waited too long takes no slot [W3]', async () => {
  const { decide, begun, turns } = makeTurns(1, 50);
  const first = decide('hook', request('a'));
  expect(await Promise.all([decide('hook', request('b')), decide('other', request('c'))])).toEqual([
    'busy',
    'busy',
  ]);
  begun[0]?.end();
  await first;
  for (const [turn, connection] of ['hook', 'other'].entries()) {
    const next = decide(connection, request('d'));
    expect(turns().at(-1)).toBe(`${connection}: d`);
    begun[turn + 1]?.end();
    expect(await next).toBe('answer to d');
  }
});

test('a batch has at most the JSON values of one request', async () => {
  const { decide, begun, turns } = makeTurns(1);
  const sized = (name: string, values: number) => ({ ...request(name), values });
  const answers = [decide('hook', request('a'))];
  for (const [name, values] of Object.entries({ b: 15_000, c: 5_000, d: 5_000, e: 15_001 }))
    answers.push(decide('hook', sized(name, values)));
  for (let turn = 0; turn < 4; turn++) {
    begun[turn]?.end();
    await settled();
  }
  expect(turns()).toEqual(['hook: a', 'hook: b c', 'hook: d', 'hook: e']);
  await Promise.all(answers);
});

test('a request that has waited too long is refused, and is no longer decided [W3]', async () => {
  const { decide, begun, turns } = makeTurns(1, 50);
  const first = decide('hook', request('a'));
  const late = [decide('hook', request('b')), decide('other', request('c'))];
  expect(await Promise.all(late)).toEqual(['busy', 'busy']);
  const next = decide('hook', request('d'));
  begun[0]?.end();
  await settled();
  expect(turns()).toEqual(['hook: a', 'hook: d']);
  begun[1]?.end();
  expect(await Promise.all([first, next])).toEqual(['answer to a', 'answer to d']);
});

test('a failure releases its slot, and reaches all requests of the batch', async () => {
  const { decide, begun, turns } = makeTurns(1);
  const answers = ['a', 'b', 'c'].map((name) => decide('hook', request(name)));
  begun[0]?.end();
  await settled();
  begun[1]?.fail();
  expect((await Promise.allSettled(answers)).map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
  ]);
  const next = decide('hook', request('d'));
  expect(turns().at(-1)).toBe('hook: d');
  begun[2]?.end();
  expect(await next).toBe('answer to d');
});

test('a batch runs in the context of its first request, so that its trace continues', async () => {
  const context = new AsyncLocalStorage<string>();
  const seen: (string | undefined)[] = [];
  const batcher = new Batcher<Request, string>({
    clock: systemClock,
    count: 1,
    busy: 'busy',
    beyondShare: 'beyond its share',
    async decide(_, requests) {
      seen.push(context.getStore());
      await settled();
      return { answers: requests.map(() => ''), isWhole: true };
    },
  });
  await Promise.all(
    ['a', 'b', 'c'].map((name) => context.run(name, () => batcher.decide('hook', request(name), 5_000))),
  );
  expect(seen).toEqual(['a', 'b']);
});

/** Log lines that are limited by their key. */
import { limitLines } from '../../../src/lib/line-limit';

function aLimit() {
  const lines: (readonly [message: string, line: object])[] = [];
  const write = (line: object, message: string) => void lines.push([message, line]);
  let now = 5_000;
  const log = limitLines({ info: write, warn: write, error: write }, { now: () => now });
  const say = (key: string) => log(key, {}, key);
  return {
    lines,
    say,
    later: (ms: number) => (now += ms),
    messages: () => lines.map(([message]) => message),
  };
}

it('a key has one line a minute, and the next line counts the suppressed ones', () => {
  const { lines, say, later } = aLimit();
  for (let n = 0; n < 40; n++) {
    say('a');
    if (n < 10) say('b');
  }
  later(59_999);
  say('a');
  later(1);
  say('a');
  say('b');
  later(60_000);
  say('a');
  expect(lines).toEqual([
    ['a', { suppressed: 0 }],
    ['b', { suppressed: 0 }],
    ['a', { suppressed: 40 }],
    ['b', { suppressed: 9 }],
    ['a', { suppressed: 0 }],
  ]);
});

it('all keys have a hundred lines a minute, and the next line counts those suppressed of other keys', () => {
  const { lines, say, later } = aLimit();
  for (let n = 0; n < 150; n++) say(`key ${n}`);
  expect(lines).toHaveLength(100);
  later(60_000);
  say('another');
  expect(lines.slice(100)).toEqual([['another', { suppressed: 0, suppressedOfOthers: 50 }]]);
});

it('at most a thousand keys are remembered, and suppressed lines of a forgotten key still count', () => {
  const { lines, say, later } = aLimit();
  const sayHundred = (minute: number) => {
    for (let n = 0; n < 100; n++) say(`${minute} ${n}`);
  };
  sayHundred(0);
  say('0 0');
  for (let minute = 1; minute <= 10; minute++) {
    later(60_000);
    sayHundred(minute);
  }
  expect(lines.slice(1_000, 1_002)).toEqual([
    ['10 0', { suppressed: 0 }],
    ['10 1', { suppressed: 0, suppressedOfOthers: 1 }],
  ]);
  later(60_000);
  say('0 0');
  expect(lines.at(-1)).toEqual(['0 0', { suppressed: 0 }]);
});

it('the remembered keys have at most 256 KiB, so that the oldest one gives way to long ones', () => {
  const { say, messages } = aLimit();
  const long = (n: number) => `${n}`.padEnd(16 * 1024);
  // A character may need two bytes, so eight of these keys are as much as is remembered.
  for (let n = 0; n < 8; n++) say(long(n));
  say(long(0));
  expect(messages()).toHaveLength(8);
  say('short');
  say(long(0));
  expect(messages().slice(8)).toEqual(['short', long(0)]);
});

/** Log lines that cannot be written: they wait up to a limit, and lines beyond it are counted. */
import { MAX_WAITING_LOG_BYTES, makeLogOutput } from '../../../src/telemetry/log-output';

jest.useFakeTimers();

/** A destination that accepts a number of bytes, and then fails. */
function destination() {
  let room = Number.POSITIVE_INFINITY;
  let code = 'EAGAIN';
  let tries = 0;
  let text = '';
  return {
    text: () => text,
    tries: () => tries,
    allow(bytes: number, otherwise = 'EAGAIN') {
      room = bytes;
      code = otherwise;
    },
    write(bytes: Buffer): number {
      tries++;
      if (room === 0) throw Object.assign(new Error(code), { code });
      const taken = Math.min(room, bytes.length);
      room -= taken;
      text += bytes.subarray(0, taken).toString();
      return taken;
    },
  };
}

const report = (lines: number, error: string) => `dropped ${lines} ${error}\n`;

test('a line is written at once, and a partly written one continues', () => {
  const to = destination();
  const output = makeLogOutput(to.write, report);
  output.write('one\n');
  expect(to.text()).toBe('one\n');
  to.allow(2);
  output.write('two\n');
  output.write('three\n');
  expect(to.text()).toBe('one\ntw');
  to.allow(Number.POSITIVE_INFINITY);
  jest.advanceTimersByTime(1_000);
  expect(to.text()).toBe('one\ntwo\nthree\n');
});

test.each(['EAGAIN', 'ENOSPC', 'EPIPE', 'EIO'])(
  '%s: lines wait up to a limit in bytes; the others are counted, and reported once lines can be written',
  (code) => {
    const to = destination();
    const output = makeLogOutput(to.write, report);
    let dropped = 0;
    output.onDropped(() => {
      dropped++;
    });
    to.allow(0, code);
    const line = `${'é'.repeat(500)}\n`;
    for (let n = 0; n < 3_000; n++) output.write(line);
    const kept = 3_000 - dropped;
    expect(dropped).toBeGreaterThan(1_500);
    expect(kept * Buffer.byteLength(line)).toBeLessThanOrEqual(MAX_WAITING_LOG_BYTES);
    to.allow(Number.POSITIVE_INFINITY);
    jest.advanceTimersByTime(1_000);
    expect(to.text()).toBe(`${line.repeat(kept)}dropped ${dropped} ${code}\n`);
    output.write('next\n');
    expect(to.text().endsWith(`${code}\nnext\n`)).toBe(true);
  },
);

test('tiny lines count with the memory that they take', () => {
  const to = destination();
  const output = makeLogOutput(to.write, report);
  let dropped = 0;
  output.onDropped(() => {
    dropped++;
  });
  to.allow(0);
  for (let n = 0; n < 20_000; n++) output.write('\n');
  expect(20_000 - dropped).toBeLessThan(10_000);
});

test('while lines wait, a new line causes no further try', () => {
  const to = destination();
  const output = makeLogOutput(to.write, report);
  to.allow(0, 'ENOSPC');
  for (let n = 0; n < 100; n++) output.write('line\n');
  expect(to.tries()).toBe(1);
});

test('the end of the process waits at most half a second for waiting lines', () => {
  jest.useRealTimers();
  const to = destination();
  const output = makeLogOutput(to.write, report);
  to.allow(0);
  output.write('last\n');
  const began = performance.now();
  output.flushSync();
  expect(performance.now() - began).toBeGreaterThan(400);
  expect(performance.now() - began).toBeLessThan(10_000);
  to.allow(Number.POSITIVE_INFINITY);
  output.flushSync();
  expect(to.text()).toBe('last\n');
});

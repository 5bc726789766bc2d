/** The progress of a command that reads a file, on a terminal and in a log. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeProgress } from '../../../src/cli/progress';

const directory = mkdtempSync(join(tmpdir(), 'progress-'));
const FILE = join(directory, 'events.ndjson');
const SIZE = 4_000;
writeFileSync(FILE, 'x'.repeat(SIZE));
afterAll(() => rmSync(directory, { recursive: true }));

const stderr = process.stderr;
const given = { isTTY: stderr.isTTY, columns: stderr.columns };
let written: string[];
beforeEach(() => {
  written = [];
  jest.useFakeTimers();
  jest.spyOn(stderr, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
});
afterEach(() => {
  Object.assign(stderr, given);
  jest.restoreAllMocks();
  jest.useRealTimers();
});

/** Reads a quarter of the file, and lets time pass. */
async function aQuarter(file: string, milliseconds: number): Promise<ReturnType<typeof makeProgress>> {
  const progress = makeProgress(file, () => '1,000 events: 990 accepted, 10 rejected');
  const chunks = (async function* () {
    yield Buffer.alloc(SIZE / 4);
  })();
  for await (const _ of progress.counted(chunks)) jest.advanceTimersByTime(milliseconds);
  return progress;
}

test('the progress on a terminal is a bar in one line, which the end and a message clear', async () => {
  Object.assign(stderr, { isTTY: true, columns: 200 });
  const progress = await aQuarter(FILE, 250);
  const bar = `[${'#'.repeat(6)}${' '.repeat(18)}] 25 %  1,000 events: 990 accepted, 10 rejected`;
  expect(written).toEqual(['\r\x1b[K', bar]);
  progress.report(': a notice');
  expect(written.slice(2)).toEqual(['\r\x1b[K', `${FILE}: a notice\n`]);
  progress.close();
  jest.advanceTimersByTime(10_000);
  expect(written.slice(4)).toEqual(['\r\x1b[K']);
});

test('the bar is shorter than a narrow terminal: a line that wraps would not be cleared', async () => {
  Object.assign(stderr, { isTTY: true, columns: 40 });
  (await aQuarter(FILE, 250)).close();
  expect(written[1]).toHaveLength(39);
});

test('standard input has a size that nobody knows, so its progress has no bar', async () => {
  Object.assign(stderr, { isTTY: true, columns: 200 });
  (await aQuarter('-', 250)).close();
  expect(written[1]).toBe('1,000 events: 990 accepted, 10 rejected');
});

test('without a terminal, the progress is a line from time to time, without control characters', async () => {
  Object.assign(stderr, { isTTY: false });
  const progress = await aQuarter(FILE, 5_000);
  progress.close();
  expect(written).toEqual([`${FILE}: 1,000 events: 990 accepted, 10 rejected, 25 % read\n`]);
});

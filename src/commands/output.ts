/** Standard output and standard error of a command: their readers may end first, stop reading, or have no room left. */
import { FAILED } from './exit-codes';

/** After a signal, results that nobody takes have this long. */
export const LAST_OUTPUT_WITHIN_MS = 2_000;

let isLost = false;
let isIncomplete = false;

/**
 * Lets a command go on to its end where its output cannot be written.
 *
 * Without this, `promo-intake reference apply FILE | head -1` could end in the middle of its work. A reader that ended has
 * what it wanted, so the exit code stays that of the work. Results that found no room make it FAILED.
 */
export function guardOutput(): void {
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (!isLost && code !== 'EPIPE') {
      isIncomplete = true;
      console.error(`standard output cannot be written (${code}): the results are incomplete`);
    }
    isLost = true;
  });
  // No stream is left that could report it.
  process.stderr.on('error', () => undefined);
  for (const stream of [process.stdout, process.stderr]) if (stream.isTTY) writeWithoutBlocking(stream);
}

/** Node writes to a terminal so that it waits: a terminal that is halted (Ctrl-S) would hold up signals too. */
function writeWithoutBlocking(stream: NodeJS.WriteStream): void {
  const handle: unknown = Reflect.get(stream, '_handle');
  if (typeof handle !== 'object' || handle === null) return;
  const setBlocking: unknown = Reflect.get(handle, 'setBlocking');
  if (typeof setBlocking === 'function') Reflect.apply(setBlocking, handle, [false]);
}

/** Whether results could not be written: their reader has ended, or there was no room. */
export function isOutputLost(): boolean {
  return isLost;
}

/** @returns the exit code of a command that ends with `code` */
export function codeWithOutput(code: number): number {
  return isIncomplete && code === 0 ? FAILED : code;
}

/** To standard output. Resolves once there is room for more, or once nobody takes any. */
export async function print(text: string): Promise<void> {
  if (text === '' || isLost || process.stdout.write(text)) return;
  await new Promise<void>((resolve) => {
    const end = () => {
      for (const event of ['drain', 'error', 'close']) process.stdout.removeListener(event, end);
      resolve();
    };
    for (const event of ['drain', 'error', 'close']) process.stdout.on(event, end);
  });
}

/** Resolves once all that was written is taken, or cannot be any more. A signal ends the wait. */
export async function outputFlushed(code: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(code));
  await Promise.all([process.stdout, process.stderr].map(flushed));
}

function flushed(stream: NodeJS.WriteStream): Promise<void> {
  // A write of nothing to a device without room would fail, though nothing is lost.
  if (stream.writableLength === 0) return Promise.resolve();
  return new Promise((resolve) => stream.write('', () => resolve()));
}

/** Ends the process after a signal where its output is not taken: it may wait for room and see no signal. */
export function endStuckOutput(): void {
  setTimeout(() => {
    if (process.stdout.writableLength + process.stderr.writableLength > 0) process.exit(FAILED);
  }, LAST_OUTPUT_WITHIN_MS).unref();
}

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

/** Characters of a result that are written at once; no more than that, and the pipe's own buffer, waits for a slow reader. */
export const PART_CHARACTERS = 64 * 1024;

/** To standard output. Resolves once there is room for more, or once nobody takes any. */
export async function print(text: string): Promise<void> {
  if (text === '' || isLost || process.stdout.write(text)) return;
  await room(process.stdout);
}

/** A line each, in parts: a command that writes many lines waits for its reader. */
export async function printLines(
  lines: Iterable<string>,
  stream: NodeJS.WriteStream = process.stdout,
): Promise<void> {
  let part = '';
  for (const line of lines) {
    part += `${line}\n`;
    if (part.length < PART_CHARACTERS) continue;
    await printText(part, stream);
    part = '';
  }
  await printText(part, stream);
}

/** A long text, in parts. */
export async function printText(text: string, stream: NodeJS.WriteStream = process.stdout): Promise<void> {
  for (let from = 0; from < text.length; ) {
    let to = from + PART_CHARACTERS;
    // Both halves of a character stay together: each part is encoded by itself.
    if (isHighSurrogate(text.charCodeAt(to - 1))) to++;
    if (stream === process.stdout) await print(text.slice(from, to));
    else if (!stream.write(text.slice(from, to))) await room(stream);
    from = to;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** Resolves once the reader of messages has taken what waits, or has ended. For a command that reports each of many records. */
export async function messagesTaken(): Promise<void> {
  if (process.stderr.writableNeedDrain) await room(process.stderr);
}

async function room(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.destroyed) return;
  await new Promise<void>((resolve) => {
    const end = () => {
      for (const event of ['drain', 'error', 'close']) stream.removeListener(event, end);
      resolve();
    };
    for (const event of ['drain', 'error', 'close']) stream.on(event, end);
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

/**
 * Standard output and standard error of a command. Their readers may exit early, stop reading, or have a full
 * disk.
 */
import { FAILED } from './exit-codes';

/** After a signal, unread output has this time to be read. */
const LAST_OUTPUT_WITHIN_MS = 2_000;

let isLost = false;
let isIncomplete = false;

/**
 * Lets a command run to its end even if its output cannot be written.
 *
 * Without this, `promo-intake reference apply FILE | head -1` could end in the middle of its work. A reader
 * that exits has read enough, so the exit code does not change. If the output had no room, the exit code is
 * FAILED.
 */
export function guardOutput(): void {
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (!isLost && code !== 'EPIPE') {
      isIncomplete = true;
      console.error(`standard output cannot be written (${code}): the results are incomplete`);
    }
    isLost = true;
  });
  // An error of standard error cannot be reported anywhere.
  process.stderr.on('error', () => undefined);
  for (const stream of [process.stdout, process.stderr]) if (stream.isTTY) writeWithoutBlocking(stream);
}

/** Node's writes to a terminal block by default: a halted terminal (Ctrl-S) would delay signals too. */
function writeWithoutBlocking(stream: NodeJS.WriteStream): void {
  const handle: unknown = Reflect.get(stream, '_handle');
  if (typeof handle !== 'object' || handle === null) return;
  const setBlocking: unknown = Reflect.get(handle, 'setBlocking');
  if (typeof setBlocking === 'function') Reflect.apply(setBlocking, handle, [false]);
}

/** Whether output was lost because its reader exited or had no room. */
export function isOutputLost(): boolean {
  return isLost;
}

/** @returns `code`, or FAILED if the output of a successful command is incomplete */
export function codeWithOutput(code: number): number {
  return isIncomplete && code === 0 ? FAILED : code;
}

/** Characters of one write. Not more than this waits for a slow reader, besides the pipe's own buffer. */
export const PART_CHARACTERS = 64 * 1024;

/** Writes to standard output. Resolves once there is room for more, or once there is no reader any more. */
export async function print(text: string): Promise<void> {
  if (text === '' || isLost || process.stdout.write(text)) return;
  await room(process.stdout);
}

/** Writes lines in parts, so that a command with many lines waits for its reader. */
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

/** Writes a long text in parts. */
export async function printText(text: string, stream: NodeJS.WriteStream = process.stdout): Promise<void> {
  for (let from = 0; from < text.length; ) {
    let to = from + PART_CHARACTERS;
    // A surrogate pair stays together, because each part is encoded by itself.
    if (isHighSurrogate(text.charCodeAt(to - 1))) to++;
    if (stream === process.stdout) await print(text.slice(from, to));
    else if (!stream.write(text.slice(from, to))) await room(stream);
    from = to;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/**
 * Resolves once the reader of standard error has read the backlog, or has exited. For commands with many
 * messages.
 */
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

/** Resolves once all output is read, or can no longer be read. A signal ends the wait. */
export async function outputFlushed(code: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(code));
  await Promise.all([process.stdout, process.stderr].map(flushed));
}

function flushed(stream: NodeJS.WriteStream): Promise<void> {
  // An empty write to a full device would fail, although nothing is lost.
  if (stream.writableLength === 0) return Promise.resolve();
  return new Promise((resolve) => stream.write('', () => resolve()));
}

/**
 * Ends the process after a signal if its output is not read: the command may wait for room and ignore the
 * signal.
 */
export function endStuckOutput(): void {
  setTimeout(() => {
    if (process.stdout.writableLength + process.stderr.writableLength > 0) process.exit(FAILED);
  }, LAST_OUTPUT_WITHIN_MS).unref();
}

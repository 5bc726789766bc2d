/**
 * The output of log lines: standard output or standard error, which may be full, closed, or read by a program
 * that has stopped.
 *
 * No write here blocks, since a process that waits for its log answers no probe and no SIGTERM. Lines wait
 * instead, up to a limit in bytes. Lines beyond it are dropped and counted. Their number is reported once
 * lines can be written again.
 */
import { constants, fstatSync, openSync, writeSync } from 'node:fs';

/** The most bytes of waiting lines, each with LINE_OVERHEAD_BYTES. */
export const MAX_WAITING_LOG_BYTES = 1024 * 1024;
/** The memory that a waiting line takes in addition to its bytes. */
const LINE_OVERHEAD_BYTES = 128;
/** The delay before the next write to a reader that accepts nothing now, since it may only be slow. */
const SLOW_READER_RETRY_MS = 20;
/** The delay before the next write to a full disk, or to a reader that is gone. */
const FAULT_RETRY_MS = 500;
/** The time that waiting lines have at the end of the process. */
const LAST_LINES_WITHIN_MS = 500;
const LAST_LINES_RETRY_MS = 10;

/**
 * Writes some of the bytes, without waiting.
 * @returns how many
 * @throws where none can be written now
 */
type Write = (bytes: Buffer) => number;

export interface LogOutput {
  /** Writes a whole line, or queues it. */
  write(line: string): void;
  /** Calls `listener` for each line that is dropped. */
  onDropped(listener: () => void): void;
  /** Writes the waiting lines, within LAST_LINES_WITHIN_MS: for the end of a process. */
  flushSync(): void;
}

/**
 * Keeps the order of the lines, and never drops a line that is partly written.
 *
 * @param report makes the line that reports the dropped ones
 */
export function makeLogOutput(write: Write, report: (dropped: number, error: string) => string): LogOutput {
  const listeners: (() => void)[] = [];
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  let dropped = 0;
  let lastError = '';
  let retry: NodeJS.Timeout | undefined;

  const cost = (bytes: Buffer) => bytes.length + LINE_OVERHEAD_BYTES;

  /** @returns whether every waiting line is written */
  const drain = (): boolean => {
    let done = 0;
    try {
      for (const line of waiting) {
        let rest = line;
        while (rest.length > 0) {
          const taken = write(rest);
          rest = rest.subarray(taken);
          waiting[done] = rest;
          waitingBytes -= taken;
        }
        waitingBytes -= LINE_OVERHEAD_BYTES;
        done++;
      }
    } catch (error) {
      lastError = codeOf(error);
    }
    waiting = waiting.slice(done);
    return waiting.length === 0;
  };

  const tryAgainLater = (): void => {
    retry ??= setTimeout(
      () => {
        retry = undefined;
        if (!drain()) tryAgainLater();
        else if (dropped > 0) reportDropped();
      },
      lastError === 'EAGAIN' ? SLOW_READER_RETRY_MS : FAULT_RETRY_MS,
    ).unref();
  };

  const reportDropped = (): void => {
    const line = report(dropped, lastError);
    dropped = 0;
    add(line);
  };

  const add = (line: string): void => {
    const bytes = Buffer.from(line);
    if (waitingBytes + cost(bytes) > MAX_WAITING_LOG_BYTES) {
      dropped++;
      for (const listener of listeners) listener();
      return;
    }
    waiting.push(bytes);
    waitingBytes += cost(bytes);
    // While a retry is scheduled, a write here would only repeat the one that failed.
    if (retry === undefined && !drain()) tryAgainLater();
  };

  return {
    write: add,
    onDropped: (listener) => {
      listeners.push(listener);
    },
    flushSync() {
      const until = performance.now() + LAST_LINES_WITHIN_MS;
      while (!drain() && performance.now() < until) pause(LAST_LINES_RETRY_MS);
      if (waiting.length === 0 && dropped > 0) reportDropped();
    },
  };
}

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
  return typeof code === 'string' ? code : String(error);
}

const outputs = new Map<number, LogOutput>();

/**
 * The one output of a standard descriptor. Two outputs would write into each other's lines.
 *
 * A pipe or a terminal is opened a second time if the system allows it. Otherwise the existing description is
 * used, which other processes share.
 */
export function logOutputOf(
  descriptor: 1 | 2,
  report: (dropped: number, error: string) => string,
): LogOutput {
  const known = outputs.get(descriptor);
  if (known !== undefined) return known;
  let opened: number | undefined;
  const open = (): number => {
    const own = openAgain(descriptor);
    // Node makes a pipe or a socket non-blocking when it creates its stream.
    if (own === undefined) void (descriptor === 1 ? process.stdout : process.stderr).writable;
    return own ?? descriptor;
  };
  const output = makeLogOutput((bytes) => {
    opened ??= open();
    return writeSync(opened, bytes);
  }, report);
  process.once('exit', output.flushSync);
  outputs.set(descriptor, output);
  return output;
}

/**
 * @returns undefined where the descriptor is a file, which accepts or refuses a write at once, or where the
 * system forbids opening
 */
function openAgain(descriptor: number): number | undefined {
  try {
    const kind = fstatSync(descriptor);
    if (!kind.isFIFO() && !kind.isCharacterDevice()) return undefined;
    return openSync(
      `/proc/self/fd/${descriptor}`,
      constants.O_WRONLY | constants.O_NONBLOCK | constants.O_APPEND | constants.O_NOCTTY,
    );
  } catch {
    // The system forbids it for a socket (ENXIO), a descriptor of another user (EACCES), without /proc
    // (ENOENT), and for a closed descriptor (EBADF).
    return undefined;
  }
}

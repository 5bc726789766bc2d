/** The log: a line a record, without a player_ref or a payload at any level. */
import pino, { type Logger } from 'pino';
import { escapeUnprintable } from '../lib/printable';
import { logOutputOf } from './log-output';

/** @param onDropped called for each line that is dropped, since the log cannot be written */
export function makeLogger(
  level: string,
  to: 'stdout' | 'stderr' = 'stdout',
  onDropped: () => void = () => undefined,
): Logger {
  const output = logOutputOf(to === 'stdout' ? 1 : 2, reportDropped);
  output.onDropped(onDropped);
  const formatters = { level: (label: string) => ({ level: label }) };
  // A line may be shown by a terminal, which would obey what JSON leaves as it is.
  const hooks = { streamWrite: escapeUnprintable };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters, hooks }, output);
}

function reportDropped(lines: number, error: string): string {
  const time = new Date().toISOString();
  const msg = 'log lines were dropped while the log could not be written';
  return `${JSON.stringify({ level: 'warn', time, lines, error, msg })}\n`;
}

/** Tells of the first at once, and of what comes within the time behind it by its number alone. */
export function tellSeldom<T>(everyMs: number, tell: (what: T, untold: number) => void): (what: T) => void {
  let toldAt = Number.NEGATIVE_INFINITY;
  let untold = 0;
  return (what) => {
    if (performance.now() - toldAt < everyMs) {
      untold++;
      return;
    }
    tell(what, untold);
    toldAt = performance.now();
    untold = 0;
  };
}

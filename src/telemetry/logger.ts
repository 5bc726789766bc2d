/** The log: one line a message, without a player_ref or a payload at any level. */
import pino, { type Logger } from 'pino';
import { escapeUnprintable } from '../lib/printable';
import { logOutputOf } from './log-output';

/** @param onDropped called for each line that is dropped because the log cannot be written */
export function makeLogger(
  level: string,
  to: 'stdout' | 'stderr' = 'stdout',
  onDropped: () => void = () => undefined,
): Logger {
  const output = logOutputOf(to === 'stdout' ? 1 : 2, reportDropped);
  output.onDropped(onDropped);
  const formatters = { level: (label: string) => ({ level: label }) };
  // A terminal may show a line, and would obey the control characters that JSON leaves as they are.
  const hooks = { streamWrite: escapeUnprintable };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters, hooks }, output);
}

function reportDropped(lines: number, error: string): string {
  const time = new Date().toISOString();
  const msg = 'log lines dropped while the log could not be written';
  return `${JSON.stringify({ level: 'warn', time, lines, error, msg })}\n`;
}

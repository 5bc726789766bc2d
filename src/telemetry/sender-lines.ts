/**
 * The log lines that a sender can cause as often as it likes. Each kind of line is logged once a minute for
 * each sender, and MAX_LINES limits the lines of all senders. So no sender can fill the log.
 */
import type { Logger } from 'pino';
import type { Clock } from '../lib/clock';

const LINE_EVERY_MS = 60_000;
/** The most lines of all senders in LINE_EVERY_MS. */
const MAX_LINES = 100;
/** The most pairs of kind and sender whose last line is remembered. */
const MAX_REMEMBERED = 1_000;

type Level = 'info' | 'warn' | 'error';

/**
 * Rate-limits log lines by kind and sender. The first line is logged at once. The next one after
 * LINE_EVERY_MS has the number of lines suppressed since.
 */
export function limitSenderLines(logger: Pick<Logger, Level>, clock: Pick<Clock, 'now'>) {
  /** The last line by kind and sender, the oldest first. */
  const last = new Map<string, { at: number; suppressed: number }>();
  let [lines, since, suppressedInAll] = [0, 0, 0];
  return (kind: string, sender: string, line: object, message: string, level: Level = 'warn'): void => {
    const now = clock.now();
    const key = `${kind} ${sender}`;
    const seen = last.get(key);
    if (seen !== undefined && now - seen.at < LINE_EVERY_MS) {
      seen.suppressed++;
      return;
    }
    if (now - since >= LINE_EVERY_MS) [lines, since] = [0, now];
    if (lines >= MAX_LINES) {
      suppressedInAll++;
      return;
    }
    lines++;
    last.delete(key);
    last.set(key, { at: now, suppressed: 0 });
    const [oldest] = last.keys();
    if (last.size > MAX_REMEMBERED && oldest !== undefined) last.delete(oldest);
    const more = suppressedInAll > 0 ? { suppressedOfOthers: suppressedInAll } : {};
    suppressedInAll = 0;
    logger[level]({ ...line, suppressed: seen?.suppressed ?? 0, ...more }, message);
  };
}

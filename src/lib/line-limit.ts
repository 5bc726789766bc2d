/**
 * Log lines that a sender, a broker or a lasting fault can cause as often as it likes. Lines of one key are
 * logged once a minute, and MAX_LINES limits the lines of all keys. So nobody can fill the log or bury other
 * lines.
 */
import type { Clock } from './clock';

/** The least time between two lines of a key, and the time to which MAX_LINES applies. */
const LINE_EVERY_MS = 60_000;
/** The most lines of all keys in LINE_EVERY_MS. */
const MAX_LINES = 100;
/** The most keys that are remembered. */
const MAX_KEYS = 1_000;
/** The most bytes of all remembered keys. Error texts are part of some keys. */
const MAX_KEY_BYTES = 256 * 1024;
/** A string needs at most this for each character. */
const CHARACTER_BYTES = 2;

type Level = 'info' | 'warn' | 'error';
type LimitedLog = Record<Level, (line: object, message: string) => void>;

/**
 * Rate-limits log lines by their key. The first line of a key is logged at once. The next one after
 * LINE_EVERY_MS has the number of lines suppressed since. `suppressedOfOthers` counts suppressed lines of
 * keys that are not remembered.
 */
export function limitLines(logger: LimitedLog, clock: Pick<Clock, 'now'>) {
  /** The last line by key, the oldest first. */
  const last = new Map<string, { readonly at: number; suppressed: number }>();
  let keyBytes = 0;
  let [lines, since, suppressedOfOthers] = [0, 0, 0];

  /** @returns the suppressed lines of the key */
  function forget(key: string): number {
    const suppressed = last.get(key)?.suppressed ?? 0;
    if (last.delete(key)) keyBytes -= bytesOf(key);
    return suppressed;
  }

  function remember(key: string, at: number): void {
    last.set(key, { at, suppressed: 0 });
    keyBytes += bytesOf(key);
    for (const oldest of last.keys()) {
      if (last.size <= MAX_KEYS && keyBytes <= MAX_KEY_BYTES) return;
      suppressedOfOthers += forget(oldest);
    }
  }

  return (key: string, line: object, message: string, level: Level = 'warn'): void => {
    const now = clock.now();
    const seen = last.get(key);
    if (seen !== undefined && now - seen.at < LINE_EVERY_MS) {
      seen.suppressed++;
      return;
    }
    if (now - since >= LINE_EVERY_MS) [lines, since] = [0, now];
    if (lines >= MAX_LINES) {
      suppressedOfOthers++;
      return;
    }
    lines++;
    const suppressed = forget(key);
    const ofOthers = suppressedOfOthers > 0 ? { suppressedOfOthers } : {};
    suppressedOfOthers = 0;
    remember(key, now);
    logger[level]({ ...line, suppressed, ...ofOthers }, message);
  };
}

function bytesOf(key: string): number {
  return key.length * CHARACTER_BYTES;
}

/** The log of kafkajs, in ours. */
import { type LogEntry, logLevel } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';

/** The least time between two equal lines. */
const EQUAL_LINE_MS = 60_000;
/** The most lines that are remembered. */
const MAX_REMEMBERED = 100;

/**
 * Takes the entries of kafkajs. While a broker is away, the client repeats some 130 lines a minute, which
 * would bury all others. So an equal line comes once a minute.
 */
export function makeClientLog(logger: Logger): (entry: LogEntry) => void {
  const logged = new Map<string, { readonly at: number; suppressed: number }>();
  return ({ level, namespace, log }) => {
    const { message, error, groupId, topic, partition } = log;
    const details = { client: namespace, error, groupId, topic, partition };
    // The client logs each pause, retry and rebalance at INFO or above. The worker itself logs the important
    // ones.
    if (level > logLevel.ERROR) {
      logger.debug(details, message);
      return;
    }
    const [key, now] = [JSON.stringify([details, message]), systemClock.now()];
    const last = logged.get(key);
    if (last !== undefined && now - last.at < EQUAL_LINE_MS) {
      last.suppressed++;
      return;
    }
    if (logged.size >= MAX_REMEMBERED) logged.clear();
    logged.set(key, { at: now, suppressed: 0 });
    logger.warn({ ...details, suppressed: last?.suppressed }, message);
  };
}

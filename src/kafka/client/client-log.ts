/** The log of kafkajs, in ours. */
import { type LogEntry, logLevel } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { limitLines } from '../../lib/line-limit';

/**
 * Takes the entries of kafkajs. While a broker is away, the client repeats some 130 lines a minute, which
 * would bury all others. So an equal line comes once a minute.
 */
export function makeClientLog(logger: Logger): (entry: LogEntry) => void {
  const logLimited = limitLines(logger, systemClock);
  return ({ level, namespace, log }) => {
    const { message, error, groupId, topic, partition } = log;
    const details = { client: namespace, error, groupId, topic, partition };
    // The client logs each pause, retry and rebalance at INFO or above. The worker itself logs the important
    // ones.
    if (level > logLevel.ERROR) {
      logger.debug(details, message);
      return;
    }
    logLimited(JSON.stringify([details, message]), details, message);
  };
}

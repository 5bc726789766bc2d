/**
 * The webhook's secrets while it runs. A file of secrets is read again, so secrets are rotated without a
 * restart.
 */
import type { Logger } from 'pino';
import { readSecrets, type WebhookSecrets } from '../config/webhook';

/**
 * A change of the file takes effect after this time at the latest. Secrets are read before a signature can be
 * checked. Without this interval each request of a client without a secret would cost a read of the file.
 */
const SECRETS_READ_EVERY_MS = 1_000;

/**
 * @param read the text of WEBHOOK_SECRETS as it is now
 * @param now milliseconds of a monotonic clock
 * @returns the current secrets, or the last valid ones while the file has a fault
 */
export function makeLiveSecrets(read: () => string, now: () => number, logger: Logger): () => WebhookSecrets {
  let text: string | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let secrets: WebhookSecrets = new Map();
  return () => {
    if (now() - readAt < SECRETS_READ_EVERY_MS) return secrets;
    readAt = now();
    const written = read();
    if (written === text) return secrets;
    const parsed = readSecrets(written);
    if ('value' in parsed) secrets = parsed.value;
    else
      logger.error(
        { problem: `WEBHOOK_SECRETS ${parsed.problem}` },
        'changed secrets are not valid, keeping the old ones',
      );
    if (text !== undefined && 'value' in parsed)
      logger.info({ connections: [...secrets.keys()] }, 'secrets reloaded');
    text = written;
    return secrets;
  };
}

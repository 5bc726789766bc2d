/** The secrets of the webhook while it runs: a file of them is followed, so that secrets are rotated without a restart. */
import type { Logger } from 'pino';
import { readSecrets, type WebhookSecrets } from '../config/webhook';

/**
 * A changed file counts after this time at the latest. Secrets are needed before a signature can be checked: without the
 * limit each request of a sender without a secret would cost a read of the file.
 */
const SECRETS_READ_EVERY_MS = 1_000;

/**
 * @param read the text of WEBHOOK_SECRETS as it is now
 * @param now milliseconds of a clock that only goes forward
 * @returns the secrets that count now: while the file is wrong, the last ones
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
        'the secrets have changed and cannot be used',
      );
    if (text !== undefined && 'value' in parsed)
      logger.info({ connections: [...secrets.keys()] }, 'the secrets have changed');
    text = written;
    return secrets;
  };
}

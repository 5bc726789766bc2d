/**
 * The secrets of a service while it runs. A file of secrets is read again, so secrets are rotated without a
 * restart.
 */
import type { Logger } from 'pino';
import { type ConsoleTokens, readTokens } from '../../config/console';
import type { Parsed } from '../../config/setting';
import { readSecrets, type WebhookSecrets } from '../../config/webhook';

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
  const about = { setting: 'WEBHOOK_SECRETS', parse: readSecrets, owners: 'connections' };
  return follow(read, now, logger, about);
}

/** The same for the tokens of CONSOLE_TOKENS. */
export function makeLiveTokens(read: () => string, now: () => number, logger: Logger): () => ConsoleTokens {
  return follow(read, now, logger, { setting: 'CONSOLE_TOKENS', parse: readTokens, owners: 'operators' });
}

interface About<T> {
  readonly setting: string;
  readonly parse: (text: string) => Parsed<ReadonlyMap<string, T>>;
  /** The field of the log with the ids. */
  readonly owners: string;
}

function follow<T>(
  read: () => string,
  now: () => number,
  logger: Logger,
  { setting, parse, owners }: About<T>,
): () => ReadonlyMap<string, T> {
  let text: string | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let secrets: ReadonlyMap<string, T> = new Map();
  return () => {
    if (now() - readAt < SECRETS_READ_EVERY_MS) return secrets;
    readAt = now();
    const written = read();
    if (written === text) return secrets;
    const parsed = parse(written);
    if ('value' in parsed) secrets = parsed.value;
    else
      logger.error(
        { problem: `${setting} ${parsed.problem}` },
        'changed secrets are not valid, keeping the old ones',
      );
    if (text !== undefined && 'value' in parsed)
      logger.info({ [owners]: [...secrets.keys()] }, 'secrets reloaded');
    text = written;
    return secrets;
  };
}

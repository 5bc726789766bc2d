/** The webhook that a command sends to: its address, and the secrets of the sending connection. */
import { readBoth, wrongOption } from '../../cli/option-values';
import { ConfigError } from '../../config/config';
import type { Secret } from '../../config/setting';
import { looksSecret, readSecrets, type WebhookSecrets } from '../../config/webhook';
import type { WebhookTarget } from '../../webhook/client';
import { SIGNED_PATHS } from '../../webhook/routes';

/** @throws ConfigError if the address is not valid, or the connection has no secret */
export function targetOf(written: string, connectionId: string, secrets: Secret): WebhookTarget {
  const [url, secret] = readBoth(
    () => addressOf(written),
    () => secretOf(secrets, connectionId),
  );
  return { url, connectionId, secret };
}

export function addressOf(written: string): URL {
  const url = URL.canParse(written) ? new URL(written) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw wrongOption('url', 'is not an address', 'Write https://host, or http://host:port');
  if (url.username !== '' || url.password !== '')
    throw wrongOption('url', 'has a user or a password, which no webhook uses', 'Remove it');
  const [, route] = REQUEST_PATH.exec(url.pathname) ?? [];
  if (route !== undefined)
    throw wrongOption(
      'url',
      'has the path of a request',
      `Leave ${route} and all behind it out: it is added`,
    );
  return url;
}

/** The end of an address that `requestAddress` makes: other clients are set up with it. */
const REQUEST_PATH = new RegExp(`(${SIGNED_PATHS.join('|')})(?:/[^/]*)?/?$`);

/** The first secret of the connection. */
function secretOf(secrets: Secret, connectionId: string): Buffer {
  const [secret] = secretsOf(secrets, connectionId).get(connectionId) ?? [];
  if (secret === undefined) throw new Error('a connection without a secret was accepted');
  return secret;
}

/** All secrets in WEBHOOK_SECRETS. @throws ConfigError if this connection has none */
export function secretsOf(secrets: Secret, connectionId: string): WebhookSecrets {
  const read = readSecrets(secrets());
  if ('problem' in read) throw new ConfigError([{ setting: 'WEBHOOK_SECRETS', ...read }]);
  if (read.value.has(connectionId)) return read.value;
  throw wrongOption(
    'connection',
    `WEBHOOK_SECRETS has no secret of ${shownId(connectionId)}`,
    `Use one of ${[...read.value.keys()].map(shownId).join(', ')}`,
  );
}

/** Hides an id that looks like a secret: the user may have typed the secret in its place. */
function shownId(id: string): string {
  return looksSecret(id) ? 'an id that looks like a secret' : id;
}

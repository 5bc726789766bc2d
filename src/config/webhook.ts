/** The settings of the webhook: its port, its limits, and the secrets that requests are signed with. */
import { group } from './reading';
import {
  integer,
  jsonEntries,
  networks,
  type Parsed,
  portNumber,
  type Secret,
  secret,
  secretBytes,
  setting,
} from './setting';

const MAX_BODY_BYTES = 8 * 1024 ** 2;
/** The most events that one transaction decides. */
const MAX_BATCH_EVENTS = 8_000;

export interface WebhookSettings {
  readonly port: number;
  readonly slots: number;
  readonly maxEvents: number;
  readonly maxBytes: number;
  readonly drainSeconds: number;
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Addresses, and networks such as 10.0.0.0/8. */
  readonly trustedProxies: readonly string[];
  /** See `readSecrets`. */
  readonly secrets: Secret;
}

/** The secrets of each connection, by its id. */
export type WebhookSecrets = ReadonlyMap<string, readonly Buffer[]>;

const SETTINGS = {
  WEBHOOK_PORT: setting({
    describe: 'Port of the webhook. 0: any free port; the log has its number.',
    fallback: '8081',
    example: '8081',
    parse: portNumber,
  }),
  WEBHOOK_SECRETS: secret({
    describe:
      'Secrets of the signatures, as a JSON object: each connection id has its secret, or a list of secrets while one is replaced. A secret is whsec_ and 24 to 64 random bytes in base64.',
    required: true,
    example: '{"acme-hook": "whsec_..."}',
    check(text) {
      const read = readSecrets(text);
      return 'problem' in read ? read : undefined;
    },
  }),
  WEBHOOK_SLOTS: setting({
    describe:
      'Transactions at the same time, each over its own connection to Postgres. Waiting requests of one connection are decided together. One connection may use all transactions but one.',
    fallback: '4',
    example: '4',
    parse: integer(1, 64),
  }),
  WEBHOOK_MAX_EVENTS: setting({
    describe: 'Most events of a request.',
    fallback: '500',
    example: '500',
    parse: integer(1, MAX_BATCH_EVENTS),
  }),
  WEBHOOK_MAX_BYTES: setting({
    describe: 'Most bytes of the body of a request. Up to 80 bodies are held at once.',
    fallback: '1048576',
    example: '1048576',
    parse: integer(1_024, MAX_BODY_BYTES),
  }),
  WEBHOOK_CONNECTIONS: setting({
    describe:
      'Most open network connections. At the limit, each new connection closes an old one: first one without a valid signature, then an idle one.',
    fallback: '1000',
    example: '1000',
    parse: integer(10, 20_000),
  }),
  WEBHOOK_CONNECTIONS_PER_ADDRESS: setting({
    describe:
      'Most open network connections of one address, or of one IPv6 network /64. Trusted proxies have no limit of their own.',
    fallback: '500',
    example: '500',
    parse: integer(1, 20_000),
  }),
  WEBHOOK_TRUSTED_PROXIES: setting({
    describe:
      'Addresses and networks of the load balancers and proxies in front of the webhook, comma-separated. X-Forwarded-For of their requests has the address of the sender, for the log and for the limits of each sender. Absent: the address of the network connection counts.',
    example: '10.0.0.0/8,192.0.2.7',
    parse: networks,
  }),
  WEBHOOK_DRAIN_SECONDS: setting({
    describe:
      'Seconds after SIGTERM in which requests are still accepted while /readyz fails: load balancers need a moment to choose another server. SHUTDOWN_SECONDS begin after them.',
    fallback: '0',
    example: '5',
    parse: integer(0, 300),
  }),
} as const;

export const webhookSettings = group(SETTINGS, (reading): WebhookSettings | undefined => {
  const [port, slots] = [reading.value('WEBHOOK_PORT'), reading.value('WEBHOOK_SLOTS')];
  const [maxEvents, maxBytes] = [reading.value('WEBHOOK_MAX_EVENTS'), reading.value('WEBHOOK_MAX_BYTES')];
  const [connections, connectionsPerAddress] = [
    reading.value('WEBHOOK_CONNECTIONS'),
    reading.value('WEBHOOK_CONNECTIONS_PER_ADDRESS'),
  ];
  const trustedProxies = reading.value('WEBHOOK_TRUSTED_PROXIES') ?? [];
  const [drainSeconds, secrets] = [reading.value('WEBHOOK_DRAIN_SECONDS'), reading.value('WEBHOOK_SECRETS')];
  if (port === undefined || slots === undefined || maxEvents === undefined) return undefined;
  if (maxBytes === undefined || drainSeconds === undefined || secrets === undefined) return undefined;
  if (connections === undefined || connectionsPerAddress === undefined) return undefined;
  return {
    port,
    slots,
    maxEvents,
    maxBytes,
    drainSeconds,
    secrets,
    connections,
    connectionsPerAddress,
    trustedProxies,
  };
});

const REMEDY =
  'Write an object such as {"acme-hook": "whsec_..."}. This makes a secret: echo "whsec_$(openssl rand -base64 32)"';
const PREFIX = 'whsec_';
const BYTES = [24, 64] as const;

/**
 * Reads WEBHOOK_SECRETS. A fault repeats no text that may be a secret, since ids and secrets are easily
 * swapped.
 */
export function readSecrets(text: string): Parsed<WebhookSecrets> {
  if (PREFIXED.test(text)) return ALONE;
  const owners = new Map<string, { readonly connection: string; readonly name: string }>();
  return jsonEntries(text, {
    remedy: REMEDY,
    none: 'names no connection',
    read(connection, value, place) {
      if (looksSecret(connection) && typeof value === 'string' && !looksSecret(value))
        return `has a secret where an id belongs, at entry ${place}: exchange the two`;
      if (PREFIXED.test(connection)) return `has a secret where an id belongs, at entry ${place}`;
      const name = idOrPlace(connection, place);
      const list: unknown[] = Array.isArray(value) ? value : [value];
      if (list.length === 0) return `has no secret for ${name}`;
      const keys: Buffer[] = [];
      for (const [index, written] of list.entries()) {
        const key = typeof written === 'string' ? secretBytes(written, PREFIX, BYTES) : undefined;
        if (key === undefined)
          return `has a wrong form in ${list.length > 1 ? `secret ${index + 1}` : 'the secret'} of ${name}: it is not ${PREFIX} and ${BYTES.join(' to ')} bytes in base64`;
        const owner = owners.get(key.toString('base64'));
        if (owner !== undefined && owner.connection !== connection)
          return `has the same secret for ${owner.name} and ${name}, so that each could send as the other`;
        owners.set(key.toString('base64'), { connection, name });
        keys.push(key);
      }
      return { value: keys };
    },
  });
}

const PREFIXED = /^whsec/i;
const ALONE = {
  problem: 'is a secret without the id of its connection',
  remedy: 'Write {"acme-hook": "whsec_..."}, with the id of your connection',
};
/** The fewest base64 letters that a secret has. */
const SECRET_LENGTH = 32;

/** Whether the text may be a secret, or a part of one. Some ids look like secrets, too. */
export function looksSecret(text: string): boolean {
  return PREFIXED.test(text) || (text.length >= SECRET_LENGTH && /^[\w+/=-]+$/.test(text));
}

/** The id of an entry, or its place where the id may be a secret. @param place from 1 */
export function idOrPlace(id: string, place: number): string {
  return looksSecret(id) ? `entry ${place}` : JSON.stringify(id);
}

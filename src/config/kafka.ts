/**
 * The settings of the connection to Kafka and of our identity there. Their names are those of Kafka's own
 * clients, such as security.protocol.
 */
import { group, type SettingsReading } from './reading';
import { integer, oneOf, type Secret, secret, setting, text, urlWithoutUser } from './setting';
import { caFile, certFile, keyFile, keyPassword, readTls, type Tls } from './tls';

export interface KafkaSettings {
  readonly brokers: readonly string[];
  /** Undefined for a connection without TLS. */
  readonly tls: Tls | undefined;
  /** Undefined where the brokers ask for no identity, or the client certificate is our identity. */
  readonly sasl: SaslSettings | undefined;
  readonly sessionTimeoutMs: number | undefined;
}

export type SaslSettings =
  | { readonly mechanism: PasswordMechanism; readonly username: string; readonly password: Secret }
  | { readonly mechanism: 'OAUTHBEARER'; readonly tokens: TokenSettings };

/** The source of tokens: an authorization server that issues them to clients (RFC 6749, 4.4). */
export interface TokenSettings {
  readonly endpoint: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scope: string | undefined;
}

const PROTOCOLS = ['PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'] as const;
const PASSWORD_MECHANISMS = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const;
type PasswordMechanism = (typeof PASSWORD_MECHANISMS)[number];
const MECHANISMS = [...PASSWORD_MECHANISMS, 'OAUTHBEARER'] as const;
const MAX_PORT = 65_535;
/**
 * A shorter timeout would expire during a pause of the process. Brokers refuse shorter ones in their default
 * configuration.
 */
const LEAST_SESSION_TIMEOUT_MS = 6_000;
const MOST_SESSION_TIMEOUT_MS = 300_000;

const SETTINGS = {
  KAFKA_BROKERS: setting({
    describe: 'Brokers of the first connection to the cluster, as host:port, comma-separated.',
    required: true,
    example: 'kafka-0.kafka:9092,kafka-1.kafka:9092',
    parse: (text) => {
      const brokers = text.split(',').map((entry) => entry.trim());
      const wrong = brokers.find((entry) => !isBroker(entry));
      if (wrong === undefined) return { value: brokers };
      // An entry with a user and a password is not repeated.
      const named = wrong.includes('@') ? `its entry ${brokers.indexOf(wrong) + 1}` : `"${wrong}"`;
      return {
        problem: `${named} is not host:port`,
        remedy:
          'Write a comma-separated list such as kafka-0:9092,kafka-1:9092; an IPv6 address needs a name',
      };
    },
  }),
  KAFKA_SECURITY_PROTOCOL: setting({
    describe: `${PROTOCOLS.join(', ')}: with TLS if it ends in SSL, with a user or a token if it begins with SASL. A broker has a port for each.`,
    fallback: 'PLAINTEXT',
    example: 'SASL_SSL',
    parse: oneOf(PROTOCOLS, 'a protocol'),
  }),
  KAFKA_SSL_CA_FILE: caFile('a broker'),
  KAFKA_SSL_CERT_FILE: certFile('brokers'),
  KAFKA_SSL_KEY_FILE: keyFile('KAFKA_SSL_CERT_FILE'),
  KAFKA_SSL_KEY_PASSWORD: keyPassword('KAFKA_SSL_KEY_FILE'),
  KAFKA_SASL_MECHANISM: setting({
    describe: `How this process authenticates: ${MECHANISMS.join(', ')}.`,
    example: 'SCRAM-SHA-512',
    parse: oneOf(MECHANISMS, 'a mechanism'),
  }),
  KAFKA_SASL_USERNAME: setting({
    describe: `User, for ${PASSWORD_MECHANISMS.join(', ')}.`,
    example: 'promo-intake',
    parse: text,
  }),
  KAFKA_SASL_PASSWORD: secret({ describe: 'Its password.', example: 'secret' }),
  KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: setting({
    describe: 'Address that issues tokens for OAUTHBEARER, by the grant client_credentials.',
    example: 'https://login.example.com/oauth2/token',
    parse: urlWithoutUser(
      'KAFKA_SASL_OAUTHBEARER_CLIENT_ID and KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET',
      'https:',
      'http:',
    ),
  }),
  KAFKA_SASL_OAUTHBEARER_CLIENT_ID: setting({
    describe: 'Client id for the token endpoint.',
    example: 'promo-intake',
    parse: text,
  }),
  KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET: secret({
    describe: 'Client secret for the token endpoint.',
    example: 'secret',
  }),
  KAFKA_SASL_OAUTHBEARER_SCOPE: setting({
    describe: 'Scope to request, if the token endpoint requires one.',
    example: 'kafka',
    parse: text,
  }),
  KAFKA_SESSION_TIMEOUT_MS: setting({
    describe:
      'Milliseconds without a heartbeat after which the group gives the partitions of a member to others. A member sends five heartbeats in this time. Brokers accept values from group.min.session.timeout.ms to group.max.session.timeout.ms. With a longer time, the partitions of a dead worker wait longer.',
    fallback: '10000',
    example: '10000',
    parse: integer(LEAST_SESSION_TIMEOUT_MS, MOST_SESSION_TIMEOUT_MS),
  }),
} as const;

const TLS = {
  ca: 'KAFKA_SSL_CA_FILE',
  cert: 'KAFKA_SSL_CERT_FILE',
  key: 'KAFKA_SSL_KEY_FILE',
  password: 'KAFKA_SSL_KEY_PASSWORD',
} as const;
const PASSWORD = ['KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'] as const;
const TOKEN = [
  'KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL',
  'KAFKA_SASL_OAUTHBEARER_CLIENT_ID',
  'KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET',
] as const;
const SCOPE = 'KAFKA_SASL_OAUTHBEARER_SCOPE';

export const kafka = group(SETTINGS, (reading): KafkaSettings | undefined => {
  const brokers = reading.value('KAFKA_BROKERS');
  const protocol = reading.value('KAFKA_SECURITY_PROTOCOL');
  // Without a valid protocol, nothing can be checked about the settings that depend on it.
  if (protocol === undefined) return undefined;
  const because = `with KAFKA_SECURITY_PROTOCOL=${protocol}`;
  const hasTls = protocol === 'SSL' || protocol === 'SASL_SSL';
  const hasSasl = protocol === 'SASL_PLAINTEXT' || protocol === 'SASL_SSL';
  if (!hasTls) reading.refuse(Object.values(TLS), because, 'set KAFKA_SECURITY_PROTOCOL to SSL or SASL_SSL');
  if (!hasSasl) {
    const unless = 'set KAFKA_SECURITY_PROTOCOL to SASL_SSL or SASL_PLAINTEXT';
    reading.refuse(['KAFKA_SASL_MECHANISM', ...PASSWORD, ...TOKEN, SCOPE], because, unless);
  }
  const tls = hasTls ? readTls(TLS, reading) : undefined;
  const sasl = hasSasl ? readSasl(reading, because) : undefined;
  return brokers && { brokers, tls, sasl, sessionTimeoutMs: reading.value('KAFKA_SESSION_TIMEOUT_MS') };
});

function readSasl(reading: SettingsReading<typeof SETTINGS>, because: string): SaslSettings | undefined {
  reading.need(['KAFKA_SASL_MECHANISM'], `but is required ${because}`);
  const mechanism = reading.value('KAFKA_SASL_MECHANISM');
  if (mechanism === undefined) return undefined;
  const withIt = `with KAFKA_SASL_MECHANISM=${mechanism}`;
  if (mechanism === 'OAUTHBEARER') {
    reading.need(TOKEN, `but is required ${withIt}`);
    reading.refuse(PASSWORD, withIt, 'set another mechanism');
    const [endpoint, clientId, clientSecret] = [
      reading.value('KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL'),
      reading.value('KAFKA_SASL_OAUTHBEARER_CLIENT_ID'),
      reading.value('KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET'),
    ];
    if (endpoint === undefined || clientId === undefined || clientSecret === undefined) return undefined;
    return { mechanism, tokens: { endpoint, clientId, clientSecret, scope: reading.value(SCOPE) } };
  }
  reading.need(PASSWORD, `but is required ${withIt}`);
  reading.refuse([...TOKEN, SCOPE], withIt, 'set KAFKA_SASL_MECHANISM to OAUTHBEARER');
  const [username, password] = [reading.value('KAFKA_SASL_USERNAME'), reading.value('KAFKA_SASL_PASSWORD')];
  return username === undefined || password === undefined ? undefined : { mechanism, username, password };
}

function isBroker(entry: string): boolean {
  // The client splits an entry at its first colon.
  const port = Number(/^[^\s:/@]+:(\d{1,5})$/.exec(entry)?.[1]);
  return port >= 1 && port <= MAX_PORT;
}

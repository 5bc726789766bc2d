/**
 * Explains an error: as a sentence with a remedy if a person can resolve it, else as the stack of a defect.
 */
import { ConfigError } from '../config/config';
import { messageOf } from '../lib/errors';
import { FAILED, USAGE } from './exit-codes';
import { kafkaRemedy, postgresRemedy } from './remedies';

/** A command's failure. The message is a complete explanation for a person. */
export class Unable extends Error {
  override readonly name = 'Unable';
}

interface Trouble {
  readonly message: string;
  readonly code: number;
}

export function explain(error: unknown): Trouble {
  if (error instanceof ConfigError) return { message: error.message, code: USAGE };
  return { message: trouble(causesOf(error)) ?? withoutPassword(defect(error)), code: FAILED };
}

/** Explains an error in a log line: a defect is reduced to its message. */
export function explainShortly(error: unknown): string {
  return trouble(causesOf(error)) ?? withoutPassword(messageOf(error));
}

function trouble(chain: readonly Cause[]): string | undefined {
  const found =
    fileTrouble(chain) ??
    portTrouble(chain) ??
    plainTrouble(chain) ??
    kafkaTrouble(chain) ??
    postgresTrouble(chain);
  return found && withoutPassword(found);
}

/** Hides passwords in addresses. Only the text of a defect should hold one, but every text is checked. */
function withoutPassword(text: string): string {
  return text.replace(/(:\/\/[^\s:@/]*):[^\s@]*@/g, '$1:***@');
}

export interface Cause {
  readonly name: string;
  readonly message: string;
  /** An errno's name or a SQLSTATE. */
  readonly code: string;
  /** The name that kafkajs gives to a broker's error code. */
  readonly type: string;
  readonly path: string;
  /** The remedy that Postgres, or one of our functions in it, adds to its message. */
  readonly hint: string;
}

/** The error, its causes, and the errors in an AggregateError. */
export function causesOf(error: unknown, depth = 0): Cause[] {
  if (typeof error !== 'object' || error === null || depth > 8) return [];
  const text = (name: string): string => {
    const value: unknown = Reflect.get(error, name);
    return typeof value === 'string' ? value : '';
  };
  const attempts: unknown = Reflect.get(error, 'errors');
  return [
    {
      name: text('name'),
      message: text('message'),
      code: text('code'),
      type: text('type'),
      path: text('path'),
      hint: text('hint'),
    },
    ...causesOf(Reflect.get(error, 'cause'), depth + 1),
    ...(Array.isArray(attempts) ? attempts.flatMap((attempt) => causesOf(attempt, depth + 1)) : []),
  ];
}

const UNREACHABLE = /ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE/;

function fileTrouble(chain: readonly Cause[]): string | undefined {
  const found = chain.find(({ code, path }) => path !== '' && /^E[A-Z]+$/.test(code));
  return found && `${found.path} cannot be read (${found.code})`;
}

function portTrouble(chain: readonly Cause[]): string | undefined {
  const found = chain.find(({ message }) => /^listen E[A-Z]+/.test(message));
  return found && portIsTaken('HTTP_PORT', found.message);
}

/**
 * Handles the failure of a server's start.
 *
 * @param setting the setting or option that names the port
 * @throws Unable with the remedy
 */
export function refusePort(setting: string): (error: unknown) => never {
  return (error) => {
    throw new Unable(portIsTaken(setting, messageOf(error)));
  };
}

/** @param setting the setting that names the port @param problem Node's message */
function portIsTaken(setting: string, problem: string): string {
  return `${setting} cannot be served: ${problem}. Set it to a free port that this process may use, or to 0 for any free port.`;
}

/**
 * Errors whose message is complete. Classes of kafka/client are matched by name: importing them would load
 * the Kafka client.
 */
const PLAIN: ReadonlySet<string> = new Set([
  'Unable',
  'KafkaProblem',
  'KafkaRefusal',
  'MigrationProblem',
  'MoveRefused',
  'NoPostgres',
]);

function plainTrouble(chain: readonly Cause[]): string | undefined {
  return chain.find(({ name }) => PLAIN.has(name))?.message;
}

function kafkaTrouble(chain: readonly Cause[]): string | undefined {
  const root = chain.filter(({ name }) => name.startsWith('KafkaJS')).at(-1);
  if (root === undefined) return undefined;
  if (/^the token endpoint/.test(root.message))
    return `Kafka: ${root.message}. ${tokenRemedy(chain, root.message)}`;
  const advertised = chain
    .map(({ message }) => ADVERTISED.exec(message)?.[1])
    .find((each) => each !== undefined);
  const tls = tlsRemedy(chain, advertised === undefined ? KAFKA_TLS : { ...KAFKA_TLS, address: LISTENERS });
  if (tls !== undefined) return `Kafka cannot be reached: ${plainWords(root.message)}. ${tls}`;
  if (/^SASL .* failed/.test(root.message) || root.name === 'KafkaJSSASLAuthenticationError')
    return `Kafka refused the login: ${root.message}. ${saslRemedy(root.message)}`;
  if (advertised !== undefined)
    return `Kafka cannot be reached: ${root.message}. The cluster of KAFKA_BROKERS advertises ${advertised} as the address of a broker. Check that this broker runs and that this process can reach the address, or correct ${LISTENERS}.`;
  if (/Connection|NoBroker|Timeout/.test(root.name)) {
    const security = MISUNDERSTOOD.test(root.message)
      ? ', and that KAFKA_SECURITY_PROTOCOL fits their port'
      : '';
    return `Kafka cannot be reached: ${root.message}. Check that the brokers of KAFKA_BROKERS run and that this process can reach them${security}.`;
  }
  if (/SASL state/.test(root.message))
    return `Kafka answered: ${root.message}. The port has no SASL: correct KAFKA_SECURITY_PROTOCOL.`;
  const remedy = chain.map(({ type }) => kafkaRemedy(type)).find((each) => each !== undefined);
  return `Kafka answered: ${root.message}${remedy === undefined ? '' : `. ${remedy}`}`;
}

/**
 * The advertised address in an error of kafka/client/patches/advertised.ts. It is not imported: it would load
 * the Kafka client.
 */
const ADVERTISED = /\(the brokers advertise (\S+)\)/;
const LISTENERS = 'advertised.listeners of the brokers';

/** Messages that follow from using the wrong protocol at a port. */
const MISUNDERSTOOD = /closed|timed? ?out|before secure TLS/i;

function tokenRemedy(chain: readonly Cause[], message: string): string {
  if (/HTTP 40[013]/.test(message))
    return 'Correct KAFKA_SASL_OAUTHBEARER_CLIENT_ID, KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET or KAFKA_SASL_OAUTHBEARER_SCOPE.';
  return (
    tlsRemedy(chain, TOKEN_TLS) ??
    'Check that KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL is right and that this process can reach it.'
  );
}

function saslRemedy(message: string): string {
  if (/not supported/.test(message)) return 'Correct KAFKA_SASL_MECHANISM.';
  return /OAUTHBEARER/.test(message)
    ? 'The brokers refuse the token. Check KAFKA_SASL_OAUTHBEARER_CLIENT_ID and KAFKA_SASL_OAUTHBEARER_SCOPE, and the claims that the brokers require.'
    : 'Correct KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD.';
}

/** The settings for TLS with a server. */
interface TlsSettings {
  readonly address: string;
  readonly mode: string;
  readonly ca: string;
  readonly cert: string;
}

const KAFKA_TLS: TlsSettings = {
  address: 'KAFKA_BROKERS',
  mode: 'KAFKA_SECURITY_PROTOCOL',
  ca: 'KAFKA_SSL_CA_FILE',
  cert: 'KAFKA_SSL_CERT_FILE',
};
const DATABASE_TLS: TlsSettings = {
  address: 'DATABASE_URL',
  mode: 'DATABASE_SSL_MODE',
  ca: 'DATABASE_SSL_CA_FILE',
  cert: 'DATABASE_SSL_CERT_FILE',
};
const TOKEN_TLS: TlsSettings = {
  address: 'KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL',
  mode: 'KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL',
  ca: 'NODE_EXTRA_CA_CERTS',
  cert: 'KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL',
};

/** Remedies by the error codes of Node and OpenSSL. The first match counts. */
const TLS_TROUBLES: readonly [codes: RegExp, remedy: (settings: TlsSettings) => string][] = [
  [
    /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_SELF_SIGNED_|CERT_SIGNATURE_FAILURE|CERT_UNTRUSTED)/,
    ({ ca }) => `Its certificate is signed by an unknown authority: check ${ca}.`,
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    ({ address }) =>
      `Its certificate belongs to another host: correct the host in ${address}, or the certificate.`,
  ],
  [
    /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/,
    () =>
      'Its certificate has expired or is not valid yet: replace the certificate, or correct the clock of this machine.',
  ],
  [/ALERT|HANDSHAKE_FAILURE/, ({ cert }) => `It requires another client certificate: check ${cert}.`],
  [/^(EPROTO|ERR_SSL_)/, ({ mode, address }) => `The port has no TLS: check ${mode} and ${address}.`],
];

/** Removes positions in OpenSSL's code, and Node's hint at its own options. */
function plainWords(message: string): string {
  return message
    .replace(/\w+:error:\w+:[^:]*:[^:]*:([^:]*):.*\s*$/s, '$1')
    .replace(/; if the root CA.*$/s, '')
    .replace(/: \s*$/, '');
}

function isTls({ code }: Cause): boolean {
  return TLS_TROUBLES.some(([codes]) => codes.test(code));
}

function tlsRemedy(chain: readonly Cause[], settings: TlsSettings): string | undefined {
  const remedies = TLS_TROUBLES.map(([codes, remedy]) =>
    chain.some(({ code }) => codes.test(code)) ? remedy(settings) : undefined,
  );
  return remedies.find((remedy) => remedy !== undefined);
}

function postgresTrouble(chain: readonly Cause[]): string | undefined {
  const tls = tlsRemedy(chain, DATABASE_TLS);
  if (tls !== undefined)
    return `Postgres cannot be reached: ${plainWords(chain.find(isTls)?.message ?? '')}. ${tls}`;
  if (chain.some(({ message }) => /There was an error establishing an SSL connection/.test(message)))
    return 'Postgres cannot be reached: the server at the address of DATABASE_URL is no Postgres. Correct the host and the port in DATABASE_URL.';
  const plain = chain.find(({ message }) => /does not support SSL/.test(message));
  if (plain !== undefined)
    return `Postgres cannot be reached: ${plain.message}. Turn ssl on in Postgres, or set DATABASE_SSL_MODE to disable.`;
  const answer = chain.find(({ code }) => /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code));
  if (answer !== undefined) {
    return `Postgres answered: ${answer.message}. ${postgresRemedy(answer)}`;
  }
  if (chain.some(({ message }) => /client password must be a string/.test(message)))
    return 'Postgres requires a password, and none is set. Set DATABASE_PASSWORD, or add the password to DATABASE_URL.';
  const broken = chain.find(isUnreachable) ?? chain.find(isTimeout);
  if (broken !== undefined)
    return `Postgres cannot be reached: ${broken.message}. Check that the server of DATABASE_URL runs, that it is a Postgres, and that this process can reach it.`;
  return undefined;
}

function isUnreachable({ code, message }: Cause): boolean {
  // A Unix socket is a file, so its errors are codes of files: ENOENT, EACCES.
  return UNREACHABLE.test(code) || /^connect E[A-Z]+/.test(message);
}

/** Whether a connection broke, or timed out. */
function isTimeout({ message }: Cause): boolean {
  return /timeout expired|timeout exceeded|connection timeout|Connection terminated|is not queryable|Query read timeout|no answer within/i.test(
    message,
  );
}

function defect(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

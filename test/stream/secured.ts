/**
 * A Kafka and a Postgres that authenticate their clients, with certificates, users and tokens made for the
 * run.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Servers } from '../../dev/servers';
import { type Authority, type Certificate, makeAuthority } from '../../dev/servers/certificates';
import { ownServers } from '../support/servers';
import { ISSUER, startTokenServer, type TokenServer } from '../support/token-server';

/** Our user on both servers. */
export const USER = 'promo-intake';
/** A user that may write to one topic. A test makes the ACL that allows it. */
export const OPERATOR = 'acme';
const AUDIENCE = 'kafka';
/** The brokers demand a new authentication at this interval. The client authenticates 10 s ahead. */
export const REAUTHENTICATE_MS = 12_000;

const LISTENERS = {
  /** Requires a client certificate. */
  MUTUAL: 'SSL',
  SASL_TLS: 'SASL_SSL',
  SASL_OPEN: 'SASL_PLAINTEXT',
  /** Presents an expired certificate. */
  EXPIRED: 'SSL',
} as const;
type Listener = keyof typeof LISTENERS;

export interface Secured {
  readonly servers: Servers;
  readonly tokens: TokenServer;
  readonly authority: Authority;
  /** The certificate that a server on localhost presents. */
  readonly serverCertificate: Certificate;
  /** Texts that no output may contain, by the name of each. */
  readonly secrets: Map<string, string>;
  readonly password: string;
  readonly operatorPassword: string;
  /** KAFKA_BROKERS for one of the listeners. */
  kafkaAt(listener: Listener, host?: string): { KAFKA_BROKERS: string };
  /** Path of a file with this content. */
  file(name: string, content: string): string;
  stop(): Promise<void>;
}

export async function startSecured(): Promise<Secured> {
  const directory = mkdtempSync(join(tmpdir(), 'secured-'));
  const authority = makeAuthority('The authority of this run');
  const server = authority.sign('server', { host: 'localhost' });
  const [password, operatorPassword, clientSecret] = [newSecret(), newSecret(), newSecret()];
  const users = { [USER]: password, [OPERATOR]: operatorPassword };
  const tokens = await startTokenServer(USER, clientSecret, AUDIENCE, server);
  const starting = ownServers({
    need: ['kafka', 'postgres'],
    environment: { STACK: 'processes' },
    kafkaExtras: {
      listeners: LISTENERS,
      settings: {
        ...kafkaTls(server, authority.ca),
        'listener.name.mutual.ssl.client.auth': 'required',
        ...kafkaTls(
          authority.sign('expired', { host: 'localhost', expired: true }),
          authority.ca,
          'listener.name.expired.',
        ),
        ...kafkaUsers('listener.name.sasl_tls.', users, tokens.keysUrl),
        ...kafkaUsers('listener.name.sasl_open.', users, tokens.keysUrl),
        'connections.max.reauth.ms': String(REAUTHENTICATE_MS),
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': `User:ANONYMOUS;User:${USER};User:CN=${USER}`,
      },
      scramUsers: ['SCRAM-SHA-256', 'SCRAM-SHA-512'].map(
        (mechanism) => `${mechanism}=[name=${USER},password=${password}]`,
      ),
      javaOptions: [`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${tokens.keysUrl}`],
    },
    postgresExtras: {
      settings: { ssl: 'on', ssl_cert_file: 'server.crt', ssl_key_file: 'server.key', ssl_ca_file: 'ca.crt' },
      files: {
        'server.crt': server.cert,
        'server.key': server.key,
        'ca.crt': authority.ca,
        'pg_hba.conf': HOST_BASED_ACCESS,
      },
    },
  });
  const servers = await starting.catch(async (error: unknown) => {
    await tokens.close();
    throw error;
  });
  const secrets = new Map([
    ['password', password],
    ['operator password', operatorPassword],
    ['client secret', clientSecret],
  ]);
  return {
    servers,
    tokens,
    authority,
    serverCertificate: server,
    secrets,
    password,
    operatorPassword,
    kafkaAt(listener, host = 'localhost') {
      const port = servers.kafkaListeners[listener]?.split(':')[1];
      return { KAFKA_BROKERS: `${host}:${port}` };
    },
    file(name, content) {
      const path = join(directory, name);
      writeFileSync(path, content, { mode: 0o600 });
      return path;
    },
    async stop() {
      await Promise.all([servers.stop(), tokens.close()]);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Only the superuser, who creates the databases of the tests, may connect without TLS. */
const HOST_BASED_ACCESS = `
hostssl all certified    127.0.0.1/32 scram-sha-256 clientcert=verify-full
hostssl all all          127.0.0.1/32 scram-sha-256
host    all postgres     127.0.0.1/32 scram-sha-256
`;

function kafkaTls({ cert, key }: Certificate, ca: string, prefix = ''): Record<string, string> {
  return {
    [`${prefix}ssl.keystore.type`]: 'PEM',
    [`${prefix}ssl.keystore.certificate.chain`]: cert,
    [`${prefix}ssl.keystore.key`]: key,
    [`${prefix}ssl.truststore.type`]: 'PEM',
    [`${prefix}ssl.truststore.certificates`]: ca,
  };
}

const MODULES = 'org.apache.kafka.common.security';

function kafkaUsers(
  prefix: string,
  users: Readonly<Record<string, string>>,
  keysUrl: string,
): Record<string, string> {
  const plain = Object.entries(users).map(([user, password]) => ` user_${user}="${password}"`);
  return {
    [`${prefix}sasl.enabled.mechanisms`]: 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER',
    [`${prefix}plain.sasl.jaas.config`]: `${MODULES}.plain.PlainLoginModule required${plain.join('')};`,
    [`${prefix}scram-sha-256.sasl.jaas.config`]: `${MODULES}.scram.ScramLoginModule required;`,
    [`${prefix}scram-sha-512.sasl.jaas.config`]: `${MODULES}.scram.ScramLoginModule required;`,
    [`${prefix}oauthbearer.sasl.jaas.config`]: `${MODULES}.oauthbearer.OAuthBearerLoginModule required;`,
    [`${prefix}oauthbearer.sasl.server.callback.handler.class`]: `${MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler`,
    [`${prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url`]: keysUrl,
    [`${prefix}oauthbearer.sasl.oauthbearer.expected.audience`]: AUDIENCE,
    [`${prefix}oauthbearer.sasl.oauthbearer.expected.issuer`]: ISSUER,
  };
}

export const newSecret = () => randomBytes(12).toString('hex');

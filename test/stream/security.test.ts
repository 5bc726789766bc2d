/**
 * TLS, users and tokens on a Kafka and a Postgres that require them: which clients are admitted, which are
 * refused, and the messages about it.
 */

import * as https from 'node:https';
import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } from 'kafkajs';
import { Client } from 'pg';
import { makeAuthority } from '../../dev/servers/certificates';
import { sleep, until } from '../../dev/servers/deadline';
import { makeKafka } from '../../src/kafka/client/client';
import { encodeMessages, makeProducer } from '../../src/kafka/producer';
import type { OutgoingMessage } from '../../src/kafka/protocol/record-batch-writer';
import { makeLogger } from '../../src/telemetry/logger';
import { allowing, createAcls } from '../support/acls';
import { aBet, aDeposit, anOperator, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { type Serving, serve } from '../support/serve';
import { schemaRegistryUrl, withAdmin } from '../support/servers';
import { killWorkers, RunningCommand, type Settings } from '../support/worker';
import { framed, TestRegistry } from './registry';
import { newSecret, OPERATOR, REAUTHENTICATE_MS, type Secured, startSecured, USER } from './secured';
import { sideBySide } from './side-by-side';
import { connectionOf, inWorld, type World } from './world';

const SECOND = 1_000;
const LONG = 120 * SECOND;
jest.setTimeout(LONG);

const USER_OF_DATABASE = 'promo_intake';
const databasePassword = newSecret();
let secured: Secured;
let ca: string;
let clientCertificate: Settings;
/** All commands of this file, with all their output. */
const commands: RunningCommand[] = [];

beforeAll(async () => {
  secured = await startSecured();
  const { authority, file, servers } = secured;
  // Roles that the server admits over TLS only. The tests' own connections use the superuser.
  const client = new Client({ connectionString: servers.databaseUrl });
  await client.connect();
  for (const user of [USER_OF_DATABASE, 'certified'])
    await client.query(`create role ${user} superuser login password '${databasePassword}'`);
  await client.end();
  secured.secrets.set('database password', databasePassword);
  ca = file('ca.crt', authority.ca);
  const { cert, key } = authority.sign(USER);
  secured.secrets.set('client key', key.split('\n')[1] ?? '');
  clientCertificate = {
    KAFKA_SSL_CERT_FILE: file('client.crt', cert),
    KAFKA_SSL_KEY_FILE: file('client.key', key),
  };
});
afterEach(killWorkers);
/** Tests that wait most of their time, and change nothing that other tests use. */
const together = sideBySide();
afterAll(async () => {
  await secured?.stop();
});

function start(args: readonly string[], settings: Settings): RunningCommand {
  const command = new RunningCommand(args, settings);
  commands.push(command);
  return command;
}

async function run(
  args: readonly string[],
  settings: Settings,
): Promise<{ code: number | null; output: string }> {
  const command = start(args, settings);
  const { code } = await command.ending();
  return { code, output: command.output() };
}

const tls = (): Settings => ({ KAFKA_SSL_CA_FILE: ca });
const mutual = (): Settings => ({
  ...secured.kafkaAt('MUTUAL'),
  ...tls(),
  ...clientCertificate,
  KAFKA_SECURITY_PROTOCOL: 'SSL',
});
const withPassword = (mechanism: string): Settings => ({
  ...secured.kafkaAt('SASL_TLS'),
  ...tls(),
  KAFKA_SECURITY_PROTOCOL: 'SASL_SSL',
  KAFKA_SASL_MECHANISM: mechanism,
  KAFKA_SASL_USERNAME: USER,
  KAFKA_SASL_PASSWORD: secured.password,
});
const withToken = (): Settings => ({
  ...secured.kafkaAt('SASL_TLS'),
  ...tls(),
  KAFKA_SECURITY_PROTOCOL: 'SASL_SSL',
  KAFKA_SASL_MECHANISM: 'OAUTHBEARER',
  KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: secured.tokens.tokenUrl,
  KAFKA_SASL_OAUTHBEARER_CLIENT_ID: USER,
  KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET: secured.tokens.clientSecret,
  KAFKA_SASL_OAUTHBEARER_SCOPE: 'events',
  NODE_EXTRA_CA_CERTS: ca,
});
const withoutTls = (): Settings => ({
  ...withPassword('SCRAM-SHA-512'),
  ...secured.kafkaAt('SASL_OPEN'),
  KAFKA_SECURITY_PROTOCOL: 'SASL_PLAINTEXT',
  KAFKA_SSL_CA_FILE: undefined,
});
/** The database of a world, or the server's own, over TLS. The password is separate from the address. */
function database(
  url = secured.servers.databaseUrl,
  more: Settings = {},
  user: string = USER_OF_DATABASE,
): Settings {
  const address = new URL(url);
  address.username = user;
  address.password = '';
  address.hostname = 'localhost';
  return {
    DATABASE_URL: address.href,
    DATABASE_PASSWORD: databasePassword,
    DATABASE_SSL_MODE: 'verify-full',
    DATABASE_SSL_CA_FILE: ca,
    ...more,
  };
}

/** As a user of the database who has to present a client certificate. */
function certified(url?: string): Settings {
  const { cert, key } = secured.authority.sign('certified');
  const certificate = {
    DATABASE_SSL_CERT_FILE: secured.file('certified.crt', cert),
    DATABASE_SSL_KEY_FILE: secured.file('certified.key', key),
  };
  return database(url, certificate, 'certified');
}

const lines = (count: number, name: string) =>
  Array.from({ length: count }, (_, index) => JSON.stringify(aBet({ event_id: `${name}-${index}` })));

describe('a feed is sent and decided over TLS to Postgres, and to Kafka with', () => {
  test.each<[string, () => Settings, ((url: string) => Settings)?]>([
    ['TLS with a client certificate, and another one for Postgres', mutual, certified],
    ['PLAIN and TLS', () => withPassword('PLAIN')],
    ['SCRAM-SHA-256 and TLS', () => withPassword('SCRAM-SHA-256')],
    ['SCRAM-SHA-512 and TLS', () => withPassword('SCRAM-SHA-512')],
    ['OAUTHBEARER and TLS', withToken],
    ['SCRAM-SHA-512 without TLS', withoutTls],
  ])('%s', async (name, kafka, postgres = database) => {
    await inWorld({ servers: secured.servers, topics: { main: 2, verdicts: 1 } }, async (world) => {
      const events = secured.file('feed.ndjson', `${lines(200, name).join('\n')}\n`);
      const sent = await run(['publish', events, '--topic', world.topics.main], kafka());
      expect(sent).toEqual({ code: 0, output: expect.stringContaining(': 200 events') });
      const worker = start(['worker', '--drain'], {
        HTTP_PORT: '0',
        ...world.settings,
        ...kafka(),
        ...postgres(world.databaseUrl),
        VERDICT_TOPIC: world.topics.verdicts,
        // The most detailed level.
        LOG_LEVEL: 'trace',
      });
      expect(await worker.ending()).toEqual({ code: 0, signal: null });
      expect(await world.balance()).toEqual({ records: 200, accepted: 200 });
      expect(await world.ends(world.topics.verdicts)).toEqual([200]);
    });
  });

  test('OAUTHBEARER, which requests the scope', () => {
    expect(secured.tokens.scopes).toContain('events');
  });
});

describe('a refusal names the setting in one sentence:', () => {
  const publish = async (settings: Settings) =>
    run(['publish', secured.file('one.ndjson', '{}\n'), '--topic', 'none'], settings);
  const wrong = newSecret();

  test.each<[string, () => Settings, RegExp]>([
    [
      'mutual TLS without a client certificate',
      () => ({ ...mutual(), KAFKA_SSL_CERT_FILE: undefined, KAFKA_SSL_KEY_FILE: undefined }),
      /^Kafka cannot be reached: .*bad certificate\. It requires another client certificate.* KAFKA_SSL_CERT_FILE\.$/,
    ],
    [
      'a client certificate of another authority',
      () => {
        const { cert, key } = makeAuthority('Another').sign(USER);
        return {
          ...mutual(),
          KAFKA_SSL_CERT_FILE: secured.file('stranger.crt', cert),
          KAFKA_SSL_KEY_FILE: secured.file('stranger.key', key),
        };
      },
      /^Kafka cannot be reached: .* It requires another client certificate: check KAFKA_SSL_CERT_FILE\.$/,
    ],
    ...['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'].map((mechanism): [string, () => Settings, RegExp] => [
      `a wrong password for ${mechanism}`,
      () => ({ ...withPassword(mechanism), KAFKA_SASL_PASSWORD: wrong }),
      /^Kafka refused the login: SASL .* KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD\.$/,
    ]),
    [
      'a wrong client secret for OAUTHBEARER',
      () => ({ ...withToken(), KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET: wrong }),
      /^Kafka: the token endpoint refused us: HTTP 401: invalid_client\. Correct .*KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET/,
    ],
    [
      'a token that the brokers refuse',
      () => ({ ...withToken(), ...otherTokens() }),
      /^Kafka refused the login: SASL OAUTHBEARER authentication failed: invalid_token\. .*KAFKA_SASL_OAUTHBEARER_SCOPE/,
    ],
    [
      'a token endpoint of an unknown authority',
      () => ({ ...withToken(), NODE_EXTRA_CA_CERTS: undefined }),
      /^Kafka: the token endpoint did not answer: .* signed by an unknown authority: .*NODE_EXTRA_CA_CERTS\.$/,
    ],
    [
      'a token endpoint that does not exist',
      () => ({ ...withToken(), KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: 'http://127.0.0.1:1/token' }),
      /^Kafka: the token endpoint did not answer: .*KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL/,
    ],
    [
      'brokers of an unknown authority',
      () => ({ ...withPassword('PLAIN'), KAFKA_SSL_CA_FILE: strangersCa() }),
      /^Kafka cannot be reached: .* signed by an unknown authority: .*KAFKA_SSL_CA_FILE\.$/,
    ],
    [
      'brokers of another authority with the same name',
      () => ({ ...withPassword('PLAIN'), KAFKA_SSL_CA_FILE: strangersCa('The authority of this run') }),
      /^Kafka cannot be reached: .* signed by an unknown authority: .*KAFKA_SSL_CA_FILE\.$/,
    ],
    [
      'brokers with the certificate of another host',
      () => ({ ...withPassword('PLAIN'), ...secured.kafkaAt('SASL_TLS', '127.0.0.1') }),
      /^Kafka cannot be reached: .* Its certificate belongs to another host: correct the host in KAFKA_BROKERS/,
    ],
    [
      'brokers with a certificate that has expired',
      () => ({ ...tls(), ...secured.kafkaAt('EXPIRED'), KAFKA_SECURITY_PROTOCOL: 'SSL' }),
      /^Kafka cannot be reached: .*certificate has expired\. Its certificate has expired or is not valid yet/,
    ],
    [
      'TLS to a port without TLS',
      () => ({ ...tls(), KAFKA_BROKERS: secured.servers.kafkaBrokers, KAFKA_SECURITY_PROTOCOL: 'SSL' }),
      /^Kafka cannot be reached: .* KAFKA_SECURITY_PROTOCOL fits their port\.$/,
    ],
    [
      'no TLS to a port with TLS',
      () => secured.kafkaAt('MUTUAL'),
      /^Kafka cannot be reached: .* KAFKA_SECURITY_PROTOCOL fits their port\.$/,
    ],
    [
      'no user at a port that requires one',
      () => secured.kafkaAt('SASL_OPEN'),
      /^Kafka cannot be reached: .* KAFKA_SECURITY_PROTOCOL fits their port\.$/,
    ],
    [
      'a user at a port without users',
      () => ({ ...withoutTls(), KAFKA_BROKERS: secured.servers.kafkaBrokers }),
      /^Kafka answered: .* The port has no SASL: correct KAFKA_SECURITY_PROTOCOL\.$/,
    ],
  ])('Kafka, %s', async (_, settings, expected) => {
    secured.secrets.set('wrong secret', wrong);
    const { code, output } = await publish(settings());
    expect(output.trim()).toMatch(expected);
    expect(code).toBe(1);
  });

  test.each<[string, () => Settings, RegExp]>([
    [
      'an unknown authority',
      () => ({ DATABASE_SSL_CA_FILE: strangersCa() }),
      /^Postgres cannot be reached: .* signed by an unknown authority: .*DATABASE_SSL_CA_FILE\.$/,
    ],
    [
      'a certificate of another host',
      () => ({ DATABASE_URL: database().DATABASE_URL?.replace('localhost', '127.0.0.1') }),
      /^Postgres cannot be reached: .* Its certificate belongs to another host: correct the host in DATABASE_URL/,
    ],
    [
      'a wrong password',
      () => ({ DATABASE_PASSWORD: wrong }),
      /^Postgres answered: password authentication failed .* DATABASE_PASSWORD\. Postgres gives the same answer for an expired password/,
    ],
    [
      'a wrong password in the address',
      () => ({
        DATABASE_URL: database().DATABASE_URL?.replace('@', `:${wrong}@`),
        DATABASE_PASSWORD: undefined,
      }),
      /^Postgres answered: password authentication failed .* DATABASE_PASSWORD\. Postgres gives the same answer for an expired password/,
    ],
    [
      'no TLS where the server requires it',
      () => ({
        DATABASE_URL: database().DATABASE_URL,
        DATABASE_SSL_MODE: undefined,
        DATABASE_SSL_CA_FILE: undefined,
      }),
      /^Postgres answered: .*no encryption\. Set DATABASE_SSL_MODE to verify-full/,
    ],
    [
      'no client certificate where the server requires one',
      () => ({ DATABASE_URL: database(undefined, {}, 'certified').DATABASE_URL }),
      /^Postgres answered: .*\. Set DATABASE_SSL_CERT_FILE and DATABASE_SSL_KEY_FILE\.$/,
    ],
  ])('Postgres, %s', async (_, settings, expected) => {
    const { code, output } = await run(['migrate'], database(undefined, settings()));
    expect(output.trim()).toMatch(expected);
    expect(code).toBe(1);
  });

  test('a worker logs the same sentence from its first try on', async () => {
    await inWorld({ servers: secured.servers, topics: { main: 1 } }, async (world) => {
      for (const [settings, expected] of [
        [
          { ...withPassword('PLAIN'), KAFKA_SASL_PASSWORD: wrong },
          /KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD/,
        ],
        [{ DATABASE_SSL_CA_FILE: strangersCa() }, /DATABASE_SSL_CA_FILE/],
      ] as const) {
        const worker = start(['worker'], {
          HTTP_PORT: '0',
          ...world.settings,
          ...database(world.databaseUrl),
          ...settings,
        });
        const line = await worker.waitForLog(({ msg }) => msg.includes('is not ready, retrying'));
        expect(line.error).toMatch(expected);
        await worker.kill();
      }
    });
  });

  function strangersCa(name = 'Another'): string {
    return secured.file('stranger-ca.crt', makeAuthority(name).ca);
  }

  /** Another authorization server, whose key the brokers do not have. */
  function otherTokens(): Settings {
    return { KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: secured.tokens.forgedUrl };
  }
});

test('migrate presents a client certificate where Postgres requires one', async () => {
  expect(await run(['migrate'], certified())).toEqual({
    code: 0,
    output: expect.stringMatching(/^ran 0001_/),
  });
});

describe('a schema registry over https', () => {
  const [password, token] = [newSecret(), newSecret()];
  const basic = `Basic ${Buffer.from(`${USER}:${password}`).toString('base64')}`;
  let door: Serving;

  /** The run's registry has no authentication, so this server adds it. */
  beforeAll(async () => {
    secured.secrets.set('registry password', password).set('registry token', token);
    const server = https.createServer({ ...secured.serverCertificate }, async (request, response) => {
      if (![basic, `Bearer ${token}`].includes(request.headers.authorization ?? '')) {
        response.writeHead(401).end(request.headers.authorization);
        return;
      }
      const target = new URL(schemaRegistryUrl());
      const answer = await fetch(`${target.href.replace(/\/$/, '')}${request.url}`);
      const type = answer.headers.get('content-type') ?? 'application/json';
      response.writeHead(answer.status, { 'content-type': type }).end(await answer.text());
    });
    door = await serve(server);
  });
  afterAll(() => door.close());

  const registry = (more: Settings): Settings => ({
    SCHEMA_REGISTRY_URL: `https://localhost:${door.port}`,
    NODE_EXTRA_CA_CERTS: ca,
    ...more,
  });

  test.each<[string, Settings]>([
    ['user and password', { SCHEMA_REGISTRY_USERNAME: USER, SCHEMA_REGISTRY_PASSWORD: password }],
    ['a token', { SCHEMA_REGISTRY_TOKEN: token }],
  ])('is asked with %s', async (_, settings) => {
    await inWorld({ servers: secured.servers, topics: { main: 1 } }, async (world) => {
      await produceFramed(world);
      const worker = start(['worker', '--drain'], {
        HTTP_PORT: '0',
        ...world.settings,
        ...registry(settings),
      });
      expect(await worker.ending()).toEqual({ code: 0, signal: null });
      expect(await world.verdicts()).toEqual({ json: 'accepted', avro: 'accepted' });
    });
  });

  test.each<[string, Settings, RegExp]>([
    ['a wrong token', { SCHEMA_REGISTRY_TOKEN: 'wrong' }, /HTTP 401; check .*SCHEMA_REGISTRY_TOKEN/],
    ['an unknown authority', { NODE_EXTRA_CA_CERTS: undefined }, /check NODE_EXTRA_CA_CERTS/],
  ])('leaves records undecided with %s, and the log says why', async (_, settings, expected) => {
    await inWorld({ servers: secured.servers, topics: { main: 1 } }, async (world) => {
      await produceFramed(world);
      const worker = start(['worker'], { HTTP_PORT: '0', ...world.settings, ...registry(settings) });
      await worker.waitForLog(({ error }) => expected.test(String(error)));
      expect(await world.verdicts()).toEqual({});
    });
  });

  async function produceFramed(world: World<'main'>): Promise<void> {
    const schemas = new TestRegistry(schemaRegistryUrl());
    const [json, avro] = [await schemas.jsonSchema(), await schemas.avroSchema()];
    const records = [
      { value: framed(json, bytesOf(aBet({ event_id: 'json' }))) },
      { value: await schemas.encode(avro, aDeposit({ event_id: 'avro' })) },
    ];
    await produce(world.topics.main, records, { brokers: world.brokers });
  }
});

describe('secrets in files are read again at the next connection:', () => {
  together('the client secret and its tokens, over several reauthentications', async () => {
    const { tokens } = secured;
    const file = secured.file('client-secret', `${tokens.clientSecret}\n`);
    tokens.lifetimeSeconds = (2 * REAUTHENTICATE_MS) / SECOND;
    await inWorld({ servers: secured.servers, topics: { main: 1 } }, async (world) => {
      const worker = start(['worker'], {
        HTTP_PORT: '0',
        ...world.settings,
        ...withToken(),
        KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET: undefined,
        KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET_FILE: file,
        ...database(world.databaseUrl),
      });
      await worker.waitForLog('partitions assigned');
      const [given, said] = [tokens.given.length, worker.log().length];
      tokens.clientSecret = newSecret();
      secured.secrets.set('next client secret', tokens.clientSecret);
      secured.file('client-secret', tokens.clientSecret);
      await until('the second token after that is issued', LONG, () => tokens.given.length >= given + 2);
      await send(world, 'after', 50);
      await world.untilDecided(50);
      expect(
        worker
          .log()
          .slice(said)
          .filter(({ level }) => level !== 'info'),
      ).toEqual([]);
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
    });
  });

  test('the password of the database', async () => {
    const next = newSecret();
    secured.secrets.set('next database password', next);
    const file = secured.file('database-password', databasePassword);
    await inWorld({ servers: secured.servers, topics: { main: 1 } }, async (world) => {
      const worker = start(['worker'], {
        HTTP_PORT: '0',
        ...world.settings,
        ...database(world.databaseUrl, { DATABASE_PASSWORD: undefined, DATABASE_PASSWORD_FILE: file }),
      });
      await worker.waitForLog('partitions assigned');
      await send(world, 'first', 20);
      await world.untilDecided(20);
      await world.rows(`alter role ${USER_OF_DATABASE} password '${next}'`);
      secured.file('database-password', next);
      await world.rows(
        `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${USER_OF_DATABASE}'`,
      );
      await send(world, 'second', 20);
      await world.untilDecided(40);
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      await world.rows(`alter role ${USER_OF_DATABASE} password '${databasePassword}'`);
    });
  });

  async function send(world: World<'main'>, name: string, count: number): Promise<void> {
    const records = lines(count, name).map((value) => ({ value }));
    await produce(world.topics.main, records, { brokers: world.brokers });
  }
});

together(
  'with a topic of its own and an ACL an operator can write no feed but its own [C4] [C5]',
  async () => {
    await inWorld(
      {
        servers: secured.servers,
        topics: { acme: 1, bravo: 1 },
        operators: ({ acme, bravo }) => [
          anOperator({ id: 'acme', connections: [connectionOf(acme, { id: 'acme-stream' })] }),
          anOperator({ id: 'bravo', connections: [connectionOf(bravo, { id: 'bravo-stream' })] }),
        ],
      },
      async (world) => {
        const { acme, bravo } = world.topics;
        const { WRITE, DESCRIBE } = AclOperationTypes;
        await createAcls(world.brokers, allowing(OPERATOR)(AclResourceTypes.TOPIC, acme, WRITE, DESCRIBE));
        const operators = makeKafka(
          {
            brokers: [secured.kafkaAt('SASL_TLS').KAFKA_BROKERS],
            clientId: OPERATOR,
            tls: { ca: secured.authority.ca },
            sasl: { mechanism: 'PLAIN', username: OPERATOR, password: () => secured.operatorPassword },
            retries: 1,
          },
          makeLogger('silent'),
        );
        const producer = await makeProducer(operators);
        const message: OutgoingMessage = {
          key: null,
          value: bytesOf(aBet({ event_id: 'whose' })),
          headers: [['connection-id', 'bravo-stream']],
        };
        await expect(producer.send(bravo, [message], encodeMessages())).rejects.toThrow(
          /authoriz|hides it from this user/i,
        );
        await producer.send(acme, [message], encodeMessages());
        await producer.stop();
        // Only the superuser may connect without TLS.
        await world.drain({ DATABASE_URL: world.databaseUrl });
        expect(
          await world.rows('select operator_id, feed_id, event_id, verdict from promo.verdicts'),
        ).toEqual([['acme', 'acme', 'whose', 'accepted']]);
        expect(await world.ends(bravo)).toEqual([0]);
      },
    );
  },
);

together(
  'a topic that a worker may not read is logged and stops no other; it is read once the ACL allows it',
  async () => {
    await inWorld({ servers: secured.servers, topics: { acme: 2, bravo: 2 } }, async (world) => {
      const { acme, bravo } = world.topics;
      const allow = allowing(OPERATOR);
      const { READ, WRITE, DESCRIBE } = AclOperationTypes;
      const { TOPIC, GROUP } = AclResourceTypes;
      await withAdmin(
        (admin) => admin.createTopics({ topics: [{ topic: world.deadLetterTopic }], waitForLeaders: true }),
        world.brokers,
      );
      await createAcls(
        world.brokers,
        allow(TOPIC, world.deadLetterTopic, WRITE, DESCRIBE),
        allow(TOPIC, bravo, READ, DESCRIBE),
        allow(TOPIC, acme, DESCRIBE),
        allow(GROUP, world.groupId, READ, DESCRIBE),
      );
      const send = (topic: string, name: string) =>
        produce(
          topic,
          lines(20, name).map((value) => ({ value })),
          { brokers: world.brokers },
        );
      const worker = start(['worker'], {
        HTTP_PORT: '0',
        ...world.settings,
        ...withPassword('PLAIN'),
        KAFKA_SASL_USERNAME: OPERATOR,
        KAFKA_SASL_PASSWORD: secured.operatorPassword,
      });
      const refused = await worker.waitForLog('cannot read a topic, retrying; other topics continue');
      expect(refused).toMatchObject({
        level: 'error',
        topic: acme,
        error: expect.stringMatching(/not authorized/i),
      });
      await Promise.all([send(acme, 'acme'), send(bravo, 'bravo')]);
      await world.untilDecided(20);
      // Long enough for a client that ended to be recreated several times.
      await sleep(8 * SECOND);
      await send(bravo, 'later');
      await world.untilDecided(40);
      expect(worker.logged('partitions assigned')).toHaveLength(1);
      expect(worker.logged('cannot read a topic, retrying; other topics continue')).toHaveLength(1);
      const metric = async () =>
        (await worker.get('/metrics')).text
          .split('\n')
          .filter((line) => line.startsWith('promo_intake_refused_partitions{'));
      expect(await metric()).toEqual([`promo_intake_refused_partitions{topic="${acme}"} 2`]);
      await createAcls(world.brokers, allow(TOPIC, acme, READ));
      await world.untilDecided(60);
      await worker.waitForLog('topic is readable again');
      await until('no partition is refused', 40 * SECOND, async () =>
        (await metric()).every((line) => line.endsWith(' 0')),
      );
      expect(worker.logged('partitions assigned')).toHaveLength(1);

      const isCommitted = async (topic: string) => {
        const [committed, ends] = [await world.committed(topic), await world.ends(topic)];
        // Nothing is committed for an empty partition.
        return committed.every((offset, index) => Math.max(offset, 0) === ends[index]);
      };
      // The permission is removed while the worker reads: commits of records decided meanwhile are refused as
      // well.
      let isRefused = false;
      const feed = (async () => {
        for (let i = 0; !isRefused; i++) {
          await send(acme, `acme ${i}`);
          await sleep(50);
        }
      })();
      await withAdmin(
        (admin) =>
          admin.deleteAcls({
            filters: [
              {
                resourceType: TOPIC,
                resourceName: acme,
                operation: READ,
                principal: `User:${OPERATOR}`,
                host: '*',
                permissionType: AclPermissionTypes.ALLOW,
                resourcePatternType: ResourcePatternTypes.LITERAL,
              },
            ],
          }),
        world.brokers,
      );
      try {
        await until('the partition is refused again', 40 * SECOND, async () =>
          (await metric()).some((line) => line.endsWith(' 2')),
        );
      } finally {
        isRefused = true;
        await feed;
      }
      await send(bravo, 'still');
      await until('bravo is committed', 20 * SECOND, () => isCommitted(bravo));
      await sleep(5 * SECOND);
      expect(worker.logged('offset commit failed').length).toBeLessThan(4);
      expect(worker.logged('partitions assigned')).toHaveLength(1);
      await createAcls(world.brokers, allow(TOPIC, acme, READ));
      await until('acme is committed', 60 * SECOND, () => isCommitted(acme));
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
    });
  },
);

test('no command of this test run has written a secret or a part of a key', async () => {
  for (const [index, token] of secured.tokens.given.entries()) secured.secrets.set(`token ${index}`, token);
  const all = commands.map((command) => command.output()).join('\n');
  expect(commands.length).toBeGreaterThan(30);
  expect(all.length).toBeGreaterThan(10_000);
  const forms = (secret: string) => [
    secret,
    encodeURIComponent(secret),
    // As HTTP Basic and SASL PLAIN send it.
    ...[`${USER}:${secret}`, `\0${USER}\0${secret}`].map((text) => Buffer.from(text).toString('base64')),
  ];
  const written = [...secured.secrets].filter(([, secret]) =>
    forms(secret).some((form) => all.includes(form)),
  );
  expect(written).toEqual([]);
  expect(secured.secrets.size).toBeGreaterThan(8);
});

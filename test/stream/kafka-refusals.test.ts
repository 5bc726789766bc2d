/**
 * Brokers refuse a user, or another kind of client uses the group: commands and workers name the cause and a
 * remedy that helps.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AclEntry, AclOperationTypes, AclResourceTypes, ResourcePatternTypes } from 'kafkajs';
import type { Servers } from '../../dev/servers';
import { makeKafka } from '../../src/kafka/client/client';
import { readRecords } from '../../src/kafka/consumer/range-reader';
import { makeLogger } from '../../src/telemetry/logger';
import { allowing, createAcls } from '../support/acls';
import { produce } from '../support/kafka';
import { kafkaClient, ownServers, withAdmin } from '../support/servers';
import { killWorkers, RunningCommand, type Settings } from '../support/worker';
import { makeWorld, type World } from './world';

const SECOND = 1_000;
const LONG = 120 * SECOND;
jest.setTimeout(LONG);
const USER = 'limited';
const directory = mkdtempSync(join(tmpdir(), 'promo-refusals-'));
const EVENTS = join(directory, 'events.ndjson');

let servers: Servers;
let world: World<'main' | 'other'>;
beforeAll(async () => {
  writeFileSync(EVENTS, '{"event_id":"a"}\n');
  servers = await ownServers({
    need: ['kafka'],
    environment: { STACK: 'processes' },
    kafkaExtras: {
      listeners: { USERS: 'SASL_PLAINTEXT' },
      settings: {
        'listener.name.users.sasl.enabled.mechanisms': 'PLAIN',
        'listener.name.users.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required user_${USER}="secret";`,
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': 'User:ANONYMOUS',
        'group.max.size': '2',
      },
      scramUsers: [],
      javaOptions: [],
    },
  });
  world = await makeWorld({ servers, topics: { main: 1, other: 1 } });
  await withAdmin(
    (admin) => admin.createTopics({ topics: [{ topic: world.deadLetterTopic }], waitForLeaders: true }),
    world.brokers,
  );
  for (const topic of [world.topics.main, world.deadLetterTopic])
    await produce(topic, [{ value: 'x' }], { brokers: world.brokers });
});
afterEach(killWorkers);
afterAll(async () => {
  await world?.close();
  await servers?.stop();
  rmSync(directory, { recursive: true, force: true });
});

const { READ, WRITE, DESCRIBE, DELETE } = AclOperationTypes;
const { TOPIC, GROUP } = AclResourceTypes;
const allow = allowing(USER);
const asUser = (): Settings => ({
  ...world.settings,
  KAFKA_BROKERS: servers.kafkaListeners.USERS,
  KAFKA_SECURITY_PROTOCOL: 'SASL_PLAINTEXT',
  KAFKA_SASL_MECHANISM: 'PLAIN',
  KAFKA_SASL_USERNAME: USER,
  KAFKA_SASL_PASSWORD: 'secret',
  HTTP_PORT: '0',
});
const plain = (): Settings => ({ ...world.settings, HTTP_PORT: '0' });
const acls = (...entries: AclEntry[][]) => createAcls(world.brokers, ...entries);

/** The output of a command that fails. */
async function refused(args: readonly string[], settings: Settings): Promise<string> {
  const command = new RunningCommand(args, settings);
  expect(await command.ending()).toEqual({ code: 1, signal: null });
  return command.output();
}

/** The error that ends a worker after some tries. */
async function causeOfDeath(settings: Settings, args: readonly string[] = []): Promise<unknown> {
  const worker = new RunningCommand(['worker', ...args], settings);
  expect(await worker.ending()).toEqual({ code: 1, signal: null });
  expect(worker.logged('the Kafka client failed; creating another one')[0]?.error).not.toBe(
    'Failed to find group coordinator',
  );
  return worker.logged('Kafka client ended')[0]?.error;
}

const GROUP_ACL =
  /Group authorization failed\. Grant the Kafka user of this process Describe and Read on the group KAFKA_GROUP_ID\. .*groups whose names begin with it/;

describe('a user without ACLs', () => {
  test('for a topic does not see it, and the command says how to name the topic or grant access', async () => {
    expect(await refused(['dead-letters', 'list'], asUser())).toMatch(
      /^Kafka has no topic .*, or hides it from this user\. Set DEAD_LETTER_TOPIC as for the workers, .* or grant the Kafka user Describe on the topic$/m,
    );
    await acls(
      allow(TOPIC, world.topics.main, DESCRIBE),
      allow(TOPIC, world.deadLetterTopic, DESCRIBE, WRITE),
    );
  });

  test('for groups is refused by each command, which names the group', async () => {
    const replay = ['replay', '--topic', world.topics.main, '--partition', '0', '--from-offset', '0'];
    // Each waits for the brokers for most of its time.
    const reasons = await Promise.all([
      ...[['verify'], replay, ['dead-letters', 'list']].map((args) => refused(args, asUser())),
      ...[[], ['--drain']].map((args) => causeOfDeath(asUser(), args)),
    ]);
    expect(reasons).toEqual(Array(5).fill(expect.stringMatching(GROUP_ACL)));
  });

  test('for writing is refused by publish, which names the missing ACL', async () => {
    expect(await refused(['publish', EVENTS, '--topic', world.topics.main], asUser())).toMatch(
      /not delivered: lines 1.* cannot be written: .*Topic authorization failed\]\. Grant the Kafka user of this process the ACL Write on the topic/,
    );
  });

  test('for reading is refused by dead-letters, which names the missing ACL', async () => {
    await acls(
      ['dead-letters', 'replay', 'verify'].flatMap((purpose) =>
        allow(GROUP, `${world.groupId}.${purpose}-`, READ, DESCRIBE, DELETE).map((entry) => ({
          ...entry,
          resourcePatternType: ResourcePatternTypes.PREFIXED,
        })),
      ),
    );
    expect(await refused(['dead-letters', 'list'], asUser())).toMatch(
      /Topic authorization failed|not authorized.* Grant the Kafka user of this process Read on the topic/i,
    );
  });

  test.each([
    ['reports the end at once', 0],
    ['reports the end after 3 s', 3_000],
  ])(
    'for reading is refused by its reason where the client ends before it commits offsets, and %s',
    async (_, reportMs) => {
      const { main: topic } = world.topics;
      const kafka = makeKafka(
        {
          brokers: servers.kafkaListeners.USERS?.split(',') ?? [],
          clientId: 'promo-test',
          sasl: { mechanism: 'PLAIN', username: USER, password: () => 'secret' },
        },
        makeLogger('silent'),
      );
      const makeConsumer = kafka.consumer.bind(kafka);
      kafka.consumer = (options) => {
        const consumer = makeConsumer(options);
        const stopped = new Promise((resolve) => consumer.on(consumer.events.STOP, resolve));
        return {
          ...consumer,
          on: new Proxy(consumer.on, {
            apply: (on, _, [name, listener]) =>
              on(name, (event: unknown) => {
                setTimeout(listener, name === consumer.events.CRASH ? reportMs : 0, event);
              }),
          }),
          async commitOffsets(offsets) {
            await stopped;
            return consumer.commitOffsets(offsets);
          },
        };
      };
      const range = { topic, partition: 0, from: 0, to: 1 };
      const reading = { groupId: world.groupId, purpose: 'replay', ranges: [range] };
      await expect(readRecords(kafka, reading, async () => true, makeLogger('silent'))).rejects.toThrow(
        /Topic authorization failed/i,
      );
    },
  );
});

describe('a group', () => {
  test('that is full ends the worker, and the error names the setting of its size', async () => {
    await Promise.all([world.started(), world.started()]);
    expect(await causeOfDeath(plain())).toMatch(
      /reached its max size\..*Run fewer workers, or raise group\.max\.size of the brokers/,
    );
  });

  test('that uses another protocol ends the worker, and the error names the setting of the group', async () => {
    const groupId = `${world.groupId}-other`;
    const other = kafkaClient(world.brokers).consumer({
      groupId,
      partitionAssigners: [
        () => ({
          name: 'Other',
          version: 1,
          assign: async () => [],
          protocol: () => ({ name: 'Other', metadata: Buffer.alloc(0) }),
        }),
      ],
    });
    const joined = new Promise<void>((resolve) => other.on(other.events.GROUP_JOIN, () => resolve()));
    await other.connect();
    await other.subscribe({ topics: [world.topics.main] });
    await other.run({ eachMessage: async () => {} });
    await joined;
    try {
      expect(await causeOfDeath({ ...plain(), KAFKA_GROUP_ID: groupId })).toMatch(
        /Members of another program .* use this group\. Set KAFKA_GROUP_ID to a name that only workers use/,
      );
    } finally {
      await other.disconnect();
    }
  });
});

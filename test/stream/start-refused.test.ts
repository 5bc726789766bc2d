/**
 * A final refusal of the brokers ends a start at once. The message names the topic or the address, the
 * refused request and the remedy.
 */
import { findOnPath } from '../../dev/servers/java';
import type { KafkaExtras } from '../../dev/servers/types';
import { aLogin, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { migratedDatabase } from '../support/ledger';
import { testWhere } from '../support/needed';
import { dropDatabase, ownServers, withAdmin } from '../support/servers';
import { RunningCommand, startWorker } from '../support/worker';
import { sideBySide } from './side-by-side';
import { inOwnWorld } from './world';

const SECOND = 1_000;
const DEADLINE_MS = 300 * SECOND;
/** Before START_WITHIN_MS: the worker retries nothing. */
const AT_ONCE_MS = 50 * SECOND;

/** Each test has its own Kafka. Three starts at a time: more would keep the cores from the workers. */
const together = sideBySide(3);

const extras = (settings: KafkaExtras['settings']): KafkaExtras => ({
  listeners: {},
  settings,
  scramUsers: [],
  javaOptions: [],
});

/** The error that ended a worker, from its last line. */
async function causeOfDeath(worker: RunningCommand, message: string): Promise<string> {
  expect(await worker.ending(AT_ONCE_MS)).toEqual({ code: 1, signal: null });
  expect(worker.log().filter(({ msg }) => msg.includes('is not ready'))).toEqual([]);
  return String(worker.logged(message)[0]?.error);
}

const policyNeeds =
  findOnPath('javac', process.env) === undefined ? { problem: 'no javac in the path' } : { javac: true };
const POLICY = `
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

public class SmallMessages implements CreateTopicPolicy {
  public void configure(Map<String, ?> settings) {}
  public void close() {}
  public void validate(RequestMetadata topic) throws PolicyViolationException {
    if (topic.configs().containsKey("max.message.bytes"))
      throw new PolicyViolationException("Messages of this cluster are small");
  }
}`;

testWhere(policyNeeds)(
  'a topic that a policy of the brokers refuses is named at once, with the reason and the remedy',
  () =>
    inOwnWorld(
      {
        need: ['kafka'],
        environment: { ...process.env, STACK: 'processes' },
        kafkaExtras: {
          ...extras({ 'create.topic.policy.class.name': 'SmallMessages' }),
          classes: { SmallMessages: POLICY },
        },
      },
      { topics: {} },
      async (world) => {
        const error = await causeOfDeath(world.start(), 'the worker cannot start');
        expect(error).toBe(
          `Topic ${world.deadLetterTopic} is missing, and the brokers refuse to create it: POLICY_VIOLATION: Messages of this cluster are small. Requested: partitions and replicas by the defaults of the brokers, max.message.bytes=83886080. Create ${world.deadLetterTopic} by hand as the policy of the brokers (create.topic.policy.class.name) requires, with a max.message.bytes above twice that of the topics that are read.`,
        );
      },
    ),
  DEADLINE_MS,
);

together(
  'a topic with more replicas than brokers is requested until the start ends, since brokers may still join',
  () =>
    inOwnWorld(
      { need: ['kafka'], kafkaExtras: extras({ 'default.replication.factor': '3' }) },
      { topics: {} },
      async (world) => {
        const named = new RegExp(
          `^Topic ${world.deadLetterTopic} is missing, and the brokers refuse to create it: INVALID_REPLICATION_FACTOR: .*3.*\\. Requested: .*max\\.message\\.bytes=83886080\\. Start the brokers that are missing, lower default\\.replication\\.factor`,
        );
        const worker = world.start();
        const line = await worker.waitForLog('Kafka is not ready, retrying');
        expect(line.error).toMatch(named);
        expect(await worker.ending(90 * SECOND)).toEqual({ code: 1, signal: null });
        expect(worker.logged('the worker cannot start')[0]?.error).toMatch(named);
        // As when the missing brokers have joined: a later try finds the topic.
        const next = world.start();
        await next.waitForLog('Kafka is not ready, retrying');
        await withAdmin(
          (admin) => admin.createTopics({ topics: [{ topic: world.deadLetterTopic, replicationFactor: 1 }] }),
          world.brokers,
        );
        await next.waitForLog('there are no topics to read yet');
      },
    ),
);

together('a command that reads offsets reports a cluster with too few brokers for its offsets topic', () =>
  inOwnWorld(
    { need: ['kafka'], kafkaExtras: extras({ 'offsets.topic.replication.factor': '3' }) },
    { topics: { main: 1 } },
    async (world) => {
      const command = new RunningCommand(['verify'], world.settings);
      const { code } = await command.ending(DEADLINE_MS);
      expect([code, command.output()]).toEqual([
        1,
        expect.stringMatching(
          /^Kafka answered: .*coordinator is not available.*\. Start the missing brokers\. .*__consumer_offsets, .*offsets\.topic\.replication\.factor\.$/m,
        ),
      ]);
    },
  ),
);

together(
  'a session timeout that the brokers refuse ends the worker at once, and correcting the named setting helps',
  () =>
    inOwnWorld(
      { need: ['kafka'], kafkaExtras: extras({ 'group.min.session.timeout.ms': '20000' }) },
      { topics: { main: 1 } },
      async (world) => {
        const error = await causeOfDeath(world.start(), 'Kafka client ended');
        expect(error).toBe(
          'Kafka refuses a member with a session timeout of 10000 ms. Set KAFKA_SESSION_TIMEOUT_MS to a value from group.min.session.timeout.ms to group.max.session.timeout.ms of the brokers, or change these.',
        );
        await produce(world.topics.main, [{ value: bytesOf(aLogin({ event_id: 'late' })) }], {
          brokers: world.brokers,
        });
        await world.started({ KAFKA_SESSION_TIMEOUT_MS: '20000' });
        await world.untilDecided(1);
      },
    ),
);

together(
  'the error for an advertised address that does not resolve names the listener of the brokers, not KAFKA_BROKERS',
  async () => {
    const servers = await ownServers({
      need: ['kafka'],
      kafkaExtras: {
        ...extras({}),
        listeners: { OUTER: 'PLAINTEXT' },
        advertised: { OUTER: 'kafka-0.invalid:9092' },
      },
    });
    const database = await migratedDatabase();
    try {
      const remedy =
        /Kafka cannot be reached: .*ENOTFOUND kafka-0\.invalid \(the brokers advertise kafka-0\.invalid:9092\)\. The cluster of KAFKA_BROKERS advertises .* or correct advertised\.listeners of the brokers\.$/m;
      const kafka = { KAFKA_BROKERS: servers.kafkaListeners.OUTER };
      const worker = startWorker({ ...kafka, DATABASE_URL: database });
      const line = await worker.waitForLog(({ msg }) => msg.includes('is not ready, retrying'));
      expect(line.error).toMatch(remedy);
      await worker.kill();
      const commands = [['status'], ['verify'], ['dead-letters', 'list']].map(async (command) => {
        const running = new RunningCommand(command, { ...kafka, DATABASE_URL: database });
        const { code } = await running.ending(60 * SECOND);
        return [command, code, running.output()];
      });
      for (const ended of await Promise.all(commands))
        expect(ended).toEqual([ended[0], 1, expect.stringMatching(remedy)]);
    } finally {
      await servers.stop();
      await dropDatabase(database);
    }
  },
);

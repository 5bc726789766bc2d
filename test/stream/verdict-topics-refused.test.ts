/**
 * Verdict topics of operators on a Kafka with ACLs: topics that are deleted, hidden, or may not be written.
 * The other operators go on at full speed. The same for a dead-letter topic that may not be written.
 */
import { AclOperationTypes, AclResourceTypes } from 'kafkajs';
import { until } from '../../dev/servers/deadline';
import { allowing, createAcls } from '../support/acls';
import { aBet, anOperator, bytesOf } from '../support/builders';
import { produce, readTopic } from '../support/kafka';
import { withAdmin } from '../support/servers';
import { killWorkers, RunningCommand } from '../support/worker';
import { type Secured, startSecured, OPERATOR as USER } from './secured';
import { connectionOf, inWorld, type World } from './world';

let secured: Secured;
beforeAll(async () => {
  secured = await startSecured();
});
afterEach(killWorkers);
afterAll(() => secured?.stop());

const OPERATORS = ['deleted', 'denied', 'hidden', 'well'] as const;
type Operator = (typeof OPERATORS)[number];
const EVENTS = 5_000;

const { READ, WRITE, DESCRIBE } = AclOperationTypes;
const { TOPIC, GROUP } = AclResourceTypes;

const bets = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    value: bytesOf(aBet({ event_id: `${name}-${index}` })),
    headers: {},
  }));

test('a topic that is deleted, and one that may not be written, leave the other operators at full speed [S9 U2]', () =>
  inWorld(
    {
      servers: secured.servers,
      topics: { deleted: 1, denied: 1, hidden: 1, well: 1, shared: 1, stray: 1 },
      operators: (topics) =>
        OPERATORS.map((id) =>
          anOperator({
            id,
            connections: [
              connectionOf(topics[id], { id }),
              connectionOf(topics.shared, { id: `${id}-shared` }),
              connectionOf(topics.stray, { id: `${id}-stray` }),
            ],
          }),
        ),
    },
    async (world: World<Operator | 'shared' | 'stray'>) => {
      const { brokers, groupId, topics, deadLetterTopic } = world;
      const topicOf = (operator: Operator) => `verdicts.${groupId}.${operator}`;
      const admin = <T>(work: Parameters<typeof withAdmin<T>>[0]) => withAdmin(work, brokers);
      await admin((kafka) =>
        kafka.createTopics({
          topics: [deadLetterTopic, ...OPERATORS.map(topicOf)].map((topic) => ({ topic, numPartitions: 1 })),
          waitForLeaders: true,
        }),
      );
      const allow = allowing(USER);
      await createAcls(
        brokers,
        ...Object.values(topics).map((topic) => allow(TOPIC, topic, READ, DESCRIBE)),
        allow(TOPIC, deadLetterTopic, DESCRIBE),
        allow(GROUP, groupId, READ, DESCRIBE),
        allow(TOPIC, topicOf('deleted'), WRITE, DESCRIBE),
        allow(TOPIC, topicOf('denied'), DESCRIBE),
        allow(TOPIC, topicOf('well'), WRITE, DESCRIBE),
      );
      const send = (topic: string, records: Parameters<typeof produce>[1]) =>
        produce(topic, records, { brokers });
      const worker = new RunningCommand(['worker'], {
        HTTP_PORT: '0',
        ...world.settings,
        ...secured.kafkaAt('SASL_OPEN'),
        KAFKA_SECURITY_PROTOCOL: 'SASL_PLAINTEXT',
        KAFKA_SASL_MECHANISM: 'PLAIN',
        KAFKA_SASL_USERNAME: USER,
        KAFKA_SASL_PASSWORD: secured.operatorPassword,
        VERDICT_TOPIC: `verdicts.${groupId}.{operator}`,
      });
      await worker.waitForLog('partitions assigned');
      // The producer learns of the topic, which then disappears.
      await send(topics.deleted, bets('before', 1));
      await world.untilDecided(1);
      await until('it is published', 60_000, async () => (await world.committed(topics.deleted))[0] === 1);
      await admin((kafka) => kafka.deleteTopics({ topics: [topicOf('deleted')] }));

      for (const operator of ['deleted', 'denied', 'hidden'] as const)
        await send(topics[operator], bets(operator, 1));
      await send(
        topics.shared,
        OPERATORS.map((operator) => ({
          value: bytesOf(aBet({ event_id: `shared-${operator}` })),
          headers: { 'connection-id': `${operator}-shared` },
        })),
      );
      await send(topics.stray, [{ value: bytesOf(aBet()), headers: { 'connection-id': 'nobody' } }]);
      const waiting = (topic: string) =>
        worker.logged('partition is undecided').filter((line) => line.topic === topic);
      await until('five partitions wait', 60_000, () =>
        [topics.deleted, topics.denied, topics.hidden, topics.shared, topics.stray].every(
          (topic) => waiting(topic).length >= 2,
        ),
      );
      const errorOf = (name: Operator | 'stray') => String(waiting(topics[name]).at(-1)?.error);
      const deniedText = (topic: string) =>
        `${topic} cannot be written: Not authorized to access topics: [Topic authorization failed]. Grant the Kafka user of this process the ACL Write on the topic`;
      expect(errorOf('deleted')).toMatch(/ACL Create on the topic/);
      expect(errorOf('hidden')).toMatch(/ACL Create on the topic/);
      expect(errorOf('denied')).toBe(deniedText(topicOf('denied')));
      expect(errorOf('stray')).toContain(deniedText(deadLetterTopic));

      const began = Date.now();
      await send(topics.well, bets('well', EVENTS));
      await until('the operator beside them is published', 60_000, async () => {
        const [committed = 0] = await world.committed(topics.well);
        return committed === EVENTS;
      });
      const rate = EVENTS / ((Date.now() - began) / 1000);
      const messages = await readTopic(topicOf('well'), undefined, brokers);
      expect(messages).toHaveLength(EVENTS + 1);
      expect(messages.filter(({ value }) => value?.includes('"shared-well"'))).toHaveLength(1);
      expect(waiting(topics.well)).toEqual([]);
      // Batches that waited for the retries of the others, 1 to 30 s apart, would need minutes.
      expect(rate).toBeGreaterThan(100);
      expect(await worker.metric('promo_intake_undecided_partitions')).toBe(5);

      await createAcls(
        brokers,
        allow(TOPIC, topicOf('deleted'), AclOperationTypes.CREATE),
        allow(TOPIC, topicOf('denied'), WRITE),
        allow(TOPIC, topicOf('hidden'), WRITE, DESCRIBE),
        allow(TOPIC, deadLetterTopic, WRITE),
      );
      await until('all is published', 90_000, async () => {
        const ends = await Promise.all(Object.values(topics).map((topic) => world.committed(topic)));
        return ends.flat().join() === [2, 1, 1, EVENTS, 4, 1].join();
      });
      expect(worker.logged('topic created').map(({ topic }) => topic)).toEqual([topicOf('deleted')]);
      for (const operator of ['deleted', 'denied', 'hidden'] as const) {
        const ids = (await readTopic(topicOf(operator), undefined, brokers)).map(
          ({ value }) => JSON.parse(String(value)).event_id,
        );
        expect(ids.sort()).toEqual([`${operator}-0`, `shared-${operator}`]);
      }
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
    },
  ));

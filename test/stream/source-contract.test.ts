/**
 * Runs the scripts of the source contract on Kafka's record source. test/simulation/source-contract.test.ts
 * runs them on the source of the simulator.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { makeKafka } from '../../src/kafka/client/client';
import { makeKafkaSource } from '../../src/kafka/consumer/group-source';
import { makeLogger } from '../../src/telemetry/logger';
import { committedOffsets, produce, produceInTransaction } from '../support/kafka';
import { freshTopic, kafkaBrokers, withAdmin } from '../support/servers';
import { SOURCE_CONTRACT, type SourceSide } from '../support/source-contract';
import { sideBySide } from './side-by-side';

const DEADLINE_MS = 40_000;
/** Longer than several fetches take. */
const QUIET_MS = 1_500;

async function aSide(): Promise<SourceSide> {
  const topic = await freshTopic('contract', { partitions: 2 });
  const groupId = `promo-test-${randomBytes(6).toString('hex')}`;
  const logger = makeLogger('silent');
  const records = (partition: number, values: readonly string[]) =>
    values.map((value) => ({ value, partition }));
  return {
    topic,
    member: () =>
      makeKafkaSource(
        makeKafka({ brokers: kafkaBrokers(), clientId: 'promo-test' }, logger),
        { groupId, wantedTopics: async () => [topic], onFatal: () => undefined },
        logger,
      ),
    produce: (partition, values) => produce(topic, records(partition, values)),
    produceAborted: (partition, values) => produceInTransaction(topic, records(partition, values), 'abort'),
    committed: async (partition) => (await committedOffsets(groupId, topic))[partition] ?? -1,
    until: (what, holds) => until(what, DEADLINE_MS, async () => holds()),
    quiet: () => sleep(QUIET_MS),
    get: (promise) => promise,
    close: () => withAdmin((admin) => deleteTopics(admin, [topic])),
  };
}

const together = sideBySide();

describe('a member of a group', () => {
  for (const [title, script] of SOURCE_CONTRACT) {
    together(title, async () => {
      const side = await aSide();
      await script(side);
      await side.close();
    });
  }
});

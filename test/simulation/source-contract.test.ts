/**
 * Runs the scripts of the source contract on the model of Kafka. test/stream/source-contract.test.ts runs
 * them on the source of the real Kafka.
 */
import { makeRandom } from '../../dev/random';
import { aValue } from '../support/chunk';
import { SOURCE_CONTRACT, type SourceSide } from '../support/source-contract';
import { BrokerModel } from './broker-model';
import { Actor, Scheduler } from './scheduler';

const TOPIC = 'contract';
const MAX_STEPS = 10_000;

function aSide(seed: number): SourceSide {
  const scheduler = new Scheduler(makeRandom(seed), false);
  const broker = new BrokerModel(
    scheduler,
    makeRandom(seed + 100),
    { at: () => null, took: () => undefined, lasts: () => undefined },
    { onOffsetCommit: () => undefined, onSent: () => undefined },
    { compressed: 0.5, fetchMs: 30, chunkBytes: 0 },
  );
  for (const partition of [0, 1]) broker.logOf({ topic: TOPIC, partition });
  let members = 0;
  const until = async (what: string, holds: () => boolean) => {
    for (let step = 0; !holds(); step++) {
      if (step > MAX_STEPS || !(await scheduler.step())) throw new Error(`not in time: ${what}`);
    }
  };
  return {
    topic: TOPIC,
    member: () => broker.source(new Actor(`member-${++members}`)),
    async produce(partition, values) {
      const records = values.map((text) => ({
        ...aValue(Buffer.from(text)),
        key: null,
        headers: [],
        claims: [],
        timestamp: '0',
      }));
      broker.append({ topic: TOPIC, partition }, records);
    },
    async produceAborted(partition, values) {
      // A null for each record, and one for the marker after them.
      broker.append({ topic: TOPIC, partition }, [...values.map(() => null), null]);
    },
    committed: async (partition) => broker.logOf({ topic: TOPIC, partition }).committed,
    until,
    async quiet() {
      while (await scheduler.step());
    },
    async get(promise) {
      const state = { isOver: false };
      const over = promise.finally(() => {
        state.isOver = true;
      });
      over.catch(() => undefined);
      await new Promise((resolve) => setImmediate(resolve));
      await until('an answer', () => state.isOver);
      return over;
    },
    close: async () => undefined,
  };
}

describe.each([1, 2, 3, 4, 5])('a member of a group, with seed %d', (seed) => {
  test.each(SOURCE_CONTRACT)('%s', (_, script) => script(aSide(seed)));
});

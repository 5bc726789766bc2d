/**
 * The oldest supported versions: `VERSIONS=all npx jest --selectProjects stream -- versions`. OLD_NODE is the
 * path of a Node 22.15.
 */
import { execFileSync } from 'node:child_process';
import { CompressionTypes } from 'kafkajs';
import { until } from '../../dev/servers/deadline';
import { aBrand, aDeposit, aLogin, anOperator, bytesOf } from '../support/builders';
import { type Outgoing, produce, produceInTransaction, readTopic } from '../support/kafka';
import { testWhere } from '../support/needed';
import { withAdmin } from '../support/servers';
import { makeFeed, outcomeOf } from './feed';
import { connectionOf, inOwnWorld, inWorld, type World } from './world';

const wanted = process.env.VERSIONS === 'all';
const LONG = 240_000;
const SEED = 20261121;
const OLD = { kafkaVersion: '3.9.2', postgresVersion: '15' };
const CODECS = [CompressionTypes.GZIP, CompressionTypes.Snappy, CompressionTypes.LZ4, CompressionTypes.ZSTD];

const login = (event_id: string, partition = 0): Outgoing => ({
  value: bytesOf(aLogin({ event_id })),
  partition,
});

type Topic = 'main' | 'shared' | 'verdicts';
const TOPICS = { main: 2, shared: 1, verdicts: 1 };
const operators = ({ main, shared }: Record<Topic, string>) => [
  anOperator({
    connections: [
      connectionOf(main),
      connectionOf(shared, { id: 'one' }),
      connectionOf(shared, { id: 'two' }),
    ],
    brands: [aBrand()],
  }),
];

/** Records of most kinds, a crash, a rebalance. */
async function core(world: World<Topic>, node: string | undefined, compressions = CODECS): Promise<void> {
  const { main, shared, verdicts } = world.topics;
  const { brokers } = world;
  const settings = { VERDICT_TOPIC: verdicts };
  const options = { ...(node === undefined ? {} : { node }) };
  for (const compression of compressions) {
    await produce(
      main,
      [1, 2].map((n) => login(`codec-${compression}-${n}`)),
      { compression, brokers },
    );
  }
  await produceInTransaction(main, [login('committed', 1)], 'commit', brokers);
  await produceInTransaction(main, [login('aborted', 1)], 'abort', brokers);
  const deposit = bytesOf(aDeposit({ event_id: 'twice' }));
  await produce(main, [{ value: deposit }, { value: deposit }, { value: 'no json' }], { brokers });
  await produce(shared, [login('unclaimed')], { brokers });

  const first = await world.started(settings, options);
  const second = await world.started(settings, options);
  await world.untilDecided(2 * compressions.length + 2);
  await first.kill();
  await produce(main, [login('behind-0'), login('behind-1', 1)], { brokers });
  await world.untilDecided(2 * compressions.length + 4, LONG);
  for (const topic of [main, shared]) {
    const ends = await world.ends(topic);
    await until(
      'all offsets are committed',
      LONG,
      async () => (await world.committed(topic)).join() === ends.join(),
    );
  }
  expect(await second.stop()).toEqual({ code: 0, signal: null });
  await world.drain(settings);

  const { records, ...became } = await world.balance();
  const accepted = 2 * compressions.length + 4;
  expect(became).toEqual({ accepted, duplicate_deliveries: 1, events_without_key: 1, dead_letters: 1 });
  expect(records).toBe(accepted + 3);
  const letters = await readTopic(world.deadLetterTopic, undefined, brokers);
  expect(new Set(letters.map(({ headers }) => String(headers['source-offset'])))).toEqual(new Set(['0']));
  const sources = (await readTopic(verdicts, undefined, brokers)).map(
    ({ value }) => JSON.parse(value?.toString() ?? '').source,
  );
  expect(new Set(sources.map((source) => JSON.stringify(source))).size).toBe(accepted + 2);
}

(wanted ? describe : describe.skip)('on the oldest versions', () => {
  it(
    'Kafka 3.9 and Postgres 15: records of every kind, a crash and a rebalance [S1 S5 S7 U1 K3]',
    () =>
      inOwnWorld({ need: ['kafka', 'postgres'], ...OLD }, { topics: TOPICS, operators }, async (world) => {
        const [[version] = []] = await world.rows('show server_version');
        expect(version).toMatch(/^15\./);
        const features = await withAdmin((admin) => admin.describeCluster(), world.brokers);
        expect(features.brokers).toHaveLength(1);
        await core(world, undefined);
      }),
    LONG,
  );

  it(
    'Kafka 3.9 and Postgres 15: a feed gives the same tables as on the newest versions [R1]',
    () =>
      inOwnWorld({ need: ['kafka', 'postgres'], ...OLD }, { topics: { main: 4 } }, async (old) => {
        const feed = makeFeed(SEED, 2_000);
        await produce(old.topics.main, feed, { brokers: old.brokers });
        await old.drain();
        await inWorld({ topics: { main: 4 } }, async (world) => {
          await produce(world.topics.main, feed);
          await world.drain();
          expect(await outcomeOf(old)).toEqual(await outcomeOf(world));
        });
      }),
    LONG,
  );

  const { OLD_NODE } = process.env;
  testWhere(OLD_NODE ? { node: OLD_NODE } : { problem: 'OLD_NODE names no Node 22.15' })(
    'Node 22.15: records of every kind, a crash and a rebalance [S1 S5 S7 U1 K3]',
    ({ node }) =>
      inWorld({ topics: TOPICS, operators }, async (world) => {
        expect(execFileSync(node, ['--version'], { encoding: 'utf8', timeout: 10_000 })).toMatch(
          /^v22\.15\./,
        );
        await core(world, node);
      }),
    LONG,
  );
});

/** The effect on records when a broker's disk has changed some of them, or is lost with all its data. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Servers } from '../../dev/servers';
import { until } from '../../dev/servers/deadline';
import { makeKafka } from '../../src/kafka/client/client';
import { makeLogger } from '../../src/telemetry/logger';
import { aBet, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { ownServers } from '../support/servers';
import { killWorkers, RunningCommand } from '../support/worker';
import { makeWorld } from './world';

const START_MS = 120_000;
const LOST_MS = 60_000;
const PARTITIONS = 8;

const directory = mkdtempSync(join(tmpdir(), 'disks-'));
const disks = ['a', 'b'].map((name) => join(directory, name));
let servers: Servers;
beforeAll(async () => {
  servers = await ownServers({
    need: ['kafka'],
    environment: { STACK: 'processes' },
    kafkaExtras: {
      listeners: {},
      settings: {
        'log.dirs': disks.join(','),
        'metadata.log.dir': join(directory, 'metadata'),
        // The committed offsets of groups are on one of the disks; the other disk is lost.
        'offsets.topic.num.partitions': '1',
        // The broker notices the loss of a disk when it writes this file.
        'replica.high.watermark.checkpoint.interval.ms': '500',
      },
      scramUsers: [],
      javaOptions: [],
    },
  });
}, START_MS);
afterEach(killWorkers);
afterAll(async () => {
  await servers?.stop();
  rmSync(directory, { recursive: true, force: true });
});

const partitionsOn = (disk: string, topic: string) =>
  readdirSync(disk)
    .filter((name) => name.startsWith(`${topic}-`))
    .map((name) => Number(name.slice(topic.length + 1)));

async function leaders(brokers: string[], topic: string): Promise<Map<number, number>> {
  const admin = makeKafka({ brokers, clientId: 'promo-test' }, makeLogger('silent')).admin();
  await admin.connect();
  try {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    return new Map(topics[0]?.partitions.map(({ partitionId, leader }) => [partitionId, leader]));
  } finally {
    await admin.disconnect();
  }
}

test('a batch whose bytes a disk has changed is a dead letter, although they could be parsed [S4] [S5]', async () => {
  const world = await makeWorld({ topics: { acme: 1 }, servers });
  const { acme } = world.topics;
  const bets = ['before', 'changed', 'behind'].map((event_id) =>
    bytesOf(aBet({ event_id, amount: '10.50' })),
  );
  try {
    for (const value of bets) await produce(acme, [{ value }], world);
    const [disk = ''] = disks.filter((each) => partitionsOn(each, acme).length > 0);
    const log = join(disk, `${acme}-0`, '00000000000000000000.log');
    const bytes = readFileSync(log);
    const at = bytes.indexOf('10.50', bytes.indexOf('"changed"'));
    bytes.write('90.50', at);
    writeFileSync(log, bytes);

    const worker = await world.drain();
    expect(await world.verdicts()).toEqual({ before: 'accepted', behind: 'accepted' });
    expect(await world.balance()).toEqual({ records: 3, accepted: 2, dead_letters: 1 });
    expect(worker.logged('records sent to the dead-letter topic')).toMatchObject([
      { offsets: [1], because: ['its checksum does not match its bytes'] },
    ]);
    await world.expectSound();
  } finally {
    await world.close();
  }
});

test('a partition without a leader delays neither other partitions nor starting workers [U3]', async () => {
  const world = await makeWorld({ topics: { acme: PARTITIONS, other: 2 }, servers });
  const { acme } = world.topics;
  const { brokers } = world;
  const bets = (partitions: readonly number[]) =>
    partitions.map((partition) => ({ partition, value: bytesOf(aBet()) }));
  try {
    const first = await world.started();
    await produce(acme, bets([...Array(PARTITIONS).keys()]), { brokers });
    await world.untilDecided(PARTITIONS);

    const lost = disks.find((disk) => partitionsOn(disk, '__consumer_offsets').length === 0) ?? '';
    const gone = partitionsOn(lost, acme);
    const led = [...Array(PARTITIONS).keys()].filter((partition) => !gone.includes(partition));
    expect([gone.length > 0, led.length > 0]).toEqual([true, true]);
    rmSync(lost, { recursive: true });
    await until('the partitions have no leader', LOST_MS, async () => {
      const found = await leaders(brokers, acme);
      return gone.every((partition) => found.get(partition) === -1);
    });

    // A joining worker makes the others ask again which broker leads each partition.
    const second = await world.started();
    await produce(acme, bets(led), { brokers });
    await world.untilDecided(PARTITIONS + led.length);
    await until('both workers report their partitions', LOST_MS, async () => {
      const counts = await Promise.all(
        [first, second].map((worker) => worker.metric(`promo_intake_refused_partitions{topic="${acme}"}`)),
      );
      return counts.reduce((sum, count) => sum + count, 0) === gone.length;
    });
    const complaints = ['the Kafka client restarts', 'cannot describe the members of the group'];
    for (const worker of [first, second])
      expect(worker.log().filter(({ msg }) => complaints.includes(String(msg)))).toEqual([]);

    // A group without committed offsets asks Kafka where the partitions begin.
    await world.started({ KAFKA_GROUP_ID: `${world.groupId}.anew` });
    await until('the worker has read the other partitions from their beginning', LOST_MS, async () => {
      return (await world.redeliveries()) >= 2 * led.length;
    });
    await world.expectSound();
    // Status reports no numbers that it cannot know.
    const status = new RunningCommand(['status'], world.settings);
    expect((await status.ending(LOST_MS)).code).toBe(1);
    expect(status.output()).toMatch(new RegExp(`${acme}/(${gone.join('|')}): There is no leader`));
  } finally {
    await world.close();
  }
});

/**
 * The offsets from which a member continues, and those that it may commit. Meanwhile others ask Kafka,
 * partitions move, and topics are recreated.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import offsetFetchResponse from 'kafkajs/src/protocol/requests/offsetFetch/v4/response';
import pino from 'pino';
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { makeKafka } from '../../src/kafka/client/client';
import { makeKafkaSource } from '../../src/kafka/consumer/group-source';
import type { Chunk, RecordSource, SourceListener } from '../../src/kafka/port';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { makeLogger } from '../../src/telemetry/logger';
import { committedOffsets, produce } from '../support/kafka';
import { freshTopic, kafkaBrokers, withAdmin } from '../support/servers';
import { sideBySide } from './side-by-side';

const DEADLINE_MS = 40_000;
const together = sideBySide();
const logger = makeLogger('silent');
const kafka = () => makeKafka({ brokers: kafkaBrokers(), clientId: 'promo-test' }, logger);
const aGroup = () => `promo-test-${randomBytes(6).toString('hex')}`;

const members: RecordSource[] = [];
afterAll(() => Promise.all(members.map((member) => member.stop())));

/** Reads, and records all calls since its partitions were last assigned. */
class Member implements SourceListener {
  generations = 0;
  partitions: number[] = [];
  chunks: Chunk[] = [];
  readonly begun = new Map<number, number | null>();
  readonly gaps: number[] = [];
  /** Called with each assignment, before anything else can happen. */
  whenAssigned: () => void = () => undefined;
  readonly source: RecordSource;

  constructor(groupId: string, topic: string) {
    const options = { groupId, wantedTopics: async () => [topic], onFatal: () => undefined };
    this.source = makeKafkaSource(kafka(), options, logger);
    members.push(this.source);
  }

  onAssigned(partitions: readonly TopicPartition[]): void {
    this.generations++;
    this.partitions = partitions.map(({ partition }) => partition).sort();
    this.chunks = [];
    this.whenAssigned();
  }
  onChunk(chunk: Chunk): void {
    this.chunks.push(chunk);
  }
  onPositioned({ partition }: TopicPartition, _: number | null, expectedUpTo: number | null): void {
    this.begun.set(partition, expectedUpTo);
  }
  onPassedOver(_: TopicPartition, offsets: number): void {
    this.gaps.push(offsets);
  }
  onHighWatermark(): void {}
  onRefused(): void {}
  onRebalanced(): void {}
  onActive(): void {}

  readTo(partition: number): number {
    return this.chunks.filter((chunk) => chunk.partition === partition).at(-1)?.nextOffset ?? -1;
  }
  async firstOffset(partition: number): Promise<number | undefined> {
    const chunk = this.chunks.find((each) => each.partition === partition);
    return (await chunk?.open())?.next()?.offset;
  }
}

const ten = (partition: number) =>
  Array.from({ length: 10 }, (_, index) => ({ partition, value: `${index}` }));

async function read(topic: string, groupId: string, to: readonly number[]): Promise<Member> {
  const member = new Member(groupId, topic);
  await member.source.start(member);
  await until('all records are read', DEADLINE_MS, async () =>
    to.every((offset, partition) => member.readTo(partition) === offset),
  );
  return member;
}

/**
 * A broker's answer to a request for a group's offsets (OffsetFetch response, version 4).
 * https://kafka.apache.org/protocol
 */
function answerOfOffsets(topic: string, offset: number): Buffer {
  const name = Buffer.from(topic);
  const bytes = Buffer.alloc(32 + name.length);
  bytes.writeInt32BE(1, 4);
  bytes.writeInt16BE(name.length, 8);
  name.copy(bytes, 10);
  const at = 10 + name.length;
  bytes.writeInt32BE(1, at);
  bytes.writeBigInt64BE(BigInt(offset), at + 8);
  bytes.writeInt16BE(-1, at + 16);
  return bytes;
}

together(
  'begins at the committed offset of its own group, whatever offsets other clients of the process read',
  async () => {
    const topic = await freshTopic('heard', { partitions: 1 });
    await produce(topic, ten(0));
    const asOther = AsyncLocalStorage.snapshot();
    const answers: Promise<unknown>[] = [];
    const member = new Member(aGroup(), topic);
    // The admin client may receive such an answer at this moment, for another group, or for this one some
    // time ago.
    member.whenAssigned = () => {
      answers.push(asOther(() => offsetFetchResponse.decode(answerOfOffsets(topic, 3))));
    };
    await member.source.start(member);
    await until('all records are read', DEADLINE_MS, async () => member.readTo(0) === 10);
    expect(await Promise.all(answers)).toMatchObject([
      { responses: [{ topic, partitions: [{ offset: '3' }] }] },
    ]);
    expect(member.begun).toEqual(new Map([[0, null]]));
    expect(await member.firstOffset(0)).toBe(0);
  },
);

together(
  'checks of the topics that go on failing are logged once a minute, and not at each retry',
  async () => {
    const lines: string[] = [];
    let checks = 0;
    const source = makeKafkaSource(
      kafka(),
      {
        groupId: aGroup(),
        wantedTopics() {
          checks++;
          return Promise.reject(new Error('the store is away'));
        },
        onFatal: () => undefined,
      },
      pino({}, { write: (line) => lines.push(JSON.parse(line).msg) }),
    );
    await source.start(new Member(aGroup(), 'unused'));
    try {
      await until('three checks have failed', DEADLINE_MS, async () => checks >= 3);
    } finally {
      await source.stop();
    }
    expect(lines).toEqual(['cannot check topics, retrying']);
  },
);

together('does not rewind a partition that another member has owned since', async () => {
  const topic = await freshTopic('back', { partitions: 2 });
  const groupId = aGroup();
  await produce(topic, [...ten(0), ...ten(1)]);
  const first = await read(topic, groupId, [10, 10]);
  await first.source.commit([0, 1].map((partition) => ({ topic, partition, offset: 8, expectedUpTo: 8 })));
  // As if the rewind had been requested just before: no fetch of this partition comes in between.
  first.whenAssigned = () => {
    for (const partition of [0, 1])
      if (!first.partitions.includes(partition)) first.source.rewindTo({ topic, partition }, 2);
  };
  const second = new Member(groupId, topic);
  await second.source.start(second);
  await until('both members have a partition', DEADLINE_MS, async () =>
    [first, second].every(({ partitions }) => partitions.length === 1),
  );
  const [theirs = -1] = second.partitions;
  first.whenAssigned = () => undefined;
  await second.source.stop();
  await until('the partition is read again', DEADLINE_MS, async () => first.readTo(theirs) === 10);
  expect(await first.firstOffset(theirs)).toBe(8);
  expect(first.gaps).toEqual([]);
});

describe('of a topic that is created again', () => {
  const remade = async (topic: string): Promise<void> => {
    await until('the topic is created again', DEADLINE_MS, () =>
      withAdmin((admin) =>
        admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true }),
      ).then(
        () => true,
        () => false,
      ),
    );
  };
  const stale = (topic: string) => [{ topic, partition: 0, offset: 10, expectedUpTo: 10 }];

  together('no offset of the old topic is committed before the new topic is fetched', async () => {
    const topic = await freshTopic('remade', { partitions: 1 });
    const groupId = aGroup();
    await produce(topic, ten(0));
    const member = await read(topic, groupId, [10]);
    // Paused, so that no fetch can notice that the topic is gone.
    member.source.pause({ topic, partition: 0 });
    await withAdmin((admin) => deleteTopics(admin, [topic]));
    const commit = () =>
      member.source.commit(stale(topic)).then(
        () => 'committed',
        () => 'refused',
      );
    await until('Kafka knows no such topic', DEADLINE_MS, async () => (await commit()) === 'refused');
    await remade(topic);
    const until5 = Date.now() + 5_000;
    while (Date.now() < until5) expect(await commit()).toBe('refused');
    expect((await committedOffsets(groupId, topic))[0] ?? -1).not.toBe(10);
    await member.source.stop();
  });

  together('no offset beyond the records of the new topic is committed', async () => {
    const topic = await freshTopic('remade', { partitions: 1 });
    const groupId = aGroup();
    await produce(topic, ten(0));
    const member = await read(topic, groupId, [10]);
    await withAdmin((admin) => deleteTopics(admin, [topic]));
    await remade(topic);
    await produce(topic, ten(0).slice(0, 4));
    await until('the new topic is read', DEADLINE_MS, async () => member.readTo(0) === 4);
    await member.source.commit([{ topic, partition: 0, offset: 2, expectedUpTo: 2 }]);
    await member.source.commit(stale(topic));
    expect(await committedOffsets(groupId, topic)).toEqual([2]);
  });
});

/**
 * The properties of a record source that the partition loops rely on: the records that arrive, their order,
 * and the offsets that may be committed. Kafka's source and the simulator's run the same scripts. Each has a
 * group of its own and a topic of two partitions.
 */

import type { Chunk, RecordSource, SourceListener } from '../../src/kafka/port';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { keyOf } from '../../src/lib/topic-partition';

export interface SourceSide {
  readonly topic: string;
  /** A further member of the group, not started yet. */
  member(): RecordSource;
  produce(partition: number, values: readonly string[]): Promise<void>;
  /** Records of a transaction that is aborted. */
  produceAborted(partition: number, values: readonly string[]): Promise<void>;
  committed(partition: number): Promise<number>;
  until(what: string, holds: () => boolean): Promise<void>;
  /** Resolves when it is certain that no more records arrive. */
  quiet(): Promise<void>;
  get<T>(promise: Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** A member of the group that reads and records all calls. */
class Reader implements SourceListener {
  /** Partitions of each generation. */
  readonly generations: string[][] = [];
  /** The result of a commit at the moment of an assignment, before any record was read. */
  readonly commitsOfNothing: Promise<string>[] = [];
  fetches = 0;
  /** The reported beginnings of the partitions, in the last generation. */
  readonly begun = new Map<number, number | null>();
  private chunks: Chunk[] = [];

  constructor(readonly source: RecordSource) {}

  onAssigned(partitions: readonly TopicPartition[]): void {
    this.generations.push(partitions.map(keyOf).sort());
    this.chunks = [];
    const offsets = partitions.map((partition) => ({ ...partition, offset: 1, expectedUpTo: 1 }));
    this.commitsOfNothing.push(
      this.source.commit(offsets).then(
        () => 'committed',
        () => 'refused',
      ),
    );
  }
  onChunk(chunk: Chunk): void {
    if (this.generations.at(-1)?.includes(keyOf(chunk)) !== true)
      throw new Error(`a chunk of ${keyOf(chunk)}, which is another test's`);
    this.chunks.push(chunk);
  }
  onActive(): void {
    this.fetches++;
  }
  onHighWatermark(): void {}
  onPositioned({ partition }: TopicPartition, _: number | null, expectedUpTo: number | null): void {
    this.begun.set(partition, expectedUpTo);
  }
  onPassedOver({ topic, partition }: TopicPartition, offsets: number): void {
    throw new Error(`${offsets} offsets of ${topic}/${partition} were passed over`);
  }
  onRefused({ topic, partition }: TopicPartition): void {
    throw new Error(`${topic}/${partition} is refused`);
  }
  onRebalanced(): void {}

  chunksOf(partition: number): Chunk[] {
    return this.chunks.filter((chunk) => chunk.partition === partition);
  }
  /** The offset where a partition goes on; -1 before its first chunk. */
  nextOffset = (partition: number): number => this.chunksOf(partition).at(-1)?.nextOffset ?? -1;

  async texts(partition: number): Promise<string[]> {
    const texts: string[] = [];
    for (const chunk of this.chunksOf(partition)) {
      const cursor = await chunk.open();
      for (let record = cursor.next(); record !== null; record = cursor.next())
        texts.push(`${record.offset} ${record.value}`);
    }
    return texts;
  }
}

type Script = (side: SourceSide) => Promise<void>;

async function started(side: SourceSide): Promise<Reader> {
  const reader = new Reader(side.member());
  await side.get(reader.source.start(reader));
  await side.until('the member has its partitions', () => reader.generations.length > 0);
  return reader;
}

export const SOURCE_CONTRACT: readonly (readonly [title: string, script: Script])[] = [
  [
    'each record comes once and in order, and a chunk has the next offset after omitted records',
    async (side) => {
      await side.produce(0, ['a', 'b']);
      await side.produceAborted(0, ['x', 'y']);
      await side.produce(0, ['c']);
      await side.produceAborted(0, ['z']);
      const reader = await started(side);
      expect(reader.generations).toEqual([[`${side.topic}/0`, `${side.topic}/1`]]);
      // Two aborted records and their marker, then one and its marker.
      await side.until('everything is read', () => reader.nextOffset(0) === 8);
      // A marker may follow records that were produced after the end of its transaction.
      const texts = await side.get(reader.texts(0));
      expect(texts).toEqual(['0 a', '1 b', expect.stringMatching(/^[45] c$/)]);
      await side.produce(1, ['d']);
      await side.until('the later record is read', () => reader.nextOffset(1) === 1);
      expect(await side.get(reader.texts(1))).toEqual(['0 d']);
      expect(reader.fetches).toBeGreaterThan(0);
      await side.get(reader.source.stop());
    },
  ],
  [
    'the next member continues at the committed offset, and has nothing to commit before it has read',
    async (side) => {
      await side.produce(0, ['a', 'b', 'c']);
      await side.produce(1, ['d']);
      const first = await started(side);
      await side.until('everything is read', () => first.nextOffset(0) === 3 && first.nextOffset(1) === 1);
      await side.get(first.source.commit([{ topic: side.topic, partition: 0, offset: 2, expectedUpTo: 1 }]));
      expect(await side.committed(0)).toBe(2);
      expect([...first.begun]).toEqual(
        expect.arrayContaining([
          [0, null],
          [1, null],
        ]),
      );
      await side.get(first.source.stop());
      const second = await started(side);
      await side.until('the rest is read', () => second.nextOffset(0) === 3 && second.nextOffset(1) === 1);
      expect(await side.get(second.texts(0))).toEqual(['2 c']);
      expect(await side.get(second.texts(1))).toEqual(['0 d']);
      // The note committed with the offset.
      expect([second.begun.get(0), second.begun.get(1)]).toEqual([1, null]);
      expect(await side.get(Promise.all([...first.commitsOfNothing, ...second.commitsOfNothing]))).toEqual([
        'refused',
        'refused',
      ]);
      await side.get(second.source.stop());
    },
  ],
  [
    'a rewound partition comes again from its new offset, and the others are not disturbed',
    async (side) => {
      await side.produce(0, ['a', 'b', 'c']);
      await side.produce(1, ['d']);
      const reader = await started(side);
      await side.until('everything is read', () => reader.nextOffset(0) === 3 && reader.nextOffset(1) === 1);
      const before = reader.chunksOf(0).length;
      reader.source.rewindTo({ topic: side.topic, partition: 0 }, 1);
      await side.until(
        'it is read again',
        () => reader.chunksOf(0).length > before && reader.nextOffset(0) === 3,
      );
      await side.produce(0, ['e']);
      await side.produce(1, ['f']);
      await side.until('the rest is read', () => reader.nextOffset(0) === 4 && reader.nextOffset(1) === 2);
      expect(await side.get(reader.texts(0))).toEqual(['0 a', '1 b', '2 c', '1 b', '2 c', '3 e']);
      expect(await side.get(reader.texts(1))).toEqual(['0 d', '1 f']);
      await side.get(reader.source.stop());
    },
  ],
  [
    'a paused partition delivers nothing until it is resumed, and the others continue',
    async (side) => {
      await side.produce(0, ['a']);
      const reader = await started(side);
      await side.until('the first is read', () => reader.nextOffset(0) === 1);
      reader.source.pause({ topic: side.topic, partition: 0 });
      await side.quiet();
      await side.produce(0, ['b']);
      await side.produce(1, ['c']);
      await side.until('the other continues', () => reader.nextOffset(1) === 1);
      await side.quiet();
      expect(reader.nextOffset(0)).toBe(1);
      reader.source.resume({ topic: side.topic, partition: 0 });
      await side.until('it continues', () => reader.nextOffset(0) === 2);
      expect(await side.get(reader.texts(0))).toEqual(['0 a', '1 b']);
      await side.get(reader.source.stop());
    },
  ],
  [
    'two members share the partitions, and the remaining one continues at the commits of the other',
    async (side) => {
      await side.produce(0, ['a', 'b']);
      await side.produce(1, ['c', 'd']);
      const first = await started(side);
      await side.until('everything is read', () => first.nextOffset(0) === 2 && first.nextOffset(1) === 2);
      const second = await started(side);
      await side.until('both have one', () =>
        [first, second].every((reader) => reader.generations.at(-1)?.length === 1),
      );
      const both = [first, second].flatMap((reader) => reader.generations.at(-1) ?? []);
      expect(both.sort()).toEqual([`${side.topic}/0`, `${side.topic}/1`]);
      const theirs = second.generations.at(-1)?.[0] === `${side.topic}/0` ? 0 : 1;
      await side.until('the second has read', () => second.nextOffset(theirs) === 2);
      await side.get(
        second.source.commit([{ topic: side.topic, partition: theirs, offset: 1, expectedUpTo: 1 }]),
      );
      await side.get(second.source.stop());
      await side.until('the first has all of them again', () => first.generations.at(-1)?.length === 2);
      await side.until('it has read again', () => first.nextOffset(0) === 2 && first.nextOffset(1) === 2);
      expect(await side.get(first.texts(theirs))).toEqual([theirs === 0 ? '1 b' : '1 d']);
      expect(await side.get(first.texts(1 - theirs))).toHaveLength(2);
      expect(new Set(await side.get(Promise.all(first.commitsOfNothing)))).toEqual(new Set(['refused']));
      await side.get(first.source.stop());
    },
  ],
];

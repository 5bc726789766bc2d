/** Reads the records between two offsets of partitions, without disturbing the group that consumes them. */
import { randomBytes } from 'node:crypto';
import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { NEVER, systemClock } from '../../lib/clock';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';
import { watermarks } from '../admin/offsets';
import { connectedAdmin, sessionRefusal, sessionTimeoutOf } from '../client/client';
import { KafkaProblem } from '../client/errors';
import type { Chunk } from '../port';
import { RECORD_OVERHEAD_BYTES, type RecordCursor, type StreamRecord } from '../protocol/record';
import { makeKafkaSource } from './group-source';
import { isWithoutGroup } from './membership';

/** A read fails where Kafka returns no further records for this long, joining a group included. */
const READ_STALLED_MS = 60_000;
const READ_CHECK_MS = 50;
/** A partition is paused while this many fetched bytes are not taken yet. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/**
 * At most this many records are handed over at once, and roughly this many bytes. A chunk may hold millions
 * of records.
 */
const RECORDS_AT_ONCE = 8_000;
const BYTES_AT_ONCE = 4 * 1024 * 1024;

/** A client that ends reports the reason within this time, or is still waiting for a fetch. */
const END_REPORT_MS = 2_000;
/** The offsets of a new group are committed within this time, restarts of the client included. */
const COMMIT_WITHIN_MS = 30_000;

/** Offsets of a partition from `from` up to, but without, `to`. */
export interface Range extends TopicPartition {
  readonly from: number;
  readonly to: number;
}

/** Ascending ranges of offsets of a partition, with gaps between them. */
export interface Ranges extends TopicPartition {
  readonly ranges: readonly {
    readonly from: number;
    readonly to: number;
    /** Milliseconds since 1970. Records with an older timestamp are skipped; 0 for all. */
    readonly sinceMs: number;
  }[];
}

/** The readable records of a partition. */
export interface Readable {
  readonly count: number;
  /** The offset of the first record. */
  readonly first: number;
}

/**
 * Counts the records in the ranges that a worker would read: no markers, no records of aborted transactions.
 * The gaps between the ranges of a partition are read, too.
 *
 * @returns by `keyOf`; no entry for a partition without such a record
 * @throws where Kafka does not return the records
 */
export async function readableRecords(
  kafka: Kafka,
  groupId: string,
  wanted: readonly Ranges[],
  logger: Logger,
): Promise<Map<string, Readable>> {
  const found = new Map<string, Readable>();
  const left = new Map(wanted.map((partition) => [keyOf(partition), [...partition.ranges]]));
  await readRecords(
    kafka,
    {
      groupId,
      purpose: 'verify',
      ranges: wanted.map(({ topic, partition, ranges }) => ({
        topic,
        partition,
        from: ranges[0]?.from ?? 0,
        to: ranges.at(-1)?.to ?? 0,
      })),
    },
    async (range, records) => {
      const key = keyOf(range);
      const ranges = left.get(key) ?? [];
      for (const { offset, timestamp } of records) {
        while (ranges[0] !== undefined && ranges[0].to <= offset) ranges.shift();
        const [range] = ranges;
        if (range === undefined || offset < range.from) continue;
        if (range.sinceMs > 0 && Number(timestamp) < range.sinceMs) continue;
        const { count, first } = found.get(key) ?? { count: 0, first: offset };
        found.set(key, { count: count + 1, first });
      }
      return true;
    },
    logger,
  );
  return found;
}

export interface Reading {
  /** The workers' group. The name of the reader's own group begins with it. */
  readonly groupId: string;
  readonly purpose: string;
  readonly ranges: readonly Range[];
  readonly stalledMs?: number;
}

/**
 * Hands over the records of ranges as a worker would read them, in the order of each partition, some at a
 * time.
 *
 * Reads as a temporary group of its own, so the workers' group is not disturbed.
 *
 * @param take returns whether it wants more of this partition
 * @throws errors of `take`, and where Kafka returns no further records for `stalledMs`
 */
export async function readRecords(
  kafka: Kafka,
  { groupId, purpose, ranges, stalledMs = READ_STALLED_MS }: Reading,
  take: (range: Range, records: readonly StreamRecord[]) => Promise<boolean>,
  logger: Logger,
): Promise<void> {
  const open = new Map(
    ranges.filter(({ from, to }) => from < to).map((range) => [keyOf(range), { range, next: range.from }]),
  );
  if (open.size === 0) return;
  const group = `${groupId}.${purpose}-${randomBytes(6).toString('hex')}`;
  const topics = [...new Set([...open.values()].map(({ range }) => range.topic))];
  const admin = await connectedAdmin(kafka);
  try {
    const ends = await watermarks(kafka, topics);
    // Partitions without a range are read from their end: they return nothing.
    const begins = ends.map((end) => ({ ...end, offset: open.get(keyOf(end))?.range.from ?? end.high }));
    await commitOffsets(kafka, group, begins);
    let failure: unknown;
    let lastRecordsAt = systemClock.now();
    let waitingBytes = 0;
    let taking: Promise<void> = Promise.resolve();
    const source = makeKafkaSource(
      kafka,
      {
        groupId: group,
        wantedTopics: async () => topics,
        onFatal: (error) => {
          failure = error;
        },
      },
      logger,
    );
    const takeChunk = async (chunk: Chunk) => {
      const key = keyOf(chunk);
      const reading = open.get(key);
      if (reading === undefined || failure !== undefined) return;
      const cursor = await chunk.open();
      let wantsMore = true;
      for (;;) {
        const records = nextRecords(cursor, reading.next, reading.range.to);
        const last = records.at(-1);
        if (last === undefined) break;
        wantsMore = await take(reading.range, records);
        reading.next = last.offset + 1;
        if (!wantsMore) break;
      }
      reading.next = Math.max(reading.next, chunk.nextOffset);
      lastRecordsAt = systemClock.now();
      if (!wantsMore || reading.next >= reading.range.to) {
        open.delete(key);
        source.pause(chunk);
      }
    };
    await source.start({
      onAssigned: () => undefined,
      onActive: () => undefined,
      onHighWatermark: () => undefined,
      onPositioned: () => undefined,
      onPassedOver: () => undefined,
      onRebalanced: () => undefined,
      onRefused: ({ topic }, because) => {
        if (because === null) return;
        const remedy = /not authorized/i.test(because)
          ? '. Grant the Kafka user of this process Read on the topic'
          : '';
        failure ??= new KafkaProblem(`${topic} cannot be read: ${because}${remedy}`);
      },
      onChunk: (chunk) => {
        waitingBytes += chunk.bytes;
        const isMuch = waitingBytes > MAX_WAITING_BYTES;
        if (isMuch) source.pause(chunk);
        taking = taking
          .then(() => takeChunk(chunk))
          .catch((error: unknown) => {
            failure ??= error;
          })
          .finally(() => {
            waitingBytes -= chunk.bytes;
            if (isMuch && open.has(keyOf(chunk))) source.resume(chunk);
          });
      },
    });
    try {
      while (open.size > 0) {
        if (failure !== undefined) throw failure;
        // A slow `take` is no stall of Kafka.
        if (waitingBytes > 0) lastRecordsAt = systemClock.now();
        if (systemClock.now() > lastRecordsAt + stalledMs)
          throw new KafkaProblem(`Kafka returned no more records within ${stalledMs} ms`);
        await systemClock.sleep(READ_CHECK_MS, NEVER);
      }
    } finally {
      await source.stop();
      await taking;
    }
    if (failure !== undefined) throw failure;
  } finally {
    await admin.deleteGroups([group]).catch((error: unknown) => {
      logger.warn({ group, error: String(error) }, 'cannot delete a group without members');
    });
    await admin.disconnect();
  }
}

/**
 * The next records between two offsets. Records that were handed over before a rebalance are redelivered, and
 * left out here.
 */
function nextRecords(cursor: RecordCursor, from: number, to: number): StreamRecord[] {
  const records: StreamRecord[] = [];
  let bytes = 0;
  while (records.length < RECORDS_AT_ONCE && bytes < BYTES_AT_ONCE) {
    const record = cursor.next();
    if (record === null) break;
    if (record.offset < from || record.offset >= to) continue;
    records.push(record);
    bytes += RECORD_OVERHEAD_BYTES + record.size;
  }
  return records;
}

/**
 * Commits offsets for a group without members. `admin.setOffsets` of kafkajs 2.2.4 does the same, but waits 5
 * s for each topic.
 */
async function commitOffsets(
  kafka: Kafka,
  groupId: string,
  offsets: readonly (TopicPartition & { readonly offset: number })[],
): Promise<void> {
  const consumer = kafka.consumer({ groupId, sessionTimeout: sessionTimeoutOf(kafka) });
  let refused: Error | undefined;
  const ended = new Promise<void>((resolve) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      refused = sessionRefusal(kafka, payload.error) ?? (payload.restart ? undefined : payload.error);
      resolve();
    });
  });
  const commits = offsets.map(({ topic, partition, offset }) => ({
    topic,
    partition,
    offset: String(offset),
  }));
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [...new Set(offsets.map(({ topic }) => topic))] });
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: async () => {} });
    const deadline = systemClock.now() + COMMIT_WITHIN_MS;
    for (;;) {
      try {
        await consumer.commitOffsets(commits);
        return;
      } catch (error) {
        // A client that ends or restarts fails all requests. It reports the reason once it is disconnected,
        // and has no group until then.
        await Promise.race([ended, systemClock.sleep(END_REPORT_MS, NEVER)]);
        if (refused !== undefined || !isWithoutGroup(error) || systemClock.now() > deadline)
          throw refused ?? error;
        await systemClock.sleep(READ_CHECK_MS, NEVER);
      }
    }
  } finally {
    await consumer.disconnect();
  }
}

/** `promo-intake verify`: checks that the store is sound and agrees with Kafka. */

import { DONE, FAILED } from '../../cli/exit-codes';
import { printLines } from '../../cli/output';
import { readConfig } from '../../config/config';
import { type Position, readPositions, type Watermarks, watermarks } from '../../kafka/admin/offsets';
import { makeKafka, readClusterId } from '../../kafka/client/client';
import { mirroredFrom } from '../../kafka/commit-notes';
import { type Ranges, type Readable, readableRecords } from '../../kafka/consumer/range-reader';
import {
  type ElsewherePartition,
  type Gap,
  type Inspection,
  inspect,
  type StoredPartition,
  type StoredTopic,
  storedTopics,
} from '../../ledger/invariants';
import { counted } from '../../lib/printable';
import { keyOf } from '../../lib/topic-partition';
import { makeLogger } from '../../telemetry/logger';
import { verdictOf, verifyPromotionsPart } from '../promotions/verify';

/** @returns the exit code: 1 if there is a problem */
export async function verify(): Promise<number> {
  const config = readConfig(process.env, ['KAFKA', 'KAFKA_GROUP_ID', 'DATABASE']);
  const logger = makeLogger('warn', 'stderr');
  const kafka = makeKafka({ ...config.KAFKA, clientId: 'promo-intake-verify' }, logger);
  // The store first: its refusal comes at once. An unreachable Kafka is retried for half a minute.
  const stored = await storedTopics(config.DATABASE);
  const clusterId = await readClusterId(kafka);
  const isHere = ({ cluster }: StoredTopic) => clusterId === null || (cluster ?? clusterId) === clusterId;
  const topics = [...new Set(stored.filter(isHere).map(({ topic }) => topic))];
  // Kafka's positions are read before the store is inspected. A worker commits an offset after its records
  // are stored, so a store read later cannot be behind it. The option `others` adds topics unknown to the
  // store: offsets committed there mean lost records.
  const before = await readPositions(kafka, config.KAFKA_GROUP_ID, topics, { others: true });
  const inspection = await inspect(config.DATABASE, before, clusterId);
  // The ends are read after the store. A busy worker has decided records beyond the ends of before. A store
  // beyond the end means that the topic was created again.
  const ends = await watermarks(kafka, [...new Set(before.map(({ topic }) => topic))]);
  const positions = withEnds(before, ends);
  const ranges = unaccounted(positions, inspection);
  const passed = await readableRecords(kafka, config.KAFKA_GROUP_ID, ranges, logger);

  const promotions = await verifyPromotionsPart(config.DATABASE);

  const compared = compare(positions, inspection, passed);
  const problems = [...compared.problems, ...(promotions?.problems ?? [])];
  await printLines(compared.lines);
  if (promotions !== null) console.log(promotions.line);
  if (inspection.elsewhere.length > 0)
    console.log(
      `${counted(inspection.elsewhere.length, 'partition belongs', 'partitions belong')} to other Kafka clusters: their offsets are not compared`,
    );
  await printLines(problems, process.stderr);
  console.log(verdictOf(problems));
  return problems.length === 0 ? DONE : FAILED;
}

function withEnds(positions: readonly Position[], ends: readonly Watermarks[]): Position[] {
  const later = byKey(ends);
  return positions.map((position) => ({
    ...position,
    high: later.get(keyOf(position))?.high ?? position.high,
  }));
}

/**
 * The most offsets before the committed one that are read again. A whole topic of transactions would take too
 * long.
 */
const MAX_READ_OFFSETS = 1_000_000;

/**
 * Committed offsets without a row in the store. They are markers, aborted records, or records that were
 * skipped.
 */
export function unaccounted(
  positions: readonly Position[],
  inspection: Pick<Inspection, 'partitions' | 'keptSinceMs'> & Partial<Pick<Inspection, 'elsewhere'>>,
): Ranges[] {
  const { partitions, keptSinceMs, elsewhere = [] } = inspection;
  const stored = byKey(partitions);
  return positions.flatMap((position) => {
    const { topic, partition } = position;
    if (isDecidedElsewhere(position, elsewhere)) return [];
    const of = stored.get(keyOf(position));
    // Rows of older records may be in a dropped month. The offset up to which the partition is decided is
    // always kept.
    const ranges = unaccountedIn(position, of).map((range) => ({
      ...range,
      sinceMs: range.to <= (of?.decidedUpTo ?? 0) ? keptSinceMs : 0,
    }));
    return ranges.length === 0 ? [] : [{ topic, partition, ranges }];
  });
}

function unaccountedIn({ low, high, committed }: Position, stored: StoredPartition | undefined): Gap[] {
  if (committed === null) return [];
  const { gaps = [], decidedUpTo = 0, isRecreated = false, beginsAt } = stored ?? {};
  const oldest = Math.max(low, beginsAt ?? 0, committed - MAX_READ_OFFSETS);
  return [...(isRecreated ? [] : gaps), { from: decidedUpTo, to: committed }]
    .map(({ from, to }) => ({ from: Math.max(from, oldest), to: Math.min(to, committed, high) }))
    .filter(({ from, to }) => from < to);
}

/**
 * Whether the group has changed to this cluster and has read nothing here yet. A mirror has then set the
 * offset, and the store has the records before it from the other cluster.
 */
function isDecidedElsewhere({ topic, partition, note }: Position, elsewhere: readonly ElsewherePartition[]) {
  if (note == null) return false;
  const there = elsewhere.filter(
    (each) =>
      each.partition === partition && (note.cluster === '' ? each.isFirst : each.cluster === note.cluster),
  );
  const decided = mirroredFrom(topic).flatMap((name) => there.find((each) => each.topic === name) ?? []);
  const [source] = decided;
  return source !== undefined && source.decidedUpTo >= note.upTo;
}

/**
 * A line for each partition, and the problems found.
 *
 * @param passed records that are committed but not decided, by `keyOf`
 */
export function compare(
  positions: readonly Position[],
  { damages, partitions }: Omit<Inspection, 'elsewhere'>,
  passed: ReadonlyMap<string, Readable>,
): { lines: string[]; problems: string[] } {
  const inKafka = byKey(positions);
  const stored = byKey(partitions);
  const lines = partitions.map((partition) => describe(partition, inKafka.get(keyOf(partition))));
  const problems = [
    ...damages.map(({ invariant, what, where }) => `${invariant} ${[...where, what].join(': ')}`),
    ...unlisted(damages),
    ...positions.flatMap((position) => {
      const key = keyOf(position);
      const decidedUpTo = stored.get(key)?.decidedUpTo ?? 0;
      const { low, high, committed } = position;
      const missed = passed.get(key);
      const isOfOldLog =
        committed !== null && committed > low && decidedUpTo > high && !stored.get(key)?.isRecreated;
      return [
        ...(isOfOldLog
          ? [
              `I2 ${key}: offset ${committed} is committed, but the partition ends at ${high}. The topic was created again, and the store has none of its committed records`,
            ]
          : []),
        ...(missed === undefined
          ? []
          : [
              `I2 ${key}: offset ${committed} is committed, but ${counted(missed.count, 'record before it is', 'records before it are')} not decided, the first at offset ${missed.first}`,
            ]),
        ...(committed !== null && low > Math.max(committed, decidedUpTo)
          ? [
              `I2 ${key}: offsets ${Math.max(committed, decidedUpTo)} to ${low - 1} were deleted from Kafka before they were read; it is unknown whether they held records`,
            ]
          : []),
      ];
    }),
  ];
  return { lines, problems };
}

function describe(stored: StoredPartition, position: Position | undefined): string {
  const { decidedUpTo, isRecreated, records, offsets, beginsAt } = stored;
  const read = `${keyOf(stored)}: ${counted(records, 'record')} decided, up to offset ${decidedUpTo}`;
  if (position === undefined) return `${read}; Kafka has no such partition`;
  const { high, committed } = position;
  const low = Math.max(position.low, beginsAt ?? 0);
  const group = committed === null ? 'nothing is committed' : `${committed} is committed`;
  const parts = [read, `${group}, ${high} is the end`];
  if (beginsAt != null) parts.push(`since the group moved here, it is read from offset ${beginsAt} on`);
  if (decidedUpTo < position.low) parts.push(`Kafka has nothing before offset ${position.low}`);
  if (decidedUpTo > high) {
    parts.push('the store is beyond the end, so the topic was created again: its offsets cannot be compared');
  } else if (isRecreated) {
    parts.push('the topic was created again, or its log was truncated: an offset may name a record of each');
  } else if (decidedUpTo > low) {
    const without = decidedUpTo - low - offsets;
    parts.push(`${offsets} of ${decidedUpTo - low} offsets from ${low} on hold decided records`);
    if (without > 0)
      parts.push(
        `${without} do not: markers, aborted or compacted records, the rest of unreadable batches, or rows of dropped months`,
      );
    const lookedFor = unaccountedIn(position, stored)
      .filter(({ from }) => from < decidedUpTo)
      .reduce((sum, { from, to }) => sum + to - from, 0);
    if (committed !== null && lookedFor < without)
      parts.push(`the last ${lookedFor} of these were searched in Kafka`);
  }
  return parts.join('; ');
}

/** A line for each invariant with more damages than are listed. */
function unlisted(damages: Inspection['damages']): string[] {
  const listed = new Map<string, { count: number; inAll: number }>();
  for (const { invariant, inAll } of damages) {
    listed.set(invariant, { count: (listed.get(invariant)?.count ?? 0) + 1, inAll });
  }
  return [...listed].flatMap(([invariant, { count, inAll }]) =>
    inAll > count ? [`${invariant} ${inAll - count} more`] : [],
  );
}

function byKey<T extends { readonly topic: string; readonly partition: number }>(
  entries: readonly T[],
): Map<string, T> {
  return new Map(entries.map((entry) => [keyOf(entry), entry]));
}

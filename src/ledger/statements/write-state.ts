/**
 * Step `write` of the deciding transaction, first part: the state that batches share. Rounds are opened or
 * changed, and partitions get their counts and offsets.
 */
import { ID_KEY, storedId } from '../../domain/event/id-key';
import { compareIds, type Decision, type Item } from '../../domain/verdict/decide';
import { firstCurrency, type Round, type Sums } from '../../domain/verdict/round';
import { arrays, CopyRows, sinceEpoch } from '../../postgres/binary-format';
import type { Write } from '../../postgres/pipeline';
import type { Session, Statement } from '../../postgres/transaction';
import { type BatchItems, type PartitionItems, type PartitionOffsets, sourcesOf } from './find';
import { type NamedRound, NO_SUMS, SUM_NAMES } from './lock';

/** The order in which rounds are written. */
export function inOrder(a: NamedRound, b: NamedRound): number {
  return compareIds(a.feedNo, a.roundId, b.feedNo, b.roundId);
}

const COPY_ROUNDS = {
  name: 'copy_rounds',
  text: `copy promo_store.rounds (round_no, opened_at, refunded_at, player_hash, feed_no, brand_no, currency_no, settled, second_settled,
  player_mismatch, brand_mismatch, round_key, round_id, refunded_by, bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums,
  player_tag)
from stdin binary`,
};

/**
 * Writes the rounds that the batch opened, with their state after the batch.
 *
 * Locks: in the given order (`inOrder`), after the existing rounds and before the keys of events, in every
 * transaction. A unique violation is a lost race: another writer opened one of the rounds meanwhile.
 *
 * @param nowMicros microseconds since 1970
 */
export function copyRounds(opened: readonly NamedRound[], nowMicros: bigint): Write[] {
  if (opened.length === 0) return [];
  const openedAt = sinceEpoch(nowMicros);
  const rows = new CopyRows();
  for (const { feedNo, roundId, round } of opened) {
    const sums = firstSums(round);
    rows.row(20);
    rows.int8Value(round.no);
    rows.int8Value(openedAt);
    rows.int8Value(round.refunded ? openedAt : null);
    rows.int8Value(round.playerHash);
    rows.int4Value(feedNo);
    rows.int4Value(round.brandNo);
    rows.int2Value(firstCurrency(round)?.no ?? null);
    rows.boolValue(round.settled);
    rows.boolValue(round.secondSettled);
    rows.boolValue(round.playerMismatch);
    rows.boolValue(round.brandMismatch);
    rows.formatted(roundId, ID_KEY);
    rows.textValue(storedId(roundId));
    rows.textValue(round.refundedBy);
    for (const name of SUM_NAMES) rows.numericValue(sums[name]);
    rows.jsonbValue(otherSums(round));
    rows.int8Value(round.playerTag);
  }
  return [{ ...COPY_ROUNDS, rows }];
}

const CHANGED = `update promo_store.rounds r set
  refunded_by = coalesce(r.refunded_by, c.refunded_by),
  refunded_at = case when c.refunded_by is null then r.refunded_at else coalesce(r.refunded_at, timestamptz 'epoch' + $17::bigint * interval '1 microsecond') end,
  settled = c.settled, second_settled = c.second_settled, player_mismatch = c.player_mismatch, brand_mismatch = c.brand_mismatch,
  player_hash = c.player_hash, brand_no = c.brand_no, currency_no = c.currency_no,
  bet_minor = c.bet_minor, win_minor = c.win_minor, settled_minor = c.settled_minor, below_min_bet_minor = c.below_min_bet_minor,
  other_sums = c.other_sums::jsonb, player_tag = c.player_tag
from unnest($2::bytea[], $3::text[], $4::boolean[], $5::boolean[], $6::boolean[], $7::boolean[], $8::bigint[], $9::int[], $10::smallint[],
  $11::numeric[], $12::numeric[], $13::numeric[], $14::numeric[], $15::text[], $16::bigint[])
  as c (round_key, refunded_by, settled, second_settled, player_mismatch, brand_mismatch, player_hash, brand_no, currency_no,
  bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums, player_tag)
where r.round_key = c.round_key`;

const UPDATE_ROUNDS = {
  name: 'update_rounds',
  // The keys are in the statement twice: with the join alone, the planner may read all rounds to find the
  // few.
  text: `${CHANGED} and r.feed_no = $1 and r.round_key = any($2)`,
  // Where the planner expects few rounds, it looks up the feed alone in the index of both, and reads all
  // rounds of the feed. So the rounds are found one by one, and updated by their numbers.
  before17: `${CHANGED} and r.round_no = any(array(select found.round_no from unnest($2::bytea[]) key
  cross join lateral (select round_no from promo_store.rounds where feed_no = $1 and round_key = key limit 1) found))`,
};

/**
 * The updates of locked rounds that changed, one statement for each feed. @param nowMicros microseconds since
 * 1970
 */
export function updatesOf(
  changed: readonly NamedRound[],
  nowMicros: bigint,
): { readonly statement: Statement; readonly values: readonly unknown[] }[] {
  return [...Map.groupBy(changed, ({ feedNo }) => feedNo)].map(([feedNo, ofFeed]) => {
    const rounds = ofFeed.map(({ round }) => round);
    const first = rounds.map(firstSums);
    const sum = (name: keyof Sums) => arrays.numeric(first.map((sums) => sums[name]));
    const values = [
      feedNo,
      arrays.formatted(
        ofFeed.map(({ roundId }) => roundId),
        ID_KEY,
      ),
      arrays.text(rounds.map((round) => round.refundedBy)),
      arrays.bool(rounds.map((round) => round.settled)),
      arrays.bool(rounds.map((round) => round.secondSettled)),
      arrays.bool(rounds.map((round) => round.playerMismatch)),
      arrays.bool(rounds.map((round) => round.brandMismatch)),
      arrays.int8(rounds.map((round) => round.playerHash)),
      arrays.int4(rounds.map((round) => round.brandNo)),
      arrays.int2(rounds.map((round) => firstCurrency(round)?.no ?? null)),
      sum('bet'),
      sum('win'),
      sum('settled'),
      sum('belowMinBet'),
      arrays.text(rounds.map(otherSums)),
      arrays.int8(rounds.map((round) => round.playerTag)),
      nowMicros,
    ];
    return { statement: UPDATE_ROUNDS, values };
  });
}

function firstSums({ sums }: Round): Readonly<Sums> {
  return sums.values().next().value ?? NO_SUMS;
}

/**
 * Sums beyond the first currency as JSON; null where there are none. Numbers are text: they may exceed the
 * exact range of JSON readers.
 */
function otherSums(round: Round): string | null {
  if (round.sums.size < 2) return null;
  const others = [...round.sums]
    .slice(1)
    .map(([currency, sums]) => [
      currency.code,
      Object.fromEntries(SUM_NAMES.map((name) => [name, sums[name].toString()])),
    ]);
  return JSON.stringify(Object.fromEntries(others));
}

/** The counts that a batch adds to its partition's row. */
interface Counts {
  accepted: number;
  rejected: number;
  skipped: number;
  duplicates: number;
  redeliveries: number;
  deadLetters: number;
  withoutKey: number;
}

/** The changes of a decided batch to a partition's row. The batch holds the row's lock. */
export interface Counted extends Counts {
  readonly partitionNo: number;
  /** The partition's offsets after the batch. */
  readonly after: PartitionOffsets;
  readonly records: number;
}

/** The batch's changes to the rows of its partitions. */
export function countedOf(
  { items, parts }: BatchItems,
  decisions: readonly Decision[],
  locked: readonly PartitionOffsets[],
): Counted[] {
  return parts.flatMap((part, index) => {
    const before = locked[index];
    if (before === undefined || part.from === part.to) return [];
    const ofPart = decisions.slice(part.from, part.to);
    return [
      {
        partitionNo: part.partition.no,
        after: offsetsAfter(part, items, ofPart, before),
        records: ofPart.length,
        ...countsOf(ofPart),
      },
    ];
  });
}

/**
 * A partition's offsets after the batch. `nextOffset` only grows. New decisions set `decidedUpTo` to the
 * part's end, even to a lower offset: the topic was then deleted and created again. A part that is only
 * answered again can only raise it. So can a replay, unless it leaves a gap in front.
 */
function offsetsAfter(
  part: PartitionItems,
  items: readonly Item[],
  decisions: readonly Decision[],
  locked: PartitionOffsets,
): PartitionOffsets {
  const { first, last } = sourcesOf(part, items);
  const end = (last?.offset ?? -1) + 1;
  const nextOffset = Math.max(locked.nextOffset, end);
  const isReplay = part.expectedUpTo === undefined;
  if (!isReplay && decisions.some(({ redelivered }) => !redelivered)) return { nextOffset, decidedUpTo: end };
  if (isReplay && (first?.offset ?? 0) > locked.decidedUpTo)
    return { nextOffset, decidedUpTo: locked.decidedUpTo };
  return { nextOffset, decidedUpTo: Math.max(locked.decidedUpTo, end) };
}

function countsOf(decisions: readonly Decision[]): Counts {
  const counts = {
    accepted: 0,
    rejected: 0,
    skipped: 0,
    duplicates: 0,
    redeliveries: 0,
    deadLetters: 0,
    withoutKey: 0,
  };
  for (const decision of decisions) {
    if (decision.redelivered) counts.redeliveries++;
    else if (decision.type === 'duplicate') counts.duplicates++;
    else if (decision.type === 'decided') counts[decision.outcome.verdict]++;
    else if (decision.deadLetter !== null) counts.deadLetters++;
    else counts.withoutKey++;
  }
  return counts;
}

/** The columns of a partition's row that a batch adds to, in the order of the statement's arrays. */
const COUNTED = [
  ['records_read', 'records'],
  ['accepted', 'accepted'],
  ['rejected', 'rejected'],
  ['skipped', 'skipped'],
  ['duplicates', 'duplicates'],
  ['redeliveries', 'redeliveries'],
  ['dead_letters', 'deadLetters'],
  ['without_key', 'withoutKey'],
] as const;

const COUNT_PARTITIONS = {
  name: 'count_partitions',
  text: `update promo_store.partitions p set next_offset = c.next_offset, decided_up_to = nullif(c.decided_up_to, c.next_offset),
  ${COUNTED.map(([column]) => `${column} = p.${column} + c.${column}`).join(', ')}, updated_at = now()
from unnest($1::int[], $2::bigint[], $3::bigint[], ${COUNTED.map((_, index) => `$${index + 4}::bigint[]`).join(', ')})
  c (partition_no, next_offset, decided_up_to, ${COUNTED.map(([column]) => column).join(', ')})
-- The first condition has the index asked for these rows alone, however many partitions there are.
where p.partition_no = any($1) and p.partition_no = c.partition_no`,
};

/** @param counted one element for each partition of the batch */
export async function countPartitions(session: Session, counted: readonly Counted[]): Promise<void> {
  if (counted.length === 0) return;
  const numbers = (of: (each: Counted) => number) => arrays.int8(counted.map(of));
  await session.query(COUNT_PARTITIONS, [
    arrays.int4(counted.map(({ partitionNo }) => partitionNo)),
    numbers(({ after }) => after.nextOffset),
    numbers(({ after }) => after.decidedUpTo),
    ...COUNTED.map(([, field]) => numbers((each) => each[field])),
  ]);
}

/**
 * Statements on rounds. Before the batch is decided, the rounds of fresh events are locked with their state,
 * and the rounds of decided events are only read. Afterwards, new rounds are written and changed rounds are
 * updated.
 */
import { ID_KEY, idFinder, storedId } from '../../domain/event/id-key';
import { type Currency, currencyOf, currencyOfNo } from '../../domain/event/money';
import {
  compareIds,
  type FeedIds,
  FeedMap,
  type Item,
  type KeyedItem,
  type Known,
} from '../../domain/verdict/decide';
import { firstCurrency, type Round, type Sums } from '../../domain/verdict/round';
import { arrays, CopyRows, sinceEpoch } from '../../postgres/binary-format';
import { unreadable } from '../../postgres/errors';
import type { Row, Write } from '../../postgres/pipeline';
import type { Session, Statement } from '../../postgres/transaction';
import { LOCK_FEEDS } from '../failures';

const LOCK_THESE_FEEDS = {
  name: LOCK_FEEDS,
  // A function of the owner. It locks rows of feeds, which only the roles of the store can do. Any role that
  // connects could hold an advisory lock.
  text: 'select promo_store.lock_feeds($1)',
};

/**
 * Waits until no other batch holds one of these feeds. They must ascend. Only the partition's lock may come
 * before.
 */
export async function lockFeeds(session: Session, feedNos: readonly number[]): Promise<void> {
  await session.query(LOCK_THESE_FEEDS, [arrays.int4(feedNos)]);
}

/** Locks the rounds of these events, except events that are known to be decided. */
export function lockBatchRounds(
  session: Session,
  items: readonly Item[],
  known: Known['events'] | null,
): Promise<FeedMap<Round>> {
  const wanted = roundIdsOf(items, (feedNo, eventId) => !known?.has(feedNo, eventId));
  return collect(session, wanted, lockRounds);
}

/**
 * Reads the rounds of decided events, for the anomalies that answers name (docs/rules.md, A4). Sends no query
 * where no event is decided.
 */
export async function readDecidedRounds(
  session: Session,
  items: readonly Item[],
  known: Known['events'],
): Promise<FeedMap<Round>> {
  if (known.isEmpty()) return new FeedMap();
  const wanted = roundIdsOf(items, (feedNo, eventId) => known.has(feedNo, eventId));
  return collect(session, wanted, readRounds);
}

/** Reads the rounds of all these events without locks, for a rehearsal. */
export function readBatchRounds(session: Session, items: readonly Item[]): Promise<FeedMap<Round>> {
  const wanted = roundIdsOf(items, () => true);
  return collect(session, wanted, readRounds);
}

function roundIdsOf(
  items: readonly Item[],
  isWanted: (feedNo: number, eventId: string) => boolean,
): FeedMap<true> {
  const wanted = new FeedMap<true>();
  for (const item of items) {
    if (item.type === 'keyed' && item.fields.roundId !== null && isWanted(item.feedNo, item.eventId))
      wanted.set(item.feedNo, item.fields.roundId, true);
  }
  return wanted;
}

/**
 * The existing rounds of all feeds, by one statement for each feed.
 *
 * @param pass locks or reads the rounds of one feed
 */
async function collect(
  session: Session,
  wanted: FeedMap<true>,
  pass: typeof lockRounds,
): Promise<FeedMap<Round>> {
  const found = new FeedMap<Round>();
  await Promise.all(
    wanted
      .inOrder()
      .map((ids) => pass(session, ids, ({ feedNo, roundId, round }) => found.set(feedNo, roundId, round))),
  );
  return found;
}

/** A round with its key. */
export interface NamedRound {
  readonly feedNo: number;
  readonly roundId: string;
  readonly round: Round;
}

const LOCKED = `select round_key, round_no, refunded_by is not null, settled, second_settled, player_mismatch, brand_mismatch, player_hash, brand_no,
  currency_no, bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums, player_tag
from promo_store.rounds where feed_no = $1`;

const LOCK_ROUNDS = {
  name: 'lock_rounds',
  text: `${LOCKED} and round_key = any($2) order by round_key for update`,
  before17: `select r.* from (select key from unnest($2::bytea[]) key order by key) k
cross join lateral (${LOCKED} and round_key = k.key for update) r`,
};

/**
 * Locks the existing rounds of one feed, ascending by key, and passes the state of each to `found`.
 *
 * A missing round cannot be locked. Where another writer creates it, `copyRounds` fails with a lost race.
 */
export async function lockRounds(
  session: Session,
  wanted: FeedIds,
  found: (round: NamedRound) => void,
): Promise<void> {
  await passRounds(session, LOCK_ROUNDS, wanted, found);
}

const READ_ROUNDS = {
  name: 'read_rounds',
  text: `${LOCKED} and round_key = any($2)`,
  before17: `select r.* from unnest($2::bytea[]) key cross join lateral (${LOCKED} and round_key = key limit 1) r`,
};

/**
 * Passes the state of the existing rounds of one feed to `found`, without locks. Use it for answers, never
 * for a decision.
 */
export async function readRounds(
  session: Session,
  wanted: FeedIds,
  found: (round: NamedRound) => void,
): Promise<void> {
  await passRounds(session, READ_ROUNDS, wanted, found);
}

async function passRounds(
  session: Session,
  statement: Statement,
  { feedNo, ids }: FeedIds,
  found: (round: NamedRound) => void,
): Promise<void> {
  const rows = await session.query(statement, [feedNo, arrays.formatted(ids, ID_KEY)]);
  const idOf = idFinder(ids);
  for (const row of rows) {
    const roundId = idOf(row[0] ?? '');
    if (roundId === undefined)
      throw unreadable(statement.name, 'the store returned a round that was not requested');
    found({ feedNo, roundId, round: readRound(row) });
  }
}

const FIND_REFUNDS = {
  name: 'find_refunds',
  text: `select ordinal from unnest($2::bytea[], $3::text[]) with ordinality as wanted (key, refund, ordinal)
cross join lateral (select 1 from promo_store.rounds where feed_no = $1 and round_key = key and refunded_by = refund limit 1) found`,
};

/** The refunds among decided ones that refunded their rounds: the first of each round. */
export async function findRefunds(
  session: Session,
  refunds: readonly KeyedItem[],
): Promise<ReadonlySet<KeyedItem>> {
  const found = new Set<KeyedItem>();
  await Promise.all(
    [...Map.groupBy(refunds, ({ feedNo }) => feedNo)].map(async ([feedNo, ofFeed]) => {
      const values = [
        feedNo,
        arrays.formatted(
          ofFeed.map(({ fields }) => fields.roundId ?? ''),
          ID_KEY,
        ),
        arrays.text(ofFeed.map(({ eventId }) => eventId)),
      ];
      for (const [ordinal] of await session.query(FIND_REFUNDS, values)) {
        const refund = ofFeed[Number(ordinal) - 1];
        if (refund !== undefined) found.add(refund);
      }
    }),
  );
  return found;
}

function readRound(row: Row): Round {
  const [
    ,
    no,
    refunded,
    settled,
    secondSettled,
    playerMismatch,
    brandMismatch,
    playerHash,
    brandNo,
    currencyNo,
  ] = row;
  const sums = new Map<Currency, Sums>();
  if (currencyNo != null) {
    const [bet, win, counted, belowMinBet] = row.slice(10, 14).map((text) => BigInt(text ?? 0));
    const currency = currencyOfNo(Number(currencyNo));
    if (currency === undefined) throw unreadable(LOCK_ROUNDS.name, `currency ${currencyNo}`);
    sums.set(currency, {
      bet: bet ?? 0n,
      win: win ?? 0n,
      settled: counted ?? 0n,
      belowMinBet: belowMinBet ?? 0n,
    });
  }
  readOtherSums(row[14] ?? null, sums);
  return {
    no: Number(no),
    refunded: refunded === 't',
    refundedBy: null,
    settled: settled === 't',
    sums,
    playerTag: row[15] == null ? null : Number(row[15]),
    taggedPlayer: null,
    playerHash: playerHash == null ? null : Number(playerHash),
    brandNo: brandNo == null ? null : Number(brandNo),
    secondSettled: secondSettled === 't',
    playerMismatch: playerMismatch === 't',
    brandMismatch: brandMismatch === 't',
  };
}

const SUM_NAMES = ['bet', 'win', 'settled', 'belowMinBet'] as const;
const NO_SUMS: Readonly<Sums> = { bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n };

function readOtherSums(json: string | null, sums: Round['sums']): void {
  if (json === null) return;
  const byCode: unknown = JSON.parse(json);
  for (const [code, value] of Object.entries(byCode ?? {})) {
    const currency = currencyOf(code);
    if (currency === undefined) throw unreadable(LOCK_ROUNDS.name, `currency ${code}`);
    const read: Sums = { ...NO_SUMS };
    for (const name of SUM_NAMES) read[name] = BigInt(String(Reflect.get(Object(value), name)));
    sums.set(currency, read);
  }
}

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

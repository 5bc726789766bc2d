/**
 * Step `lock` of the deciding transaction. The rounds of fresh events are locked with their state, and the
 * rounds of decided events are only read. Then the batch gets its number, its time and the keys of players.
 */
import { ID_KEY, idFinder } from '../../domain/event/id-key';
import { type Currency, currencyOf, currencyOfNo } from '../../domain/event/money';
import { monthNo, monthOf, type PlayerKey, PlayerTags, playerKeyOf } from '../../domain/event/player-tag';
import { type FeedIds, FeedMap, type Item, type Known } from '../../domain/verdict/decide';
import type { Round, Sums } from '../../domain/verdict/round';
import { arrays } from '../../postgres/binary-format';
import { unreadable } from '../../postgres/errors';
import type { Row } from '../../postgres/pipeline';
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

/** The rounds that the events of a batch name. */
export class BatchRounds {
  /** In ascending order. */
  readonly all: readonly FeedIds[];
  private readonly events: FeedMap<number>;

  constructor(private readonly items: readonly Item[]) {
    this.events = countByRound(items, () => true);
    this.all = this.events.inOrder();
  }

  /**
   * A decided event changes no round, whatever a resend contains.
   *
   * @param known the decided events
   * @returns the rounds that another event names, and the rounds that a decided event names. Both ascend
   */
  divide(known: Known['events']): { toLock: readonly FeedIds[]; toRead: readonly FeedIds[] } {
    if (known.isEmpty()) return { toLock: this.all, toRead: [] };
    const decided = countByRound(this.items, (feedNo, eventId) => known.has(feedNo, eventId));
    const isOpen = (feedNo: number, id: string) => decided.get(feedNo, id) !== this.events.get(feedNo, id);
    const toLock = this.all.map(({ feedNo, ids }) => ({
      feedNo,
      ids: ids.filter((id) => isOpen(feedNo, id)),
    }));
    return { toLock: toLock.filter(({ ids }) => ids.length > 0), toRead: decided.inOrder() };
  }
}

/** The rounds that these events name, each with the number of the events. */
function countByRound(
  items: readonly Item[],
  isCounted: (feedNo: number, eventId: string) => boolean,
): FeedMap<number> {
  const events = new FeedMap<number>();
  for (const item of items) {
    if (item.type !== 'keyed' || !isCounted(item.feedNo, item.eventId)) continue;
    const { roundId } = item.fields;
    if (roundId !== null) events.set(item.feedNo, roundId, (events.get(item.feedNo, roundId) ?? 0) + 1);
  }
  return events;
}

/** Locks the rounds that exist, and returns their state. */
export function lockBatchRounds(session: Session, rounds: readonly FeedIds[]): Promise<FeedMap<Round>> {
  return collect(session, rounds, lockRounds);
}

/**
 * Reads the rounds that exist, without locks: for the anomalies that answers name (docs/rules.md, A4), and
 * for a rehearsal.
 */
export function readBatchRounds(session: Session, rounds: readonly FeedIds[]): Promise<FeedMap<Round>> {
  return collect(session, rounds, readRounds);
}

/** One statement for each feed. @param pass locks or reads the rounds of one feed */
async function collect(
  session: Session,
  rounds: readonly FeedIds[],
  pass: typeof lockRounds,
): Promise<FeedMap<Round>> {
  const found = new FeedMap<Round>();
  await Promise.all(
    rounds.map((ids) =>
      pass(session, ids, ({ feedNo, roundId, round }) => found.set(feedNo, roundId, round)),
    ),
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

export const SUM_NAMES = ['bet', 'win', 'settled', 'belowMinBet'] as const;
export const NO_SUMS: Readonly<Sums> = { bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n };

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

/**
 * Verdict ids of a batch are its number times this, plus the position in the batch. New rounds are numbered
 * likewise.
 */
export const MAX_BATCH_EVENTS = 8_192;

/** The number of the batch that gave a verdict. */
export function batchOf(verdictId: number): number {
  return Math.floor(verdictId / MAX_BATCH_EVENTS);
}

const NEXT_BATCH = {
  name: 'next_batch',
  text: `select nextval('promo_store.batch_numbers'), (extract(epoch from clock_timestamp()) * 1000000)::bigint`,
};

/**
 * The number and the time of the batch. It must run under the locks: of two batches that share a round, the
 * one decided later then has the higher number.
 */
export async function nextBatch(session: Session): Promise<{ firstNo: number; nowMicros: bigint }> {
  const [row] = await session.query(NEXT_BATCH);
  return { firstNo: Number(row?.[0]) * MAX_BATCH_EVENTS, nowMicros: BigInt(row?.[1] ?? 0) };
}

const NOW = {
  name: 'now_micros',
  text: 'select (extract(epoch from clock_timestamp()) * 1000000)::bigint',
};

/** The time of the store, in microseconds since 1970. */
export async function nowMicros(session: Session): Promise<bigint> {
  const [row] = await session.query(NOW);
  return BigInt(row?.[0] ?? 0);
}

const PLAYER_KEYS = {
  name: 'player_keys',
  text: `select extract(year from month)::int, extract(month from month)::int, key from promo_store.player_keys where key is not null`,
};

/** The keys of players' tags, one for each month. They are read once in a month. */
export class PlayerKeys {
  private keys: ReadonlyMap<number, PlayerKey> = new Map();
  /**
   * The month in which the keys were read. The next months' keys were read with them, so other workers' tags
   * are known.
   */
  private readIn: number | undefined;

  /**
   * The version of the reference data under which the keys were read. An operator that arrives from another
   * store brings keys, and new reference data follows.
   */
  private readUnder: number | undefined;

  /**
   * The tags for a batch that is decided at this time.
   *
   * @param nowMicros microseconds since 1970
   * @param version of the reference data in force
   */
  async tagsAt(session: Session, nowMicros: bigint, version: number): Promise<PlayerTags> {
    const month = monthOf(nowMicros);
    if (this.readIn !== month || this.readUnder !== version) {
      this.keys = await readKeys(session);
      this.readIn = month;
      this.readUnder = version;
    }
    return new PlayerTags(this.keys, month);
  }

  /** Reads the keys again for the next batch: another store has other keys. */
  forget(): void {
    this.readIn = undefined;
  }
}

async function readKeys(session: Session): Promise<ReadonlyMap<number, PlayerKey>> {
  const keys = new Map<number, PlayerKey>();
  for (const [year, month, text] of await session.query(PLAYER_KEYS)) {
    // Postgres' text format of bytea is \x and two digits for each byte.
    const key = playerKeyOf(Buffer.from(text?.slice(2) ?? '', 'hex'));
    if (key === undefined) throw unreadable(PLAYER_KEYS.name, `the key of month ${year}-${month}`);
    keys.set(monthNo(Number(year), Number(month)), key);
  }
  return keys;
}

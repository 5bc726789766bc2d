/**
 * Statements on the rounds: locked with their state before the batch is decided, written back afterwards.
 */
import { type Currency, currencyOf, currencyOfNo } from '../domain/money';
import type { Round, Sums } from '../domain/round';
import { arrays } from './binary';
import type { Row, Session } from './connection';
import { LostRace } from './failures';
import { feedKeyColumns, unreadable } from './keys';

export interface LockedRounds {
  /** Number of each round of the batch, by round key. */
  readonly numbers: Map<string, number>;
  /** State of those that existed before, by round key. */
  readonly states: Map<string, Round>;
}

const LOCK_ROUNDS = {
  name: 'lock_rounds',
  text: `select k.n, r.round_no, r.refunded_by, r.settled, r.second_settled, r.player_mismatch, r.brand_mismatch, r.player_hash, r.brand_no,
  r.currency_no, r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor, r.other_sums
from unnest($1::int[], $2::bytea[]) with ordinality as k (feed_no, round_key, n)
cross join lateral (
  select * from promo_store.rounds r where r.feed_no = k.feed_no and r.round_key = k.round_key for update
) r`,
};

const OPEN_ROUNDS = {
  name: 'open_rounds',
  text: `insert into promo_store.rounds (feed_no, round_key, round_id)
select * from unnest($1::int[], $2::bytea[], $3::text[]) on conflict do nothing returning round_no`,
};

/**
 * Locks the rounds of the batch and returns their state.
 *
 * Locks: one row a round, ascending by key; the lateral subquery locks in the order of the array. Rounds never seen before are
 * inserted, since a missing row cannot be locked. Two phases, each ascending, cannot deadlock: a writer that waits for another's
 * insert holds only inserts below it.
 *
 * @param roundIds the round id of each round key
 * @throws LostRace where another writer opened one of the missing rounds meanwhile
 */
export async function lockRounds(
  session: Session,
  roundIds: ReadonlyMap<string, string>,
): Promise<LockedRounds> {
  const locked: LockedRounds = { numbers: new Map(), states: new Map() };
  if (roundIds.size === 0) return locked;
  const keys = [...roundIds.keys()].sort();
  for (const row of await session.query(LOCK_ROUNDS, feedKeyColumns(keys))) {
    const key = keys[Number(row[0]) - 1];
    if (key === undefined) throw unreadable(LOCK_ROUNDS.name, `position ${row[0]}`);
    locked.numbers.set(key, Number(row[1]));
    locked.states.set(key, readRound(row));
  }
  const missing = keys.filter((key) => !locked.numbers.has(key));
  if (missing.length === 0) return locked;
  const opened = await session.query(OPEN_ROUNDS, [
    ...feedKeyColumns(missing),
    arrays.text(missing.map((key) => roundIds.get(key) ?? null)),
  ]);
  if (opened.length < missing.length) throw new LostRace('another writer opened a round of this batch');
  missing.forEach((key, index) => {
    locked.numbers.set(key, Number(opened[index]?.[0]));
  });
  return locked;
}

function readRound(row: Row): Round {
  const [
    ,
    ,
    refundedBy,
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
    refundedBy: refundedBy ?? null,
    settled: settled === 't',
    sums,
    playerHash: playerHash == null ? null : BigInt(playerHash),
    brandNo: brandNo == null ? null : Number(brandNo),
    secondSettled: secondSettled === 't',
    playerMismatch: playerMismatch === 't',
    brandMismatch: brandMismatch === 't',
  };
}

const SUM_NAMES = ['bet', 'win', 'settled', 'belowMinBet'] as const;

function readOtherSums(json: string | null, sums: Round['sums']): void {
  if (json === null) return;
  const byCode: unknown = JSON.parse(json);
  for (const [code, value] of Object.entries(byCode ?? {})) {
    const currency = currencyOf(code);
    if (currency === undefined) throw unreadable(LOCK_ROUNDS.name, `currency ${code}`);
    const read: Sums = { bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n };
    for (const name of SUM_NAMES) read[name] = BigInt(String(Reflect.get(Object(value), name)));
    sums.set(currency, read);
  }
}

const UPDATE_ROUNDS = {
  name: 'update_rounds',
  text: `update promo_store.rounds r set
  refunded_by = c.refunded_by,
  refunded_at = case when c.refunded_by is null then null else coalesce(r.refunded_at, timestamptz 'epoch' + $15::bigint * interval '1 microsecond') end,
  settled = c.settled, second_settled = c.second_settled, player_mismatch = c.player_mismatch, brand_mismatch = c.brand_mismatch,
  player_hash = c.player_hash, brand_no = c.brand_no, currency_no = c.currency_no,
  bet_minor = c.bet_minor::numeric, win_minor = c.win_minor::numeric, settled_minor = c.settled_minor::numeric,
  below_min_bet_minor = c.below_min_bet_minor::numeric, other_sums = c.other_sums::jsonb
from unnest($1::bigint[], $2::text[], $3::boolean[], $4::boolean[], $5::boolean[], $6::boolean[], $7::bigint[], $8::int[], $9::smallint[],
  $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
  as c (round_no, refunded_by, settled, second_settled, player_mismatch, brand_mismatch, player_hash, brand_no, currency_no,
  bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums)
where r.round_no = c.round_no`,
};

/** Writes the state of the rounds that changed; their rows are locked already. */
export async function updateRounds(
  session: Session,
  changed: readonly { no: number; round: Round }[],
  nowMicros: bigint,
): Promise<void> {
  if (changed.length === 0) return;
  const rounds = changed.map(({ round }) => round);
  const first = rounds.map((round) => [...round.sums][0]);
  const sum = (name: keyof Sums) =>
    arrays.text(first.map((entry) => (entry ? entry[1][name].toString() : '0')));
  await session.query(UPDATE_ROUNDS, [
    arrays.int8(changed.map(({ no }) => no)),
    arrays.text(rounds.map((round) => round.refundedBy)),
    arrays.bool(rounds.map((round) => round.settled)),
    arrays.bool(rounds.map((round) => round.secondSettled)),
    arrays.bool(rounds.map((round) => round.playerMismatch)),
    arrays.bool(rounds.map((round) => round.brandMismatch)),
    arrays.int8(rounds.map((round) => round.playerHash)),
    arrays.int4(rounds.map((round) => round.brandNo)),
    arrays.int2(first.map((entry) => entry?.[0].no ?? null)),
    sum('bet'),
    sum('win'),
    sum('settled'),
    sum('belowMinBet'),
    arrays.text(rounds.map(otherSums)),
    nowMicros,
  ]);
}

/** Sums beyond the first currency as JSON, null where there are none. Numbers as text: they may exceed what JSON readers keep exact. */
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

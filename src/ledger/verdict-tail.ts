/**
 * Follows the verdicts of the store: each verdict once, and none is passed over, although batches commit in
 * another order than that of their numbers.
 *
 * The position `from` is settled: no verdict of a lower batch number appears any more. A poll reads the
 * batches from there up to the last number given, except those that were passed on before. The position moves
 * on once all transactions have ended that an earlier poll found in flight.
 *
 * A tail may begin at a time of the past. It then begins with the first batch that has a verdict of that
 * time or later. This batch is certain once the transactions have ended that were in flight at the start.
 */
import { arrays } from '../postgres/binary-format';
import { inTransaction, type Session, type Statement, type Store } from '../postgres/transaction';
import { batchOf, MAX_BATCH_EVENTS } from './statements/lock';

/** Conditions on the verdicts. An undefined one sets no condition. */
export interface VerdictFilters {
  readonly operator?: string | undefined;
  readonly connection?: string | undefined;
  readonly verdict?: string | undefined;
  readonly reason?: string | undefined;
  /** Follow the verdicts of connections for tests, and no others. */
  readonly isTest?: boolean;
}

/** A decided event, without its player. Ids are as promo.stored_id returns them: at most 1,000 bytes. */
export interface FollowedVerdict {
  readonly operator_id: string;
  readonly feed_id: string;
  readonly event_id: string;
  readonly verdict: string;
  readonly reason: string | null;
  readonly connection_id: string;
  readonly brand: string | null;
  readonly kind: string | null;
  readonly round_id: string | null;
  readonly amount: string | null;
  readonly currency: string | null;
  readonly occurred_at: string | null;
  readonly decided_at: string;
  /** The faults of an event that does not count, the deciding one first. Empty where none is kept. */
  readonly faults: readonly FollowedFault[];
}

export interface FollowedFault {
  /** The reason that this fault alone would give. */
  readonly reason: string;
  /** The field as a JSON pointer; empty for the whole event, null where it was not kept. */
  readonly field: string | null;
}

/** The most verdicts of one statement. */
const PAGE = 2_000;
/**
 * How many batches one statement spans. An index finds the batches, and all of their rows are sorted for one
 * page. So the span adapts, between 1 and the most.
 */
const [FIRST_SPAN, MOST_SPAN] = [64, 1_024];
/** A statement that takes longer halves the span. */
const SLOW_MS = 500;
const DAY_SECONDS = 86_400;

const IN_FLIGHT = {
  name: 'batches_in_flight',
  text: 'select last_batch, array_to_string(transactions, $1), is_replica from promo.batches_in_flight()',
};

const DATE = `'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`;
const newVerdictsOf = (view: 'verdicts' | 'test_verdicts'): Statement => ({
  name: `new_${view}`,
  // Whole ids may have tens of MiB each, and a page of them would use up the memory. The view itself shortens
  // those of rounds.
  // The condition on time excludes earlier months.
  text: `select verdict_id, operator_id, feed_id, promo.stored_id(event_id), verdict, reason, connection_id,
  promo.stored_id(brand), kind, round_id, amount, currency,
  to_char(occurred_at at time zone 'utc', ${DATE}), to_char(decided_at at time zone 'utc', ${DATE})
from promo.${view}
where verdict_id > $1 and verdict_id < $2 and decided_at >= to_timestamp($3)
  and ($4::text is null or operator_id = $4) and ($5::text is null or connection_id = $5)
  and ($6::text is null or verdict = $6) and ($7::text is null or reason = $7)
order by verdict_id limit ${PAGE}`,
});

/**
 * The faults of a page. Statement and page read the same range of history: a look-up of each verdict would
 * read whole ranges of blocks for each.
 */
const FAULTS = {
  name: 'faults_of_page',
  text: `select verdict_id, reason, field from promo.faults
where verdict_id >= $1 and verdict_id <= $2 and decided_at >= to_timestamp($3) and verdict_id = any($4::bigint[])
order by verdict_id, place`,
};

const SINCE = 'where verdict_id < $1 and decided_at >= to_timestamp($2)';
/** Whether a verdict of a time or later has a lower number. The number and the time are in one index. */
const HAS_LOWER = {
  name: 'has_lower_verdict',
  text: `select exists (select from promo.verdicts ${SINCE}) or exists (select from promo.test_verdicts ${SINCE})`,
};
/** To find any row, Postgres would read a month from its begin. */
const BY_INDEX = { name: 'by_index', text: "select set_config('enable_seqscan', 'off', true)" };

/** The connections in force that fit conditions. Only their events can get verdicts. */
export interface FollowedConnections {
  readonly count: number;
  /** Of them, the connections for tests. */
  readonly tests: number;
  /** All connections in force, where none fits. */
  readonly others: readonly { readonly operator: string; readonly connection: string }[];
}

const CONNECTIONS = {
  name: 'followed_connections',
  text: `select count(*), count(*) filter (where is_test) from promo.connections
where ($1::text is null or operator_id = $1) and ($2::text is null or connection_id = $2)`,
};
const ALL_CONNECTIONS = {
  name: 'all_connections',
  text: 'select operator_id, connection_id from promo.connections order by 1, 2',
};

/** @throws StoreError */
export async function followedConnections(
  store: Store,
  filters: VerdictFilters,
): Promise<FollowedConnections> {
  const { operator = null, connection = null } = filters;
  return inTransaction(store, async (session) => {
    const [row] = await session.query(CONNECTIONS, [operator, connection]);
    const [count, tests] = [Number(row?.[0]), Number(row?.[1])];
    const all = count > 0 ? [] : await session.query(ALL_CONNECTIONS);
    const others = all.map(([of, id]) => ({ operator: of ?? '', connection: id ?? '' }));
    return { count, tests, others };
  });
}

/** The store cannot say which transactions are in flight. */
export class IsReplica extends Error {
  override readonly name = 'IsReplica';
}

interface InFlight {
  readonly lastBatch: number;
  readonly transactions: ReadonlySet<string>;
}

async function readInFlight(session: Session): Promise<InFlight> {
  const [row] = await session.query(IN_FLIGHT, [' ']);
  const [lastBatch, transactions, isReplica] = row ?? [];
  if (isReplica === 't')
    throw new IsReplica('the database is a replica, where batches in flight cannot be seen');
  const names = (transactions ?? '').split(' ').filter((each) => each !== '');
  return { lastBatch: Number(lastBatch), transactions: new Set(names) };
}

export interface VerdictTail {
  /**
   * Passes the verdicts that were decided since the last poll to `found`, page by page.
   *
   * @returns the first batch that the store has lost since the last poll; null where it has lost none
   * @throws StoreError, IsReplica
   */
  poll(found: (verdicts: readonly FollowedVerdict[]) => Promise<void>): Promise<number | null>;
}

/**
 * Begins behind the batches that have a number now, or with the verdicts of a time.
 *
 * @param sinceMs the time of the first verdicts, in ms since 1970; undefined for now
 * @throws StoreError, IsReplica
 */
export async function followVerdicts(
  store: Store,
  filters: VerdictFilters,
  sinceMs?: number,
): Promise<VerdictTail> {
  const start = await inTransaction(store, readInFlight);
  const startSeconds = Date.now() / 1000;
  const sinceSeconds = sinceMs === undefined ? startSeconds : sinceMs / 1000;
  const { operator = null, connection = null, verdict = null, reason = null } = filters;
  const statement = newVerdictsOf(filters.isTest ? 'test_verdicts' : 'verdicts');
  /** From this batch on, each verdict is shown, whatever its time. */
  let liveFrom = start.lastBatch + 1;
  /** Undefined until the first batch of a time of the past is found. */
  let from = sinceMs === undefined ? liveFrom : undefined;
  let earlier = start;
  /** The last batch number that any poll found. */
  let newest = start.lastBatch;
  let span = FIRST_SPAN;
  /**
   * By batch from `from` on: the last verdict that was passed on. A batch commits as a whole, and is read in
   * the order of its verdicts. So those before it were passed on, also where a poll failed between two pages.
   */
  const passedOn = new Map<number, number>();

  /** The verdicts above `after` and below `end`, or the first of them; and up to where they are complete. */
  async function read(after: number, end: number) {
    const isLive = batchOf(after + 1) >= liveFrom;
    const most = Math.min(end, (batchOf(after + 1) + span) * MAX_BATCH_EVENTS);
    const upTo = isLive ? most : Math.min(most, liveFrom * MAX_BATCH_EVENTS);
    // A day allows for clocks that were set.
    const decidedFrom = isLive ? Math.min(sinceSeconds, startSeconds - DAY_SECONDS) : sinceSeconds;
    const began = performance.now();
    const { rows, faults } = await inTransaction(store, async (session) => {
      const conditions = [operator, connection, verdict, reason];
      const found = await session.query(statement, [after, upTo, decidedFrom, ...conditions]);
      return { rows: found, faults: await faultsOf(session, found, decidedFrom) };
    });
    const isFull = rows.length === PAGE;
    const isSlow = performance.now() - began > SLOW_MS;
    span = isFull || isSlow ? Math.max(1, span / 2) : Math.min(MOST_SPAN, span * 2);
    return { rows, faults, completeTo: isFull ? Number(rows.at(-1)?.[0]) : upTo - 1 };
  }

  return {
    async poll(found) {
      const now = await inTransaction(store, readInFlight);
      const lost = now.lastBatch < newest ? now.lastBatch + 1 : null;
      newest = now.lastBatch;
      if (lost !== null) {
        // The numbers are given again. The store was restored, or a standby took over.
        [earlier, liveFrom] = [now, Math.min(liveFrom, lost)];
        if (from !== undefined) from = lost;
        passedOn.clear();
      }
      // This poll begins after the transactions of the earlier one have ended, so it finds all of their rows.
      const isSettled = ![...earlier.transactions].some((each) => now.transactions.has(each));
      if (from === undefined && !isSettled) return lost;
      from ??= await firstBatchSince(store, sinceSeconds, liveFrom);
      const end = (now.lastBatch + 1) * MAX_BATCH_EVENTS;
      for (let after = from * MAX_BATCH_EVENTS - 1; after < end - 1; ) {
        const { rows, faults, completeTo } = await read(after, end);
        const fresh = rows
          .map(([id, ...row]) => ({ id: Number(id), row }))
          .filter(({ id }) => id > (passedOn.get(batchOf(id)) ?? -1));
        if (fresh.length > 0) await found(fresh.map(({ id, row }) => verdictOf(row, faults.get(id) ?? [])));
        for (const { id } of fresh) passedOn.set(batchOf(id), id);
        after = completeTo;
        if (isSettled) {
          from = Math.max(from, Math.min(batchOf(after + 1), earlier.lastBatch + 1));
          for (const [id] of rows) if (batchOf(Number(id)) < from) passedOn.delete(batchOf(Number(id)));
        }
      }
      if (isSettled) earlier = now;
      return lost;
    },
  };
}

/**
 * The first batch with a verdict of a time or later. Numbers need not follow the time: an operator that
 * arrives from another cell brings verdicts whose numbers another store has given.
 *
 * @param next returned where no batch below it has one
 */
async function firstBatchSince(store: Store, sinceSeconds: number, next: number): Promise<number> {
  const hasLower = (batch: number) =>
    inTransaction(store, async (session) => {
      await session.query(BY_INDEX);
      const [row] = await session.query(HAS_LOWER, [batch * MAX_BATCH_EVENTS, sinceSeconds]);
      return row?.[0] === 't';
    });
  let [first, end] = [0, next];
  while (first < end) {
    const middle = Math.floor((first + end) / 2);
    if (await hasLower(middle + 1)) end = middle;
    else first = middle + 1;
  }
  return first;
}

type Row = readonly (string | null)[];

/** The place of the reason in a row of the verdicts. */
const REASON = 5;

/** The faults of the verdicts of a page that have a reason, by verdict. */
async function faultsOf(session: Session, rows: readonly Row[], decidedFrom: number) {
  const byVerdict = new Map<number, FollowedFault[]>();
  const ids = rows.filter((row) => (row[REASON] ?? null) !== null).map(([id]) => Number(id));
  if (ids.length === 0) return byVerdict;
  const found = await session.query(FAULTS, [ids[0], ids.at(-1), decidedFrom, arrays.int8(ids)]);
  for (const [id, reason = null, field = null] of found) {
    const faults = byVerdict.get(Number(id)) ?? [];
    byVerdict.set(Number(id), [...faults, { reason: reason ?? '', field }]);
  }
  return byVerdict;
}

function verdictOf(row: Row, faults: readonly FollowedFault[]): FollowedVerdict {
  const [operator = null, feed, event, verdict, reason, connection, brand, kind, round, ...rest] = row;
  const [amount, currency, occurredAt, decidedAt] = rest;
  return {
    operator_id: operator ?? '',
    feed_id: feed ?? '',
    event_id: event ?? '',
    verdict: verdict ?? '',
    reason: reason ?? null,
    connection_id: connection ?? '',
    brand: brand ?? null,
    kind: kind ?? null,
    round_id: round ?? null,
    amount: amount ?? null,
    currency: currency ?? null,
    occurred_at: occurredAt ?? null,
    decided_at: decidedAt ?? '',
    faults,
  };
}

/**
 * Follows the verdicts of the store: each verdict once, and none is passed over, although batches commit in
 * another order than that of their numbers.
 *
 * The position `from` is settled: no verdict of a lower batch number appears any more. A poll reads the
 * batches from there up to the last number given, except those that were passed on before. The position moves
 * on once all transactions have ended that an earlier poll found in flight.
 */
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
}

/** The most verdicts of one statement. */
const PAGE = 2_000;

const IN_FLIGHT = {
  name: 'batches_in_flight',
  text: 'select last_batch, array_to_string(transactions, $1), is_replica from promo.batches_in_flight()',
};

const DATE = `'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`;
const newVerdictsOf = (view: 'verdicts' | 'test_verdicts'): Statement => ({
  name: `new_${view}`,
  // Whole ids may have tens of MiB each, and a page of them would use up the memory. The view itself shortens
  // those of rounds.
  // The condition on time excludes earlier months. A day allows for clocks that were set.
  text: `select verdict_id, operator_id, feed_id, promo.stored_id(event_id), verdict, reason, connection_id,
  promo.stored_id(brand), kind, round_id, amount, currency,
  to_char(occurred_at at time zone 'utc', ${DATE}), to_char(decided_at at time zone 'utc', ${DATE})
from promo.${view}
where verdict_id > $1 and verdict_id < $2 and decided_at >= to_timestamp($3) - interval '1 day'
  and ($4::text is null or operator_id = $4) and ($5::text is null or connection_id = $5)
  and ($6::text is null or verdict = $6) and ($7::text is null or reason = $7)
order by verdict_id limit ${PAGE}`,
});

/** The connections in force that fit conditions. Only their events can get verdicts. */
export interface FollowedConnections {
  readonly count: number;
  /** Of them, the connections for tests. */
  readonly tests: number;
}

const CONNECTIONS = {
  name: 'followed_connections',
  text: `select count(*), count(*) filter (where is_test) from promo.connections
where ($1::text is null or operator_id = $1) and ($2::text is null or connection_id = $2)`,
};

/** @throws StoreError */
export async function followedConnections(
  store: Store,
  filters: VerdictFilters,
): Promise<FollowedConnections> {
  const { operator = null, connection = null } = filters;
  const [row] = await inTransaction(store, (session) => session.query(CONNECTIONS, [operator, connection]));
  return { count: Number(row?.[0]), tests: Number(row?.[1]) };
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

/** Begins behind the batches that have a number now. @throws StoreError, IsReplica */
export async function followVerdicts(store: Store, filters: VerdictFilters): Promise<VerdictTail> {
  const start = await inTransaction(store, readInFlight);
  const since = Date.now() / 1000;
  const { operator = null, connection = null, verdict = null, reason = null } = filters;
  const statement = newVerdictsOf(filters.isTest ? 'test_verdicts' : 'verdicts');
  let from = start.lastBatch + 1;
  let earlier = start;
  /** The last batch number that any poll found. */
  let newest = start.lastBatch;
  /**
   * By batch from `from` on: the last verdict that was passed on. A batch commits as a whole, and is read in
   * the order of its verdicts. So those before it were passed on, also where a poll failed between two pages.
   */
  let passedOn = new Map<number, number>();

  return {
    async poll(found) {
      const now = await inTransaction(store, readInFlight);
      const lost = now.lastBatch < newest ? now.lastBatch + 1 : null;
      newest = now.lastBatch;
      if (lost !== null) {
        // The numbers are given again. The store was restored, or a standby took over.
        [from, earlier, passedOn] = [lost, now, new Map()];
      }
      const end = (now.lastBatch + 1) * MAX_BATCH_EVENTS;
      for (let after = from * MAX_BATCH_EVENTS - 1; ; ) {
        const rows = await inTransaction(store, (session) =>
          session.query(statement, [after, end, since, operator, connection, verdict, reason]),
        );
        const fresh = rows
          .map(([id, ...row]) => ({ id: Number(id), row }))
          .filter(({ id }) => id > (passedOn.get(batchOf(id)) ?? -1));
        if (fresh.length > 0) await found(fresh.map(({ row }) => verdictOf(row)));
        for (const { id } of fresh) passedOn.set(batchOf(id), id);
        if (rows.length < PAGE) break;
        after = Number(rows.at(-1)?.[0]);
      }
      // This poll began after the transactions of the earlier one had ended, so it found all of their rows.
      if (![...earlier.transactions].some((each) => now.transactions.has(each))) {
        from = Math.max(from, earlier.lastBatch + 1);
        passedOn = new Map([...passedOn].filter(([batch]) => batch >= from));
        earlier = now;
      }
      return lost;
    },
  };
}

function verdictOf(row: readonly (string | null)[]): FollowedVerdict {
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
  };
}

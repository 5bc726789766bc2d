/**
 * Runs the queries of a page: read-only, with a deadline for each, a small number at once, and a share of it
 * for each operator.
 */
import { Semaphore } from '../lib/semaphore';
import { isTimedOut, StoreError } from '../postgres/errors';
import type { PooledClient, PostgresPool } from '../postgres/pool';
import { textQuery } from '../postgres/texts';
import { asPasted, boundValues, type Columns, OperatorScope, type Query, type Values } from './scope';

/** The deadline of a query; the store enforces it. */
export const QUERY_WITHIN_MS = 5_000;
/** The time after which a page begins no further query. */
const PAGE_WITHIN_MS = 12_000;
/** The most pages of one operator that read at the same time. One operator must not keep out the others. */
const PAGES_AN_OPERATOR = 2;
/** The most pages that read at the same time, each over a connection of its own. */
export const PAGES_AT_ONCE = 4;

/** The longest wait for a place. */
const PLACE_WITHIN_MS = 3_000;

/**
 * The planner's defaults, and not those of the deciding transactions: the text on the page has to behave in
 * psql as it does here. A page uses one process of the store alone.
 */
const SETTINGS = {
  statement_timeout: QUERY_WITHIN_MS,
  lock_timeout: 1_000,
  idle_in_transaction_session_timeout: 5_000,
  max_parallel_workers_per_gather: 0,
  jit: 'off',
  TimeZone: 'UTC',
  DateStyle: 'ISO',
};
const BEGIN = 'begin isolation level read committed read only';
const SET = `select ${Object.entries(SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', true)`)}`;

/** A query as the page shows it. */
export interface ShownQuery {
  readonly title: string;
  readonly sql: string;
}

export interface FoundRows<C extends string> {
  readonly rows: readonly Columns<C>[];
  /** Whether there are more rows than the limit. */
  readonly hasMore: boolean;
  /** Whether the query was ended before its answer: there are no rows then. */
  readonly isTooSlow: boolean;
}

/** Reads for one page of one operator. */
export interface PageReader {
  readonly scope: OperatorScope;
  /** The queries of the page so far. */
  readonly shown: readonly ShownQuery[];
  /** @throws StoreError where the store is away */
  read<const P extends Query['params'], const C extends string>(
    query: Query<P, C>,
    values: Values<P>,
  ): Promise<FoundRows<C>>;
}

/** All places are taken, or the operator has its share of them. */
export class ReaderIsBusy extends Error {
  override readonly name = 'ReaderIsBusy';
}

export type OpenPage = <T>(scope: OperatorScope, work: (reader: PageReader) => Promise<T>) => Promise<T>;

/** The part of the metrics that a reader needs. */
export interface ReaderMetrics {
  readonly consoleSlowQueries: { inc(): void };
}

type Pool = Pick<PostgresPool, 'connect'>;

/** @param now milliseconds of a monotonic clock */
export function makePageReader(pool: Pool, now: () => number, metrics: ReaderMetrics): OpenPage {
  const all = new Semaphore(PAGES_AT_ONCE);
  const byOperator = new Map<string, Semaphore>();

  async function run(text: string, values: readonly string[]): Promise<(string | null)[][]> {
    let client: PooledClient | undefined;
    let isClean = false;
    try {
      client = await pool.connect();
      await client.query(BEGIN);
      await client.query(SET);
      const { rows } = await client.query<(string | null)[]>(textQuery(text, values));
      await client.query('commit');
      isClean = true;
      return rows;
    } catch (error) {
      const failure = new StoreError('console', error);
      // A store that did not answer will hardly answer a rollback.
      if (failure.sqlState !== undefined && client !== undefined)
        isClean = await client.query('rollback').then(
          () => true,
          () => false,
        );
      throw failure;
    } finally {
      client?.release(!isClean);
    }
  }

  return async (scope, work) => {
    const own = byOperator.get(scope.operator) ?? new Semaphore(PAGES_AN_OPERATOR);
    byOperator.set(scope.operator, own);
    return inPlace(own, () =>
      inPlace(all, () => {
        const began = now();
        const shown: ShownQuery[] = [];
        return work({
          scope,
          shown,
          async read(query, values) {
            if (!OperatorScope.is(scope)) throw new TypeError('a page was opened without a scope');
            const bound = boundValues(scope, query, values);
            shown.push({ title: query.title, sql: asPasted(query.text, bound) });
            if (now() - began > PAGE_WITHIN_MS) return TOO_SLOW;
            try {
              const rows = (await run(query.text, bound)).map((row) => named(query.columns, row));
              const hasMore = rows.length > query.limit;
              return { rows: rows.slice(0, query.limit), hasMore, isTooSlow: false };
            } catch (error) {
              if (!isTimedOut(error)) throw error;
              metrics.consoleSlowQueries.inc();
              return TOO_SLOW;
            }
          },
        });
      }),
    );
  };
}

/** @throws ReaderIsBusy where no place becomes free in time */
async function inPlace<T>(places: Semaphore, work: () => Promise<T>): Promise<T> {
  if (!(await places.acquireWithin(PLACE_WITHIN_MS))) throw new ReaderIsBusy();
  try {
    return await work();
  } finally {
    places.release();
  }
}

const TOO_SLOW = { rows: [], hasMore: false, isTooSlow: true };

function named<C extends string>(columns: readonly C[], row: readonly (string | null)[]): Columns<C> {
  return Object.fromEntries(columns.map((name, index) => [name, row[index] ?? null])) as Columns<C>;
}

/** Reads the store for one report: one read-only snapshot, and a deadline for each query. */
import { isTimedOut, StoreError } from '../postgres/errors';
import { withOwnConnection } from '../postgres/own-connection';
import { END_WITH_CLIENT, type StoreAccess } from '../postgres/pool';
import { BEGIN_SNAPSHOT } from '../postgres/snapshot';
import { type TextRow, textQuery } from '../postgres/texts';
import { MOST_ROWS, type ReportQuery } from './queries';

export interface ReportReader {
  /** @returns null where the query was ended at its deadline. @throws StoreError */
  read(query: ReportQuery, values: readonly unknown[]): Promise<readonly TextRow[] | null>;
  /** Reads a few rows, without which there is no report. @throws StoreError, also at the deadline */
  need(query: ReportQuery, values: readonly unknown[]): Promise<readonly TextRow[]>;
}

/** The deadline of `need`. */
const NEEDED_WITHIN_MS = 10_000;

/** The report uses one process of the store, and compiles nothing. */
const SETTINGS = {
  idle_in_transaction_session_timeout: 60_000,
  max_parallel_workers_per_gather: 0,
  jit: 'off',
  work_mem: '64MB',
  TimeZone: 'UTC',
  DateStyle: 'ISO',
};

/** All queries of a report see one state of the store. @throws StoreError */
export function readInSnapshot<T>(
  database: string | StoreAccess,
  withinMs: number,
  work: (reader: ReportReader) => Promise<T>,
): Promise<T> {
  const options = { applicationName: 'promo-intake-report', timeoutMs: Math.max(withinMs, NEEDED_WITHIN_MS) };
  return withOwnConnection(database, options, async (client) => {
    const run = async (text: string, values: readonly unknown[] = []): Promise<TextRow[]> => {
      try {
        const { rows } = await client.query<TextRow[number][]>(textQuery(text, values));
        return rows;
      } catch (error) {
        throw new StoreError('report', error);
      }
    };
    const set = (values: Readonly<Record<string, string | number>>) => {
      const calls = Object.entries(values).map(([name, value]) => `set_config('${name}', '${value}', true)`);
      return run(`select ${calls.join(', ')}`);
    };
    await run(BEGIN_SNAPSHOT);
    await run(END_WITH_CLIENT);
    await set(SETTINGS);
    const result = await work({
      async read({ text }, values) {
        await set({ statement_timeout: withinMs });
        await run('savepoint query');
        try {
          return await run(`${text}\nlimit ${MOST_ROWS}`, values);
        } catch (error) {
          if (!isTimedOut(error)) throw error;
          await run('rollback to query');
          return null;
        }
      },
      async need({ text }, values) {
        await set({ statement_timeout: NEEDED_WITHIN_MS });
        return run(`${text}\nlimit ${MOST_ROWS}`, values);
      },
    });
    await run('commit');
    return result;
  });
}

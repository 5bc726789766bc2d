/** Reads of one snapshot, by a connection of their own. They may take hours. */
import { StoreError } from './errors';
import { type OwnConnectionOptions, withOwnConnection } from './own-connection';
import { END_WITH_CLIENT, type StoreAccess } from './pool';
import { type TextRow, textQuery } from './texts';
import type { Reader } from './transaction';

export const BEGIN_SNAPSHOT = 'begin isolation level repeatable read read only';

/** Runs `work` in a transaction that sees one moment, and may write nothing. @throws StoreError */
export function inSnapshot<T>(
  database: string | StoreAccess,
  options: OwnConnectionOptions,
  work: (reader: Reader) => Promise<T>,
): Promise<T> {
  return withOwnConnection(database, options, async (client) => {
    const run = async (name: string, text: string, values?: readonly unknown[]) => {
      try {
        return (await client.query<TextRow[number][]>(textQuery(text, values))).rows;
      } catch (error) {
        throw new StoreError(name, error);
      }
    };
    await run('begin', `${BEGIN_SNAPSHOT}; ${END_WITH_CLIENT}`);
    const settings = `select set_config('statement_timeout', $1, true), set_config('bytea_output', 'hex', true)`;
    await run('settings', settings, [String(options.timeoutMs)]);
    let last: Promise<unknown> = Promise.resolve();
    const result = await work({
      // pg runs one statement at a time here, and statements may be given at once.
      query({ name, text }, values) {
        const answer = last.then(() => run(name, text, values));
        last = answer.catch(() => {});
        return answer;
      },
    });
    await run('commit', 'commit');
    return result;
  });
}

/** A store in which one chosen statement of a decision fails, by a real error of Postgres. */
import { StoreError } from '../../src/postgres/errors';
import type { Write } from '../../src/postgres/pipeline';
import type { Statement, Store, StoreConnection } from '../../src/postgres/transaction';

/** The first statement of a transaction that decides a batch of partitions. */
const FIRST_OF_DECISION = 'lock_partitions';

export class FailingStore implements Store {
  /** The names of the statements of the latest decision. */
  statements: string[] = [];
  private failing: { readonly index: number; readonly sqlState: string } | null = null;

  constructor(private readonly store: Store) {}

  /** Has one statement of the next decision fail, once. */
  failAt(index: number, sqlState: string): void {
    this.failing = { index, sqlState };
  }

  async acquire(): Promise<StoreConnection> {
    const connection = await this.store.acquire();
    let statements: string[] | null = null;
    /** @returns the SQLSTATE with which the next statement is to fail, or null */
    const next = (name: string): string | null => {
      if (statements === null && name === FIRST_OF_DECISION) this.statements = statements = [];
      if (statements === null) return null;
      const index = statements.push(name) - 1;
      if (this.failing?.index !== index) return null;
      const { sqlState } = this.failing;
      this.failing = null;
      return sqlState;
    };
    return {
      begin: () => connection.begin(),
      async query(statement, values) {
        const sqlState = next(statement.name);
        if (sqlState === null) return connection.query(statement, values);
        try {
          return await connection.query(raise(`${statement.name}_fails_${sqlState}`, sqlState));
        } catch (error) {
          throw error instanceof StoreError ? new StoreError(statement.name, error.cause) : error;
        }
      },
      write: (writes) =>
        connection.write(
          writes.map((write): Write => {
            const sqlState = next(write.name);
            return sqlState === null ? write : raise(write.name, sqlState);
          }),
        ),
      release: (isClean) => connection.release(isClean),
    };
  }
}

function raise(name: string, sqlState: string): Statement & Write {
  return {
    name,
    text: `do $$ begin raise exception 'an injected fault' using errcode = '${sqlState}'; end $$`,
  };
}

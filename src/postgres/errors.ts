/** Errors of Postgres, each with the name of the statement that failed. */
import { messageOf } from '../lib/errors';

/**
 * An error of the store, thrown by a statement, a connection or a deadline. Any other error is a defect of
 * our own.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** SQLSTATE, or undefined where the store did not answer. */
  readonly sqlState: string | undefined;
  readonly constraint: string | undefined;

  /** @param statement the name of the statement */
  constructor(
    readonly statement: string,
    cause: unknown,
  ) {
    super(`${statement}: ${messageOf(cause)}`, { cause });
    this.sqlState = textProperty(cause, 'code', SQL_STATE_LENGTH);
    this.constraint = textProperty(cause, 'constraint');
  }
}

const SQL_STATE_LENGTH = 5;

function textProperty(value: unknown, name: string, length?: number): string | undefined {
  if (typeof value !== 'object' || value === null || !(name in value)) return undefined;
  const property: unknown = Reflect.get(value, name);
  return typeof property === 'string' && (length === undefined || property.length === length)
    ? property
    : undefined;
}

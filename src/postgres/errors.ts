/** Errors of Postgres, each with the name of the statement that failed. */
import { messageOf } from '../lib/errors';

/**
 * An error of the store, thrown by a statement, a connection or a deadline. Any other error is a defect of
 * our own.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** SQLSTATE. Undefined where the store did not answer. */
  readonly sqlState: string | undefined;
  readonly constraint: string | undefined;

  /** @param statement the name of the statement */
  constructor(
    readonly statement: string,
    cause: unknown,
  ) {
    super(`${statement}: ${messageOf(cause)}`, { cause });
    const code = textProperty(cause, 'code');
    this.sqlState = code !== undefined && SQL_STATE.test(code) ? code : undefined;
    this.constraint = textProperty(cause, 'constraint');
  }
}

/** Connections of one piece of work lead to different servers, as an address may do during a failover. */
export class DifferentServers extends Error {
  override readonly name = 'DifferentServers';
}

/**
 * The store has a value that this version cannot read, for example from a newer version. The batch stays
 * undecided.
 */
export function unreadable(statement: string, what: string): StoreError {
  return new StoreError(statement, new Error(`unreadable answer: ${what}`));
}

/** Whether the store ended a statement at its deadline. */
export function isTimedOut(error: unknown): boolean {
  return error instanceof StoreError && error.sqlState === '57014';
}

/** It has a digit. Codes of the operating system have none: EPIPE is a lost connection. */
const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/;

function textProperty(value: unknown, name: string): string | undefined {
  if (typeof value !== 'object' || value === null || !(name in value)) return undefined;
  const property: unknown = Reflect.get(value, name);
  return typeof property === 'string' ? property : undefined;
}

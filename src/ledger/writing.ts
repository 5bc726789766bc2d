/**
 * Statements that are sent with all their rows at once, so that they cost one round trip together, and not two for each COPY: Postgres
 * reads the rows when it gets to their statement, and passes over those whose statement it never gets to.
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY
 */
import { type Connection, Query } from 'pg';
import type { CopyRows } from './binary';
import { StoreError } from './failures';

/** A statement without parameters. */
export interface Write {
  /** For errors. */
  readonly name: string;
  readonly text: string;
  /** What a COPY reads; not to be used afterwards. */
  readonly rows?: CopyRows;
}

/** Longest time of a timer. */
export const NEVER_MS = 2 ** 31 - 1;

/**
 * Runs writes in their order, in one request.
 *
 * @param deadlineMs for each of them: how long after the one before it is answered
 * @throws StoreError with the name of the one that failed; those behind it did not run
 */
export function runWrites(
  client: { query(writing: Writing): Writing },
  writes: readonly Write[],
  deadlineMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query(new Writing(writes, deadlineMs, (error) => (error === null ? resolve() : reject(error))));
  });
}

/** A query of another kind: a client that pipelines takes none but its own and what extends them. */
class Writing extends Query {
  /** pg's own deadline counts for the whole; ours is each statement's. */
  readonly query_timeout = NEVER_MS;
  /** pg wraps it to know when the query is over. */
  callback: (error: Error | null) => void;
  private done = 0;
  private over = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly writes: readonly Write[],
    private readonly deadlineMs: number,
    callback: (error: Error | null) => void,
  ) {
    super('');
    this.callback = callback;
  }

  override submit = (connection: Connection): void => {
    connection.query(this.writes.map(({ text }) => text).join(';\n'));
    for (const { rows } of this.writes) if (rows !== undefined) connection.stream.write(rows.end());
    this.wait();
  };

  handleCopyInResponse(): void {
    // The rows are on their way.
  }

  handleRowDescription(): void {
    // What a statement returns is not read.
  }

  handleDataRow(): void {
    // The same.
  }

  handleCommandComplete(): void {
    this.done++;
    this.wait();
  }

  handleReadyForQuery(): void {
    // Where it failed, the connection may still be sending them.
    if (!this.over) for (const { rows } of this.writes) rows?.recycle();
    this.end(null);
  }

  handleError(error: unknown): void {
    this.end(new StoreError(this.writes[this.done]?.name ?? 'commit', error));
  }

  private wait(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(
      () => this.handleError(new Error(`no answer within ${this.deadlineMs} ms`)),
      this.deadlineMs,
    );
  }

  private end(error: Error | null): void {
    clearTimeout(this.timer);
    if (this.over) return;
    this.over = true;
    this.callback(error);
  }
}

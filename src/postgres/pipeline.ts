/**
 * Requests of several statements each that cost one round trip: prepared queries, and writes with their rows.
 *
 * A query of pg takes a packet of its own in each direction. Most statements cost worker and store less than
 * the packet.
 */
import { type Connection, Query } from 'pg';
import { prepareValue } from 'pg/lib/utils';
import { CopyRows } from './binary-format';
import { StoreError } from './errors';

declare module 'pg' {
  interface Connection {
    /** Texts of the prepared statements, by name. */
    readonly parsedStatements: Record<string, string>;
    /** Texts of the statements that are being prepared, by name. */
    readonly submittedNamedStatements: Record<string, string>;
  }
}

export type Row = readonly (string | null)[];

/** The longest time that a timer takes. */
const NEVER_MS = 2 ** 31 - 1;

/** A request of several statements. It extends pg's Query: a pipelining client accepts nothing else. */
abstract class PipelineRequest extends Query {
  /**
   * Switches off pg's deadline, which covers the whole request. Ours covers each statement, from the answer
   * before it.
   */
  readonly query_timeout = NEVER_MS;
  /** pg wraps the callback to learn when the query is over. */
  callback: () => void = () => {};
  /** The number of statements that are answered. */
  protected done = 0;
  protected isOver = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly deadlineMs: number) {
    super('');
  }

  abstract handleError(error: unknown, connection?: Connection): void;

  /** Starts the deadline of the next statement. */
  protected wait(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(
      () => this.handleError(new Error(`no answer within ${this.deadlineMs} ms`)),
      this.deadlineMs,
    );
  }

  protected end(): void {
    clearTimeout(this.timer);
    if (this.isOver) return;
    this.isOver = true;
    this.callback();
  }
}

interface Client {
  query(request: PipelineRequest): PipelineRequest;
}

// --- prepared queries

/** A query whose statement is prepared once for each connection, by its name. */
export interface PipelinedQuery {
  readonly name: string;
  readonly text: string;
  /** From `parametersOf`. */
  readonly parameters: Parameter[];
  /** Receives all rows, as arrays of text or null. */
  readonly resolve: (rows: Row[]) => void;
  /**
   * Receives a StoreError with the name of the failed statement. The statements behind it did not run, and
   * receive the same error.
   */
  readonly reject: (error: StoreError) => void;
}

type Parameter = Buffer | string | null;

/** The values in the form that is sent. @throws where a value has no such form */
export function parametersOf(values: readonly unknown[]): Parameter[] {
  return values.map((value) => prepareValue(value));
}

/** Sends the queries in one request. @param deadlineMs see PipelineRequest */
export function sendQueries(client: Client, queries: readonly PipelinedQuery[], deadlineMs: number): void {
  client.query(new QueriesRequest(queries, deadlineMs));
}

/**
 * Sends all queries with one Sync. Unless a statement fails, Postgres holds back its answers until the Sync,
 * so all statements share the deadline.
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
 */
class QueriesRequest extends PipelineRequest {
  declare name: string | undefined;
  declare text: string;
  private readonly parsedHere = new Set<PipelinedQuery>();
  private answer: Row[] = [];

  constructor(
    private readonly queries: readonly PipelinedQuery[],
    deadlineMs: number,
  ) {
    super(deadlineMs);
  }

  /** @returns the error that prevents sending */
  override submit = (connection: Connection): Error | undefined => {
    const { parsedStatements: parsed, submittedNamedStatements: submitted } = connection;
    const textOf = (name: string) => parsed[name] ?? submitted[name];
    const mistaken = this.queries.find(({ name, text }) => (textOf(name) ?? text) !== text);
    if (mistaken !== undefined) return new Error(`another statement has the name ${mistaken.name}`);
    for (const each of this.queries) {
      const { name, text, parameters } = each;
      if (textOf(name) === undefined) {
        submitted[name] = text;
        this.parsedHere.add(each);
        connection.parse({ name, text, types: [] }, true);
      }
      connection.bind({ statement: name, values: parameters }, true);
      connection.execute({}, true);
    }
    connection.sync();
    this.next();
    return undefined;
  };

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    this.answer.push(fields);
  }

  handleCommandComplete(): void {
    if (this.isOver) return;
    const { answer } = this;
    this.answer = [];
    this.queries[this.done++]?.resolve(answer);
    this.next();
  }

  handleReadyForQuery(): void {
    this.end();
  }

  handleError(error: unknown, connection?: Connection): void {
    if (this.isOver) return;
    const unanswered = this.queries.slice(this.done);
    for (const each of unanswered)
      if (this.parsedHere.has(each)) delete connection?.submittedNamedStatements[each.name];
    const failure = new StoreError(unanswered[0]?.name ?? 'sync', error);
    this.end();
    for (const { reject } of unanswered) reject(failure);
  }

  /**
   * Waits for the next statement's answer. pg identifies the parsed statement by the name and text of the
   * query.
   */
  private next(): void {
    const next = this.queries[this.done];
    const isParsed = next !== undefined && this.parsedHere.has(next);
    this.name = isParsed ? next.name : undefined;
    this.text = isParsed ? next.text : '';
    this.wait();
  }
}

// --- writes, with their rows

/** A statement without parameters. */
export interface Write {
  /** Named in errors. */
  readonly name: string;
  readonly text: string;
  /** The rows that a COPY reads. Do not use them afterwards. */
  readonly rows?: CopyRows;
}

/**
 * Postgres 17 and newer notes each of the first 1,000 rows of a COPY, at a cost that grows by their square. A
 * batch of a worker that keeps up has some hundred rows, and writes them faster by several COPYs. A large
 * batch has one COPY: the cost grows no further, and each COPY has costs of its own.
 */
const ROWS_OF_A_COPY = 250;
const ROWS_OF_A_LARGE_BATCH = 1_500;

/**
 * The rows of one table, in the COPYs that Postgres runs most cheaply.
 *
 * @param writeRow writes the row of an item
 * @returns the statement with all rows, once or more often
 */
export function copies<T>(
  statement: Omit<Write, 'rows'>,
  items: readonly T[],
  writeRow: (rows: CopyRows, item: T) => void,
): Write[] {
  const size = items.length < ROWS_OF_A_LARGE_BATCH ? ROWS_OF_A_COPY : items.length;
  const writes: Write[] = [];
  for (let from = 0; from < items.length; from += size) {
    const rows = new CopyRows();
    for (const item of items.slice(from, from + size)) writeRow(rows, item);
    writes.push({ ...statement, rows });
  }
  return writes;
}

/**
 * Runs writes in their order.
 *
 * @param deadlineMs see PipelineRequest
 * @throws StoreError with the name of the failed write; the writes behind it did not run
 */
export function runWrites(client: Client, writes: readonly Write[], deadlineMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = (error: StoreError | null) => (error === null ? resolve() : reject(error));
    client.query(new WritesRequest(writes, deadlineMs, ended));
  });
}

/**
 * Sends all rows with the statements. Postgres reads rows when it reaches their statement, and skips rows
 * whose statement it never reaches. https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY
 */
class WritesRequest extends PipelineRequest {
  constructor(
    private readonly writes: readonly Write[],
    deadlineMs: number,
    private readonly ended: (error: StoreError | null) => void,
  ) {
    super(deadlineMs);
  }

  override submit = (connection: Connection): void => {
    connection.query(this.writes.map(({ text }) => text).join(';\n'));
    for (const { rows } of this.writes) if (rows !== undefined) connection.stream.write(rows.end());
    this.wait();
  };

  handleCopyInResponse(): void {
    // The rows are already sent.
  }

  handleRowDescription(): void {
    // The result of a write is not read.
  }

  handleDataRow(): void {
    // The same.
  }

  handleCommandComplete(): void {
    this.done++;
    if (!this.isOver) this.wait();
  }

  handleReadyForQuery(): void {
    if (this.isOver) return;
    // Recycle only here: after a failure, the connection may still be sending the rows.
    for (const { rows } of this.writes) rows?.recycle();
    this.end();
    this.ended(null);
  }

  handleError(error: unknown): void {
    if (this.isOver) return;
    this.end();
    this.ended(new StoreError(this.writes[this.done]?.name ?? 'commit', error));
  }
}

/**
 * Requests to Postgres of several statements each, which cost one round trip together: prepared statements that are asked, and writes with the
 * rows that they read. A query of pg's has a packet each way of its own, for which worker and store both pay more than for most statements.
 */
import { type Connection, Query } from 'pg';
import { prepareValue } from 'pg/lib/utils';
import type { CopyRows } from './binary-format';
import { StoreError } from './errors';

declare module 'pg' {
  interface Connection {
    /** Texts of the statements that are prepared, by name. */
    readonly parsedStatements: Record<string, string>;
    /** The same of those that are being prepared. */
    readonly submittedNamedStatements: Record<string, string>;
  }
}

export type Row = readonly (string | null)[];

/** Longest time of a timer. */
const NEVER_MS = 2 ** 31 - 1;

/** Extends pg's Query, since a client that pipelines takes nothing else. */
abstract class Request extends Query {
  /** pg's own deadline counts for the whole; ours is each statement's: how long after the one before it is answered. */
  readonly query_timeout = NEVER_MS;
  /** pg wraps it to know when the query is over. */
  callback: () => void = () => {};
  /** Statements that are answered. */
  protected done = 0;
  protected isOver = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly deadlineMs: number) {
    super('');
  }

  abstract handleError(error: unknown, connection?: Connection): void;

  /** Waits for the answer to a statement. */
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
  query(request: Request): Request;
}

// --- prepared statements, asked

/** A statement that is asked: prepared once for each connection, by its name. */
export interface Asked {
  readonly name: string;
  readonly text: string;
  /** By `parametersOf`. */
  readonly parameters: Parameter[];
  /** Given all rows, as arrays of text or null. */
  readonly resolve: (rows: Row[]) => void;
  /** Given a StoreError with the name of the statement that failed; those behind it did not run, and are given the same. */
  readonly reject: (error: StoreError) => void;
}

type Parameter = Buffer | string | null;

/** The values as they are sent. @throws where one of them cannot be */
export function parametersOf(values: readonly unknown[]): Parameter[] {
  return values.map((value) => prepareValue(value));
}

/** Sends the statements. @param deadlineMs see Request */
export function ask(client: Client, asked: readonly Asked[], deadlineMs: number): void {
  client.query(new Asking(asked, deadlineMs));
}

/**
 * Up to one Sync, which Postgres keeps its answers for, unless a statement fails: the deadline is that of all of them together.
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
 */
class Asking extends Request {
  declare name: string | undefined;
  declare text: string;
  private readonly parsedHere = new Set<Asked>();
  private answer: Row[] = [];

  constructor(
    private readonly asked: readonly Asked[],
    deadlineMs: number,
  ) {
    super(deadlineMs);
  }

  /** @returns what keeps it from being sent */
  override submit = (connection: Connection): Error | undefined => {
    const { parsedStatements: parsed, submittedNamedStatements: submitted } = connection;
    const textOf = (name: string) => parsed[name] ?? submitted[name];
    const mistaken = this.asked.find(({ name, text }) => (textOf(name) ?? text) !== text);
    if (mistaken !== undefined) return new Error(`another statement has the name ${mistaken.name}`);
    for (const each of this.asked) {
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
    this.asked[this.done++]?.resolve(answer);
    this.next();
  }

  handleReadyForQuery(): void {
    this.end();
  }

  handleError(error: unknown, connection?: Connection): void {
    if (this.isOver) return;
    const unanswered = this.asked.slice(this.done);
    for (const each of unanswered)
      if (this.parsedHere.has(each)) delete connection?.submittedNamedStatements[each.name];
    const failure = new StoreError(unanswered[0]?.name ?? 'sync', error);
    this.end();
    for (const { reject } of unanswered) reject(failure);
  }

  /** Waits for the next statement's answer. pg knows by the name and text of a query what it is that was parsed. */
  private next(): void {
    const next = this.asked[this.done];
    const isParsed = next !== undefined && this.parsedHere.has(next);
    this.name = isParsed ? next.name : undefined;
    this.text = isParsed ? next.text : '';
    this.wait();
  }
}

// --- writes, with their rows

/** A statement without parameters. */
export interface Write {
  /** For errors. */
  readonly name: string;
  readonly text: string;
  /** What a COPY reads; not to be used afterwards. */
  readonly rows?: CopyRows;
}

/**
 * Runs writes in their order.
 *
 * @param deadlineMs see Request
 * @throws StoreError with the name of the one that failed; those behind it did not run
 */
export function runWrites(client: Client, writes: readonly Write[], deadlineMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = (error: StoreError | null) => (error === null ? resolve() : reject(error));
    client.query(new Writing(writes, deadlineMs, ended));
  });
}

/**
 * All rows are sent with the statements: Postgres reads them when it gets to their statement, and passes over those whose statement it never
 * gets to. https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY
 */
class Writing extends Request {
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
    if (!this.isOver) this.wait();
  }

  handleReadyForQuery(): void {
    if (this.isOver) return;
    // Where it failed, the connection may still be sending them.
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

/**
 * Prepared statements that are sent in one packet and answered in one. A query of pg's has a packet each way of its own, for which worker and
 * store both pay more than for most statements.
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
 */
import { type Connection, Query } from 'pg';
import { prepareValue } from 'pg/lib/utils';
import { StoreError } from './failures';
import { NEVER_MS } from './writing';

declare module 'pg' {
  interface Connection {
    /** Texts of the statements that are prepared, by name. */
    readonly parsedStatements: Record<string, string>;
    /** The same of those that are being prepared. */
    readonly submittedNamedStatements: Record<string, string>;
  }
}

export type Row = readonly (string | null)[];

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

/** Sends the statements. @param deadlineMs for each of them: how long after the one before it is answered */
export function ask(
  client: { query(asking: Asking): Asking },
  asked: readonly Asked[],
  deadlineMs: number,
): void {
  client.query(new Asking(asked, deadlineMs));
}

/** A query of another kind: a client that pipelines takes none but its own and what extends them. */
class Asking extends Query {
  /** pg's own deadline counts for the whole; ours is each statement's. */
  readonly query_timeout = NEVER_MS;
  declare name: string | undefined;
  declare text: string;
  /** pg wraps it to know when the query is over. */
  callback: () => void = () => {};
  private readonly parsedHere = new Set<Asked>();
  private answer: Row[] = [];
  private done = 0;
  private over = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly asked: readonly Asked[],
    private readonly deadlineMs: number,
  ) {
    super('');
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
    if (this.over) return;
    const { answer } = this;
    this.answer = [];
    this.asked[this.done++]?.resolve(answer);
    this.next();
  }

  handleReadyForQuery(): void {
    this.end();
  }

  handleError(error: unknown, connection?: Connection): void {
    if (this.over) return;
    const unanswered = this.asked.slice(this.done);
    if (connection !== undefined) {
      for (const each of unanswered)
        if (this.parsedHere.has(each)) delete connection.submittedNamedStatements[each.name];
    }
    const failure = new StoreError(unanswered[0]?.name ?? 'sync', error);
    this.end();
    for (const { reject } of unanswered) reject(failure);
  }

  /** Waits for the next statement's answer. pg knows by the name and text of a query what it is that was parsed. */
  private next(): void {
    clearTimeout(this.timer);
    const next = this.asked[this.done];
    const isParsed = next !== undefined && this.parsedHere.has(next);
    this.name = isParsed ? next.name : undefined;
    this.text = isParsed ? next.text : '';
    if (next === undefined) return;
    this.timer = setTimeout(
      () => this.handleError(new Error(`no answer within ${this.deadlineMs} ms`)),
      this.deadlineMs,
    );
  }

  private end(): void {
    clearTimeout(this.timer);
    if (this.over) return;
    this.over = true;
    this.callback();
  }
}

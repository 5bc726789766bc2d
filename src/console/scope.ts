/**
 * The scope of an operator, and the only form of a query. A query reads named sources, and each source is
 * limited to the operator of the scope: its text never names a view itself. Pure.
 */
import { quoteLiteral } from '../postgres/literal';

/** The operator whose data a request may see. tokens.ts makes it, from a token or a session. */
export class OperatorScope {
  /** Keeps an object that only looks like a scope from being one. */
  readonly #isScope = true;
  constructor(readonly operator: string) {}
  static is(value: object): boolean {
    return #isScope in value;
  }
}

interface Source {
  /** A view with a column operator_id, or a function whose first argument is the operator. */
  readonly view: string;
  /** The parameters of the query that are the further arguments of a function. */
  readonly takes?: readonly string[];
  /** The columns that the console reads. None names a player. */
  readonly columns: string;
  /**
   * Columns with an id of any length. They are read as promo.stored_id returns them. Otherwise one operator
   * with long ids could use up the memory of the console.
   */
  readonly long?: readonly string[];
}

const SOURCES = {
  verdicts: {
    view: 'promo.verdicts',
    columns:
      'feed_id event_id verdict reason connection_id brand kind round_id game_id amount currency occurred_at decided_at counted counts_now verdict_id reference_version source_topic source_partition source_offset',
    long: ['event_id', 'brand', 'game_id'],
  },
  deliveries: {
    view: 'promo.deliveries',
    columns:
      'feed_id event_id connection_id received_at content_differs first_verdict first_reason source_topic source_partition source_offset',
  },
  faults: { view: 'promo.faults', columns: 'verdict_id place reason field decided_at' },
  keys: { view: 'promo.events', columns: 'feed_id event_key verdict reason verdict_id' },
  rounds: {
    view: 'promo.rounds',
    columns:
      'feed_id round_id refunded refunded_by refunded_at settled brand currency counted_bet counted_win counted_settled below_min_bet opened_at',
    long: ['refunded_by'],
  },
  entries: {
    view: 'promo.ledger',
    columns:
      'feed_id event_id round_id brand kind currency amount reverses_entry_id entry_id entered_at verdict_id',
  },
  registered: { view: 'promo.connections', columns: 'connection_id transport topic feed_id is_test' },
  anomalies: { view: 'promo.anomalies', columns: 'feed_id round_id anomaly opened_at' },
  promotions: {
    view: 'promo.promotions',
    columns: 'promotion_id type version state window_key window_starts_at window_ends_at',
  },
  progress: {
    view: 'promo_reader.promotion_progress',
    columns:
      'promotion_id version window_key starts_at ends_at player_id item currency value target share completions points changed_at',
  },
  completions: { view: 'promo.completions', columns: 'promotion_id change changed_at holds' },
  misses: {
    view: 'promo.promotion_misses',
    takes: ['promotion', 'since', 'until'],
    columns: 'feed_id event_id decided_at reason',
  },
  story: {
    view: 'promo.explain_progress',
    takes: ['promotion', 'player'],
    columns: 'step happened_at what_happened why what_next',
    long: ['what_happened'],
  },
} as const satisfies Readonly<Record<string, Source>>;
export type SourceName = keyof typeof SOURCES;

/** The rows of a view that belong to the operator. Every read of the store passes here. */
function sourceFor(text: string, name: SourceName): string {
  const { view, takes, columns, long = [] }: Source = SOURCES[name];
  const used = columns.split(' ').filter((column) => new RegExp(`\\b${column}\\b`).test(text));
  const rows =
    takes === undefined
      ? `${view} where operator_id = $1`
      : `${view}(${['$1', ...takes.map((each) => `:${each}`)].join(', ')})`;
  const read = used.map((column) =>
    long.includes(column) ? `promo.stored_id(${column}) as ${column}` : column,
  );
  return `${name} as not materialized (\n  select ${read.join(', ')}\n  from ${rows}\n)`;
}

/** The functions of the store that a query may call. They read no table. */
const FUNCTIONS = ['promo.stored_id(', 'promo_store.id_key('];

/** The type of a parameter. A feed is written as the part of its name behind the operator's id. */
type ParameterType = 'text' | 'time' | 'interval' | 'feed';
const CASTS: Readonly<Record<ParameterType, string>> = {
  text: 'text',
  time: 'timestamptz',
  interval: 'interval',
  feed: 'text',
};

type Parameters = Readonly<Record<string, ParameterType>>;

export interface Query<P extends Parameters = Parameters, C extends string = string> {
  readonly title: string;
  readonly columns: readonly C[];
  readonly params: P;
  /** The most rows. One more is read, to notice that there are more. */
  readonly limit: number;
  /** Numbered parameters: the operator is $1, and the others follow in the order of `params`. */
  readonly text: string;
}

interface Definition<P, C> {
  readonly title: string;
  readonly from: readonly [SourceName, ...SourceName[]];
  readonly params: P;
  readonly columns: readonly C[];
  readonly limit: number;
  /**
   * Reads the sources by their names, and parameters as :name. It begins with `from` where the columns are
   * those of a source.
   */
  readonly text: string;
}

export type Values<P extends Parameters> = { readonly [K in keyof P]: string };
export type Columns<C extends string> = { readonly [K in C]: string | null };

const PARAMETER = /(?<!:):([a-z_]+)\b/g;

/** @throws where the text names a view or a table itself, or a parameter that is not declared */
export function defineQuery<const P extends Parameters, const C extends string>(
  definition: Definition<P, C>,
): Query<P, C> {
  const { title, from, params, columns, limit } = definition;
  const given = definition.text.trim();
  const text = given.startsWith('from') ? `select ${columns.join(', ')}\n${given}` : given;
  const names = Object.keys(params);
  if (params.feed !== undefined && params.feed !== 'feed')
    throw new Error(`the query "${title}" reads a feed that may be of another operator`);
  const withoutFunctions = FUNCTIONS.reduce((left, each) => left.replaceAll(each, ''), text);
  if (/\bpromo(_\w+)?"?\s*\.|\bpg_|information_schema|\$\d|;/i.test(withoutFunctions))
    throw new Error(`the query "${title}" reads more than its sources`);
  const sources = from.map((name) => sourceFor(text, name));
  const whole = `with ${sources.join(', ')}\n${text}\nlimit ${limit + 1}`;
  const numbered = whole.replace(PARAMETER, (_, name: string) => {
    const index = names.indexOf(name);
    const type = params[name];
    if (index < 0 || type === undefined) throw new Error(`the query "${title}" has no parameter "${name}"`);
    return `$${index + 2}::${CASTS[type]}`;
  });
  return { title, columns, params, limit, text: numbered };
}

/** The values of the numbered parameters. Each feed is one of the operator's own. */
export function boundValues<P extends Parameters>(
  { operator }: OperatorScope,
  { params }: Query<P>,
  values: Values<P>,
): string[] {
  const read = (name: keyof P & string) => {
    const value = values[name];
    return params[name] === 'feed' ? feedOf(operator, value) : value;
  };
  return [operator, ...Object.keys(params).map(read)];
}

/** Feeds have the operator's id in front, and neither id has a slash (docs/rules.md, C3). */
function feedOf(operator: string, feed: string): string {
  return feed === '' ? operator : `${operator}/${feed}`;
}

/** The part of the feed's name that is not the operator's id. */
export function ownNameOf({ operator }: OperatorScope, feedId: string): string {
  return feedId.startsWith(`${operator}/`) ? feedId.slice(operator.length + 1) : '';
}

/** The query with its values, to paste into psql. */
export function asPasted(text: string, values: readonly string[]): string {
  return `${text.replace(/\$(\d+)/g, (_, number: string) => quoteLiteral(values[Number(number) - 1] ?? ''))};`;
}

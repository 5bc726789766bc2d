/**
 * The tables that hold rows of one operator, and how a row reads in the store that receives it. Names keep
 * their meaning between stores and numbers do not, so each number is replaced by that of the other store.
 */

/** Numbers of the leaving store, each with the number that the receiving store uses instead. */
export interface NumberMaps {
  readonly feeds: readonly NumberPair[];
  readonly connections: readonly NumberPair[];
  readonly brands: readonly NumberPair[];
  readonly partitions: readonly NumberPair[];
  /** Numbers of months in tags: see `domain/event/player-tag.ts`. */
  readonly months: readonly NumberPair[];
}

export type NumberPair = readonly [from: number, to: number];

/** A part of a table that is copied in one transaction, or in ranges of its key. */
export interface CopyStep {
  /** Identifies the step in `promo_store.move_steps`. */
  readonly name: string;
  readonly table: string;
  /** Columns in the receiving store. */
  readonly columns: readonly string[];
  /** Selects these columns in the leaving store, with the numbers of the receiving one. */
  readonly source: string;
  /** Selects the same rows in the receiving store. */
  readonly target: string;
  /** The column by which the rows are sent; absent where their order does not matter. */
  readonly order?: string;
  /** The column whose ranges are copied one by one; absent where the step is small enough to be repeated. */
  readonly key?: { readonly column: string; readonly feedNo: number };
}

export interface MonthTable {
  readonly parent: string;
  /** First day of the month, as 2026-11-01. */
  readonly month: string;
}

/** The numbers by which one of the stores has the operator. */
export interface OwnNumbers {
  readonly feeds: readonly number[];
  readonly partitions: readonly number[];
}

export function newNumbersOf({ feeds, partitions }: NumberMaps): OwnNumbers {
  return { feeds: feeds.map(([, no]) => no), partitions: partitions.map(([, no]) => no) };
}

/** Selects rows of the operator in a store. */
type Condition = (own: OwnNumbers) => string;

/** All steps of a move, in the order in which they run. */
export function copySteps(maps: NumberMaps, months: readonly MonthTable[]): CopyStep[] {
  const translate = translations(maps);
  const old: OwnNumbers = {
    feeds: maps.feeds.map(([no]) => no),
    partitions: maps.partitions.map(([no]) => no),
  };
  const stepOf = (name: string, table: string, columns: Columns, condition: Condition): CopyStep => {
    const names = Object.keys(columns);
    const read = Object.entries(columns).map(([column, translation]) =>
      translation === null ? column : `${translate[translation]} as ${column}`,
    );
    return {
      name,
      table,
      columns: names,
      source: `select ${read.join(', ')} from promo_store.${table} where ${condition(old)}`,
      target: `select ${names.join(', ')} from promo_store.${table} where ${condition(newNumbersOf(maps))}`,
    };
  };
  const byFeed = (table: string, key: string, columns: Columns): CopyStep[] =>
    maps.feeds.map(([feedNo, newFeedNo], index) => ({
      ...stepOf(`${table} ${newFeedNo}`, table, columns, ({ feeds }) => `feed_no = ${feeds[index]}`),
      key: { column: key, feedNo },
    }));
  const byMonth = (table: string, time: string, columns: Columns, condition = ofFeeds): CopyStep[] =>
    months
      .filter(({ parent }) => parent === table)
      .map(({ month }) => {
        const range = `${time} >= '${month}' and ${time} < date '${month}' + interval '1 month'`;
        return stepOf(`${table} ${month}`, table, columns, (own) => `${condition(own)} and ${range}`);
      });
  return [
    ...byFeed('rounds', 'round_key', ROUNDS),
    ...byFeed('attributions', 'round_key', ATTRIBUTIONS),
    // People make corrections, so there are few. They refer to the attributions.
    stepOf('attribution_versions', 'attribution_versions', ATTRIBUTION_VERSIONS, ofFeeds),
    ...byFeed('erased_rounds', 'round_key', ERASED_ROUNDS),
    ...byFeed('event_keys', 'event_key', EVENT_KEYS),
    // History finds a verdict_id by ranges of blocks: rows in another order would be in many ranges.
    ...byMonth('history', 'decided_at', HISTORY).map((step) => ({ ...step, order: 'verdict_id' })),
    ...byMonth('resends', 'received_at', RESENDS),
    ...byMonth('unstored', 'received_at', UNSTORED, ({ partitions }) => isIn('partition_no', partitions)),
    ...byMonth('faults', 'decided_at', FAULTS),
    stepOf('panics', 'panics', PANICS, ({ feeds }) => panicsOf(feeds)),
  ];
}

const ofFeeds: Condition = ({ feeds }) => isIn('feed_no', feeds);

function isIn(column: string, numbers: readonly number[]): string {
  return numbers.length === 0 ? 'false' : `${column} in (${numbers.join()})`;
}

/** Panics have no feed. Their verdicts do, and both rows have the time of one transaction. */
export function panicsOf(feeds: readonly number[]): string {
  return `exists (select from promo_store.history h where h.verdict_id = panics.verdict_id
    and h.decided_at between panics.decided_at - interval '1 hour' and panics.decided_at + interval '1 hour' and h.feed_no in (${feeds.join()}))`;
}

/** Columns with the expression that reads each; a column without one is copied as it is. */
type Columns = Readonly<Record<string, null | keyof Translations>>;

interface Translations {
  readonly feed: string;
  readonly connection: string;
  readonly brand: string;
  readonly partition: string;
  readonly content: string;
  readonly tag: string;
  readonly none: string;
}

const ROUNDS: Columns = {
  round_no: null,
  opened_at: null,
  refunded_at: null,
  player_hash: 'none',
  feed_no: 'feed',
  brand_no: 'brand',
  currency_no: null,
  settled: null,
  second_settled: null,
  player_mismatch: null,
  brand_mismatch: null,
  round_key: null,
  round_id: null,
  refunded_by: null,
  bet_minor: null,
  win_minor: null,
  settled_minor: null,
  below_min_bet_minor: null,
  other_sums: null,
  player_tag: 'tag',
};
const EVENT_KEYS: Columns = {
  verdict_id: null,
  content_hash: 'content',
  source_offset: null,
  feed_no: 'feed',
  partition_no: 'partition',
  outcome: null,
  event_key: null,
};
const HISTORY: Columns = {
  verdict_id: null,
  decided_at: null,
  occurred_at: null,
  amount_minor: null,
  round_no: null,
  source_offset: null,
  feed_no: 'feed',
  connection_no: 'connection',
  partition_no: 'partition',
  brand_no: 'brand',
  reference_version: null,
  outcome: null,
  kind: null,
  currency_no: null,
  counted: null,
  event_id: null,
  player_ref: null,
  game_id: null,
  unmapped_brand: null,
  source_delay: null,
};
const RESENDS: Columns = {
  received_at: null,
  source_offset: null,
  feed_no: 'feed',
  connection_no: 'connection',
  partition_no: 'partition',
  first_outcome: null,
  content_differs: null,
  event_id: null,
  batch_no: null,
};
const UNSTORED: Columns = {
  received_at: null,
  source_offset: null,
  value_hash: null,
  partition_no: 'partition',
  connection_no: 'connection',
  dead_letter: null,
};
const FAULTS: Columns = {
  decided_at: null,
  verdict_id: null,
  feed_no: 'feed',
  connection_no: 'connection',
  outcome: null,
  place: null,
  fault: null,
  event_id: null,
  field: null,
};
const ATTRIBUTIONS: Columns = {
  attributed_at: null,
  feed_no: 'feed',
  brand_no: 'brand',
  round_key: null,
  round_id: null,
  player_ref: null,
  attributed_by: null,
  corrections: null,
  change_no: null,
  change: null,
};
const ATTRIBUTION_VERSIONS: Columns = {
  change_no: null,
  feed_no: 'feed',
  brand_no: 'brand',
  change: null,
  attributed_at: null,
  round_key: null,
  player_ref: null,
  attributed_by: null,
};
const ERASED_ROUNDS: Columns = { feed_no: 'feed', round_key: null };
const PANICS: Columns = { verdict_id: null, decided_at: null, error: null, payload: null };

/** Expressions that read a column in the leaving store. */
function translations(maps: NumberMaps): Translations {
  // The bits of `domain/event/content-hash.ts`: a sign, 9 bits of month, 30 bits of hash, 24 bits of tag.
  const contentMonth = place(maps.months, '((content_hash >> 54) & 511)::int');
  return {
    feed: lookUp(maps.feeds, 'feed_no', 'feed'),
    connection: lookUp(maps.connections, 'connection_no', 'connection'),
    brand: lookUp(maps.brands, 'brand_no', 'brand'),
    partition: lookUp(maps.partitions, 'partition_no', 'partition'),
    // A hash from before tags has no key that retention could drop: it is forgotten. A tag whose key was
    // dropped is removed, as an erasure does: the other store may have a key of its own for that month.
    content: `case when content_hash >= 0 or content_hash = ${FORGOTTEN} then ${FORGOTTEN}
      when ${contentMonth} is null then content_hash & ~16777215::bigint
      else (content_hash & ~(511::bigint << 54)) | (${contentMonth}::bigint << 54) end`,
    tag: `(${place(maps.months, '(player_tag >> 44)::int')}::bigint << 44) | (player_tag & ((1::bigint << 44) - 1))`,
    none: 'null::bigint',
  };
}

const FORGOTTEN = "'-9223372036854775808'::bigint";

/** An expression that replaces a number; null for a number without a pair. */
function place(pairs: readonly NumberPair[], expression: string): string {
  const places: number[] = [];
  for (const [from, to] of pairs) places[from] = to;
  const list = Array.from(places, (to) => to ?? 'null').join();
  // Numbers may begin with 0, and arrays of Postgres begin with 1.
  return `('{${list}}'::int[])[${expression} + 1]`;
}

/** An expression that replaces a number. A number without a pair ends the statement with an error. */
function lookUp(pairs: readonly NumberPair[], column: string, noun: string): string {
  return `case when ${column} is null then null else coalesce(${place(pairs, column)}, ('no number for the ${noun} ' || ${column})::int) end`;
}

/**
 * The effect of each statement of the ledger on the model of the store, by its name. It reads the parameters
 * and rows that Postgres would get.
 */
import { type Execution, Row, StoreFailure } from './store-model';
import { copyTarget, readArray, readCopy, type Text, type Values } from './wire';

/** A statement as it arrives. */
export interface Request {
  readonly name: string;
  readonly text: string;
  readonly before17?: string;
  readonly values?: readonly unknown[];
  /** The messages that follow a COPY. */
  readonly rows?: Buffer;
}

/** @throws StoreFailure as the store would, Error for a statement that the model does not know */
export function run(on: Execution, request: Request): Promise<Text[][]> {
  const statement = STATEMENTS[request.name];
  if (statement === undefined) throw new Error(`the model knows no statement ${request.name}`);
  return statement(on, request);
}

type Statement = (on: Execution, request: Request) => Promise<Text[][]>;

const STATEMENTS: Readonly<Record<string, Statement>> = {
  settings: async () => [],

  async lock_partitions(on, { text, values = [] }) {
    const isLocking = /for update$/.test(text);
    const requested = readArray(values[0]).map(Number);
    // Without "order by", the store reads the index in any order.
    const numbers = /order by p\.partition_no for update$/.test(text)
      ? requested.toSorted((a, b) => a - b)
      : on.store.random.shuffled(requested);
    const found: Text[][] = [];
    for (const no of numbers) {
      const row = partitionByNo(on, no);
      if (row === undefined || on.seen(row) === undefined) continue;
      if (isLocking) await on.lock(row);
      const current = isLocking ? on.current(row) : on.seen(row);
      if (current === undefined) continue;
      const {
        topic = null,
        partition = null,
        cluster_id: cluster = null,
        next_offset: next = null,
      } = current;
      found.push([String(no), topic, partition, cluster, next, current.decided_up_to ?? next, inForce(on)]);
      await on.betweenRows();
    }
    return found;
  },

  async partition_no(on, { values = [] }) {
    const [topic = '', partition = '', cluster = ''] = values.map(String);
    const key = `${topic}/${partition}/${cluster}`;
    const before = on.store.partitions.get(key);
    const known = before && on.seen(before);
    let no: Text = null;
    const isOpened = await on.insert(on.store.partitions, key, 'partitions', () => {
      no = String(on.store.nextPartitionNo++);
      return { ...NO_COUNTS, partition_no: no, topic, partition, cluster_id: cluster };
    });
    if (isOpened) return [[no]];
    return known === undefined ? [] : [[known.partition_no ?? null]];
  },

  async decided_up_to(on, { values = [] }) {
    const [topics = [], partitions = [], clusters = []] = values.map(readArray);
    return topics.map((topic, index) => {
      const row = on.store.partitions.get(`${topic}/${partitions[index]}/${clusters[index]}`);
      const seen = row && on.seen(row);
      return [seen?.decided_up_to ?? seen?.next_offset ?? '0'];
    });
  },

  reference_in_force: async (on) => [[inForce(on)]],
  async reference_current(on) {
    const version = versionSeen(on);
    const reference = on.store.references[version - 1];
    return reference === undefined ? [] : [[String(version), reference.appliedAt, reference.document]];
  },
  reference_numbers: async (on) => on.store.numbers.map((row) => [...row]),

  async lock_feeds(on, { values = [] }) {
    for (const feed of readArray(values[0]).toSorted((a, b) => Number(a) - Number(b))) {
      const key = String(feed);
      const row = on.store.feeds.get(key) ?? new Row();
      on.store.feeds.set(key, row);
      await on.lock(row);
      await on.betweenRows();
    }
    return [];
  },

  async find_events(on, { values = [] }) {
    return readArray(values[1]).flatMap((key) => {
      const row = on.store.eventKeys.get(`${values[0]}/${key}`);
      const seen = row && on.seen(row);
      return seen === undefined
        ? []
        : [
            columnsOf(seen, [
              'event_key',
              'outcome',
              'content_hash',
              'partition_no',
              'source_offset',
              'verdict_id',
            ]),
          ];
    });
  },
  find_resends: async (on, { values = [] }) =>
    inRange(on, 'resends', values, [
      'source_offset',
      'feed_no',
      'event_id',
      'content_differs',
      'received_at',
    ]),
  find_unstored: async (on, { values = [] }) =>
    inRange(on, 'unstored', values, ['source_offset', 'value_hash', 'received_at']),

  find_times: async (on, { values = [] }) => {
    const wanted = new Set(readArray(values[0]));
    return on.store.appended.history
      .filter(({ since, values }) => since <= on.snapshot && wanted.has(values.verdict_id ?? null))
      .map(({ values }) => columnsOf(values, ['verdict_id', 'decided_at']));
  },
  async find_refunds(on, { values = [] }) {
    const refunds = readArray(values[2]);
    return readArray(values[1]).flatMap((key, index) => {
      const row = on.store.rounds.get(`${values[0]}/${key}`);
      const seen = row && on.seen(row);
      return seen?.refunded_by != null && seen.refunded_by === refunds[index] ? [[String(index + 1)]] : [];
    });
  },

  async lock_rounds(on, { text, before17 = text, values = [] }) {
    const keys = readArray(values[1]).map(String);
    // Without "order by", in either text, the store reads the index in any order.
    if ([text, before17].every((one) => LOCK_IN_ORDER.test(one))) keys.sort();
    else keys.splice(0, keys.length, ...on.store.random.shuffled(keys));
    const wanted = keys.flatMap((key) => {
      const row = on.store.rounds.get(`${values[0]}/${key}`);
      return row !== undefined && on.seen(row) !== undefined ? [row] : [];
    });
    const found: Text[][] = [];
    for (const row of wanted) {
      if ([text, before17].every((one) => LOCK.test(one))) await on.lock(row);
      const current = on.current(row);
      if (current !== undefined)
        found.push(
          columnsOf({ ...current, refunded: current.refunded_by == null ? 'f' : 't' }, ROUND_COLUMNS),
        );
      await on.betweenRows();
    }
    return found;
  },

  async read_rounds(on, { values = [] }) {
    return readArray(values[1]).flatMap((key) => {
      const row = on.store.rounds.get(`${values[0]}/${key}`);
      const seen = row && on.seen(row);
      return seen === undefined
        ? []
        : [columnsOf({ ...seen, refunded: seen.refunded_by == null ? 'f' : 't' }, ROUND_COLUMNS)];
    });
  },
  player_keys: async (on) => on.store.playerKeys(),

  async next_batch(on) {
    return [[String(on.store.nextBatchNo++), String(on.store.nowMicros())]];
  },

  async update_rounds(on, { values = [] }) {
    const keys = readArray(values[1]);
    const columns = values.slice(2, 2 + UPDATED_COLUMNS.length).map(readArray);
    for (const [index, key] of keys.entries()) {
      const row = on.store.rounds.get(`${values[0]}/${key}`);
      if (row === undefined) continue;
      await on.lock(row);
      const before = on.current(row);
      const change: Record<string, Text> = {};
      for (const [column, name] of UPDATED_COLUMNS.entries()) change[name] = columns[column]?.[index] ?? null;
      const isRefund = change.refunded_by !== null;
      on.change(row, 'rounds', {
        ...before,
        ...change,
        refunded_by: before?.refunded_by ?? change.refunded_by ?? null,
        refunded_at: before?.refunded_at ?? (isRefund ? String(values[2 + UPDATED_COLUMNS.length]) : null),
      });
      await on.betweenRows();
    }
    return [];
  },

  async record_panic(on, { values = [] }) {
    on.append('panics', { verdict_id: String(values[0]), error: String(values[1]) });
    return [];
  },

  copy_keys: (on, request) =>
    copyUnique(
      on,
      request,
      on.store.eventKeys,
      'event_keys',
      ({ feed_no, event_key }) => `${feed_no}/${event_key}`,
    ),
  copy_rounds: (on, request) =>
    copyUnique(on, request, on.store.rounds, 'rounds', ({ feed_no, round_key }) => `${feed_no}/${round_key}`),
  async copy_history(on, request) {
    for (const values of rowsOf(request)) {
      if (on.store.refuses(values)) throw new StoreFailure('P0001', 'poisoned');
      on.append('history', values);
    }
    return [];
  },
  async copy_resends(on, request) {
    for (const values of rowsOf(request)) on.append('resends', values);
    return [];
  },
  async copy_unstored(on, request) {
    for (const values of rowsOf(request)) on.append('unstored', values);
    return [];
  },
  async copy_faults(on, request) {
    for (const values of rowsOf(request)) on.append('faults', values);
    return [];
  },

  async count_partitions(on, { text, values = [] }) {
    const form =
      /set next_offset = c\.next_offset, decided_up_to = nullif\(c\.decided_up_to, c\.next_offset\),/;
    if (!form.test(text)) throw new Error(`unknown form of the statement: ${text}`);
    const columns = /c \((?<names>[^)]*)\)/.exec(text)?.groups?.names?.split(', ') ?? [];
    const given = new Map(columns.map((name, place) => [name, readArray(values[place])]));
    for (const [index, no] of (given.get('partition_no') ?? []).entries()) {
      const row = partitionByNo(on, Number(no));
      if (row === undefined) continue;
      await on.lock(row);
      const value = (column: string) => Number(given.get(column)?.[index]);
      const before: Values = on.current(row) ?? {};
      const after: Record<string, Text> = { ...before, next_offset: String(value('next_offset')) };
      const decided = value('decided_up_to');
      after.decided_up_to = decided === value('next_offset') ? null : String(decided);
      for (const [, column = ''] of text.matchAll(/(\w+) = p\.\1 \+ c\.\1/g))
        after[column] = String(Number(before[column]) + value(column));
      on.change(row, 'partitions', after);
      await on.betweenRows();
    }
    return [];
  },
};

/** Either rows in order, or keys in order with a row for each. */
const LOCK_IN_ORDER =
  /order by round_key\s+for update$|^select r\.\* from \(select key from unnest\(\$2::bytea\[\]\) key order by key\) k\s+cross join lateral/;
const LOCK = /for update(\) r)?$/;

const NO_COUNTS: Values = Object.fromEntries(
  'next_offset records_read accepted rejected skipped duplicates redeliveries dead_letters without_key'
    .split(' ')
    .map((name) => [name, '0']),
);

const ROUND_COLUMNS =
  'round_key round_no refunded settled second_settled player_mismatch brand_mismatch player_hash brand_no currency_no bet_minor win_minor settled_minor below_min_bet_minor other_sums player_tag'.split(
    ' ',
  );
const UPDATED_COLUMNS =
  'refunded_by settled second_settled player_mismatch brand_mismatch player_hash brand_no currency_no bet_minor win_minor settled_minor below_min_bet_minor other_sums player_tag'.split(
    ' ',
  );

function versionSeen({ store, snapshot }: Execution): number {
  let version = store.references.length;
  while (version > 0 && (store.references[version - 1]?.since ?? 0) > snapshot) version--;
  return version;
}

/** Version and time of the reference data that a statement sees. */
function inForce(on: Execution): Text {
  const version = versionSeen(on);
  const reference = on.store.references[version - 1];
  return reference === undefined ? null : `${version} ${reference.appliedAt}`;
}

function partitionByNo(on: Execution, no: number): Row | undefined {
  for (const row of on.store.partitions.values()) {
    if (on.seen(row)?.partition_no === String(no)) return row;
  }
  return undefined;
}

function inRange(
  on: Execution,
  table: 'resends' | 'unstored',
  [partitionNo, first, last]: readonly unknown[],
  columns: readonly string[],
): Text[][] {
  return on.store.appended[table]
    .filter(
      ({ since, values }) =>
        since <= on.snapshot &&
        values.partition_no === String(partitionNo) &&
        Number(values.source_offset) >= Number(first) &&
        Number(values.source_offset) <= Number(last),
    )
    .map(({ values }) => columnsOf(values, columns));
}

async function copyUnique(
  on: Execution,
  request: Request,
  rows: Map<string, Row>,
  table: 'event_keys' | 'rounds',
  keyOf: (values: Values) => string,
): Promise<Text[][]> {
  for (const values of rowsOf(request)) {
    if (!(await on.insert(rows, keyOf(values), table, () => values))) {
      const constraint = `${table}_pkey`;
      throw new StoreFailure(
        '23505',
        `duplicate key value violates unique constraint "${constraint}"`,
        constraint,
      );
    }
    await on.betweenRows();
  }
  return [];
}

function rowsOf({ text, rows }: Request): Values[] {
  if (rows === undefined) throw new Error('a COPY without rows');
  return readCopy(rows, copyTarget(text).columns);
}

function columnsOf(values: Values, columns: readonly string[]): Text[] {
  return columns.map((column) => values[column] ?? null);
}

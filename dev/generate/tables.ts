/**
 * docs/tables.md: the content of a freshly migrated database, by its own catalog and comments. It shows
 * analysts the views, and reviewers of a migration every change.
 */
import { Client } from 'pg';
import { code, document, generatedFrom, paragraph, table } from './markdown';
import { VIEW_QUERIES } from './table-queries';

const CONNECT_TIMEOUT_MS = 5_000;
const QUERY_TIMEOUT_MS = 10_000;
const ABSENT = '-';

/** @param databaseUrl of a database with all migrations and nothing else */
export async function renderTables(databaseUrl: string, command: string): Promise<string> {
  const client = new Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  await client.connect();
  try {
    // Names within promo_store are then written with their schema, as queries have to write them.
    await client.query("set search_path = ''");
    const views = await readRelations(client, 'promo', ['v']);
    const tables = await readRelations(client, 'promo_store', ['r', 'p']);
    const columns = groupByFirst(await rowsOf(client, COLUMNS));
    const constraints = groupByFirst(await rowsOf(client, CONSTRAINTS));
    const indexes = groupByFirst(await rowsOf(client, INDEXES));
    const readers = await rowsOf(client, OTHERS, ['promo']);
    const others = await rowsOf(client, OTHERS, ['promo_store']);
    return document([
      generatedFrom('the comments in migrations/', command),
      '# Tables',
      paragraph(
        'The schema `promo` is for reading: views with names and texts, whose columns stay. The worker writes the schema `promo_store`.',
        'Its tables are listed so that a change of a migration is visible here, and they may change in the next version. This page leaves',
        'out the monthly partitions of partitioned tables.',
      ),
      '## Views of schema promo',
      paragraph(
        'Each view is in the schema `promo_reader`, too. There `player_id` is a pseudonym in place of `player_ref`, and `credited_player_id` in place of `credited_player`. Otherwise the columns are the same.',
        'The role of a reader (`promo-intake grant --reader`) selects these views whole. In `promo` it may not read players, so Postgres refuses `select *` of `promo.verdicts` and `promo.ledger`.',
        'It also refuses `promo.verdict_of`: use `promo.verdict_id_of` instead.',
      ),
      paragraph(
        'Some common conditions read all of history: `order by decided_at desc limit 50`, `max(decided_at)`, `event_id = ...` and `round_id in (select ...)`. An index for them would',
        'cost more than 2 % of the throughput. The queries below the columns of a view are the fast forms. A test limits the blocks that each of them reads.',
      ),
      ...views.flatMap(({ oid, name, comment }) => [
        `### promo.${name}`,
        comment,
        table(
          ['column', 'type', 'meaning'],
          (columns.get(oid) ?? []).map(([column = '', type = '', , , meaning = '']) => [
            code(column),
            type,
            meaning,
          ]),
        ),
        ...(VIEW_QUERIES[name] ?? []).map((query) => `\`\`\`sql\n${query}\n\`\`\``),
      ]),
      '## Functions of schema promo',
      table(
        ['name', 'result', 'meaning'],
        readers.map(([name = '', result = '', meaning = '']) => [code(name), code(result), meaning]),
      ),
      '## Tables of schema promo_store',
      ...tables.flatMap(({ oid, name, comment, storage }) => [
        `### promo_store.${name}`,
        storage === '' ? comment : `${comment} ${storage}.`,
        table(
          ['column', 'type', 'null', 'default', 'meaning'],
          (columns.get(oid) ?? []).map(
            ([column = '', type = '', nullable = '', fallback = '', meaning = '']) => [
              code(column),
              type,
              nullable,
              fallback === '' ? ABSENT : code(fallback),
              meaning === '' ? ABSENT : meaning,
            ],
          ),
        ),
        ...list(constraints.get(oid), ([name = '', definition = '']) => `- ${name}: ${code(definition)}`),
        ...list(indexes.get(oid), ([definition = '']) => `- ${code(definition)}`),
      ]),
      '## Functions and sequences of schema promo_store',
      table(
        ['name', 'result', 'meaning'],
        others.map(([name = '', result = '', meaning = '']) => [code(name), result, meaning]),
      ),
    ]);
  } finally {
    await client.end();
  }
}

interface Relation {
  readonly oid: string;
  readonly name: string;
  readonly comment: string;
  /** The partitioning and storage of a table; empty for the defaults. */
  readonly storage: string;
}

async function readRelations(client: Client, schema: string, kinds: readonly string[]): Promise<Relation[]> {
  const rows = await rowsOf(client, RELATIONS, [schema, `{${kinds.join()}}`]);
  return rows.map(([oid = '', name = '', comment = '', storage = '']) => ({ oid, name, comment, storage }));
}

const RELATIONS = `
select c.oid::text, c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), ''),
  concat_ws(', ', 'Partitioned by ' || lower(pg_get_partkeydef(c.oid)), 'Storage: ' || array_to_string(c.reloptions, ', '))
from pg_class c
where c.relnamespace = $1::text::regnamespace and c.relkind = any ($2::text[]::"char"[]) and not c.relispartition
order by c.relname::text collate "C"`;

const COLUMNS = `
select a.attrelid::text, a.attname::text, format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'no' else 'yes' end,
  case a.attidentity when 'a' then 'identity' when 'd' then 'identity by default' else coalesce(pg_get_expr(d.adbin, d.adrelid), '') end,
  coalesce(col_description(a.attrelid, a.attnum), '')
from pg_attribute a
join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relnamespace in ('promo'::regnamespace, 'promo_store'::regnamespace) and a.attnum > 0 and not a.attisdropped
order by a.attrelid, a.attnum`;

/**
 * Not-null constraints are left out: they are listed with the columns, and have rows of their own from
 * Postgres 18 on.
 */
const CONSTRAINTS = `
select conrelid::text, conname::text, pg_get_constraintdef(oid)
from pg_constraint
where connamespace = 'promo_store'::regnamespace and contype in ('p', 'u', 'f', 'c', 'x')
order by conrelid, position(contype::text in 'pufcx'), conname::text collate "C"`;

/** Without the indexes that a constraint creates. */
const INDEXES = `
select i.indrelid::text, pg_get_indexdef(i.indexrelid)
from pg_index i
join pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'promo_store'::regnamespace and not exists (select from pg_constraint where conindid = i.indexrelid)
order by i.indrelid, c.relname::text collate "C"`;

const OTHERS = `
select name, result, meaning from (
  select p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', pg_get_function_result(p.oid),
    coalesce(obj_description(p.oid, 'pg_proc'), '')
  from pg_proc p where p.pronamespace = $1::text::regnamespace
  union all
  select c.relname::text, 'sequence', coalesce(obj_description(c.oid, 'pg_class'), '')
  from pg_class c
  where c.relnamespace = $1::text::regnamespace and c.relkind = 'S'
    and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i') and d.refobjsubid > 0)
) as others (name, result, meaning)
order by name collate "C"`;

/**
 * Rows of text columns.
 *
 * @throws if a value is no text: the statements above select only text
 */
async function rowsOf(client: Client, text: string, values: string[] = []): Promise<string[][]> {
  const { rows }: { rows: unknown[] } = await client.query({ text, values, rowMode: 'array' });
  return rows.map((row) => {
    if (!Array.isArray(row)) throw new Error('a row is no array');
    return row.map((value: unknown) => {
      if (typeof value !== 'string') throw new Error(`a column is no text: ${text}`);
      return value;
    });
  });
}

/** The rest of each row, by the row's first column. */
function groupByFirst(rows: readonly string[][]): Map<string, string[][]> {
  const groups = new Map<string, string[][]>();
  for (const [first = '', ...rest] of rows) {
    const group = groups.get(first);
    if (group === undefined) groups.set(first, [rest]);
    else group.push(rest);
  }
  return groups;
}

/** A block of lines, or none. */
function list(rows: readonly string[][] | undefined, line: (row: readonly string[]) => string): string[] {
  return rows === undefined ? [] : [rows.map(line).join('\n')];
}

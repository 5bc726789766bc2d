/** The twenty questions of the analysts' guide, on the story behind their samples. */
import { readQuestions, readStory, type Scene } from '../../dev/analysts-guide';
import { expandMacros, readDashboard } from '../../dev/grafana';
import { grantRoles } from '../../src/ledger/roles';
import { aRollupFold, foldAll } from '../support/folds';
import { freshStore, type Json, rowsOf, type TestStore, withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

const QUERIES = readQuestions();
const STORY = readStory();
const SOON_MS = 400;
const MOST_LINES = 5;

let store: TestStore;
let reader: { name: string; url: string };
let analyst: { name: string; url: string };
beforeAll(async () => {
  store = await freshStore({ own: true });
  await decideStory();
  await foldAll(aRollupFold(store.pool));
  await givePseudonyms();
  reader = await makeRole(store.url, 'reader');
  analyst = await makeRole(store.url, 'analyst');
  await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
  await store.rows(`grant ${reader.name} to ${analyst.name}`);
  await store.rows(
    `grant select on promo.verdicts, promo.facts, promo.player_ledger_daily to ${analyst.name}`,
  );
});
afterAll(async () => {
  await dropRoles(store.url, [analyst.name, reader.name]);
  // Times of decisions were changed by hand.
  store.damaged = true;
  await store.close();
});

const at = (time: string) => new Date(`${time}Z`);

function eventOf({ stated, event, fields }: Scene): Json {
  const optional = (name: string, value: string | undefined) => (value === '' ? {} : { [name]: value });
  return {
    spec: 'promo.event.v1',
    event_id: event,
    kind: fields.kind,
    brand: fields.brand,
    occurred_at: new Date(at(stated).getTime() - SOON_MS).toISOString(),
    ...optional('player_ref', fields.player),
    ...optional('round_id', fields.round),
    ...(fields.game === '' ? {} : { game: { id: fields.game } }),
    ...optional('amount', fields.amount),
    ...optional('currency', fields.currency),
  };
}

/** Has each event decided by the rules. Then sets the times of the decisions to those of the story. */
async function decideStory(): Promise<void> {
  const acme = store.partition('acme');
  for (const scene of STORY)
    expect([scene.event, await acme.read(eventOf(scene))]).toEqual([scene.event, [scene.fields.result]]);
  await store.rows(
    `select promo_store.create_month(parent, month) from unnest('{history, resends}'::text[]) parent, unnest('{2026-10-01, 2026-11-01}'::date[]) month`,
  );
  const times = JSON.stringify(
    STORY.map(({ event, decided, fields }) => ({
      event,
      at: at(decided),
      again: fields.result?.startsWith('duplicate'),
    })),
  );
  const given = `json_to_recordset($1) as t (event text, at timestamptz, again boolean)`;
  await store.rows(
    `update promo_store.history h set decided_at = t.at from ${given} where h.event_id = t.event and not t.again`,
    [times],
  );
  await store.rows(
    `update promo_store.resends h set received_at = t.at from ${given} where h.event_id = t.event and t.again`,
    [times],
  );
  await store.rows(`update promo_store.rounds r set opened_at = h.opened_at, refunded_at = h.refunded_at
    from (select round_no, min(decided_at) as opened_at, min(decided_at) filter (where kind = 4) as refunded_at from promo_store.history group by 1) h
    where h.round_no = r.round_no`);
  expect(await store.rows('select opened_at, refunded_at from promo_store.refunds')).toEqual([
    ['2026-11-02 12:00:00+00', '2026-11-03 10:00:00+00'],
  ]);
}

test('the guide has twenty questions, each of at most five lines of SQL', () => {
  expect(QUERIES.map(({ number }) => number)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
  expect(QUERIES.filter(({ lines }) => lines > MOST_LINES)).toEqual([]);
});

/** Rows as the guide shows them: texts of Postgres, and nothing for null. */
async function answersOf(url: string, sql: string): Promise<{ columns: string[]; rows: string[][] }> {
  return withClient(url, async (client) => {
    const { fields } = await client.query(sql);
    const rows = await rowsOf(client, sql);
    return {
      columns: fields.map(({ name }) => name),
      rows: rows.map((row) => row.map((cell) => cell ?? '')),
    };
  });
}

/** Gives each player the pseudonym of the samples: x-1 for p-1. */
async function givePseudonyms(): Promise<void> {
  await store.rows(
    `insert into promo_store.pseudonym_keys (key_id, state, shown_at) values ('story', 'shown', now())`,
  );
  await store.rows(`insert into promo_store.pseudonyms (key_no, operator_id, player_ref, player_id)
    select distinct k.key_no, 'acme', h.player_ref, replace(h.player_ref, 'p-', 'x-') from promo_store.pseudonym_keys k, promo_store.history h where h.player_ref is not null`);
}

test.each(QUERIES)('$number. $title: a reader gets the sample', async ({ sql, columns, sample }) => {
  const { columns: found, rows } = await answersOf(reader.url, sql);
  expect(found).toEqual(columns);
  expect(rows).toEqual(sample);
});

test.each(QUERIES.filter(({ sql }) => sql.includes('promo_reader.')))(
  '$number. $title: an analyst who may see players gets them in place of pseudonyms, and a reader is refused',
  async ({ sql, sample }) => {
    const withPlayers = sql
      .replaceAll('promo_reader.', 'promo.')
      .replaceAll('player_id', 'player_ref')
      .replaceAll("'x-", "'p-");
    const { rows } = await answersOf(analyst.url, withPlayers);
    expect(rows).toEqual(sample.map((row) => row.map((cell) => cell.replace(/^x-/, 'p-'))));
    await expect(answersOf(reader.url, withPlayers)).rejects.toThrow(/permission denied/);
  },
);

const WEEK = { from: '2026-11-02T00:00:00Z', to: '2026-11-08T23:59:59Z', operators: ['acme', "o'hara"] };

/** What each panel shows of the week of the story; of series the sums. */
const SHOWN: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  'Rollups are behind': [/^[0-9]+[.][0-9]+$/],
  'Rollups are complete since': [''],
  'Rejected share': [/^0[.]0800*$/],
  'Repeated deliveries': [/^0[.]07407/],
  'Events by verdict': ['accepted 21', 'rejected 2', 'skipped 2'],
  'Why events do not count': ['bad_amount 1', 'below_min_bet 1', 'game_denied 1', 'no_player 1'],
  'Time to decide': ['1 s 14', '10 s 14', '1 min 14'],
  'Repeated deliveries by hour': ['other content 1', 'same content 1'],
  'Refunds by game': ['g2|2|1|0.5000', 'g1|3|0|0.0000', 'g3|1|0|0.0000'],
  'Open rounds': [
    'acme|main|EUR|1|3.00|2026-11-04 12:00:00+00',
    'acme|second|EUR|1|5.00|2026-11-03 09:00:00+00',
    'acme|second|USD|1|4.00|2026-11-06 18:00:00+00',
  ],
};

/** The sums of the series: of each value of `metric`, or of each column behind the time. */
function sumsOf(columns: readonly string[], rows: readonly string[][]): string[] {
  expect(columns[0]).toBe('time');
  const sums = new Map<string, number>();
  const add = (name: string, value: string) => sums.set(name, (sums.get(name) ?? 0) + Number(value));
  for (const [, ...cells] of rows) {
    if (columns[1] === 'metric') add(cells[0] ?? '', cells[1] ?? '');
    else for (const [index, cell] of cells.entries()) add(columns[index + 1] ?? '', cell);
  }
  const texts = [...sums].map(([name, sum]) => `${name} ${sum}`);
  return columns[1] === 'metric' ? texts.sort() : texts;
}

describe('the dashboard for Grafana', () => {
  const { panels, variables } = readDashboard();

  test('chooses among all operators', async () => {
    expect((await answersOf(reader.url, variables.operator ?? '')).rows).toEqual([['acme'], ['bravo']]);
  });

  test('has the panels that are tested here, each with a description', () => {
    expect(panels.map(({ title }) => title)).toEqual(Object.keys(SHOWN));
    expect(panels.filter(({ description }) => !description.endsWith('.'))).toEqual([]);
  });

  test.each(panels)('$title: a reader gets the figures of the story', async ({ title, sql, isSeries }) => {
    const { columns, rows } = await answersOf(reader.url, expandMacros(sql, WEEK));
    const shown = isSeries ? sumsOf(columns, rows) : rows.map((row) => row.join('|'));
    expect(shown).toEqual(
      SHOWN[title]?.map((each) => (typeof each === 'string' ? each : expect.stringMatching(each))),
    );
  });

  test.each(panels)('$title: nothing is an error without any event of the range', async ({ sql }) => {
    const empty = { from: '2020-01-01T00:00:00Z', to: '2020-01-01T06:00:00Z', operators: ['bravo'] };
    await expect(answersOf(reader.url, expandMacros(sql, empty))).resolves.toBeDefined();
  });
});

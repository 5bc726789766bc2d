/** The commands of promotions that need the store, and the walkthrough of docs/promotions.md through them. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { COMMANDS } from '../../src/cli';
import { type Given, readArguments } from '../../src/cli/usage';
import { applyPromotionsFile, rollbackPromotions } from '../../src/commands/promotions/apply';
import { exportPromotions, listPromotions, promotionsHistory } from '../../src/commands/promotions/list';
import { applyRetention } from '../../src/commands/store/retention';
import { grantRoles } from '../../src/ledger/roles';
import { freshStore, REFERENCE, type TestStore } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

const PAGE = readFileSync(join(ROOT, 'docs/promotions.md'), 'utf8');
const EXAMPLES = [
  ...PAGE.matchAll(/^```console\n\$ promo-intake (promotions (?!check|preview)[^\n]*)\n(.*?)^```/gms),
].map(([, line = '', shown = '']) => ({ line, shown }));

const home = process.cwd();
const before = process.env.DATABASE_URL;
let directory: string;
let output: string;
let store: TestStore;

beforeEach(async () => {
  store = await freshStore();
  process.env.DATABASE_URL = store.url;
  directory = mkdtempSync(join(tmpdir(), 'promotions-test-'));
  symlinkSync(join(ROOT, 'schemas'), join(directory, 'schemas'));
  for (const [, name = '', content = ''] of PAGE.matchAll(/^```\w+ (\S+)\n(.*?)^```/gms))
    writeFileSync(join(directory, name), content);
  process.chdir(directory);
  output = '';
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
  const shown = (text: unknown) => {
    output += `${String(text)}\n`;
  };
  jest.spyOn(console, 'log').mockImplementation(shown);
  jest.spyOn(console, 'error').mockImplementation(shown);
});
afterEach(async () => {
  process.chdir(home);
  jest.restoreAllMocks();
  if (before === undefined) delete process.env.DATABASE_URL;
  else process.env.DATABASE_URL = before;
  rmSync(directory, { recursive: true });
  await store.close();
});

const file = (name: string, content: string): string => {
  writeFileSync(join(directory, name), content);
  return name;
};

const RUNS: Readonly<Record<string, (given: Given) => Promise<number>>> = {
  'promotions apply': ({ file, options }) => applyPromotionsFile(file, options, options.has('dry-run')),
  'promotions diff': ({ file, options }) => applyPromotionsFile(file, options, true),
  'promotions list': ({ options }) => listPromotions(options),
  'promotions history': promotionsHistory,
  'promotions export': ({ options }) => exportPromotions(options),
  'promotions rollback': ({ options }) => rollbackPromotions(options),
  'retention apply': ({ options }) => applyRetention(options),
};

/** Runs a command line. @returns the exit code and the output, or the text of a wrong usage */
async function run(line: string): Promise<readonly [number | string, string]> {
  output = '';
  const invocation = readArguments(line.split(' '), COMMANDS);
  if (invocation.type === 'wrong') return [invocation.problem, ''];
  if (invocation.type !== 'run') throw new Error(`${line} runs nothing`);
  const { command, given } = invocation;
  const code = await RUNS[command.name]?.(given);
  if (code === undefined) throw new Error(`no test runs ${command.name}`);
  return [code, output];
}

const timeless = (text: string) => text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME');
const bets = (target: number, more = '') =>
  `promotions: [{ id: x, operator: acme, type: bet_count, target: ${target}${more} }]`;

test('docs/promotions.md shows the output of its commands that use the store [P21] [P22]', async () => {
  expect(EXAMPLES).toHaveLength(10);
  const seen: { line: string; shown: string }[] = [];
  for (const { line } of EXAMPLES) seen.push({ line, shown: timeless((await run(line))[1]) });
  expect(seen).toEqual(EXAMPLES.map(({ line, shown }) => ({ line, shown: timeless(shown) })));
});

test('faults of the file come all at once, with those that the reference data shows [P19] [P21]', async () => {
  file(
    'bad.yaml',
    `promotions:
  - { id: x, operator: acmee, type: bet_count, target: 0 }
  - { id: y, operator: acme, type: deposit_target, target: { EURO: "1" }, brands: [mian] }
`,
  );
  expect(await run('promotions apply bad.yaml')).toEqual([
    1,
    `bad.yaml:2:24: promotions[0].operator: The reference data has no operator "acmee". Did you mean "acme"?
bad.yaml:2:56: promotions[0].target: Expected a whole number from 1 to 1000000000, found "0". Write the number of bets, such as 100, without quotes.
bad.yaml:3:62: promotions[1].target.EURO: There is no currency "EURO". Did you mean "EUR"?
bad.yaml:3:84: promotions[1].brands[0]: The operator has no brand "mian". Use one of: main, second, closed.
bad.yaml: 4 faults, nothing was applied
`,
  ]);
  expect(await run('promotions list')).toEqual([0, 'there are no promotions\n']);
  expect(await run('promotions history')).toEqual([0, 'no document was ever applied\n']);
  expect(await run('promotions export')).toEqual([1, 'there are no promotions yet\n']);
});

test('changes that a store cannot apply are refused together, each at the line of its promotion [P21]', async () => {
  file(
    'one.yaml',
    `promotions:\n  - { id: a, operator: acme, type: bet_count, target: 1 }\n  - { id: b, operator: acme, type: bet_count, target: 1, to: 2999-01-01T00:00Z }\n`,
  );
  await run('promotions apply one.yaml');
  file(
    'two.yaml',
    `promotions:\n  - { id: b, operator: acme, type: bet_count, target: 2, to: 2999-01-01T00:00Z }\n  - { id: a, operator: acme, type: bet_count, target: 2 }\n`,
  );
  const [code, printed] = await run('promotions apply two.yaml');
  expect(code).toBe(1);
  expect(printed.split('\n').filter((line) => line.startsWith('two.yaml'))).toEqual([
    expect.stringContaining('two.yaml:2:11: promotions[0].id: The definition would never count'),
    expect.stringContaining('two.yaml:3:11: promotions[1].id: The change would never count'),
    'two.yaml: 2 faults, nothing was applied',
  ]);
  expect((await run('promotions diff two.yaml'))[0]).toBe(1);
  expect((await run('promotions diff two.yaml --recompute'))[0]).toBe(0);
  expect((await run('promotions history'))[1].split('\n')).toHaveLength(2);
});

test('a removal needs permission, and another document than the expected one refuses [P21]', async () => {
  await run(`promotions apply ${file('x.yaml', bets(1))} --by anna`);
  file('none.yaml', 'promotions: []');
  const removed = 'removed promotion acme/x (counts nothing from now on; its completions stay)\n';
  expect(await run('promotions apply none.yaml')).toEqual([
    1,
    `${removed}1 promotion would be removed; add --allow-removal if you intend that\n`,
  ]);
  expect(await run('promotions apply none.yaml --allow-removal --expect 0')).toEqual([
    1,
    `${removed}document 1 is in force, and --expect names 0: see the changes again; nothing was applied\n`,
  ]);
  expect((await run('promotions apply none.yaml --allow-removal --expect 1'))[0]).toBe(0);
  expect(await run('promotions list')).toEqual([0, 'acme/x (bet_count): version 1 was removed\n']);
  expect((await run('promotions rollback --to 7'))[1]).toBe('there is no document 7 of promotions\n');
  const added = 'added promotion acme/x: type: bet_count; completes: once; target: 1';
  expect(await run('promotions rollback --to 1 --dry-run')).toEqual([
    0,
    `${added} (counts as if it had not been removed)\ndry run: nothing was applied; document 2 stays in force\n`,
  ]);
  await expect(run('promotions apply none.yaml --expect one')).rejects.toThrow('not a whole number');
});

test('an earlier document is checked against the reference data of today [P21]', async () => {
  await run(`promotions apply ${file('x.yaml', bets(1, ', brands: [second]'))}`);
  await run(`promotions apply ${file('x.yaml', bets(2))} --recompute`);
  const [acme] = REFERENCE.operators;
  if (acme === undefined) throw new Error('no acme');
  await store.apply({ operators: [{ ...acme, brands: acme.brands.filter(({ id }) => id !== 'second') }] });
  const [code, printed] = await run('promotions rollback --to 1 --recompute');
  expect([code, printed]).toEqual([
    1,
    expect.stringContaining('document 1:7:9: promotions[0].brands[0]: The operator has no brand "second".'),
  ]);
});

test('an export is a file that changes nothing, and --json lists versions and windows [P21]', async () => {
  await run('promotions apply schemas/examples/promotions.yaml');
  const [code, exported] = await run('promotions export');
  expect(code).toBe(0);
  expect(await run(`promotions apply ${file('exported.json', exported)}`)).toEqual([
    0,
    expect.stringMatching(/no changes; document 1 stays in force\n$/),
  ]);
  const [, listed] = await run('promotions list --json');
  const { document_version, promotions } = JSON.parse(listed);
  expect([document_version, promotions.length]).toEqual([1, 8]);
  expect(promotions[0]).toEqual({
    operator: 'acme',
    promotion: 'bets-4',
    type: 'bet_count',
    state: 'counts',
    version: 1,
    window: { key: 'once', starts_at: null, ends_at: null },
    versions: [
      { version: 1, document_version: 1, counts_none: false, since: null, until: null, removed_at: null },
    ],
  });
});

test('promo.promotions has the states, versions and windows that promotions list prints [P17] [P21] [P22]', async () => {
  const of = (target: number, ...more: readonly string[]) =>
    [
      `{ id: once, operator: acme, type: bet_count, target: ${target} }`,
      `{ id: days, operator: acme, type: bet_count, target: ${target}, window: { every: day }, time_zone: America/Santiago }`,
      `{ id: weeks, operator: acme, type: bet_count, target: ${target}, window: { every: week, starts: sunday }, time_zone: Europe/Warsaw, from: 2026-11-05T10:00 }`,
      `{ id: ended, operator: acme, type: bet_count, target: 1, to: 2020-01-01T00:00Z }`,
      `{ id: later, operator: acme, type: bet_count, target: ${target}, from: 2999-01-01T00:00Z }`,
      ...more,
    ].map((each) => `  - ${each}\n`);
  const gone = '{ id: gone, operator: acme, type: bet_count, target: 1 }';
  const months = (target: number) =>
    `{ id: months, operator: acme, type: bet_count, target: ${target}, window: { every: month, starts: 3 }, time_zone: Asia/Kathmandu }`;
  await run(`promotions apply ${file('a.yaml', `promotions:\n${of(1, gone, months(1)).join('')}`)}`);
  await run(
    `promotions apply ${file('b.yaml', `promotions:\n${of(2, months(1)).join('')}`)} --recompute --allow-removal`,
  );
  await run(`promotions apply ${file('c.yaml', `promotions:\n${of(2, months(2)).join('')}`)}`);
  const { promotions } = JSON.parse((await run('promotions list --json'))[1]);
  const listed = promotions.map(({ promotion, state, version, window }: Record<string, unknown>) =>
    JSON.stringify([promotion, state, version, window ?? null]),
  );
  const time = (column: string) => `to_char(${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;
  const shown =
    await store.rows(`select promotion_id, state, version, window_key, ${time('window_starts_at')}, ${time('window_ends_at')}
    from promo.promotions order by promotion_id collate "C"`);
  expect(
    shown.map(([promotion, state, version, key, starts_at, ends_at]) =>
      JSON.stringify([promotion, state, Number(version), key === null ? null : { key, starts_at, ends_at }]),
    ),
  ).toEqual(listed);
  expect(shown.map(([promotion, state, version]) => `${promotion} ${version} ${state}`)).toEqual([
    'days 2 counts',
    'ended 1 is over',
    'gone 1 was removed',
    'later 2 begins later',
    'months 1 counts',
    'once 2 counts',
    'weeks 2 counts',
  ]);
});

test('retention names the promotions that cannot be computed again afterwards [P21]', async () => {
  const weekly = 'window: { every: day }, time_zone: Europe/Warsaw';
  file(
    'x.yaml',
    `promotions:
  - { id: ever, operator: acme, type: bet_count, target: 1 }
  - { id: old, operator: acme, type: bet_count, target: 1, from: 2020-01-01T00:00Z, to: 2999-01-01T00:00Z }
  - { id: over, operator: acme, type: bet_count, target: 1, to: 2020-01-01T00:00Z }
  - { id: days, operator: acme, type: bet_count, target: 1, ${weekly} }
`,
  );
  await run('promotions apply x.yaml');
  expect((await run('retention apply --keep-months 13 --dry-run'))[1]).not.toContain('promotion ');
  await store.rows(`select promo_store.create_month('history', '2020-01-01')`);
  const [, printed] = await run('retention apply --keep-months 13');
  expect(printed.split('\n').filter((line) => line.startsWith('promotion '))).toEqual([
    'promotion acme/ever: its window in progress began before; its progress stays, and cannot be computed again',
    'promotion acme/old: its window in progress began before; its progress stays, and cannot be computed again',
  ]);
});

test('stored definitions of a newer version are refused by name, and nothing is lost [P21]', async () => {
  await run(`promotions apply ${file('x.yaml', bets(1))}`);
  await store.rows(`update promo_store.promotion_versions set definition = definition || '{"tiers": 3}'`);
  for (const line of ['promotions list', 'promotions apply x.yaml'])
    await expect(run(line)).rejects.toThrow(
      'the stored promotions are not valid: promotions[0].tiers: The key "tiers" is unknown here. A newer version',
    );
});

test('a reader lists and exports promotions, and applies none [P21]', async () => {
  await run(`promotions apply ${file('x.yaml', bets(1))} --by anna`);
  const role = await makeRole(store.url, 'reader');
  try {
    await grantRoles(store.url, [{ role: 'reader', name: role.name }]);
    process.env.DATABASE_URL = role.url;
    expect(await run('promotions list')).toEqual([0, 'acme/x (bet_count): version 1 counts\n']);
    expect((await run('promotions history'))[1]).toContain(' 1 promotion, in force, by anna\n');
    expect((await run('promotions export'))[1]).toContain('"id": "x"');
    await expect(run('promotions apply x.yaml')).rejects.toThrow('permission denied');
  } finally {
    await dropRoles(store.url, [role.name]);
  }
});

test('without reference data no promotion is applied [P21]', async () => {
  await store.rows('delete from promo_store.reference_versions');
  expect(await run(`promotions apply ${file('x.yaml', bets(1))}`)).toEqual([
    1,
    'there is no reference data yet: apply that first, since promotions name its operators\n',
  ]);
});

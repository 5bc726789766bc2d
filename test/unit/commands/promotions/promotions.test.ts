/** The commands of promotions, and the walkthrough of docs/promotions.md, in a directory of its own. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../../../dev/servers/download';
import { COMMANDS } from '../../../../src/cli';
import { readArguments } from '../../../../src/cli/usage';
import { checkPromotions } from '../../../../src/commands/promotions/check';
import { previewPromotions } from '../../../../src/commands/promotions/preview';

const PAGE = readFileSync(join(ROOT, 'docs/promotions.md'), 'utf8');
const home = process.cwd();
let directory: string;
let output: string;
let errors: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'promotions-test-'));
  symlinkSync(join(ROOT, 'schemas'), join(directory, 'schemas'));
  for (const [, name = '', content = ''] of PAGE.matchAll(/^```\w+ (\S+)\n(.*?)^```/gms))
    writeFileSync(join(directory, name), content);
  process.chdir(directory);
  output = '';
  errors = '';
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
  jest.spyOn(console, 'error').mockImplementation((text) => {
    errors += `${String(text)}\n`;
  });
});
afterEach(() => {
  process.chdir(home);
  jest.restoreAllMocks();
  rmSync(directory, { recursive: true });
});

const file = (name: string, content: string): string => {
  writeFileSync(join(directory, name), content);
  return name;
};

/** Runs a command line. @returns the exit code, or the text of a wrong usage */
async function run(line: string): Promise<number | string> {
  const invocation = readArguments(line.split(' '), COMMANDS);
  if (invocation.type === 'wrong') return invocation.problem;
  if (invocation.type !== 'run') throw new Error(`${line} runs nothing`);
  const { file: name, options } = invocation.given;
  return invocation.command.name === 'promotions check'
    ? checkPromotions(name, options)
    : previewPromotions(name, options, new AbortController().signal);
}

const objects = (): Record<string, unknown>[] =>
  output
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line));

/** The commands that need no database. test/ledger/promotion-commands.test.ts runs the others. */
const EXAMPLES = [
  ...PAGE.matchAll(/^```console\n\$ promo-intake (promotions (?:check|preview) [^\n]*)\n(.*?)^```/gms),
].map(([, line = '', shown = '']) => [line, shown] as const);

test('the page of promotions has its examples', () => {
  expect(EXAMPLES).toHaveLength(6);
});

test.each(EXAMPLES)('docs/promotions.md shows the output of %s [P20]', async (line, shown) => {
  const [command = '', head] = line.split(' | head -');
  await run(command);
  const lines = `${errors}${output}`.split('\n');
  expect(head === undefined ? lines.join('\n') : `${lines.slice(0, Number(head)).join('\n')}\n`).toBe(shown);
});

test('promotions of the examples have no faults, and all types [P19]', async () => {
  const line =
    'promotions check schemas/examples/promotions.yaml --reference schemas/examples/reference.yaml';
  expect([await run(line), errors]).toEqual([0, '']);
  expect(output).toBe('schemas/examples/promotions.yaml: 8 promotions, no faults, 0 warnings\n');
});

test('faults end with 1, and faults of another file with 2 [P19]', async () => {
  expect(await run('promotions check faulty.yaml')).toBe(1);
  expect(await run('promotions check first.yaml --against faulty.yaml')).toBe(2);
  expect(await run('promotions check first.yaml --reference faulty.yaml')).toBe(2);
  expect(await run('promotions preview faulty.yaml --events logins.ndjson')).toBe(2);
});

test('a file that is too long or no text is refused [P19]', async () => {
  writeFileSync(join(directory, 'bad'), Buffer.from([0xff, 0xfe, 0x00]));
  expect([await run('promotions check bad'), errors]).toEqual([1, expect.stringContaining('not UTF-8')]);
});

test('an unchanged file has no changes [P17]', async () => {
  expect(await run('promotions check first.yaml --against first.yaml')).toBe(0);
  expect(output).toContain('\nno changes\n');
});

test('a change that a store would refuse is a warning at its line [P17] [P21]', async () => {
  file('old.yaml', 'promotions: [{ id: x, operator: acme, type: bet_count, target: 1 }]');
  file('new.yaml', 'promotions:\n  - { id: x, operator: acme, type: bet_count, target: 2 }');
  expect(await run('promotions check new.yaml --against old.yaml')).toBe(0);
  expect(errors).toMatch(
    /^warning: new.yaml:2:11: promotions\[0\].id: The change would never count: the window "once" has begun/,
  );
  expect(output).toContain('new.yaml: 1 promotion, no faults, 1 warning;');
});

const BETS = 'promotions: [{ id: x, operator: acme, type: bet_count, target: 1 }]';
const bet = (id: string, more: object = {}) =>
  `${JSON.stringify({ spec: 'promo.event.v1', event_id: id, brand: 'main', player_ref: 'p', kind: 'bet', round_id: id, game: { id: 'g1' }, amount: '1.00', currency: 'EUR', occurred_at: '2026-12-01T00:00:00Z', ...more })}\n`;

test('events count once, after the verdict of the workers [P20]', async () => {
  const events = [
    bet('a'),
    bet('a'),
    bet('b', { amount: '-1' }),
    bet('c', { amount: '0.00' }),
    'no json\n',
    bet('s1', { kind: 'settled', round_id: 'r' }),
    bet('s2', { kind: 'settled', round_id: 'r' }),
    bet('f', { kind: 'refund', round_id: 'a' }),
    bet('f2', { kind: 'refund', round_id: 'a' }),
    bet('d', { round_id: 'a' }),
  ].join('');
  file('x.yaml', BETS);
  file('events', events);
  expect(await run('promotions preview x.yaml --events events')).toBe(0);
  expect(output.split('\n')).toEqual([
    'events: 10 events: 5 accepted, 2 rejected (1 no_idempotency_key, 1 bad_amount), 2 skipped (1 zero_amount, 1 round_refunded), 1 duplicate',
    'x.yaml: 1 promotion, as of 2026-12-01T00:00:00Z',
    '',
    'x (bet_count)',
    '  no event counts',
    '  not counted: 1 event, round_refunded: the event counted, and its round was refunded later (line 1)',
    '',
    'counts in no promotion: 1 event, settled: no promotion of the file counts a settled (line 6)',
    'counts in no promotion: 1 event, the second settled of its round (line 7)',
    '',
  ]);
});

test('a decided_at that is no time is a warning at its line, and null is none [P20]', async () => {
  const login = (id: string, decidedAt: string) =>
    `{"spec":"promo.event.v1","event_id":"${id}","player_ref":"p","kind":"login","occurred_at":"2026-12-02T08:00:00Z","decided_at":${decidedAt}}\n`;
  const times = ['"2026-12-04 09:00:00+00"', 'null', '17', '"2026-12-04T09:00:00Z"'];
  file('times.ndjson', times.map((time, index) => login(`l${index}`, time)).join(''));
  expect(await run('promotions preview first.yaml --events times.ndjson --json')).toBe(0);
  const ends = 'which is no time with a zone: the event counts as decided when it occurred.';
  const remedy = 'Write a time such as 2026-12-04T09:00:00Z.';
  expect(errors).toBe(
    `warning: times.ndjson:1: decided_at is the text "2026-12-04 09:00:00+00", ${ends} ${remedy}
warning: times.ndjson:3: decided_at is the number 17, ${ends} ${remedy}\n`,
  );
  expect(objects().at(-1)).toMatchObject({ as_of: '2026-12-04T09:00:00Z' });
});

test('a preview of no events has no time [P20]', async () => {
  expect(await run(`promotions preview first.yaml --events ${file('none.ndjson', '')}`)).toBe(0);
  expect(output).toContain('first.yaml: 1 promotion\n');
  output = '';
  expect(await run('promotions preview first.yaml --events none.ndjson --json')).toBe(0);
  expect(objects().at(-1)).toMatchObject({ row: 'summary', as_of: null });
});

test('brand rules apply by a connection, and its brand is that of the events [P20]', async () => {
  file('x.yaml', BETS.replace('target: 1', 'target: 1, brands: [main]'));
  file('events', bet('a', { brand: undefined, amount: '0.09' }) + bet('b', { brand: undefined }));
  const rules = '--reference schemas/examples/reference.yaml --connection acme-solo';
  expect(await run(`promotions preview x.yaml --events events ${rules} --json`)).toBe(0);
  expect(objects().map(({ row }) => row)).toEqual(['progress', 'completion', 'summary']);
  expect(objects()[2]?.verdicts).toBe(
    '2 events: 1 accepted, 0 rejected, 1 skipped (1 below_min_bet), 0 duplicate',
  );
});

test('a leaderboard is final, and a completion confirmed, as of a time [P14] [P15]', async () => {
  file(
    'x.yaml',
    `promotions:
  - { id: x, operator: acme, type: bet_count, target: 1, confirm_after: P1D }
  - { id: y, operator: acme, type: leaderboard, points: [{ counts: bet, points: 5 }], to: 2026-12-02T00:00Z, accepts_late: P1D }`,
  );
  file('events', bet('a'));
  await run('promotions preview x.yaml --events events');
  expect(output).toContain('p: 1 of 1, completed, 0 confirmed\n');
  expect(output).toContain('1. p: 5 points\n');
  output = '';
  await run('promotions preview x.yaml --events events --as-of 2026-12-03T00:00:00Z');
  expect(output).toContain('p: 1 of 1, completed, 1 confirmed\n');
  expect(output).toContain('1. p: 5 points, final\n');
});

test.each([
  ['--connection acme-test --reference schemas/examples/reference.yaml', 'a connection for tests'],
  [
    '--connection nobody --reference schemas/examples/reference.yaml',
    'which the reference data does not have',
  ],
  [
    '--connection acme-solo --reference schemas/examples/reference.yaml --operator zeus',
    'The connection is of acme',
  ],
  ['--as-of tomorrow', 'is not a time with a zone'],
])('the options %s are refused: %s', async (options, message) => {
  await expect(run(`promotions preview first.yaml --events logins.ndjson ${options}`)).rejects.toThrow(
    message,
  );
});

test('promotions of several operators need the operator of the events', async () => {
  file('two.yaml', `${BETS.slice(0, -1)}, { id: x, operator: zeus, type: bet_count, target: 2 }]`);
  file('events', bet('a'));
  await expect(run('promotions preview two.yaml --events events')).rejects.toThrow('of acme, zeus');
  expect(await run('promotions preview two.yaml --events events --operator zeus')).toBe(0);
  expect(output).toContain('p: 1 of 2\n');
});

test('attributed rounds count for the normal player, in their feed and brand [B4] [P20]', async () => {
  file('x.yaml', BETS);
  file('events', ['a', 'b', 'c', 'd'].map((id) => bet(id)).join(''));
  const lines = [
    { round_id: 'a', promo_player_ref: 'normal' },
    { round_id: 'b', promo_player_ref: 'normal', brand: 'main' },
    { round_id: 'c', promo_player_ref: 'normal', brand: 'other' },
    { round_id: 'd', promo_player_ref: 'normal', feed_id: 'acme/live' },
  ];
  file('credits', lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  await run('promotions preview x.yaml --events events --attributions credits --json');
  const progress = objects().filter(({ row }) => row === 'progress');
  expect(progress.map(({ player_ref, values }) => [player_ref, values])).toEqual([
    ['normal', [{ value: '2' }]],
    ['p', [{ value: '2' }]],
  ]);
  file('credits', '{"round_id":"a"}\n[]\n');
  expect(await run('promotions preview x.yaml --events events --attributions credits')).toBe(2);
  expect(errors).toContain('credits:1: InvalidArgument: promo_player_ref is missing');
  expect(errors).toContain('credits:2: InvalidArgument');
});

test('standard input is FILE or the events, not both', async () => {
  await expect(run('promotions preview - --events -')).rejects.toThrow('standard input');
});

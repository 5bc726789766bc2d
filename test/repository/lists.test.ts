/** Lists of documents that a change of the code has to touch too. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { CURRENCIES } from '../../src/domain/event/money';
import { REASONS } from '../../src/domain/verdict/reasons';
import { PROMOTION_TYPES } from '../../src/promotions/definition';

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** The text of a rule, without line breaks. */
function ruleOf(number: string): string {
  const [, text] =
    new RegExp(`^- \\*\\*${number}\\*\\* (.*?)(?=^- |^$)`, 'ms').exec(read('docs/rules.md')) ?? [];
  if (text === undefined) throw new Error(`docs/rules.md has no rule ${number}`);
  return text.replaceAll(/\s+/g, ' ');
}

/** The names in backticks between two words of a text. */
function namesBetween(text: string, from: string, to: string): string[] {
  const part = text.slice(text.indexOf(from), to === '' ? undefined : text.indexOf(to));
  return [...part.matchAll(/`(\w+)`/g)].map(([, name = '']) => name);
}

test('rule M4 lists every currency under its number of decimals [M4]', () => {
  const listed = [...ruleOf('M4').matchAll(/\b(\d+): ([A-Z ]+)\./g)].flatMap(([, scale, codes = '']) =>
    codes.split(' ').map((code) => ({ code, scale: Number(scale) })),
  );
  expect(listed).toEqual(CURRENCIES.map(({ code, scale }) => ({ code, scale })));
});

test('rule V2 lists every reason in the order of its precedence [V2]', () => {
  const rule = ruleOf('V2');
  const named = (verdict: 'rejected' | 'skipped') =>
    REASONS.filter((reason) => reason.verdict === verdict).map(({ name }) => name);
  expect(namesBetween(rule, 'Rejected:', 'Skipped:')).toEqual(named('rejected'));
  expect(namesBetween(rule, 'Skipped:', '')).toEqual(named('skipped'));
});

test('docs/promotions.md has a row for every type of promotion', () => {
  const [, table = ''] = /^## All types\n\n(.*?)\n\n/ms.exec(read('docs/promotions.md')) ?? [];
  expect([...table.matchAll(/^\| `(\w+)`/gm)].map(([, type]) => type)).toEqual([...PROMOTION_TYPES]);
});

test('the patches of kafkajs have a row each, with a test that exists', () => {
  const directory = 'src/kafka/client/patches';
  const files = readdirSync(join(ROOT, directory)).filter((name) =>
    /^(?!install|internals).*\.ts$/.test(name),
  );
  const rows = [...read(`${directory}/README.md`).matchAll(/^\| `([\w-]+\.ts)`.*$/gm)];
  expect(rows.map(([, name]) => name).sort()).toEqual(files.sort());
  for (const [row] of rows) {
    const tests = [...row.matchAll(/`([\w/-]+\.test\.ts)`/g)].map(([, path = '']) => path);
    expect([row, tests.length > 0, tests.filter((path) => !existsSync(join(ROOT, 'test', path)))]).toEqual([
      row,
      true,
      [],
    ]);
  }
});

describe('the limits of docs/security.md', () => {
  const UNITS: Readonly<Record<string, number>> = { KIBIBYTE: 1024, MEBIBYTE: 1024 ** 2 };
  const CONSTANT = /\bconst (\w+) = ([\d_.*\s]+|[\d_]+ \* (?:KIBIBYTE|MEBIBYTE)|[\d_]+ \* 1024 \*\* 2);/g;
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => read(join('src', path)));
  /** The values of all constants of src that are numbers, by name. */
  const values = new Map<string, number[]>();
  for (const text of sources)
    for (const [, name = '', written = ''] of text.matchAll(CONSTANT)) {
      const factors = written.replaceAll('1024 ** 2', 'MEBIBYTE').split('*');
      const value = factors
        .map((factor) => factor.trim().replaceAll('_', ''))
        .reduce((product, factor) => product * (UNITS[factor] ?? Number(factor)), 1);
      values.set(name, [...(values.get(name) ?? []), value]);
    }
  const shown = (value: number): string[] => [
    value.toLocaleString('en'),
    `${value / 1024} KiB`,
    `${value / 1024} Ki `,
    `${value / 1024 ** 2} MiB`,
    ...(value === 1_000 ? ['one a second'] : []),
    ...(value === 60_000 ? ['one a minute'] : []),
    `${value / 1_000} s`,
  ];
  const rows = [
    ...read('docs/security.md').matchAll(/^\| (\w[\w ]*) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$/gm),
  ];
  const named = rows.flatMap(([, where, resource, limit = '', names = '']) =>
    [...names.matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, name = '']) => ({ where, resource, limit, name })),
  );

  test('are one table, whose names are in src', () => {
    expect(new Set(rows.map(([, where]) => where)).size).toBeGreaterThan(4);
    const text = sources.join('\n');
    expect(named.filter(({ name }) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });

  test('have the values of src', () => {
    const numbers = named.filter(({ name }) => values.has(name));
    expect(numbers.length).toBeGreaterThan(20);
    expect(
      numbers.filter(({ name, limit }) =>
        (values.get(name) ?? []).every((value) => !shown(value).some((text) => `${limit} `.includes(text))),
      ),
    ).toEqual([]);
  });
});

/** Lists of documents that a change of the code has to touch too. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { CURRENCIES } from '../../src/domain/event/money';
import { REASONS } from '../../src/domain/verdict/reasons';

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

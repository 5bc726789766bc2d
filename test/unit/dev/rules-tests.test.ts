/** The list of rules that need a test, and its page. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHAPTERS, REQUIREMENTS, readLines } from '../../../dev/catalogue/rules';
import { problemsOf, readCited, render } from '../../../dev/rules-tests';
import { projectRoot as ROOT } from '../../../dev/servers/download';
import { citationsOf, splitTitle } from '../../../dev/title-tags';

const rules = readFileSync(join(__dirname, '../../../docs/rules.md'), 'utf8');
const everythingProven = REQUIREMENTS.filter(({ proof }) => proof !== 'open').map(({ tag }) => ({
  file: 'test/unit/domain/a.test.ts',
  name: 'a test',
  tags: [tag],
}));

describe('tags are the brackets that end a title', () => {
  it.each([
    ['a bet is accepted', 'a bet is accepted', []],
    ['a bet is accepted [V1]', 'a bet is accepted', ['V1']],
    ['a bet is accepted [V1] [F2]', 'a bet is accepted', ['V1', 'F2']],
    ['a bet is accepted [C5 S4]', 'a bet is accepted', ['C5', 'S4']],
    ['a bet is accepted [C5, S4]', 'a bet is accepted', ['C5', 'S4']],
    ['a sentence [R3 refund once]', 'a sentence [R3 refund once]', []],
    ['a bracket [V1] in the middle', 'a bracket [V1] in the middle', []],
    ['a list [0.5, 10, 45]', 'a list [0.5, 10, 45]', []],
    ['an empty array []', 'an empty array []', []],
    ['a value ["x"] [V4]', 'a value ["x"]', ['V4']],
  ])('%s', (title, text, tags) => {
    expect(splitTitle(title)).toEqual({ text, tags });
  });
});

describe('the list of rules that need a test', () => {
  it('has every rule of docs/rules.md, and each tag once', () => {
    expect(problemsOf(REQUIREMENTS, everythingProven, rules)).toEqual([]);
  });

  it('refuses a line without three parts', () => {
    for (const line of ['V1 | one verdict', 'V1 | one verdict | somewhere', 'V1 | | domain', 'V1|a|domain|b'])
      expect(() => readLines('Rules', line)).toThrow('not "tag | label | proof"');
  });
});

describe('each problem is reported', () => {
  const [V1, W1] = [
    { tag: 'V1', label: 'one verdict', proof: 'domain' as const },
    { tag: 'W1', label: 'webhook', proof: 'open' as const },
  ];
  const text = '- **V1** One verdict.\n- **W1** Later.\n';
  const testIn = (file: string, ...tags: string[]) => ({ file, name: 'a test', tags });
  const test = (...tags: string[]) => testIn('test/unit/domain/a.test.ts', ...tags);

  it.each([
    ['a line without a test', [V1, W1], [], text, '[V1] one verdict: no test passed (domain)'],
    [
      'a line of the domain that tests of another layer cite',
      [V1, W1],
      [testIn('test/transport/a.test.ts', 'V1')],
      text,
      '[V1] one verdict: no test in test/unit/domain/ passed, others did',
    ],
    [
      'a tag without a line',
      [V1, W1],
      [test('V1', 'V7')],
      text,
      '[V7] is not in dev/catalogue/rules.ts; cited in test/unit/domain/a.test.ts by "a test"',
    ],
    [
      'an open line with a test',
      [V1, W1],
      [test('V1', 'W1')],
      text,
      '[W1] has a test: take "open" out of dev/catalogue/rules.ts',
    ],
    [
      'a rule without a line',
      [V1],
      [test('V1')],
      text,
      '[W1] is in docs/rules.md, not in dev/catalogue/rules.ts',
    ],
    [
      'a line without a rule',
      [V1, W1],
      [test('V1')],
      '- **V1** x',
      '[W1] is in dev/catalogue/rules.ts, not in docs/rules.md',
    ],
    ['a line twice', [V1, V1, W1], [test('V1')], text, '[V1] is in dev/catalogue/rules.ts twice'],
  ])('%s', (_, requirements, tests, ruleText, problem) => {
    expect(problemsOf(requirements, tests, ruleText)).toEqual([problem]);
  });
});

it('only passed tests prove a rule', () => {
  const assertion = (status: string) => ({
    status,
    title: `is ${status} [V1]`,
    ancestorTitles: ['a bet [G1]'],
  });
  const json = {
    testResults: [
      { name: '/project/test/a.test.ts', assertionResults: ['passed', 'failed', 'pending'].map(assertion) },
    ],
  };
  expect(readCited(json, '/project')).toEqual([
    { file: 'test/a.test.ts', name: 'a bet: is passed', tags: ['G1', 'V1'] },
  ]);
  expect(() => readCited({}, '/project')).toThrow('no list of results');
});

it('the page lists the tests of each line, a few of many, and lines without a test', () => {
  const chapters = [
    readLines('Rules', 'V1 | one verdict | domain\nV2 | order | domain\nW1 | webhook | open'),
  ];
  const tests = Array.from({ length: 20 }, (_, i) => ({
    file: 'a.test.ts',
    name: `case <${i}>`,
    tags: ['V1'],
  }));
  const page = render(chapters, tests);
  expect(page).toContain('### V1: one verdict\n\n- `a.test.ts`\n  - case \\<0\\>\n');
  expect(page).toContain('  - and 8 more\n');
  expect(page).toContain('### V2: order\n\n**No test.**\n');
  expect(page).toContain('### W1: webhook\n\nNot part of this yet.\n');
  expect(render(CHAPTERS, [])).toContain('### U10: drain');
});

it('titles with a rule are found in the sources, with their places', () => {
  const found = citationsOf('U9', ROOT);
  expect(found.length).toBeGreaterThan(3);
  for (const { place, title } of found) {
    expect(place).toMatch(/^test\/[\w/.-]+\.test\.ts:\d+$/);
    expect(title).not.toMatch(/\[U9\]$/);
  }
  expect(citationsOf('X99', ROOT)).toEqual([]);
});

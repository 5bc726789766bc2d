/** The result of a mutation run: dev/mutation.ts over a report of Stryker. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readExplanations, readReport, scoreOf } from '../../../dev/mutation';
import { projectRoot as ROOT } from '../../../dev/servers/download';

const SOURCE = 'const a = 1;\n  if (a > 0) return;\n';
/** A report of mutants that change `a > 0` in the second line, or the 1 in the first. */
const report = (...mutants: { at: 'one' | 'condition'; status: string; replacement: string }[]) => ({
  files: {
    'src/domain/a.ts': {
      source: SOURCE,
      mutants: mutants.map(({ at, ...more }) => ({ location: PLACES[at], ...more })),
    },
  },
});
const PLACES = {
  one: { start: { line: 1, column: 11 }, end: { line: 1, column: 12 } },
  condition: { start: { line: 2, column: 7 }, end: { line: 2, column: 12 } },
};
const explained = {
  file: 'src/domain/a.ts',
  code: 'if (a > 0) return;',
  changes: ['a > 0 -> a >= 0'],
  why: 'a is never 0',
};

it('a surviving mutant is a problem unless it is explained', () => {
  const mutants = readReport(
    report(
      { at: 'one', status: 'Killed', replacement: '2' },
      { at: 'one', status: 'Timeout', replacement: '3' },
      { at: 'one', status: 'RuntimeError', replacement: '4' },
      { at: 'condition', status: 'Survived', replacement: 'a >= 0' },
      { at: 'condition', status: 'NoCoverage', replacement: 'true' },
    ),
  );
  expect(scoreOf(mutants, [explained])).toEqual({
    total: 4,
    noticed: 2,
    explained: 1,
    problems: ['src/domain/a.ts:2 survives: a > 0 -> true'],
  });
});

it('an explanation of a mutant that no longer survives is a problem', () => {
  const mutants = readReport(report({ at: 'condition', status: 'Killed', replacement: 'a >= 0' }));
  expect(scoreOf(mutants, [explained]).problems).toEqual([
    'test/mutation/equivalent.json explains a mutant that does not survive: src/domain/a.ts: a > 0 -> a >= 0',
  ]);
});

it('a change of several lines is printed completely', () => {
  const location = { start: { line: 1, column: 7 }, end: { line: 2, column: 5 } };
  const json = {
    files: { a: { source: SOURCE, mutants: [{ location, status: 'Survived', replacement: '{}' }] } },
  };
  expect(readReport(json)[0]?.change).toBe('a = 1;\n  if -> {}');
});

it('a report of another form is refused', () => {
  for (const wrong of [null, {}, { files: { a: {} } }, { files: { a: { source: '', mutants: [{}] } } }])
    expect(() => readReport(wrong)).toThrow('the report');
  for (const wrong of [{}, [1], [{ file: 'a' }]])
    expect(() => readExplanations(wrong)).toThrow('equivalent.json');
});

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

it('each explanation quotes a line of a file that Stryker mutates', () => {
  const { mutate }: { mutate: string[] } = JSON.parse(read('test/mutation/stryker.config.json'));
  const mutated = globSync(mutate, { cwd: ROOT });
  expect(mutated).toContain('src/domain/verdict/round.ts');
  const stale = readExplanations(JSON.parse(read('test/mutation/equivalent.json'))).filter(
    ({ file, code }) =>
      !mutated.includes(file) ||
      !read(file)
        .split('\n')
        .some((line) => line.trim() === code),
  );
  expect(stale).toEqual([]);
});

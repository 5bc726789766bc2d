/** What a mutation run comes to: dev/mutation.ts over a report of Stryker's. */
import { readExplanations, readReport, scoreOf } from '../../../dev/mutation';

const report = (...mutants: { line: number; status: string; replacement?: string }[]) => ({
  files: {
    'src/domain/a.ts': {
      source: 'const a = 1;\n  if (a > 0) return;\n',
      mutants: mutants.map(({ line, ...more }) => ({ location: { start: { line, column: 1 } }, ...more })),
    },
  },
});
const explained = {
  file: 'src/domain/a.ts',
  code: 'if (a > 0) return;',
  replacements: ['a >= 0'],
  why: 'a is never 0',
};

it('a mutant that no test notices is a problem unless it is explained', () => {
  const mutants = readReport(
    report(
      { line: 1, status: 'Killed', replacement: '2' },
      { line: 1, status: 'Timeout', replacement: '3' },
      { line: 1, status: 'RuntimeError', replacement: '4' },
      { line: 2, status: 'Survived', replacement: 'a >= 0' },
      { line: 2, status: 'NoCoverage', replacement: 'true' },
    ),
  );
  expect(scoreOf(mutants, [explained])).toEqual({
    total: 4,
    noticed: 2,
    explained: 1,
    problems: ['src/domain/a.ts:2 survives: if (a > 0) return; -> true'],
  });
});

it('an explanation of what no longer survives is a problem', () => {
  const mutants = readReport(report({ line: 2, status: 'Killed', replacement: 'a >= 0' }));
  expect(scoreOf(mutants, [explained]).problems).toEqual([
    'test/mutation/equivalent.json explains what does not survive: if (a > 0) return; -> a >= 0',
  ]);
});

it('what has another form is refused', () => {
  for (const wrong of [null, {}, { files: { a: {} } }, { files: { a: { source: '', mutants: [{}] } } }])
    expect(() => readReport(wrong)).toThrow('the report');
  for (const wrong of [{}, [1], [{ file: 'a' }]])
    expect(() => readExplanations(wrong)).toThrow('equivalent.json');
});

/**
 * All tests of src/domain as one file, so that a mutant loads the modules once and not once a file, and ends at the first test that
 * notices it. Only for the mutation run (test/mutation/jest.config.js).
 */
const { readdirSync } = require('node:fs');
const { join } = require('node:path');
const fc = require('fast-check');

/** What measures time says nothing of a mutant, and what reads docs/ and dev/ tests no rule. */
const LEFT_OUT = ['cost.test.ts', 'rules-tests.test.ts'];
/** Where most mutants fail first: the closed lists and tables, which every test depends on. */
const FIRST = ['verdict.test.ts', 'schema.test.ts', 'money.test.ts', 'examples.test.ts'];

// A counterexample is enough to notice a mutant; the smallest one is for people.
fc.configureGlobal({ endOnFailure: true, numRuns: 100 });

let isNoticed = false;
const untilNoticed =
  (test) =>
  (...args) => {
    if (isNoticed) return;
    try {
      test(...args);
    } catch (error) {
      isNoticed = true;
      throw error;
    }
  };

const jestIt = globalThis.it;
const it = (title, test) => jestIt(title, untilNoticed(test));
it.each = (table) => (title, test) => jestIt.each(table)(title, untilNoticed(test));
globalThis.it = it;

const folder = join(__dirname, '../unit/domain');
const files = readdirSync(folder).filter((file) => file.endsWith('.test.ts') && !LEFT_OUT.includes(file));
const inOrder = [...FIRST, ...files.filter((file) => !FIRST.includes(file))];
for (const file of inOrder) {
  describe(file, () => {
    require(join(folder, file));
  });
}

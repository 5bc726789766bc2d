/** The order of test files in a run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';

const Sequencer = require('../support/sequencer.js');
const LONGEST: readonly string[] = Sequencer.LONGEST;
const pathOf = (name: string): string => join(ROOT, 'test', `${name}.test.ts`);

test('the longest files exist', () => {
  expect(LONGEST.filter((name) => !existsSync(pathOf(name)))).toEqual([]);
});

test('the longest files come first, then the others by their size', () => {
  const others = ['unit/lib/semaphore', 'unit/domain/event/fast-scan'];
  const tests = [...others, ...LONGEST.toReversed()].map((name) => ({ path: pathOf(name) }));
  const sorted: readonly { readonly path: string }[] = new Sequencer().sort(tests);
  expect(sorted.map(({ path }) => path)).toEqual([...LONGEST, ...others.toReversed()].map(pathOf));
});

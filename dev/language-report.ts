/**
 * `node build/dev/language-report.js PATH...` prints each comment and each line of a document below these
 * paths that breaks the rules of plain English (dev/language.ts). It exits with 1 where there is one.
 */
import { problemsBelow } from './language';

function main(paths: readonly string[]): number {
  const problems = paths.flatMap((path) => problemsBelow('.', path));
  for (const problem of problems) console.log(problem);
  console.log(`${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

if (process.argv.length < 3) {
  console.error('usage: node build/dev/language-report.js PATH...');
  process.exitCode = 2;
} else process.exitCode = main(process.argv.slice(2));

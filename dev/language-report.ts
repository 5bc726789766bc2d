/**
 * `node build/dev/language-report.js PATH...` prints each comment and each line of a document below these
 * paths that breaks the rules of plain English (dev/language.ts). It exits with 1 where there is one.
 */
import { readFileSync } from 'node:fs';
import { checkText, filesBelow } from './language';

function main(paths: readonly string[]): number {
  const problems = paths
    .flatMap((path) => filesBelow('.', path))
    .flatMap((path) => {
      return checkText(path, readFileSync(path, 'utf8')).map(
        ({ line, message }) => `${path}:${line}: ${message}`,
      );
    });
  for (const problem of problems) console.log(problem);
  console.log(`${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

if (process.argv.length < 3) {
  console.error('usage: node build/dev/language-report.js PATH...');
  process.exitCode = 2;
} else process.exitCode = main(process.argv.slice(2));

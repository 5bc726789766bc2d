/**
 * `node build/dev/language-report.js PATH...` prints each comment and each line of a document below these
 * paths that breaks the rules of plain English (dev/language.ts). It exits with 1 where there is one.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { checkComments, checkDocument } from './language';

function filesBelow(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .map((name) => join(path, name))
    .filter((name) => /\.(ts|md)$/.test(name))
    .sort();
}

function main(paths: readonly string[]): number {
  const problems = paths.flatMap(filesBelow).flatMap((path) => {
    const text = readFileSync(path, 'utf8');
    const found = path.endsWith('.ts') ? checkComments(text) : checkDocument(text);
    return found.map(({ line, message }) => `${path}:${line}: ${message}`);
  });
  for (const problem of problems) console.log(problem);
  console.log(`${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

if (process.argv.length < 3) {
  console.error('usage: node build/dev/language-report.js PATH...');
  process.exitCode = 2;
} else process.exitCode = main(process.argv.slice(2));

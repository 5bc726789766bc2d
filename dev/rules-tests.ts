/**
 * The tests of a rule: `node build/dev/rules-tests.js U9` prints each title that cites it, and the mutants
 * that break it. It needs no run.
 *
 * The tests of all rules: `node build/dev/rules-tests.js [JEST_RESULTS...]` reads the output of `jest --json
 * --outputFile=...` and writes build/rules-tests.md. The default files are those of `make test`.
 *
 * The second form lists the problems and exits with 1 in three cases. A line of dev/catalogue/rules.ts has no
 * passed test in the required place. A test cites a tag that no line has. Or docs/rules.md and
 * dev/catalogue/rules.ts differ.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CHAPTERS, type Chapter, REQUIREMENTS, type Requirement } from './catalogue/rules';
import { RUN_RESULTS, readJestTests } from './jest-results';
import { readMutants } from './mutants';
import { citationsOf, RULE, splitTitle } from './title-tags';

const RULES = join('docs', 'rules.md');
const OUTPUT = join('build', 'rules-tests.md');
const USAGE_EXIT_CODE = 2;
/** Requirements that are proven by `domain` have a test here. */
const DOMAIN_TESTS = 'test/unit/domain/';
/** The many generated cases of one rule would hide all others. */
const MAX_TESTS_SHOWN = 12;

/** A test that passed, and its tags. */
export interface Cited {
  /** Path from the project's root, with slashes. */
  readonly file: string;
  readonly name: string;
  readonly tags: readonly string[];
}

/**
 * The tests that passed.
 * @throws Error if the file is not one of Jest's
 */
export function readCited(json: unknown, root: string): Cited[] {
  return readJestTests(json, root)
    .filter(({ status }) => status === 'passed')
    .map(({ file, titles }) => {
      const parts = titles.map(splitTitle);
      return {
        file,
        name: parts.map(({ text }) => text).join(': '),
        tags: [...new Set(parts.flatMap(({ tags }) => tags))],
      };
    });
}

// --- problems

/** A sentence for each problem. */
export function problemsOf(
  requirements: readonly Requirement[],
  tests: readonly Cited[],
  rules: string,
): string[] {
  const cited = new Set(tests.flatMap(({ tags }) => tags));
  const inDomain = tests.filter(({ file }) => file.startsWith(DOMAIN_TESTS));
  const citedInDomain = new Set(inDomain.flatMap(({ tags }) => tags));
  const known = new Set(requirements.map(({ tag }) => tag));
  const numbered = new Set([...rules.matchAll(/^- \*\*([A-Z]\d+)\*\*/gm)].flatMap(([, rule]) => rule ?? []));
  const listed = requirements.map(({ tag }) => tag).filter((tag) => RULE.test(tag));
  return [
    ...requirements
      .filter(({ tag, proof }) => proof !== 'open' && !cited.has(tag))
      .map(({ tag, label, proof }) => `[${tag}] ${label}: no test passed (${proof})`),
    ...requirements
      .filter(({ tag, proof }) => proof === 'domain' && cited.has(tag) && !citedInDomain.has(tag))
      .map(({ tag, label }) => `[${tag}] ${label}: no test in ${DOMAIN_TESTS} passed, others did`),
    ...requirements
      .filter(({ tag, proof }) => proof === 'open' && cited.has(tag))
      .map(({ tag }) => `[${tag}] has a test: take "open" out of dev/catalogue/rules.ts`),
    ...tests.flatMap(({ file, name, tags }) =>
      tags
        .filter((tag) => !known.has(tag))
        .map((tag) => `[${tag}] is not in dev/catalogue/rules.ts; cited in ${file} by "${name}"`),
    ),
    ...[...numbered]
      .filter((rule) => !known.has(rule))
      .map((rule) => `[${rule}] is in ${RULES}, not in dev/catalogue/rules.ts`),
    ...listed
      .filter((rule) => !numbered.has(rule))
      .map((rule) => `[${rule}] is in dev/catalogue/rules.ts, not in ${RULES}`),
    ...requirements
      .filter(({ tag }, index) => requirements.findIndex((other) => other.tag === tag) !== index)
      .map(({ tag }) => `[${tag}] is in dev/catalogue/rules.ts twice`),
  ];
}

// --- the page

export function render(chapters: readonly Chapter[], tests: readonly Cited[]): string {
  const testsOf = new Map<string, Cited[]>();
  for (const test of tests)
    for (const tag of test.tags) testsOf.set(tag, [...(testsOf.get(tag) ?? []), test]);
  const lines = [
    '# Which tests prove which rule',
    '',
    'Written by `make test` from the tests that ran and passed. The file `dev/catalogue/rules.ts` lists what needs a test.',
    'Tests cite it in brackets at the end of their titles.',
  ];
  for (const { title, requirements } of chapters) {
    lines.push('', `## ${title}`);
    for (const { tag, label, proof } of requirements)
      lines.push('', `### ${tag}: ${label}`, '', ...renderTests(testsOf.get(tag) ?? [], proof === 'open'));
  }
  return `${lines.join('\n')}\n`;
}

function renderTests(tests: readonly Cited[], isOpen: boolean): string[] {
  if (tests.length === 0) return [isOpen ? 'Not part of this yet.' : '**No test.**'];
  const files = [...new Set(tests.map(({ file }) => file))].sort();
  // Each file gets its share, so that the cases of one file do not hide another.
  const share = Math.max(2, Math.floor(MAX_TESTS_SHOWN / files.length));
  return files.flatMap((file) => {
    const names = [...new Set(tests.filter((test) => test.file === file).map(({ name }) => name))];
    const more = names.length - share;
    return [
      `- \`${file}\``,
      ...names.slice(0, share).map((name) => `  - ${printable(name)}`),
      ...(more > 0 ? [`  - and ${more} more`] : []),
    ];
  });
}

/** Titles quote test inputs, which may look like markup or hold characters that break a line. */
function printable(name: string): string {
  const shown = name.length > 200 ? `${name.slice(0, 200)}…` : name;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
  return shown.replace(/[\u0000-\u001f\u007f\ud800-\udfff]+/g, '·').replace(/[\\`*_<>|[\]]/g, '\\$&');
}

// --- the commands

/** The tests and the mutants of a rule, by place. */
function printTestsOf(tag: string, root: string): number {
  const requirement = REQUIREMENTS.find((each) => each.tag === tag);
  if (requirement === undefined) {
    console.error(`there is no rule ${tag}: docs/rules.md has the numbers, dev/catalogue/rules.ts all tags`);
    return USAGE_EXIT_CODE;
  }
  console.log(`${tag}: ${requirement.label}`);
  for (const { place, title } of citationsOf(tag, root)) console.log(`${place}  ${title}`);
  for (const { name } of readMutants(root).filter(({ breaks }) => breaks.includes(tag)))
    console.log(`test/mutants/${name}.diff`);
  return 0;
}

/** @returns 1 if there is a problem */
function checkResults(paths: readonly string[], root: string): number {
  const tests = paths.flatMap((path) => readCited(JSON.parse(readFileSync(path, 'utf8')), root));
  const problems = problemsOf(REQUIREMENTS, tests, readFileSync(join(root, RULES), 'utf8'));
  mkdirSync(dirname(join(root, OUTPUT)), { recursive: true });
  writeFileSync(join(root, OUTPUT), render(CHAPTERS, tests));
  console.log(`wrote ${OUTPUT}`);
  for (const problem of problems) console.error(problem);
  console.log(`${tests.length} tests passed, ${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

function main(given: readonly string[]): number {
  const root = process.cwd();
  const [first] = given;
  if (first === undefined) return checkResults(Object.values(RUN_RESULTS), root);
  return first.endsWith('.json') ? checkResults(given, root) : printTestsOf(given.join(' '), root);
}

if (require.main === module) process.exitCode = main(process.argv.slice(2));

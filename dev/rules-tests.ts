/**
 * Which tests prove which rule: `node build/dev/rules-tests.js [--only domain] [JEST_RESULTS...]` reads what `jest --json --outputFile=...`
 * wrote (build/jest-results.json unless told), and writes docs/rules-tests.md. Exits 1 and lists what is missing where a line of
 * test/rules.ts has no test that passed, where a test cites a tag that no line has, and where docs/rules.md and test/rules.ts differ.
 *
 * `--only domain` looks at what test/unit/domain proves, and writes nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { CHAPTERS, type Chapter, type Requirement } from '../test/rules';

const DEFAULT_RESULTS = join('build', 'jest-results.json');
const RULES = join('docs', 'rules.md');
const OUTPUT = join('docs', 'rules-tests.md');
/** A rule that hundreds of generated cases prove would hide all others. */
const MAX_TESTS_SHOWN = 12;

/** A test that passed, with what it cites. */
export interface Cited {
  /** Path from the project's root, with slashes. */
  readonly file: string;
  readonly name: string;
  readonly tags: readonly string[];
}

// --- tags in titles

/** `[V4]`, `[C5 S4]`, `[2.3 zero string]`, `[R3 refund once]` at the end of a title; any other bracket is text. */
const TRAILING_BRACKET = /\s*\[([^[\]]*)\]\s*$/;
const RULE = /^[A-Z]\d+$/;
const ROW = /^(\d(\.\d)?|[A-Z]\d+) [^\s,].*$/;

/** The title without its tags, and the tags. */
export function splitTitle(title: string): { text: string; tags: string[] } {
  const tags: string[] = [];
  let text = title;
  for (;;) {
    const inside = TRAILING_BRACKET.exec(text)?.[1];
    const found = inside === undefined ? undefined : tagsIn(inside);
    if (found === undefined) return { text: text.trim(), tags };
    tags.unshift(...found);
    text = text.replace(TRAILING_BRACKET, '');
  }
}

function tagsIn(inside: string): string[] | undefined {
  const words = inside.split(/,?\s+/);
  if (words.every((word) => RULE.test(word))) return words;
  return ROW.test(inside) ? [inside] : undefined;
}

// --- what Jest wrote

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

/**
 * The tests that passed.
 * @throws Error where the file is not one of Jest's
 */
export function readCited(json: unknown, root: string): Cited[] {
  if (!isRecord(json) || !Array.isArray(json.testResults)) throw new Error('no list of results of Jest');
  return json.testResults.flatMap((file: unknown) => {
    if (!isRecord(file) || typeof file.name !== 'string' || !Array.isArray(file.assertionResults))
      throw new Error('a result without name or tests');
    const path = relative(root, file.name).split(sep).join('/');
    return file.assertionResults.flatMap((test: unknown) => readTest(path, test));
  });
}

function readTest(file: string, test: unknown): Cited[] {
  if (!isRecord(test) || typeof test.title !== 'string' || !Array.isArray(test.ancestorTitles))
    throw new Error('a test without title');
  if (test.status !== 'passed') return [];
  const parts = [...test.ancestorTitles, test.title].map((title) => splitTitle(String(title)));
  return [
    {
      file,
      name: parts.map(({ text }) => text).join(': '),
      tags: [...new Set(parts.flatMap(({ tags }) => tags))],
    },
  ];
}

// --- what is missing

/** A sentence for each thing that is wrong. */
export function problemsOf(
  requirements: readonly Requirement[],
  tests: readonly Cited[],
  rules: string,
): string[] {
  const cited = new Set(tests.flatMap(({ tags }) => tags));
  const known = new Set(requirements.map(({ tag }) => tag));
  const numbered = new Set([...rules.matchAll(/^- \*\*([A-Z]\d+)\*\*/gm)].flatMap(([, rule]) => rule ?? []));
  const listed = requirements.map(({ tag }) => tag).filter((tag) => RULE.test(tag));
  return [
    ...requirements
      .filter(({ tag, proof }) => proof !== 'open' && !cited.has(tag))
      .map(({ tag, label, proof }) => `[${tag}] ${label}: no test passed (${proof})`),
    ...requirements
      .filter(({ tag, proof }) => proof === 'open' && cited.has(tag))
      .map(({ tag }) => `[${tag}] has a test: take "open" out of test/rules.ts`),
    ...tests.flatMap(({ file, name, tags }) =>
      tags
        .filter((tag) => !known.has(tag))
        .map((tag) => `[${tag}] is not in test/rules.ts; cited in ${file} by "${name}"`),
    ),
    ...[...numbered]
      .filter((rule) => !known.has(rule))
      .map((rule) => `[${rule}] is in ${RULES}, not in test/rules.ts`),
    ...listed
      .filter((rule) => !numbered.has(rule))
      .map((rule) => `[${rule}] is in test/rules.ts, not in ${RULES}`),
    ...requirements
      .filter(({ tag }, index) => requirements.findIndex((other) => other.tag === tag) !== index)
      .map(({ tag }) => `[${tag}] is in test/rules.ts twice`),
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
    'Generated by `node build/dev/rules-tests.js` from the tests that ran and passed, after `make test`. The list of what needs a test is',
    '`test/rules.ts`; tests cite it in brackets at the end of their titles.',
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
  // Each file gets its share, so that the cases of one do not hide another.
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

/** Titles hold what a test sends, which may look like markup or hold characters that break a line. */
function printable(name: string): string {
  const shown = name.length > 200 ? `${name.slice(0, 200)}…` : name;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
  return shown.replace(/[\u0000-\u001f\u007f\ud800-\udfff]+/g, '·').replace(/[\\`*_<>|[\]]/g, '\\$&');
}

// --- the command

function main(args: readonly string[]): number {
  const root = process.cwd();
  const only = args.includes('--only') ? args[args.indexOf('--only') + 1] : undefined;
  const given = args.filter((arg, index) => arg !== '--only' && args[index - 1] !== '--only');
  const tests = (given.length > 0 ? given : [DEFAULT_RESULTS]).flatMap((path) =>
    readCited(JSON.parse(readFileSync(path, 'utf8')), root),
  );
  const rules = readFileSync(join(root, RULES), 'utf8');
  const all = problemsOf(
    CHAPTERS.flatMap(({ requirements }) => requirements),
    tests,
    rules,
  );
  const problems = only === undefined ? all : all.filter((problem) => !problem.endsWith('(elsewhere)'));
  if (only === undefined) {
    writeFileSync(join(root, OUTPUT), render(CHAPTERS, tests));
    console.log(`wrote ${OUTPUT}`);
  }
  for (const problem of problems) console.error(problem);
  console.log(`${tests.length} tests passed, ${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

if (require.main === module) process.exitCode = main(process.argv.slice(2));

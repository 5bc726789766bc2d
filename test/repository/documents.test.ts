/** The documents that a newcomer reads first: their length, their figures, their paths and their links. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { COMMANDS } from '../../src/cli';

const README_LINES = 110;
const RECORDS = readdirSync(join(ROOT, 'docs/adr')).map((name) => `docs/adr/${name}`);
const RECORD_LINES = 45;
/** Directories with documents of ours. */
const DIRECTORIES = ['docs', 'schemas', 'helm', 'test', 'dev'];
const PAGES = documentsBelow('docs');
const DOCUMENTS = [
  ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
  ...DIRECTORIES.flatMap(documentsBelow),
];
/** Files that name documents in comments, help, errors and annotations. */
const NAMING = [
  ...['src', 'dev', 'helm', 'migrations', 'schemas'].flatMap((directory) => filesOf(directory)),
  ...DOCUMENTS,
];
/** Figures of the README are copies of measured ones. */
const FIGURES = 'docs/performance.md';

function filesOf(directory: string): string[] {
  return readdirSync(join(ROOT, directory), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .sort();
}

function documentsBelow(directory: string): string[] {
  return filesOf(directory).filter((path) => path.endsWith('.md'));
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

function withoutCode(markdown: string): string {
  return markdown.replaceAll(/^```.*?^```/gms, '');
}

/** Paths in backticks: from the root, with a slash or an extension of a file of ours. */
function pathsOf(markdown: string): string[] {
  const quoted = [...withoutCode(markdown).matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);
  return quoted.filter(
    (text) =>
      /^\.?[\w-][\w./-]*$/.test(text) &&
      (/^(src|test|dev|docs|schemas|migrations|helm)\//.test(text) ||
        /\.(ts|md|json|js|yaml|nvmrc)$/.test(text)),
  );
}

/** Paths of sources in the diagrams: from src. */
function drawnIn(markdown: string): string[] {
  return [...markdown.matchAll(/^```mermaid\n(.*?)^```/gms)].flatMap(([, diagram = '']) =>
    [...diagram.matchAll(/[\w/-]+\.ts\b/g)].map(([path]) => `src/${path}`),
  );
}

/** GitHub's anchor of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function anchorsOf(path: string): string[] {
  return [...withoutCode(read(path)).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading));
}

/** Whether a path from the root, with or without an anchor, leads to a file and to a heading of it. */
function leadsSomewhere(target: string): boolean {
  const [file = '', anchor] = target.split('#');
  if (!existsSync(join(ROOT, file))) return false;
  return anchor === undefined || anchorsOf(file).includes(anchor);
}

function linksOf(markdown: string): string[] {
  return [...withoutCode(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
}

/** The target of a link of a document, as a path from the root. */
function targetOf(path: string, link: string): string {
  return link.startsWith('#') ? `${path}${link}` : join(dirname(path), link);
}

/** The links without a file, or without a heading in it. */
function brokenLinks(path: string, markdown = read(path)): string[] {
  return linksOf(markdown).filter((link) => !/^[a-z]+:/.test(link) && !leadsSomewhere(targetOf(path, link)));
}

/** Our commands that a document runs, each from its name to the end of the line or of the code. */
function commandsOf(markdown: string): string[] {
  const matches = markdown.matchAll(/(?:^ *|`|\$ |[A-Z_]=\S+ )promo-intake ([^`\n|;<#)]+)/gm);
  return [...matches].map(([, command = '']) => command.trim());
}

/** The parts of a command line that our program does not know. */
function unknownParts(line: string): string[] {
  const command = COMMANDS.filter(({ name }) => line === name || line.startsWith(`${name} `)).sort(
    (a, b) => b.name.length - a.name.length,
  )[0];
  if (command === undefined) return [line];
  const known = Object.keys(command.options).map((name) => `--${name}`);
  return (line.match(/(?<= )--[\w-]+/g) ?? []).filter((option) => !['--help', ...known].includes(option));
}

/** Documents that a text names by their path from the root, such as docs/runbook.md#promointakelag. */
function namedDocuments(text: string): string[] {
  return [...text.matchAll(/(?<![\w./-])docs\/[\w/-]+\.md(?:#[a-z0-9_-]+)?/g)].map(([path]) => path);
}

test(`the README has at most ${README_LINES} lines`, () => {
  expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(README_LINES);
});

test(`each figure of the README is one of ${FIGURES}`, () => {
  const section = /^## Three figures\n(.*?)^## /ms.exec(read('README.md'))?.[1] ?? '';
  const figures = [...section.matchAll(/\d[\d,.]* (?:x|ms|MiB)|\d+,\d{3}/g)].map(([figure]) => figure);
  expect(figures.length).toBeGreaterThanOrEqual(5);
  expect(figures.filter((figure) => !read(FIGURES).includes(figure))).toEqual([]);
});

const FIGURES_LINES = 300;

test(`${FIGURES} has at most ${FIGURES_LINES} lines, and begins with six numbers and a formula`, () => {
  const text = read(FIGURES);
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(FIGURES_LINES);
  const [first = '', second = ''] = text.split(/^## /m).slice(1);
  expect(first.match(/^\| (?!-)[^|]/gm)).toHaveLength(7);
  expect(second).toMatch(/^Sizing\n.*`E \* [\d.]+ \/ 600,000`/s);
});

test('a document shows every committed result of the benchmark', () => {
  const pages = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' });
  const documents = pages.filter((page) => page.endsWith('.md')).map((page) => read(`docs/${page}`));
  const shown = readdirSync(join(ROOT, 'docs/performance')).filter(
    (name) => !documents.some((text) => text.includes(`performance/${name})`)),
  );
  expect(shown).toEqual([]);
});

test.each(['ARCHITECTURE.md', 'CONTRIBUTING.md'])('every path that %s names exists', (path) => {
  const paths = pathsOf(read(path));
  expect(paths.length).toBeGreaterThan(20);
  expect(paths.filter((each) => !existsSync(join(ROOT, each)))).toEqual([]);
});

test('docs/contract.md leads from each section of the contract to code that exists', () => {
  const rows = [...read('docs/contract.md').matchAll(/^\| (\d(?:\.\d)?) \|.*$/gm)];
  expect(rows.map(([, section]) => section)).toEqual([
    ...['1', '2.1', '2.2', '2.3', '2.4', '2.5', '2.6', '2.7', '2.8', '3.1', '3.2', '4.1', '4.2', '4.3'],
    ...['5', '6.1', '6.2', '7.1', '7.2', '7.3', '8', '9'],
  ]);
  for (const [row, section] of rows) {
    const paths = pathsOf(row);
    expect([section, paths.filter((path) => !existsSync(join(ROOT, path)))]).toEqual([section, []]);
    expect([section, paths.length > 0]).toEqual([section, section !== '2.8']);
    const numbers = (row.split('|').at(-2) ?? '').match(/[A-Z]\d+/g) ?? [];
    expect(numbers.filter((number) => !read('docs/rules.md').includes(`- **${number}** `))).toEqual([]);
  }
});

test.each(RECORDS)('%s is one page, and every path that it names exists', (path) => {
  const text = read(path);
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(RECORD_LINES);
  const paths = pathsOf(text).filter((each) => each.includes('/'));
  expect(paths.filter((each) => !existsSync(join(ROOT, each)))).toEqual([]);
});

test('the index has every decision record', () => {
  const names = RECORDS.map((path) => basename(path)).filter((name) => name !== 'README.md');
  expect(names.length).toBeGreaterThanOrEqual(12);
  expect(names.filter((name) => !read('docs/adr/README.md').includes(`](${name})`))).toEqual([]);
});

test('every file in the diagrams of ARCHITECTURE.md exists', () => {
  const files = drawnIn(read('ARCHITECTURE.md'));
  expect(files.length).toBeGreaterThan(40);
  expect(files.filter((each) => !existsSync(join(ROOT, each)))).toEqual([]);
});

test.each(DOCUMENTS)('every relative link of %s leads to a file and a heading', (path) => {
  expect(brokenLinks(path)).toEqual([]);
});

test('a link to a missing file or heading is noticed', () => {
  const links = [
    '[a](no-such.md)',
    '[b](README.md#no-such)',
    '[c](#no-such)',
    '[d](README.md)',
    '[e](#versions)',
  ];
  expect(brokenLinks('README.md', links.join('\n'))).toEqual(['no-such.md', 'README.md#no-such', '#no-such']);
});

test('every document that a source, a chart file or a document names exists, with its heading', () => {
  const named = NAMING.flatMap((path) => namedDocuments(read(path)).map((target) => ({ path, target })));
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter(({ target }) => !leadsSomewhere(target))).toEqual([]);
});

/** The index of the pages of each folder; decision records have a test above. */
const INDEXES = [
  ['docs', 'docs/README.md'],
  ['docs/operations', 'docs/operations.md'],
  ['docs/operators', 'docs/operators.md'],
  ['docs/analysts', 'docs/analysts/README.md'],
] as const;

test.each(INDEXES)('every page of %s is in %s', (folder, index) => {
  const indexed = linksOf(read(index)).map((link) => targetOf(index, link).split('#')[0]);
  const pages = PAGES.filter((path) => dirname(path) === folder && path !== index);
  expect(pages.length).toBeGreaterThan(3);
  expect(pages.filter((path) => !indexed.includes(path))).toEqual([]);
});

test('every page is in a folder with an index, and docs/README.md leads to each index', () => {
  const indexed = linksOf(read('docs/README.md')).map((link) => targetOf('docs/README.md', link));
  const folders = new Set(PAGES.map((path) => dirname(path)));
  expect([...folders].filter((folder) => !INDEXES.some(([known]) => known === folder))).toEqual(['docs/adr']);
  const others = [...INDEXES.map(([, index]) => index), 'docs/adr/README.md'].slice(1);
  expect(others.filter((index) => !indexed.includes(index))).toEqual([]);
});

test('a procedure has its time, its needs, its steps, a check of its result, and a way back', () => {
  const parts = ['When', 'You need', 'Steps', 'How to see that it worked', 'How to go back'];
  const procedures = documentsBelow('docs/operations').flatMap((path) =>
    read(path)
      .split(/^## /m)
      .filter((section) => section.includes('**When.**'))
      .map((section) => ({
        section: `${path}: ${section.split('\n', 1)[0]}`,
        parts: [...section.matchAll(/^\*\*([A-Z][a-z ]+)\.\*\*/gm)]
          .map(([, part = '']) => part)
          .filter((part) => parts.includes(part)),
      })),
  );
  expect(procedures.length).toBeGreaterThan(12);
  expect(procedures).toEqual(procedures.map(({ section }) => ({ section, parts })));
});

test('every command that a document runs exists, with its options', () => {
  const runs = DOCUMENTS.flatMap((path) => commandsOf(read(path)).map((line) => ({ path, line })));
  expect(runs.length).toBeGreaterThan(60);
  const named = runs.filter(
    ({ line }) => /^[a-z]/.test(line) && !/^(is|reads|does|brings|takes) /.test(line),
  );
  expect(named.filter(({ line }) => unknownParts(line).length > 0)).toEqual([]);
  expect(unknownParts('status --chek')).toEqual(['--chek']);
});

test('every log message that the runbook looks for is in a source', () => {
  const sources = filesOf('src').map(read).join('\n');
  const messages = [...read('docs/runbook.md').matchAll(/^logs '([^']+)'/gm)].map(
    ([, message = '']) => message,
  );
  expect(messages.length).toBeGreaterThan(8);
  expect(messages.filter((message) => !sources.includes(message))).toEqual([]);
});

test('the table of migrations has a row for each, in their order', () => {
  const rows = [...read('docs/operations/migrations.md').matchAll(/^\| (\d{4}_\w+) \|/gm)].map(
    ([, name]) => name,
  );
  expect(rows).toEqual(filesOf('migrations').map((path) => basename(path, '.sql')));
});

test('.nvmrc names the Node that the tests run on', () => {
  const { optionalDependencies } = JSON.parse(read('package.json'));
  const nodes = Object.entries(optionalDependencies).filter(([name]) => name.startsWith('node-'));
  expect(nodes.length).toBeGreaterThan(0);
  expect(new Set(nodes.map(([, version]) => version))).toEqual(new Set([read('.nvmrc').trim()]));
});

/** The name that `make image` gives the image. */
function builtImage(...settings: string[]): string {
  const recipe = execFileSync('make', ['-n', 'image', ...settings], { cwd: ROOT, encoding: 'utf8' });
  return / --tag '([^']+)'/.exec(recipe)?.[1] ?? '';
}

/** The images that a document runs. Not those of a registry, which has a name of its own. */
function imagesRunIn(markdown: string): string[] {
  const lines = markdown.split('\n').filter((line) => /docker run .*--|GenericContainer\(/.test(line));
  return lines.flatMap((line) => line.match(/(?<![\w./-])promo-intake(?::[\w.-]+)?(?=[\s'`]|$)/g) ?? []);
}

test('every image that a document runs is one that `make image` makes, by default or by the document', () => {
  const usual = [builtImage(), builtImage('TARGET=try')];
  const runs = DOCUMENTS.flatMap((path) => {
    const made = [...read(path).matchAll(/make image IMAGE=(\S+)/g)].map(([, name = '']) => name);
    return imagesRunIn(read(path)).map((image) => ({
      path,
      image,
      isMade: [...usual, ...made].includes(image),
    }));
  });
  expect(runs.length).toBeGreaterThanOrEqual(4);
  expect(runs.filter(({ isMade }) => !isMade)).toEqual([]);
  expect(imagesRunIn("alias promo-intake='docker run --rm promo-intake'")).toEqual(['promo-intake']);
});

test('every document names the package as npm does', () => {
  const { name, version } = JSON.parse(read('package.json'));
  const archives = DOCUMENTS.flatMap((path) => read(path).match(/\bpromo-intake-\d[\w.-]*\.tgz/g) ?? []);
  expect(new Set(archives)).toEqual(new Set([`${name}-${version}.tgz`]));
});

/** The documents that a newcomer reads first: their length, their figures, their paths and their links. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';

const README_LINES = 110;
const RECORDS = readdirSync(join(ROOT, 'docs/adr')).map((name) => `docs/adr/${name}`);
const RECORD_LINES = 45;
const LINKED = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/README.md', ...RECORDS];
/** Figures of the README are copies of measured ones. */
const FIGURES = 'docs/performance.md';

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

/** The links that lead to no file, or to no heading of it. */
function brokenLinks(path: string): string[] {
  const links = [...withoutCode(read(path)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false;
    const [file = '', anchor] = link.split('#');
    const target = file === '' ? path : join(dirname(path), file);
    if (!existsSync(join(ROOT, target))) return true;
    return anchor !== undefined && !anchorsOf(target).includes(anchor);
  });
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

test.each(['ARCHITECTURE.md', 'CONTRIBUTING.md'])('every path that %s names exists', (path) => {
  const paths = pathsOf(read(path));
  expect(paths.length).toBeGreaterThan(20);
  expect(paths.filter((each) => !existsSync(join(ROOT, each)))).toEqual([]);
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

test.each(LINKED)('every relative link of %s leads to a file and a heading', (path) => {
  expect(brokenLinks(path)).toEqual([]);
});

test('.nvmrc names the Node that the tests run on', () => {
  const { optionalDependencies } = JSON.parse(read('package.json'));
  expect(new Set(Object.values(optionalDependencies))).toEqual(new Set([read('.nvmrc').trim()]));
});

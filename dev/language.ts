/**
 * Checks sources, migrations and documents for plain English. A sentence has at most 25 words, a comment at
 * most 110 columns, and neither holds a word of the list. CONTRIBUTING.md has the rules of writing.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isObject } from '../src/lib/json';
import { parseSource, type SyntaxNode, textOf } from './syntax';

/** Words of a sentence. Code between backticks counts as one word, an address as none. */
const MAX_WORDS = 25;
const MAX_COLUMNS = 110;

/** Words that make a sentence hard to read, with the advice for each. */
const AVOIDED: readonly { readonly words: RegExp; readonly advice: string }[] = [
  { words: /\b(told|tells?)\b/i, advice: 'name who reports, logs, answers or returns' },
  { words: /\banew\b/i, advice: 'again, or create' },
  { words: /\bmend(s|ed|ing)?\b/i, advice: 'correct, repair or resolve' },
  { words: /\bstands\b/i, advice: 'is, or name the state' },
  { words: /\bwho(so)?ever\b/i, advice: 'name the reader, the operator or the process' },
  {
    words:
      /\b(of|to|for|by|than|and|or|but) what\b|(^|[.:;,] )what (is|was|has|it|they|came|comes|one|a|the)\b/i,
    advice: 'name the noun',
  },
  {
    words: /\b(that|this) of (that|these|those|whom)\b|\bof (those|them) of which\b/i,
    advice: 'name the noun again',
  },
  { words: /\bso (many|much|long|far) (of|that it|as it)\b/i, advice: 'give the number its name' },
];

export interface LanguageProblem {
  readonly line: number;
  readonly message: string;
}

interface Passage {
  /** The line where it begins, from 1. */
  readonly line: number;
  readonly text: string;
}

/** Sources and documents at a path from the root: the file itself, or all below the directory. */
export function filesBelow(root: string, path: string): string[] {
  if (!statSync(join(root, path)).isDirectory()) return [path];
  return readdirSync(join(root, path), { recursive: true, encoding: 'utf8' })
    .map((name) => join(path, name))
    .filter((name) => /\.(ts|md|sql)$/.test(name))
    .sort();
}

/** Its texts are examples of problems. */
const EXAMPLES_OF_PROBLEMS = join('test', 'repository', 'language.test.ts');

/** The problems of all files at a path from the root, each with its place. */
export function problemsBelow(root: string, path: string): string[] {
  return filesBelow(root, path).flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8');
    const problems = file === EXAMPLES_OF_PROBLEMS ? checkComments(text) : checkFile(join(root, file), text);
    return problems.map(({ line, message }) => `${file}:${line}: ${message}`);
  });
}

/** Problems of a file, by its extension: of a source, a migration, or a document. */
function checkFile(path: string, text: string): LanguageProblem[] {
  if (path.endsWith('.ts')) return [...checkComments(text), ...checkStrings(text)];
  return path.endsWith('.sql') ? checkSql(text, laterMigrations(path)) : checkDocument(text);
}

/** The text of the migrations that run after one. */
function laterMigrations(path: string): string {
  const directory = dirname(path);
  return readdirSync(directory)
    .filter((name) => name.endsWith('.sql') && name > basename(path))
    .map((name) => readFileSync(join(directory, name), 'utf8'))
    .join('\n');
}

/** The begin of a paragraph, an item, a row of a table, or an instruction in capitals. */
const NEW_PASSAGE = /\n{2,}|\n(?=\s*(?:[-*] |[A-Z]{2,} |[^|\n]* \| ))/;

/** The fewest words of a string that is a text for people. */
const MIN_TEXT_WORDS = 3;

/**
 * Whether a text of a source may have a problem, seen without its syntax, which costs ten times the time. A
 * line of code holds a whole text, unless a template goes over several lines or holds another template.
 */
function maySayTooMuch(source: string): boolean {
  const asSentences = source.replaceAll(/['"`>]|\\n/g, '. ');
  return (
    AVOIDED.some(({ words }) => words.test(asSentences)) ||
    /\$\{[^}]*`/.test(source) ||
    source
      .split('\n')
      .some((line) => !isComment(line) && (line.split('`').length % 2 === 0 || hasManyWords(line)))
  );
}

function hasManyWords(line: string): boolean {
  return line.split(/\s+|\\n/).filter((word) => /\w/.test(word)).length > MAX_WORDS;
}

/** Problems of the texts of a TypeScript source: messages, help, titles. A value in a text is one word. */
export function checkStrings(source: string): LanguageProblem[] {
  if (!maySayTooMuch(source)) return [];
  const { nodes, lineOf } = parseSource(source);
  return nodes.flatMap((node) => {
    const text = textOf(node) ?? textOfTemplate(node);
    if (text === undefined || isSql(text) || isStyleSheet(text)) return [];
    if (wordsOf(text).length < MIN_TEXT_WORDS) return [];
    const line = lineOf(node);
    const prose = text.startsWith('--') ? sqlComments(text) : withoutTags(text);
    return prose.split(NEW_PASSAGE).flatMap((part) => checkPassage({ line, text: part }));
  });
}

function textOfTemplate(node: SyntaxNode): string | undefined {
  if (node.type !== 'TemplateLiteral' || !Array.isArray(node.quasis)) return undefined;
  return node.quasis.map((quasi) => (isObject(quasi) ? String(quasi.cooked) : '')).join('value');
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter((word) => /[a-z]{2}/.test(word));
}

function isSql(text: string): boolean {
  return /^\s*(select|insert|update|delete|with|create|alter|grant|revoke|lock|copy|explain|drop|set|do)\b(?:[^.]|\.(?=\S))*\b(from|into|set|select|as|table|on|local|values|begin)\b/i.test(
    text,
  );
}

function isStyleSheet(text: string): boolean {
  return /^[\w:.,#*@ -]+\{ [\w-]+: /.test(text);
}

const INLINE_TAG = /<\/?(a|code|em|small|span|strong|time)( [^<>]*)?>/g;

/** The texts of HTML. Each tag begins a passage, except one within a sentence. */
function withoutTags(text: string): string {
  return text.replace(INLINE_TAG, '').replace(/<\/?[a-z][a-z0-9]*( [^<>]*)?>/g, '\n\n');
}

/** The comments before a statement. */
function sqlComments(text: string): string {
  return text
    .split('\n')
    .flatMap((line) => /^--+ (.*)$/.exec(line)?.[1] ?? [])
    .join(' ');
}

/**
 * Problems of the comments of a migration, and of the comments that it stores on tables and columns. The
 * check leaves out indented statements in a comment, and stored comments that a later migration replaces.
 */
export function checkSql(source: string, later = ''): LanguageProblem[] {
  const lines = source.split('\n');
  const wide = lines.flatMap((line, index) =>
    /^\s*--/.test(line) && line.length > MAX_COLUMNS
      ? [{ line: index + 1, message: `has ${line.length} columns; a comment has at most ${MAX_COLUMNS}` }]
      : [],
  );
  const asComments = lines.map((line) => (/^\s*--(?! {3})/.test(line) ? line.replace(/--+/, '//') : ''));
  const replaced = new Set([...later.matchAll(STORED)].map(({ groups }) => groups?.object));
  const stored = [...source.matchAll(STORED)]
    .filter(({ groups }) => !replaced.has(groups?.object))
    .map(({ index, groups }) => ({
      line: source.slice(0, index).split('\n').length,
      text: groups?.text ?? '',
    }));
  return [...wide, ...[...commentsOf(asComments), ...stored].flatMap(checkPassage)];
}

const STORED = /^comment on (?<object>[^'(]*)(\([^)]*\))? is\s+'(?<text>(?:[^']|'')*)'/gm;

/** Problems of the comments of a TypeScript source. */
export function checkComments(source: string): LanguageProblem[] {
  const lines = source.split('\n');
  const wide = lines.flatMap((line, index) =>
    isComment(line) && line.length > MAX_COLUMNS && !/https?:\/\//.test(line)
      ? [{ line: index + 1, message: `has ${line.length} columns; a comment has at most ${MAX_COLUMNS}` }]
      : [],
  );
  return [...wide, ...commentsOf(lines).flatMap(checkPassage)].sort((a, b) => a.line - b.line);
}

/** Problems of a document: of its paragraphs, lists and headings. Code and tables are left out. */
export function checkDocument(markdown: string): LanguageProblem[] {
  return paragraphsOf(markdown.split('\n')).flatMap(checkPassage);
}

function isComment(line: string): boolean {
  return /^\s*(\/\/|\/\*\*?|\*)/.test(line);
}

/** A passage for each comment, whether it has lines of its own or follows code. */
function commentsOf(lines: readonly string[]): Passage[] {
  const passages: { line: number; text: string }[] = [];
  let open = false;
  for (const [index, line] of lines.entries()) {
    if (!isComment(line)) {
      open = false;
      const behindCode = line.includes(' // ')
        ? /^[^'"`/]*\S[^'"`/]* \/\/ (?<text>.+)$/.exec(line)?.groups?.text
        : undefined;
      if (behindCode !== undefined) passages.push({ line: index + 1, text: behindCode });
      continue;
    }
    const text = line.replace(/^\s*(\/\*\*?|\*\/|\*|\/\/)\s?/, '').replace(/\*\/\s*$/, '');
    const begins =
      /^\s*\/\*/.test(line) || /^\s*@\w+/.test(text) || /^\s*([-*]|\d+\.) /.test(text) || text.trim() === '';
    const last = passages.at(-1);
    if (open && !begins && last !== undefined) last.text += ` ${text.trim()}`;
    else passages.push({ line: index + 1, text: text.trim() });
    open = !line.trimEnd().endsWith('*/');
  }
  return passages;
}

function paragraphsOf(lines: readonly string[]): Passage[] {
  const passages: { line: number; text: string }[] = [];
  let isCode = false;
  let open = false;
  for (const [index, line] of lines.entries()) {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode;
    const text = line.trim();
    if (isCode || text === '' || /^\s*(```|~~~|\||<|#)/.test(line) || (/^ {4,}\S/.test(line) && !open)) {
      open = false;
      continue;
    }
    const begins = /^([-*]|\d+\.) /.test(text);
    const last = passages.at(-1);
    if (open && !begins && last !== undefined) last.text += ` ${text}`;
    else passages.push({ line: index + 1, text: text.replace(/^([-*]|\d+\.) /, '') });
    open = true;
  }
  return passages;
}

function checkPassage({ line, text }: Passage): LanguageProblem[] {
  const plain = text
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/https?:\/\/\S+/g, '')
    .replaceAll(/"[^"]*"/g, 'quotation')
    .replaceAll(/ \[[A-Z]+\d+\]/g, '')
    .replace(/^@(param|returns|throws|deprecated)\b/, '');
  const long = sentencesOf(plain).flatMap((sentence) => {
    const words = sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
    return words > MAX_WORDS
      ? [
          {
            line,
            message: `a sentence of ${words} words, at most ${MAX_WORDS}: ${sentence.slice(0, 60)} ...`,
          },
        ]
      : [];
  });
  const avoided = AVOIDED.flatMap(({ words, advice }) => {
    const found = words.exec(plain)?.[0];
    return found === undefined ? [] : [{ line, message: `"${found.trim()}": ${advice}` }];
  });
  return [...long, ...avoided];
}

function sentencesOf(text: string): string[] {
  return text.split(/(?<=[.!?])\s+(?=[A-Z("`\d])|(?<=:)\s*$/);
}

/**
 * Reads YAML or JSON text into a tree.
 *
 * It checks only rules that hold for every YAML file. The rules of reference data are in
 * src/reference-file/rules.ts.
 */
import { type Document, isAlias, isMap, isScalar, isSeq, parseDocument, type YAMLError } from 'yaml';
import { messageOf } from '../lib/errors';
import { readJsonTree } from './json';
import { childPath, type FaultReport, WHOLE_FILE } from './report';
import { MAX_DEPTH, type Tree, type TreeEntry } from './tree';

/** The most characters of a file. Parsing takes about a second for a million. */
export const MAX_LENGTH = 16 * 1024 * 1024;
/** The remedy for a longer file. */
export const SHORTER = 'Shorten long lists, or deny games instead of allowing many.';
/**
 * The most nodes that all aliases of a file may expand to. A few lines of nested aliases can expand to
 * billions.
 */
export const MAX_ALIASED = 100_000;

/**
 * Reads one document of YAML 1.2, of which JSON is a part. No text makes it throw or run without limit; it
 * reports the parts that it cannot read.
 *
 * @param text without a byte order mark
 * @param whenEmpty the remedy for a file without data
 * @returns undefined where the text is not YAML. Its structure would be a guess, and faults in a guess would
 * mislead
 */
export function readTree(
  text: string,
  fileName: string,
  report: FaultReport,
  whenEmpty: string,
): Tree | undefined {
  if (text.length > MAX_LENGTH) {
    const message = `${fileName} has ${text.length} characters; the limit is ${MAX_LENGTH}.`;
    report.add(WHOLE_FILE, message, SHORTER);
    return undefined;
  }
  if (reportControlCharacters(text, report)) return undefined;
  const json = readJsonTree(text);
  // A text of `null` alone is reported below.
  if (json !== undefined && json.kind !== 'leaf') return json;
  const document = parsed(text, report);
  if (document === undefined) return undefined;
  const { yaml } = document.directives;
  if (yaml.explicit && yaml.version === '1.1') {
    const remedy = 'Remove the %YAML line, and write true and false for yes and no.';
    const at = Math.max(0, text.search(/^%YAML/m));
    report.add({ at, path: '' }, 'The file declares YAML 1.1; only YAML 1.2 is supported.', remedy);
    return undefined;
  }
  const root = document.contents;
  if (root === null || (isScalar(root) && root.value === null)) {
    report.add(WHOLE_FILE, `${fileName} holds no data.`, whenEmpty);
    return undefined;
  }
  return new Converter(report).convert(root, 0, '', 0);
}

/** The parser's document; undefined where it reported an error. */
function parsed(text: string, report: FaultReport): Document.Parsed | undefined {
  try {
    const document = parseDocument(text, {
      schema: 'core',
      version: '1.2',
      merge: false,
      resolveKnownTags: false,
      stringKeys: true,
      // Comparing each pair of keys takes quadratic time. The reader of the keys finds equal keys.
      uniqueKeys: false,
      prettyErrors: false,
      logLevel: 'error',
    });
    // The parser recurses. Where it runs out of stack, it reports one error for that level and one for each
    // level around it.
    const tooDeep = document.errors.find((error) => error.code === 'RESOURCE_EXHAUSTION');
    const errors =
      tooDeep === undefined ? worthReporting([...document.errors, ...document.warnings]) : [tooDeep];
    for (const error of errors) reportSyntax(error, report);
    return errors.length === 0 ? document : undefined;
  } catch (error) {
    const message = messageOf(error);
    report.add(WHOLE_FILE, `The parser cannot read the file: ${message}.`, 'Simplify the text.');
    return undefined;
  }
}

/**
 * Reports control characters. YAML allows only tab and line break, but the parser uses some others as marks
 * of its own.
 */
function reportControlCharacters(text: string, report: FaultReport): boolean {
  let first = -1;
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x20 || code === 0x09 || code === 0x0a || code === 0x0d) continue;
    if (first < 0) first = i;
    count++;
  }
  if (first < 0) return false;
  const shown = `U+${text.charCodeAt(first).toString(16).toUpperCase().padStart(4, '0')}`;
  const message = `The text holds ${count} control character${count > 1 ? 's' : ''}, ${shown} first.`;
  const remedy = 'Remove it, or write it inside double quotes as an escape such as "\\u0001".';
  report.add({ at: first, path: '' }, message, remedy);
  return true;
}

const SYNTAX_REMEDIES: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  BAD_DIRECTIVE: 'Remove the line: no directive is needed.',
  BAD_INDENT: 'Indent all entries of a level equally, and close every bracket.',
  MISSING_CHAR: 'Add the missing character.',
  TAB_AS_INDENT: 'Indent with spaces.',
  TAG_RESOLVE_FAILED: 'Remove the tag (the word that begins with "!").',
};
/** Replaces the parser's messages that mention its own functions and options. */
const SYNTAX_MESSAGES: Readonly<
  Partial<Record<YAMLError['code'], readonly [message: string, remedy: string]>>
> = {
  MULTIPLE_DOCS: ['A second document begins here.', 'Keep one document: remove the line "---" or "...".'],
  NON_STRING_KEY: ['The key is not a plain text.', 'Write one word before the colon.'],
  RESOURCE_EXHAUSTION: ['The data is nested too deeply.', 'Close the open brackets.'],
};

/**
 * The errors worth reporting. Once the parser has lost its way, it rejects every further token; only the
 * first one is to be corrected.
 */
function worthReporting(errors: readonly YAMLError[]): YAMLError[] {
  const lost = errors.find((error) => error.code === 'UNEXPECTED_TOKEN');
  return errors.filter((error) => error.code !== 'UNEXPECTED_TOKEN' || error === lost);
}

/**
 * The parser's message without the text that it quotes. A file of events, given by mistake, contains players.
 */
function unquoted(message: string): string {
  return message.replace(/: ".*$/s, '').replace(/[.:]+$/, '');
}

function reportSyntax(error: YAMLError, report: FaultReport): void {
  const [message, remedy] = SYNTAX_MESSAGES[error.code] ?? [
    `The text is not valid YAML: ${unquoted(error.message)}.`,
    SYNTAX_REMEDIES[error.code] ??
      'Correct the YAML at this place; texts with special characters need quotes.',
  ];
  report.add({ at: error.pos[0], path: '' }, message, remedy);
}

/**
 * Turns the parser's nodes into a tree, in the order of the text. An alias means the last anchor of its name
 * before it.
 */
class Converter {
  private readonly anchors = new Map<string, { readonly tree: Tree; readonly size: number } | 'open'>();
  /** The number of nodes of the tree. An aliased node counts each time. */
  private size = 0;
  private aliased = 0;
  private tooManyAliases = false;

  constructor(private readonly report: FaultReport) {}

  /** @param node the parser's node at this place; undefined or null for a key without a value */
  convert(node: unknown, fallbackAt: number, path: string, depth: number): Tree {
    this.size++;
    if (isAlias(node)) return this.follow(node.source, node.range?.[0] ?? fallbackAt, path);
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) {
      return { kind: 'leaf', at: fallbackAt, value: null, source: '' };
    }
    const at = node.range?.[0] ?? fallbackAt;
    if (depth > MAX_DEPTH) {
      return this.fail(at, path, 'The data is nested too deeply.', 'Remove the inner levels.');
    }
    const { anchor } = node;
    if (anchor === undefined) return this.build(node, at, path, depth);
    const before = this.size;
    this.anchors.set(anchor, 'open');
    const tree = this.build(node, at, path, depth);
    this.anchors.set(anchor, { tree, size: this.size - before + 1 });
    return tree;
  }

  private build(node: unknown, at: number, path: string, depth: number): Tree {
    if (isSeq(node)) {
      const items = node.items.map((item, i) => this.convert(item, at, childPath(path, i), depth + 1));
      return { kind: 'list', at, items };
    }
    if (isMap(node)) {
      const entries = node.items.map((pair): TreeEntry => {
        const key = this.convert(pair.key, at, path, depth);
        const text = key.kind === 'leaf' ? String(key.value) : '';
        return {
          key: text,
          keyAt: key.at,
          value: this.convert(pair.value, key.at, childPath(path, text), depth + 1),
        };
      });
      return { kind: 'mapping', at, entries };
    }
    if (!isScalar(node)) return { kind: 'broken', at };
    return { kind: 'leaf', at, value: node.value, source: node.source ?? '' };
  }

  private follow(name: string, at: number, path: string): Tree {
    const anchor = this.anchors.get(name);
    if (anchor === undefined) {
      const remedy = `Put "&${name}" before the value further up, or write the value out.`;
      return this.fail(at, path, `The alias *${name} has no anchor before it.`, remedy);
    }
    if (anchor === 'open') {
      return this.fail(
        at,
        path,
        `The alias *${name} is inside the value that it repeats.`,
        'Write the value out.',
      );
    }
    if (this.aliased + anchor.size > MAX_ALIASED) {
      if (this.tooManyAliases) return { kind: 'broken', at };
      this.tooManyAliases = true;
      const message = `The aliases up to this one repeat more than ${MAX_ALIASED} values.`;
      return this.fail(at, path, message, 'Write the values out, or use aliases for smaller parts.');
    }
    this.aliased += anchor.size;
    this.size += anchor.size;
    return anchor.tree;
  }

  private fail(at: number, path: string, message: string, remedy: string): Tree {
    this.report.add({ at, path }, message, remedy);
    return { kind: 'broken', at };
  }
}

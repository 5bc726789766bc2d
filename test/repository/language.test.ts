import {
  checkComments,
  checkDocument,
  checkSql,
  checkStrings,
  type LanguageProblem,
  problemsBelow,
} from '../../dev/language';
import { projectRoot as ROOT } from '../../dev/servers/download';

/** Directories and files whose comments, texts and documents are checked, with the migrations. */
const CHECKED: readonly string[] = [
  ...['ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'README.md'],
  ...['dev', 'docs', 'migrations', 'schemas', 'src', 'test'],
];
const messagesOf = (problems: readonly LanguageProblem[]): string[] =>
  problems.map(({ line, message }) => `${line}: ${message}`);

// One list a path: a test for each file would cost more than its check.
test.each(CHECKED)('%s is written in plain English', (path) => {
  expect(problemsBelow(ROOT, path)).toEqual([]);
});

describe('a comment', () => {
  const SENTENCE = Array.from({ length: 26 }, (_, index) => `word${index}`).join(' ');

  test.each([
    [
      'with a sentence of 27 words',
      `/** ${SENTENCE.replaceAll('word12', 'word12\n * more')} */`,
      '1: a sentence of 27 words',
    ],
    ['of 111 columns', `// ${'x'.repeat(108)}`, '1: has 111 columns'],
    ['that says told', '// The loop is told.', '1: "told": name who reports'],
    ['behind code', 'const a = 1; // the group decides anew', '1: "anew": again, or create'],
    ['that begins with a noun clause', '// Of what is left, nothing is read.', '1: "Of what": name the noun'],
  ])('%s is reported', (_, source, message) => {
    expect(messagesOf(checkComments(source)).some((found) => found.startsWith(message))).toBe(true);
  });

  test('of two short sentences, with a rule, code and an address, is not', () => {
    const source =
      '/**\n * Retries the commit (docs/rules.md, U1). See `tellSeldom` and https://example.com/told.\n */';
    expect(checkComments(source)).toEqual([]);
  });

  test('is no string and no address', () => {
    expect(checkComments('const url = \'http://told.example\'; const b = "// told";')).toEqual([]);
  });
});

describe('a text in a source', () => {
  test.each([
    ['a message', "logger.warn({}, 'the group is told nothing');", '1: "told"'],
    ['a template', `const a = 1;\nfail(\`the offset \${a} is read anew\`);`, '2: "anew"'],
    ['a title of a test', "test('whoever asks gets an answer', () => {});", '1: "whoever"'],
    [
      'a sentence of 27 words',
      `fail('${Array.from({ length: 27 }, () => 'word').join(' ')}');`,
      '1: a sentence',
    ],
    [
      'a sentence of 27 words over two lines',
      `fail(\`${Array.from({ length: 27 }, () => 'word')
        .join(' ')
        .replace(' word', '\nword')}\`);`,
      '1: a sentence',
    ],
    ['the first word of a message', "fail('what is left is deleted');", '1: "what is"'],
    ['the first word of a paragraph', String.raw`fail('two short words\n\nwhat is left');`, '1: "what is"'],
    [
      'a paragraph of HTML',
      'const a = html`<h1>All is well</h1><p>The <b>group</b> is told nothing</p>`;',
      '1: "told"',
    ],
  ])('is checked: %s', (_, source, message) => {
    expect(messagesOf(checkStrings(source))).toEqual([expect.stringContaining(message)]);
  });

  test.each([
    ['a short string', "const state = 'is told';"],
    ['SQL', "const text = 'select told from verdicts where told is anew';"],
    ['code in a text', "fail('the option `--told` is not known here');"],
    ['a style sheet', 'const text = `:root { --a: 1; }\nanew { color: red; margin: 0 auto }`;'],
    [
      'tags of HTML',
      `const text = html\`${Array.from({ length: 20 }, () => '<b class="told here">two words</b>').join('')}\`;`,
    ],
    ['a statement behind its comment', 'const text = `-- All rows.\nselect told from verdicts;`;'],
    [
      'a table of many short rows',
      `const text = \`${Array.from({ length: 20 }, () => 'one | two rows').join('\\n')}\`;`,
    ],
  ])('is not checked: %s', (_, source) => {
    expect(checkStrings(source)).toEqual([]);
  });
});

describe('a migration', () => {
  test('is checked in its comments, and in the comments that it stores', () => {
    const sql = [
      '-- The worker is told.',
      "select 'it is told anew' as told;",
      "comment on table a is 'The worker reads',",
      "comment on column a.b is 'Read anew by each worker.';",
    ].join('\n');
    expect(messagesOf(checkSql(sql))).toEqual([
      expect.stringContaining('1: "told"'),
      expect.stringContaining('4: "anew"'),
    ]);
  });

  test('is not checked in indented statements, nor in stored comments that a later migration replaces', () => {
    const sql = "-- Build it before:\n--   create index told on a (b)\ncomment on table a is 'Read anew.';";
    expect(messagesOf(checkSql(sql, "comment on table a is 'Read again.';"))).toEqual([]);
  });
});

describe('a document', () => {
  test('is checked paragraph by paragraph and item by item', () => {
    const problems = checkDocument(
      '# Told\n\nIt works.\n\n- The operator is told.\n\n```\nit is told anew\n```\n',
    );
    expect(messagesOf(problems)).toEqual([expect.stringContaining('5: "told"')]);
  });
});

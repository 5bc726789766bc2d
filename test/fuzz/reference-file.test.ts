import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020';
import fc from 'fast-check';
import { parse, stringify } from 'yaml';
import { AMOUNT_PATTERN, CURRENCIES, MAX_MINOR, toMajor } from '../../src/domain/event/money';
import type {
  BrandEntry,
  ConnectionEntry,
  GameEntry,
  OperatorEntry,
  ReferenceDocument,
} from '../../src/domain/reference';
import { TOPIC_PATTERN } from '../../src/reference-file/checks';
import {
  describeChanges,
  type FileFault,
  parseReference,
  printChanges,
  removals,
} from '../../src/reference-file/reference-file';
import { fromDocumentJson, toDocumentJson } from '../../src/reference-file/stored';
import { MAX_ALIASED, MAX_LENGTH } from '../../src/reference-file/yaml';
import { anyCharacter } from '../support/texts';

const SCHEMAS = join(__dirname, '../../schemas');
const schemaText = readFileSync(join(SCHEMAS, 'reference.schema.json'), 'utf8');
const exampleText = readFileSync(join(SCHEMAS, 'examples/reference.yaml'), 'utf8');
/**
 * Union types and required keys of other subschemas are allowed. The rest of strict mode finds mistakes in
 * the schema.
 */
const conformsToSchema = new Ajv2020({
  strict: true,
  strictTypes: false,
  strictRequired: false,
  allErrors: true,
}).compile(JSON.parse(schemaText));

const faultsOf = (text: string): readonly FileFault[] => {
  const result = parseReference(text, 'reference.yaml');
  return 'faults' in result ? result.faults : [];
};
const accepted = (text: string): { document: ReferenceDocument; warnings: readonly FileFault[] } => {
  const result = parseReference(text, 'reference.yaml');
  if ('faults' in result) throw new Error(`refused: ${JSON.stringify(result.faults)}`);
  return result;
};

/** A fault must point at the place of the mark. */
const MARK = '¦';
function marked(text: string): { text: string; line: number; column: number } {
  const before = text.slice(0, text.indexOf(MARK)).split('\n');
  return { text: text.replace(MARK, ''), line: before.length, column: (before.at(-1) ?? '').length + 1 };
}

const withConnection = (connection: string): string =>
  `operators:\n  - id: acme\n    brands: [{ id: main }]\n    connections:\n      - ${connection}\n`;
const withBrand = (brand: string): string =>
  `operators:\n  - id: acme\n    connections: [{ id: c, transport: webhook, brands: several }]\n    brands:\n      - ${brand}\n`;
const withCatalogue = (catalogue: string): string =>
  `operators:\n  - id: acme\n    connections: [{ id: c, transport: webhook, brands: several }]\n    catalogue: ${catalogue}\n`;
const withOperator = (operator: string): string => `operators:\n  - ${operator}\n`;

describe('the example', () => {
  test('is accepted by parser and schema without a warning', () => {
    expect(conformsToSchema(parse(exampleText))).toBe(true);
    const { document, warnings } = accepted(exampleText);
    expect(warnings).toEqual([]);
    expect(document.operators.map((operator) => operator.id)).toEqual(['acme', 'borealis']);
  });

  test('is read with its defaults', () => {
    const [acme, borealis] = accepted(exampleText).document.operators;
    expect(acme?.connections).toEqual([
      { id: 'acme-stream', transport: 'kafka', topic: 'promo.event.v1' },
      { id: 'acme-solo', transport: 'kafka', topic: 'promo.event.v1.solo', brand: 'main' },
      { id: 'acme-hook', transport: 'webhook' },
      { id: 'acme-test', transport: 'webhook', test: true },
    ]);
    expect(acme?.brands).toEqual([
      {
        id: 'main',
        active: true,
        games: { deny: ['g9'], allow: ['g1', 'g2'] },
        minBet: { EUR: '0.10', JPY: '10', BTC: '0.00001' },
      },
      { id: 'acme-casino', active: true, games: { deny: [] }, minBet: {} },
      { id: 'acme-sports', active: false, games: { deny: [] }, minBet: {} },
    ]);
    expect(acme?.catalogue).toContainEqual({ id: 'g3', active: false });
    expect(borealis?.connections.map((connection) => connection.feed)).toEqual([undefined, 'live']);
    expect(borealis).toMatchObject({ active: true, catalogue: [] });
  });
});

describe('the schema', () => {
  const { $defs } = JSON.parse(schemaText);

  test('accepts the currencies, amounts and topics of the parser', () => {
    expect($defs.currency.anyOf[0].enum).toEqual(CURRENCIES.map((currency) => currency.code));
    expect($defs.brand.properties.min_bet.additionalProperties.pattern).toBe(AMOUNT_PATTERN);
    expect($defs.connection.properties.topic.pattern).toBe(TOPIC_PATTERN);
  });

  test('explains every key', () => {
    const unexplained: string[] = [];
    const visit = (node: unknown, path: string): void => {
      if (typeof node !== 'object' || node === null) return;
      for (const [key, value] of Object.entries(node)) {
        if (path.endsWith('/properties') && typeof value === 'object' && !path.includes('allOf')) {
          if (!('title' in value && 'description' in value)) unexplained.push(`${path}/${key}`);
        }
        visit(value, `${path}/${key}`);
      }
    };
    visit(JSON.parse(schemaText), '');
    expect(unexplained).toEqual([]);
  });
});

/** Whether the schema can find a fault. It knows no other part of the file, no bytes and no currencies. */
type Sight = 'structural' | 'semantic';
type FaultCase = [name: string, text: string, path: string, message: RegExp, remedy: RegExp, sight: Sight];

// biome-ignore format: one case per line
const FAULTS: FaultCase[] = [
  ['a list at the top', '¦- a\n', '', /found a list/, /key: value/, 'structural'],
  ['a text at the top', '¦acme\n', '', /found the text "acme"/, /key: value/, 'structural'],
  ['no operators', '¦{}\n', '', /"operators" is missing/, /operators: \[\]/, 'structural'],
  ['operators without a value', 'operators:¦\n', 'operators', /nothing \(null\)/, /\[\] for none/, 'structural'],
  ['operators as a mapping', 'operators:\n  ¦acme: {}\n', 'operators', /Expected a list/, /"- " line/, 'structural'],
  ['an unknown key at the top', 'operators: []\n¦operator: []\n', 'operator', /"operator" is unknown here/, /Did you mean "operators"/, 'structural'],
  ['a merge key', 'operators: []\n¦<<: {}\n', '["<<"]', /"<<" is unknown here/, /merging keys is not supported/, 'structural'],
  ['an operator that is null', 'operators:\n  -¦\n', 'operators[0]', /Expected keys with values/, /key: value/, 'structural'],
  ['an operator without id', withOperator('¦active: true'), 'operators[0]', /"id" is missing/, /operator an id/, 'structural'],
  ['an unknown key of an operator', withOperator('{ id: a, ¦catalog: [] }'), 'operators[0].catalog', /is unknown here/, /Did you mean "catalogue"/, 'structural'],
  ['a key without a similar one', withOperator('{ id: a, ¦"x y": [] }'), 'operators[0]["x y"]', /is unknown here/, /keys here are id, active/, 'structural'],
  ['an empty id', withOperator('{ id: ¦"" }'), 'operators[0].id', /is empty/, /Write the id/, 'structural'],
  ['a number as id', withOperator('{ id: ¦007 }'), 'operators[0].id', /the number 007/, /quotes: "007"/, 'structural'],
  ['a flag as id', withOperator('{ id: ¦true }'), 'operators[0].id', /the boolean true/, /quotes: "true"/, 'structural'],
  ['a null id', withOperator('{ id: ¦~ }'), 'operators[0].id', /nothing \(null\)/, /Write the value/, 'structural'],
  ['an id with a slash', withOperator('{ id: ¦a/b }'), 'operators[0].id', /slash/, /hyphen/, 'structural'],
  ['an id with a space', withOperator('{ id: ¦a b }'), 'operators[0].id', /space/, /hyphen/, 'structural'],
  ['an id with a no-break space', withOperator('{ id: ¦"a\\u00a0b" }'), 'operators[0].id', /space/, /hyphen/, 'structural'],
  ['an id with a zero-width space', withOperator('{ id: ¦"a\\u200bb" }'), 'operators[0].id', /invisible/, /hyphen/, 'structural'],
  ['an id with a control character', withOperator('{ id: ¦"a\\x07" }'), 'operators[0].id', /invisible/, /hyphen/, 'structural'],
  ['an id with half a surrogate pair', withOperator('{ id: ¦"a\\ud800" }'), 'operators[0].id', /surrogate/, /Remove/, 'structural'],
  ['an id of 256 bytes', withOperator(`{ id: ¦${'a'.repeat(256)} }`), 'operators[0].id', /256 bytes/, /Shorten/, 'structural'],
  ['an id of 128 letters and 256 bytes', withOperator(`{ id: ¦${'é'.repeat(128)} }`), 'operators[0].id', /256 bytes/, /Shorten/, 'semantic'],
  ['active as a word', withOperator('{ id: a, active: ¦yes }'), 'operators[0].active', /the text "yes"/, /true or false/, 'structural'],
  ['active as a text', withOperator('{ id: a, active: ¦"true" }'), 'operators[0].active', /the text "true"/, /without quotes/, 'structural'],
  ['active as null', withOperator('{ id: a, active: ¦null }'), 'operators[0].active', /nothing/, /true or false/, 'structural'],
  ['connections as a mapping', withOperator('{ id: a, connections: ¦{} }'), 'operators[0].connections', /Expected a list/, /\[\] for none/, 'structural'],
  ['equal operator ids', 'operators:\n  - { id: a }\n  - { id: ¦a }\n', 'operators[1].id', /already used on line 2/, /another id/, 'semantic'],

  ['a connection that is a text', withConnection('¦c'), 'operators[0].connections[0]', /the text "c"/, /key: value/, 'structural'],
  ['a connection without id', withConnection('¦{ transport: webhook, brands: several }'), 'operators[0].connections[0]', /"id" is missing/, /connection an id/, 'structural'],
  ['a connection without transport', withConnection('¦{ id: c, brands: several }'), 'operators[0].connections[0]', /"transport" is missing/, /transport: kafka/, 'structural'],
  ['another transport', withConnection('{ id: c, transport: ¦amqp, brands: several }'), 'operators[0].connections[0].transport', /"amqp"/, /kafka or webhook/, 'structural'],
  ['a transport in capitals', withConnection('{ id: c, transport: ¦Kafka, topic: t, brands: several }'), 'operators[0].connections[0].transport', /"Kafka"/, /Did you mean "kafka"/, 'structural'],
  ['kafka without topic', withConnection('¦{ id: c, transport: kafka, brands: several }'), 'operators[0].connections[0]', /no topic/, /Add the topic/, 'structural'],
  ['a topic with a slash', withConnection('{ id: c, transport: kafka, topic: ¦a/b, brands: several }'), 'operators[0].connections[0].topic', /does not allow this topic name/, /249 ASCII/, 'structural'],
  ['a topic of two dots', withConnection('{ id: c, transport: kafka, topic: ¦.., brands: several }'), 'operators[0].connections[0].topic', /does not allow this topic name/, /"\.\."/, 'structural'],
  ['a topic with a line break', withConnection('{ id: c, transport: kafka, topic: ¦"a\\n", brands: several }'), 'operators[0].connections[0].topic', /does not allow this topic name/, /249/, 'structural'],
  ['a topic of 250 letters', withConnection(`{ id: c, transport: kafka, topic: ¦${'t'.repeat(250)}, brands: several }`), 'operators[0].connections[0].topic', /does not allow this topic name/, /249/, 'structural'],
  ['a webhook with a topic', withConnection('{ id: c, transport: webhook, topic: ¦t, brands: several }'), 'operators[0].connections[0].topic', /reads no topic/, /Remove topic/, 'structural'],
  ['both brands and brand', withConnection('{ id: c, transport: webhook, brands: several, brand: ¦main }'), 'operators[0].connections[0].brand', /both/, /brands: several/, 'structural'],
  ['neither brands nor brand', withConnection('¦{ id: c, transport: webhook }'), 'operators[0].connections[0]', /neither/, /brand: <id>/, 'structural'],
  ['brands as another word', withConnection('{ id: c, transport: webhook, brands: ¦all }'), 'operators[0].connections[0].brands', /"all"/, /Write several/, 'structural'],
  ['brands as a list', withConnection('{ id: c, transport: webhook, brands: ¦[main] }'), 'operators[0].connections[0].brands', /found a list/, /one text/, 'structural'],
  ['a brand the operator does not list', withConnection('{ id: c, transport: webhook, brand: ¦other }'), 'operators[0].connections[0].brand', /no brand "other"/, /Add it/, 'semantic'],
  ['an empty brand', withConnection('{ id: c, transport: webhook, brand: ¦"" }'), 'operators[0].connections[0].brand', /is empty/, /Write the id/, 'structural'],
  ['a feed with a slash', withConnection('{ id: c, transport: webhook, brands: several, feed: ¦acme/x }'), 'operators[0].connections[0].feed', /slash/, /hyphen/, 'structural'],
  ['an unknown key of a connection', withConnection('{ id: c, transport: webhook, brands: several, ¦Feed: x }'), 'operators[0].connections[0].Feed', /is unknown here/, /Did you mean "feed"/, 'structural'],
  ['equal connection ids of two operators', 'operators:\n  - { id: a, connections: [{ id: c, transport: webhook, brands: several }] }\n  - { id: b, connections: [{ id: ¦c, transport: webhook, brands: several }] }\n', 'operators[1].connections[0].id', /already used on line 2.*over all operators/, /another id/, 'semantic'],

  ['a brand without id', withBrand('¦active: true'), 'operators[0].brands[0]', /"id" is missing/, /brand an id/, 'structural'],
  ['a brand with U+0000', withBrand('{ id: ¦"a\\0" }'), 'operators[0].brands[0].id', /U\+0000/, /Remove/, 'structural'],
  ['a brand of 256 bytes', withBrand(`{ id: ¦${'é'.repeat(128)} }`), 'operators[0].brands[0].id', /256 bytes/, /several bytes\./, 'semantic'],
  ['equal brand ids', withBrand('{ id: a }\n      - { id: ¦a }'), 'operators[0].brands[1].id', /brand id "a" is already used on line 5/, /another id/, 'semantic'],
  ['an unknown key of a brand', withBrand('{ id: a, ¦minBet: {} }'), 'operators[0].brands[0].minBet', /is unknown here/, /Did you mean "min_bet"/, 'structural'],
  ['games as a list', withBrand('{ id: a, games: ¦[g1] }'), 'operators[0].brands[0].games', /found a list/, /key: value/, 'structural'],
  ['an unknown list of games', withBrand('{ id: a, games: { ¦denied: [] } }'), 'operators[0].brands[0].games.denied', /is unknown here/, /deny, allow/, 'structural'],
  ['a list of games that is null', withBrand('{ id: a, games: { allow: ¦} }'), 'operators[0].brands[0].games.allow', /nothing/, /\[\] for none/, 'structural'],
  ['a number as denied game', withBrand('{ id: a, games: { deny: [g, ¦12] } }'), 'operators[0].brands[0].games.deny[1]', /the number 12/, /"12"/, 'structural'],
  ['an empty allowed game', withBrand('{ id: a, games: { allow: [¦""] } }'), 'operators[0].brands[0].games.allow[0]', /empty/, /Write the id/, 'structural'],
  ['an unknown currency', withBrand('{ id: a, min_bet: { ¦XXX: "1" } }'), 'operators[0].brands[0].min_bet.XXX', /no currency "XXX"/, /Use one of: JPY/, 'semantic'],
  ['a slip in a currency', withBrand('{ id: a, min_bet: { ¦EURO: "1" } }'), 'operators[0].brands[0].min_bet.EURO', /no currency/, /Did you mean "EUR"/, 'semantic'],
  ['a currency that only Unicode folds', withBrand('{ id: a, min_bet: { ¦U\u017FD: "1" } }'), 'operators[0].brands[0].min_bet["U\u017FD"]', /no currency/, /"USD"|Use one of/, 'structural'],
  ['a currency in two letter cases', withBrand('{ id: a, min_bet: { EUR: "1", ¦eur: "1" } }'), 'operators[0].brands[0].min_bet.eur', /eur and EUR are the same/, /Keep one/, 'semantic'],
  ['a number as amount', withBrand('{ id: a, min_bet: { EUR: ¦0.10 } }'), 'operators[0].brands[0].min_bet.EUR', /the number 0\.10/, /quotes: "0\.10"/, 'structural'],
  ['an amount that is null', withBrand('{ id: a, min_bet: { EUR: ¦} }'), 'operators[0].brands[0].min_bet.EUR', /nothing/, /remove the key/, 'structural'],
  ['an empty amount', withBrand('{ id: a, min_bet: { EUR: ¦"" } }'), 'operators[0].brands[0].min_bet.EUR', /no plain decimal/, /"0\.10"/, 'structural'],
  ['a negative amount', withBrand('{ id: a, min_bet: { EUR: ¦"-1" } }'), 'operators[0].brands[0].min_bet.EUR', /negative/, /no sign/, 'structural'],
  ['an amount with a comma', withBrand('{ id: a, min_bet: { EUR: ¦"0,10" } }'), 'operators[0].brands[0].min_bet.EUR', /no plain decimal/, /separator/, 'structural'],
  ['too many decimals', withBrand('{ id: a, min_bet: { EUR: ¦"0.100" } }'), 'operators[0].brands[0].min_bet.EUR', /more decimals \(3\) than EUR \(2\)/, /at most 2/, 'semantic'],
  ['decimals of a currency that has none', withBrand('{ id: a, min_bet: { jpy: ¦"1.0" } }'), 'operators[0].brands[0].min_bet.jpy', /than JPY \(0\)/, /whole number/, 'semantic'],
  ['an amount beyond 64 bits', withBrand('{ id: a, min_bet: { ETH: ¦"10" } }'), 'operators[0].brands[0].min_bet.ETH', /too large/, /9\.223372036854775807/, 'semantic'],

  ['a game that is a text', withCatalogue('[¦g1]'), 'operators[0].catalogue[0]', /the text "g1"/, /key: value/, 'structural'],
  ['a game without id', withCatalogue('[¦{ active: true }]'), 'operators[0].catalogue[0]', /"id" is missing/, /game an id/, 'structural'],
  ['equal games', withCatalogue('[{ id: g }, { id: ¦g, active: false }]'), 'operators[0].catalogue[1].id', /game id "g" is already used/, /another id/, 'semantic'],
  ['an unknown key of a game', withCatalogue('[{ id: g, ¦name: x }]'), 'operators[0].catalogue[0].name', /is unknown here/, /id, active/, 'structural'],
  ['a game that is active in words', withCatalogue('[{ id: g, active: ¦1 }]'), 'operators[0].catalogue[0].active', /the number 1/, /true or false/, 'structural'],
];

describe('a fault', () => {
  test.each(FAULTS)('%s', (_name, annotated, path, message, remedy, sight) => {
    const { text, line, column } = marked(annotated);
    const faults = faultsOf(text);
    expect(faults).toEqual([
      { line, column, path, message: expect.stringMatching(message), remedy: expect.stringMatching(remedy) },
    ]);
    expect(conformsToSchema(parse(text))).toBe(sight === 'semantic');
  });

  test('of a repeated key points at the second', () => {
    const { text, line, column } = marked('operators:\n  - id: a\n    active: true\n    ¦id: b\n');
    expect(faultsOf(text)).toEqual([
      {
        line,
        column,
        path: 'operators[0].id',
        message: expect.stringMatching(/on line 2/),
        remedy: expect.any(String),
      },
    ]);
    expect(faultsOf('{"operators": [], "operators": []}')).toHaveLength(1);
    expect(faultsOf(withBrand('{ id: a, min_bet: { EUR: "1", EUR: "1" } }'))).toHaveLength(1);
  });

  test('does not hide other faults, which are in the order of the text', () => {
    const faults = faultsOf(`operators:
  - active: maybe
    connections:
      - { id: a/b, transport: kafka, brand: x, topics: t }
      - { id: c, transport: webhook, topic: "", brands: no, feed: "" }
    brands:
      - { id: main, games: { deny: [1, 2], allow: 3 }, min_bet: { EUR: 1, XYZ: 1 } }
    catalogue: [{ id: g }, { id: g }]
extra: 1
`);
    expect(faults.map((fault) => `${fault.line}:${fault.column} ${fault.path}`)).toEqual([
      '2:5 operators[0]',
      '2:13 operators[0].active',
      '4:9 operators[0].connections[0]',
      '4:15 operators[0].connections[0].id',
      '4:45 operators[0].connections[0].brand',
      '4:48 operators[0].connections[0].topics',
      '5:45 operators[0].connections[1].topic',
      '5:45 operators[0].connections[1].topic',
      '5:57 operators[0].connections[1].brands',
      '5:67 operators[0].connections[1].feed',
      '7:37 operators[0].brands[0].games.deny[0]',
      '7:40 operators[0].brands[0].games.deny[1]',
      '7:51 operators[0].brands[0].games.allow',
      '7:72 operators[0].brands[0].min_bet.EUR',
      '7:75 operators[0].brands[0].min_bet.XYZ',
      '8:34 operators[0].catalogue[1].id',
      '9:1 extra',
    ]);
  });

  test('of a brand list leaves the list of brands open', () => {
    const text =
      'operators:\n  - id: a\n    connections: [{ id: c, transport: webhook, brand: main }]\n    brands: [{ id: 1 }]\n';
    expect(faultsOf(text).map((fault) => fault.path)).toEqual(['operators[0].brands[0].id']);
  });

  test('shows invisible characters as escapes and shortens long texts', () => {
    expect(
      faultsOf(withConnection('{ id: c, transport: webhook, brand: "a\\u202e\\n" }'))[0]?.message,
    ).toContain('"a\\u202e\\n"');
    const [fault] = faultsOf(withOperator(`{ id: a, ${'k'.repeat(900)}: 1 }`));
    expect(fault?.message.length).toBeLessThan(200);
    expect(fault?.path.length).toBeLessThan(200);
  });

  test('has lines and columns as in editors', () => {
    const at = (text: string) => faultsOf(text).map(({ line, column }) => [line, column]);
    expect(at('\uFEFFoperators: 1\n')).toEqual([[1, 12]]);
    expect(at('# 😀\r\noperators:\r\n  - { id: "😀", x: 1 }\r\n')).toEqual([[3, 17]]);
    expect(at('{\n\t"operators": [\n\t\t{ "id": 1 }\n\t]\n}')).toEqual([[3, 11]]);
  });
});

describe('a text that is not YAML', () => {
  type SyntaxCase = [name: string, text: string, message: RegExp, remedy: RegExp];
  // biome-ignore format: one case per line
  const CASES: SyntaxCase[] = [
    ['nothing', '¦', /reference\.yaml holds no data/, /operators: \[\]/],
    ['comments only', '¦# none\n', /holds no data/, /operators/],
    ['a tab as indentation', 'operators:\n¦\t- id: a\n', /Tabs/, /spaces/],
    ['an open quote', 'operators: "a\n¦', /Missing closing "quote/, /missing character/],
    ['an open bracket', 'operators: [\n¦', /must be sufficiently indented and end with a ]/, /close every bracket/],
    ['a second document', 'operators: []\n¦---\noperators: []\n', /second document/, /Keep one/],
    ['an unknown tag', 'operators: ¦!include x\n', /Unresolved tag/, /Remove the tag/],
    ['a tag that YAML 1.2 does not know', 'operators: ¦!!binary aGk=\n', /Unresolved tag/, /Remove the tag/],
    ['a list as key', '{ ? ¦[a] : b }\n', /not a plain text/, /one word/],
    ['YAML 1.1', '¦%YAML 1.1\n---\noperators: []\n', /only YAML 1\.2/, /Remove the %YAML/],
    ['another directive', '¦%FOO\n---\noperators: []\n', /Unknown directive/, /Remove the line/],
    ['a control character', 'operators: [] # ¦\u0002\n', /1 control character, U\+0002/, /"\\u0001"/],
    ['brackets without end', '['.repeat(20_000), /nested too deeply/, /brackets/],
  ];

  test.each(CASES)('%s', (_name, annotated, message, remedy) => {
    const { text, line, column } = marked(annotated);
    const place = annotated.includes(MARK) ? { line, column } : {};
    expect(faultsOf(text)).toEqual([
      expect.objectContaining({
        ...place,
        path: '',
        message: expect.stringMatching(message),
        remedy: expect.stringMatching(remedy),
      }),
    ]);
  });

  test('has all its errors reported, and no guesses from the rest', () => {
    const faults = faultsOf('operators:\n  - id: "a\\q"\n    x: "\\q"\n');
    expect(faults.map(({ line, column }) => [line, column])).toEqual([
      [2, 11],
      [3, 9],
    ]);
  });

  test('may be too long', () => {
    expect(faultsOf(`# ${' '.repeat(MAX_LENGTH)}`)[0]?.message).toMatch(/the limit is/);
  });

  test('differs from a document that is nested too deeply', () => {
    const depth = 30;
    const faults = faultsOf(`operators: ${'['.repeat(depth)}${']'.repeat(depth)}`);
    expect(faults.map((fault) => fault.message)).toContain('The data is nested too deeply.');
  });
});

describe('an alias', () => {
  test('has the value of its anchor', () => {
    const { document } = accepted(
      withBrand(
        '{ id: &name a, games: { deny: &games [g1, g2] } }\n      - { id: b, games: { deny: *games, allow: [*name] } }',
      ),
    );
    expect(document.operators[0]?.brands.map((brand) => brand.games)).toEqual([
      { deny: ['g1', 'g2'] },
      { deny: ['g1', 'g2'], allow: ['a'] },
    ]);
  });

  test('refers to the last anchor before it', () => {
    const { document } = accepted(withCatalogue('[{ id: &x a }, { id: &x b }, { id: c, active: true }]'));
    expect(document.operators[0]?.catalogue).toHaveLength(3);
    const { document: other } = accepted(withBrand('{ id: &x a, games: { deny: [*x, &x b, *x] } }'));
    expect(other.operators[0]?.brands[0]?.games.deny).toEqual(['a', 'b', 'b']);
  });

  test.each([
    ['without anchor', 'operators: ¦*nobody\n', 'operators', /no anchor/],
    ['inside its own anchor', 'operators: &all [¦*all]\n', 'operators[0]', /inside/],
  ])('%s is a fault', (_name, annotated, path, message) => {
    const { text, line, column } = marked(annotated);
    expect(faultsOf(text)).toEqual([
      { line, column, path, message: expect.stringMatching(message), remedy: expect.any(String) },
    ]);
  });

  test.each([2, 4, 8])('cannot build a bomb of %d levels', (levels) => {
    const width = Math.ceil((2 * MAX_ALIASED) ** (1 / levels));
    const lines = Array.from({ length: levels }, (_, level) => {
      const items = Array.from({ length: width }, () => (level === 0 ? 'g' : `*a${level - 1}`)).join(', ');
      return `  - &a${level} [${items}]`;
    });
    const started = Date.now();
    const faults = faultsOf(`operators:\n${lines.join('\n')}\n`);
    expect(faults.filter((fault) => /repeat more than/.test(fault.message))).toHaveLength(1);
    expect(Date.now() - started).toBeLessThan(10_000);
  });

  test('of a bomb at valid places is refused as well', () => {
    const many = (name: string) => `[${Array.from({ length: 300 }, () => `*${name}`).join(', ')}]`;
    const text = `operators:
  - &operator
    id: a
    brands: [&brand { id: b, games: { deny: &games [${'g, '.repeat(300)}] } }, ${many('brand').slice(1)}
  - ${Array.from({ length: 300 }, () => '*operator').join('\n  - ')}
`;
    const started = Date.now();
    expect(faultsOf(text).some((fault) => /repeat more than/.test(fault.message))).toBe(true);
    expect(Date.now() - started).toBeLessThan(10_000);
  });
});

describe('a warning [C8] [C10]', () => {
  type WarningCase = [name: string, text: string, path: string, message: RegExp];
  // biome-ignore format: one case per line
  const CASES: WarningCase[] = [
    ['a topic of two connections', withConnection( '{ id: c, transport: kafka, topic: t, brands: several }\n      - { id: d, transport: kafka, topic: ¦t, brand: main }', ), 'operators[0].connections[1].topic', /^The topic t is shared by the connections c, d: .*connection-id/],
    ['a topic of two operators', 'operators:\n  - { id: a, connections: [{ id: c, transport: kafka, topic: t, brands: several }, { id: d, transport: kafka, topic: t, brands: several }] }\n  - { id: b, connections: [{ id: e, transport: kafka, topic: ¦t, brands: several }] }\n', 'operators[1].connections[0].topic', /^DANGER: .*c, d, e.*a and b are different operators.*the sender sets the header/],
    ['an empty list of allowed games', withBrand('{ id: a, games: { allow: ¦[] } }'), 'operators[0].brands[0].games.allow', /allows no game/],
    ['a game that is denied and allowed', withBrand('{ id: a, games: { allow: [f, ¦g], deny: [g] } }'), 'operators[0].brands[0].games.allow[1]', /"g" is also denied/],
    ['an operator without connections', withOperator('¦{ id: a }'), 'operators[0]', /no connections/],
    ['a minimum of zero', withBrand('{ id: a, min_bet: { EUR: ¦"0.00" } }'), 'operators[0].brands[0].min_bet.EUR', /zero/],
    ['a feed with the name of the operator', withConnection('{ id: c, transport: webhook, brands: several, feed: ¦acme }'), 'operators[0].connections[0].feed', /"acme\/acme"/],
  ];

  test.each(CASES)('%s', (_name, annotated, path, message) => {
    const { text, line, column } = marked(annotated);
    const { warnings } = accepted(text);
    expect(warnings).toEqual([
      { line, column, path, message: expect.stringMatching(message), remedy: expect.any(String) },
    ]);
    expect(conformsToSchema(parse(text))).toBe(true);
  });

  test('is not given for missing keys', () => {
    expect(accepted('operators: []').warnings).toEqual([]);
    expect(accepted(withBrand('{ id: a, games: {}, min_bet: {} }')).warnings).toEqual([]);
  });
});

test('currency codes are kept in capitals, amounts as they are written', () => {
  const { document } = accepted(withBrand('{ id: a, min_bet: { eur: "0.1", UsDt: "10" } }'));
  expect(document.operators[0]?.brands[0]?.minBet).toEqual({ EUR: '0.1', USDT: '10' });
});

test('texts of YAML 1.1 that look like flags are texts', () => {
  const { document } = accepted(
    withCatalogue('[{ id: yes }, { id: NO }, { id: 2026-01-01 }, { id: !!str 12 }]'),
  );
  expect(document.operators[0]?.catalogue.map((game) => game.id)).toEqual(['yes', 'NO', '2026-01-01', '12']);
});

const anyText = fc
  .string({ unit: anyCharacter, minLength: 1, maxLength: 12 })
  .filter((text) => !text.includes('\0'));
const anyName = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
  .map((text) => text.replace(/[/\s\p{Z}\p{Cc}\p{Cf}\p{Cs}]/gu, '-'));
const anyGames = fc.array(anyText, { maxLength: 4 });
const anyMinBet: fc.Arbitrary<Record<string, string>> = fc
  .uniqueArray(fc.constantFrom(...CURRENCIES), { maxLength: 4 })
  .chain((currencies) =>
    fc.tuple(
      ...currencies.map((currency) =>
        fc
          .tuple(fc.bigInt({ min: 0n, max: MAX_MINOR }), fc.nat(currency.scale))
          .map(([minor, cut]): [string, string] => {
            const major = toMajor(minor, currency.scale);
            return [
              currency.code,
              cut === currency.scale ? (major.split('.')[0] ?? '') : major.slice(0, major.length - cut),
            ];
          }),
      ),
    ),
  )
  .map((entries) => Object.fromEntries(entries));
const anyBrand: fc.Arbitrary<BrandEntry> = fc.record({
  id: anyText,
  active: fc.boolean(),
  games: fc.record({ deny: anyGames, allow: anyGames }, { requiredKeys: ['deny'] }),
  minBet: anyMinBet,
});
const anyGame: fc.Arbitrary<GameEntry> = fc.record({ id: anyText, active: fc.boolean() });
const anyOperator: fc.Arbitrary<OperatorEntry> = fc
  .record({
    id: anyName,
    active: fc.boolean(),
    brands: fc.uniqueArray(anyBrand, { maxLength: 3, selector: (brand) => brand.id }),
    catalogue: fc.uniqueArray(anyGame, { maxLength: 3, selector: (game) => game.id }),
    drafts: fc.uniqueArray(
      fc.record({
        id: anyName,
        topic: fc.option(fc.stringMatching(/^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}$/), { nil: undefined }),
        brandIndex: fc.nat(5),
        feed: fc.option(anyName, { nil: undefined }),
      }),
      { maxLength: 3, selector: (draft) => draft.id },
    ),
  })
  .map(({ drafts, ...operator }) => ({
    ...operator,
    connections: drafts.map(({ id, topic, brandIndex, feed }): ConnectionEntry => {
      const brand = operator.brands[brandIndex]?.id;
      return {
        id,
        ...(topic === undefined ? { transport: 'webhook' } : { transport: 'kafka', topic }),
        ...(brand !== undefined && { brand }),
        ...(feed !== undefined && { feed }),
      };
    }),
  }));
const anyDocument: fc.Arbitrary<ReferenceDocument> = fc
  .uniqueArray(anyOperator, { maxLength: 3, selector: (operator) => operator.id })
  .map((operators) => ({
    operators: operators.map((operator, i) => ({
      ...operator,
      connections: operator.connections.map((connection) => ({ ...connection, id: `${i}-${connection.id}` })),
    })),
  }));

describe('any document', () => {
  test('printed as YAML or as JSON is read back unchanged, and conforms to the schema', () => {
    fc.assert(
      fc.property(anyDocument, fc.constantFrom(undefined, 0, 1, 2, '\t'), (document, indent) => {
        const file = toDocumentJson(document);
        expect(conformsToSchema(file)).toBe(true);
        expect(accepted(JSON.stringify(file, null, indent)).document).toEqual(document);
        expect(accepted(stringify(file)).document).toEqual(document);
        expect(accepted(stringify(file, { collectionStyle: 'flow', lineWidth: 40 })).document).toEqual(
          document,
        );
      }),
      { numRuns: 150 },
    );
  });

  test('comes back from the store unchanged', () => {
    fc.assert(
      fc.property(anyDocument, (document) => {
        expect(fromDocumentJson(JSON.parse(JSON.stringify(toDocumentJson(document))))).toEqual(document);
      }),
    );
  });

  test('has no difference from itself, and is all difference from an empty document', () => {
    const nothing: ReferenceDocument = { operators: [] };
    fc.assert(
      fc.property(anyDocument, (document) => {
        expect(describeChanges(document, document)).toEqual([]);
        const count = document.operators.reduce(
          (sum, it) => sum + 1 + it.connections.length + it.brands.length + it.catalogue.length,
          0,
        );
        const added = describeChanges(nothing, document);
        const removed = describeChanges(document, nothing);
        expect(added.map((change) => change.change)).toEqual(Array(count).fill('added'));
        expect(removed.map((change) => change.change)).toEqual(Array(count).fill('removed'));
        expect(removed.map((change) => [change.what, change.id])).toEqual(
          added.map((change) => [change.what, change.id]),
        );
        for (const line of printChanges([...added, ...removed])) expect(line).toMatch(/^[^\p{Cc}]*$/u);
      }),
    );
  });

  test('that the schema refuses after a change is also refused by the parser', () => {
    const garbage = fc.constantFrom<unknown>(null, 1, 'x', '', true, [], {}, [null], ['x'], { id: 'x' });
    fc.assert(
      fc.property(
        anyDocument,
        fc.nat(),
        fc.constantFrom('remove', 'replace', 'add'),
        garbage,
        (document, seed, how, value) => {
          const file: unknown = JSON.parse(JSON.stringify(toDocumentJson(document)));
          const places: { holder: object; key: string }[] = [];
          const visit = (node: unknown): void => {
            if (typeof node !== 'object' || node === null) return;
            for (const [key, child] of Object.entries(node)) {
              places.push({ holder: node, key });
              visit(child);
            }
          };
          visit(file);
          const place = places[seed % places.length];
          if (place === undefined) return;
          if (how === 'remove' && !Array.isArray(place.holder))
            Reflect.deleteProperty(place.holder, place.key);
          else if (how === 'add' && !Array.isArray(place.holder)) Reflect.set(place.holder, 'id2', value);
          else Reflect.set(place.holder, place.key, value);
          const faults = faultsOf(JSON.stringify(file));
          if (!conformsToSchema(file)) expect(faults).not.toEqual([]);
          // Only the parser checks relations between parts, and currencies.
          else
            for (const fault of faults)
              expect(fault.message).toMatch(/already used on|lists no brand|no currency|decimals/);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe('any text', () => {
  // biome-ignore format: separate lines would not help
  const fragments = [
    'operators', 'id', 'brands', 'connections', 'min_bet', 'acme', ': ', ':', '\n', '\n  ', '\n    ',
    '- ', '-', '[', ']', '{', '}', ', ', '&a ', '*a', '"', "'", '!!str ', '!x ', '|', '>', '#',
    '%YAML 1.1', '---', '...', '\t', '? ', '<<', '0.10', 'null', '~', 'true', '\r\n', '\uFEFF',
    '\u0000', '\u0002', '\u001f', '\ud800', '😀', '\\', '@', '`',
  ];

  test.each([
    ['of characters', fc.string({ unit: anyCharacter, maxLength: 200 })],
    [
      'of pieces of YAML',
      fc.array(fc.constantFrom(...fragments), { maxLength: 60 }).map((parts) => parts.join('')),
    ],
    [
      'of a valid file with an insertion',
      fc
        .tuple(fc.nat(exampleText.length), fc.nat(12), fc.constantFrom(...fragments))
        .map(([at, gone, piece]) => exampleText.slice(0, at) + piece + exampleText.slice(at + gone)),
    ],
  ])('%s has an answer with places inside the text', (_name, texts) => {
    fc.assert(
      fc.property(texts, (text) => {
        const result = parseReference(text, 'f');
        const notes = 'faults' in result ? result.faults : result.warnings;
        if ('faults' in result) expect(notes.length).toBeGreaterThan(0);
        const lines = text.split('\n');
        for (const { line, column, message, remedy } of notes) {
          expect(line).toBeGreaterThanOrEqual(1);
          expect(column).toBeGreaterThanOrEqual(1);
          expect(column).toBeLessThanOrEqual((lines[line - 1] ?? '').length + 1);
          expect(message).toMatch(/\S/);
          expect(remedy).toMatch(/\S/);
        }
      }),
      { numRuns: 400 },
    );
  });

  test.each([
    '[',
    '{a: ',
    '- ',
    '? ',
    'a: ',
    '&a ',
    '*a ',
    '!a ',
    '%\n',
    '---\n',
    '] ',
    '"',
    "'",
    '| ',
    '#',
    '\n',
    'a\n',
    '- a\n',
    '&a [*a, ',
    '{"a":[',
    'a: 1\n',
    '<<: *a\n',
    '\u0001',
  ])('of only %j ends quickly', (piece) => {
    const started = Date.now();
    expect('faults' in parseReference(piece.repeat(10_000), 'f')).toBe(true);
    expect(Date.now() - started).toBeLessThan(10_000);
  });
});

describe('a stored document', () => {
  test.each<[string, unknown]>([
    ['nothing', null],
    ['a text', '{"operators": []}'],
    ['an unknown key', { operators: [], version: 2 }],
    ['a number as amount', { operators: [{ id: 'a', brands: [{ id: 'b', min_bet: { EUR: 1 } }] }] }],
    [
      'the structure of a document instead of a file',
      { operators: [{ id: 'a', brands: [{ id: 'b', minBet: {} }] }] },
    ],
  ])('with %s is refused', (_name, json) => {
    expect(() => fromDocumentJson(json)).toThrow(RangeError);
  });

  test('is reported with its first fault and the number of the others', () => {
    expect(() => fromDocumentJson({ operators: [{ id: 1, active: 2 }, {}] })).toThrow(
      /not valid: operators\[0\]\.id: Expected a text, found the number 1\. \(and 2 more faults\)/,
    );
  });

  test('must not be nested without end', () => {
    let json: unknown = [];
    for (let i = 0; i < 100_000; i++) json = [json];
    expect(() => fromDocumentJson(json)).toThrow(RangeError);
  });
});

describe('changes', () => {
  const before = accepted(exampleText).document;
  const edited = (edit: (text: string) => string): ReferenceDocument => {
    const text = edit(exampleText);
    expect(text).not.toBe(exampleText);
    return accepted(text).document;
  };

  test('are described field by field', () => {
    const after = edited((text) =>
      text
        .replace('topic: promo.event.v1.solo, brand: main', 'topic: promo.event.v2.solo, brands: several')
        .replace('feed: live', 'feed: table')
        .replace('deny: [g9]', 'deny: [g9, "g 8"]')
        .replace('allow: [g1, g2]', '')
        .replace('EUR: "0.10"', 'EUR: "0.20"')
        .replace('BTC: "0.00001"', 'ETH: "0.1"')
        .replace('{ id: g2 }', '{ id: g2, active: false }')
        .replace('id: borealis\n', 'id: borealis\n    active: false\n'),
    );
    expect(describeChanges(before, after)).toEqual([
      {
        what: 'connection',
        id: 'acme/acme-solo',
        change: 'changed',
        details: [
          'topic: promo.event.v1.solo -> promo.event.v2.solo',
          'carries: only brand main -> several brands',
        ],
      },
      {
        what: 'brand',
        id: 'acme/main',
        change: 'changed',
        details: [
          'games.deny: [g9] -> [g9, "g 8"]',
          'games.allow: [g1, g2] -> not given',
          'min_bet.BTC: 0.00001 -> not given',
          'min_bet.EUR: 0.10 -> 0.20',
          'min_bet.ETH: not given -> 0.1',
        ],
      },
      { what: 'game', id: 'acme/g2', change: 'changed', details: ['active: true -> false'] },
      { what: 'operator', id: 'borealis', change: 'changed', details: ['active: true -> false'] },
      {
        what: 'connection',
        id: 'borealis/borealis-live',
        change: 'changed',
        details: ['feed: borealis/live -> borealis/table'],
      },
    ]);
  });

  test('of nothing but the order are none', () => {
    const reversed: ReferenceDocument = {
      operators: [...before.operators].reverse().map((operator) => ({
        ...operator,
        connections: [...operator.connections].reverse(),
        brands: [...operator.brands].reverse().map((brand) => ({
          ...brand,
          games: {
            deny: brand.games.deny,
            ...(brand.games.allow && { allow: [...brand.games.allow].reverse() }),
          },
          minBet: Object.fromEntries(Object.entries(brand.minBet).reverse()),
        })),
        catalogue: [...operator.catalogue].reverse(),
      })),
    };
    expect(describeChanges(before, reversed)).toEqual([]);
  });

  test('that remove an operator or a connection are marked', () => {
    const after: ReferenceDocument = {
      operators: before.operators.slice(0, 1).map((operator) => ({
        ...operator,
        connections: operator.connections.slice(1),
        brands: operator.brands.slice(0, 1),
        catalogue: [],
      })),
    };
    expect(removals(describeChanges(before, after)).map((change) => `${change.what} ${change.id}`)).toEqual([
      'connection acme/acme-stream',
      'operator borealis',
      'connection borealis/borealis-casino',
      'connection borealis/borealis-live',
    ]);
    expect(removals(describeChanges(after, before))).toEqual([]);
  });

  test('of a connection that goes to another operator are a removal', () => {
    const [acme, borealis] = before.operators;
    const moved: ReferenceDocument = {
      operators: [
        { ...acme!, connections: acme!.connections.toSpliced(2, 1) },
        { ...borealis!, connections: [...borealis!.connections, acme!.connections[2]!] },
      ],
    };
    expect(removals(describeChanges(before, moved)).map((change) => change.id)).toEqual(['acme/acme-hook']);
  });

  test('of an empty list of allowed games differ from those without a list', () => {
    const after = edited((text) => text.replace('allow: [g1, g2]', 'allow: []'));
    const none = edited((text) => text.replace('allow: [g1, g2]', ''));
    expect(describeChanges(none, after)[0]?.details).toEqual(['games.allow: not given -> []']);
  });

  test('are printed a line each, games that changed alike together', () => {
    const games = Array.from({ length: 1000 }, (_, i) => ({ id: `g${i}`, active: i !== 5 }));
    const withGames = (count: number): ReferenceDocument => ({
      operators: [{ id: 'a', active: true, connections: [], brands: [], catalogue: games.slice(0, count) }],
    });
    expect(printChanges(describeChanges(withGames(0), withGames(1000)))).toEqual([
      'added 999 games a/g0, a/g1, a/g10, a/g100, a/g101 and 994 more: active: true',
      'added game a/g5: active: false',
    ]);
    expect(printChanges(describeChanges(withGames(2), withGames(1)))).toEqual(['removed game a/g1']);
    expect(printChanges([])).toEqual([]);
    const [first] = printChanges(describeChanges({ operators: [] }, before));
    expect(first).toBe('added operator acme: active: true');
  });

  test('of long lists name what was added and removed', () => {
    const withDenied = (deny: string[]): ReferenceDocument => ({
      operators: [
        {
          id: 'a',
          active: true,
          connections: [],
          brands: [{ id: 'b', active: true, games: { deny }, minBet: {} }],
          catalogue: [],
        },
      ],
    });
    const many = Array.from({ length: 20 }, (_, i) => `g${i}`);
    expect(describeChanges(withDenied(many), withDenied([...many.slice(1), 'x']))[0]?.details).toEqual([
      'games.deny: [g0, g1, g2, g3, g4 and 15 more] -> [g1, g2, g3, g4, g5 and 15 more] (added x, removed g0)',
    ]);
  });
});

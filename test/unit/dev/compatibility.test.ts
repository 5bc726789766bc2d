/** The comparison of schemas: planted changes. Layer `fuzz` has random schemas. */
import { compareSchemas, type Direction, type SchemaChange } from '../../../dev/compatibility/json-schema';

const summaryOf = (changes: readonly SchemaChange[]): string[] =>
  changes.map(({ path, isBreaking, change }) => `${isBreaking ? 'breaking' : 'addition'} ${path} ${change}`);

type Schema = Readonly<Record<string, unknown>>;
const TEXT = { type: 'string' };

const BASE = {
  $id: 'urn:example',
  type: 'object',
  required: ['id'],
  properties: {
    id: { $ref: '#/$defs/id' },
    state: { enum: ['open', 'closed', null] },
    spec: { const: 'v1' },
    count: { type: 'integer', minimum: 1, maximum: 10 },
    either: { type: ['string', 'null'] },
    list: { type: 'array', items: { type: 'object', properties: { name: TEXT }, required: ['name'] } },
    closed: { type: 'object', additionalProperties: false, properties: { a: TEXT } },
    map: { type: 'object', additionalProperties: TEXT, propertyNames: { maxLength: 3 } },
    choice: { anyOf: [TEXT, { type: 'integer' }] },
    exactly: { oneOf: [{ required: ['a'] }, { required: ['b'] }] },
    size: { $ref: '#/$defs/id', default: 'x' },
  },
  allOf: [
    Object.fromEntries([
      ['if', { required: ['state'] }],
      ['then', { required: ['count'] }],
    ]),
  ],
  not: { required: ['events'], description: 'No batch.' },
  $defs: { id: { type: 'string', minLength: 1, pattern: '^a' } },
} as const;

/** The base with one part replaced; undefined removes it. */
function changed(path: string, value: unknown): Schema {
  const copy: Record<string, unknown> = structuredClone(BASE);
  const names = path.split('/');
  const last = names.pop() ?? '';
  const within = names.reduce<unknown>((part, name) => Reflect.get(Object(part), name), copy);
  if (value === undefined) Reflect.deleteProperty(Object(within), last);
  else Reflect.set(Object(within), last, value);
  return copy;
}

/** Path, new value, and the effect where others write and where others read. */
type Planted = readonly [string, string, unknown, string, string];
const PLANTED: readonly Planted[] = [
  ['a new optional property', 'properties/more', TEXT, 'addition', 'addition'],
  ['a property that is gone', 'properties/count', undefined, 'breaking', 'breaking'],
  ['a property that is forbidden', 'properties/extra', false, 'breaking', 'breaking'],
  ['a newly required property', 'required', ['id', 'state'], 'breaking', 'addition'],
  ['a property that is no longer required', 'required', [], 'addition', 'breaking'],
  ['another type', 'properties/count/type', 'string', 'breaking', 'breaking'],
  ['a wider type', 'properties/count/type', 'number', 'addition', 'breaking'],
  ['one more type', 'properties/count/type', ['integer', 'null'], 'addition', 'breaking'],
  ['one type less', 'properties/either/type', 'string', 'breaking', 'breaking'],
  ['no type any more', 'properties/count/type', undefined, 'addition', 'breaking'],
  ['one more value', 'properties/state/enum', ['open', 'closed', null, 'void'], 'addition', 'breaking'],
  ['a value less', 'properties/state/enum', ['open', null], 'breaking', 'breaking'],
  ['values in another order', 'properties/state/enum', [null, 'closed', 'open'], 'none', 'none'],
  ['a list in place of one value', 'properties/spec', { enum: ['v1', 'v2'] }, 'addition', 'breaking'],
  ['a list of that one value', 'properties/spec', { enum: ['v1'] }, 'none', 'none'],
  ['another value', 'properties/spec/const', 'v2', 'breaking', 'breaking'],
  ['values where any was allowed', 'properties/id', { enum: ['a'] }, 'breaking', 'breaking'],
  ['a lower minimum', 'properties/count/minimum', 0, 'addition', 'breaking'],
  ['a higher minimum', 'properties/count/minimum', 2, 'breaking', 'addition'],
  ['a higher maximum', 'properties/count/maximum', 11, 'addition', 'breaking'],
  ['a lower maximum', 'properties/count/maximum', 9, 'breaking', 'addition'],
  ['no maximum', 'properties/count/maximum', undefined, 'addition', 'breaking'],
  ['a new bound', 'properties/count/multipleOf', 2, 'breaking', 'addition'],
  ['a pattern behind a reference', '$defs/id/pattern', '^b', 'breaking', 'breaking'],
  ['no pattern', '$defs/id/pattern', undefined, 'addition', 'breaking'],
  ['a reference in place of its target', 'properties/id', BASE.$defs.id, 'none', 'none'],
  ['a reference that leads nowhere', 'properties/id', { $ref: '#/$defs/gone' }, 'breaking', 'breaking'],
  ['a reference to itself', 'properties/id', { $ref: '#/properties/id' }, 'breaking', 'breaking'],
  ['a constraint beside a reference', 'properties/id/maxLength', 9, 'breaking', 'breaking'],
  ['another default beside a reference', 'properties/size/default', 'y', 'breaking', 'breaking'],
  ['a property of an item', 'properties/list/items/properties/more', TEXT, 'addition', 'addition'],
  ['a property of an item that is gone', 'properties/list/items/properties', {}, 'breaking', 'breaking'],
  ['an item that may lack a property', 'properties/list/items/required', [], 'addition', 'breaking'],
  ['items of any form', 'properties/list/items', undefined, 'addition', 'breaking'],
  ['unique items', 'properties/list/uniqueItems', true, 'breaking', 'addition'],
  ['items that need not be unique', 'properties/list/uniqueItems', false, 'none', 'none'],
  ['a new property of a closed object', 'properties/closed/properties/b', TEXT, 'addition', 'breaking'],
  ['a closed object that opens', 'properties/closed/additionalProperties', true, 'addition', 'breaking'],
  ['an open object that closes', 'additionalProperties', false, 'breaking', 'breaking'],
  ['an open object that says so', 'additionalProperties', true, 'none', 'none'],
  [
    'a property that contradicts the rest',
    'properties/map/properties',
    { n: { type: 'integer' } },
    'breaking',
    'breaking',
  ],
  ['another rest', 'properties/map/additionalProperties/type', 'integer', 'breaking', 'breaking'],
  ['longer names', 'properties/map/propertyNames/maxLength', 4, 'addition', 'breaking'],
  [
    'a branch more',
    'properties/choice/anyOf',
    [TEXT, { type: 'integer' }, { type: 'null' }],
    'addition',
    'breaking',
  ],
  ['a branch less', 'properties/choice/anyOf', [TEXT], 'breaking', 'breaking'],
  ['one more of exactly one', 'properties/exactly/oneOf/2', { required: ['c'] }, 'breaking', 'breaking'],
  ['one more of all', 'allOf/1', { required: ['state'] }, 'breaking', 'addition'],
  ['no condition', 'allOf', undefined, 'addition', 'breaking'],
  ['another condition', 'allOf/0/if/required', ['spec'], 'breaking', 'breaking'],
  ['another consequence', 'allOf/0/then/required', ['count', 'list'], 'breaking', 'addition'],
  ['another exclusion', 'not/required', ['batch'], 'breaking', 'breaking'],
  ['an exclusion in other words', 'not/description', 'No list of events.', 'none', 'none'],
  ['another id', '$id', 'urn:other', 'breaking', 'breaking'],
  ['a keyword that nobody knows', 'properties/count/odd', 1, 'breaking', 'breaking'],
  ['a new place of a list', 'properties/list/prefixItems', [TEXT], 'breaking', 'breaking'],
  ['an annotation of our own', 'x-note', 'x', 'none', 'none'],
  ['a title', 'title', 'A title', 'none', 'none'],
  ['a property named like an annotation', 'properties/title', TEXT, 'addition', 'addition'],
  ['a definition that nothing refers to', '$defs/other', TEXT, 'none', 'none'],
];

/** The effect of all changes together. */
function effectOf(changes: readonly SchemaChange[]): string {
  if (changes.length === 0) return 'none';
  return changes.some(({ isBreaking }) => isBreaking) ? 'breaking' : 'addition';
}

describe.each<[Direction, 3 | 4]>([
  ['others_write', 3],
  ['others_read', 4],
])('where %s', (direction, column) => {
  test.each(PLANTED)('%s', (...planted) => {
    const [, path, value] = planted;
    const after = changed(path, value);
    expect(after).not.toEqual(BASE);
    expect(effectOf(compareSchemas(BASE, after, direction))).toBe(planted[column]);
  });

  test('an equal schema has no changes, nor one with its keys in another order', () => {
    const reordered = Object.fromEntries(Object.entries(BASE).reverse());
    expect(compareSchemas(BASE, structuredClone(BASE), direction)).toEqual([]);
    expect(compareSchemas(BASE, reordered, direction)).toEqual([]);
  });
});

test('a change names its place and its kind', () => {
  const after = changed('properties/list/items/properties/name', { type: 'string', maxLength: 9 });
  expect(summaryOf(compareSchemas(BASE, after, 'others_write'))).toEqual([
    'breaking /properties/list/items/properties/name/maxLength is new',
  ]);
  expect(summaryOf(compareSchemas(BASE, changed('required', []), 'others_write'))).toEqual([
    'addition /required id is gone',
  ]);
});

test('a loosened part is breaking where another part excludes it', () => {
  const schema = (minLength: number) => ({
    properties: { a: { $ref: '#/$defs/a' } },
    not: { $ref: '#/$defs/a' },
    $defs: { a: { minLength } },
  });
  expect(summaryOf(compareSchemas(schema(2), schema(1), 'others_write'))).toEqual([
    'addition /properties/a/minLength is 1 instead of 2',
    'breaking /not has changed',
  ]);
  const itself = (more: object) => ({ not: { $ref: '#' }, ...more });
  expect(compareSchemas(itself({}), itself({}), 'others_read')).toEqual([]);
});

test('a schema that refers to itself is compared once', () => {
  const tree = (more: object) => ({ type: 'object', properties: { child: { $ref: '#' }, ...more } });
  expect(summaryOf(compareSchemas(tree({}), tree({ name: TEXT }), 'others_write'))).toEqual([
    'addition /properties/child/properties/name is new',
    'addition /properties/name is new',
  ]);
});

/**
 * A change of any key of the reference schema is stored, read back and reported. Without a reported change,
 * `reference apply` stores nothing.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../../dev/servers/download';
import type { ReferenceDocument } from '../../../src/domain/reference';
import { isObject } from '../../../src/lib/json';
import { describeChanges } from '../../../src/reference-file/changes';
import { parseReference } from '../../../src/reference-file/reference-file';
import { fromDocumentJson, toDocumentJson } from '../../../src/reference-file/stored';

/**
 * A file for each key, which differs from BASE in this key. An id changes with all that names it.
 *
 * Before you add a key: may its value hold the name or number of a player? Then it must not become reference
 * data. Versions are kept for good, and `erase-player` does not look into them (K6).
 */
const CHANGES: Readonly<Record<string, string>> = {
  operators: '{ operators: [] }',
  'operator.id': fileWith({ id: 'zeus' }),
  'operator.active': fileWith({ active: false }),
  'operator.connections': fileWith({ connections: '[]' }),
  'operator.brands': fileWith({ brands: '[{ id: main }, { id: another }]' }),
  'operator.catalogue': fileWith({ catalogue: '[]' }),
  'connection.id': fileWith({ connections: '[{ id: d, transport: kafka, topic: t, brand: main, feed: f }]' }),
  'connection.transport': fileWith({ connections: '[{ id: c, transport: webhook, brand: main, feed: f }]' }),
  'connection.topic': fileWith({
    connections: '[{ id: c, transport: kafka, topic: u, brand: main, feed: f }]',
  }),
  'connection.brands': fileWith({
    connections: '[{ id: c, transport: kafka, topic: t, brands: several, feed: f }]',
  }),
  'connection.brand': fileWith({
    connections: '[{ id: c, transport: kafka, topic: t, brand: other, feed: f }]',
  }),
  'connection.feed': fileWith({
    connections: '[{ id: c, transport: kafka, topic: t, brand: main, feed: g }]',
  }),
  'connection.test': fileWith({
    connections: '[{ id: c, transport: kafka, topic: t, brand: main, feed: f, test: true }]',
  }),
  'brand.id': fileWith({ brands: '[{ id: main }, { id: other }, { id: third }]' }),
  'brand.active': fileWith({ brands: '[{ id: main, active: false }, { id: other }]' }),
  'brand.games': fileWith({ brands: '[{ id: main, games: { allow: [] } }, { id: other }]' }),
  'brand.games.deny': fileWith({ brands: '[{ id: main, games: { deny: [g9] } }, { id: other }]' }),
  'brand.games.allow': fileWith({ brands: '[{ id: main, games: { allow: [g1] } }, { id: other }]' }),
  'brand.min_bet': fileWith({ brands: '[{ id: main, min_bet: { EUR: "0.10" } }, { id: other }]' }),
  'game.id': fileWith({ catalogue: '[{ id: g2 }]' }),
  'game.active': fileWith({ catalogue: '[{ id: g1, active: false }]' }),
};

/** A file with one operator; `changes` replaces its keys, in YAML. */
function fileWith(changes: Readonly<Record<string, string | boolean>>): string {
  const operator = {
    id: 'acme',
    connections: '[{ id: c, transport: kafka, topic: t, brand: main, feed: f }]',
    brands: '[{ id: main }, { id: other }]',
    catalogue: '[{ id: g1 }]',
    ...changes,
  };
  const keys = Object.entries(operator).map(([key, value]) => `${key}: ${value}`);
  return `{ operators: [{ ${keys.join(', ')} }] }`;
}

function documentOf(file: string): ReferenceDocument {
  const result = parseReference(file, 'reference.yaml');
  if ('faults' in result) throw new Error(`${file}: ${JSON.stringify(result.faults)}`);
  return result.document;
}

const BASE = documentOf(fileWith({}));

/** Every key that the schema names, with the definition that it belongs to. */
function keysOf(schema: unknown, prefix: string): string[] {
  if (!isObject(schema)) return [];
  const own = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  return own.flatMap(([key, child]) => [`${prefix}${key}`, ...keysOf(child, `${prefix}${key}.`)]);
}

function schemaKeys(): string[] {
  const schema: unknown = JSON.parse(readFileSync(join(ROOT, 'schemas/reference.schema.json'), 'utf8'));
  if (!isObject(schema) || !isObject(schema.$defs)) throw new Error('the schema has no definitions');
  const definitions = Object.entries(schema.$defs);
  return [...keysOf(schema, ''), ...definitions.flatMap(([name, each]) => keysOf(each, `${name}.`))];
}

test('the schema has no key without a change here', () => {
  expect(Object.keys(CHANGES).sort()).toEqual(schemaKeys().sort());
});

test.each(Object.entries(CHANGES))('a change of %s is stored and reported', (_, file) => {
  const changed = documentOf(file);
  expect(changed).not.toEqual(BASE);
  expect(fromDocumentJson(toDocumentJson(changed))).toEqual(changed);
  expect(describeChanges(BASE, changed)).not.toEqual([]);
  expect(describeChanges(changed, BASE)).not.toEqual([]);
  expect(describeChanges(changed, documentOf(file))).toEqual([]);
});

/** As after an upgrade that forgot src/reference-file/changes.ts. */
test('a key without words of its own is reported by its name and value', () => {
  const [operator] = BASE.operators;
  const [connection, brand, game] = [
    operator!.connections[0]!,
    operator!.brands[0]!,
    operator!.catalogue[0]!,
  ];
  const withKey = <Entry extends object>(entry: Entry): Entry => ({ ...entry, quota: [1, 2] });
  for (const [what, entries] of [
    ['operator acme', {}],
    ['connection acme/c', { connections: [withKey(connection)] }],
    ['brand acme/main', { brands: [withKey(brand), operator!.brands[1]!] }],
    ['game acme/g1', { catalogue: [withKey(game)] }],
  ] as const) {
    const changed = { ...operator!, ...entries };
    const after = { operators: [what === 'operator acme' ? withKey(changed) : changed] };
    expect(describeChanges(BASE, after).map(({ what, id, details }) => [`${what} ${id}`, details])).toEqual([
      [what, ['quota: not given -> [1,2]']],
    ]);
    expect(describeChanges(after, after)).toEqual([]);
  }
});

test('no key is about a player, since erase-player does not search reference data [K6]', () => {
  const personal = /player|person|customer|account|user|email|phone|birth|name$/i;
  expect(schemaKeys().filter((key) => personal.test(key))).toEqual([]);
});

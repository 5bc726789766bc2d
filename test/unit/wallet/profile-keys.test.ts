/**
 * The schema of profiles against their reader, key by key. The schema was written by hand for editors; a key
 * that only one of them knows would mislead its writer.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { projectRoot } from '../../../dev/servers/download';
import { isObject } from '../../../src/lib/json';
import { parseProfile } from '../../../src/wallet/profile-file';

type Json = Record<string, unknown>;

const read = (file: string) => readFileSync(join(projectRoot, 'schemas', file), 'utf8');
const object = (value: unknown): Json => {
  if (!isObject(value)) throw new Error(`no object: ${JSON.stringify(value)}`);
  return { ...value };
};
const SCHEMA = object(JSON.parse(read('wallet-profile.schema.json')));
const isValid = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(SCHEMA);

const PLAYER = { id: 'p', token: 't', currency: 'EUR', exponent: 2, earlier_bet: 'b' };
const ACTION = {
  path: '/a',
  payload: {
    ...{ meta: { op_id: '{{op_id}}' }, player: '{{player}}', amount: '{{amount}}', win: '{{win}}' },
    original: '{{original}}',
  },
  enum_field: 'type',
};
const ENDPOINT = { url: 'http://o/e', method: 'GET', headers: { A: 'b' }, body: { a: 1 } };
const propertiesOf = (node: Json): Json => object(node.properties);
const each = (node: unknown, value: unknown): Json =>
  Object.fromEntries(Object.keys(propertiesOf(object(node))).map((key) => [key, value]));

/** Every key of the schema with a valid value. */
const FULL: Json = {
  ...{ environment: 'test', base_url: 'http://w', operator_id: 'o', key_id: 'k', idempotency_header: 'I' },
  ...{ headers: { H: 'v' }, ts: 'rfc3339', amounts: 'minor', game: 'g', connections: 2 },
  signing: {
    ...{ scheme: 'hmac-sha256', header: 'S', prefix: 'v1=', timestamp_header: 'T', encoding: 'hex' },
    ...{ content: '{{body}}', secret_file: 'f' },
  },
  actions: each(propertiesOf(SCHEMA).actions, ACTION),
  unsupported: each(propertiesOf(SCHEMA).unsupported, '/u'),
  answers: { balance: 'b', success: { field: 's', values: ['ok'] }, changing: ['at'] },
  players: each(propertiesOf(SCHEMA).players, PLAYER),
  limits: { requests: 10, seconds: 10 },
  catalogue: { ...ENDPOINT, timestamp_header: 'T', limit_parameter: 'l', items: 'i' },
  token_endpoint: { ...ENDPOINT, jwt: 'j', expiry: 'e', player_id: 'p' },
};

type Path = readonly string[];

/** The keys of the schema that hold no further keys, and the mappings that hold keys. */
function pathsOf(node: unknown, path: Path = []): { leaves: Path[]; mappings: [Path, string[]][] } {
  const schema = object(node);
  const option = Array.isArray(schema.anyOf)
    ? schema.anyOf.find((it) => isObject(it) && it.properties)
    : node;
  const { properties } = object(option);
  if (properties === undefined) return { leaves: [path], mappings: [] };
  const below = Object.entries(object(properties)).map(([key, child]) => pathsOf(child, [...path, key]));
  return {
    leaves: below.flatMap(({ leaves }) => leaves),
    mappings: [[path, Object.keys(object(properties))], ...below.flatMap(({ mappings }) => mappings)],
  };
}

function withValue(target: Json, [first = '', ...rest]: Path, value: unknown): Json {
  return { ...target, [first]: rest.length === 0 ? value : withValue(object(target[first]), rest, value) };
}

const faultsOf = (profile: Json) => {
  const parsed = parseProfile(JSON.stringify(profile), 'wallet.json');
  return 'faults' in parsed ? parsed.faults : [];
};
const profileOf = (profile: Json) => {
  const parsed = parseProfile(JSON.stringify(profile), 'wallet.json');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.profile;
};

const { leaves, mappings } = pathsOf(SCHEMA);
/** A valid value of each key that differs from the one in FULL. Others take the text `other`. */
const OTHERS: Readonly<Record<string, unknown>> = {
  ...{ base_url: 'http://other', headers: { H: 'other' }, ts: 'unix_s', amounts: 'major', method: 'POST' },
  ...{ encoding: 'base64', content: '{{path}}{{body}}', path: '/other', exponent: 3, requests: 11 },
  ...{
    connections: 3,
    scheme: 'hmac-sha512',
    timestamp_header: 'T2',
    seconds: 11,
    url: 'http://other/e',
    body: { a: 2 },
    values: ['other'],
    changing: ['other'],
  },
  payload: { ...ACTION.payload, more: 'other' },
};
/** It has one allowed value. */
const CONSTANT = ['environment'];

test('a profile with every key of the schema is valid for both', () => {
  expect(faultsOf(FULL)).toEqual([]);
  expect([isValid(FULL), isValid.errors]).toEqual([true, null]);
  expect(leaves.length).toBeGreaterThan(100);
});

test.each(leaves.map((path) => path.join('.')).filter((path) => !CONSTANT.includes(path)))(
  'a change of %s is read',
  (name) => {
    const path = name.split('.');
    const value = path[0] === 'unsupported' ? '/other' : (OTHERS[path.at(-1) ?? ''] ?? 'other');
    const changed = withValue(FULL, path, value);
    expect([isValid(changed), isValid.errors]).toEqual([true, null]);
    expect(profileOf(changed)).not.toEqual(profileOf(FULL));
  },
);

test.each(mappings.map(([path, keys]) => [path.join('.') || 'the profile', path, keys] as const))(
  'the keys of %s are those of the reader',
  (_, path, keys) => {
    const unknown = withValue(FULL, [...path, 'x-unknown-key-x'], 1);
    expect(isValid(unknown)).toBe(false);
    const [fault] = faultsOf(unknown);
    const known = /the keys here are (.*)\.$/.exec(fault?.remedy ?? '')?.[1] ?? '';
    expect(known.split(', ').sort()).toEqual([...keys].sort());
  },
);

test('the schema marks no value as wrong that the reader takes', () => {
  const values: readonly unknown[] = [
    ...['', ' ', 'a b', 'a.b', '/a', '/a?b', 'http://h/', 'https://h', 'none', 'hex', 'POST', '{{body}}'],
    ...[-1, 0, 1, 18, 19, 20_000, 20_001, 3_600, 3_601, 1.5, true, null, [], {}, ['a'], { a: 'b' }],
  ];
  // One of the actions and one of the players: all have the same keys, as the tests above show.
  const paths = [...leaves, ...mappings.map(([path]) => path)].filter(
    ([top, name, more]) =>
      top !== undefined &&
      (more === undefined ||
        ['debit', 'usual'].includes(name ?? '') ||
        !['actions', 'players'].includes(top)),
  );
  let accepted = 0;
  for (const path of paths) {
    for (const value of values) {
      const changed = withValue(FULL, path, value);
      if (faultsOf(changed).length > 0) continue;
      accepted++;
      if (!isValid(changed)) throw new Error(`${path.join('.')}: ${JSON.stringify(value)}`);
    }
  }
  expect(accepted).toBeGreaterThan(200);
});

test.each([
  'environment',
  'base_url',
  'operator_id',
  'key_id',
  'idempotency_header',
  'actions',
  'answers',
  'players',
  'actions.debit.payload',
  'actions.credit.path',
  'answers.balance',
  'answers.success.field',
  'players.usual',
  'players.poor.currency',
  'signing.header',
  'signing.secret_file',
  'catalogue.url',
  'catalogue.items',
  'token_endpoint.url',
])('without %s a profile is wrong for both', (name) => {
  // JSON.stringify leaves a key with undefined out.
  const changed = object(JSON.parse(JSON.stringify(withValue(FULL, name.split('.'), undefined))));
  expect(faultsOf(changed)).not.toEqual([]);
  expect(isValid(changed)).toBe(false);
});

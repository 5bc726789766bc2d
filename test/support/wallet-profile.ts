/** A wallet profile with every key of its schema, and the paths of the schema. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { projectRoot } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';
import { parseProfile } from '../../src/wallet/profile-file';

export type Json = Record<string, unknown>;

const read = (file: string) => readFileSync(join(projectRoot, 'schemas', file), 'utf8');
export const object = (value: unknown): Json => {
  if (!isObject(value)) throw new Error(`no object: ${JSON.stringify(value)}`);
  return { ...value };
};
const SCHEMA = object(JSON.parse(read('wallet-profile.schema.json')));
export const isValid = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(SCHEMA);

const PLAYER = { id: 'p', token: 't', currency: 'EUR', exponent: 2, earlier_bet: 'b' };
export const ACTION = {
  path: '/a',
  payload: {
    meta: { op_id: '{{op_id}}' },
    player: '{{player}}',
    amount: '{{amount}}',
    win: '{{win}}',
    original: '{{original}}',
  },
  enum_field: 'type',
};
const ENDPOINT = { url: 'http://o/e', method: 'GET', headers: { A: 'b' }, body: { a: 1 } };
const propertiesOf = (node: Json): Json => object(node.properties);
const each = (node: unknown, value: unknown): Json =>
  Object.fromEntries(Object.keys(propertiesOf(object(node))).map((key) => [key, value]));

/** Every key of the schema with a valid value. */
export const FULL: Json = {
  environment: 'test',
  base_url: 'http://w',
  operator_id: 'o',
  key_id: 'k',
  idempotency_header: 'I',
  headers: { H: 'v' },
  ts: 'rfc3339',
  amounts: 'minor',
  game: 'g',
  connections: 2,
  signing: {
    scheme: 'hmac-sha256',
    header: 'S',
    prefix: 'v1=',
    timestamp_header: 'T',
    encoding: 'hex',
    content: '{{body}}',
    secret_file: 'f',
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

export function withValue(target: Json, [first = '', ...rest]: Path, value: unknown): Json {
  return { ...target, [first]: rest.length === 0 ? value : withValue(object(target[first]), rest, value) };
}

export const faultsOf = (profile: Json) => {
  const parsed = parseProfile(JSON.stringify(profile), 'wallet.json');
  return 'faults' in parsed ? parsed.faults : [];
};
export const { leaves, mappings } = pathsOf(SCHEMA);

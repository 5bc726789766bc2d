/**
 * Kafka record values in the Confluent wire format: the byte 0x00, a schema id of 4 bytes (big endian), the
 * payload.
 * https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
 *
 * The first value with an id looks its schema up in the registry (two requests for Avro); later values are
 * decoded at once. A schema never changes under its id, so it is kept for the life of the process. The
 * result, by the value:
 *
 * - it does not begin with 0x00: json, unchanged
 * - a frame, but no registry is configured: not_json
 * - a frame of less than 5 bytes: not_json
 * - JSON Schema: json, the bytes after the frame
 * - Avro: value; not_json if the bytes do not fit the schema
 * - Protobuf, or an unknown type: not_json, which names the type. An event is JSON, or Avro of the same
 *   shape.
 * - the registry does not know the id, twice in a row: schema_unknown
 * - an id that no registry can give (above 2^31 - 1): schema_unknown, without a request
 * - an invalid Avro schema: schema_unknown. Its values are kept, not rejected.
 * - the registry cannot be reached, is slow or answers otherwise: throws RegistryUnavailable, the value is
 *   undecided
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { types } from 'node:util';
import { isObject, parseJson } from '../lib/json';
import { readAnswer } from '../lib/read-limited';
import { makeAvroReader, type ReadAvro } from './avro';

/** The time limit of one look-up in the registry. */
export const REGISTRY_TIMEOUT_MS = 5_000;

export type Decoded =
  /** Bytes to be judged as JSON. */
  | { type: 'json'; bytes: Buffer }
  /**
   * An Avro value as plain data. Null in an optional field (a union with null) leaves the field out. Numbers
   * above 2^53 are rounded, as JSON.parse does. Bytes and fixed become `true`. Logical types are not applied.
   */
  | { type: 'value'; value: unknown }
  /** `because` says for the sender why the value is not JSON. */
  | { type: 'not_json'; because: string }
  | { type: 'schema_unknown'; schemaId: number };

/** Numbers of values, by the look-up of their schema: in the cache, from the registry, or failed. */
export interface LookUps {
  readonly hit: number;
  readonly miss: number;
  readonly failure: number;
}

export interface WireFormat {
  readonly lookUps: LookUps;
  /**
   * Returns a promise only if it needs the registry. Rejects with RegistryUnavailable, within the time limit.
   */
  decode(value: Buffer): Promise<Decoded> | Decoded;
}

export interface WireFormatOptions {
  /**
   * Address of the registry, with its path if it has one. User and password in it are used, and never shown.
   */
  registryUrl: string | undefined;
  /** The header `authorization` of each request. If absent, it is made of the address's user and password. */
  authorization?: (() => string) | undefined;
  /** Time limit of one look-up of a schema, with its second request and its references. */
  timeoutMs: number;
}

/** The registry cannot be reached, is slow, or sends an invalid answer: no verdict now. A retry may help. */
export class RegistryUnavailable extends Error {
  override name = 'RegistryUnavailable';
}

const MAGIC_BYTE = 0;
const FRAME_BYTES = 5;

/** Whether a value that begins with this byte is in the Confluent wire format (S2). */
export function isFramed(firstByte: number | undefined): boolean {
  return firstByte === MAGIC_BYTE;
}

/**
 * All registries have positive 32-bit integers as ids. Confluent's answers a larger id as it answers a wrong
 * path.
 */
const MAX_SCHEMA_ID = 2 ** 31 - 1;
/** The largest answer: a schema and the fields beside it. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
/** Pause between the first and the second request for an id that the registry does not know. */
const UNKNOWN_PAUSE_MS = 200;
/**
 * An unknown id is not requested again for this long: a flood of one bad id must not become a flood of
 * requests.
 */
const UNKNOWN_KEPT_MS = 5_000;
/** The most unknown ids that are remembered; the oldest is forgotten first. */
const UNKNOWN_KEPT_IDS = 1_000;

/** How values of one schema are decoded. */
type Schema = { type: 'json' } | { type: 'avro'; read: ReadAvro } | { type: 'unsupported'; named: string };

const notJson = (because: string): Decoded => ({ type: 'not_json', because });
const NO_REGISTRY = notJson(
  'the value begins with the byte 0x00, as in the Confluent wire format, and the worker has no schema registry (SCHEMA_REGISTRY_URL): send JSON',
);
const CUT_OFF = notJson(
  'the value begins with the byte 0x00, as in the Confluent wire format, and ends before its schema id',
);

/** @throws Error for an invalid address; the message does not repeat it */
export function makeWireFormat({ registryUrl, authorization, timeoutMs }: WireFormatOptions): WireFormat {
  const registry = registryUrl === undefined ? undefined : parseAddress(registryUrl, authorization);
  const schemas = new Map<number, Schema>();
  const unknownUntilMs = new Map<number, number>();
  const lookUps = new Map<number, Promise<Schema | undefined>>();
  const counts = { hit: 0, miss: 0, failure: 0 };

  /** All callers share one look-up of an id. @returns undefined if the registry does not know the id */
  function schemaOf(registry: Address, id: number): Promise<Schema | undefined> {
    const running = lookUps.get(id);
    if (running !== undefined) return running;
    const lookUp = lookUpSchema(registry, id, timeoutMs)
      .then((schema) => {
        if (schema === undefined) rememberUnknown(id);
        else schemas.set(id, schema);
        return schema;
      })
      .finally(() => lookUps.delete(id));
    lookUps.set(id, lookUp);
    return lookUp;
  }

  function rememberUnknown(id: number): void {
    unknownUntilMs.delete(id);
    unknownUntilMs.set(id, performance.now() + UNKNOWN_KEPT_MS);
    for (const oldest of unknownUntilMs.keys()) {
      if (unknownUntilMs.size <= UNKNOWN_KEPT_IDS) break;
      unknownUntilMs.delete(oldest);
    }
  }

  return {
    lookUps: counts,
    decode(value) {
      if (!isFramed(value[0])) return { type: 'json', bytes: value };
      if (registry === undefined) return NO_REGISTRY;
      if (value.length < FRAME_BYTES) return CUT_OFF;
      const schemaId = value.readUInt32BE(1);
      const payload = value.subarray(FRAME_BYTES);
      const schema = schemas.get(schemaId);
      const isKnownAsUnknown =
        schema === undefined &&
        (schemaId > MAX_SCHEMA_ID || (unknownUntilMs.get(schemaId) ?? 0) > performance.now());
      if (schema !== undefined || isKnownAsUnknown) {
        counts.hit++;
        return schema === undefined
          ? { type: 'schema_unknown', schemaId }
          : decodeAs(schema, schemaId, payload);
      }
      return schemaOf(registry, schemaId).then(
        (found) => {
          counts.miss++;
          return found === undefined
            ? { type: 'schema_unknown', schemaId }
            : decodeAs(found, schemaId, payload);
        },
        (error: unknown) => {
          counts.failure++;
          throw error;
        },
      );
    },
  };
}

function decodeAs(schema: Schema, id: number, payload: Buffer): Decoded {
  if (schema.type === 'json') return { type: 'json', bytes: payload };
  if (schema.type === 'unsupported')
    return notJson(`schema ${id} of the registry is ${schema.named}: send Avro, JSON Schema or plain JSON`);
  const read = schema.read(payload);
  return read === undefined
    ? notJson(`the bytes do not fit schema ${id} of the registry, which is Avro`)
    : { type: 'value', value: read.value };
}

/** Quotes and shortens the type: a registry may send any text. */
function describeType(type: string): string {
  if (type === 'PROTOBUF') return 'Protobuf, which is not supported';
  return `of the type ${JSON.stringify(type.slice(0, MAX_TYPE_LENGTH))}, which is not supported`;
}
const MAX_TYPE_LENGTH = 32;

// The registry's API: https://docs.confluent.io/platform/current/schema-registry/develop/api.html#schemas

interface Address {
  /** Without credentials and without a slash at its end. */
  base: string;
  authorization: (() => string) | undefined;
}

function parseAddress(text: string, authorization: Address['authorization']): Address {
  try {
    const url = new URL(text);
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new Error('not http');
    const username = decodeURIComponent(url.username);
    const password = decodeURIComponent(url.password);
    const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    return {
      base: `${url.origin}${url.pathname}`.replace(/\/+$/, ''),
      authorization: authorization ?? (username === '' && password === '' ? undefined : () => basic),
    };
  } catch {
    // Without the cause: the error of URL repeats the address.
    throw new Error('the address of the schema registry is not a valid http or https URL');
  }
}

/** The registry's own code for an unknown id. A 404 without it comes from a proxy or from a wrong path. */
const SCHEMA_NOT_FOUND = 40403;

/** The answer is that of a wrong path, a redirect, or the page of a proxy. */
const NOT_A_REGISTRY =
  'which is no answer of a schema registry; check the host and the path of SCHEMA_REGISTRY_URL';

/**
 * Looks a schema up within the time limit.
 *
 * @returns undefined if the registry does not know the id in two requests, or if the schema is invalid
 * @throws RegistryUnavailable
 */
async function lookUpSchema(registry: Address, id: number, timeoutMs: number): Promise<Schema | undefined> {
  const deadline = new AbortController();
  const expired = new Promise<never>((_, reject) => {
    deadline.signal.addEventListener('abort', () => reject(new Error(`no answer within ${timeoutMs} ms`)));
  });
  const timer = setTimeout(() => deadline.abort(), timeoutMs);
  try {
    return await Promise.race([requestSchema(registry, id, timeoutMs, deadline.signal), expired]);
  } catch (error) {
    throw new RegistryUnavailable(`schema registry ${registry.base}, schema ${id}: ${reasonOf(error)}`);
  } finally {
    clearTimeout(timer);
    // Ends a request that still hangs: nothing waits for it any more.
    deadline.abort();
  }
}

async function requestSchema(
  registry: Address,
  id: number,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Schema | undefined> {
  let type = await requestType(registry, id, signal);
  if (type === undefined) {
    // A schema registered a moment ago may not be on every replica yet.
    await sleep(Math.min(UNKNOWN_PAUSE_MS, timeoutMs / 4), undefined, { signal });
    type = await requestType(registry, id, signal);
  }
  if (type === undefined) return undefined;
  if (type === 'JSON') return { type: 'json' };
  if (type !== 'AVRO') return { type: 'unsupported', named: describeType(type) };
  return readAvroSchema(registry, id, signal);
}

/**
 * Requests the type of a schema: 'AVRO', 'JSON', 'PROTOBUF'; undefined for an unknown id.
 *
 * The client is not used: it hides the registry's error code, and reports a refused connection as status 400.
 * It also takes a proxy's page of status 200 for a broken schema.
 */
async function requestType(registry: Address, id: number, signal: AbortSignal): Promise<string | undefined> {
  const headers: Record<string, string> = {
    accept: 'application/vnd.schemaregistry.v1+json, application/json',
  };
  if (registry.authorization !== undefined) headers.authorization = registry.authorization();
  const response = await fetch(`${registry.base}/schemas/ids/${id}`, { headers, signal, redirect: 'manual' });
  const body = parseJson(await readAnswer(response.body, MAX_ANSWER_BYTES));
  if (response.status === 404 && isObject(body) && body.error_code === SCHEMA_NOT_FOUND) return undefined;
  if (response.status === 401 || response.status === 403)
    throw new Error(`HTTP ${response.status}; check SCHEMA_REGISTRY_USERNAME or SCHEMA_REGISTRY_TOKEN`);
  if (response.status >= 500 || response.status === 429) throw new Error(`HTTP ${response.status}`);
  if (response.status !== 200) throw new Error(`HTTP ${response.status}, ${NOT_A_REGISTRY}`);
  if (!isObject(body) || typeof body.schema !== 'string')
    throw new Error(`an answer without a schema, ${NOT_A_REGISTRY}`);
  return typeof body.schemaType === 'string' ? body.schemaType : 'AVRO';
}

/** Lets the client fetch the schema with all its references. @returns undefined if it is not valid Avro */
async function readAvroSchema(
  registry: Address,
  id: number,
  signal: AbortSignal,
): Promise<Schema | undefined> {
  // Loaded with the first Avro schema: the client is much code, and most workers never need it.
  const { SchemaRegistry, SchemaType } = await import('@kafkajs/confluent-schema-registry');
  // A new client for each look-up. A client returns the same request to all callers of an id, and never ends
  // one that hangs. No retries here: the caller retries, with a longer wait each time.
  const headers = registry.authorization === undefined ? {} : { authorization: registry.authorization() };
  const client = new SchemaRegistry(
    {
      host: registry.base,
      retry: { retries: 0 },
      middlewares: [() => ({ prepareRequest: async (next) => (await next()).enhance({ signal, headers }) })],
    },
    { [SchemaType.AVRO]: { typeHook: forgetDefaults } },
  );
  try {
    const schema = await client.getSchema(id);
    // The client's object serializes as a schema with all its references, every name in full.
    return { type: 'avro', read: makeAvroReader(JSON.parse(JSON.stringify(schema))) };
  } catch (error) {
    if (isObject(error) && error.name === 'ConfluentSchemaRegistryArgumentError') return undefined;
    throw error;
  }
}

/** Removes defaults: only readers of another schema need them, and newer rules refuse some old defaults. */
function forgetDefaults(schema: unknown): undefined {
  if (!isObject(schema) || !Array.isArray(schema.fields)) return;
  for (const field of schema.fields) if (isObject(field)) delete field.default;
}

/** The setting to look at, by Node's error code. */
const HINTS: readonly [codes: RegExp, setting: string][] = [
  [/^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/, 'NODE_EXTRA_CA_CERTS'],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, 'the host in SCHEMA_REGISTRY_URL: the certificate names another host'],
  [/^(ERR_SSL_|EPROTO)/, 'SCHEMA_REGISTRY_URL: https where the registry speaks http'],
  [
    /^(UND_ERR_SOCKET|ECONNRESET|HPE_)/,
    'SCHEMA_REGISTRY_URL if every try ends so: http where the registry speaks https, or no registry at that port',
  ],
  [/^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED)$/, 'SCHEMA_REGISTRY_URL, and whether the registry runs'],
];

/** The failure in a few words, from a source without credentials. */
function reasonOf(error: unknown): string {
  if (!types.isNativeError(error)) return 'failed';
  // The message of fetch is "fetch failed" alone; the cause has the code.
  const code = isObject(error.cause) ? error.cause.code : undefined;
  if (typeof code !== 'string') return error.message;
  const [, setting] = HINTS.find(([codes]) => codes.test(code)) ?? [];
  return setting === undefined ? code : `${code}; check ${setting}`;
}

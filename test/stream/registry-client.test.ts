/**
 * The wire format with a real schema registry: the one at SCHEMA_REGISTRY_URL, which `make stack` prints. A
 * line of the test's own is stopped or silenced, so that tests running at the same time keep their registry.
 */
import { randomUUID } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry';
import { makeWireFormat, RegistryUnavailable, type WireFormat } from '../../src/schema-registry/wire-format';

/** Long enough for the first requests of a registry that has only just started. */
const TIMEOUT_MS = 10_000;
const IMPATIENT_MS = 3_000;

const address = process.env.SCHEMA_REGISTRY_URL ?? '';
if (address === '')
  throw new Error('SCHEMA_REGISTRY_URL is not set: run `make stack` and export what it prints');

const client = new SchemaRegistry({ host: address.replace(/\/$/, '') });
let wire: WireFormat;
beforeEach(() => {
  wire = makeWireFormat({ registryUrl: address, timeoutMs: TIMEOUT_MS });
});

/** Registers a schema under a subject of its own, and returns its id. */
async function register(
  schema: unknown,
  more: { schemaType?: string; references?: object[] } = {},
  subject = `wire-format-${randomUUID()}`,
): Promise<number> {
  const body = { schema: typeof schema === 'string' ? schema : JSON.stringify(schema), ...more };
  const response = await fetch(`${address.replace(/\/$/, '')}/subjects/${subject}/versions`, {
    method: 'POST',
    headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
    body: JSON.stringify(body),
  });
  const answer: unknown = await response.json();
  if (typeof answer === 'object' && answer !== null && 'id' in answer && typeof answer.id === 'number')
    return answer.id;
  throw new Error(`not registered: ${JSON.stringify(answer)}`);
}

function framed(id: number, payload: Buffer | string): Buffer {
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(id, 1);
  return Buffer.concat([frame, Buffer.from(payload)]);
}

/**
 * A schema that no other test registers, so that its id is new. Without $schema Apicurio does not recognize
 * its type.
 */
const jsonSchema = () => ({
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: randomUUID(),
  type: 'object',
  required: ['event_id'],
});

/** A schema name of its own for each test: a registry may hold only one definition of a name. */
const eventSchema = () => ({
  type: 'record',
  name: `Event${randomUUID().replaceAll('-', '')}`,
  namespace: 'promo',
  fields: [
    { name: 'spec', type: 'string' },
    { name: 'event_id', type: 'string' },
    { name: 'brand', type: ['null', 'string'], default: null },
    {
      name: 'game',
      type: ['null', { type: 'record', name: 'Game', fields: [{ name: 'id', type: 'string' }] }],
      default: null,
    },
    { name: 'at', type: { type: 'long', logicalType: 'timestamp-millis' } },
  ],
});
const EVENT = { spec: 'promo.event.v1', event_id: 'e-1', brand: null, game: { id: 'g1' }, at: 1 };

/** The network line to the registry, which can break or fall silent. */
class Line {
  private readonly sockets = new Set<Socket>();
  private state: 'open' | 'silent' | 'stopped' = 'open';
  private readonly target = new URL(address);
  private readonly server = createServer((near) => {
    this.keep(near);
    if (this.state === 'stopped') near.destroy();
    if (this.state !== 'open') return;
    const far = this.keep(connect(Number(this.target.port || 80), this.target.hostname));
    near.pipe(far).pipe(near);
  });

  async open(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${this.target.pathname}`;
  }

  /** Ends all connections; new connections find the line in the new state. */
  become(state: 'open' | 'silent' | 'stopped'): void {
    this.state = state;
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.become('stopped');
    await new Promise((resolve) => this.server.close(resolve));
  }

  private keep(socket: Socket): Socket {
    this.sockets.add(socket);
    return socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
  }
}

it('a value of a JSON Schema is the bytes after its frame', async () => {
  const id = await register(jsonSchema(), { schemaType: 'JSON' });
  for (const payload of ['{"event_id":"e-1"}', '{}', 'not json']) {
    expect(await wire.decode(framed(id, payload))).toEqual({ type: 'json', bytes: Buffer.from(payload) });
  }
});

it('a value of an Avro schema is its fields, without the nulls of optional ones', async () => {
  const id = await register(eventSchema());
  const value = await client.encode(id, EVENT);
  const { brand: _, ...present } = EVENT;
  expect(await wire.decode(value)).toEqual({ type: 'value', value: present });
  expect(wire.decode(value)).toEqual({ type: 'value', value: present });
});

it('an Avro schema may refer to another subject', async () => {
  const game = {
    type: 'record',
    name: `Game${randomUUID().replaceAll('-', '')}`,
    namespace: 'promo',
    fields: [{ name: 'id', type: 'string' }],
  };
  const name = `promo.${game.name}`;
  const subject = `wire-format-${randomUUID()}`;
  await register(game, {}, subject);
  const event = { ...eventSchema(), fields: [{ name: 'game', type: ['null', name] }] };
  const id = await register(event, { references: [{ name, subject, version: 1 }] });
  expect(await wire.decode(await client.encode(id, { game: { id: 'g1' } }))).toEqual({
    type: 'value',
    value: { game: { id: 'g1' } },
  });
});

it('bytes that do not fit their Avro schema are not JSON', async () => {
  const id = await register(eventSchema());
  const value = await client.encode(id, EVENT);
  expect(await wire.decode(value.subarray(0, -1))).toMatchObject({ type: 'not_json' });
  expect(await wire.decode(Buffer.concat([value, Buffer.from([0])]))).toMatchObject({ type: 'not_json' });
  const invalid = Buffer.from(value);
  invalid[value.indexOf('e-1')] = 0xff;
  expect(await wire.decode(invalid)).toMatchObject({ type: 'not_json' });
});

it('a value of a Protobuf schema is not JSON', async () => {
  const message = `Event${randomUUID().replaceAll('-', '')}`;
  const schema = `syntax = "proto3"; message ${message} { string event_id = 1; }`;
  const id = await register(schema, { schemaType: 'PROTOBUF' });
  expect(await wire.decode(framed(id, Buffer.from([0, 10, 1, 65])))).toMatchObject({ type: 'not_json' });
});

it.each([0, 2_000_000_000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1])(
  'the registry does not know the id %d',
  async (id) => {
    expect(await wire.decode(framed(id, '{}'))).toEqual({ type: 'schema_unknown', schemaId: id });
  },
);

it('an address with a wrong path leaves the value undecided, and does not make its schema unknown', async () => {
  const wrong = makeWireFormat({ registryUrl: new URL('/wrong', address).href, timeoutMs: TIMEOUT_MS });
  await expect(wrong.decode(framed(1, '{}'))).rejects.toThrow(RegistryUnavailable);
});

describe('a registry that goes away', () => {
  const line = new Line();
  let through: WireFormat;
  beforeAll(async () => {
    through = makeWireFormat({ registryUrl: await line.open(), timeoutMs: IMPATIENT_MS });
  });
  afterAll(() => line.close());

  it('leaves values of new schemas undecided, decodes values of known ones, and is asked again when it is back', async () => {
    const known = await register(jsonSchema(), { schemaType: 'JSON' });
    const other = await register(jsonSchema(), { schemaType: 'JSON' });
    const json = { type: 'json', bytes: Buffer.from('{}') };
    expect(await through.decode(framed(known, '{}'))).toEqual(json);

    line.become('stopped');
    await expect(through.decode(framed(other, '{}'))).rejects.toThrow(RegistryUnavailable);
    line.become('silent');
    await expect(through.decode(framed(other, '{}'))).rejects.toThrow(`no answer within ${IMPATIENT_MS} ms`);
    expect(through.decode(framed(known, '{}'))).toEqual(json);

    line.become('open');
    expect(await through.decode(framed(other, '{}'))).toEqual(json);
  });
});

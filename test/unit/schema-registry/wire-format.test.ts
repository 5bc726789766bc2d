import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry';
import fc from 'fast-check';
import {
  type Decoded,
  makeWireFormat,
  RegistryUnavailable,
  type WireFormat,
} from '../../../src/schema-registry/wire-format';
import { varint } from '../../support/record-batch';
import { anyCharacter } from '../../support/texts';

const TIMEOUT_MS = 20_000;
/** Of tests in which the registry never answers. */
const SHORT_TIMEOUT_MS = 300;
const NO_ANSWER = `no answer within ${SHORT_TIMEOUT_MS} ms`;
/** Longer than the pause between two requests, and than the time limit. */
const SOON_MS = 10_000;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const json =
  (status: number, body: unknown): Answer =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/vnd.schemaregistry.v1+json' });
    response.end(JSON.stringify(body));
  };
const schema = (text: unknown, more: object = {}): Answer =>
  json(200, { schema: JSON.stringify(text), ...more });
const NOT_FOUND = json(404, { error_code: 40403, message: 'Schema not found' });
const text =
  (status: number, body: string): Answer =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'text/html' });
    response.end(body);
  };

/** A registry of the test: it gives the answers of a path in turn, and then repeats the last one. */
class Registry {
  readonly requests: string[] = [];
  readonly authorizations: (string | undefined)[] = [];
  private readonly answers = new Map<string, Answer[]>();
  private readonly server: Server;

  constructor() {
    this.server = createServer((request, response) => {
      const path = (request.url ?? '').split('?', 1)[0]!;
      this.requests.push(path);
      this.authorizations.push(request.headers.authorization);
      const answers = this.answers.get(path) ?? [NOT_FOUND];
      (answers.length > 1 ? answers.shift()! : answers[0]!)(request, response);
    });
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  get address(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  answer(path: string, ...answers: Answer[]): void {
    this.answers.set(path, answers);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

let registry: Registry;
let wire: WireFormat;
beforeEach(async () => {
  registry = new Registry();
  await registry.start();
  wire = makeWireFormat({ registryUrl: `http://${registry.address}`, timeoutMs: TIMEOUT_MS });
});
afterEach(async () => {
  jest.restoreAllMocks();
  await registry.stop();
});

const impatient = () =>
  makeWireFormat({ registryUrl: `http://${registry.address}`, timeoutMs: SHORT_TIMEOUT_MS });

function framed(id: number, payload: Buffer | number[] = []): Buffer {
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(id, 1);
  return Buffer.concat([frame, Buffer.from(payload)]);
}

/** A short string in Avro. */
const avroText = (value: string): number[] => [Buffer.byteLength(value) * 2, ...Buffer.from(value)];
const avroRecord = (...fields: object[]) => ({ type: 'record', name: 'Event', namespace: 'promo', fields });
const ONE_STRING = avroRecord({ name: 'event_id', type: 'string' });
const OPTIONAL = ['null', 'string'];
const VALUE = (value: unknown): Decoded => ({ type: 'value', value });
const NOT_JSON = { type: 'not_json', because: expect.any(String) };

/** Decodes a payload under an Avro schema that the registry holds. */
async function avro(avroSchema: unknown, payload: Buffer | number[]): Promise<Decoded> {
  registry.answer('/schemas/ids/7', schema(avroSchema));
  return makeWireFormat({ registryUrl: `http://${registry.address}`, timeoutMs: TIMEOUT_MS }).decode(
    framed(7, payload),
  );
}

async function unavailable(decoding: Promise<Decoded> | Decoded): Promise<string> {
  const error = await Promise.resolve(decoding).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RegistryUnavailable);
  return error instanceof Error ? error.message : '';
}

describe('a value without a frame', () => {
  it.each(['{"event_id":"e-1"}', '', ' ', 'x'])('%j is judged as it is, at once', (value) => {
    const bytes = Buffer.from(value);
    expect(wire.decode(bytes)).toEqual({ type: 'json', bytes });
    expect(makeWireFormat({ registryUrl: undefined, timeoutMs: TIMEOUT_MS }).decode(bytes)).toEqual({
      type: 'json',
      bytes,
    });
    expect(registry.requests).toEqual([]);
  });
});

describe('a framed value', () => {
  it('is not JSON where no registry is configured', () => {
    const unconfigured = makeWireFormat({ registryUrl: undefined, timeoutMs: TIMEOUT_MS });
    expect(unconfigured.decode(framed(7, Buffer.from('{}')))).toEqual(NOT_JSON);
  });

  it.each([1, 2, 3, 4])('of %d bytes is not JSON: its frame is cut off', (length) => {
    expect(wire.decode(framed(7).subarray(0, length))).toEqual(NOT_JSON);
    expect(registry.requests).toEqual([]);
  });

  it('of a JSON Schema is the bytes after the frame, whatever these are', async () => {
    registry.answer('/schemas/ids/7', schema({ type: 'object', required: ['a'] }, { schemaType: 'JSON' }));
    for (const payload of ['{"a":1}', '{}', 'not json', '']) {
      expect(await wire.decode(framed(7, Buffer.from(payload)))).toEqual({
        type: 'json',
        bytes: Buffer.from(payload),
      });
    }
  });

  it('of a JSON Schema that our validators do not understand is judged all the same', async () => {
    const draft = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'no-such-type' };
    registry.answer('/schemas/ids/7', schema(draft, { schemaType: 'JSON' }));
    expect(await wire.decode(framed(7, Buffer.from('{}')))).toEqual({
      type: 'json',
      bytes: Buffer.from('{}'),
    });
  });

  it.each([
    [
      'PROTOBUF',
      'schema 7 of the registry is Protobuf, which is not supported: send Avro, JSON Schema or plain JSON',
    ],
    [
      'THRIFT',
      'schema 7 of the registry is of the type "THRIFT", which is not supported: send Avro, JSON Schema or plain JSON',
    ],
  ])(
    'of a %s schema is not JSON, and the error names its type and the remedy',
    async (schemaType, because) => {
      registry.answer('/schemas/ids/7', json(200, { schema: 'syntax = "proto3";', schemaType }));
      expect(await wire.decode(framed(7, [0, 10, 1, 65]))).toEqual({ type: 'not_json', because });
    },
  );

  it('waits for the registry once, and not again for the same schema', async () => {
    registry.answer('/schemas/ids/7', schema(ONE_STRING));
    expect(wire.decode(framed(7, avroText('e-1')))).toBeInstanceOf(Promise);
    await wire.decode(framed(7, avroText('e-1')));
    const asked = registry.requests.length;
    expect(wire.decode(framed(7, avroText('e-2')))).toEqual(VALUE({ event_id: 'e-2' }));
    expect(registry.requests.length).toBe(asked);
  });

  it('shares one look-up with all values that wait for the same schema', async () => {
    registry.answer('/schemas/ids/7', schema({ type: 'object' }, { schemaType: 'JSON' }));
    await Promise.all(Array.from({ length: 50 }, () => wire.decode(framed(7))));
    expect(registry.requests).toEqual(['/schemas/ids/7']);
  });

  it('finds the registry under a path, with or without a slash at its end', async () => {
    registry.answer('/apis/ccompat/v7/schemas/ids/7', schema(ONE_STRING));
    for (const path of ['/apis/ccompat/v7', '/apis/ccompat/v7/']) {
      const under = makeWireFormat({
        registryUrl: `http://${registry.address}${path}`,
        timeoutMs: TIMEOUT_MS,
      });
      expect(await under.decode(framed(7, avroText('e-1')))).toEqual(VALUE({ event_id: 'e-1' }));
    }
  });
});

describe('an id that the registry does not know', () => {
  it('is requested twice, with a pause, before it counts as unknown', async () => {
    const begunMs = performance.now();
    expect(await wire.decode(framed(9))).toEqual({ type: 'schema_unknown', schemaId: 9 });
    expect(registry.requests).toEqual(['/schemas/ids/9', '/schemas/ids/9']);
    expect(performance.now() - begunMs).toBeGreaterThan(50);
  });

  it('that the registry knows the second time is used', async () => {
    registry.answer('/schemas/ids/9', NOT_FOUND, schema({ type: 'object' }, { schemaType: 'JSON' }));
    expect(await wire.decode(framed(9, Buffer.from('{}')))).toEqual({
      type: 'json',
      bytes: Buffer.from('{}'),
    });
  });

  it('is undecided if the second request has no answer', async () => {
    registry.answer('/schemas/ids/9', NOT_FOUND, json(503, {}));
    expect(await unavailable(wire.decode(framed(9)))).toContain('HTTP 503');
  });

  it('is requested again after some seconds only, and may exist by then', async () => {
    const now = performance.now.bind(performance);
    await wire.decode(framed(9));
    expect(wire.decode(framed(9))).toEqual({ type: 'schema_unknown', schemaId: 9 });
    expect(registry.requests.length).toBe(2);

    jest.spyOn(performance, 'now').mockImplementation(() => now() + 5_001);
    registry.answer('/schemas/ids/9', schema(ONE_STRING));
    expect(await wire.decode(framed(9, avroText('e-1')))).toEqual(VALUE({ event_id: 'e-1' }));
  });

  it('is not requested at all if no registry can assign it', () => {
    expect(wire.decode(framed(2 ** 31))).toEqual({ type: 'schema_unknown', schemaId: 2 ** 31 });
    expect(wire.decode(framed(2 ** 32 - 1))).toEqual({ type: 'schema_unknown', schemaId: 2 ** 32 - 1 });
    expect(registry.requests).toEqual([]);
  });

  it.each([
    ['a proxy', text(404, 'default backend - 404')],
    ['a wrong path of a Confluent registry', json(404, { error_code: 404, message: 'HTTP 404 Not Found' })],
  ])('is undecided if the 404 is that of %s', async (_, answer) => {
    registry.answer('/schemas/ids/9', answer);
    expect(await unavailable(wire.decode(framed(9)))).toMatch(/HTTP 404, .*path of SCHEMA_REGISTRY_URL$/);
    expect(registry.requests.length).toBe(1);
  });

  it('an invalid Avro schema is treated like an unknown one, since its values may be good', async () => {
    for (const bad of [{ type: 'record', name: 'Event' }, { type: 'no-such-type' }, 'Missing', [['null']]]) {
      expect(await avro(bad, [0])).toEqual({ type: 'schema_unknown', schemaId: 7 });
    }
  });
});

describe('a wrong answer of the registry leaves the value undecided', () => {
  it.each<[string, Answer, string]>([
    ['status 500', json(500, { error_code: 50001, message: 'Error in the backend data store' }), 'HTTP 500'],
    ['status 401', json(401, { error_code: 401, message: 'Unauthorized' }), 'HTTP 401'],
    ['status 429', text(429, ''), 'HTTP 429'],
    [
      'a redirect to a login page',
      (_, response) => response.writeHead(302, { location: '/login' }).end(),
      'HTTP 302, which is no answer of a schema registry; check the host and the path of SCHEMA_REGISTRY_URL',
    ],
    [
      'a login page of status 200',
      text(200, '<html>log in</html>'),
      'without a schema, which is no answer of a schema registry',
    ],
    ['JSON without a schema', json(200, { message: 'hello' }), 'an answer without a schema'],
    [
      'a connection that ends within the answer',
      (_, response) =>
        response.writeHead(200, { 'content-length': 100 }).write('{', () => response.destroy()),
      '',
    ],
    ['silence', () => undefined, NO_ANSWER],
    ['an answer that never ends', (_, response) => void response.writeHead(200).write('{'), NO_ANSWER],
  ])('%s', async (_, answer, reason) => {
    registry.answer('/schemas/ids/7', answer);
    const begunMs = performance.now();
    const asked = reason === NO_ANSWER ? impatient() : wire;
    expect(await unavailable(asked.decode(framed(7)))).toContain(reason);
    expect(performance.now() - begunMs).toBeLessThan(SOON_MS);
  });

  it('nobody there', async () => {
    await registry.stop();
    expect(await unavailable(wire.decode(framed(7)))).toMatch(
      /ECONNREFUSED; check SCHEMA_REGISTRY_URL, and whether the registry runs$/,
    );
    registry = new Registry();
    await registry.start();
  });

  it('https where the registry speaks http', async () => {
    const wrong = makeWireFormat({ registryUrl: `https://${registry.address}`, timeoutMs: TIMEOUT_MS });
    expect(await unavailable(wrong.decode(framed(7)))).toMatch(
      /; check SCHEMA_REGISTRY_URL: https where the registry speaks http$/,
    );
  });

  it('http where the server speaks another protocol', async () => {
    const server = createTcpServer((socket) =>
      socket.on('error', () => undefined).once('data', () => socket.end('R')),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const wrong = makeWireFormat({ registryUrl: `http://127.0.0.1:${port}`, timeoutMs: TIMEOUT_MS });
    expect(await unavailable(wrong.decode(framed(7)))).toMatch(
      /; check SCHEMA_REGISTRY_URL if every try ends so: http where the registry speaks https, or no registry at that port$/,
    );
    server.close();
  });

  it('and all values that wait for it, after one request; the next value requests it again', async () => {
    registry.answer('/schemas/ids/7', json(500, {}), schema({ type: 'object' }, { schemaType: 'JSON' }));
    await Promise.all(Array.from({ length: 20 }, () => unavailable(wire.decode(framed(7)))));
    expect(registry.requests.length).toBe(1);
    expect(await wire.decode(framed(7, Buffer.from('{}')))).toEqual({
      type: 'json',
      bytes: Buffer.from('{}'),
    });
  });

  it('a hanging answer to the Avro client does not affect the next look-up', async () => {
    const hanging: Answer = (_, response) => void response.writeHead(200).write('{');
    const good = schema(ONE_STRING);
    registry.answer('/schemas/ids/7', good, hanging, good);
    const timeoutMs = 3_000;
    const own = makeWireFormat({ registryUrl: `http://${registry.address}`, timeoutMs });
    expect(await unavailable(own.decode(framed(7)))).toContain(`no answer within ${timeoutMs} ms`);
    expect(await own.decode(framed(7, avroText('e-1')))).toEqual(VALUE({ event_id: 'e-1' }));
  });

  it('values of known schemas are decoded meanwhile', async () => {
    registry.answer('/schemas/ids/7', schema(ONE_STRING));
    await wire.decode(framed(7, avroText('e-1')));
    await registry.stop();
    expect(wire.decode(framed(7, avroText('e-2')))).toEqual(VALUE({ event_id: 'e-2' }));
    registry = new Registry();
    await registry.start();
  });

  it('a reference that cannot be fetched', async () => {
    const references = [{ name: 'promo.Game', subject: 'game', version: 1 }];
    registry.answer(
      '/schemas/ids/7',
      schema(avroRecord({ name: 'game', type: 'promo.Game' }), { references }),
    );
    registry.answer('/subjects/game/versions/1', json(500, {}));
    await unavailable(wire.decode(framed(7)));
  });
});

describe('the address of the registry', () => {
  it('may hold credentials, which are sent with each request and appear in no error', async () => {
    const registryUrl = `http://us%40er:se%3Acret@${registry.address}`;
    const secured = makeWireFormat({ registryUrl, timeoutMs: TIMEOUT_MS });
    registry.answer('/schemas/ids/7', schema(ONE_STRING));
    expect(await secured.decode(framed(7, avroText('e-1')))).toEqual(VALUE({ event_id: 'e-1' }));
    const expected = `Basic ${Buffer.from('us@er:se:cret').toString('base64')}`;
    expect(registry.authorizations).toEqual([expected, expected]);

    registry.answer('/schemas/ids/8', json(401, { message: 'no' }));
    const message = await unavailable(secured.decode(framed(8)));
    expect(message).toBe(
      `schema registry http://${registry.address}, schema 8: HTTP 401; check SCHEMA_REGISTRY_USERNAME or SCHEMA_REGISTRY_TOKEN`,
    );
  });

  it.each([
    '',
    'registry:8081',
    'ftp://user:secret@registry',
    'http://user:secret@',
    'http://us%er:secret@registry',
  ])('%j is refused without being repeated', (registryUrl) => {
    const make = () => makeWireFormat({ registryUrl, timeoutMs: TIMEOUT_MS });
    expect(make).toThrow('the address of the schema registry is not a valid http or https URL');
  });
});

describe('an Avro value', () => {
  it('has the fields of its schema', async () => {
    const fields = [
      { name: 'text', type: 'string' },
      { name: 'yes', type: 'boolean' },
      { name: 'int', type: 'int' },
      { name: 'long', type: 'long' },
      { name: 'double', type: 'double' },
      { name: 'float', type: 'float' },
      { name: 'bytes', type: 'bytes' },
      { name: 'fixed', type: { type: 'fixed', name: 'Two', size: 2 } },
      { name: 'kind', type: { type: 'enum', name: 'Kind', symbols: ['bet', 'win'] } },
      { name: 'tags', type: { type: 'array', items: 'string' } },
      { name: 'more', type: { type: 'map', values: 'int' } },
      { name: 'game', type: avroRecord({ name: 'id', type: 'string' }) },
    ].map((field) => (field.name === 'game' ? { ...field, type: { ...ONE_STRING, name: 'Game' } } : field));
    const double = Buffer.alloc(8);
    double.writeDoubleLE(0.1);
    const payload = Buffer.concat([
      Buffer.from([...avroText('é\u0000€😀'), 1, 3, 0x80, 0x02]),
      double,
      Buffer.from([0, 0, 0xc0, 0x3f, 4, 1, 2, 3, 4, 2]),
      Buffer.from([2, ...avroText('a'), 1, 2 * 2, ...avroText('b'), 0]),
      Buffer.from([4, ...avroText('x'), 2, ...avroText('__proto__'), 4, 0]),
      Buffer.from(avroText('g1')),
    ]);
    const decoded = await avro(avroRecord(...fields), payload);
    expect(decoded).toEqual(
      VALUE({
        text: 'é\u0000€😀',
        yes: true,
        int: -2,
        long: 128,
        double: 0.1,
        float: 1.5,
        // A value that no field of an event may have, and no object either.
        bytes: true,
        fixed: true,
        kind: 'win',
        tags: ['a', 'b'],
        more: JSON.parse('{"x":1,"__proto__":2}'),
        game: { event_id: 'g1' },
      }),
    );
  });

  it('leaves out the null of an optional field, in nested records too, and keeps the rest', async () => {
    const game = { type: 'record', name: 'Game', fields: [{ name: 'id', type: OPTIONAL, default: null }] };
    const fields = [
      { name: 'brand', type: OPTIONAL, default: null },
      { name: 'round_id', type: ['string', 'null'] },
      { name: 'game', type: ['null', game] },
      { name: 'nothing', type: 'null' },
      { name: 'list', type: { type: 'array', items: OPTIONAL } },
    ];
    expect(await avro(avroRecord(...fields), [0, 2, 2, 0, 2, 0, 0])).toEqual(
      VALUE({ game: {}, nothing: null, list: [null] }),
    );
    expect(await avro(avroRecord(...fields), [2, ...avroText('b'), 0, ...avroText('r'), 0, 0])).toEqual(
      VALUE({ brand: 'b', round_id: 'r', nothing: null, list: [] }),
    );
  });

  it('is itself where a union is ambiguous', async () => {
    const kind = { type: 'enum', name: 'Kind', symbols: ['bet'] };
    expect(await avro(avroRecord({ name: 'kind', type: ['string', kind] }), [2, 0])).toEqual(
      VALUE({ kind: 'bet' }),
    );
  });

  it('keeps the base type of a logical type', async () => {
    const fields = [
      { name: 'at', type: { type: 'long', logicalType: 'timestamp-millis' } },
      { name: 'amount', type: { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 2 } },
      { name: 'id', type: { type: 'string', logicalType: 'uuid' } },
    ];
    expect(await avro(avroRecord(...fields), [2, 2, 5, ...avroText('u')])).toEqual(
      VALUE({ at: 1, amount: true, id: 'u' }),
    );
  });

  it('rounds a long above 2^53, and keeps its event', async () => {
    const fields = [
      { name: 'sequence', type: 'long' },
      { name: 'event_id', type: 'string' },
    ];
    const most = [0xfe, ...Array(8).fill(0xff), 1];
    const least = [0xff, ...Array(8).fill(0xff), 1];
    for (const [bytes, sequence] of [
      [most, 2 ** 63],
      [least, -(2 ** 63)],
    ] as const) {
      expect(await avro(avroRecord(...fields), [...bytes, ...avroText('e')])).toEqual(
        VALUE({ sequence, event_id: 'e' }),
      );
    }
  });

  it('may have a schema with a default that newer rules refuse', async () => {
    const fields = [{ name: 'brand', type: ['string', 'null'], default: null }];
    expect(await avro(avroRecord(...fields), [0, ...avroText('b')])).toEqual(VALUE({ brand: 'b' }));
  });

  it('may have a schema that refers to itself and to others', async () => {
    const references = [{ name: 'promo.Game', subject: 'game', version: 3 }];
    const event = avroRecord({ name: 'game', type: 'Game' }, { name: 'before', type: ['null', 'Event'] });
    const game = {
      type: 'record',
      name: 'Game',
      namespace: 'promo',
      fields: [{ name: 'id', type: 'string' }],
    };
    registry.answer('/schemas/ids/7', schema(event, { references }));
    registry.answer('/subjects/game/versions/3', schema(game, { subject: 'game', version: 3, id: 6 }));
    expect(await wire.decode(framed(7, [...avroText('g2'), 2, ...avroText('g1'), 0]))).toEqual(
      VALUE({ game: { id: 'g2' }, before: { game: { id: 'g1' } } }),
    );
  });

  it('need not be a record', async () => {
    expect(await avro('string', avroText('{}'))).toEqual(VALUE('{}'));
  });
});

describe('bytes that do not fit their Avro schema', () => {
  const kind = { type: 'enum', name: 'Kind', symbols: ['bet'] };
  const nested = avroRecord({ name: 'inner', type: ['null', 'Event'] });
  /** 40 records of no bytes, each of which holds the one before it twice. */
  const doubled = Array.from({ length: 40 }).reduce<object>(
    (inner, _, level) => ({
      type: 'record',
      name: `L${level + 1}`,
      fields: [
        { name: 'first', type: inner },
        { name: 'second', type: `L${level}` },
      ],
    }),
    { type: 'record', name: 'L0', fields: [] },
  );
  /** Counts of 2^31 items, which would be gigabytes. */
  const claim = [0x80, 0x80, 0x80, 0x80, 0x10];

  const NULLS = Array.from({ length: 1_000 }, (_, index) => ({ name: `f${index}`, type: 'null' }));
  const ONE_BOOLEAN = [{ name: 'b', type: 'boolean' }];
  /** A block of this number of items of one byte, 0, and the end. */
  const many = (count: number) => Buffer.concat([varint(count), Buffer.alloc(count + 1)]);

  it.each<[string, unknown, Buffer | number[]]>([
    ['nothing', ONE_STRING, []],
    ['a string that is cut off', ONE_STRING, [4, 65]],
    ['a string of negative length', ONE_STRING, [1, 65]],
    ['a string of more than all memory', ONE_STRING, [...Array(8).fill(0xff), 0x7e]],
    ['bytes after the value', ONE_STRING, [2, 65, 0]],
    ['invalid UTF-8', ONE_STRING, [2, 0xff]],
    ['a lone surrogate', ONE_STRING, [6, 0xed, 0xa0, 0x80]],
    ['invalid UTF-8 in the key of a map', { type: 'map', values: 'int' }, [2, 2, 0xff, 2, 0]],
    ['a number that does not end', avroRecord({ name: 'n', type: 'long' }), Array(20).fill(0x80)],
    ['a number that is cut off', avroRecord({ name: 'n', type: 'long' }), [0x80]],
    ['a double that is cut off', avroRecord({ name: 'n', type: 'double' }), [0, 0, 0]],
    ['a boolean of 2', avroRecord({ name: 'b', type: 'boolean' }), [2]],
    ['a branch that does not exist', avroRecord({ name: 'u', type: OPTIONAL }), [4]],
    ['a negative branch', avroRecord({ name: 'u', type: OPTIONAL }), [1]],
    ['a symbol that does not exist', kind, [2]],
    ['an array that claims billions of strings', { type: 'array', items: 'string' }, [...claim, 0]],
    ['an array that claims billions of nulls', { type: 'array', items: 'null' }, [...claim, 0]],
    ['a map that claims billions', { type: 'map', values: 'null' }, [...claim, 0]],
    ['records nested too deeply', nested, [...Array(100_000).fill(2), 0]],
    ['records that are without bytes and without number', doubled, []],
    [
      'records of one byte beside one another',
      { type: 'array', items: avroRecord(...ONE_BOOLEAN) },
      many(1_000),
    ],
    [
      'empty arrays beside one another',
      { type: 'array', items: { type: 'array', items: 'int' } },
      many(1_000),
    ],
    [
      'records of two million nulls, which take no bytes',
      avroRecord(
        { name: 'all', type: { type: 'array', items: { ...avroRecord(...NULLS), name: 'Nulls' } } },
        { name: 'pad', type: 'bytes' },
      ),
      [0xa0, 0x1f, 0, 0x80, 0xf4, 0x03, ...Array(32_000).fill(0)],
    ],
    ['more than a million booleans', { type: 'array', items: 'boolean' }, many(1_000_001)],
  ])('%s', async (_, avroSchema, payload) => {
    expect(await avro(avroSchema, payload)).toEqual(NOT_JSON);
  });
});

describe('whatever the bytes', () => {
  const EVENT = avroRecord(
    { name: 'event_id', type: 'string' },
    { name: 'brand', type: OPTIONAL },
    { name: 'sequence', type: 'long' },
    { name: 'weight', type: 'double' },
    { name: 'live', type: 'boolean' },
    { name: 'tags', type: { type: 'array', items: OPTIONAL } },
    { name: 'more', type: { type: 'map', values: 'long' } },
    {
      name: 'game',
      type: ['null', { type: 'record', name: 'Game', fields: [{ name: 'id', type: OPTIONAL }] }],
    },
  );
  const string = fc.string({ unit: anyCharacter });
  const optional = fc.option(string, { nil: null });
  const long = fc.integer({ min: -(2 ** 50), max: 2 ** 50 });

  it('values that the common client encodes are decoded to the same, without nulls', async () => {
    registry.answer('/schemas/ids/7', schema(EVENT));
    const client = new SchemaRegistry({ host: `http://${registry.address}` });
    const event = fc.record({
      event_id: string,
      brand: optional,
      sequence: long,
      weight: fc.double({ noNaN: true }),
      live: fc.boolean(),
      tags: fc.array(optional),
      more: fc.dictionary(
        string.filter((key) => key !== '__proto__'),
        long,
      ),
      game: fc.option(fc.record({ id: optional }), { nil: null }),
    });
    await fc.assert(
      fc.asyncProperty(event, async (value) => {
        const { brand, game, ...rest } = value;
        expect(await wire.decode(await client.encode(7, value))).toEqual(
          VALUE({
            ...rest,
            more: { ...rest.more },
            ...(brand === null ? {} : { brand }),
            ...(game === null ? {} : { game: game.id === null ? {} : { id: game.id } }),
          }),
        );
      }),
    );
  });

  it('random bytes are a value or do not fit, and have no other result', async () => {
    registry.answer('/schemas/ids/7', schema(EVENT));
    await wire.decode(framed(7));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (payload) => {
        const decoded = wire.decode(framed(7, Buffer.from(payload)));
        return !(decoded instanceof Promise) && ['value', 'not_json'].includes(decoded.type);
      }),
      { numRuns: 2_000 },
    );
  });
});

/**
 * A collector of OpenTelemetry: it takes the worker's exports by OTLP over HTTP, and reads their protobuf.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { type Serving, serve } from './serve';

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  /** 1 internal, 3 client, 5 consumer. */
  readonly kind: number;
  readonly seconds: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly links: readonly {
    readonly traceId: string;
    readonly spanId: string;
    readonly attributes: CollectedSpan['attributes'];
  }[];
  /** 2: error. */
  readonly status: number;
  readonly statusMessage: string;
  readonly resource: CollectedSpan['attributes'];
}

export interface Collector extends Serving {
  readonly endpoint: string;
  readonly spans: CollectedSpan[];
  readonly requests: { readonly path: string | undefined; readonly headers: IncomingHttpHeaders }[];
}

/** @param answer the HTTP status of each answer; null: no answer ever */
export async function startCollector(answer: number | null = 200): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const requests: Collector['requests'] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      requests.push({ path: request.url, headers: request.headers });
      if (answer === null) return;
      if (answer === 200) spans.push(...readSpans(Buffer.concat(chunks)));
      response.writeHead(answer, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  const serving = await serve(server);
  return { ...serving, endpoint: `http://127.0.0.1:${serving.port}`, spans, requests };
}

// The numbers are those of opentelemetry/proto/collector/trace/v1/trace_service.proto and its imports.

function readSpans(request: Buffer): CollectedSpan[] {
  return readMessage(request)
    .messages(1)
    .flatMap((ofResource) => {
      const [resource] = ofResource.messages(1);
      return ofResource
        .messages(2)
        .flatMap((ofScope) => ofScope.messages(2))
        .map((span) => spanOf(span, resource === undefined ? {} : attributesOf(resource, 1)));
    });
}

function spanOf(span: Message, resource: CollectedSpan['attributes']): CollectedSpan {
  const [status] = span.messages(15);
  return {
    traceId: span.hex(1),
    spanId: span.hex(2),
    parentSpanId: span.hex(4),
    name: span.text(5),
    kind: span.number(6),
    seconds: (span.number(8) - span.number(7)) / 1e9,
    attributes: attributesOf(span, 9),
    links: span.messages(13).map((link) => ({
      traceId: link.hex(1),
      spanId: link.hex(2),
      attributes: attributesOf(link, 4),
    })),
    status: status?.number(3) ?? 0,
    statusMessage: status?.text(2) ?? '',
    resource,
  };
}

function attributesOf(message: Message, field: number): Record<string, string | number> {
  return Object.fromEntries(
    message.messages(field).map((pair) => {
      const [value] = pair.messages(2);
      return [pair.text(1), value?.has(1) ? value.text(1) : (value?.number(3) ?? '')];
    }),
  );
}

/**
 * The fields of a protobuf message by their numbers. A missing field reads as empty or zero, as everywhere in
 * protobuf.
 */
interface Message {
  has(field: number): boolean;
  messages(field: number): Message[];
  text(field: number): string;
  hex(field: number): string;
  number(field: number): number;
}

function readMessage(bytes: Buffer): Message {
  const fields = new Map<number, (Buffer | bigint)[]>();
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number) => {
    at += length;
    return bytes.subarray(at - length, at);
  };
  const readers: Record<number, () => Buffer | bigint> = {
    0: varint,
    1: () => take(8).readBigUInt64LE(),
    2: () => take(Number(varint())),
    5: () => BigInt(take(4).readUInt32LE()),
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const read = readers[tag & 7];
    if (read === undefined) throw new Error(`not protobuf: wire type ${tag & 7}`);
    const value = read();
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value]);
  }
  const bytesOf = (field: number) =>
    (fields.get(field) ?? []).filter((value): value is Buffer => Buffer.isBuffer(value));
  return {
    has: (field) => fields.has(field),
    messages: (field) => bytesOf(field).map(readMessage),
    text: (field) => bytesOf(field).at(-1)?.toString() ?? '',
    hex: (field) => bytesOf(field).at(-1)?.toString('hex') ?? '',
    number: (field) => {
      const value = fields.get(field)?.at(-1);
      return typeof value === 'bigint' ? Number(value) : 0;
    },
  };
}

/**
 * Taps between a worker and its servers. They read the traffic message by message, and can hold a connection
 * at any message. A test then cuts the held connection, or kills its worker: a fault at exactly this point.
 *
 * The taps know the framing of the protocols and a few names, but none of our statements: a new statement is
 * a new message.
 */

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A message of a conversation, by its number in its direction. */
export interface Point {
  /** A request is held before the server has it, an answer once the server has given it. */
  readonly direction: 'request' | 'answer';
  readonly index: number;
  /** A description for readers. */
  readonly what: string;
}

/** Decides where conversations are held. */
export interface Director {
  /**
   * A conversation begins.
   * @returns where it is to be held, or null
   */
  begins(of: string): Pick<Point, 'direction' | 'index'> | null;
  passed?(of: string, point: Point): void;
  held(of: string, point: Point): void;
}

interface Conversation {
  readonly of: string;
  readonly heldAt: Pick<Point, 'direction' | 'index'> | null;
  readonly seen: { request: number; answer: number };
}

/** Bytes in flight on the loopback interface arrive within this time. */
const HALFWAY_MS = 200;

/** One connection. Complete messages are passed on one at a time, until the connection is held. */
class TappedConnection {
  isHeld = false;
  /** The message that is held. */
  private held: Buffer | undefined;

  constructor(
    private readonly near: Socket,
    private readonly far: Socket,
    private readonly director: Director,
  ) {}

  begin(of: string): Conversation {
    return { of, heldAt: this.director.begins(of), seen: { request: 0, answer: 0 } };
  }

  /** Passes on a message that counts, or holds the connection before it. */
  count(conversation: Conversation, direction: Point['direction'], what: string): void {
    const { of, heldAt, seen } = conversation;
    const point = { direction, index: seen[direction]++, what };
    if (heldAt?.direction === direction && heldAt.index === point.index) {
      this.isHeld = true;
      this.director.held(of, point);
    } else {
      this.director.passed?.(of, point);
    }
  }

  forward(direction: Point['direction'], bytes: Buffer): void {
    if (this.isHeld) this.held ??= bytes;
    else (direction === 'request' ? this.far : this.near).write(bytes);
  }

  /**
   * Passes on half of a held answer, as a broken transfer would. Resets the connection once the half has
   * arrived.
   */
  async breakOff(): Promise<void> {
    if (this.held === undefined) throw new Error('nothing is held');
    this.near.write(this.held.subarray(0, this.held.length >> 1));
    await sleep(HALFWAY_MS);
    this.near.resetAndDestroy();
  }

  cut(): void {
    this.near.destroy();
    this.far.destroy();
  }
}

/** Splits bytes into messages. */
class Framing {
  private rest: Buffer = Buffer.alloc(0);

  /** @param sizeOf the bytes of the message that begins here, or null where they are not known yet */
  constructor(
    private readonly sizeOf: (bytes: Buffer) => number | null,
    private readonly take: (message: Buffer) => void,
  ) {}

  push(bytes: Buffer): void {
    this.rest = this.rest.length === 0 ? bytes : Buffer.concat([this.rest, bytes]);
    for (;;) {
      const size = this.sizeOf(this.rest);
      if (size === null || this.rest.length < size) return;
      const message = this.rest.subarray(0, size);
      this.rest = this.rest.subarray(size);
      this.take(message);
    }
  }
}

interface Framings {
  readonly request: Framing;
  readonly answer: Framing;
}

/** The common part of both taps: listening, forwarding, cutting. */
abstract class Tap {
  private readonly servers: Server[] = [];
  private readonly connections = new Set<TappedConnection>();

  protected constructor(private readonly director: Director) {}

  protected abstract frame(connection: TappedConnection): Framings;

  /** @returns the port of the near end, on the loopback interface */
  protected async leadTo(host: string, port: number): Promise<number> {
    const server = createServer({ noDelay: true }, (near) => {
      const far = connect({ host, port, noDelay: true });
      const connection = new TappedConnection(near, far, this.director);
      this.connections.add(connection);
      const { request, answer } = this.frame(connection);
      near.on('data', (bytes) => request.push(bytes));
      far.on('data', (bytes) => answer.push(bytes));
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        socket.on('error', () => undefined);
        socket.on('close', () => {
          other.destroy();
          this.connections.delete(connection);
        });
      }
    });
    this.servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address: AddressInfo | string | null = server.address();
    if (address === null || typeof address === 'string') throw new Error('the tap has no port');
    return address.port;
  }

  /** Cuts the held connections, or all of them. */
  cut(which: 'held' | 'all' = 'held'): void {
    for (const connection of [...this.connections])
      if (which === 'all' || connection.isHeld) connection.cut();
  }

  /** Resets the held connections in the middle of their answers. */
  async breakOff(): Promise<void> {
    for (const connection of this.connections) if (connection.isHeld) await connection.breakOff();
  }

  async close(): Promise<void> {
    this.cut('all');
    await Promise.all(this.servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

// --- Postgres

/** The conversation of a transaction that decides a batch of the partitions with these numbers. */
export const decisionOf = (...partitionNos: readonly number[]): string =>
  `decision of partition ${partitionNos.toSorted((a, b) => a - b).join(', ')}`;
/** A connection from its first byte to its first transaction. */
export const CONNECTING = 'connecting';
/** Any other transaction. */
export const OTHER_TRANSACTION = 'other transaction';
/** A statement outside of any transaction. */
const OUTSIDE = 'outside of transactions';

const TYPE_BYTES = 1;
/** https://www.postgresql.org/docs/current/protocol-message-formats.html */
const TYPE = { query: 'Q', bind: 'B', sync: 'S', copyDone: 'c', password: 'p' } as const;
/** Parse, Bind, Describe, Execute. */
const IN_PARTS: ReadonlySet<string> = new Set(['P', 'B', 'D', 'E']);
const BEGIN = 'begin';
const LOCK_PARTITIONS = 'lock_partitions';
const ANSWER = { authentication: 'R', complete: 'C', ready: 'Z' } as const;
/** The server is in no transaction. */
const IDLE = 'I';

export class PostgresTap extends Tap {
  /**
   * @param url of the server
   * @returns the tap, and the address that leads through it
   */
  static async open(url: string, director: Director): Promise<{ tap: PostgresTap; url: string }> {
    const tap = new PostgresTap(director);
    const through = new URL(url);
    through.host = `127.0.0.1:${await tap.leadTo(through.hostname, Number(through.port))}`;
    return { tap, url: through.href };
  }

  protected frame(connection: TappedConnection): Framings {
    let conversation = connection.begin(CONNECTING);
    let started = false;
    /**
     * Messages up to Sync form one request. One of these parts shows the conversation that the request
     * belongs to.
     */
    let parts: Buffer[] = [];
    let copies: string[] = [];

    const request = (message: Buffer) => {
      if (!started) {
        started = true;
        connection.count(conversation, 'request', 'startup');
        connection.forward('request', message);
        return;
      }
      const type = message.toString('latin1', 0, TYPE_BYTES);
      if (type === TYPE.query) {
        const names = textAt(message, TYPE_BYTES + 4)
          .split(';\n')
          .map(shortly);
        copies = names.filter((name) => name.startsWith('copy'));
        connection.count(conversation, 'request', [...new Set(names)].join('; '));
      } else if (IN_PARTS.has(type)) {
        parts.push(message);
        return;
      } else if (type === TYPE.sync) {
        const bound = parts
          .filter((part) => part.toString('latin1', 0, TYPE_BYTES) === TYPE.bind)
          .map(readBind);
        if (bound[0]?.name === BEGIN) conversation = connection.begin(conversationOf(bound));
        connection.count(conversation, 'request', bound.map(({ name }) => name || 'a statement').join('; '));
        for (const part of parts) connection.forward('request', part);
        parts = [];
      } else if (type === TYPE.copyDone)
        connection.count(conversation, 'request', `last row of ${copies.shift()}`);
      else if (type === TYPE.password) connection.count(conversation, 'request', 'password');
      connection.forward('request', message);
    };
    const answer = (message: Buffer) => {
      const type = message.toString('latin1', 0, TYPE_BYTES);
      if (type === ANSWER.complete) {
        connection.count(conversation, 'answer', textAt(message, TYPE_BYTES + 4));
      }
      if (type === ANSWER.ready) connection.count(conversation, 'answer', 'ready');
      else if (type === ANSWER.authentication) connection.count(conversation, 'answer', 'authentication');
      connection.forward('answer', message);
      const isOver = type === ANSWER.ready && message.toString('latin1', TYPE_BYTES + 4) === IDLE;
      if (isOver && conversation.of !== CONNECTING && !connection.isHeld)
        conversation = connection.begin(OUTSIDE);
    };
    return {
      request: new Framing((bytes) => sizeOf(bytes, started ? TYPE_BYTES : 0), request),
      answer: new Framing((bytes) => sizeOf(bytes, TYPE_BYTES), answer),
    };
  }
}

interface Bound {
  readonly name: string;
  /** The first parameter. */
  readonly first: Buffer | undefined;
}

/** Portal and statement by name, the formats of the parameters, the parameters. */
function readBind(message: Buffer): Bound {
  const nameAt = message.indexOf(0, TYPE_BYTES + 4) + 1;
  const formatsAt = message.indexOf(0, nameAt) + 1;
  const parametersAt = formatsAt + 2 + 2 * message.readInt16BE(formatsAt);
  const at = parametersAt + 2;
  const first =
    message.readInt16BE(parametersAt) === 0
      ? undefined
      : message.subarray(at + 4, at + 4 + message.readInt32BE(at));
  return { name: textAt(message, nameAt), first };
}

function conversationOf(bound: readonly Bound[]): string {
  const numbers = bound.find(({ name }) => name === LOCK_PARTITIONS)?.first;
  return numbers === undefined ? OTHER_TRANSACTION : decisionOf(...readInt4Array(numbers));
}

/** Elements of an array in binary format. Five numbers come first; each element is behind its length. */
function readInt4Array(array: Buffer): number[] {
  const LENGTH_AT = 12;
  const ELEMENTS_AT = 20;
  return Array.from({ length: array.readInt32BE(LENGTH_AT) }, (_, index) =>
    array.readInt32BE(ELEMENTS_AT + index * 8 + 4),
  );
}

/** The length counts itself, but not the type before it. */
function sizeOf(bytes: Buffer, before: number): number | null {
  return bytes.length < before + 4 ? null : before + bytes.readInt32BE(before);
}

function textAt(message: Buffer, at: number): string {
  return message.toString('utf8', at, message.indexOf(0, at));
}

/** The first words of a statement: `copy promo_store.history`, `set local`. */
function shortly(statement: string): string {
  return statement
    .trim()
    .split(/[\s(]+/, 2)
    .join(' ');
}

// --- Kafka

/** https://kafka.apache.org/protocol#protocol_api_keys */
const APIS: Readonly<Record<number, string>> = {
  0: 'Produce',
  1: 'Fetch',
  2: 'ListOffsets',
  3: 'Metadata',
  8: 'OffsetCommit',
  9: 'OffsetFetch',
  10: 'FindCoordinator',
  11: 'JoinGroup',
  12: 'Heartbeat',
  13: 'LeaveGroup',
  14: 'SyncGroup',
  18: 'ApiVersions',
  19: 'CreateTopics',
};
/** APIs whose answers name brokers. */
const NAMING_BROKERS: ReadonlySet<string | undefined> = new Set(['Metadata', 'FindCoordinator']);
const SIZE_BYTES = 4;

export interface KafkaTapOptions {
  /** All brokers, as the cluster names them. */
  readonly brokers: readonly { readonly host: string; readonly port: number }[];
  /** Produce requests to these topics are distinguished: topics by their purpose. */
  readonly topics: Readonly<Record<string, string>>;
}

/** Whether a conversation is with Kafka, by its name: such conversations have the name of their API. */
export const isOfKafka = (of: string): boolean => /^[A-Z]/.test(of);

/** Each request with its answer is a conversation. */
export class KafkaTap extends Tap {
  private ports: readonly { readonly named: Buffer; readonly instead: Buffer }[] = [];
  private topics: KafkaTapOptions['topics'] = {};

  static async open(
    options: KafkaTapOptions,
    director: Director,
  ): Promise<{ tap: KafkaTap; brokers: string }> {
    const tap = new KafkaTap(director);
    const ports = await Promise.all(options.brokers.map(({ host, port }) => tap.leadTo(host, port)));
    tap.ports = options.brokers.map(({ host, port }, index) => ({
      named: brokerBytes(host, port),
      instead: brokerBytes('127.0.0.1', ports[index] ?? 0),
    }));
    tap.topics = options.topics;
    return { tap, brokers: ports.map((port) => `127.0.0.1:${port}`).join(',') };
  }

  protected frame(connection: TappedConnection): Framings {
    const open = new Map<number, { conversation: Conversation; api: string }>();
    const request = (message: Buffer) => {
      const key = message.readInt16BE(SIZE_BYTES);
      const api = APIS[key] ?? `api ${key}`;
      const of = api === 'Produce' ? `Produce ${this.purposeOf(message)}` : api;
      const conversation = connection.begin(of);
      open.set(message.readInt32BE(SIZE_BYTES + 4), { conversation, api });
      connection.count(conversation, 'request', of);
      connection.forward('request', message);
    };
    const answer = (message: Buffer) => {
      const correlation = message.readInt32BE(SIZE_BYTES);
      const requested = open.get(correlation);
      open.delete(correlation);
      if (requested !== undefined)
        connection.count(requested.conversation, 'answer', requested.conversation.of);
      connection.forward('answer', NAMING_BROKERS.has(requested?.api) ? this.renamed(message) : message);
    };
    const size = (bytes: Buffer) => (bytes.length < SIZE_BYTES ? null : SIZE_BYTES + bytes.readInt32BE(0));
    return { request: new Framing(size, request), answer: new Framing(size, answer) };
  }

  private purposeOf(message: Buffer): string {
    return (
      Object.entries(this.topics).find(([, topic]) => message.includes(topic))?.[0] ?? 'to another topic'
    );
  }

  /** Replaces the brokers' addresses by the tap's own, so that every connection leads through it. */
  private renamed(message: Buffer): Buffer {
    let body = message.subarray(SIZE_BYTES);
    for (const { named, instead } of this.ports) {
      for (let at = body.indexOf(named); at >= 0; at = body.indexOf(named, at + instead.length))
        body = Buffer.concat([body.subarray(0, at), instead, body.subarray(at + named.length)]);
    }
    const size = Buffer.alloc(SIZE_BYTES);
    size.writeInt32BE(body.length);
    return Buffer.concat([size, body]);
  }
}

/** A broker in the answers of the versions that kafkajs uses: the length of its host, its host, its port. */
function brokerBytes(host: string, port: number): Buffer {
  const bytes = Buffer.alloc(2 + host.length + 4);
  bytes.writeInt16BE(host.length, 0);
  bytes.write(host, 2, 'latin1');
  bytes.writeInt32BE(port, 2 + host.length);
  return bytes;
}

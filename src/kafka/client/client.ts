/**
 * Makes the Kafka client (kafkajs), and reads the cluster's id. test/support/architecture.ts lists the files
 * that may import the client.
 */
import type { ConnectionOptions } from 'node:tls';
import { type Admin, type ISocketFactory, Kafka, logLevel, type Mechanism, type SASLOptions } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { clusterIdIn } from '../commit-notes';
import type { OnThrottled } from '../port';
import { makeCodecs } from '../protocol/compression';
import { makeClientLog } from './client-log';
import { KafkaRefusal } from './errors';
import { type TokenSource, tokenMechanism } from './oauth';
import { registerBrokers } from './patches/advertised';
import { installPatches, makeSocketFactory } from './patches/install';
import { reportThrottling } from './patches/throttling';

/** The brokers' addresses, and our credentials. Credentials in files are read again for each connection. */
export interface KafkaAccess {
  readonly brokers: readonly string[];
  readonly tls?: ConnectionOptions | undefined;
  readonly sasl?: Sasl | undefined;
  /**
   * A group gives a member's partitions to others after this time without a heartbeat. SESSION_TIMEOUT_MS if
   * absent.
   */
  readonly sessionTimeoutMs?: number | undefined;
}

export type Sasl =
  | {
      readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512';
      readonly username: string;
      readonly password: () => string;
    }
  | { readonly mechanism: 'OAUTHBEARER'; readonly tokens: TokenSource };

export interface KafkaOptions extends KafkaAccess {
  readonly clientId: string;
  /**
   * Retries of a connection to a broker; RETRIES if absent. Fewer suit a check whether Kafka can be reached.
   */
  readonly retries?: number;
  /** Called at each attempt to connect to a broker. */
  readonly onConnecting?: () => void;
  /** Called for each response by which a broker throttles us. */
  readonly onThrottled?: OnThrottled;
}

/** Time limits of a connection to a broker, and of a request. */
const CONNECT_TIMEOUT_MS = 5_000;
export const REQUEST_TIMEOUT_MS = 15_000;
/** The most bytes that a compressed batch may decompress to. The limit also holds for a single record. */
export const MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024;
const SESSION_TIMEOUT_MS = 10_000;
export const FIRST_RETRY_MS = 300;
export const MAX_RETRY_MS = 5_000;
export const RETRIES = 8;

export function makeKafka(options: KafkaOptions, logger: Logger): Kafka {
  const { brokers, tls, sasl, clientId, retries = RETRIES, onConnecting, onThrottled } = options;
  installPatches(decompress);
  const socketFactory: ISocketFactory = (socket) => {
    onConnecting?.();
    return makeSocket(socket);
  };
  registerBrokers(socketFactory, brokers);
  if (onThrottled !== undefined) reportThrottling(socketFactory, onThrottled);
  const kafka = new Kafka({
    clientId,
    brokers: [...brokers],
    ssl: tls ?? false,
    ...(sasl && { sasl: saslOptions(sasl) }),
    socketFactory,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    retry: { initialRetryTime: FIRST_RETRY_MS, maxRetryTime: MAX_RETRY_MS, retries },
    logLevel: logLevel.INFO,
    logCreator: () => makeClientLog(logger),
  });
  sessionTimeouts.set(kafka, options.sessionTimeoutMs ?? SESSION_TIMEOUT_MS);
  return kafka;
}

const sessionTimeouts = new WeakMap<Kafka, number>();

/** The session timeout of the groups that a client joins. */
export function sessionTimeoutOf(kafka: Kafka): number {
  return sessionTimeouts.get(kafka) ?? SESSION_TIMEOUT_MS;
}

/**
 * The remedy when brokers refuse the session timeout, which no retry changes; undefined for any other error.
 */
export function sessionRefusal(kafka: Kafka, error: unknown): KafkaRefusal | undefined {
  if (!(error instanceof Error)) return undefined;
  if (Reflect.get(error, 'type') !== 'INVALID_SESSION_TIMEOUT') return sessionRefusal(kafka, error.cause);
  return new KafkaRefusal(
    `Kafka refuses a member with a session timeout of ${sessionTimeoutOf(kafka)} ms. Set KAFKA_SESSION_TIMEOUT_MS to a value from group.min.session.timeout.ms to group.max.session.timeout.ms of the brokers, or change these.`,
    { cause: error },
  );
}

const makeSocket = makeSocketFactory();

function saslOptions(sasl: Sasl): SASLOptions | Mechanism {
  if (sasl.mechanism === 'OAUTHBEARER') return tokenMechanism(sasl.tokens, systemClock.now);
  const credentials = {
    username: sasl.username,
    // The client reads it at each authentication.
    get password() {
      return sasl.password();
    },
  };
  switch (sasl.mechanism) {
    case 'PLAIN':
      return Object.assign(credentials, { mechanism: 'plain' as const });
    case 'SCRAM-SHA-256':
      return Object.assign(credentials, { mechanism: 'scram-sha-256' as const });
    case 'SCRAM-SHA-512':
      return Object.assign(credentials, { mechanism: 'scram-sha-512' as const });
  }
}

export const codecs = makeCodecs({ maxDecompressedBytes: MAX_DECOMPRESSED_BYTES });
const codecByNumber = [undefined, codecs.gzip, codecs.snappy, codecs.lz4, codecs.zstd];

async function decompress(codec: number, bytes: Buffer): Promise<Buffer> {
  const found = codecByNumber[codec];
  if (found === undefined) throw new RangeError(`there is no codec ${codec}`);
  return found.decompress(bytes);
}

/** @throws RangeError beyond 2^53: a rounded offset would be another record's */
export function offsetOf(text: unknown): number {
  const offset = Number(text);
  if (!Number.isSafeInteger(offset)) throw new RangeError(`offset ${text} is out of range`);
  return offset;
}

/** The id of the brokers' cluster; null if they give none. */
export async function readClusterId(kafka: Kafka): Promise<string | null> {
  const admin = await connectedAdmin(kafka);
  try {
    return clusterIdIn(await admin.describeCluster());
  } finally {
    await admin.disconnect();
  }
}

/** Positions and verdicts would be stored under the wrong cluster. A restart adopts the new cluster. */
export function clusterChanged(before: string, now: string): KafkaRefusal {
  return new KafkaRefusal(
    `The brokers belong to another Kafka cluster than at the start: ${now}, not ${before}. Restart the worker`,
  );
}

export async function connectedAdmin(kafka: Kafka): Promise<Admin> {
  const admin = kafka.admin();
  await admin.connect();
  return admin;
}

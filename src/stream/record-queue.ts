/**
 * A queue whose records are decoded when they are read, into envelopes for the intake. Payloads are decoded
 * as far as possible without knowing the event.
 */

import type { Envelope } from '../intake/delivery';
import { RECORD_OVERHEAD_BYTES, type StreamRecord } from '../kafka/protocol/record';
import { asError } from '../lib/errors';
import { isFramed, RegistryUnavailable, type WireFormat } from '../schema-registry/wire-format';
import { ChunkQueue, type QueueShares } from './chunk-queue';
import type { StreamDeps } from './deps';

/** Decoded records, and why the record behind them cannot be decoded; null where all are. */
export interface DecodedRecords {
  readonly envelopes: readonly Envelope[];
  readonly failure: Error | null;
}

export interface ReadRecords extends DecodedRecords {
  /** Memory that the records keep. */
  readonly bytes: number;
}

export const NO_RECORDS: ReadRecords = { envelopes: [], failure: null, bytes: 0 };

export class RecordQueue extends ChunkQueue {
  /** Records at the head whose schemas had to be requested from the registry, decoded. */
  private decoded: ReadRecords | null = null;

  constructor(
    shares: QueueShares,
    private readonly wireFormat: StreamDeps['wireFormat'],
  ) {
    super(shares);
  }

  /**
   * Reads as `peek` does, and decodes.
   *
   * @returns a promise in `requesting` where schemas are requested from the registry first
   */
  async decode(
    maxRecords: number,
    maxBytes: number,
    behind: number,
    mayOpen = true,
  ): Promise<ReadRecords | { readonly requesting: Promise<ReadRecords> }> {
    const { decoded } = this;
    if (decoded !== null && behind === 0) {
      this.decoded = null;
      this.releaseOpened();
      const isWhole = decoded.envelopes.length <= maxRecords;
      return isWhole
        ? decoded
        : { ...decoded, envelopes: decoded.envelopes.slice(0, maxRecords), failure: null };
    }
    const records = await this.peek(maxRecords, maxBytes, behind, mayOpen);
    const bytes = records.reduce((sum, { size }) => sum + RECORD_OVERHEAD_BYTES + size, 0);
    let isRequesting = false;
    const decoding = decodeRecords(records, this.wireFormat, (answer) => {
      isRequesting = true;
      return answer;
    }).then((read) => ({ ...read, bytes }));
    return isRequesting ? { requesting: decoding } : decoding;
  }

  /** Keeps records for the next call of `decode`. */
  keepDecoded(decoded: ReadRecords): void {
    this.decoded = decoded;
  }

  override clear(): void {
    super.clear();
    this.decoded = null;
  }
}

/**
 * How many schemas may be looked up at the same time. The registry is asked twice for an unknown id. One at a
 * time, a sender of ever new ids would delay all senders of the partition.
 */
const DECODED_AT_ONCE = 64;

/**
 * Decodes records up to the first that cannot be decoded now. The records before it need not wait for it.
 *
 * @param whileWaiting waits for the registry's answer
 */
export async function decodeRecords(
  records: readonly StreamRecord[],
  wireFormat: Pick<WireFormat, 'decode'>,
  whileWaiting: <T>(answer: Promise<T>) => Promise<T>,
): Promise<DecodedRecords> {
  const envelopes: Envelope[] = [];
  try {
    for (let from = 0; from < records.length; from += DECODED_AT_ONCE) {
      const begun = records.slice(from, from + DECODED_AT_ONCE).map((record) => begin(record, wireFormat));
      if (begun.every(isDecoded)) envelopes.push(...begun);
      else {
        // One wait for all of them, because each wait may cost a turn.
        await whileWaiting(Promise.allSettled(begun));
        for (const each of begun) {
          const envelope = await each;
          envelopes.push(envelope);
          if (envelope.payload.type === 'unavailable') return { envelopes, failure: null };
        }
      }
    }
    return { envelopes, failure: null };
  } catch (error) {
    return { envelopes, failure: asError(error) };
  }
}

/** As `envelopeOf`. A failure is kept until the records before it are decoded. */
function begin(record: StreamRecord, wireFormat: Pick<WireFormat, 'decode'>): Envelope | Promise<Envelope> {
  const envelope = envelopeOf(record, wireFormat);
  if (envelope instanceof Promise) envelope.catch(() => undefined);
  return envelope;
}

/**
 * The envelope of a record: the record itself, unless it has to be decoded. A promise where the registry has
 * to be asked. Where the registry does not answer, the payload says so: only a worker that owns the record
 * has to wait for the registry.
 */
function envelopeOf(
  record: StreamRecord,
  wireFormat: Pick<WireFormat, 'decode'>,
): Envelope | Promise<Envelope> {
  // The payload of an unreadable batch begins with this byte, too.
  const isToDecode = isFramed(record.firstByte) && record.payload.type === 'json';
  const value = isToDecode ? record.value : null;
  if (value === null) return record;
  const decoded = wireFormat.decode(value);
  if (decoded instanceof Promise)
    return decoded.catch(unavailable).then((payload) => new DecodedRecord(record, payload));
  return new DecodedRecord(record, decoded);
}

function unavailable(error: unknown): Envelope['payload'] {
  if (!(error instanceof RegistryUnavailable)) throw error;
  return { type: 'unavailable', error };
}

function isDecoded(envelope: Envelope | Promise<Envelope>): envelope is Envelope {
  return !(envelope instanceof Promise);
}

/**
 * A record with its decoded payload. Thousands of them wait for the store, so anything that can be computed
 * again is not stored.
 */
class DecodedRecord implements Envelope {
  constructor(
    private readonly record: StreamRecord,
    readonly payload: Envelope['payload'],
  ) {}
  get value(): Buffer | null {
    return this.record.value;
  }
  get offset(): number {
    return this.record.offset;
  }
  get claims(): readonly string[] {
    return this.record.claims;
  }
  get key(): Buffer | null {
    return this.record.key;
  }
  get headers(): Envelope['headers'] {
    return this.record.headers;
  }
  get timestamp(): string {
    return this.record.timestamp;
  }
  get sentAtMs(): number | undefined {
    return this.record.sentAtMs;
  }
}

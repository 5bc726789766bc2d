/** Decodes records into envelopes for the intake, as far as possible without knowing the event. */

import type { Envelope } from '../intake/delivery';
import type { StreamRecord } from '../kafka/protocol/record';
import { asError } from '../lib/errors';
import { isFramed, type WireFormat } from '../schema-registry/wire-format';

/**
 * How many schemas may be looked up at the same time. The registry is asked twice for an unknown id. One at a
 * time, a sender of ever new ids would delay all senders of the partition.
 */
const DECODED_AT_ONCE = 64;

/**
 * Decodes records. Where the registry does not answer, the payload says so: only a worker that owns the
 * record has to wait for the registry. The records behind it are left out, or each would be asked for.
 *
 * @param before the envelopes of the records in front
 * @returns a promise where the registry has to be asked; it never rejects
 */
export function decodeRecords(
  records: readonly StreamRecord[],
  wireFormat: Pick<WireFormat, 'decode'>,
  before: readonly Envelope[] = [],
): readonly Envelope[] | Promise<readonly Envelope[]> {
  const envelopes = [...before];
  for (let from = 0; from < records.length; from += DECODED_AT_ONCE) {
    const begun = records.slice(from, from + DECODED_AT_ONCE).map((record) => envelopeOf(record, wireFormat));
    if (begun.every(isDecoded)) envelopes.push(...begun);
    else
      return Promise.all(begun).then((decoded) => {
        envelopes.push(...decoded);
        if (decoded.some(({ payload }) => payload.type === 'unavailable')) return envelopes;
        return decodeRecords(records.slice(from + DECODED_AT_ONCE), wireFormat, envelopes);
      });
  }
  return envelopes;
}

/**
 * The envelope of a record: the record itself, unless it has to be decoded. A promise where the registry has
 * to be asked; it never rejects.
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
  return { type: 'unavailable', error: asError(error) };
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

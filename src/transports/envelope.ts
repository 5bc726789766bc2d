/** Records as the intake takes them: with their payload, decoded as far as that can be done without knowing the event. */
import type { Envelope } from '../intake';
import type { StreamRecord } from './record-source';
import { isFramed, RegistryUnavailable, type WireFormat } from './wire-format';

/**
 * The envelope of a record: itself, unless it is to be decoded; a promise where the registry has to be asked. Where it does not answer, the payload
 * says so: who has no claim to the record has no need to wait for it.
 */
export function envelopeOf(
  record: StreamRecord,
  wireFormat: Pick<WireFormat, 'decode'>,
): Envelope | Promise<Envelope> {
  // A batch that could not be read begins with this byte, too.
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

/** A record with its payload. Thousands of them wait for the store: what can be made again when it is asked for is not kept. */
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
}

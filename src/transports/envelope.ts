/** Records as the intake takes them: with their payload, decoded as far as that can be done without knowing the event. */
import type { Envelope } from '../intake';
import type { StreamRecord } from './record-source';
import { isFramed, type WireFormat } from './wire-format';

const UNDECODABLE = { type: 'undecodable' } as const;

/** The envelope of a record; a promise where the registry has to be asked. @throws RegistryUnavailable, perhaps by the promise */
export function envelopeOf(
  record: StreamRecord,
  wireFormat: Pick<WireFormat, 'decode'>,
): Envelope | Promise<Envelope> {
  if (record.undecodable !== undefined) return new RecordEnvelope(record, UNDECODABLE);
  const value = isFramed(record.firstByte) ? record.value : null;
  if (value === null) return new RecordEnvelope(record, null);
  const decoded = wireFormat.decode(value);
  if (decoded instanceof Promise) return decoded.then((payload) => new RecordEnvelope(record, payload));
  return new RecordEnvelope(record, decoded);
}

/** A record with its payload. Thousands of them wait for the store: what can be made again when it is asked for is not kept. */
class RecordEnvelope implements Envelope {
  constructor(
    private readonly record: StreamRecord,
    /** Null: the record's value is JSON as it is, or a tombstone. */
    private readonly decoded: Envelope['payload'] | null,
  ) {}
  get value(): Buffer | null {
    return this.record.value;
  }
  get offset(): number {
    return this.record.offset;
  }
  get payload(): Envelope['payload'] {
    return this.decoded ?? this.record.json;
  }
  get claims(): readonly string[] {
    const value = this.record.headers[CONNECTION_ID_HEADER];
    if (value === undefined) return NO_CLAIMS;
    return (Array.isArray(value) ? value : [value]).map((entry) => entry.toString('utf8'));
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

const CONNECTION_ID_HEADER = 'connection-id';
const NO_CLAIMS: readonly string[] = [];

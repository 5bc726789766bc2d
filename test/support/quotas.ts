/** Client quotas of a broker: kafkajs has no request for them. */
import { connect } from 'node:net';
import { within } from '../../dev/servers/deadline';

/** The keys that Kafka knows for a client id. https://kafka.apache.org/documentation/#design_quotas */
export type Quota = 'consumer_byte_rate' | 'producer_byte_rate' | 'request_percentage';

const ALTER_CLIENT_QUOTAS = 49;
const ANSWER_DEADLINE_MS = 60_000;

/**
 * Sets a quota for a client id, or removes it.
 *
 * @param value bytes or percent of a thread a second; null removes the quota
 * @throws where the broker refuses it
 */
export async function setQuota(
  broker: string,
  clientId: string,
  quota: Quota,
  value: number | null,
): Promise<void> {
  const answer = await exchange(
    broker,
    Buffer.concat([
      int16(ALTER_CLIENT_QUOTAS),
      int16(0),
      int32(1),
      text('promo-test'),
      int32(1),
      int32(1),
      text('client-id'),
      text(clientId),
      int32(1),
      text(quota),
      float64(value ?? 0),
      Buffer.from([value === null ? 1 : 0, 0]),
    ]),
  );
  // The code follows the correlation id, the throttle time and the number of entries.
  const code = answer.readInt16BE(12);
  if (code !== 0) throw new Error(`the broker refused the quota with error ${code}`);
}

function exchange(broker: string, request: Buffer): Promise<Buffer> {
  const [host, port] = broker.split(':');
  const socket = connect(Number(port), host);
  const answered = new Promise<Buffer>((resolve, reject) => {
    let answer = Buffer.alloc(0);
    socket.on('error', reject);
    socket.on('data', (bytes) => {
      answer = Buffer.concat([answer, bytes]);
      if (answer.length >= 4 && answer.length >= 4 + answer.readInt32BE(0)) resolve(answer.subarray(4));
    });
    socket.write(Buffer.concat([int32(request.length), request]));
  });
  return within('the broker answers', ANSWER_DEADLINE_MS, answered).finally(() => socket.destroy());
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function float64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([int16(bytes.length), bytes]);
}

/** Requests whose encoder has left room in front: the bytes of kafkajs, without its copies. */
import Encoder from 'kafkajs/src/protocol/encoder';
import createRequest from 'kafkajs/src/protocol/request';
import { EncoderWithFront, installFront } from '../../../../src/kafka/client/patches/request-front';
import { BufferPool } from '../../../../src/lib/buffer-pool';

beforeAll(installFront);

const TEXT = 'a record batch '.repeat(100);
const written = <T extends Encoder>(encoder: T) => encoder.writeInt32(7).writeString(TEXT);

const requestOf = (payload: Encoder, clientId: string) =>
  createRequest({
    correlationId: 5,
    clientId,
    request: { apiKey: 0, apiVersion: 7, encode: async () => payload },
  });

test.each([
  ['a client id of usual length', 'promo-intake', 2_000, true],
  ['the longest client id for the room in front', 'x'.repeat(246), 2_000, true],
  ['a longer client id', 'x'.repeat(247), 2_000, false],
  ['more bytes than were announced', 'promo-intake', 100, false],
])('has the bytes that kafkajs writes, with %s', async (_, clientId, bytes, isInPlace) => {
  const payload = written(new EncoderWithFront(bytes, new BufferPool()));
  const { buffer } = payload.buf;
  const made = await requestOf(payload, clientId);
  const expected = await requestOf(written(new Encoder()), clientId);
  expect(made.buffer.equals(expected.buffer)).toBe(true);
  expect(made.size()).toBe(expected.size());
  expect(made.buffer.buffer === buffer).toBe(isInPlace);
});

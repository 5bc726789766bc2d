/** Keyed hashes whose keys are kept. */
import { createHmac, randomBytes } from 'node:crypto';
import { hmacSha256 } from '../../../src/lib/hmac';

test('the hash is that of the secret, each time', () => {
  const secrets = [randomBytes(24), randomBytes(64), Buffer.alloc(0)];
  for (const secret of [...secrets, ...secrets])
    expect(hmacSha256(secret).update('text').digest('hex')).toBe(
      createHmac('sha256', secret).update('text').digest('hex'),
    );
});

test('equal bytes in two buffers have equal hashes', () => {
  const secret = randomBytes(32);
  expect(hmacSha256(Buffer.from(secret)).update('text').digest()).toEqual(
    hmacSha256(secret).update('text').digest(),
  );
});

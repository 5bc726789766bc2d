/** Buffers that are used again. */
import { BufferPool } from '../../../src/lib/buffer-pool';

const KIBIBYTE = 1024;
const MEBIBYTE = 1024 * KIBIBYTE;

test('a buffer that is given back is taken again, by one taker, where it is long enough', () => {
  const pool = new BufferPool();
  const given = Buffer.alloc(100 * KIBIBYTE);
  pool.give(given);
  expect(pool.take(101 * KIBIBYTE)).not.toBe(given);
  expect(pool.take(99 * KIBIBYTE)).toBe(given);
  expect(pool.take(99 * KIBIBYTE)).not.toBe(given);
});

test('a pool keeps 8 MiB, and drops what was given first', () => {
  const pool = new BufferPool();
  const buffers = Array.from({ length: 9 }, () => Buffer.alloc(MEBIBYTE));
  for (const buffer of buffers) pool.give(buffer);
  const taken = buffers.map(() => pool.take(MEBIBYTE));
  expect(taken.slice(0, 8).every((buffer, index) => buffer === buffers[index + 1])).toBe(true);
  expect(buffers).not.toContain(taken[8]);
});

test('a pool keeps neither small buffers nor one larger than itself', () => {
  const pool = new BufferPool();
  for (const length of [KIBIBYTE, 8 * MEBIBYTE + 1]) {
    const buffer = Buffer.alloc(length);
    pool.give(buffer);
    expect(pool.take(1)).not.toBe(buffer);
  }
});

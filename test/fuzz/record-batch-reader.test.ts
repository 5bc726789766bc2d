/** Damaged or hostile record batches: nothing throws, nothing hangs. Readable batches: test/unit. */
import fc from 'fast-check';
import { encodeBatch, encodeRecords, plainRecord, readFetch } from '../support/record-batch';

const text = (value: string) => Buffer.from(value);

describe('a batch that cannot be read', () => {
  it('is any damaged batch: nothing throws, nothing hangs', async () => {
    const valid = encodeRecords([
      { key: text('key'), value: text('value'), headers: [['h', text('v')]] },
      { value: text('b') },
    ]);
    await fc.assert(
      fc.asyncProperty(fc.nat(valid.length - 1), fc.nat(255), async (position, byte) => {
        const body = Buffer.from(valid);
        body[position] = byte;
        const { records, lastOffset } = await readFetch(encodeBatch({ count: 2, lastOffsetDelta: 1, body }));
        expect(lastOffset).toBe(1);
        // Lazy values of a damaged batch can be read too.
        expect(() => records.map(plainRecord)).not.toThrow();
      }),
      { numRuns: 500 },
    );
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        await readFetch(Buffer.from(bytes));
      }),
      { numRuns: 500 },
    );
  });

  it('is not a batch of very many tiny records, or of very many headers', async () => {
    const many = await readFetch(encodeBatch({ records: Array.from({ length: 300_000 }, () => ({})) }));
    expect(many.records).toHaveLength(300_000);
    const headers = Array.from({ length: 1_000 }, (_, index): [string, Buffer] => [`h${index}`, text('v')]);
    const one = await readFetch(encodeBatch({ records: [{ headers }] }));
    expect([...(one.records[0]?.headers ?? [])]).toHaveLength(1_000);
  });
});

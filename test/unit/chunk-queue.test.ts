/** Records that wait to be decided: what is taken from them, how far the partition is, and what memory they hold. */
import fc from 'fast-check';
import { ChunkQueue } from '../../src/transports/chunk-queue';
import type { StreamRecord } from '../../src/transports/record-source';

const EVERYTHING = Number.POSITIVE_INFINITY;

const record = (offset: number, size: number | null = 0): StreamRecord => ({
  ...{ offset, value: size === null ? null : Buffer.alloc(size), key: null, headers: {}, timestamp: '0' },
});
const chunk = (records: readonly StreamRecord[], nextOffset: number) => ({
  ...{ topic: 't', partition: 0, records, nextOffset },
});
const queueOf = (...chunks: readonly ReturnType<typeof chunk>[]) => {
  const queue = new ChunkQueue();
  for (const each of chunks) queue.push(each);
  return queue;
};
const offsets = (records: readonly StreamRecord[]) => records.map(({ offset }) => offset);

/** Memory that a record takes beside its value. */
const OVERHEAD = queueOf(chunk([record(0, null)], 1)).bytes;

describe('records that wait', () => {
  it('are given in their order, over the chunks in which they came, and stay until they are removed', () => {
    const queue = queueOf(chunk([record(0), record(1)], 2), chunk([record(2)], 3), chunk([record(3)], 4));
    expect(offsets(queue.peek(EVERYTHING, EVERYTHING))).toEqual([0, 1, 2, 3]);
    expect(offsets(queue.peek(3, EVERYTHING))).toEqual([0, 1, 2]);
    expect(queue.remove(1)).toBe(1);
    expect(offsets(queue.peek(2, EVERYTHING))).toEqual([1, 2]);
    expect(queue.remove(2)).toBe(3);
    expect(offsets(queue.peek(EVERYTHING, EVERYTHING))).toEqual([3]);
    expect(queue.isEmpty).toBe(false);
    expect(queue.remove(1)).toBe(4);
    expect(queue.isEmpty).toBe(true);
    expect(queue.peek(EVERYTHING, EVERYTHING)).toEqual([]);
  });

  it('are as many as fit into so many bytes, and one at least', () => {
    const queue = queueOf(chunk([record(0, 800), record(1, 800), record(2, null), record(3)], 4));
    const first = 800 + OVERHEAD;
    expect(offsets(queue.peek(EVERYTHING, 1))).toEqual([0]);
    expect(offsets(queue.peek(EVERYTHING, first))).toEqual([0]);
    expect(offsets(queue.peek(EVERYTHING, first + 1))).toEqual([0, 1]);
    expect(offsets(queue.peek(EVERYTHING, 2 * first + OVERHEAD))).toEqual([0, 1, 2]);
    expect(offsets(queue.peek(EVERYTHING, 2 * first + OVERHEAD + 1))).toEqual([0, 1, 2, 3]);
  });

  it('hold the memory of their values, and some for themselves', () => {
    const queue = queueOf(
      chunk([record(0, 1_000), record(1, null)], 2),
      chunk([], 5),
      chunk([record(5, 7)], 6),
    );
    expect(queue.bytes).toBe(1_007 + 3 * OVERHEAD);
    queue.remove(1);
    expect(queue.bytes).toBe(7 + 2 * OVERHEAD);
    queue.remove(2);
    expect(queue.bytes).toBe(0);
    expect(OVERHEAD).toBeGreaterThan(0);
  });
});

describe('how far the partition is', () => {
  it('is behind the record that was removed last, where others of its chunk wait', () => {
    // 3, 5 and 6 were left out: markers, or compacted away.
    const queue = queueOf(chunk([record(2), record(4), record(7)], 10));
    expect([queue.remove(1), queue.remove(1)]).toEqual([3, 5]);
  });

  it('is behind what was left out at the end of a chunk, once its last record is removed', () => {
    const queue = queueOf(chunk([record(0), record(1)], 5), chunk([record(5)], 6));
    expect(queue.remove(2)).toBe(5);
    expect(queue.remove(1)).toBe(6);
  });

  it('is behind the chunks without any record that follow', () => {
    const queue = queueOf(chunk([record(0)], 1), chunk([], 4), chunk([], 9), chunk([record(9)], 10));
    expect(queue.remove(1)).toBe(9);
    expect(offsets(queue.peek(EVERYTHING, EVERYTHING))).toEqual([9]);
  });

  it('is behind a chunk without any record that nothing stands before', () => {
    const queue = queueOf(chunk([], 4));
    expect([queue.isEmpty, queue.bytes, queue.peek(EVERYTHING, EVERYTHING)]).toEqual([false, 0, []]);
    expect(queue.remove(0)).toBe(4);
    expect(queue.isEmpty).toBe(true);
  });

  it('is not behind a chunk that came later, where records before it wait', () => {
    const queue = queueOf(chunk([record(0), record(1)], 2), chunk([], 7));
    expect(queue.remove(1)).toBe(1);
    expect(queue.remove(1)).toBe(7);
  });
});

/** The same, as simple as can be: one entry a record, and one for each end of a chunk. */
class Model {
  private entries: ({ record: StreamRecord } | { end: number })[] = [];

  private get waiting(): StreamRecord[] {
    return this.entries.flatMap((entry) => ('record' in entry ? [entry.record] : []));
  }
  get isEmpty(): boolean {
    return this.entries.length === 0;
  }
  get bytes(): number {
    return this.waiting.reduce((sum, { value }) => sum + OVERHEAD + (value?.length ?? 0), 0);
  }
  push({ records, nextOffset }: ReturnType<typeof chunk>): void {
    this.entries.push(...records.map((each) => ({ record: each })), { end: nextOffset });
  }
  peek(maxRecords: number, maxBytes: number): StreamRecord[] {
    const head: StreamRecord[] = [];
    let bytes = 0;
    for (const each of this.waiting) {
      if (head.length === maxRecords || bytes >= maxBytes) break;
      head.push(each);
      bytes += OVERHEAD + (each.value?.length ?? 0);
    }
    return head;
  }
  remove(records: number): number {
    let next = -1;
    for (let left = records; ; ) {
      const [first] = this.entries;
      if (first === undefined) return next;
      if ('end' in first) next = first.end;
      else if (left-- > 0) next = first.record.offset + 1;
      else return next;
      this.entries.shift();
    }
  }
}

it('a queue does what its model does, whatever comes and whatever is taken', () => {
  const gap = fc.oneof(fc.constant(0), fc.nat(3));
  const size = fc.option(fc.nat(1_000));
  const push = fc.record({
    type: fc.constant('push' as const),
    records: fc.array(fc.record({ gap, size }), { maxLength: 5 }),
    gapAtEnd: gap,
  });
  const peek = fc.record({
    type: fc.constant('peek' as const),
    maxRecords: fc.nat(12),
    maxBytes: fc.nat(6_000),
  });
  const remove = fc.record({
    type: fc.constant('remove' as const),
    share: fc.constantFrom(0, 0.3, 0.5, 0.9, 1),
  });
  fc.assert(
    fc.property(fc.array(fc.oneof(push, peek, remove), { maxLength: 40 }), (steps) => {
      // The same steps on both, and everything that they show.
      const shown = [new ChunkQueue(), new Model()].map((queue) => {
        let offset = 0;
        return steps.map((step) => {
          if (step.type === 'push') {
            const records = step.records.map(({ gap, size }) => {
              offset += gap;
              return record(offset++, size);
            });
            offset += step.gapAtEnd;
            queue.push(chunk(records, offset));
            return [queue.isEmpty, queue.bytes];
          }
          if (step.type === 'peek') return offsets(queue.peek(step.maxRecords, step.maxBytes));
          const count = Math.floor(step.share * offsets(queue.peek(EVERYTHING, EVERYTHING)).length);
          return [count, queue.remove(count), queue.isEmpty, queue.bytes];
        });
      });
      expect(shown[0]).toEqual(shown[1]);
    }),
    { numRuns: 300 },
  );
});

/** Records that wait to be decided: their order, the position of the partition, and the memory they hold. */
import fc from 'fast-check';
import type { Chunk } from '../../../src/kafka/port';
import type { StreamRecord } from '../../../src/kafka/protocol/record';
import { endOf } from '../../../src/stream/parts';
import { QueueShares, RecordQueue } from '../../../src/stream/record-queue';
import { chunkOf, streamRecord } from '../../support/chunk';

const EVERYTHING = Number.POSITIVE_INFINITY;

const record = (offset: number, size: number | null = 0): StreamRecord =>
  streamRecord(offset, size === null ? null : Buffer.alloc(size));
const chunk = (records: readonly StreamRecord[], nextOffset: number, openedBytes = 0) =>
  chunkOf({ topic: 't', partition: 0 }, records, nextOffset, openedBytes);
/** These tests read records without decoding them. */
const emptyQueue = (shares: QueueShares) =>
  new RecordQueue(shares, {
    decode() {
      throw new Error('a record was decoded');
    },
  });
const queueOf = (...chunks: readonly Chunk[]) => {
  const queue = emptyQueue(new QueueShares());
  for (const each of chunks) queue.push(each);
  return queue;
};
const offsets = (records: readonly StreamRecord[]) => records.map(({ offset }) => offset);

/** Memory that a chunk takes in addition to its bytes. */
const OVERHEAD = queueOf(chunk([], 1)).bytes;
/** Memory that a record takes in addition to its value, once it is read. */
const RECORD_OVERHEAD = 400;

describe('waiting records', () => {
  it('are returned in order, across the chunks in which they came, and again until they are removed', async () => {
    const queue = queueOf(chunk([record(0), record(1)], 2), chunk([record(2)], 3), chunk([record(3)], 4));
    expect(offsets(await queue.read(EVERYTHING, EVERYTHING))).toEqual([0, 1, 2, 3]);
    queue.readAgain();
    expect(offsets(await queue.read(3, EVERYTHING))).toEqual([0, 1, 2]);
    expect(queue.removeUpTo(1)).toBe(1);
    queue.readAgain();
    expect(offsets(await queue.read(2, EVERYTHING))).toEqual([1, 2]);
    expect(queue.removeUpTo(3)).toBe(3);
    expect(offsets(await queue.read(EVERYTHING, EVERYTHING))).toEqual([3]);
    expect(queue.isEmpty).toBe(false);
    expect(queue.removeUpTo(4)).toBe(4);
    expect(queue.isEmpty).toBe(true);
    expect(await queue.read(EVERYTHING, EVERYTHING)).toEqual([]);
  });

  it('are also returned from behind the records of another batch', async () => {
    const queue = queueOf(chunk([record(0), record(1), record(2)], 3), chunk([record(3), record(4)], 5));
    expect(offsets(await queue.read(2, EVERYTHING))).toEqual([0, 1]);
    expect(offsets(await queue.read(2, EVERYTHING))).toEqual([2, 3]);
    expect(queue.removeUpTo(2)).toBe(2);
    expect(queue.removeUpTo(4)).toBe(4);
    expect(offsets(await queue.read(9, EVERYTHING))).toEqual([4]);
  });

  it('count as unread in chunks of which no record is in flight', async () => {
    const queue = queueOf(
      chunk([record(0, 100), record(1, 100)], 2),
      chunk([record(2, 100)], 3),
      chunk([record(3, 50)], 4),
    );
    expect(queue.unreadBytes).toBe(350 + 3 * OVERHEAD);
    await queue.read(1, EVERYTHING);
    expect(queue.unreadBytes).toBe(150 + 2 * OVERHEAD);
    await queue.read(9, EVERYTHING);
    expect(queue.unreadBytes).toBe(0);
    queue.readAgain();
    expect(queue.unreadBytes).toBe(350 + 3 * OVERHEAD);
  });

  it('are returned up to the limit in bytes, and at least one', async () => {
    const queue = queueOf(chunk([record(0, 800), record(1, 800), record(2, null), record(3)], 4));
    const first = 800 + RECORD_OVERHEAD;
    const upTo = async (bytes: number) => {
      queue.readAgain();
      return offsets(await queue.read(EVERYTHING, bytes));
    };
    expect(await upTo(1)).toEqual([0]);
    expect(await upTo(first)).toEqual([0]);
    expect(await upTo(first + 1)).toEqual([0, 1]);
    expect(await upTo(2 * first + RECORD_OVERHEAD)).toEqual([0, 1, 2]);
    expect(await upTo(2 * first + RECORD_OVERHEAD + 1)).toEqual([0, 1, 2, 3]);
  });

  it('hold the memory of their chunks until the last of a chunk is removed', async () => {
    const queue = queueOf(
      chunk([record(0, 1_000), record(1, null)], 2),
      chunk([], 5),
      chunk([record(5, 7)], 6),
    );
    expect(queue.bytes).toBe(1_007 + 3 * OVERHEAD);
    await queue.read(EVERYTHING, EVERYTHING);
    queue.removeUpTo(1);
    expect(queue.bytes).toBe(1_007 + 3 * OVERHEAD);
    queue.removeUpTo(2);
    expect(queue.bytes).toBe(7 + OVERHEAD);
    queue.removeUpTo(6);
    expect(queue.bytes).toBe(0);
    expect(OVERHEAD).toBeGreaterThan(0);
  });

  it('stay bytes until they are requested: no chunk is opened and no record read before', async () => {
    const read: number[] = [];
    const opened: number[] = [];
    const watched = (records: readonly StreamRecord[], nextOffset: number): Chunk => ({
      ...chunk(records, nextOffset),
      open() {
        opened.push(nextOffset);
        const left = records.values();
        return {
          bytes: 0,
          next() {
            const record = left.next().value ?? null;
            if (record !== null) read.push(record.offset);
            return record;
          },
        };
      },
    });
    const queue = queueOf(watched([record(0), record(1), record(2)], 3), watched([record(3)], 4));
    expect(opened).toEqual([]);
    await queue.read(2, EVERYTHING);
    expect([opened, read]).toEqual([[3], [0, 1]]);
    queue.removeUpTo(2);
    await queue.read(1, EVERYTHING);
    expect([opened, read]).toEqual([[3], [0, 1, 2]]);
    await queue.read(2, EVERYTHING);
    expect([opened, read]).toEqual([
      [3, 4],
      [0, 1, 2, 3],
    ]);
  });
});

describe('the decompressed size of records', () => {
  const MIB = 1024 * 1024;

  it('counts whole chunks, however small the records: none is opened beyond the limit of a batch', async () => {
    const many = Array.from({ length: 40 }, (_, offset) => chunk([record(offset)], offset + 1, 60 * MIB));
    const queue = queueOf(...many);
    expect(offsets(await queue.read(EVERYTHING, 4 * MIB))).toEqual([0]);
    queue.removeUpTo(1);
    expect(offsets(await queue.read(EVERYTHING, 61 * MIB))).toEqual([1, 2]);
    // A chunk that is open already is read to its end.
    const whole = queueOf(chunk([record(0), record(1)], 2, 60 * MIB), chunk([record(2)], 3, 60 * MIB));
    expect(offsets(await whole.read(EVERYTHING, 4 * MIB))).toEqual([0, 1]);
  });

  it('is released at once when a chunk turns out to hold no record', async () => {
    const queue = emptyQueue(new QueueShares());
    for (let offset = 0; offset < 40; offset++) queue.push(chunk([], offset + 1, 60 * MIB));
    expect(await queue.read(EVERYTHING, EVERYTHING)).toEqual([]);
    expect([queue.decompressedBytes, queue.mayStayOpen]).toEqual([0, true]);
  });
});

describe('the position of the partition', () => {
  it('is behind the last removed record while other records of its chunk wait', async () => {
    // 3, 5 and 6 are hidden: markers, or compacted away.
    const queue = queueOf(chunk([record(2), record(4), record(7)], 10));
    await queue.read(2, EVERYTHING);
    expect([queue.removeUpTo(3), queue.removeUpTo(5)]).toEqual([3, 5]);
  });

  it('is behind the hidden offsets at the end of a chunk once its last record is removed', async () => {
    const queue = queueOf(chunk([record(0), record(1)], 5), chunk([record(5)], 6));
    await queue.read(2, EVERYTHING);
    expect(queue.removeUpTo(2)).toBe(5);
    await queue.read(EVERYTHING, EVERYTHING);
    expect(queue.removeUpTo(6)).toBe(6);
  });

  it('is behind the following chunks without records once these were opened', async () => {
    const queue = queueOf(chunk([record(0)], 1), chunk([], 4), chunk([], 9), chunk([record(9)], 10));
    await queue.read(2, EVERYTHING);
    expect(queue.removeUpTo(1)).toBe(9);
    queue.readAgain();
    expect(offsets(await queue.read(EVERYTHING, EVERYTHING))).toEqual([9]);
  });

  it('is behind a chunk without records if no record waits before it', async () => {
    const queue = queueOf(chunk([], 4));
    expect([queue.isEmpty, await queue.read(EVERYTHING, EVERYTHING)]).toEqual([false, []]);
    expect(queue.removeUpTo(null)).toBe(4);
    expect([queue.isEmpty, queue.bytes]).toEqual([true, 0]);
  });

  it('is not behind a later chunk while records before it wait', async () => {
    const queue = queueOf(chunk([record(0), record(1)], 2), chunk([], 7));
    await queue.read(EVERYTHING, EVERYTHING);
    expect(queue.removeUpTo(1)).toBe(1);
    expect(queue.removeUpTo(2)).toBe(7);
  });
});

/** Two decompressed chunks of this size stay in memory, three do not. */
const MUCH = 31 * 1024 * 1024;

/** A simple model of the queue: one entry a record, and one for each end of a chunk. */
class Model {
  private entries: (StreamRecord | { end: number })[] = [];
  private entriesRead = 0;

  get isEmpty(): boolean {
    return this.entries.length === 0;
  }
  push(records: readonly StreamRecord[], end: number): void {
    this.entries.push(...records, { end });
  }
  async read(maxRecords: number, maxBytes: number): Promise<StreamRecord[]> {
    const records: StreamRecord[] = [];
    let bytes = 0;
    let opened = 0;
    let isOpened = false;
    for (const each of this.entries.slice(this.entriesRead)) {
      if ('end' in each) {
        if (isOpened) opened += MUCH;
        isOpened = false;
      } else {
        if (!isOpened && records.length > 0 && opened >= maxBytes) break;
        isOpened = true;
        if (records.length === maxRecords || bytes >= maxBytes) break;
        records.push(each);
        bytes += RECORD_OVERHEAD + (each.value?.length ?? 0);
      }
      this.entriesRead++;
    }
    return records;
  }
  readAgain(): void {
    this.entriesRead = 0;
  }
  removeUpTo(offset: number | null): number {
    let next = -1;
    for (;;) {
      const [first] = this.entries;
      if (first === undefined) return next;
      if ('end' in first) next = first.end;
      else if (first.offset < (offset ?? 0)) next = first.offset + 1;
      else return next;
      this.entries.shift();
      this.entriesRead--;
    }
  }
}

describe('the share of a queue', () => {
  const MIB = 1024 * 1024;
  /** A queue that holds these bytes, and the overhead of its chunk. */
  const holding = (bytes: number, shares: QueueShares) => {
    const queue = emptyQueue(shares);
    queue.push(chunk([record(0, bytes)], 1));
    return queue;
  };
  const stateOf = (queue: RecordQueue) => (queue.isFull ? 'full' : queue.isLow ? 'low' : 'enough');

  it('is 8 MiB where no other queue holds records, so that three quarters of it outlast a fetch', () => {
    const states = [5.9, 6.1, 7.9, 8.1].map((mib) => stateOf(holding(mib * MIB, new QueueShares())));
    expect(states).toEqual(['low', 'enough', 'enough', 'full']);
  });

  it.each([
    [2, 4],
    [4, 2],
    [8, 1],
    [100, 1],
  ])('is, among %i queues with records, %i MiB', (count, mib) => {
    const shares = new QueueShares();
    for (let other = 1; other < count; other++) holding(1, shares);
    expect(stateOf(holding((mib - 0.1) * MIB, shares))).toBe('enough');
    expect(stateOf(holding((mib + 0.1) * MIB, shares))).toBe('full');
  });

  it('grows again once the records of other queues are decided or dropped', async () => {
    const shares = new QueueShares();
    const [one, decided, givenUp] = [holding(7 * MIB, shares), holding(1, shares), holding(1, shares)];
    emptyQueue(shares).clear();
    expect(stateOf(one)).toBe('full');
    await decided.read(EVERYTHING, EVERYTHING);
    decided.removeUpTo(1);
    expect(stateOf(one)).toBe('full');
    givenUp.clear();
    expect(stateOf(one)).toBe('enough');
  });
});

describe('a chunk that cannot be opened now', () => {
  const refusing = (times: number) => {
    const inner = chunk([record(1)], 2);
    let left = times;
    const open = async () => {
      if (left-- > 0) throw new Error('no memory');
      return inner.open();
    };
    return { ...inner, open };
  };

  it('delays the records behind it, and is opened at the next try', async () => {
    const queue = queueOf(chunk([], 1), refusing(2), chunk([record(2)], 3));
    await expect(queue.read(EVERYTHING, EVERYTHING)).rejects.toThrow('no memory');
    await expect(queue.read(EVERYTHING, EVERYTHING)).rejects.toThrow('no memory');
    expect(offsets(await queue.read(EVERYTHING, EVERYTHING))).toEqual([1, 2]);
    expect(queue.removeUpTo(3)).toBe(3);
  });

  it('does not delay the records before it', async () => {
    const queue = queueOf(chunk([record(0)], 1), refusing(1), chunk([record(2)], 3));
    expect(offsets(await queue.read(EVERYTHING, EVERYTHING))).toEqual([0]);
    expect(queue.removeUpTo(1)).toBe(1);
    expect(offsets(await queue.read(EVERYTHING, EVERYTHING))).toEqual([1, 2]);
  });
});

describe('a decompressed chunk', () => {
  const MIB = 1024 * 1024;
  /** A queue of one chunk with two records, the offsets at which it opened, and a turn of one record. */
  const compressed = (mib: number, shares: QueueShares) => {
    const queue = emptyQueue(shares);
    const inner = chunk([record(0), record(1)], 2, mib * MIB);
    const opened: (number | undefined)[] = [];
    const open = (from?: number) => {
      opened.push(from);
      return inner.open(from);
    };
    queue.push({ ...inner, open });
    const turn = async () => {
      const taken = offsets(await queue.read(1, EVERYTHING));
      queue.removeUpTo((taken[0] ?? 0) + 1);
      if (!queue.mayStayOpen) queue.readAgain();
      return taken;
    };
    return { queue, opened, turn };
  };

  it('is kept between two turns within 64 MiB in all; beyond, it is decompressed again where it continues', async () => {
    const shares = new QueueShares();
    const all = [40, 24, 1].map((mib) => compressed(mib, shares));
    for (const { turn } of all) expect(await turn()).toEqual([0]);
    for (const { turn } of all) expect(await turn()).toEqual([1]);
    expect(all.map(({ opened }) => opened)).toEqual([[undefined], [undefined], [undefined, 1]]);
    expect(all.every(({ queue }) => queue.isEmpty)).toBe(true);
  });

  it('leaves its room to other chunks when it is dropped or decided', async () => {
    const shares = new QueueShares();
    const [givenUp, decided, last] = [1, 2, 3].map(() => compressed(60, shares));
    await givenUp?.turn();
    givenUp?.queue.clear();
    await decided?.turn();
    await decided?.turn();
    await last?.turn();
    expect(await last?.turn()).toEqual([1]);
    expect(last?.opened).toEqual([undefined]);
  });

  it('is kept during a request to the registry, within 64 MiB in all, and then leaves its room', async () => {
    const shares = new QueueShares();
    const [asking, other] = [compressed(40, shares), compressed(40, shares)];
    await asking.queue.read(2, EVERYTHING);
    expect(asking.queue.mayStayOpen).toBe(true);
    await other.queue.read(2, EVERYTHING);
    expect(other.queue.mayStayOpen).toBe(false);
    asking.queue.removeUpTo(2);
    expect(other.queue.mayStayOpen).toBe(true);
    expect([asking.opened, other.opened]).toEqual([[undefined], [undefined]]);
  });
});

it('a queue behaves as its model does, for any sequence of pushes and removals', async () => {
  const gap = fc.oneof(fc.constant(0), fc.nat(3));
  const size = fc.option(fc.nat(1_000));
  const push = fc.record({
    type: fc.constant('push' as const),
    records: fc.array(fc.record({ gap, size }), { maxLength: 5 }),
    gapAtEnd: gap,
  });
  const read = fc.record({
    type: fc.constant('read' as const),
    maxRecords: fc.nat(12),
    maxBytes: fc.nat(6_000),
  });
  const remove = fc.record({
    type: fc.constant('remove' as const),
    share: fc.constantFrom(0, 0.3, 0.5, 0.9, 1),
  });
  const again = fc.record({ type: fc.constant('again' as const) });
  const step = fc.oneof(push, read, remove, again);

  async function run(
    queue: RecordQueue | Model,
    add: (records: readonly StreamRecord[], nextOffset: number) => void,
    steps: readonly (typeof step extends fc.Arbitrary<infer Step> ? Step : never)[],
  ) {
    let offset = 0;
    let inFlight: number[] = [];
    const shown: unknown[] = [];
    for (const step of steps) {
      if (step.type === 'push') {
        const records = step.records.map(({ gap, size }) => {
          offset += gap;
          return record(offset++, size);
        });
        offset += step.gapAtEnd;
        add(records, offset);
        shown.push(queue.isEmpty);
      } else if (step.type === 'read') {
        inFlight.push(...offsets(await queue.read(step.maxRecords, step.maxBytes)));
        shown.push([...inFlight]);
      } else if (step.type === 'again') {
        queue.readAgain();
        inFlight = [];
      } else {
        inFlight.push(...offsets(await queue.read(EVERYTHING, EVERYTHING)));
        const removed = inFlight.splice(0, Math.floor(step.share * inFlight.length));
        const last = removed.at(-1);
        shown.push([removed, queue.removeUpTo(last === undefined ? null : last + 1), queue.isEmpty]);
      }
    }
    return shown;
  }

  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const queue = emptyQueue(new QueueShares());
      const model = new Model();
      const shown = await run(queue, (records, next) => queue.push(chunk(records, next, MUCH)), steps);
      expect(shown).toEqual(await run(model, (records, next) => model.push(records, next), steps));
      queue.readAgain();
      queue.removeUpTo(endOf((await queue.read(EVERYTHING, EVERYTHING)).at(-1)));
      expect([queue.bytes, queue.isEmpty]).toEqual([0, true]);
    }),
    { numRuns: 300 },
  );
});

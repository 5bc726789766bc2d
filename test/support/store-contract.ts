/**
 * The properties of its store that the ledger relies on, as transactions that meet: which one waits, which
 * rows it gets, which error. Postgres and the simulator's model of it run the same scripts.
 */

import { NO_FIELDS } from '../../src/domain/event/event';
import { NO_TAGS } from '../../src/domain/event/player-tag';
import type { KeyedItem } from '../../src/domain/verdict/decide';
import { ACCEPTED } from '../../src/domain/verdict/reasons';
import { newRound } from '../../src/domain/verdict/round';
import { LostRace } from '../../src/ledger/failures';
import { selectDecidedUpTo } from '../../src/ledger/partition-state';
import * as find from '../../src/ledger/statements/find';
import * as lock from '../../src/ledger/statements/lock';
import * as events from '../../src/ledger/statements/write-events';
import * as state from '../../src/ledger/statements/write-state';
import { StoreError } from '../../src/postgres/errors';
import type { Session, Store, StoreConnection } from '../../src/postgres/transaction';

/** An empty store, with control over its time. */
export interface Side {
  readonly store: Store;
  /** Runs everything that can happen without a wait. */
  settle(): Promise<void>;
  /** Awaits the promise, with all the time that it takes. */
  get<T>(promise: Promise<T>): Promise<T>;
  /** Applies a new version of the reference data, in a transaction of its own. */
  applyReference(): Promise<void>;
  close(): Promise<void>;
}

const FEED = 7;
const NOW_MICROS = 1_795_262_400_000_000n;
const sourceOf = (partition: number) => ({ topic: 'contract', partition });
const COMMIT = { name: 'commit', text: 'commit' };
const ROLLBACK = { name: 'rollback', text: 'rollback' };

/** A transaction in its steps. */
class Tx {
  private readonly session: Session;
  private isOver = false;
  constructor(private readonly connection: StoreConnection) {
    this.session = {
      query: (statement, values) => connection.query(statement, values),
      write: (writes) => connection.write(writes),
      writeAndCommit: (writes) => connection.write([...writes, COMMIT]),
    };
  }

  async lockRounds(...ids: string[]): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    await lock.lockRounds(this.session, { feedNo: FEED, ids }, ({ roundId, round: { no, refunded } }) => {
      found[roundId] = refunded ? `${no}, refunded` : `${no}`;
    });
    return found;
  }
  /** Null where the number is not that of the partition. */
  async lockPartition(no: number, partition = 0, cluster = find.FIRST_CLUSTER) {
    const { locked, inForce } = await find.lockPartitions(this.session, [
      { ...sourceOf(partition), no, cluster },
    ]);
    return locked[0] ? { ...locked[0], version: inForce.version } : null;
  }
  async lockPartitions(...numbered: (readonly [no: number, partition: number])[]): Promise<number> {
    const { locked } = await find.lockPartitions(
      this.session,
      numbered.map(([no, partition]) => ({ ...sourceOf(partition), no })),
    );
    return locked.length;
  }
  lockFeeds = (...feeds: number[]) => lock.lockFeeds(this.session, feeds);
  async refund(roundId: string, by: string): Promise<void> {
    const round = { ...newRound(), refunded: true, refundedBy: by };
    for (const { statement, values } of state.updatesOf([{ feedNo: FEED, roundId, round }], NOW_MICROS))
      await this.session.query(statement, values);
  }
  async find(...ids: string[]): Promise<string[]> {
    const found: string[] = [];
    await find.findEvents(this.session, find.withKeys({ feedNo: FEED, ids }), (id) => found.push(id));
    return found.sort();
  }
  partitionNo = (partition: number, cluster = find.FIRST_CLUSTER) =>
    find.partitionNoOf(this.session, { ...sourceOf(partition), cluster });
  openRounds = (...opened: (readonly [no: number, id: string])[]) =>
    this.connection.write(roundsOf(...opened));
  writeKeys = (...ids: string[]) => this.connection.write(keysOf(...ids));
  decidedUpTo = (...list: number[]) => selectDecidedUpTo(this.session, list.map(sourceOf));
  /** Of partition 0, on these clusters. */
  decidedUpToOn = (...clusters: string[]) =>
    selectDecidedUpTo(
      this.session,
      clusters.map((cluster) => ({ ...sourceOf(0), cluster })),
    );
  count = (partitionNo: number, nextOffset: number, decidedUpTo = nextOffset) =>
    state.countPartitions(this.session, [
      { partitionNo, after: { nextOffset, decidedUpTo }, records: 1, ...ONE_ACCEPTED },
    ]);
  write: StoreConnection['write'] = (writes) => this.connection.write(writes);

  async commit(): Promise<void> {
    await this.connection.write([COMMIT]);
    this.release(true);
  }
  async rollback(): Promise<void> {
    await this.connection.write([ROLLBACK]);
    this.release(true);
  }
  /** Closes the connection, as after an error that leaves its state in doubt. */
  abandon(): void {
    this.release(false);
  }
  private release(isClean: boolean): void {
    if (!this.isOver) this.connection.release(isClean);
    this.isOver = true;
  }
}

const keyed = (eventId: string): KeyedItem => ({
  type: 'keyed',
  source: null,
  feedNo: FEED,
  connectionNo: 1,
  eventId,
  fields: NO_FIELDS,
  brandNo: null,
  contentHash: 1,
  restHash: 1,
  playerTag: null,
  refusal: null,
});
let verdictId = 1;
const keysOf = (...ids: string[]) =>
  events.copyKeys(
    ids.map((id) => ({ item: keyed(id), outcome: ACCEPTED, counted: false, verdictId: verdictId++ })),
    NO_TAGS,
  );
const roundsOf = (...opened: (readonly [no: number, id: string])[]) =>
  state.copyRounds(
    opened.map(([no, roundId]) => ({ feedNo: FEED, roundId, round: { ...newRound(), no } })),
    NOW_MICROS,
  );
const ONE_ACCEPTED = {
  accepted: 1,
  rejected: 0,
  skipped: 0,
  duplicates: 0,
  redeliveries: 0,
  deadLetters: 0,
  withoutKey: 0,
};

/** SQLSTATE and constraint of an error of the store, with the statement that met it. */
function errorOf(error: unknown): string {
  if (error instanceof LostRace) return 'lost race';
  if (!(error instanceof StoreError)) throw error;
  const statement = error.message.split(':')[0];
  return [statement, error.sqlState, error.constraint].filter((part) => part !== undefined).join(' ');
}

export function describeStoreContract(makeSide: () => Promise<Side>): void {
  let side: Side;
  const opened: Tx[] = [];
  beforeEach(async () => {
    side = await makeSide();
  });
  afterEach(async () => {
    for (const tx of opened.splice(0)) tx.abandon();
    await side.close();
  });

  const held = (connection: StoreConnection): Tx => {
    const tx = new Tx(connection);
    opened.push(tx);
    return tx;
  };
  const begin = async (): Promise<Tx> => {
    const connection = await side.get(side.store.acquire());
    await side.get(connection.begin());
    return held(connection);
  };
  /** Starts a step that may have to wait for other transactions. */
  const start = <T>(step: Promise<T>) => {
    const state = { isOver: false };
    const result = step
      .then(
        (value) => value,
        (error: unknown) => errorOf(error),
      )
      .finally(() => {
        state.isOver = true;
      });
    return {
      isWaiting: async () => {
        await side.settle();
        return !state.isOver;
      },
      over: result,
      result: () => side.get(result),
    };
  };
  const outcome = (step: Promise<unknown>) => start(step).result();
  const inOne = async (work: (tx: Tx) => Promise<unknown>): Promise<void> => {
    const tx = await begin();
    await side.get(work(tx));
    await side.get(tx.commit());
  };
  const inNew = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    const tx = await begin();
    const result = await side.get(work(tx));
    await side.get(tx.rollback());
    return result;
  };
  /** Locks a partition as the first statement of a transaction, as deciding does. */
  const lockPartition = async (no: number) => {
    const connection = await side.get(side.store.acquire());
    const tx = held(connection);
    const begun = connection.begin();
    const step = Promise.all([tx.lockPartition(no), begun]).then(([locked]) => locked);
    return { tx, step };
  };
  const numbered = async (partition: number): Promise<readonly [no: number, partition: number]> => {
    const tx = await begin();
    const no = await side.get(tx.partitionNo(partition));
    await side.get(tx.commit());
    return [no, partition];
  };
  const aPartition = async (): Promise<number> => {
    let no = 0;
    await inOne(async (tx) => {
      no = await tx.partitionNo(0);
    });
    return no;
  };

  test('a transaction waits for a locked partition, and reads it as the holder leaves it', async () => {
    const no = await aPartition();
    for (const [end, nextOffset] of [
      ['commit', 5],
      ['rollback', 5],
      ['commit', 9],
    ] as const) {
      const first = await lockPartition(no);
      await side.get(first.step);
      const second = await lockPartition(no);
      const waits = start(second.step);
      expect(await waits.isWaiting()).toBe(true);
      await side.get(first.tx.count(no, end === 'commit' ? nextOffset : 100));
      expect(await waits.isWaiting()).toBe(true);
      await side.get(first.tx[end]());
      expect(await waits.result()).toEqual({ nextOffset, decidedUpTo: nextOffset, version: 0 });
      await side.get(second.tx.commit());
    }
  });

  test('a transaction that waits for a partition reads the version of reference data from the start of the wait', async () => {
    const no = await aPartition();
    const first = await lockPartition(no);
    await side.get(first.step);
    const second = await lockPartition(no);
    const waits = start(second.step);
    expect(await waits.isWaiting()).toBe(true);
    await side.get(side.applyReference());
    await side.get(first.tx.commit());
    expect(await waits.result()).toEqual({ nextOffset: 0, decidedUpTo: 0, version: 0 });
    await side.get(second.tx.commit());
    const third = await lockPartition(no);
    expect(await side.get(third.step)).toEqual({ nextOffset: 0, decidedUpTo: 0, version: 1 });
    await side.get(third.tx.commit());
  });

  test('waiting transactions get a row in the order in which they came', async () => {
    const no = await aPartition();
    const first = await lockPartition(no);
    await side.get(first.step);
    const second = await lockPartition(no);
    const secondWaits = start(second.step);
    expect(await secondWaits.isWaiting()).toBe(true);
    const third = await lockPartition(no);
    const thirdWaits = start(third.step);
    expect(await thirdWaits.isWaiting()).toBe(true);
    await side.get(first.tx.commit());
    await secondWaits.result();
    expect(await thirdWaits.isWaiting()).toBe(true);
    await side.get(second.tx.count(no, 3));
    await side.get(second.tx.commit());
    expect(await thirdWaits.result()).toEqual({ nextOffset: 3, decidedUpTo: 3, version: 0 });
    await side.get(third.tx.rollback());
  });

  test('a transaction waits for a locked round, and reads it as the holder leaves it', async () => {
    await inOne((tx) => tx.openRounds([1, 'r-1'], [2, 'r-2']));
    const [first, second] = [await begin(), await begin()];
    expect(await side.get(first.lockRounds('r-1'))).toEqual({ 'r-1': '1' });
    const waits = start(second.lockRounds('r-2', 'r-1'));
    expect(await waits.isWaiting()).toBe(true);
    await side.get(first.refund('r-1', 'e-1'));
    await side.get(first.commit());
    expect(await waits.result()).toEqual({ 'r-1': '1, refunded', 'r-2': '2' });
    await side.get(second.rollback());
  });

  test('a round that is opened during a wait is not seen by the waiting statement, but by the next one', async () => {
    await inOne((tx) => tx.openRounds([1, 'r-1']));
    const [first, second] = [await begin(), await begin()];
    await side.get(first.lockRounds('r-1'));
    const waits = start(second.lockRounds('r-0', 'r-1'));
    expect(await waits.isWaiting()).toBe(true);
    await side.get(first.openRounds([2, 'r-0']));
    await side.get(first.commit());
    expect(await waits.result()).toEqual({ 'r-1': '1' });
    expect(await side.get(second.lockRounds('r-0', 'r-1'))).toEqual({ 'r-0': '2', 'r-1': '1' });
    await side.get(second.rollback());
  });

  test('rounds are locked in the order of their keys, in whatever order they are requested', async () => {
    await inOne((tx) => tx.openRounds([1, 'a'], [2, 'b'], [3, 'c']));
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await side.get(first.lockRounds('b'));
    const waits = start(second.lockRounds('c', 'b', 'a'));
    expect(await waits.isWaiting()).toBe(true);
    // The transaction that waits for b holds a, but not c.
    expect(await side.get(third.lockRounds('c'))).toEqual({ c: '3' });
    const waitsToo = start(third.lockRounds('a'));
    expect(await waitsToo.isWaiting()).toBe(true);
    await side.get(first.commit());
    // Now each of the two waits for a lock of the other, since the third broke the order.
    const results = [await waits.result(), await waitsToo.result()];
    expect(results.filter((result) => result === 'lock_rounds 40P01')).toHaveLength(1);
    await side.get(second.rollback());
    await side.get(third.rollback());
  });

  test('partitions are locked in the order of their numbers, in whatever order they are requested', async () => {
    const [a, b, c] = [await numbered(0), await numbered(1), await numbered(2)];
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await side.get(first.lockPartitions(b));
    const waits = start(second.lockPartitions(c, b, a));
    expect(await waits.isWaiting()).toBe(true);
    // The transaction that waits for b holds a, but not c.
    expect(await side.get(third.lockPartitions(c))).toBe(1);
    const waitsToo = start(third.lockPartitions(a));
    expect(await waitsToo.isWaiting()).toBe(true);
    await side.get(first.commit());
    // Now each of the two waits for a lock of the other, since the third broke the order.
    const results = [await waits.result(), await waitsToo.result()];
    expect(results.filter((result) => result === 'lock_partitions 40P01')).toHaveLength(1);
    await side.get(second.rollback());
    await side.get(third.rollback());
  });

  test.each([
    ['commit', 'copy_keys 23505 event_keys_pkey'],
    ['rollback', undefined],
  ] as const)(
    'a transaction waits for a key that another one has written: after its %s',
    async (end, result) => {
      const [first, second] = [await begin(), await begin()];
      await side.get(first.writeKeys('e-1', 'e-2'));
      const waits = start(second.writeKeys('e-0', 'e-2'));
      expect(await waits.isWaiting()).toBe(true);
      await side.get(first[end]());
      expect(await waits.result()).toBe(result);
      await side.get(second.rollback());
    },
  );

  test.each([
    ['commit', 'copy_rounds 23505 rounds_pkey'],
    ['rollback', undefined],
  ] as const)(
    'a transaction waits for a round that another one has opened: after its %s',
    async (end, result) => {
      const [first, second] = [await begin(), await begin()];
      await side.get(first.openRounds([1, 'r-1']));
      expect(await side.get(second.lockRounds('r-1'))).toEqual({});
      const waits = start(second.openRounds([2, 'r-1']));
      expect(await waits.isWaiting()).toBe(true);
      await side.get(first[end]());
      expect(await waits.result()).toBe(result);
      await side.get(second.rollback());
    },
  );

  test('an existing key causes no wait, and later statements of the message do not run', async () => {
    await inOne((tx) => tx.writeKeys('e-1'));
    const tx = await begin();
    expect(await outcome(tx.write([...keysOf('e-1'), ...roundsOf([1, 'r-1']), COMMIT]))).toBe(
      'copy_keys 23505 event_keys_pkey',
    );
    await side.get(tx.rollback());
    expect(await inNew((after) => after.lockRounds('r-1'))).toEqual({});
  });

  test('a statement sees rows that were committed when it began, and rows of its own transaction', async () => {
    const [first, second] = [await begin(), await begin()];
    await side.get(first.writeKeys('e-1'));
    expect(await side.get(first.find('e-1'))).toEqual(['e-1']);
    expect(await side.get(second.find('e-1'))).toEqual([]);
    await side.get(first.commit());
    expect(await side.get(second.find('e-1'))).toEqual(['e-1']);
    await side.get(second.commit());
  });

  test('rows that are written and committed in one message exist, and rolled-back rows do not', async () => {
    const tx = await begin();
    await side.get(tx.write([...roundsOf([1, 'r-1']), ...keysOf('e-1'), COMMIT]));
    const other = await begin();
    await side.get(other.writeKeys('e-2'));
    await side.get(other.rollback());
    expect(await inNew((each) => each.find('e-1', 'e-2'))).toEqual(['e-1']);
  });

  test('in a deadlock of two transactions one gets an error, and the other continues', async () => {
    await inOne((tx) => tx.openRounds([1, 'a'], [2, 'b']));
    const [first, second] = [await begin(), await begin()];
    await side.get(first.lockRounds('a'));
    await side.get(second.lockRounds('b'));
    const [one, other] = [start(first.lockRounds('b')), start(second.lockRounds('a'))];
    expect(await Promise.all([one.isWaiting(), other.isWaiting()])).toEqual([true, true]);
    const rolledBack = async (tx: Tx, result: unknown) => {
      if (result === DEADLOCK) await tx.rollback();
      return result;
    };
    const results = await side.get(
      Promise.all([
        one.over.then((result) => rolledBack(first, result)),
        other.over.then((result) => rolledBack(second, result)),
      ]),
    );
    expect(results.filter((result) => result === DEADLOCK)).toHaveLength(1);
    await side.get((results[0] === DEADLOCK ? second : first).rollback());
  });

  test('a failed transaction accepts no further statement, and its commit stores nothing, without an error', async () => {
    await inOne((tx) => tx.writeKeys('e-1'));
    const tx = await begin();
    await side.get(tx.writeKeys('e-2'));
    expect(await outcome(tx.writeKeys('e-1'))).toBe('copy_keys 23505 event_keys_pkey');
    expect(await outcome(tx.find('e-2'))).toBe('find_events 25P02');
    expect(await outcome(tx.commit())).toBeUndefined();
    expect(await inNew((each) => each.find('e-1', 'e-2'))).toEqual(['e-1']);
  });

  test.each([
    ['commit', 'lost race'],
    ['rollback', expect.any(Number)],
  ] as const)(
    'a transaction waits for a partition that another one creates: after its %s',
    async (end, result) => {
      const [first, second] = [await begin(), await begin()];
      const no = await side.get(first.partitionNo(4));
      const waits = start(second.partitionNo(4));
      expect(await waits.isWaiting()).toBe(true);
      await side.get(first[end]());
      const got = await waits.result();
      expect(got).toEqual(result);
      expect(got).not.toBe(no);
      await side.get(second.rollback());
    },
  );

  test('positions of partitions come in the requested order, as last committed', async () => {
    const no = await aPartition();
    await inOne((tx) => tx.count(no, 5));
    const first = await begin();
    await side.get(first.count(no, 9));
    expect(await inNew((tx) => tx.decidedUpTo(7, 0))).toEqual([0, 5]);
    await side.get(first.commit());
    expect(await inNew((tx) => tx.decidedUpTo(0, 7, 0))).toEqual([9, 0, 9]);
  });

  test('a partition without a row counts as lost', async () => {
    const no = await aPartition();
    const tx = await begin();
    expect(await side.get(tx.lockPartition(no + 1))).toBeNull();
    await side.get(tx.rollback());
  });

  test('a partition whose number belongs to another one counts as lost, too', async () => {
    const no = await aPartition();
    const tx = await begin();
    expect(await side.get(tx.lockPartition(no, 3))).toBeNull();
    await side.get(tx.rollback());
  });

  test('after a new log begins, a partition has the position in it, and keeps its highest offset', async () => {
    const no = await aPartition();
    await inOne((tx) => tx.count(no, 9));
    await inOne((tx) => tx.count(no, 9, 2));
    expect(await inNew((tx) => tx.decidedUpTo(0))).toEqual([2]);
    expect(await inNew((tx) => tx.lockPartition(no))).toEqual({ nextOffset: 9, decidedUpTo: 2, version: 0 });
    await inOne((tx) => tx.count(no, 12));
    expect(await inNew((tx) => tx.lockPartition(no))).toEqual({
      nextOffset: 12,
      decidedUpTo: 12,
      version: 0,
    });
  });

  test('a partition of another cluster is another partition [U9]', async () => {
    const no = await aPartition();
    await inOne((tx) => tx.count(no, 9));
    let other = 0;
    await inOne(async (tx) => {
      other = await tx.partitionNo(0, 'B');
    });
    expect(other).not.toBe(no);
    expect(await inNew((tx) => tx.partitionNo(0, 'B'))).toBe(other);
    expect(await inNew((tx) => tx.decidedUpToOn('', 'B', 'C'))).toEqual([9, 0, 0]);
    await inOne((tx) => tx.count(other, 4));
    expect(await inNew((tx) => tx.decidedUpToOn('B', '', 'B'))).toEqual([4, 9, 4]);
    expect(await inNew((tx) => tx.lockPartition(other, 0, 'B'))).toMatchObject({ decidedUpTo: 4 });
    const tx = await begin();
    expect(await side.get(tx.lockPartition(other))).toBeNull();
    await side.get(tx.rollback());
  });

  test('a partition keeps its number', async () => {
    const no = await aPartition();
    expect(await inNew((tx) => tx.partitionNo(0))).toBe(no);
  });

  test('locked feeds are held until the end of the transaction, and others are not', async () => {
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await side.get(first.lockFeeds(1, 2));
    await side.get(first.lockFeeds(1));
    await side.get(third.lockFeeds(3));
    const waits = start(second.lockFeeds(2, 3));
    expect(await waits.isWaiting()).toBe(true);
    await side.get(first.commit());
    expect(await waits.isWaiting()).toBe(true);
    await side.get(third.rollback());
    await waits.result();
    await side.get(second.commit());
  });

  test('closing a connection in the middle of a transaction rolls it back', async () => {
    await inOne((tx) => tx.openRounds([1, 'r-1']));
    const [first, second] = [await begin(), await begin()];
    await side.get(first.lockRounds('r-1'));
    await side.get(first.refund('r-1', 'e-1'));
    const waits = start(second.lockRounds('r-1'));
    expect(await waits.isWaiting()).toBe(true);
    first.abandon();
    expect(await waits.result()).toEqual({ 'r-1': '1' });
    await side.get(second.rollback());
  });

  test('a wait for a lock ends at the lock timeout, for the next in line from its turn on, and a silent transaction is ended', async () => {
    await inOne((tx) => tx.openRounds([1, 'r-1']));
    const [silent, ...others] = [await begin(), await begin(), await begin()];
    await side.get(silent?.lockRounds('r-1') ?? Promise.reject(new Error('no transaction')));
    const waits = [];
    for (const tx of others) {
      const wait = start(tx.lockRounds('r-1'));
      waits.push(wait);
      // The second wait clearly begins later: if both gave up at once, the second would not get its turn.
      for (let times = 0; times < 4; times++) expect(await wait.isWaiting()).toBe(true);
    }
    const early = await begin();
    // The second in line waits for the row from the fifth second on, and its statement may take eight.
    const results = [];
    for (const wait of waits) results.push(await wait.result());
    expect(results).toEqual(['lock_rounds 55P03', 'lock_rounds 57014']);
    // The first is ended in the fifteenth second.
    expect(await outcome(early.lockRounds('r-1'))).toBe('lock_rounds 55P03');
    for (const tx of [...others, early]) await side.get(tx.rollback());
    const late = await begin();
    expect(await outcome(late.lockRounds('r-1'))).toEqual({ 'r-1': '1' });
    await side.get(late.rollback());
  });
}

const DEADLOCK = 'lock_rounds 40P01';

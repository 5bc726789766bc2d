/**
 * The loop of a partition above its port: waits, commits, and limits of memory. Clock and source belong to
 * the test, so that a wait of half a minute takes no time.
 */

import type { Answer, Envelope } from '../../../src/intake/delivery';
import { type IntakeResult, makeIntake } from '../../../src/intake/intake';
import { TopicPaused } from '../../../src/intake/reject-limit';
import { NotTogether, PayloadUnavailable } from '../../../src/intake/undecided';
import { FetchGate } from '../../../src/kafka/consumer/membership';
import type { OffsetToCommit, RecordSource, SourceListener } from '../../../src/kafka/port';
import type { StreamRecord } from '../../../src/kafka/protocol/record';
import type { WhenSent } from '../../../src/ledger/decide-batch';
import { StoreBehind } from '../../../src/ledger/failures';
import type { Clock, Timer } from '../../../src/lib/clock';
import { asError } from '../../../src/lib/errors';
import type { Header } from '../../../src/lib/record-header';
import type { TopicPartition } from '../../../src/lib/topic-partition';
import { StoreError } from '../../../src/postgres/errors';
import { VerdictSupply } from '../../../src/publishing/joint-requests';
import type { PublishVerdicts } from '../../../src/publishing/published-answer';
import type { Decoded } from '../../../src/schema-registry/wire-format';
import { decodeRecords } from '../../../src/stream/decoding';
import type { StreamDeps } from '../../../src/stream/deps';
import { makeStream, STORE_CHECK_MS, type Stream } from '../../../src/stream/stream';
import { observeState } from '../../../src/stream/worker-metrics';
import { makeLogger } from '../../../src/telemetry/logger';
import { makeMetrics } from '../../../src/telemetry/metrics';
import { aDocument, anOperator, aReference } from '../../support/builders';
import { aFramedValue, chunkOf, streamRecord } from '../../support/chunk';
import { collectGarbage } from '../../support/garbage';

const MEBIBYTE = 1024 * 1024;

class FakeClock implements Clock {
  private time = 0;
  private sleepers: { until: number; wake: () => void; timer?: number }[] = [];
  private timers = 0;
  /** All waits of at least a second: those of undecided partitions. Waits between commits are shorter. */
  readonly waits: number[] = [];

  now(): number {
    return this.time;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    if (ms >= SECOND && ms !== STORE_CHECK_MS) this.waits.push(ms);
    return new Promise((resolve) => {
      const sleeper = { until: this.time + ms, wake: resolve };
      this.sleepers.push(sleeper);
      signal.addEventListener('abort', () => {
        this.sleepers = this.sleepers.filter((each) => each !== sleeper);
        resolve();
      });
    });
  }

  after(ms: number, run: () => void): number {
    this.sleepers.push({ until: this.time + ms, wake: run, timer: ++this.timers });
    return this.timers;
  }

  cancel(timer: Timer | undefined): void {
    this.sleepers = this.sleepers.filter((each) => each.timer === undefined || each.timer !== timer);
  }

  /** Lets time pass, with all that is due in it. */
  async pass(ms: number): Promise<void> {
    const end = this.time + ms;
    await settle();
    for (;;) {
      const next = this.sleepers.reduce(
        (least, { until }) => Math.min(least, until),
        Number.POSITIVE_INFINITY,
      );
      if (next > end) break;
      this.time = next;
      const due = this.sleepers.filter(({ until }) => until <= next);
      this.sleepers = this.sleepers.filter(({ until }) => until > next);
      for (const { wake } of due) wake();
      await settle();
    }
    this.time = end;
  }
}

/** Runs all work that needs no time. */
async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
}

class FakeSource implements RecordSource {
  listener: SourceListener | null = null;
  readonly commits: string[] = [];
  /** The position of the store in the note of each commit. */
  readonly notes: (number | null)[] = [];
  readonly wentBack: string[] = [];
  /** The cluster in the note of each commit. */
  readonly notedClusters: string[] = [];
  readonly paused = new Set<string>();
  stopped = false;
  commitFails: string | null = null;
  /** Commits wait for it. */
  commitHangs: Promise<void> = Promise.resolve();

  async start(listener: SourceListener): Promise<void> {
    this.listener = listener;
  }
  pause(partition: TopicPartition): void {
    this.paused.add(nameOf(partition));
  }
  resume(partition: TopicPartition): void {
    this.paused.delete(nameOf(partition));
  }
  rewindTo(partition: TopicPartition, offset: number): void {
    this.wentBack.push(`${nameOf(partition)} ${offset}`);
  }
  async commit(progress: readonly OffsetToCommit[]): Promise<void> {
    await this.commitHangs;
    if (this.commitFails !== null) throw new Error(this.commitFails);
    for (const { offset, expectedUpTo, cluster = '', ...partition } of progress) {
      this.commits.push(`${nameOf(partition)} ${offset}`);
      this.notes.push(expectedUpTo);
      this.notedClusters.push(cluster);
    }
  }
  async stop(): Promise<void> {
    this.stopped = true;
  }
}

const nameOf = ({ topic, partition }: TopicPartition) => `${topic}/${partition}`;
const partition = (number: number): TopicPartition => ({ topic: 't', partition: number });

const answer = (envelope: Envelope): Answer => ({
  envelope,
  connection: null,
  eventId: null,
  kind: null,
  faults: [],
  decision: { type: 'unstored', deadLetter: 'unclaimed', redelivered: false },
});

type Decide = (
  source: TopicPartition,
  envelopes: readonly Envelope[],
  expectedUpTo?: number,
  whenSent?: WhenSent,
) => Promise<IntakeResult>;
const NOBODY: WhenSent = { questions: () => undefined, all: () => undefined };
const decideAll: Decide = async (_, envelopes) => ({ answers: envelopes.map(answer), undecided: null });
const TIMEOUT = new StoreError('find_events', new Error('canceling statement due to statement timeout'));
const storeIsDown: Decide = async () => ({ answers: [], undecided: new Error('the store is down') });

function setUp(options: {
  decide?: Decide;
  /** Receives the partitions of each batch, before it is decided. */
  onBatch?: (partitions: readonly number[]) => void;
  decode?: (value: Buffer) => Decoded | Promise<Decoded>;
  publish?: PublishVerdicts;
  partitionsAtOnce?: number;
  batchEvents?: number;
  readDecidedUpTo?: StreamDeps['readDecidedUpTo'];
  recordFirstOffset?: StreamDeps['recordFirstOffset'];
  cluster?: StreamDeps['cluster'];
  areRoundsShared?: () => boolean;
  verdictSupply?: VerdictSupply;
  /** Takes the place of `decide` and `onBatch`. */
  intake?: (clock: FakeClock) => StreamDeps['intake'];
}) {
  const clock = new FakeClock();
  const source = new FakeSource();
  const metrics = makeMetrics();
  const decided: string[] = [];
  const state = { decide: options.decide ?? decideAll };
  const stream = makeStream({
    source,
    clock,
    metrics,
    logger: makeLogger('silent'),
    intake: options.intake?.(clock) ?? {
      async decide(parts, whenSent) {
        const sent = { questions: 0, all: 0 };
        options.onBatch?.(parts.map(({ origin: from }) => from.partition));
        return Promise.all(
          parts.map(async ({ origin: from, envelopes, expectedUpTo, front }) => {
            const count = (what: keyof WhenSent) => () => {
              const note = () => {
                if (++sent[what] === parts.length) whenSent?.[what]();
              };
              // Nothing is sent in front of the records before.
              if (front === undefined) note();
              else front.then(note, () => undefined);
            };
            const counted = { questions: count('questions'), all: count('all') };
            const result = await state.decide(from, envelopes, expectedUpTo, counted);
            const undecided = await front?.catch(asError);
            if (undecided !== undefined) return { answers: [], undecided };
            decided.push(...result.answers.map(({ envelope }) => `${nameOf(from)} ${envelope.offset}`));
            return result;
          }),
        );
      },
    },
    wireFormat: { decode: options.decode ?? ((bytes) => ({ type: 'json', bytes })) },
    publishVerdicts: options.publish ?? null,
    ...(options.verdictSupply && { verdictSupply: options.verdictSupply }),
    cluster: options.cluster ?? { id: 'A', name: '' },
    recordFirstOffset:
      options.recordFirstOffset ??
      (async () => {
        throw new Error('a move without a mirror');
      }),
    readDecidedUpTo: options.readDecidedUpTo ?? (async (partitions) => partitions.map(() => 0)),
    batchEvents: options.batchEvents ?? 100,
    areRoundsShared: options.areRoundsShared ?? (() => false),
    partitionsAtOnce: options.partitionsAtOnce ?? 3,
  });
  const listener = (): SourceListener => {
    if (source.listener === null) throw new Error('the stream was not started');
    return source.listener;
  };
  return {
    clock,
    source,
    stream,
    decided,
    state,
    metrics,
    async assign(...partitions: number[]) {
      if (source.listener === null) await stream.start();
      listener().onAssigned(partitions.map(partition));
    },
    /** Positions the partition, as Kafka does after an assignment. */
    begin: (number: number, expectedUpTo: number | null, offset = expectedUpTo, cluster = '') =>
      listener().onPositioned(partition(number), offset, expectedUpTo, cluster),
    /** Reports the high watermark, as the answer to a fetch does. */
    end: (number: number, offset: number, start = 0) =>
      listener().onHighWatermark(partition(number), offset, start),
    /** Delivers records with these offsets as one chunk. */
    deliver(to: number, offsets: readonly number[], nextOffset = (offsets.at(-1) ?? -1) + 1) {
      const records = offsets.map((offset) => streamRecord(offset));
      listener().onChunk(chunkOf(partition(to), records, nextOffset));
    },
    deliverBytes(to: number, offset: number, bytes: number) {
      listener().onChunk(chunkOf(partition(to), [streamRecord(offset, Buffer.alloc(bytes))]));
    },
    /** The value of a gauge for each topic, as a scrape shows it. */
    async gauge(name: 'undecidedPartitions' | 'pausedPartitions') {
      observeState(metrics, stream, { hit: 0, miss: 0, failure: 0 });
      return (await metrics[name].get()).values.map(({ value }) => value);
    },
  };
}

const SECOND = 1_000;
/** Within this time all decided records are committed. */
const BETWEEN_COMMITS = 100;

describe('an undecided partition', () => {
  it('waits 1, 2, 4, 8, 16, 30, 30 ... s, without end [U2]', async () => {
    const { clock, source, assign, deliver } = setUp({ decide: storeIsDown });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(600 * SECOND);
    const waits = clock.waits.map((ms) => ms / SECOND);
    expect(waits.slice(0, 7)).toEqual([1, 2, 4, 8, 16, 30, 30]);
    expect(waits.length).toBe(5 + 1 + Math.floor((600 - 31) / 30));
    expect(new Set(waits.slice(5))).toEqual(new Set([30]));
    expect(source.commits).toEqual([]);
  });

  it('is decided when the store is back, and its next failure waits 1 s again [U2]', async () => {
    const { clock, source, state, assign, deliver } = setUp({ decide: storeIsDown });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(6 * SECOND);
    state.decide = decideAll;
    await clock.pass(1 * SECOND);
    expect(source.commits).toEqual(['t/0 1']);
    state.decide = storeIsDown;
    deliver(0, [1]);
    await clock.pass(1.5 * SECOND);
    expect(clock.waits.map((ms) => ms / SECOND)).toEqual([1, 2, 4, 1, 2]);
  });

  it('that decided a part of its batch waits 1 s again [U2]', async () => {
    const inPart: Decide = async (_, envelopes) => ({
      answers: envelopes.slice(0, 1).map(answer),
      undecided: new Error('the rest cannot be decided'),
    });
    const { clock, source, assign, deliver } = setUp({ decide: inPart });
    await assign(0);
    deliver(0, [0, 1, 2]);
    await clock.pass(2.5 * SECOND);
    expect(clock.waits.map((ms) => ms / SECOND)).toEqual([1, 1, 1]);
    expect(source.commits).toEqual(['t/0 1', 't/0 2', 't/0 3']);
  });

  it('does not stop the other partitions [U3]', async () => {
    const decide: Decide = (from, envelopes) =>
      (from.partition === 0 ? storeIsDown : decideAll)(from, envelopes);
    const { clock, source, stream, assign, deliver, gauge } = setUp({ decide });
    await assign(0, 1, 2);
    for (const to of [0, 1, 2]) deliver(to, [0, 1]);
    await clock.pass(10 * SECOND);
    expect(source.commits).toEqual(['t/1 2', 't/2 2']);
    expect(await gauge('undecidedPartitions')).toEqual([1]);
    expect(stream.undecided()).toEqual([
      { ...partition(0), failures: 4, sinceMs: 10 * SECOND, because: 'the store is down', cause: 'worker' },
    ]);
  });

  it('does not stop the other partitions while many wait, however few are decided at once [U3]', async () => {
    const decide: Decide = (from, envelopes) =>
      (from.partition < 10 ? storeIsDown : decideAll)(from, envelopes);
    const { clock, source, assign, deliver } = setUp({ decide, partitionsAtOnce: 1 });
    await assign(...Array.from({ length: 12 }, (_, n) => n));
    for (let to = 0; to < 12; to++) deliver(to, [0]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.commits).toEqual(['t/10 1', 't/11 1']);
  });

  it('is not stalled: every try counts as progress [U5]', async () => {
    const { clock, stream, assign, deliver } = setUp({ decide: storeIsDown });
    await assign(0);
    deliver(0, [0]);
    let idleMs = 0;
    for (let second = 0; second < 300; second++) {
      await clock.pass(SECOND);
      idleMs = Math.max(idleMs, stream.idleMs());
    }
    expect(idleMs).toBeLessThanOrEqual(30 * SECOND);
  });

  it('stops waiting when the worker stops, and commits nothing of its batch [U2]', async () => {
    const { clock, source, stream, assign, deliver, gauge } = setUp({ decide: storeIsDown });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(20 * SECOND);
    let inTime: boolean | undefined;
    void stream.stop(5 * SECOND).then((value) => {
      inTime = value;
    });
    await clock.pass(0);
    expect(inTime).toBe(true);
    expect(source.stopped).toBe(true);
    expect(source.commits).toEqual([]);
    expect(await gauge('undecidedPartitions')).toEqual([0]);
  });

  it('stops waiting once it is revoked; its next owner starts at 1 s [U2]', async () => {
    const { clock, source, assign, deliver, state, gauge } = setUp({ decide: storeIsDown });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(20 * SECOND);
    await assign(1);
    await settle();
    expect(await gauge('undecidedPartitions')).toEqual([0]);
    await assign(0, 1);
    deliver(0, [0]);
    await clock.pass(1.5 * SECOND);
    expect(clock.waits.map((ms) => ms / SECOND)).toEqual([1, 2, 4, 8, 16, 1, 2]);
    state.decide = decideAll;
    await clock.pass(2 * SECOND);
    expect(source.commits).toEqual(['t/0 1']);
  });

  it('waits also after an error of our own code [U2]', async () => {
    const { clock, assign, deliver } = setUp({
      decide: async () => {
        throw new TypeError('a defect');
      },
    });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(3.5 * SECOND);
    expect(clock.waits.map((ms) => ms / SECOND)).toEqual([1, 2, 4]);
  });

  it('with a record that cannot be decoded now decides the records before it [S3]', async () => {
    let registryIsBack = false;
    const { clock, source, decided, assign, deliver } = setUp({
      decide: async (_, envelopes) => {
        const waiting = envelopes.findIndex(({ payload }) => payload.type === 'unavailable');
        if (waiting < 0) return decideAll(_, envelopes);
        const undecided = new PayloadUnavailable('the registry is away');
        return { answers: envelopes.slice(0, waiting).map(answer), undecided };
      },
      decode: async (bytes) => {
        if (bytes.equals(Buffer.from('framed')) && !registryIsBack) throw new Error('the registry is away');
        return { type: 'json', bytes };
      },
    });
    await assign(0);
    const records = [0, 1, 2, 3].map((offset) =>
      streamRecord(offset, Buffer.from(offset === 2 ? 'framed' : '{}')),
    );
    source.listener?.onChunk(chunkOf(partition(0), records));
    await clock.pass(2 * SECOND);
    expect(decided).toEqual(['t/0 0', 't/0 1']);
    expect(source.commits).toEqual(['t/0 2']);
    registryIsBack = true;
    await clock.pass(2 * SECOND);
    expect(source.commits).toEqual(['t/0 2', 't/0 4']);
    deliver(0, [4]);
    await clock.pass(0);
    expect(source.commits.at(-1)).toBe('t/0 5');
  });
});

describe('publishing verdicts', () => {
  it('is retried until it succeeds, without deciding again, before the offset is committed [S7]', async () => {
    let refused = 3;
    const { clock, source, decided, assign, deliver } = setUp({
      publish: async () => {
        if (refused-- > 0) throw new Error('the verdict topic refuses');
      },
    });
    await assign(0);
    deliver(0, [0, 1]);
    await clock.pass(6.5 * SECOND);
    expect(source.commits).toEqual([]);
    await clock.pass(1 * SECOND);
    expect(source.commits).toEqual(['t/0 2']);
    expect(decided).toEqual(['t/0 0', 't/0 1']);
    expect(clock.waits.map((ms) => ms / SECOND)).toEqual([1, 2, 4]);
  });

  it('that waits holds neither the records nor their fetch in memory', async () => {
    const published: string[][] = [];
    const { clock, source, assign, deliver, deliverBytes, state } = setUp({
      publish: async (_, answers) => {
        published.push(answers.flatMap((answer) => Object.keys(answer)));
        throw new Error('the verdict topic refuses');
      },
    });
    await assign(0, 1);
    deliver(0, [0]);
    await clock.pass(SECOND);
    state.decide = storeIsDown;
    // More than half of the limit of all queues: too much only while another queue holds records.
    deliverBytes(1, 0, 5 * 1024 * 1024);
    expect([...source.paused]).toEqual([]);
    expect(new Set(published.flat())).toEqual(
      new Set([
        ...['offset', 'connection', 'eventId', 'faults', 'decision'],
        ...['fields', 'decidedAt', 'reversed', 'recordKey'],
      ]),
    );
    deliver(0, [1]);
    deliver(1, [1]);
    expect([...source.paused]).toEqual(['t/1']);
  });

  it('that fails while the worker stops commits nothing: the next owner publishes [S7]', async () => {
    const { clock, source, stream, assign, deliver } = setUp({
      publish: async () => {
        throw new Error('the verdict topic refuses');
      },
    });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(2 * SECOND);
    expect(await stream.stop(SECOND)).toBe(true);
    expect(source.commits).toEqual([]);
  });
});

describe('commits', () => {
  it('cover the hidden offsets at the end of a chunk: markers, aborted and compacted records [U10]', async () => {
    const { clock, source, assign, deliver } = setUp({});
    await assign(0, 1, 2);
    deliver(0, [0, 1], 5);
    deliver(1, [], 7);
    deliver(2, [3]);
    deliver(2, [], 9);
    await clock.pass(BETWEEN_COMMITS);
    expect([...source.commits].sort()).toEqual(expect.arrayContaining(['t/0 5', 't/1 7', 't/2 9']));
  });

  it('come after the decision, in the order of the records [U1]', async () => {
    let decideNow = (): void => {};
    const { clock, source, assign, deliver } = setUp({
      batchEvents: 2,
      decide: async (from, envelopes) => {
        await new Promise<void>((resolve) => {
          decideNow = resolve;
        });
        return decideAll(from, envelopes);
      },
    });
    await assign(0);
    deliver(0, [0, 1, 2]);
    await clock.pass(0);
    expect(source.commits).toEqual([]);
    decideNow();
    await clock.pass(0);
    expect(source.commits).toEqual(['t/0 2']);
    decideNow();
    await clock.pass(BETWEEN_COMMITS);
    expect(source.commits).toEqual(['t/0 2', 't/0 3']);
  });

  it('that fail are retried together with the records decided meanwhile [U1]', async () => {
    let fail = (): void => {};
    const { clock, source, assign, deliver } = setUp({});
    await assign(0, 1, 2);
    source.commitFails = 'the coordinator moved';
    source.commitHangs = new Promise((resolve) => {
      fail = resolve;
    });
    deliver(0, [0]);
    deliver(1, [0]);
    await clock.pass(0);
    deliver(0, [1]);
    await clock.pass(0);
    fail();
    await clock.pass(0.5 * SECOND);
    deliver(2, [0]);
    source.commitFails = null;
    await clock.pass(1 * SECOND);
    expect(source.commits).toEqual(['t/0 2', 't/1 1', 't/2 1']);
  });

  it('of an old generation are dropped: the partition may belong to another worker [U1]', async () => {
    const { clock, source, assign, deliver } = setUp({});
    await assign(0, 1);
    source.commitFails = 'the group is rebalancing';
    deliver(0, [0]);
    deliver(1, [0]);
    await clock.pass(0);
    await assign(1);
    source.commitFails = null;
    deliver(1, [0]);
    await clock.pass(2 * SECOND);
    expect(source.commits).toEqual(['t/1 1']);
  });

  it('are not made for a batch that was in flight when its partition was revoked [U1]', async () => {
    let decideNow = (): void => {};
    const { clock, source, decided, assign, deliver } = setUp({
      decide: async (from, envelopes) => {
        await new Promise<void>((resolve) => {
          decideNow = resolve;
        });
        return decideAll(from, envelopes);
      },
    });
    await assign(0);
    deliver(0, [0, 1]);
    await clock.pass(0);
    await assign(0, 1);
    decideNow();
    await clock.pass(2 * SECOND);
    expect(decided).toEqual(['t/0 0', 't/0 1']);
    expect(source.commits).toEqual([]);
  });

  it('include a batch that is decided in the very step in which a commit ends [U1]', async () => {
    // The decision ends some steps before the commit, by run. In one of these runs both end together.
    for (let steps = 0; steps < 30; steps++) {
      let commitNow = (): void => {};
      let decideNow = (): void => {};
      const { clock, source, assign, deliver, deliverBytes } = setUp({
        decide: async (from, envelopes, _, whenSent) => {
          whenSent?.all();
          if (from.partition === 1)
            await new Promise<void>((resolve) => {
              decideNow = resolve;
            });
          return decideAll(from, envelopes);
        },
      });
      await assign(0, 1);
      deliver(1, [0]);
      await settle();
      source.commitHangs = new Promise((resolve) => {
        commitNow = resolve;
      });
      deliverBytes(0, 0, MEBIBYTE);
      await settle();
      decideNow();
      for (let step = 0; step < steps; step++) await Promise.resolve();
      commitNow();
      await clock.pass(BETWEEN_COMMITS);
      expect({ steps, commits: source.commits }).toEqual({ steps, commits: ['t/0 1', 't/1 1'] });
    }
  });
});

describe('a stopping worker', () => {
  it('finishes the batches in flight, commits them, begins no other, and leaves the group [U1]', async () => {
    let decideNow = (): void => {};
    const { clock, source, stream, assign, deliver } = setUp({
      batchEvents: 2,
      decide: async (from, envelopes) => {
        await new Promise<void>((resolve) => {
          decideNow = resolve;
        });
        return decideAll(from, envelopes);
      },
    });
    await assign(0);
    deliver(0, [0, 1, 2, 3]);
    await clock.pass(0);
    const stopped = stream.stop(10 * SECOND);
    deliver(0, [4]);
    await clock.pass(0);
    expect(source.stopped).toBe(false);
    decideNow();
    expect(await stopped).toBe(true);
    expect(source.commits).toEqual(['t/0 2']);
    expect(source.stopped).toBe(true);
  });

  it('commits the records decided since the last commit, without the wait between commits [U1]', async () => {
    const { clock, source, stream, assign, deliver } = setUp({});
    await assign(0);
    deliver(0, [0]);
    await clock.pass(0);
    deliver(0, [1]);
    await clock.pass(0);
    expect(source.commits).toEqual(['t/0 1']);
    expect(await stream.stop(10 * SECOND)).toBe(true);
    expect(clock.now()).toBe(0);
    expect(source.commits).toEqual(['t/0 1', 't/0 2']);
  });

  it('waits for a hanging batch no longer than the deadline', async () => {
    const { clock, source, stream, assign, deliver } = setUp({ decide: () => new Promise(() => {}) });
    await assign(0);
    deliver(0, [0]);
    await clock.pass(0);
    let inTime: boolean | undefined;
    void stream.stop(10 * SECOND).then((value) => {
      inTime = value;
    });
    await clock.pass(10 * SECOND);
    expect(inTime).toBe(false);
    expect(source.commits).toEqual([]);
  });
});

describe('a decided record', () => {
  it('has its value, key, headers, timestamp and offset as they came, and a decoded payload [S5]', async () => {
    const seen: Envelope[] = [];
    const { clock, source, assign } = setUp({
      decide: (from, envelopes) => {
        seen.push(...envelopes);
        return decideAll(from, envelopes);
      },
      decode: () => ({ type: 'value', value: 7 }),
    });
    await assign(0);
    const headers: Header[] = [
      ['b', Buffer.from('1')],
      ['a', null],
      ['b', Buffer.from('2')],
    ];
    const records: StreamRecord[] = [
      {
        offset: 5,
        ...aFramedValue(Buffer.from('v')),
        key: Buffer.from('k'),
        headers,
        claims: [],
        timestamp: '9223372036854775807',
      },
      { ...streamRecord(9, null), timestamp: '-1' },
      {
        ...streamRecord(10, Buffer.from('a batch')),
        payload: { type: 'undecodable', because: 'it is damaged' },
      },
    ];
    source.listener?.onChunk(chunkOf(partition(0), records));
    await clock.pass(0);
    expect(
      seen.map(({ offset, value, key, headers, timestamp, payload }) => ({
        offset,
        value,
        key,
        headers,
        timestamp,
        payload,
      })),
    ).toEqual([
      {
        offset: 5,
        value: Buffer.from('v'),
        key: Buffer.from('k'),
        headers,
        timestamp: '9223372036854775807',
        payload: { type: 'value', value: 7 },
      },
      {
        offset: 9,
        value: null,
        key: null,
        headers: [],
        timestamp: '-1',
        payload: { type: 'json', bytes: null },
      },
      {
        offset: 10,
        value: Buffer.from('a batch'),
        key: null,
        headers: [],
        timestamp: '0',
        payload: { type: 'undecodable', because: 'it is damaged' },
      },
    ]);
  });

  it('may follow hidden offsets within a batch, and share its batch with other chunks', async () => {
    const batches: number[] = [];
    const { clock, source, assign, deliver } = setUp({
      batchEvents: 3,
      decide: (from, envelopes) => {
        batches.push(envelopes.length);
        return decideAll(from, envelopes);
      },
    });
    await assign(0);
    deliver(0, []);
    deliver(0, [1, 4], 6);
    deliver(0, [], 8);
    deliver(0, [8, 9, 12], 20);
    await clock.pass(BETWEEN_COMMITS);
    expect(batches.reduce((sum, count) => sum + count, 0)).toBe(5);
    expect(Math.max(...batches)).toBeLessThanOrEqual(3);
    expect(source.commits.at(-1)).toBe('t/0 20');
  });
});

describe('memory', () => {
  it('a partition is paused while it holds more than 1 MiB, if seven other partitions hold records', async () => {
    const { clock, source, assign, deliver, deliverBytes } = setUp({ decide: storeIsDown, batchEvents: 1 });
    await assign(0, 1, 2, 3, 4, 5, 6, 7);
    for (let other = 1; other < 8; other++) deliver(other, [0]);
    const paused: boolean[] = [];
    for (let offset = 0; offset < 5; offset++) {
      deliverBytes(0, offset, MEBIBYTE / 4);
      paused.push(source.paused.has('t/0'));
    }
    await clock.pass(0);
    // With the overhead of chunks, four of these are more than one.
    expect(paused).toEqual([false, false, false, true, true]);
    expect([...source.paused]).toEqual(['t/0']);
  });

  it('a partition that alone holds records is paused above 8 MiB, and resumed below three quarters of it', async () => {
    const { clock, source, state, assign, deliverBytes } = setUp({ decide: storeIsDown, batchEvents: 1 });
    await assign(0);
    const paused: boolean[] = [];
    for (let offset = 0; offset < 5; offset++) {
      deliverBytes(0, offset, 2 * MEBIBYTE);
      paused.push(source.paused.has('t/0'));
    }
    // With the overhead of chunks, four of these are more than eight.
    expect(paused).toEqual([false, false, false, true, true]);
    const whileDecided: boolean[] = [];
    state.decide = (from, envelopes) => {
      whileDecided.push(source.paused.has('t/0'));
      return decideAll(from, envelopes);
    };
    await clock.pass(2 * SECOND);
    expect(whileDecided).toEqual([true, true, true, false, false]);
    expect([...source.paused]).toEqual([]);
    expect(source.commits.at(-1)).toBe('t/0 5');
  });

  it('a partition begins with a small batch, and each next batch may hold twice as many events, up to the setting', async () => {
    const sizesWith = async (batchEvents: number) => {
      const sizes: number[] = [];
      const { clock, assign, deliver } = setUp({
        decide: (from, envelopes) => {
          sizes.push(envelopes.length);
          return decideAll(from, envelopes);
        },
        batchEvents,
      });
      await assign(0);
      deliver(
        0,
        Array.from({ length: 10_000 }, (_, offset) => offset),
      );
      await clock.pass(0);
      return sizes;
    };
    expect(await sizesWith(3_000)).toEqual([250, 500, 1_000, 2_000, 3_000, 3_000, 250]);
    expect((await sizesWith(400)).slice(0, 3)).toEqual([250, 400, 400]);
  });

  it('a batch that cannot be decided is halved until it can be', async () => {
    const sizes: number[] = [];
    const { clock, assign, deliver } = setUp({
      decide: async (from, envelopes) => {
        sizes.push(envelopes.length);
        return envelopes.length > 70 ? { answers: [], undecided: TIMEOUT } : decideAll(from, envelopes);
      },
      batchEvents: 1_000,
    });
    await assign(0);
    deliver(
      0,
      Array.from({ length: 300 }, (_, offset) => offset),
    );
    await clock.pass(60 * SECOND);
    expect(sizes.slice(0, 5)).toEqual([250, 125, 62, 124, 62]);
    expect(sizes.filter((size) => size <= 70).reduce((sum, size) => sum + size, 0)).toBe(300);
  });

  it('while all partitions are paused no fetch is sent, so that no answer is overdue', async () => {
    const { clock, stream, state, assign, deliverBytes } = setUp({ decide: storeIsDown });
    await assign(0, 1);
    for (const partition of [0, 1]) deliverBytes(partition, 0, 9 * MEBIBYTE);
    await clock.pass(100 * SECOND);
    expect(stream.fetchAgeMs()).toBe(0);
    state.decide = decideAll;
    await clock.pass(100 * SECOND);
    expect(stream.fetchAgeMs()).toBeGreaterThan(60 * SECOND);
  });

  it('a batch takes no further record once it holds 3 MiB', async () => {
    const batches: number[] = [];
    const { clock, assign, deliverBytes } = setUp({
      decide: (from, envelopes) => {
        batches.push(envelopes.length);
        return decideAll(from, envelopes);
      },
      partitionsAtOnce: 1,
    });
    await assign(0, 1);
    for (let offset = 0; offset < 6; offset++) deliverBytes(0, offset, MEBIBYTE);
    await clock.pass(0);
    expect(batches.reduce((sum, count) => sum + count, 0)).toBe(6);
    expect(Math.max(...batches)).toBeLessThanOrEqual(3);
  });

  it('the schemas of 64 records are requested at once: many new schemas do not delay other records', async () => {
    const asked: string[] = [];
    let answer: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { clock, source, decided, assign } = setUp({
      decode: async (bytes) => {
        asked.push(bytes.toString());
        await answered;
        return { type: 'json', bytes };
      },
    });
    await assign(0);
    const records = Array.from({ length: 70 }, (_, n) => streamRecord(n, Buffer.from(`value ${n}`)));
    source.listener?.onChunk(chunkOf(partition(0), records));
    await clock.pass(0);
    expect(asked).toHaveLength(64);
    expect(decided).toEqual([]);
    answer();
    await clock.pass(0);
    expect(asked).toEqual(records.map(({ value }) => String(value)));
    expect(decided).toEqual(records.map(({ offset }) => `t/0 ${offset}`));
  });

  it('the status shows why a partition waits, and counts the partitions of paused topics [U7]', async () => {
    let failure = new Error('the store is down');
    const { clock, stream, state, gauge, assign, deliver } = setUp({
      decide: async () => ({ answers: [], undecided: failure }),
    });
    const paused = () => gauge('pausedPartitions');
    await assign(0, 1);
    deliver(0, [0]);
    await clock.pass(0);
    expect([stream.undecided()[0]?.because, await paused()]).toEqual(['the store is down', [0]]);
    failure = new TopicPaused('topic t is paused');
    deliver(1, [0]);
    await clock.pass(1 * SECOND);
    expect([stream.undecided()[0]?.because, await paused()]).toEqual(['topic t is paused', [2]]);
    state.decide = decideAll;
    await clock.pass(2 * SECOND);
    expect([stream.undecided(), await paused()]).toEqual([[], [0]]);
    state.decide = async () => ({ answers: [], undecided: failure });
    deliver(1, [1]);
    await clock.pass(0);
    expect(await paused()).toEqual([1]);
    await assign(0);
    await settle();
    expect(await paused()).toEqual([0]);
  });

  it('a record that waits for the registry leaves its turn to the other partitions', async () => {
    let answer: (decoded: Decoded) => void = () => undefined;
    const hanging = new Promise<Decoded>((resolve) => {
      answer = resolve;
    });
    const framed = Buffer.from('framed');
    const { clock, source, decided, assign, deliver } = setUp({
      decode: (bytes) => (bytes.equals(framed) ? hanging : { type: 'json', bytes }),
      partitionsAtOnce: 1,
    });
    await assign(0, 1);
    source.listener?.onChunk(chunkOf(partition(0), [streamRecord(0, framed)]));
    deliver(1, [0, 1]);
    await clock.pass(0);
    expect(decided).toEqual(['t/1 0', 't/1 1']);
    answer({ type: 'json', bytes: framed });
    deliver(1, [2]);
    await clock.pass(0);
    expect(new Set(decided)).toEqual(new Set(['t/0 0', 't/1 0', 't/1 1', 't/1 2']));
  });

  it('records that wait for the registry together leave their turn once', async () => {
    const decoding = decodeRecords(
      [0, 1, 2].map((offset) => streamRecord(offset, Buffer.from('framed'))),
      { decode: async (bytes) => ({ type: 'json', bytes }) },
    );
    expect(decoding).toBeInstanceOf(Promise);
    expect((await decoding).map(({ offset }) => offset)).toEqual([0, 1, 2]);
  });
});

describe('partitions that are decided at the same time', () => {
  /** Enough bytes for a batch beside the one in flight. */
  const LARGE_BYTES = MEBIBYTE;

  /** Partitions 0 to 2 with one record of this size each, whose batches never end. */
  async function threeThatHang(bytes: number, batchEvents = 1, areRoundsShared = () => false) {
    const begun: number[] = [];
    const sent = new Map<number, WhenSent>();
    const hang: Decide = ({ partition }, _envelopes, _expectedUpTo, whenSent) => {
      begun.push(partition);
      if (whenSent !== undefined) sent.set(partition, whenSent);
      return new Promise(() => undefined);
    };
    const { clock, assign, deliverBytes } = setUp({ decide: hang, batchEvents, areRoundsShared });
    await assign(0, 1, 2);
    for (const to of [0, 1, 2]) deliverBytes(to, 0, bytes);
    await clock.pass(0);
    return { clock, begun, sent };
  }

  it('are read and judged one by one: the next once all writes of the one before are sent', async () => {
    const { clock, begun, sent } = await threeThatHang(LARGE_BYTES);
    expect(begun).toEqual([0]);
    sent.get(0)?.all();
    await clock.pass(0);
    expect(begun).toEqual([0, 1]);
    sent.get(1)?.all();
    await clock.pass(0);
    expect(begun).toEqual([0, 1, 2]);
  });

  it('are judged far from the store once the one before has sent its questions', async () => {
    const { clock, begun, sent } = await threeThatHang(LARGE_BYTES);
    sent.get(0)?.questions();
    await clock.pass(0);
    expect(begun).toEqual([0, 1]);
    sent.get(1)?.questions();
    await clock.pass(0);
    expect(begun).toEqual([0, 1, 2]);
  });

  it('are judged once all writes of the one before are sent, also far from the store, where they share rounds', async () => {
    const { clock, begun, sent } = await threeThatHang(LARGE_BYTES, 1, () => true);
    sent.get(0)?.questions();
    await clock.pass(0);
    expect(begun).toEqual([0]);
    sent.get(0)?.all();
    await clock.pass(0);
    expect(begun).toEqual([0, 1]);
  });

  it('wait at most 100 ms for a partition that waits for the store [U3]', async () => {
    const { clock, begun, sent } = await threeThatHang(LARGE_BYTES);
    await clock.pass(99);
    expect(begun).toEqual([0]);
    await clock.pass(1);
    expect(begun).toEqual([0, 1]);
    // Its turn is over: this call does not end the turn of another.
    sent.get(0)?.all();
    await clock.pass(99);
    expect(begun).toEqual([0, 1]);
    await clock.pass(1);
    expect(begun).toEqual([0, 1, 2]);
  });

  it('are decided in one batch where all of their records fit in', async () => {
    const { begun } = await threeThatHang(LARGE_BYTES, 3);
    expect(begun).toEqual([0, 1, 2]);
  });

  it('wait for a batch in flight while few of their records wait', async () => {
    const { clock, begun, sent } = await threeThatHang(10);
    sent.get(0)?.all();
    await clock.pass(99);
    expect(begun).toEqual([0]);
    await clock.pass(1);
    expect(begun).toEqual([0, 1]);
  });

  it('do not wait for a partition that waits for the registry', async () => {
    const { clock, decided, assign, deliverBytes } = setUp({
      decode: (bytes) =>
        bytes.length > LARGE_BYTES ? new Promise(() => undefined) : { type: 'json', bytes },
    });
    await assign(0, 1);
    deliverBytes(0, 0, LARGE_BYTES + 1);
    deliverBytes(1, 0, LARGE_BYTES);
    await clock.pass(0);
    expect(decided).toEqual(['t/1 0']);
  });
});

describe('a batch of several partitions', () => {
  /** Three partitions with 100 records each, one a ms. @param timestamps of their first records */
  async function threeFull(areRoundsShared: boolean, timestamps: readonly number[]) {
    const batches: Map<number, number>[] = [];
    let calls = 0;
    const { clock, assign, source } = setUp({
      batchEvents: 120,
      areRoundsShared: () => areRoundsShared,
      decide: async ({ partition }, envelopes) => {
        // The fake calls once for each part, and one batch after the other.
        if (calls++ % 3 === 0 || !areRoundsShared) batches.push(new Map());
        batches.at(-1)?.set(partition, envelopes.length);
        return decideAll({ topic: 't', partition }, envelopes);
      },
    });
    await assign(0, 1, 2);
    for (const [to, begin] of timestamps.entries()) {
      const records = Array.from({ length: 100 }, (_, offset) => ({
        ...streamRecord(offset),
        timestamp: String(begin + offset),
      }));
      source.listener?.onChunk(chunkOf(partition(to), records, 100));
    }
    await clock.pass(0);
    return batches.map((batch) => [...batch]);
  }

  it('takes a share of each where they share rounds', async () => {
    const [first] = await threeFull(true, [1000, 1000, 1000]);
    expect(first).toEqual([
      [0, 40],
      [1, 40],
      [2, 40],
    ]);
  });

  it('takes most of a partition that is behind in time, and half of an equal share of each, where they share rounds [U3]', async () => {
    const [first] = await threeFull(true, [1080, 1000, 1080]);
    expect(first).toEqual([
      [0, 20],
      [1, 80],
      [2, 20],
    ]);
  });

  it('holds the records in front of a chunk that cannot be opened, where they share rounds [U3]', async () => {
    const { clock, assign, deliver, source } = setUp({ batchEvents: 8, areRoundsShared: () => true });
    await assign(0, 1);
    // The second run of the partition begins with the chunk.
    deliver(0, [0, 1]);
    source.listener?.onChunk({
      ...chunkOf(partition(0), [streamRecord(2)]),
      open: () => {
        throw new Error('no memory is left');
      },
    });
    deliver(1, [0, 1]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.commits.sort()).toEqual(['t/0 2', 't/1 2']);
  });

  it('ends where the partition that is behind may hold no more, where they share rounds', async () => {
    const sizes: number[] = [];
    const { clock, assign, source } = setUp({
      batchEvents: 400,
      areRoundsShared: () => true,
      decide: async ({ partition }, envelopes) => {
        sizes.push(envelopes.length);
        return decideAll({ topic: 't', partition }, envelopes);
      },
    });
    await assign(0, 1);
    for (const [to, behind] of [0, 10_000].entries()) {
      const records = Array.from({ length: 1_000 }, (_, offset) => ({
        ...streamRecord(offset),
        timestamp: String(behind + offset),
      }));
      source.listener?.onChunk(chunkOf(partition(to), records, 1_000));
    }
    await clock.pass(0);
    // The first batch would have room for 50 more records of the other. That has its share until the one that
    // is behind has no record.
    expect(sizes).toEqual([250, 100, 300, 100, 300, 100, 150, 250, 400, 50]);
  });

  it.each([false, true])(
    'has each partition of small chunks, beside one of many with large ones (rounds shared: %s) [U3 S8]',
    async (areRoundsShared) => {
      const LARGE = 60 * MEBIBYTE;
      const batches: number[][] = [];
      const onBatch = (partitions: readonly number[]) => void batches.push([...partitions]);
      const { clock, source, assign } = setUp({ onBatch, areRoundsShared: () => areRoundsShared });
      const sizes = [LARGE, LARGE, LARGE, LARGE, 100, MEBIBYTE];
      await assign(...sizes.keys());
      const send = (offset: number) => {
        for (const [to, size] of sizes.entries())
          source.listener?.onChunk(chunkOf(partition(to), [streamRecord(offset)], offset + 1, size));
      };
      for (let offset = 0; offset < 3; offset++) {
        send(offset);
        await clock.pass(0);
      }
      // The first chunks show the sizes.
      expect(batches.map(String)).toEqual([
        ...['0', '1', '2', '3', '4,5'],
        ...['0', '4,5', '1', '2', '3'],
        ...['4,5', '0', '1', '2', '3'],
      ]);
      expect(source.commits.length).toBeGreaterThan(0);
    },
  );

  it('is at first of the partition with the fewest bytes, and alone until its position is known [U3]', async () => {
    const batches: number[][] = [];
    const onBatch = (partitions: readonly number[]) => void batches.push([...partitions]);
    const { clock, assign, begin, deliverBytes } = setUp({ onBatch });
    await assign(0, 1, 2);
    for (const each of [0, 1, 2]) begin(each, null, 5);
    deliverBytes(0, 5, MEBIBYTE);
    deliverBytes(1, 5, 1_000);
    deliverBytes(2, 5, 10_000);
    await clock.pass(0);
    expect(batches).toEqual([[1], [2], [0]]);
  });

  it('takes all of one partition before the next, where they share no rounds', async () => {
    const [first, second] = await threeFull(false, [1000, 1000, 1000]);
    expect([first, second]).toEqual([[[0, 100]], [[1, 20]]]);
  });

  it('is of the partition that has waited longest, where one is decided at a time [U3]', async () => {
    const batches: number[][] = [];
    const onBatch = (partitions: readonly number[]) => void batches.push([...partitions]);
    const { clock, assign, deliver } = setUp({ onBatch, partitionsAtOnce: 1, batchEvents: 2 });
    await assign(0, 1);
    deliver(0, [0, 1, 2, 3, 4, 5]);
    deliver(1, [0, 1, 2, 3]);
    await clock.pass(0);
    expect(batches).toEqual([[0], [1], [0], [1], [0]]);
  });

  it('is left to the others, however many partitions in trouble wait for the store [U3]', async () => {
    const tries = new Map<number, number>();
    const { clock, decided, assign, deliver } = setUp({
      decide: (from, envelopes) => {
        const tried = tries.get(from.partition) ?? 0;
        tries.set(from.partition, tried + 1);
        if (from.partition === 3) return decideAll(from, envelopes);
        return tried === 0 ? storeIsDown(from, envelopes) : new Promise(() => undefined);
      },
    });
    await assign(0, 1, 2, 3);
    for (const inTrouble of [0, 1, 2]) deliver(inTrouble, [0]);
    await clock.pass(2 * SECOND);
    expect([...tries.values()]).toEqual([2, 2, 1]);
    deliver(3, [0]);
    await clock.pass(0);
    expect(decided).toEqual(['t/3 0']);
  });

  it('goes on without the partition that made it fail, which is decided alone [U3]', async () => {
    const batches: (readonly number[])[] = [];
    let failing = 3;
    let letGo = (): void => undefined;
    const { clock, assign, deliver, source, state } = setUp({
      onBatch: (partitions) => batches.push(partitions),
      decide: async (from, envelopes) => {
        if (failing-- > 0) return { answers: [], undecided: new NotTogether('one of them fails') };
        return from.partition === 1 ? storeIsDown(from, envelopes) : decideAll(from, envelopes);
      },
    });
    await assign(0, 1, 2);
    for (const to of [0, 1, 2]) deliver(to, [0]);
    await clock.pass(BETWEEN_COMMITS);
    expect(batches.splice(0)).toEqual([[0, 1, 2], [0], [1], [2]]);
    expect(clock.waits).toEqual([SECOND]);
    expect(source.commits.toSorted()).toEqual(['t/0 1', 't/2 1']);

    // The others share a batch again.
    for (const to of [0, 2]) deliver(to, [1]);
    await clock.pass(SECOND - 2 * BETWEEN_COMMITS);
    expect(batches.splice(0)).toEqual([[0, 2]]);

    // Partition 1 is ready for its retry while partition 0 waits for a batch.
    state.decide = (from, envelopes) =>
      new Promise((resolve) => {
        letGo = () => resolve(decideAll(from, envelopes));
      });
    await clock.pass(BETWEEN_COMMITS / 2);
    deliver(2, [2]);
    await clock.pass(0);
    deliver(0, [2]);
    await clock.pass(BETWEEN_COMMITS / 2);
    expect(batches.splice(0)).toEqual([[2]]);
    state.decide = decideAll;
    letGo();
    await clock.pass(0);
    expect(batches).toEqual([[0], [1]]);
  });
});

describe('partitions that share batches with others in trouble', () => {
  const REFERENCE = aReference(
    aDocument(anOperator({ connections: [{ id: 'of-t', transport: 'kafka', topic: 't' }] })),
  );
  const reference = async () => REFERENCE;
  const IN_TROUBLE = Array.from({ length: 12 }, (_, number) => number);
  const OTHERS = Array.from({ length: 8 }, (_, number) => IN_TROUBLE.length + number);

  /** The intake over a store that decides everything, with a send of dead letters that times out. */
  const hangingLetters = (clock: FakeClock) =>
    makeIntake({
      ledger: {
        partitionNo: async ({ partition }) => partition,
        async decideBatch({ items, beforeCommit, whenSent }) {
          const decisions = items.map((item) => ({
            ...({ type: 'unstored', redelivered: false } as const),
            deadLetter: item.type === 'unstored' ? item.deadLetter : null,
          }));
          whenSent?.all();
          await beforeCommit?.();
          return { decisions, facts: null };
        },
      },
      references: { current: reference, reload: reference },
      async sendDeadLetters() {
        await new Promise<void>((resolve) => clock.after(4 * SECOND, resolve));
        throw new Error('the topic does not answer');
      },
      logger: makeLogger('silent'),
      now: () => clock.now(),
    });

  it('wait no longer than the first send of their dead letters takes [U3] [S6]', async () => {
    const { clock, source, assign, deliver, stream } = setUp({ intake: hangingLetters });
    await assign(...IN_TROUBLE, ...OTHERS);
    for (const to of IN_TROUBLE) {
      const letter = { ...streamRecord(1), payload: { type: 'undecodable', because: 'damaged' } } as const;
      source.listener?.onChunk(chunkOf(partition(to), [streamRecord(0), letter, streamRecord(2)]));
    }
    for (const to of OTHERS) deliver(to, [0, 1, 2]);
    await clock.pass(4 * SECOND + BETWEEN_COMMITS);
    const before = [...IN_TROUBLE.map((each) => `t/${each} 1`), ...OTHERS.map((each) => `t/${each} 3`)];
    expect(source.commits.toSorted()).toEqual(before.toSorted());
    expect(stream.undecided().map(({ partition, cause }) => `${partition} ${cause}`)).toEqual(
      IN_TROUBLE.map((each) => `${each} kafka`),
    );

    // Later records do not wait for the retries.
    for (let offset = 3; offset < 20; offset++) {
      source.commits.length = 0;
      for (const to of OTHERS) deliver(to, [offset]);
      await clock.pass(3 * BETWEEN_COMMITS);
      expect(source.commits.toSorted()).toEqual(OTHERS.map((each) => `t/${each} ${offset + 1}`).toSorted());
    }
  });

  it('go before the retries of the others, where nothing shows who made the batch fail [U3]', async () => {
    const batches: string[] = [];
    const failed = new Set<number>();
    const { clock, assign, deliver } = setUp({
      onBatch: (partitions) => batches.push(partitions.join(',')),
      async decide(from, envelopes) {
        if (from.partition < 6) {
          await new Promise<void>((resolve) => clock.after(4 * SECOND, resolve));
          return { answers: [], undecided: TIMEOUT };
        }
        if (failed.has(from.partition)) return decideAll(from, envelopes);
        failed.add(from.partition);
        return { answers: [], undecided: new NotTogether('one of them fails') };
      },
    });
    await assign(0, 1, 2, 3, 4, 5, 6, 7);
    for (let to = 0; to < 6; to++) deliver(to, [0]);
    await clock.pass(10 * SECOND);
    // Four partitions wait for their second try.
    expect(batches.splice(0)).toEqual(['0,1,2,3,4,5', '0', '1', '2', '3']);
    for (const to of [6, 7]) deliver(to, [0]);
    await clock.pass(4 * SECOND);
    expect(batches).toEqual(['6,7', '6', '7', '4', '5']);
  });
});

describe('the next batch of a partition', () => {
  /** A partition with one batch a record, which the test ends. */
  async function aPartition(options: Partial<Parameters<typeof setUp>[0]> = {}) {
    const begun: string[] = [];
    const tries: { whenSent: WhenSent; end: (undecided?: Error, decided?: number) => void }[] = [];
    const decide: Decide = (_, envelopes, expectedUpTo, whenSent = NOBODY) => {
      begun.push(`${envelopes.map(({ offset }) => offset).join(',')} behind ${expectedUpTo}`);
      return new Promise((resolve) => {
        const end = (undecided: Error | null = null, decided = undecided === null ? envelopes.length : 0) =>
          resolve({ answers: envelopes.slice(0, decided).map(answer), undecided });
        tries.push({ whenSent, end });
      });
    };
    const stream = setUp({ decide, batchEvents: 1, ...options });
    const { clock, assign } = stream;
    const told = async (nth: number, tell: (tried: (typeof tries)[number]) => void) => {
      await clock.pass(0);
      const tried = tries[nth];
      if (tried === undefined) throw new Error(`batch ${nth} was not begun`);
      tell(tried);
      await clock.pass(0);
    };
    await assign(0);
    return {
      ...stream,
      begun,
      /** Delivers consecutive records of a mebibyte each. */
      deliverLarge(from: number, to: number) {
        for (let offset = from; offset <= to; offset++) stream.deliverBytes(0, offset, MEBIBYTE);
      },
      send: (nth: number, sent: keyof WhenSent = 'all') => told(nth, ({ whenSent }) => whenSent[sent]()),
      end: (nth: number, undecided?: Error, decided?: number) =>
        told(nth, ({ end }) => end(undecided, decided)),
    };
  }

  /** The state in which the first of many records is decided, and the second is in the store. */
  async function isAtTheSecond(options: Partial<Parameters<typeof setUp>[0]> = {}) {
    const partition = await aPartition(options);
    partition.deliverLarge(0, 5);
    await partition.send(0);
    await partition.end(0);
    await partition.send(1);
    return partition;
  }

  it('does not begin once the questions of the one before are sent [U2]', async () => {
    const { begun, deliverLarge, send, end } = await aPartition();
    deliverLarge(0, 5);
    await send(0);
    await end(0);
    await send(1, 'questions');
    expect(begun).toEqual(['0 behind 0', '1 behind 1']);
    await send(1);
    expect(begun).toEqual(['0 behind 0', '1 behind 1', '2 behind 2']);
  });

  it('begins once all writes of the one before are sent, and is answered after it', async () => {
    const { begun, source, send, end, clock } = await isAtTheSecond();
    expect(begun).toEqual(['0 behind 0', '1 behind 1', '2 behind 2']);
    // Only one batch begins behind another.
    await send(2);
    expect(begun.length).toBe(3);
    // Its answer comes first, and its commit after the batch before it.
    await end(2);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.commits).toEqual(['t/0 1']);
    await end(1);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.commits.at(-1)).toBe('t/0 3');
  });

  it('makes more verdicts come soon, until few records wait or no batch is in flight [S9]', async () => {
    const verdictSupply = new VerdictSupply();
    let published = Promise.resolve();
    const { send, end, deliverBytes, deliverLarge, clock } = await aPartition({
      verdictSupply,
      publish: () => published,
    });
    const states: Record<string, boolean> = {};
    const note = (state: string) => {
      states[state] = verdictSupply.isMoreComing;
    };
    deliverBytes(0, 0, 1_000);
    await clock.pass(0);
    note('few records wait');
    deliverLarge(1, 5);
    await send(0);
    note('many wait');
    await end(0);
    await send(1);
    note('batches follow each other');
    const { promise, resolve } = Promise.withResolvers<void>();
    published = promise;
    for (const nth of [1, 2]) await end(nth);
    note('all wait for the publication');
    resolve();
    await clock.pass(0);
    note('it has ended');
    expect(states).toEqual({
      'few records wait': false,
      'many wait': true,
      'batches follow each other': true,
      'all wait for the publication': false,
      'it has ended': true,
    });
  });

  it('makes no verdicts come soon while the other records are of an undecided partition [S9] [U3]', async () => {
    const verdictSupply = new VerdictSupply();
    let end = (): void => undefined;
    const decide: Decide = (from, envelopes) =>
      from.partition === 0
        ? storeIsDown(from, envelopes)
        : new Promise((resolve) => {
            end = () => resolve(decideAll(from, envelopes));
          });
    const { clock, assign, deliverBytes, stream } = setUp({ decide, batchEvents: 1, verdictSupply });
    await assign(0, 1);
    for (let offset = 0; offset < 5; offset++) deliverBytes(0, offset, MEBIBYTE);
    await clock.pass(0);
    expect(stream.undecided().length).toBe(1);
    deliverBytes(1, 0, 1_000);
    await clock.pass(0);
    const whileFewAreDecided = verdictSupply.isMoreComing;
    end();
    await clock.pass(0);
    deliverBytes(1, 1, MEBIBYTE);
    await clock.pass(0);
    expect([whileFewAreDecided, verdictSupply.isMoreComing]).toEqual([false, true]);
  });

  it('makes no more verdicts come soon once the worker stops [S9]', async () => {
    const verdictSupply = new VerdictSupply();
    const { stream, send, end, deliverLarge, clock } = await aPartition({ verdictSupply });
    deliverLarge(0, 5);
    await send(0);
    const before = verdictSupply.isMoreComing;
    const stopped = stream.stop(60_000);
    await clock.pass(0);
    expect([before, verdictSupply.isMoreComing]).toEqual([true, false]);
    await end(0);
    await end(1);
    expect(await stopped).toBe(true);
  });

  const KIBIBYTE = 1_024;

  it.each([
    ['half as many bytes as the one before', 400 * KIBIBYTE, 200 * KIBIBYTE],
    ['64 KiB behind a small one', KIBIBYTE, 64 * KIBIBYTE],
    ['1 MiB behind a large one', 4 * MEBIBYTE, MEBIBYTE],
  ])('begins once it has %s', async (_, before, least) => {
    const { begun, send, end, clock, deliverBytes } = await aPartition();
    deliverBytes(0, 0, 1);
    await send(0);
    await end(0);
    deliverBytes(0, 1, before);
    await send(1);
    deliverBytes(0, 2, least - 2 * KIBIBYTE);
    await clock.pass(0);
    expect(begun.length).toBe(2);
    deliverBytes(0, 3, 2 * KIBIBYTE);
    await clock.pass(0);
    expect(begun.length).toBe(3);
  });

  it('waits for 1 MiB where rounds are shared, whatever the one before has', async () => {
    const { begun, send, end, clock, deliverBytes } = await aPartition({ areRoundsShared: () => true });
    deliverBytes(0, 0, 1);
    await send(0);
    await end(0);
    deliverBytes(0, 1, KIBIBYTE);
    await send(1);
    deliverBytes(0, 2, MEBIBYTE - 2 * KIBIBYTE);
    await clock.pass(0);
    expect(begun.length).toBe(2);
    deliverBytes(0, 3, 2 * KIBIBYTE);
    await clock.pass(0);
    expect(begun.length).toBe(3);
  });

  it('begins also when its records come later', async () => {
    const { begun, send, end, clock, deliverLarge } = await aPartition();
    deliverLarge(0, 1);
    await send(0);
    await end(0);
    await send(1);
    expect(begun.length).toBe(2);
    deliverLarge(2, 2);
    await clock.pass(0);
    expect(begun[2]).toBe('2 behind 2');
  });

  it('begins behind the first batch of all, too', async () => {
    const { begun, send, deliverLarge } = await aPartition();
    deliverLarge(0, 5);
    await send(0);
    expect(begun).toEqual(['0 behind 0', '1 behind 1']);
  });

  it('does not begin while few records wait', async () => {
    const { begun, deliver, send, end } = await aPartition();
    for (let offset = 0; offset <= 5; offset++) deliver(0, [offset]);
    await send(0);
    await end(0);
    await send(1);
    expect(begun).toEqual(['0 behind 0', '1 behind 1']);
  });

  it('does not begin while another partition could be decided instead', async () => {
    const { begun, assign, deliverBytes, send, end } = await aPartition({ partitionsAtOnce: 2 });
    await assign(0, 1);
    for (let offset = 0; offset <= 5; offset++) for (const to of [0, 1]) deliverBytes(to, offset, MEBIBYTE);
    await send(0);
    await send(1);
    await end(0);
    await end(1);
    await send(2);
    await send(3);
    expect(begun).toEqual(['0 behind 0', '0 behind 0', '1 behind 1', '1 behind 1']);
  });

  it('begins again if the one before cannot be decided, whatever its own result [U1] [U2]', async () => {
    const { begun, clock, source, state, decided, send, end } = await isAtTheSecond();
    await send(2);
    await end(1, TIMEOUT);
    await end(2);
    expect(clock.waits).toEqual([SECOND]);
    state.decide = decideAll;
    await clock.pass(SECOND + BETWEEN_COMMITS);
    expect(begun.length).toBe(3);
    expect(decided).toEqual(['t/0 0', 't/0 1', 't/0 2', 't/0 3', 't/0 4', 't/0 5']);
    expect(source.commits).toEqual(['t/0 1', 't/0 2', 't/0 6']);
  });

  it('begins again if the one before is decided in part, while its verdicts are published [U1] [U2]', async () => {
    const publication = Promise.withResolvers<void>();
    const { begun, clock, source, state, decided, deliverLarge, send, end } = await aPartition({
      batchEvents: 2,
      publish: async (_, answers) => {
        if (answers.some(({ offset }) => offset === 2)) await publication.promise;
      },
    });
    deliverLarge(0, 7);
    await send(0);
    await end(0);
    await send(1);
    await send(2);
    expect(begun).toEqual(['0,1 behind 0', '2,3 behind 2', '4,5 behind 4']);
    await end(1, TIMEOUT, 1);
    await end(2);
    publication.resolve();
    await clock.pass(0);
    state.decide = decideAll;
    await clock.pass(SECOND + BETWEEN_COMMITS);
    expect(decided.slice(3)).toEqual(['t/0 3', 't/0 4', 't/0 5', 't/0 6', 't/0 7']);
    expect(source.commits.at(-1)).toBe('t/0 8');
  });

  it('is retried like any other if it cannot be decided itself [U2]', async () => {
    const { begun, clock, source, state, send, end } = await isAtTheSecond();
    await send(2);
    await end(2, TIMEOUT);
    expect(clock.waits).toEqual([]);
    await end(1);
    expect(clock.waits).toEqual([SECOND]);
    state.decide = decideAll;
    await clock.pass(SECOND + BETWEEN_COMMITS);
    expect(begun.length).toBe(3);
    expect(source.commits.at(-1)).toEqual('t/0 6');
  });

  it('rewinds where the store has lost the one before, and counts on it [U1]', async () => {
    const { clock, source, end } = await isAtTheSecond();
    await end(1);
    await end(2, new StoreBehind(1));
    expect(source.wentBack).toEqual(['t/0 1']);
    expect(clock.waits).toEqual([]);
  });

  it('does not prevent the one before from being halved [U2]', async () => {
    const { begun, clock, deliver, deliverBytes, send, end } = await aPartition({ batchEvents: 4 });
    deliver(0, [0]);
    await end(0);
    deliver(0, [1, 2, 3, 4]);
    for (let offset = 5; offset <= 7; offset++) deliverBytes(0, offset, MEBIBYTE);
    await send(1);
    expect(begun.slice(1)).toEqual(['1,2,3,4 behind 1', '5,6,7 behind 5']);
    await end(1, TIMEOUT);
    await end(2, new StoreBehind(1));
    await clock.pass(SECOND);
    expect(begun.slice(3)).toEqual(['1,2 behind 1']);
  });

  it('keeps its place while it is decompressed and the batch before it is answered', async () => {
    const { begun, source, decided, clock, deliver, send, end } = await aPartition({ batchEvents: 3 });
    deliver(0, [0]);
    await end(0);
    deliver(0, [1]);
    await send(1);
    let decompressed = (): void => undefined;
    const chunk = chunkOf(partition(0), [streamRecord(2, Buffer.alloc(MEBIBYTE))]);
    source.listener?.onChunk({
      ...chunk,
      open: async (from) => {
        await new Promise<void>((resolve) => {
          decompressed = resolve;
        });
        return chunk.open(from);
      },
    });
    for (const offset of [3, 4]) deliver(0, [offset]);
    await end(1);
    decompressed();
    await clock.pass(0);
    expect(begun.slice(2)).toEqual(['2,3,4 behind 2']);
    await end(2);
    expect(decided).toEqual(['t/0 0', 't/0 1', 't/0 2', 't/0 3', 't/0 4']);
  });

  it('keeps its records while the one before is answered, beyond the limit of decompressed bytes [U1]', async () => {
    const { begun, source, decided, clock, deliver, send, end } = await aPartition({ batchEvents: 2 });
    deliver(0, [0]);
    await end(0);
    deliver(0, [1]);
    await send(1);
    const records = [streamRecord(2, Buffer.alloc(MEBIBYTE)), streamRecord(3)];
    source.listener?.onChunk(chunkOf(partition(0), records, 4, 70 * MEBIBYTE));
    await clock.pass(0);
    expect(begun.slice(2)).toEqual(['2,3 behind 2']);
    await end(1);
    await end(2);
    await clock.pass(BETWEEN_COMMITS);
    expect(begun.slice(3)).toEqual([]);
    expect([decided, source.commits.at(-1)]).toEqual([['t/0 0', 't/0 1', 't/0 2', 't/0 3'], 't/0 4']);
  });

  it('without visible records is committed with the records before it [U10]', async () => {
    const { begun, source, clock, deliver, send, end } = await aPartition();
    deliver(0, [0]);
    await end(0);
    deliver(0, [1]);
    await send(1);
    source.listener?.onChunk({ ...chunkOf(partition(0), [], 7), bytes: MEBIBYTE });
    await clock.pass(0);
    await end(1);
    await clock.pass(BETWEEN_COMMITS);
    expect(begun).toEqual(['0 behind 0', '1 behind 1']);
    expect(source.commits.at(-1)).toBe('t/0 7');
  });

  it('is published and committed when the worker stops, and no other begins [U1]', async () => {
    const { begun, source, stream, send, end } = await isAtTheSecond();
    await send(2);
    const stopped = stream.stop(SECOND);
    await end(1);
    await end(2);
    expect(await stopped).toBe(true);
    expect(begun.length).toBe(3);
    expect(source.commits.at(-1)).toBe('t/0 3');
  });

  describe('while the one before is being published', () => {
    /** Verdicts of the second record are refused while `isRefused`. */
    async function refusing() {
      const published: number[] = [];
      const verdicts = { isRefused: true };
      const partition = await isAtTheSecond({
        publish: async (_, answers) => {
          const isSecond = answers.some(({ offset }) => offset === 1);
          if (isSecond && verdicts.isRefused) throw new Error('the verdict topic refuses');
          published.push(...answers.map(({ offset }) => offset));
        },
      });
      await partition.end(1);
      return { ...partition, published, verdicts };
    }

    it('is decided, like the one behind it, and both wait without their records [S7]', async () => {
      const { begun, clock, source, published, verdicts, send, end, deliverLarge } = await refusing();
      await send(2);
      await end(2);
      await send(3);
      await end(3);
      expect(begun).toEqual(['0 behind 0', '1 behind 1', '2 behind 2', '3 behind 3']);
      // Decided records take nothing of the limit of all queues.
      deliverLarge(6, 10);
      expect([...source.paused]).toEqual([]);
      expect(published).toEqual([0]);
      verdicts.isRefused = false;
      await clock.pass(SECOND + BETWEEN_COMMITS);
      expect(published).toEqual([0, 1, 2, 3]);
      expect(source.commits.at(-1)).toBe('t/0 4');
    });

    it('holds nothing of its records in memory', async () => {
      const { state, send, end } = await refusing();
      const records: WeakRef<Envelope>[] = [];
      state.decide = async (from, envelopes, ...rest) => {
        records.push(...envelopes.map((envelope) => new WeakRef(envelope)));
        return decideAll(from, envelopes, ...rest);
      };
      await send(2);
      await end(2);
      await collectGarbage();
      expect(records.map((record) => record.deref())).toEqual([undefined]);
    });

    it('is neither published nor committed when the worker stops: the next owner does it [S7] [U1]', async () => {
      const { source, stream, published, end } = await refusing();
      const stopped = stream.stop(SECOND);
      await end(2);
      expect(await stopped).toBe(true);
      expect(published).toEqual([0]);
      expect(source.commits).toEqual(['t/0 1']);
    });
  });
});

describe('a store that has lost decided events', () => {
  /** A store that has decided partition 0 up to `held.upTo`. */
  const aStore = () => {
    const held = { upTo: 0 };
    const decide: Decide = async (_, envelopes, expectedUpTo = 0) => {
      if (held.upTo < expectedUpTo) return { answers: [], undecided: new StoreBehind(held.upTo) };
      held.upTo = (envelopes.at(-1)?.offset ?? 0) + 1;
      return { answers: envelopes.map(answer), undecided: null };
    };
    return { held, decide, readDecidedUpTo: async () => [held.upTo] };
  };

  it('makes the partition rewind, without a wait, before any record behind is decided [U1] [D2]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, stream, decided, assign, deliver } = setUp(store);
    await assign(0);
    deliver(0, [0, 1, 2, 3]);
    await clock.pass(BETWEEN_COMMITS);
    held.upTo = 2;
    deliver(0, [4, 5]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.wentBack).toEqual(['t/0 2']);
    deliver(0, [2, 3, 4]);
    deliver(0, [5], 8);
    await clock.pass(2 * BETWEEN_COMMITS);
    expect(decided.map((each) => each.split(' ')[1]).join(' ')).toBe('0 1 2 3 2 3 4 5');
    // In between, the store's offset is committed. Otherwise a next owner would miss unpublished verdicts.
    expect(source.commits).toEqual(['t/0 4', 't/0 2', 't/0 8']);
    expect(source.notes).toEqual([4, 2, 6]);
    expect(clock.waits).toEqual([]);
    expect(stream.undecided()).toEqual([]);
  });

  it('is asked by the first batch for all that it has decided before [U1]', async () => {
    const { held, ...store } = aStore();
    const expected: (number | undefined)[] = [];
    const decide: Decide = (from, envelopes, expectedUpTo, whenSent) => {
      expected.push(expectedUpTo);
      return store.decide(from, envelopes, expectedUpTo, whenSent);
    };
    const { clock, assign, begin, deliver } = setUp({ ...store, decide });
    held.upTo = 3;
    await assign(0);
    begin(0, null, 3);
    deliver(0, [3, 4]);
    await clock.pass(0);
    expect(expected).toEqual([3]);
  });

  it('is noticed by the note that the worker before has committed with the offset [U1]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, assign, begin, deliver } = setUp(store);
    held.upTo = 5;
    await assign(0);
    begin(0, 7);
    deliver(0, [9]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.wentBack).toEqual(['t/0 5']);
    // Kafka has deleted 5 to 8: the remaining records are decided.
    deliver(0, [9]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.commits).toEqual(['t/0 5', 't/0 10']);
  });

  it('decides nothing before the rewound offset is committed, and is undecided until then [S7] [U1]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, stream, decided, assign, begin, deliver } = setUp(store);
    held.upTo = 5;
    await assign(0);
    begin(0, 7);
    deliver(0, [7]);
    source.commitFails = 'the coordinator is loading';
    await clock.pass(0);
    deliver(0, [5, 6, 7]);
    await clock.pass(BETWEEN_COMMITS);
    expect(decided).toEqual([]);
    expect(stream.undecided()).toEqual([
      expect.objectContaining({
        cause: 'kafka',
        because: expect.stringContaining('cannot commit the rewound offset 5'),
      }),
    ]);
    source.commitFails = null;
    await clock.pass(3 * SECOND);
    expect(decided).toEqual(['t/0 5', 't/0 6', 't/0 7']);
    expect([source.commits[0], source.commits.at(-1)]).toEqual(['t/0 5', 't/0 8']);
  });

  it('does not commit a rewound offset once its partition is revoked [U1]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, assign, begin, deliver } = setUp(store);
    held.upTo = 5;
    await assign(0);
    begin(0, 7);
    deliver(0, [7]);
    await clock.pass(0);
    let openNow = (): void => {};
    const isOpened = new Promise<void>((resolve) => {
      openNow = resolve;
    });
    const chunk = chunkOf(partition(0), [streamRecord(5)]);
    source.listener?.onChunk({ ...chunk, open: (from) => isOpened.then(() => chunk.open(from)) });
    await clock.pass(0);
    await assign(1);
    openNow();
    await clock.pass(2 * SECOND);
    expect(source.wentBack).toEqual(['t/0 5']);
    expect(source.commits).toEqual([]);
  });

  it('is asked about offsets that another program has set, until a record comes behind them [U1]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, metrics, assign, begin, deliver } = setUp(store);
    held.upTo = 5;
    await assign(0);
    begin(0, null);
    // Markers alone.
    deliver(0, [], 9);
    await clock.pass(BETWEEN_COMMITS);
    expect([source.commits, source.notes]).toEqual([['t/0 9'], [null]]);
    deliver(0, [9]);
    await clock.pass(BETWEEN_COMMITS);
    expect([source.commits.at(-1), source.notes.at(-1)]).toEqual(['t/0 10', 10]);
    expect((await metrics.gapRecords.get()).values.map(({ value }) => value)).toEqual([4]);
  });

  it('skips no record of a truncated log, of which it knows later offsets [U1] [S7]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, decided, assign, begin, deliver } = setUp(store);
    held.upTo = 8;
    await assign(0);
    begin(0, 10);
    deliver(0, [6, 7, 8, 9]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.wentBack).toEqual(['t/0 6']);
    deliver(0, [6, 7, 8, 9]);
    await clock.pass(BETWEEN_COMMITS);
    expect(decided.map((each) => each.split(' ')[1]).join(' ')).toBe('6 7 8 9');
    expect(source.commits).toEqual(['t/0 6', 't/0 10']);
  });

  it('is noticed also while no records come [U1]', async () => {
    const { held, ...store } = aStore();
    const { clock, source, assign, begin } = setUp(store);
    held.upTo = 7;
    await assign(0);
    begin(0, 7);
    await clock.pass(STORE_CHECK_MS);
    expect(source.wentBack).toEqual([]);
    held.upTo = 5;
    await clock.pass(STORE_CHECK_MS);
    expect(source.wentBack).toEqual(['t/0 5']);
    await clock.pass(3 * STORE_CHECK_MS);
    expect(source.wentBack).toEqual(['t/0 5']);
  });

  it('is not checked where no worker has committed a note of its position [U1]', async () => {
    const { clock, source, assign, begin, deliver } = setUp(aStore());
    await assign(0);
    begin(0, null);
    deliver(0, [9]);
    await clock.pass(STORE_CHECK_MS);
    expect(source.wentBack).toEqual([]);
    expect(source.commits).toEqual(['t/0 10']);
  });

  it('that does not answer is asked again at the next check', async () => {
    let asked = 0;
    const { clock, source, assign, begin } = setUp({
      readDecidedUpTo: async () => {
        if (++asked === 1) throw new Error('the store is down');
        return [3];
      },
    });
    await assign(0);
    begin(0, 7);
    await clock.pass(2 * STORE_CHECK_MS);
    expect(source.wentBack).toEqual(['t/0 3']);
  });

  it('resumes a partition that was paused for its waiting records', async () => {
    const { held, ...store } = aStore();
    const { clock, source, assign, begin, deliverBytes } = setUp(store);
    held.upTo = 5;
    await assign(0);
    begin(0, 7);
    deliverBytes(0, 7, 9 * MEBIBYTE);
    expect([...source.paused]).toEqual(['t/0']);
    await clock.pass(BETWEEN_COMMITS);
    expect([...source.paused]).toEqual([]);
    expect(source.wentBack).toEqual(['t/0 5']);
  });
});

describe('lag', () => {
  const lagOf = (stream: Stream) => {
    const [{ lag, waitsSince } = { lag: null, waitsSince: null }] = stream.partitionStatuses();
    return { lag, waits: waitsSince !== null };
  };

  it('includes records behind an open transaction, which cannot be read yet, from the first fetch on [U6]', async () => {
    const { clock, stream, assign, begin, end, deliver } = setUp({});
    await assign(0);
    expect(lagOf(stream)).toEqual({ lag: null, waits: false });
    begin(0, 4);
    end(0, 9);
    expect(lagOf(stream)).toEqual({ lag: 5, waits: true });
    deliver(0, [4, 5]);
    await clock.pass(BETWEEN_COMMITS);
    expect(lagOf(stream)).toEqual({ lag: 3, waits: false });
    end(0, 9);
    expect(lagOf(stream)).toEqual({ lag: 3, waits: true });
    const [standing] = stream.partitionStatuses();
    end(0, 12);
    expect(stream.partitionStatuses()).toEqual([{ ...standing, lag: 6 }]);
    deliver(0, [], 12);
    await clock.pass(BETWEEN_COMMITS);
    end(0, 12);
    expect(lagOf(stream)).toEqual({ lag: 0, waits: false });
  });

  it('counts from the beginning where no offset is committed, without deleted records', async () => {
    const { stream, assign, begin, end } = setUp({});
    await assign(0);
    begin(0, null);
    end(0, 9, 6);
    expect(lagOf(stream).lag).toBe(3);
    await assign(0);
    begin(0, 4);
    end(0, 9, 9);
    expect(lagOf(stream)).toEqual({ lag: 0, waits: false });
  });

  it('of a topic that was created again counts from its first record, not from the offset of the old topic', async () => {
    const { clock, stream, assign, begin, end, deliver } = setUp({});
    await assign(0);
    begin(0, 100, 100);
    end(0, 3);
    deliver(0, [0]);
    await clock.pass(BETWEEN_COMMITS);
    end(0, 3);
    expect(lagOf(stream)).toEqual({ lag: 2, waits: true });
  });
});

describe('fetches of an old generation', () => {
  const gateOf = () => {
    const clock = new FakeClock();
    return { clock, gate: new FetchGate(clock) };
  };

  it('are discarded until the loop of each broker has begun a fetch of the new one', () => {
    const { gate } = gateOf();
    gate.onFetchStart(1);
    gate.onFetchStart(2);
    expect(gate.isClosed()).toBe(false);
    gate.close();
    expect(gate.isClosed()).toBe(true);
    gate.onFetchStart(1);
    expect(gate.isClosed()).toBe(true);
    gate.onFetchStart(2);
    expect(gate.isClosed()).toBe(false);
  });

  it('of a broker that is gone are awaited as long as a fetch may take', async () => {
    const { clock, gate } = gateOf();
    gate.onFetchStart(1);
    gate.close();
    await clock.pass(16_999);
    expect(gate.isClosed()).toBe(true);
    await clock.pass(1);
    expect(gate.isClosed()).toBe(false);
  });

  it('do not exist when the group is joined for the first time', () => {
    const { gate } = gateOf();
    gate.close();
    expect(gate.isClosed()).toBe(false);
  });
});

describe('an offset that a mirror has copied from another Kafka cluster', () => {
  /** A worker on cluster B, whose store began with A, and has these positions by cluster and topic. */
  const onB = (decided: Record<string, number>) => {
    const begun: string[] = [];
    const decide: Decide = async (_, envelopes, expectedUpTo = 0) => {
      if ((decided['B t'] ?? 0) < expectedUpTo)
        return { answers: [], undecided: new StoreBehind(decided['B t'] ?? 0) };
      decided['B t'] = (envelopes.at(-1)?.offset ?? 0) + 1;
      return { answers: envelopes.map(answer), undecided: null };
    };
    const all = setUp({
      decide,
      cluster: { id: 'B', name: 'B' },
      readDecidedUpTo: async (list) =>
        list.map(({ topic, cluster = 'B' }) => decided[`${cluster || 'A'} ${topic}`] ?? 0),
      recordFirstOffset: async (of, offset) => {
        begun.push(`${nameOf(of)} ${offset}`);
      },
    });
    return { ...all, begun };
  };
  const gaps = async ({ gapRecords }: ReturnType<typeof makeMetrics>) =>
    (await gapRecords.get()).values.map(({ value }) => value);

  it.each([
    ['smaller', 90, 30],
    ['larger', 90, 3_000],
  ])('raises no alarm where it is %s than the old one [U9]', async (_, upTo, offset) => {
    const { clock, source, metrics, begun, decided, assign, begin, deliver } = onB({ 'A t': 90 });
    await assign(0);
    begin(0, upTo, offset);
    deliver(0, [offset + 2]);
    await clock.pass(2 * BETWEEN_COMMITS);
    expect([source.wentBack, await gaps(metrics)]).toEqual([[], [0]]);
    expect([decided, begun]).toEqual([[`t/0 ${offset + 2}`], [`t/0 ${offset + 2}`]]);
    expect([source.commits, source.notes, source.notedClusters]).toEqual([
      [`t/0 ${offset + 3}`],
      [offset + 3],
      ['B'],
    ]);
  });

  it('leads to a rewind to the beginning of the new cluster, if the store has lost events that its note counts [U9] [U1]', async () => {
    const { clock, source, begun, decided, assign, begin, deliver } = onB({ 'A t': 89 });
    await assign(0);
    begin(0, 90, 30);
    deliver(0, [30]);
    await clock.pass(BETWEEN_COMMITS);
    expect([source.wentBack, decided, begun]).toEqual([['t/0 0'], [], []]);
    deliver(0, [0, 1, 2]);
    await clock.pass(2 * BETWEEN_COMMITS);
    expect(decided).toEqual(['t/0 0', 't/0 1', 't/0 2']);
    expect([source.commits, source.notes]).toEqual([
      ['t/0 0', 't/0 3'],
      [0, 3],
    ]);
    expect(new Set(source.notedClusters)).toEqual(new Set(['B']));
  });

  it('leads to a rewind to the position on the new cluster, if that was read before [U9] [U1]', async () => {
    const { clock, source, assign, begin, deliver } = onB({ 'A t': 89, 'B t': 20 });
    await assign(0);
    begin(0, 90, 30);
    deliver(0, [30]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.wentBack).toEqual(['t/0 20']);
  });

  it('is checked also while no records come [U9] [U1]', async () => {
    const store: Record<string, number> = { 'A t': 90 };
    const { clock, source, assign, begin } = onB(store);
    await assign(0);
    begin(0, 90, 30);
    await clock.pass(STORE_CHECK_MS);
    expect(source.wentBack).toEqual([]);
    store['A t'] = 80;
    await clock.pass(STORE_CHECK_MS);
    expect(source.wentBack).toEqual(['t/0 0']);
  });

  it('keeps its note until a record comes behind it [U9]', async () => {
    const { clock, source, begun, assign, begin, deliver } = onB({ 'A t': 90 });
    await assign(0);
    begin(0, 90, 30);
    // Markers alone.
    deliver(0, [], 33);
    await clock.pass(BETWEEN_COMMITS);
    expect([source.commits, source.notes, source.notedClusters]).toEqual([['t/0 33'], [90], ['']]);
    expect(begun).toEqual([]);
  });

  it('is recognized by the name of the topic before a mirror renamed it [U9]', async () => {
    const { clock, source, assign } = onB({ 'A t': 0, 'A events.t': 90 });
    await assign(0);
    source.listener?.onAssigned([{ topic: 'A.events.t', partition: 0 }]);
    source.listener?.onPositioned({ topic: 'A.events.t', partition: 0 }, 30, 90);
    source.listener?.onChunk(chunkOf({ topic: 'A.events.t', partition: 0 }, [streamRecord(30)]));
    await clock.pass(BETWEEN_COMMITS);
    expect([source.wentBack, source.commits]).toEqual([[], ['A.events.t/0 31']]);
  });

  it('with a note of our own cluster rewinds, if the store knows only its first cluster [U9] [U1]', async () => {
    // A store from before the move, which counts B as its first cluster: its rows are those of A.
    const { clock, source, assign, begin, deliver } = setUp({
      cluster: { id: 'B', name: '' },
      readDecidedUpTo: async (list) => list.map(({ cluster }) => (cluster === undefined ? 90 : 0)),
    });
    await assign(0);
    begin(0, 30, 30, 'B');
    deliver(0, [30]);
    await clock.pass(BETWEEN_COMMITS);
    expect(source.wentBack).toEqual(['t/0 0']);
  });

  it('waits while the store does not answer, and raises no alarm [U9]', async () => {
    let asked = 0;
    const { clock, source, decided, assign, begin, deliver } = setUp({
      cluster: { id: 'B', name: 'B' },
      recordFirstOffset: async () => undefined,
      readDecidedUpTo: async (list) => {
        if (++asked === 1) throw new Error('the store is down');
        return list.map(() => 90);
      },
    });
    await assign(0);
    begin(0, 90, 30);
    deliver(0, [30]);
    await clock.pass(2 * SECOND);
    expect([source.wentBack, decided]).toEqual([[], ['t/0 30']]);
  });
});

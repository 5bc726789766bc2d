/**
 * The way of records through a worker, in five stages (docs/rules.md, U1-U3):
 *
 * - gather: take the records that wait in the lanes, up to the limits of a batch.
 * - judge: decode the records and judge the events.
 * - decide: one transaction for all partitions of the batch.
 * - publish: the verdicts, lane by lane.
 * - commit: the offsets, some time after.
 *
 * A batch may hold records of any lanes. One batch at a time is gathered and judged, until all its writes are
 * on their way to the store. Side by side, batches would only compete for one processor, and their objects
 * would live longer.
 *
 * `partitionsAtOnce` batches may be in flight. A lane has records in one of them. It has records in two where
 * the second is read ahead while the store writes the first.
 *
 * Where records of different partitions share rounds, a batch takes a share of each lane. It then holds whole
 * rounds, and no two batches wait for each other's rounds. Where they share none, a batch takes all records
 * of one lane before it goes on to the next. Batches of different lanes are then in flight side by side.
 *
 * A lane whose records cannot be decided together with others has a batch of its own until they are decided.
 */

import { observeAnswers, observeTransaction, observeWait } from '../intake/batch-metrics';
import type { Answer, BatchPart, Envelope } from '../intake/delivery';
import type { IntakeResult } from '../intake/intake';
import { at } from '../lib/at';
import { asError } from '../lib/errors';
import type { StreamDeps } from './deps';
import type { Lane } from './lane';
import { endOf, type LanePart } from './part';
import { timeOf } from './position';

/** A batch takes no further record once it holds this many bytes. The chunks of its lanes count as well. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/**
 * Beside batches in flight, another batch begins once this many bytes wait. A smaller batch waits for the
 * batch in flight, and grows meanwhile. A transaction costs nearly the same for one record as for a hundred.
 */
const LARGE_BATCH_BYTES = 64 * 1024;
/**
 * Records of lanes in flight are read ahead once this many unread bytes wait. With fewer, the batch would be
 * small. On a worker that can hardly keep up, waiting makes batches larger and events cheaper.
 */
const AHEAD_BYTES = 1024 * 1024;
/**
 * A batch that is not sent or not answered after this time may wait for the store, for a lock or over a long
 * line. Until then no other small batch begins beside it.
 */
const LONGEST_TURN_MS = 100;

/**
 * Where rounds are shared, a lane's share of a batch comes in this many runs. After each run, the next run is
 * of the lane that is furthest behind in time. A batch then holds whole rounds.
 */
const RUNS_OF_A_LANE = 4;

/**
 * The state of a batch in flight.
 *
 *     judging ──all its writes are sent──▶ sent ──┐
 *        └──────────LONGEST_TURN_MS───────────────┴──▶ late
 *
 * While a batch is judging, no other batch begins. While one is sent, only a large batch begins beside it.
 */
interface Batch {
  state: 'judging' | 'sent' | 'late';
}

/** A part with the records that are gathered so far. */
interface GatheredPart {
  readonly lane: Lane;
  readonly part: LanePart;
  readonly envelopes: Envelope[];
  failure: Error | null;
  /** Timestamp of its last record. */
  readUpTo: number;
  /** The batch takes no further record of the lane. */
  isDrained: boolean;
}

/** Free room in a batch. */
interface Room {
  events: number;
  bytes: number;
}

export class Pipeline {
  /** Lanes with records to gather, in the order of their turns. */
  private readonly ready = new Set<Lane>();
  private readonly inFlight = new Set<Batch>();
  private isStopped = false;
  private isPumpScheduled = false;

  constructor(
    private readonly deps: StreamDeps,
    /** All lanes of the worker, in any order. */
    private readonly lanes: () => Iterable<Lane>,
  ) {}

  /** A lane has records to gather, or to read ahead. */
  onReady(lane: Lane): void {
    if (lane.isReady) this.ready.add(lane);
    this.schedulePump();
  }

  /** Begins no further batch. */
  stop(): void {
    this.isStopped = true;
  }

  /** Lanes that get records by the same fetch then begin in the same batch. */
  private schedulePump(): void {
    if (this.isPumpScheduled) return;
    this.isPumpScheduled = true;
    queueMicrotask(() => this.pump());
  }

  private pump(): void {
    this.isPumpScheduled = false;
    while (!this.isStopped) {
      const lanes = this.candidates();
      if (lanes.length === 0) return;
      void this.run(lanes);
    }
  }

  /** The lanes of the next batch, in the order in which it takes their records; none where it has to wait. */
  private candidates(): Lane[] {
    const { partitionsAtOnce, largeBatchBytes } = this.deps;
    const batches = [...this.inFlight];
    if (batches.length >= partitionsAtOnce || batches.some(({ state }) => state === 'judging')) return [];
    for (const lane of this.ready) if (!lane.isReady) this.ready.delete(lane);
    const [first, ...others] = this.ready;
    if (first === undefined) {
      if (batches.length === 0) return [];
      const ahead = [...this.lanes()].filter(({ bytesAhead }) => bytesAhead > 0);
      const bytes = ahead.reduce((sum, { bytesAhead }) => sum + bytesAhead, 0);
      return bytes >= (largeBatchBytes ?? AHEAD_BYTES) ? ahead : [];
    }
    const lanes = first.isAlone ? [first] : [first, ...others.filter(({ isAlone }) => !isAlone)];
    const bytes = lanes.reduce((sum, { queue }) => sum + queue.bytes, 0);
    const mayBegin =
      bytes >= (largeBatchBytes ?? LARGE_BATCH_BYTES) || batches.every(({ state }) => state === 'late');
    return mayBegin ? lanes : [];
  }

  private async run(lanes: readonly Lane[]): Promise<void> {
    const batch: Batch = { state: 'judging' };
    const ended = new AbortController();
    this.inFlight.add(batch);
    void this.deps.clock.sleep(LONGEST_TURN_MS, ended.signal).then(() => {
      batch.state = 'late';
      this.schedulePump();
    });
    try {
      await this.decide(batch, await this.gather(lanes));
    } finally {
      this.inFlight.delete(batch);
      ended.abort();
      this.schedulePump();
    }
  }

  /**
   * Takes records of the lanes until the batch is full. Where rounds are shared, it takes runs of records,
   * each of the lane that is furthest behind in time. Otherwise it takes all of one lane after the other.
   */
  private async gather(lanes: readonly Lane[]): Promise<GatheredPart[]> {
    const room: Room = { events: this.deps.batchEvents, bytes: MAX_BATCH_BYTES };
    const runs = this.deps.areRoundsShared?.() ? lanes.length * RUNS_OF_A_LANE : 1;
    const most: Room = { events: Math.ceil(room.events / runs), bytes: Math.ceil(room.bytes / runs) };
    const gathered: GatheredPart[] = [];
    // Each record keeps its whole decompressed chunk in memory.
    let decompressed = 0;
    for (const lane of lanes) {
      if (room.events <= 0 || room.bytes <= 0 || decompressed >= MAX_BATCH_BYTES) break;
      // Another batch may have taken its records meanwhile.
      if (!lane.isReady && lane.bytesAhead === 0) continue;
      this.ready.delete(lane);
      const part = lane.begin();
      const each: GatheredPart = { lane, part, envelopes: [], failure: null, readUpTo: 0, isDrained: false };
      if (await this.takeRun(each, most, room)) gathered.push(each);
      decompressed += lane.queue.decompressedBytes;
    }
    while (room.events > 0 && room.bytes > 0) {
      const [next] = gathered.filter(({ isDrained }) => !isDrained).sort(furthestBehindFirst);
      if (next === undefined) break;
      await this.takeRun(next, most, room);
    }
    return gathered;
  }

  /** Takes one run of records. @returns whether the lane takes part in the batch */
  private async takeRun(gathered: GatheredPart, most: Room, room: Room): Promise<boolean> {
    const { lane, part, envelopes } = gathered;
    const events = Math.min(most.events, room.events);
    const bytes = Math.min(most.bytes, room.bytes);
    try {
      const read = await lane.read(part, events, bytes);
      if (read === null) return false;
      envelopes.push(...read.envelopes);
      room.events -= read.envelopes.length;
      room.bytes -= read.bytes;
      gathered.failure = read.failure;
      gathered.readUpTo = Number(envelopes.at(-1)?.timestamp ?? 0);
      gathered.isDrained = read.failure !== null || (read.envelopes.length < events && read.bytes < bytes);
    } catch (error) {
      // The records before these are decided; the next part of the lane meets the error again.
      gathered.isDrained = true;
      if (envelopes.length === 0) part.end({ answers: [], undecided: asError(error) });
      return envelopes.length > 0;
    }
    return true;
  }

  private async decide(batch: Batch, gathered: readonly GatheredPart[]): Promise<void> {
    const { clock, intake } = this.deps;
    const deciding = gathered.filter(({ lane, part, envelopes, failure }) => {
      if (part.isVoid || lane.isStopping) part.end(null);
      else if (envelopes.length > 0) return true;
      // No record ahead: once the part in front is answered, the queue shows whether the lane is drained.
      else part.end(part.isAhead ? null : { answers: [], undecided: failure });
      return false;
    });
    if (deciding.length === 0) return;
    const began = clock.now();
    const results = await intake
      .decide(
        deciding.map(
          ({ lane, part, envelopes }): BatchPart => ({
            source: lane.partition,
            envelopes,
            expectedUpTo: part.expectedUpTo,
          }),
        ),
        () => {
          for (const { part, envelopes } of deciding) part.sentUpTo = endOf(envelopes.at(-1));
          if (batch.state === 'judging') batch.state = 'sent';
          this.schedulePump();
        },
      )
      .catch((error: unknown) =>
        deciding.map((): IntakeResult => ({ answers: [], undecided: asError(error) })),
      );
    const ms = clock.now() - began;
    let decided = 0;
    for (const { answers } of results) decided += answers.length;
    if (decided > 0) observeTransaction(this.deps, decided, ms);
    for (const [index, each] of deciding.entries()) {
      const { answers, undecided } = at(results, index);
      this.observe(each, answers, ms);
      each.part.end({ answers, undecided: undecided ?? each.failure });
    }
  }

  private observe({ lane, part: { first } }: GatheredPart, answers: readonly Answer[], ms: number): void {
    const nextOffset = endOf(answers.at(-1)?.envelope);
    if (first === undefined || nextOffset === null) return;
    observeAnswers(this.deps, lane.partition, answers);
    const since = timeOf(first);
    if (since !== null) observeWait(this.deps, since);
    this.deps.logger.debug(
      { ...lane.partition, events: answers.length, nextOffset, ms: Math.round(ms) },
      'batch decided',
    );
  }
}

/** By time. Of lanes at the same time, the one with fewer records is first. */
function furthestBehindFirst(a: GatheredPart, b: GatheredPart): number {
  return a.readUpTo - b.readUpTo || a.envelopes.length - b.envelopes.length;
}

/**
 * The way of records through a worker, in five stages (docs/rules.md, U1-U3):
 *
 * - gather: take records that wait in the lanes, up to the limits of a batch, and decode them (parts.ts).
 * - judge: find their connections, and judge the events (intake/judge-and-decide.ts).
 * - decide: one transaction for all partitions of the batch (ledger/decide-batch.ts).
 * - publish: the verdicts, lane by lane (lane.ts).
 * - commit: the offsets, some time after (committer.ts).
 *
 * A batch may hold records of any lanes. One batch at a time is gathered and judged, until all its writes are
 * on their way to the store. Side by side, batches would only compete for one processor, and their objects
 * would live longer. Far from the store, the next batch begins where the one before waits for answers, unless
 * batches share rounds. `partitionsAtOnce` batches may be in flight.
 *
 * Where records of different partitions share rounds, each batch has records of all lanes that hold some. A
 * batch then holds whole rounds. Where they share none, a batch takes all records of one lane before it goes
 * on to the next. Batches of different lanes are then in flight side by side.
 *
 * A lane in trouble, or with large chunks, has batches of its own. One batch in flight is left to the other
 * lanes, and both kinds of batches take turns.
 */
import type { IntakeResult } from '../intake/intake';
import { at } from '../lib/at';
import { asError } from '../lib/errors';
import type { StreamDeps } from './deps';
import type { Lane } from './lane';
import { type BatchSize, endOf, type Part, type Room } from './parts';

/**
 * Beside batches in flight, another batch begins once this many bytes wait. A smaller batch waits for the
 * batch in flight, and grows meanwhile. A transaction costs nearly the same for one record as for a hundred.
 * So a worker that can hardly keep up makes its batches larger, and its events cheaper.
 */
const LARGE_BATCH_BYTES = 1024 * 1024;
/**
 * Where partitions share no rounds, a smaller batch may begin: it is judged while the store writes the batch
 * in flight. It has at least this many bytes, and at least this share of the bytes of the newest batch. A
 * worker that can hardly keep up would otherwise make its batches smaller, and its events dearer.
 */
const LEAST_BYTES_BESIDE = 64 * 1024;
const LEAST_SHARE_BESIDE = 1 / 2;
/**
 * A batch that is not sent or not answered after this time may wait for the store, for a lock or over a long
 * line. Until then no other small batch begins beside it.
 */
const LATE_AFTER_MS = 100;

/**
 * The state of a batch in flight. Its writes are sent, or, far from the store, its questions.
 *
 *     judging ──sent to the store──▶ sent ──┐
 *        └──────LATE_AFTER_MS───────────────┴──▶ late
 *
 * While a batch is judging, no other batch begins. While one is sent, only a large batch begins beside it.
 */
interface Batch {
  /** Its lane has batches of its own. */
  readonly isAlone: boolean;
  /** Of its records; 0 until it is gathered. */
  bytes: number;
  state: 'judging' | 'sent' | 'late';
}

export class Pipeline {
  private readonly inFlight = new Set<Batch>();
  private turns = 0;
  private isStopped = false;
  private isPumpScheduled = false;
  /** The latest batch was of a lane alone. The others are next, or many such lanes would delay them. */
  private wasAlone = false;

  constructor(
    private readonly deps: StreamDeps,
    /** All lanes of the worker, in any order. */
    private readonly lanes: () => Iterable<Lane>,
  ) {}

  /** See `LaneShared`. */
  onReady(): number {
    this.schedulePump();
    return ++this.turns;
  }

  /** Begins no further batch. The next pump ends the supply of verdicts. */
  stop(): void {
    this.isStopped = true;
    this.schedulePump();
  }

  /** Lanes that get records by the same fetch, or whose batch has ended, then begin in the same batch. */
  private schedulePump(): void {
    if (this.isPumpScheduled) return;
    this.isPumpScheduled = true;
    process.nextTick(() => this.pump());
  }

  private pump(): void {
    this.isPumpScheduled = false;
    for (let lanes = this.candidates(); lanes.length > 0; lanes = this.candidates()) void this.run(lanes);
    // Where few records wait, their verdicts must not wait for each other. Those of an undecided lane do not
    // come soon, however many they are.
    const lanes = [...this.lanes()].filter(({ undecided }) => undecided === null);
    const isBehind = this.inFlight.size > 0 && this.isLarge(bytesOf(lanes));
    this.deps.verdictSupply?.set(isBehind && !this.isStopped);
  }

  private isLarge(bytes: number): boolean {
    return bytes >= (this.deps.largeBatchBytes ?? LARGE_BATCH_BYTES);
  }

  /** The lanes of the next batch, in the order in which it takes their records; none where it has to wait. */
  private candidates(): Lane[] {
    const { partitionsAtOnce, areRoundsShared } = this.deps;
    const batches = [...this.inFlight];
    const isBusy = batches.length >= partitionsAtOnce || batches.some(({ state }) => state === 'judging');
    if (this.isStopped || isBusy) return [];
    const areLate = batches.every(({ state }) => state === 'late');
    const ready = inTurn(this.lanes());
    const together = ready.filter(({ isAlone }) => !isAlone);
    // Lanes in trouble leave a batch to the others, however long they take.
    const mayBeAlone = batches.filter(({ isAlone }) => isAlone).length < Math.max(1, partitionsAtOnce - 1);
    const isTurnOfOthers = !mayBeAlone || (this.wasAlone && together.length > 0);
    const [first] = isTurnOfOthers ? together : ready;
    if (first?.isAlone) return areLate || this.isLarge(first.queue.bytes) ? [first] : [];
    const mayReadAhead = areRoundsShared() || together.length === 0;
    const ahead = mayReadAhead ? [...this.lanes()].filter(({ parts }) => parts.bytesAhead > 0) : [];
    const bytes = ahead.reduce((sum, { parts }) => sum + parts.bytesAhead, bytesOf(together));
    const mayBegin = this.mayBeginBeside(batches.at(-1), bytes) || (areLate && together.length > 0);
    return mayBegin ? [...together, ...ahead] : [];
  }

  /** Whether a batch with this many bytes may begin. @param newest of the batches in flight */
  private mayBeginBeside(newest: Batch | undefined, bytes: number): boolean {
    if (this.isLarge(bytes)) return true;
    if (newest === undefined || this.deps.areRoundsShared()) return false;
    return bytes >= Math.max(LEAST_BYTES_BESIDE, newest.bytes * LEAST_SHARE_BESIDE);
  }

  private async run(lanes: readonly Lane[]): Promise<void> {
    const { clock, areRoundsShared, batchEvents } = this.deps;
    const batch: Batch = { isAlone: lanes.some(({ isAlone }) => isAlone), bytes: 0, state: 'judging' };
    this.inFlight.add(batch);
    this.wasAlone = batch.isAlone;
    const late = clock.after(LATE_AFTER_MS, () => {
      batch.state = 'late';
      this.schedulePump();
    });
    try {
      const parts = await gather(lanes, areRoundsShared(), batchEvents);
      for (const { bytes } of parts) batch.bytes += bytes;
      await this.decide(batch, parts);
    } finally {
      this.inFlight.delete(batch);
      clock.cancel(late);
      this.schedulePump();
    }
  }

  private async decide(batch: Batch, gathered: readonly Part[]): Promise<void> {
    const parts = gathered.filter((part) => !part.lane.isStopping || part.lane.end(part, null));
    if (parts.length === 0) return;
    const goOn = () => {
      if (batch.state === 'judging') batch.state = 'sent';
      this.schedulePump();
    };
    const results = await this.deps.intake
      .decide(parts, {
        questions: () => {
          // Beside a batch that has its rounds, another one would only split them.
          if (!this.deps.areRoundsShared()) goOn();
        },
        all: () => {
          for (const part of parts) part.sentUpTo = endOf(part.envelopes.at(-1));
          goOn();
        },
      })
      .catch((error: unknown) => parts.map((): IntakeResult => ({ answers: [], undecided: asError(error) })));
    for (const [index, part] of parts.entries()) part.lane.end(part, at(results, index));
  }
}

/**
 * The ready lanes, in the order of their turns. In front are victims, which must not wait for the retries of
 * lanes that have failed alone. Then come new lanes that are alone, the one with the fewest bytes first:
 * lanes with large chunks would delay it at the start. Nothing is a victim or new for longer than a batch, so
 * the others wait for each lane once.
 */
function inTurn(lanes: Iterable<Lane>): Lane[] {
  const key = (lane: Lane) =>
    lane.isVictim ? 0 : lane.isAlone && lane.isNew ? lane.queue.bytes : Number.MAX_SAFE_INTEGER;
  const ready = [...lanes].filter(({ turn }) => turn !== null);
  return ready.sort((a, b) => key(a) - key(b) || (a.turn ?? 0) - (b.turn ?? 0));
}

function bytesOf(lanes: readonly Lane[]): number {
  return lanes.reduce((sum, { queue }) => sum + queue.bytes, 0);
}

// --- gather

/**
 * A batch takes no further record once it holds this many bytes: some 4,500 usual events. In a larger batch,
 * more events are alive when young objects are collected, and each event costs the worker more.
 */
const MAX_BATCH_BYTES = 3 * 1024 * 1024;
/**
 * A batch opens no further chunk once its lanes have this many decompressed bytes: each record keeps its
 * whole chunk in memory. A lane may have the chunks of two batches.
 */
const MAX_DECOMPRESSED_BYTES = 8 * 1024 * 1024;

/**
 * Where rounds are shared, a batch is gathered in this many runs of records, or in LEAST_RUNS_OF_A_LANE for
 * each lane. After each run, the next run is of the lane that is furthest behind in time, so that a batch
 * holds whole rounds. Shorter runs split fewer rounds, and each run costs some microseconds.
 */
const RUNS_OF_A_BATCH = 128;
const LEAST_RUNS_OF_A_LANE = 4;
/**
 * Before these runs, each lane gets this part of an equal share. So a sender of old timestamps, as in a
 * backlog, delays the lanes of other senders at most by half.
 */
const GUARANTEED_SHARE = 1 / 2;

/**
 * Takes records of the lanes until the batch is full.
 *
 * @param lanes in the order of their turns
 * @param areRoundsShared takes a share of each lane, and then runs of the lane that is furthest behind in
 * time. Otherwise takes all records of one lane after the other
 * @returns the parts of the batch
 */
async function gather(
  lanes: readonly Lane[],
  areRoundsShared: boolean,
  batchEvents: number,
): Promise<Part[]> {
  const whole = { events: batchEvents, bytes: MAX_BATCH_BYTES };
  const room: Room = { ...whole, decompressedBytes: MAX_DECOMPRESSED_BYTES };
  const runs = Math.max(RUNS_OF_A_BATCH, lanes.length * LEAST_RUNS_OF_A_LANE);
  const run = areRoundsShared ? shareOf(whole, 1 / runs) : whole;
  const guaranteed = areRoundsShared ? shareOf(whole, GUARANTEED_SHARE / lanes.length) : whole;
  const parts: Part[] = [];
  for (const lane of lanes) {
    if (isFull(room) || room.decompressedBytes <= 0) break;
    // Another batch may have taken its records meanwhile.
    if (lane.turn === null && lane.parts.bytesAhead === 0) continue;
    const part = lane.begin();
    if (await part.lane.take(part, guaranteed, room)) parts.push(part);
  }
  while (!isFull(room)) {
    const next = furthestBehind(parts);
    // Further records of the others may belong to rounds that this lane continues in its next part.
    if (next === undefined || next.isFull) break;
    await next.lane.take(next, run, room);
  }
  return parts;
}

const isFull = ({ events, bytes }: BatchSize) => events <= 0 || bytes <= 0;

const shareOf = ({ events, bytes }: BatchSize, share: number): BatchSize => ({
  events: Math.ceil(events * share),
  bytes: Math.ceil(bytes * share),
});

/** By time. Of parts at the same time, the one with fewer records. */
function furthestBehind(parts: readonly Part[]): Part | undefined {
  let behind: Part | undefined;
  for (const part of parts)
    if (!part.isDrained && (behind === undefined || compareReadUpTo(part, behind) < 0)) behind = part;
  return behind;
}

function compareReadUpTo(a: Part, b: Part): number {
  return a.readUpTo - b.readUpTo || a.envelopes.length - b.envelopes.length;
}

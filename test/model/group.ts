/**
 * Workers of a group. Each decides records of several partitions in one batch. Partitions move between the
 * workers. The loser of a partition continues with it for a while, as a frozen worker does.
 */
import { makeRandom, type Random } from '../../dev/random';
import { StoreBehind } from '../../src/ledger/failures';
import { anEnvelope, brief, type Writer } from '../support/ledger';
import type { PlannedPartition } from './plan';
import { pause } from './reading';
import { placeOf } from './verify';

export interface GroupPlan {
  readonly seed: number;
  readonly partitions: readonly PlannedPartition[];
  /** Batches that a worker has in flight side by side. */
  readonly batchesAtOnce: number;
  /** Most partitions in a batch. */
  readonly mostParts: number;
  /** Most records of a partition in a batch. */
  readonly mostRecords: number;
}

/** Counts of the situations that a run met. */
export interface Met {
  /** Batches of at least two partitions that were decided as one. */
  together: number;
  /** Parts that a worker had decided after it had lost the partition. */
  late: number;
  moves: number;
  /** Results without all answers, by the name of the error. */
  readonly undecided: Map<string, number>;
}

/** A partition in the hands of one worker. */
interface Position {
  readonly place: number;
  readonly generation: number;
  next: number;
  expectedUpTo: number;
  isInFlight: boolean;
  /** Its last records were not decided: its next batch has no other partition. */
  isAlone: boolean;
}

const MOVE_EVERY_MS = 8;
const LATE_MS = 40;
const PAUSE_AFTER_FAILURE_MS = 5;
/** A hundred times the failures of a run: a partition beyond it would stay undecided without end. */
const MOST_UNDECIDED = 4_000;

export class Group {
  readonly met: Met = { together: 0, late: 0, moves: 0, undecided: new Map() };
  /** The answers to each record, by topic, partition and offset. */
  readonly answers = new Map<string, string[]>();
  private readonly random: Random;
  private readonly committed: number[];
  private readonly generations: number[];
  private readonly owners: number[];
  /** The positions of each worker. */
  private readonly positions: Set<Position>[];

  constructor(
    private readonly plan: GroupPlan,
    private readonly workers: readonly Writer[],
  ) {
    const { seed, partitions } = plan;
    this.random = makeRandom(seed + 7);
    this.committed = partitions.map(() => 0);
    this.generations = partitions.map(() => 0);
    this.owners = partitions.map((_, place) => place % workers.length);
    this.positions = workers.map(() => new Set());
    for (const [place, owner] of this.owners.entries()) this.assign(place, owner);
  }

  /** The committed offsets, in the order of the partitions. */
  get offsets(): readonly number[] {
    return this.committed;
  }

  /** Resolves once all records are decided and their offsets committed. */
  async run(): Promise<void> {
    const hands = this.workers.flatMap((_, worker) =>
      Array.from({ length: this.plan.batchesAtOnce }, () => this.work(worker)),
    );
    await Promise.all([...hands, this.move()]);
  }

  private get isOver(): boolean {
    return this.plan.partitions.every(({ records }, place) => this.committed[place] === records.length);
  }

  private assign(place: number, worker: number): void {
    const offset = this.committed[place] ?? 0;
    this.owners[place] = worker;
    this.positions[worker]?.add({
      place,
      generation: this.generations[place] ?? 0,
      next: offset,
      expectedUpTo: offset,
      isInFlight: false,
      isAlone: false,
    });
  }

  private async move(): Promise<void> {
    const { random, plan } = this;
    while (!this.isOver) {
      await pause(random.below(MOVE_EVERY_MS));
      const place = random.below(plan.partitions.length);
      const loser = this.owners[place] ?? 0;
      const lost = [...(this.positions[loser] ?? [])].filter((position) => position.place === place);
      this.generations[place] = (this.generations[place] ?? 0) + 1;
      this.assign(place, random.below(this.workers.length));
      this.met.moves++;
      void pause(random.below(LATE_MS)).then(() => {
        for (const position of lost) this.positions[loser]?.delete(position);
      });
    }
  }

  private async work(worker: number): Promise<void> {
    while (!this.isOver) {
      const parts = this.gather(worker);
      if (parts.length === 0) await pause(1);
      else await this.decide(this.workers[worker], parts);
    }
  }

  private gather(worker: number): Position[] {
    const { random, plan } = this;
    const waiting = random
      .shuffled([...(this.positions[worker] ?? [])])
      .filter(({ isInFlight, place, next }) => !isInFlight && next < this.recordsOf(place).length);
    const [first] = waiting;
    if (first === undefined || first.isAlone) return first === undefined ? [] : [first];
    // A partition that this worker lost and got again is there twice. A batch has each partition once.
    const places = new Map(waiting.filter(({ isAlone }) => !isAlone).map((each) => [each.place, each]));
    return [...places.values()].slice(0, random.between(1, plan.mostParts));
  }

  private async decide(worker: Writer | undefined, parts: readonly Position[]): Promise<void> {
    if (worker === undefined) return;
    const { random, plan } = this;
    for (const position of parts) position.isInFlight = true;
    const results = await worker.intake.decide(
      parts.map(({ place, next, expectedUpTo }) => ({
        origin: this.sourceOf(place),
        envelopes: this.recordsOf(place)
          .slice(next, next + random.between(1, plan.mostRecords))
          .map(({ content, claims }, index) => anEnvelope(content, next + index, claims)),
        expectedUpTo,
      })),
    );
    let isWhole = parts.length > 1;
    for (const [index, position] of parts.entries()) {
      const { answers = [], undecided = null } = results[index] ?? {};
      const { topic, partition } = this.sourceOf(position.place);
      for (const answer of answers) {
        const key = placeOf(topic, partition, answer.envelope.offset);
        this.answers.set(key, [...(this.answers.get(key) ?? []), brief(answer)]);
      }
      position.next += answers.length;
      position.expectedUpTo = position.next;
      position.isInFlight = false;
      position.isAlone = undecided !== null;
      if (undecided === null) this.commit(position);
      else {
        isWhole = false;
        this.onUndecided(undecided);
      }
    }
    if (isWhole) this.met.together++;
    else await pause(PAUSE_AFTER_FAILURE_MS);
  }

  /** The group refuses the offset of a worker that has lost the partition. Some other commits are lost. */
  private commit({ place, generation, next }: Position): void {
    if (generation !== this.generations[place]) this.met.late++;
    else if (next === this.recordsOf(place).length || this.random.chance(0.6)) this.committed[place] = next;
  }

  private onUndecided(error: Error): void {
    // No store was replaced, so none may look as if it had lost decisions.
    if (error instanceof StoreBehind) throw error;
    const { undecided } = this.met;
    const times = (undecided.get(error.name) ?? 0) + 1;
    undecided.set(error.name, times);
    if (times > MOST_UNDECIDED) throw error;
  }

  private recordsOf(place: number): PlannedPartition['records'] {
    return this.plan.partitions[place]?.records ?? [];
  }

  private sourceOf(place: number): { readonly topic: string; readonly partition: number } {
    const { topic = '', partition = 0 } = this.plan.partitions[place] ?? {};
    return { topic, partition };
  }
}

/**
 * Virtual time, and the choice of what happens next: whatever waits (an answer of the store, a lock, a timer) is a task here, and the seed
 * picks one of those that can happen. Between two picks the code under test runs until it waits again. The same seed, the same picks.
 */
import type { Random } from '../../dev/random';

/** Somebody to whom things happen: a worker, a server. */
export class Actor {
  /** What has died has nothing happen to it any more: its code never goes on. */
  alive = true;
  /** Until then nothing happens to it: a process that was stopped and goes on later. */
  frozenUntil = 0;
  /** How often it is picked, beside the others. */
  weight = 1;

  constructor(readonly name: string) {}
}

interface Task {
  readonly at: number;
  readonly actor: Actor;
  readonly label: string;
  readonly run: () => void;
  cancelled: boolean;
}

/** Every pick takes some time, so that what waits for long meets its deadline. */
const STEP_MS = 1;
/** Lines of a trace that are kept. */
const MAX_TRACE_LINES = 5_000;

export class Scheduler {
  private time = 0;
  private readonly ready: Task[] = [];
  /** Ascending by time; of one time in the order in which they came. */
  private readonly timers: Task[] = [];
  /** What happened, line by line; null where nobody asked for it. */
  readonly trace: string[] | null;
  steps = 0;

  constructor(
    private readonly random: Random,
    traced: boolean,
  ) {
    this.trace = traced ? [] : null;
  }

  now(): number {
    return this.time;
  }

  /** Whether something can happen without any wait. */
  get isBusy(): boolean {
    this.takeDue();
    return this.ready.some((task) => this.weightOf(task) > 0);
  }

  note(actor: string, what: string): void {
    if (this.trace === null || this.trace.length >= MAX_TRACE_LINES) return;
    this.trace.push(`${(this.time / 1000).toFixed(3).padStart(9)} s  ${actor.padEnd(9)} ${what}`);
  }

  /** Something that can happen from now on. @returns a function that takes it back */
  soon(actor: Actor, label: string, run: () => void): () => void {
    const task = this.task(this.time, actor, label, run);
    this.ready.push(task);
    return () => {
      task.cancelled = true;
    };
  }

  /** Something that can happen after `ms`. @returns a function that takes it back */
  after(ms: number, actor: Actor, label: string, run: () => void): () => void {
    const task = this.task(this.time + ms, actor, label, run);
    let place = this.timers.length;
    while (place > 0 && (this.timers[place - 1]?.at ?? 0) > task.at) place--;
    this.timers.splice(place, 0, task);
    return () => {
      task.cancelled = true;
    };
  }

  /** Resolves when it is picked. */
  turn(actor: Actor, label: string): Promise<void> {
    return new Promise((resolve) => this.soon(actor, label, resolve));
  }

  private task(at: number, actor: Actor, label: string, run: () => void): Task {
    return { at, actor, label, run, cancelled: false };
  }

  /** Lets one thing happen, and the code go on until it waits again. @returns false where nothing is left that could happen */
  async step(): Promise<boolean> {
    const task = this.pick();
    if (task === null) return false;
    this.steps++;
    this.time += STEP_MS;
    task.run();
    // Every microtask runs before the next turn of the event loop.
    await new Promise<void>((resolve) => setImmediate(resolve));
    return true;
  }

  private pick(): Task | null {
    for (;;) {
      this.takeDue();
      let total = 0;
      for (const task of this.ready) total += this.weightOf(task);
      if (total > 0) return this.pickFrom(total);
      const next = Math.min(
        this.timers[0]?.at ?? Number.POSITIVE_INFINITY,
        ...this.ready.map(({ actor }) => actor.frozenUntil),
      );
      if (next === Number.POSITIVE_INFINITY) return null;
      this.time = Math.max(this.time, next);
    }
  }

  private takeDue(): void {
    let due = 0;
    while (due < this.timers.length && (this.timers[due]?.at ?? 0) <= this.time) due++;
    if (due > 0) this.ready.push(...this.timers.splice(0, due));
    let kept = 0;
    for (const task of this.ready) {
      if (!task.cancelled && task.actor.alive) this.ready[kept++] = task;
    }
    this.ready.length = kept;
    while (this.timers[0]?.cancelled === true || this.timers[0]?.actor.alive === false) this.timers.shift();
  }

  private weightOf({ actor }: Task): number {
    return actor.frozenUntil > this.time ? 0 : actor.weight;
  }

  private pickFrom(total: number): Task | null {
    let left = (this.random.below(1_000_000) / 1_000_000) * total;
    let chosen = -1;
    for (let index = 0; index < this.ready.length; index++) {
      const task = this.ready[index];
      const weight = task === undefined ? 0 : this.weightOf(task);
      if (weight === 0) continue;
      chosen = index;
      left -= weight;
      if (left < 0) break;
    }
    return this.ready.splice(chosen, 1)[0] ?? null;
  }
}

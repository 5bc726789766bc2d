/**
 * Virtual time, and the choice of the next task. Every wait (for an answer of the store, a lock, a timer) is
 * a task here. The seed picks one of the tasks that can run. Between two picks the code under test runs until
 * it waits again. The same seed always makes the same picks.
 */
import type { Random } from '../../dev/random';

/** A party of the simulation that has tasks: a worker or a server. */
export class Actor {
  /** No task of a dead actor runs any more: its code never continues. */
  alive = true;
  /** No task of the actor runs before this time, like a process that is stopped and continued later. */
  frozenUntil = 0;
  /** How often the actor is picked, relative to the others. */
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

/** Every pick takes some time, so that a long wait meets its deadline. */
const STEP_MS = 1;
/** Number of trace lines that are kept. */
const MAX_TRACE_LINES = 5_000;

export class Scheduler {
  private time = 0;
  private readonly ready: Task[] = [];
  /** Ascending by time; timers of the same time in the order of their creation. */
  private readonly timers: Task[] = [];
  /** One line for each event; null where tracing is off. */
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

  /** Whether a task can run without any wait. */
  get isBusy(): boolean {
    this.takeDue();
    return this.ready.some((task) => this.weightOf(task) > 0);
  }

  note(actor: string, what: string): void {
    if (this.trace === null || this.trace.length >= MAX_TRACE_LINES) return;
    this.trace.push(`${(this.time / 1000).toFixed(3).padStart(9)} s  ${actor.padEnd(9)} ${what}`);
  }

  /**
   * Adds a task that can run from now on.
   * @returns a function that cancels it
   */
  soon(actor: Actor, label: string, run: () => void): () => void {
    const task = this.task(this.time, actor, label, run);
    this.ready.push(task);
    return () => {
      task.cancelled = true;
    };
  }

  /**
   * Adds a task that can run after `ms`.
   * @returns a function that cancels it
   */
  after(ms: number, actor: Actor, label: string, run: () => void): () => void {
    const task = this.task(this.time + ms, actor, label, run);
    let place = this.timers.length;
    while (place > 0 && (this.timers[place - 1]?.at ?? 0) > task.at) place--;
    this.timers.splice(place, 0, task);
    return () => {
      task.cancelled = true;
    };
  }

  /** Resolves when the task is picked. */
  turn(actor: Actor, label: string): Promise<void> {
    return new Promise((resolve) => this.soon(actor, label, resolve));
  }

  private task(at: number, actor: Actor, label: string, run: () => void): Task {
    return { at, actor, label, run, cancelled: false };
  }

  /**
   * Runs one task, and the code under test until it waits again.
   * @returns false where no task is left that could run
   */
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

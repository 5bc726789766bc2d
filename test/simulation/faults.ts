/**
 * The points where faults strike, the faults possible at each, and the random choice of the faults of a run.
 */
import type { Random } from '../../dev/random';
import type { Scheduler } from './scheduler';

/** Faults of any request to the store. */
const REQUESTS = [
  ...(['cut before', 'answer lost', 'silence before', 'silence after'] as const),
  ...(['admin shutdown', 'statement timeout', 'disk full'] as const),
] as const;
/**
 * Also faults of a request that reads or writes tables. From then on the same statement fails for a while for
 * every client.
 */
const STORE = [...REQUESTS, 'permission denied', 'missing column'] as const;
const CONFLICTS = ['lock timeout', 'deadlock', 'serialization failure'] as const;
/** Also faults of a statement that writes or locks rows. */
const LOCKS = [...CONFLICTS, 'read-only'] as const;
/** Faults of a request to Kafka. */
const KAFKA = ['refused', 'answer lost', 'silence before', 'silence after'] as const;
/** Faults of messages, which go to several partitions. */
const MESSAGES = [...KAFKA, 'partly accepted'] as const;
/** Faults of the senders of requests. */
const SENDERS = ['client goes away'] as const;
/** Faults of the whole world, which strike while a worker or a pod waits. */
const WORLD = [
  ...([
    'store away',
    'stale failover',
    'rebalance',
    'worker killed',
    'worker vanishes',
    'worker frozen',
  ] as const),
  ...(['worker stopped', 'new reference', 'offsets set back', 'offsets set forward'] as const),
  'topic recreated',
] as const;
export type WorldFault = (typeof WORLD)[number];

/** The awaits that reach out of the code under test, and the faults that can strike at each. */
const POINTS = {
  connect: ['silence before', 'cut before', 'too many connections', ...WORLD],
  begin: [...REQUESTS, ...WORLD],
  partition_no: [...STORE, ...LOCKS, ...WORLD],
  decided_up_to: [...STORE, ...WORLD],
  reference_in_force: [...STORE, ...WORLD],
  reference_current: [...STORE, ...WORLD],
  reference_numbers: [...STORE, ...WORLD],
  lock_partitions: [...STORE, ...LOCKS, ...WORLD],
  lock_feeds: [...STORE, ...CONFLICTS, ...WORLD],
  find_events: [...STORE, ...WORLD],
  find_resends: [...STORE, ...WORLD],
  find_unstored: [...STORE, ...WORLD],
  find_times: [...STORE, ...WORLD],
  find_refunds: [...STORE, ...WORLD],
  lock_rounds: [...STORE, ...LOCKS, ...WORLD],
  read_rounds: [...STORE, ...WORLD],
  next_batch: [...STORE, 'read-only', ...WORLD],
  player_keys: [...STORE, ...WORLD],
  update_rounds: [...STORE, ...LOCKS, ...WORLD],
  count_partitions: [...STORE, ...LOCKS, ...WORLD],
  record_panic: [...STORE, 'read-only', ...WORLD],
  write: [...STORE, ...LOCKS, ...WORLD],
  'write and commit': [...STORE, ...LOCKS, ...WORLD],
  commit: [...REQUESTS, 'serialization failure', ...WORLD],
  rollback: ['cut before', 'answer lost', 'silence before', 'silence after', 'admin shutdown', ...WORLD],
  'send dead letters': [...MESSAGES, ...WORLD],
  'send verdicts': [...MESSAGES, ...WORLD],
  'commit offsets': [...KAFKA, ...WORLD],
  'open chunk': WORLD,
  decode: ['registry away', ...WORLD],
  'wait of an undecided partition': WORLD,
  'wait of an offset commit': WORLD,
  'request body': [...SENDERS, ...WORLD],
  'wait for a slot': [...SENDERS, ...WORLD],
  'decide requests': [...SENDERS, ...WORLD],
  'wait of a publisher': WORLD,
  'answer a request': [...SENDERS, 'answer lost', ...WORLD],
} as const satisfies Record<string, readonly string[]>;
export type Point = keyof typeof POINTS;
export type Fault = (typeof POINTS)[Point][number];

const isPoint = (name: string): name is Point => name in POINTS;

/**
 * The point of a statement or message of the ledger.
 * @throws Error for a statement missing from the table: its faults were never considered
 */
export function pointOf(name: string): Point {
  if (!isPoint(name)) throw new Error(`no faults are listed for ${name}`);
  return name;
}

/** Every await with each fault that can strike there. */
export const PAIRS: readonly (readonly [Point, Fault])[] = Object.entries(POINTS).flatMap(
  ([point, faults]: [string, readonly Fault[]]) =>
    faults.map((fault): readonly [Point, Fault] => [pointOf(point), fault]),
);

/** The first seeds. With a name: the first seeds whose focus is that await or that fault. */
export function firstSeeds(count: number, about: string | null): number[] {
  const places = PAIRS.flatMap(([point, fault], place) =>
    point === about || fault === about ? [place] : [],
  );
  if (about !== null && places.length === 0)
    throw new Error(`the simulator has no await or fault "${about}"`);
  return Array.from({ length: count }, (_, index) => {
    if (about === null) return index + 1;
    const round = Math.floor(index / places.length);
    return round * PAIRS.length + (places[index % places.length] ?? 0);
  });
}

const isWorldFault = (fault: Fault): fault is WorldFault => WORLD.some((name) => name === fault);

/** Names of the table's columns. */
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** How often each point was reached, and how often a fault struck there and changed anything. */
export class Coverage {
  readonly reached = new Map<Point, number>();
  private readonly hits = new Map<string, number>();
  /** How often the store had lost decisions of several partitions of a batch. */
  behindInSeveral = 0;

  count(point: Point): void {
    this.reached.set(point, (this.reached.get(point) ?? 0) + 1);
  }
  hit(point: Point, fault: Fault): void {
    const key = `${point} / ${fault}`;
    this.hits.set(key, (this.hits.get(key) ?? 0) + 1);
  }
  hitsOf(point: Point, fault: Fault): number {
    return this.hits.get(`${point} / ${fault}`) ?? 0;
  }
  /** The pairs that never occurred, by their places in PAIRS. */
  missing(): number[] {
    return PAIRS.flatMap(([point, fault], place) => (this.hitsOf(point, fault) === 0 ? [place] : []));
  }

  /**
   * A line for each await, a column for each fault. A cell counts how often the fault struck, "-" where it
   * cannot.
   */
  table(): string {
    const faults = [...new Set(PAIRS.map(([, fault]) => fault))];
    const points = [...new Set(PAIRS.map(([point]) => point))];
    const letters = faults.map((_, column) => LETTERS[column] ?? '?');
    const rows = points.map((point) => [
      point,
      String(this.reached.get(point) ?? 0),
      ...faults.map((fault) => {
        const canStrike = PAIRS.some((pair) => pair[0] === point && pair[1] === fault);
        return canStrike ? String(this.hitsOf(point, fault)) : '-';
      }),
    ]);
    const legend = faults.map((fault, column) => `${letters[column]} ${fault}`).join(', ');
    const lines = [['await', 'reached', ...letters], ...rows].map(([point = '', ...cells]) =>
      [point.padEnd(32), ...cells.map((cell, column) => cell.padStart(column === 0 ? 9 : 5))].join(''),
    );
    return [...lines, legend].join('\n');
  }
}

export interface FaultPlan {
  /** The pair of await and fault that the run concentrates on. */
  readonly focus: readonly [Point, Fault];
  /** Chance of a fault at any await. */
  readonly rate: number;
  readonly most: number;
  /** No fault begins before this time. */
  readonly fromMs: number;
  /** No fault begins after this time, except the focus, which may come later. */
  readonly untilMs: number;
  /** Faults that are left out, by their number in the run, to find out which of them matter. */
  readonly without: ReadonlySet<number>;
}

/** Chance that the fault of the focus strikes when the run passes its point. */
const FOCUS_CHANCE = 0.5;
const FOCUS_UNTIL_MS = 60_000;

export class Faults {
  private drawn = 0;
  private hasFocused = false;
  private areEnded = false;
  /** The time when the last effect of any fault ends. */
  lastEffect = 0;
  /** Descriptions of the faults that struck, by the number that leaves each one out. */
  readonly struck: { readonly number: number; readonly what: string }[] = [];

  constructor(
    private readonly plan: FaultPlan,
    private readonly random: Random,
    private readonly scheduler: Scheduler,
    private readonly coverage: Coverage,
    /**
     * Causes a fault of the world, and calls `took` if it changed anything. The caller of a request causes
     * the faults of the request.
     */
    private readonly strike: (fault: WorldFault, worker: string, took: () => void) => void,
  ) {}

  /** From now on no fault strikes. */
  end(): void {
    this.areEnded = true;
  }

  /**
   * Draws the fault of a request. It returns null for no fault, and for a fault of the world, which `strike`
   * causes. A fault counts only once it has taken effect (`took`): a connection may already be silent, a
   * worker dead.
   */
  at(point: Point, worker: string): Exclude<Fault, WorldFault> | null {
    this.coverage.count(point);
    const fault = this.areEnded ? null : this.draw(point);
    if (fault === null) return null;
    const number = ++this.drawn;
    if (this.plan.without.has(number)) return null;
    this.struck.push({ number, what: `${fault} at ${point} of ${worker}` });
    this.scheduler.note(worker, `FAULT ${number}: ${fault} at ${point}`);
    this.lasts(0);
    if (!isWorldFault(fault)) return fault;
    this.strike(fault, worker, () => this.took(point, fault));
    return null;
  }

  /** The fault at this point has changed the course of the run. */
  took(point: Point, fault: Fault): void {
    this.coverage.hit(point, fault);
  }

  private draw(point: Point): Fault | null {
    const [focusPoint, focusFault] = this.plan.focus;
    const now = this.scheduler.now();
    if (now < this.plan.fromMs) return null;
    if (
      point === focusPoint &&
      !this.hasFocused &&
      now < FOCUS_UNTIL_MS &&
      this.random.chance(FOCUS_CHANCE)
    ) {
      this.hasFocused = true;
      return focusFault;
    }
    if (now > this.plan.untilMs || this.drawn >= this.plan.most) return null;
    return this.random.chance(this.plan.rate) ? this.random.pick<Fault>(POINTS[point]) : null;
  }

  /** Extends the time of the last effect to `ms` from now. */
  lasts(ms: number): void {
    this.lastEffect = Math.max(this.lastEffect, this.scheduler.now() + ms);
  }
}

/** The awaits of a process that folds, the faults that can strike at each, and those of one run. */
import type { Random } from '../../dev/random';

/** Faults of one request to the store. */
const REQUEST = ['cut before', 'answer lost', 'silence', 'refused'] as const;
/** Faults of the process that waits, and of the whole store. */
const WORLD = ['killed before', 'killed after', 'frozen', 'stopped', 'failover', 'store away'] as const;
const ALL = [...REQUEST, ...WORLD] as const;
export type FoldFault = (typeof ALL)[number];

const STATEMENTS = [
  ...['fold_settings', 'fold_lock', 'fold_create', 'fold_peek', 'fold_still_idle', 'fold_lag'],
  ...['fold_generations', 'fold_lineage', 'fold_horizon', 'fold_begin', 'fold_show', 'fold_state'],
  ...['fold_inherit', 'fold_cursor', 'fold_caught_up', 'fold_forget', 'fold_hold', 'fold_release'],
  ...['fold_lock_for_rebuild', 'promotions_steps', 'promotions_times', 'promotion_versions'],
  ...['promotions_counted', 'promotions_count', 'promotions_has_attributions', 'promotions_begin_records'],
  ...['promotions_loops', 'promotions_record', 'promotions_read_refunds', 'promotions_read_near'],
  ...[
    'promotions_read',
    'promotions_read_recorded',
    'promotions_read_sums',
    'promotions_add_sums',
    'promotions_read_far',
    'promotions_dropped_to',
    'promotions_drop_records',
    'promotions_drop_sums',
    'promotions_forget_credits',
  ],
  ...['promotions_credits', 'promotions_moved_rounds', 'promotions_refunds_of_rounds'],
  ...['promotions_read_rounds', 'promotions_read_credited', 'promotions_read_recorded_credited'],
  ...['promotions_read_sums_credited', 'promotions_read_near_credited', 'promotions_read_far_credited'],
  ...['next_page_of_3', 'next_page_of_10000', 'end_pages', 'promotions_set_plans'],
  ...['promotions_number_windows', 'promotions_load', 'promotions_load_attempts'],
  ...['promotions_add', 'promotions_change', 'promotions_save_attempts'],
  ...[
    'promotions_take_joined',
    'promotions_pool',
    'promotions_ranked',
    'promotions_due_boards',
    'promotions_due_confirmations',
  ],
  ...[
    'promotions_closed_by_time',
    'promotions_closed',
    'promotions_close',
    'promotions_enter',
    'promotions_keep_numbers',
    'promotions_go_on_numbering',
  ],
  ...['promotions_keep_confirmed', 'promotions_enter_difference'],
  ...['progress', 'attempts', 'boards', 'joins'].flatMap((table) => [
    `promotions_clear_promotion_${table}`,
    `promotions_keep_promotion_${table}`,
    `promotions_sweep_promotion_${table}`,
  ]),
  'promotions_sweep_promotion_rounds',
  'promotions_sweep_promotion_round_sums',
  'promotions_sweep_promotion_recordings',
  'promotions_sweep_promotion_generations',
  'fold_store_of_connection',
];
const POINTS: ReadonlyMap<string, readonly FoldFault[]> = new Map<string, readonly FoldFault[]>([
  ['connect', ['cut before', ...WORLD]],
  ['begin', ALL],
  ['commit', ALL],
  ['rollback', ['cut before', 'answer lost', 'silence', ...WORLD]],
  ['wait', ['killed before', 'frozen', 'stopped', 'failover', 'store away']],
  ...STATEMENTS.map((name) => [name, ALL] as const),
  // A process that ends, or that only asks for a rebuild, is not stopped again.
  ...['fold_release', 'fold_lock_for_rebuild'].map(
    (name) => [name, ALL.filter((fault) => fault !== 'stopped')] as const,
  ),
]);
/** Awaits that a run reaches only where a further generation is counted, or rows of another store came. */
const OF_REBUILDS =
  /^(fold_(state|inherit|forget|lock_for_rebuild)|promotions_(closed_by_time|go_on|keep|clear|sweep|enter_difference))/;
const OF_ARRIVALS = /^promotions_read_far(_credited)?$/;
/** Awaits for rounds that an older version of the process counted without a record. */
const OF_OLDER = /^promotions_read_(near|far)(_credited)?$/;
/** Awaits of runs with attributions, and those of runs without. */
const OF_CREDITS = /_credited$|^promotions_(credits|moved_rounds|refunds_of_rounds|read_rounds)$/;
const OF_NO_CREDITS = /^promotions_read(_recorded|_near|_far|_sums)?$/;
const OF_TWO_CONNECTIONS = 'fold_store_of_connection';
const OF_STOPS = /^fold_release$/;
const OF_DROPS = /^promotions_drop_/;

/** Every await with each fault that can strike there. */
export const FOLD_PAIRS: readonly (readonly [point: string, fault: FoldFault])[] = [...POINTS].flatMap(
  ([point, faults]) => faults.map((fault) => [point, fault] as const),
);

/** How often each fault struck at each await. */
export class FoldCoverage {
  private readonly hits = new Map<string, number>();

  hit(point: string, fault: FoldFault): void {
    const key = `${point} / ${fault}`;
    this.hits.set(key, (this.hits.get(key) ?? 0) + 1);
  }

  /** The places in FOLD_PAIRS of those that never struck. */
  missing(): number[] {
    return FOLD_PAIRS.flatMap(([point, fault], place) =>
      this.hits.has(`${point} / ${fault}`) ? [] : [place],
    );
  }
}

const MOST_FAULTS = 7;
const RATE = 0.012;
/** The fault of the focus strikes at one of the first times that the run passes its await. */
const FOCUS_CHANCE = 0.3;
const RARE_FOCUS_CHANCE = 0.8;

export class FoldFaults {
  /** No fault strikes from now on. */
  areOver = false;
  readonly struck: string[] = [];
  private hasFocused = false;
  private readonly isCredited: boolean;
  private readonly areTwoDrawn: boolean;
  private readonly focus: readonly [string, FoldFault];
  /** The event without which the run never reaches its focus; null: it needs none. */
  readonly needs: 'rebuild' | 'arrival' | 'stop' | 'drop' | null = null;

  constructor(
    seed: number,
    private readonly random: Random,
    private readonly coverage: FoldCoverage,
  ) {
    this.focus = FOLD_PAIRS[seed % FOLD_PAIRS.length] ?? ['commit', 'killed after'];
    this.isCredited = random.chance(0.5);
    this.areTwoDrawn = random.chance(0.5);
    const [point] = this.focus;
    if (OF_ARRIVALS.test(point)) this.needs = 'arrival';
    if (OF_REBUILDS.test(point)) this.needs = 'rebuild';
    if (OF_STOPS.test(point)) this.needs = 'stop';
    if (OF_DROPS.test(point)) this.needs = 'drop';
  }

  /** Whether rounds are attributed in the run. */
  get hasCredits(): boolean {
    const [point] = this.focus;
    return OF_CREDITS.test(point) || (!OF_NO_CREDITS.test(point) && this.isCredited);
  }

  /** Whether the run needs rounds without a record to reach its focus. */
  get needsOlder(): boolean {
    return OF_OLDER.test(this.focus[0]);
  }

  /** Whether a process has a second connection, which reads the entries of its slices. */
  get hasTwoConnections(): boolean {
    const [point] = this.focus;
    return point === OF_TWO_CONNECTIONS || this.areTwoDrawn;
  }

  /** Draws the fault of an await. @throws Error for an await that has no faults yet */
  at(point: string): FoldFault | null {
    const faults = POINTS.get(point);
    if (faults === undefined) throw new Error(`no faults are listed for ${point}`);
    if (this.areOver) return null;
    const chance = this.needs === null ? FOCUS_CHANCE : RARE_FOCUS_CHANCE;
    if (!this.hasFocused && point === this.focus[0] && this.random.chance(chance)) {
      this.hasFocused = true;
      return this.focus[1];
    }
    if (this.struck.length >= MOST_FAULTS || !this.random.chance(RATE)) return null;
    return this.random.pick(faults);
  }

  /** The fault has changed the course of the run. */
  took(point: string, fault: FoldFault): void {
    this.struck.push(`${fault} at ${point}`);
    this.coverage.hit(point, fault);
  }
}

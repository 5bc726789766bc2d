/** Counts standings: by state, by reason, by kind, and by hour of the events. Pure. */
import { toMajor } from '../domain/event/money';
import { grouped } from '../lib/printable';
import type { ReconcileEntry } from './entry';
import { type Action, STATES, type Standing, type State } from './standing';

/** The counts of one group. `sent` counts each id once. */
export interface StateCounts extends Readonly<Record<State, number>> {
  readonly sent: number;
  readonly content_differs: number;
}

/** The sums of one kind and currency, exact, in major units. */
export interface Money {
  readonly kind: string;
  readonly currency: string;
  readonly sent: string;
  readonly accepted: string;
}

export interface TotalsReport {
  readonly entries: number;
  /** Entries whose id an earlier entry has. All other counts leave them out. */
  readonly repeated: number;
  readonly states: StateCounts;
  readonly reasons: Readonly<Record<string, number>>;
  readonly actions: Readonly<Record<Action, number>>;
  readonly kinds: Readonly<Record<string, StateCounts>>;
  /** By hour of occurred_at (UTC). */
  readonly hours: Readonly<Record<string, StateCounts>>;
  readonly money: readonly Money[];
}

type MutableCounts = Record<keyof StateCounts, number>;
/** A file may name any time, and each hour costs memory. */
const MAX_HOURS = 10_000;
const OTHER_HOURS = 'other hours';
const NONE = 'none';
/** The states that a summary names even where their count is 0. */
const FIRST_STATES = 4;
const MICROS_AN_HOUR = 3_600_000_000n;

const noCounts = (): MutableCounts => ({
  sent: 0,
  accepted: 0,
  rejected: 0,
  skipped: 0,
  never_received: 0,
  undecided: 0,
  unidentified: 0,
  content_differs: 0,
});

export class Totals {
  private entries = 0;
  private repeated = 0;
  private readonly states = noCounts();
  private readonly reasons = new Map<string, number>();
  private readonly actions: Record<Action, number> = { none: 0, resend: 0, correct: 0, wait: 0 };
  private readonly kinds = new Map<string, MutableCounts>();
  private readonly hours = new Map<string, MutableCounts>();
  private readonly money = new Map<
    string,
    { kind: string; currency: string; scale: number; sent: bigint; accepted: bigint }
  >();
  /** The counts of `hours` by the number of the hour: a name takes longer than all other counting. */
  private readonly byHour = new Map<bigint, MutableCounts>();

  add({ event, kind, occurredAtMicros }: ReconcileEntry, standing: Standing): void {
    this.entries++;
    this.actions[standing.action]++;
    if (standing.repeatOf !== undefined) {
      this.repeated++;
      return;
    }
    count(this.states, standing);
    if (standing.reason !== null)
      this.reasons.set(standing.reason, (this.reasons.get(standing.reason) ?? 0) + 1);
    count(countsOf(this.kinds, kind ?? NONE), standing);
    count(this.hourOf(occurredAtMicros), standing);
    if (event !== null && kind !== null) this.addMoney(kind, event.fields, standing);
  }

  private hourOf(micros: bigint | null): MutableCounts {
    const hour = micros === null ? null : micros / MICROS_AN_HOUR;
    const known = hour === null ? undefined : this.byHour.get(hour);
    if (known !== undefined) return known;
    const name = hour === null ? NONE : nameOfHour(hour);
    const isKnown = this.hours.has(name) || this.hours.size < MAX_HOURS;
    const counts = countsOf(this.hours, isKnown ? name : OTHER_HOURS);
    if (hour !== null && isKnown) this.byHour.set(hour, counts);
    return counts;
  }

  private addMoney(
    kind: string,
    { amountMinor, currency }: NonNullable<ReconcileEntry['event']>['fields'],
    { state, contentDiffers }: Standing,
  ): void {
    if (amountMinor === null || currency === null) return;
    const key = `${kind} ${currency.code}`;
    let sums = this.money.get(key);
    if (sums === undefined) {
      sums = { kind, currency: currency.code, scale: currency.scale, sent: 0n, accepted: 0n };
      this.money.set(key, sums);
    }
    sums.sent += amountMinor;
    if (state === 'accepted' && !contentDiffers) sums.accepted += amountMinor;
  }

  /** "9 events: 6 accepted, 1 rejected, 1 skipped, 1 never received" */
  summary(): string {
    const { sent, content_differs, ...states } = this.states;
    const parts = STATES.filter((state, index) => index < FIRST_STATES || states[state] > 0).map(
      (state) => `${grouped(states[state])} ${state.replaceAll('_', ' ')}`,
    );
    if (content_differs > 0) parts.push(`${grouped(content_differs)} with other content`);
    if (this.repeated > 0) parts.push(`${grouped(this.repeated)} repeated in the file`);
    return `${grouped(sent)} ${sent === 1 ? 'event' : 'events'}: ${parts.join(', ')}`;
  }

  /** Whether nothing has to be sent, corrected or asked again. */
  isClean(): boolean {
    return this.actions.none === this.entries;
  }

  report(): TotalsReport {
    return {
      entries: this.entries,
      repeated: this.repeated,
      states: this.states,
      reasons: Object.fromEntries([...this.reasons].sort(([a], [b]) => (a < b ? -1 : 1))),
      actions: this.actions,
      kinds: Object.fromEntries(this.kinds),
      hours: Object.fromEntries([...this.hours].sort(([a], [b]) => (a < b ? -1 : 1))),
      money: [...this.money.values()].map(({ kind, currency, scale, sent, accepted }) => ({
        kind,
        currency,
        sent: toMajor(sent, scale),
        accepted: toMajor(accepted, scale),
      })),
    };
  }
}

function countsOf(groups: Map<string, MutableCounts>, name: string): MutableCounts {
  let counts = groups.get(name);
  if (counts === undefined) {
    counts = noCounts();
    groups.set(name, counts);
  }
  return counts;
}

function count(counts: MutableCounts, { state, contentDiffers }: Standing): void {
  counts.sent++;
  counts[state]++;
  if (contentDiffers) counts.content_differs++;
}

/** "2026-11-21T12Z" */
function nameOfHour(hour: bigint): string {
  return `${new Date(Number(hour) * 3_600_000).toISOString().slice(0, 13)}Z`;
}

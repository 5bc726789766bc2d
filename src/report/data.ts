/** The figures of a report, made of the rows of its queries. Pure. The same structure is its JSON. */
import { REASONS } from '../domain/verdict/reasons';
import { millisecondsOf, type TextRow } from '../postgres/texts';
import type { Plan, Source } from './plan';
import { type PromotionRows, type PromotionsReport, promotionsOf } from './promotions';
import { DELAY_COUNTS } from './queries';
import {
  type AmountSet,
  amountsOfRow,
  type OutcomeRow,
  outcomeOfRow,
  publicAmounts,
  type ReportAmounts,
  type ResendRow,
  resendOfRow,
} from './rows';
import { sum } from './sum';
import { type ReportSpan, stepText } from './window';

export interface Timing {
  /** Verdicts on events that name their time. */
  readonly timed: number;
  /** Of these, events whose time is later than the decision. */
  readonly early: number;
  /** Of the timed ones, those that were decided within each delay after their time. */
  readonly within: readonly { readonly name: (typeof DELAY_COUNTS)[number]; readonly events: number }[];
}

export interface ReportCounts {
  readonly accepted: number;
  readonly rejected: number;
  readonly skipped: number;
  /** Further deliveries of decided events, with equal content. */
  readonly resent: number;
  /** Further deliveries of decided events, with other content: one id for two events. */
  readonly differing: number;
  readonly timing: Timing;
}

export interface BucketCounts extends ReportCounts {
  readonly from: string;
  readonly to: string;
}

export interface ConnectionReport extends ReportCounts {
  readonly operator: string;
  readonly connection: string;
  /** Null where the reference data in force no longer has it. */
  readonly source: string | null;
  /** The time of its newest verdict. From the rollups: the begin of its hour. */
  readonly newest: string | null;
  readonly reasons: readonly ReasonCount[];
}

export interface ReasonCount {
  readonly reason: string;
  readonly verdict: string;
  readonly events: number;
}

export interface ReasonReport extends ReasonCount {
  readonly meaning: string;
  readonly remedy: string;
  readonly charge: string;
}

export interface BrandAmounts extends ReportAmounts {
  readonly operator: string;
  readonly brand: string;
}

export interface DayAmounts extends BrandAmounts {
  readonly from: string;
}

export interface GameAmounts extends ReportAmounts {
  readonly operator: string;
  readonly game: string | null;
}

export interface OpenPoint {
  readonly level: 'act' | 'look';
  readonly text: string;
  readonly remedy: string;
}

export interface VerdictReport {
  /** Null for all operators. */
  readonly operator: string | null;
  readonly from: string;
  readonly to: string;
  readonly time_zone: string;
  readonly step: string;
  readonly made_at: string;
  readonly made_by: string;
  readonly coverage: {
    readonly verdicts_from: Source;
    readonly amounts_from: Source;
    readonly amounts_time_zone: string;
    readonly amounts_step: string;
    /** From this time on the rollups have all verdicts; null: all that were ever decided, or no rollups. */
    readonly complete_since: string | null;
    readonly rollups_up_to: string | null;
    readonly notes: readonly string[];
    /** Parts whose query was ended at its deadline. They are empty. */
    readonly too_slow: readonly string[];
    readonly query_seconds: number;
  };
  readonly totals: ReportCounts;
  readonly buckets: readonly BucketCounts[];
  readonly reasons: readonly ReasonReport[];
  readonly connections: readonly ConnectionReport[];
  readonly amounts: {
    readonly currencies: readonly ReportAmounts[];
    readonly brands: readonly BrandAmounts[];
    readonly days: readonly DayAmounts[];
    readonly periods: readonly string[];
  };
  /** The most refunded first. */
  readonly games: readonly GameAmounts[];
  readonly contradictions: readonly {
    readonly operator: string;
    readonly kind: string;
    readonly rounds: number;
  }[];
  /** Of all promotions that were ever defined; none where there are none. */
  readonly promotions: PromotionsReport;
  readonly findings: readonly OpenPoint[];
}

/** Rows of the queries; null where a query was too slow. */
export interface ReportRows extends PromotionRows {
  readonly verdicts: readonly TextRow[] | null;
  readonly amounts: readonly TextRow[] | null;
  readonly resends: readonly TextRow[] | null;
  readonly contradictions: readonly TextRow[] | null;
  readonly registered: readonly TextRow[];
}

export interface ReportSetting {
  readonly operator: string | null;
  readonly span: ReportSpan;
  readonly plan: Plan;
  readonly madeAt: number;
  readonly madeBy: string;
  readonly completeSince: number | null;
  readonly rollupsUpTo: number | null;
  readonly querySeconds: number;
}

export type Figures = Omit<VerdictReport, 'findings'>;

export function figuresOf(setting: ReportSetting, rows: ReportRows): Figures {
  const { operator, span, plan, madeAt, madeBy, querySeconds } = setting;
  const { verdicts, amounts } = plan;
  const { edges, zone, step } = verdicts.buckets;
  const outcomes = (rows.verdicts ?? []).map(outcomeOfRow);
  const resends = (rows.resends ?? []).map(resendOfRow);
  const inBuckets = outcomes.filter(({ bucket }) => bucket !== null);
  const sums = (rows.amounts ?? []).map(amountsOfRow);
  const ofSet = (set: AmountSet) => sums.filter((each) => each.set === set);
  const slow = Object.entries(rows).flatMap(([name, found]) => (found === null ? [name] : []));
  return {
    operator,
    from: timeOf(span.from),
    to: timeOf(span.to),
    time_zone: zone.name,
    step: stepText(step),
    made_at: timeOf(madeAt),
    made_by: madeBy,
    coverage: {
      verdicts_from: verdicts.source,
      amounts_from: amounts.source,
      amounts_time_zone: amounts.buckets.zone.name,
      amounts_step: stepText(amounts.buckets.step),
      complete_since: setting.completeSince === null ? null : timeOf(setting.completeSince),
      rollups_up_to: setting.rollupsUpTo === null ? null : timeOf(setting.rollupsUpTo),
      notes: plan.notes,
      too_slow: slow,
      query_seconds: querySeconds,
    },
    totals: countsOf(
      inBuckets,
      resends.filter(({ bucket }) => bucket !== null),
    ),
    buckets: edges.slice(0, -1).map((edge, index) => ({
      from: timeOf(edge),
      to: timeOf(edges[index + 1] ?? edge),
      ...countsOf(
        inBuckets.filter(({ bucket }) => bucket === index + 1),
        resends.filter(({ bucket }) => bucket === index + 1),
      ),
    })),
    reasons: reasonsOf(inBuckets).map((count) => ({ ...count, ...aboutReason(count.reason) })),
    connections: connectionsOf(outcomes, resends, rows.registered),
    amounts: {
      currencies: ofSet('currency').map(publicAmounts).sort(byBets),
      brands: ofSet('brand')
        .map(({ operator: of, brand, ...rest }) => ({
          operator: of,
          brand: brand ?? '',
          ...publicAmounts(rest),
        }))
        .sort(byBets),
      days: ofSet('day').map(({ bucket, operator: of, brand, ...rest }) => ({
        from: timeOf(amounts.buckets.edges[(bucket ?? 1) - 1] ?? span.from),
        operator: of,
        brand: brand ?? '',
        ...publicAmounts(rest),
      })),
      periods: amounts.buckets.edges.map(timeOf),
    },
    games: ofSet('game').map(({ operator: of, game, ...rest }) => ({
      operator: of,
      game,
      ...publicAmounts(rest),
    })),
    contradictions: (rows.contradictions ?? []).map(([of, kind, rounds]) => ({
      operator: of ?? '',
      kind: kind ?? '',
      rounds: Number(rounds),
    })),
    promotions: promotionsOf(rows, edges.length - 1),
  };
}

export function decidedOf({ accepted, rejected, skipped }: ReportCounts): number {
  return accepted + rejected + skipped;
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

function byBets(one: ReportAmounts, other: ReportAmounts): number {
  return other.bets - one.bets;
}

// --- sums

function countsOf(outcomes: readonly OutcomeRow[], resends: readonly ResendRow[]): ReportCounts {
  const of = (name: string) =>
    sum(outcomes.filter(({ verdict }) => verdict === name).map(({ events }) => events));
  return {
    accepted: of('accepted'),
    rejected: of('rejected'),
    skipped: of('skipped'),
    resent: sum(resends.map((each) => each.resent)),
    differing: sum(resends.map((each) => each.differing)),
    timing: {
      timed: sum(outcomes.map(({ timed }) => timed)),
      early: sum(outcomes.map(({ early }) => early)),
      within: DELAY_COUNTS.map((name, index) => ({
        name,
        events: sum(outcomes.map(({ within }) => within[index] ?? 0)),
      })),
    },
  };
}

/** The most frequent first. */
function reasonsOf(outcomes: readonly OutcomeRow[]): ReasonCount[] {
  const found = new Map<string, ReasonCount>();
  for (const { verdict, reason, events } of outcomes) {
    if (reason === null) continue;
    found.set(reason, { reason, verdict, events: (found.get(reason)?.events ?? 0) + events });
  }
  return [...found.values()].sort((one, other) => other.events - one.events);
}

/** A newer version may know further reasons. */
function aboutReason(name: string): Pick<ReasonReport, 'meaning' | 'remedy' | 'charge'> {
  const known = REASONS.find((each) => each.name === name);
  if (known === undefined) return { meaning: 'a newer version knows this reason.', remedy: '', charge: '' };
  const { meaning, remedy, charge } = known;
  return { meaning, remedy, charge };
}

function connectionsOf(
  outcomes: readonly OutcomeRow[],
  resends: readonly ResendRow[],
  registered: readonly TextRow[],
): ConnectionReport[] {
  const keyOf = (operator: string | null | undefined, connection: string | null | undefined) =>
    `${operator ?? ''}/${connection ?? ''}`;
  const sources = new Map(
    registered.map(([operator, connection, transport, topic]) => [
      keyOf(operator, connection),
      topic == null ? (transport ?? '') : `topic ${topic}`,
    ]),
  );
  const own = outcomes.filter(({ bucket }) => bucket === null);
  const again = resends.filter(({ bucket }) => bucket === null);
  const names = [...own, ...again].map(({ operator, connection }) => [operator, connection] as const);
  const all = new Map(
    [
      ...registered.map(([operator, connection]) => [operator ?? '', connection ?? ''] as const),
      ...names,
    ].map((pair) => [keyOf(...pair), pair]),
  );
  const found = [...all].map(([key, [operator, connection]]): ConnectionReport => {
    const outcomesHere = own.filter((each) => keyOf(each.operator, each.connection) === key);
    const newest =
      outcomesHere
        .map((each) => each.newest ?? '')
        .sort()
        .at(-1) || null;
    return {
      operator,
      connection,
      source: sources.get(key) ?? null,
      newest: newest === null ? null : timeOf(millisecondsOf(newest)),
      reasons: reasonsOf(outcomesHere),
      ...countsOf(
        outcomesHere,
        again.filter((each) => keyOf(each.operator, each.connection) === key),
      ),
    };
  });
  return found.sort(
    (one, other) => decidedOf(other) - decidedOf(one) || (one.connection < other.connection ? -1 : 1),
  );
}

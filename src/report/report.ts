/** Makes a report: reads the store, and finds the open points. */

import { DAY_MS, TimeZone } from '../lib/time-zone';
import type { StoreAccess } from '../postgres/pool';
import type { TextRow } from '../postgres/texts';
import { figuresOf, type VerdictReport } from './data';
import { findingsOf } from './findings';
import { type PlannedPart, planOf, type RollupState } from './plan';
import {
  ANOMALY_COUNTS,
  amountsQuery,
  COMPLETION_COUNTS,
  COVERAGE,
  DEFINED_PROMOTIONS,
  MISS_COUNTS,
  PROGRESS_SHARES,
  REGISTERED,
  RESENDS,
  type ReportQuery,
  verdictsQuery,
} from './queries';
import { readInSnapshot } from './reader';
import { type ReportSpan, spanOf } from './window';

export interface ReportRequest {
  /** Null for all operators. */
  readonly operator: string | null;
  readonly span: Partial<ReportSpan>;
  /** A name that Node.js knows. */
  readonly timeZone: string;
  /** The deadline of each query. */
  readonly withinMs: number;
  readonly madeBy: string;
}

/** The store has nothing of the operator, and the reference data does not name it. */
export class UnknownOperator extends Error {
  override readonly name = 'UnknownOperator';
  constructor(
    readonly operator: string,
    readonly known: readonly string[],
  ) {
    super(`the operator ${operator} is not known`);
  }
}

/** @throws StoreError, UnusableRange, UnknownOperator */
export function readReport(database: string | StoreAccess, request: ReportRequest): Promise<VerdictReport> {
  const { operator, withinMs, madeBy } = request;
  const zone = new TimeZone(request.timeZone);
  return readInSnapshot(database, withinMs, async ({ read, need }) => {
    const { now, rollups } = stateOf((await need(COVERAGE, []))[0] ?? []);
    const span = spanOf(request.span, zone, now);
    const plan = planOf(span, zone, rollups, now);
    const readPart = (query: ReportQuery, part: PlannedPart, format: (ms: number) => string = timeText) => {
      const { edges } = part.buckets;
      const [from = 0, to = 0] = [edges[0], edges.at(-1)];
      return read(query, [operator, edges.slice(0, -1).map(timeText), format(from), format(to)]);
    };
    const { verdicts, amounts } = plan;
    const registered = await need(REGISTERED, [operator]);
    const rows = {
      verdicts: await readPart(verdictsQuery(verdicts.source), verdicts),
      amounts: await readPart(
        amountsQuery(amounts.source),
        amounts,
        amounts.source === 'rollups' ? dayOrNext : timeText,
      ),
      resends: await readPart(RESENDS, verdicts),
      contradictions: await readPart(ANOMALY_COUNTS, verdicts),
      promotions: await read(DEFINED_PROMOTIONS, [operator]),
      shares: await readPart(PROGRESS_SHARES, verdicts),
      completions: await readPart(COMPLETION_COUNTS, verdicts),
      misses: await readPart(MISS_COUNTS, verdicts),
      registered,
    };
    if (operator !== null && registered.length === 0 && rows.verdicts?.length === 0) {
      const all = await need(REGISTERED, [null]);
      throw new UnknownOperator(operator, [...new Set(all.map(([of]) => of ?? ''))]);
    }
    const figures = figuresOf(
      {
        operator,
        span,
        plan,
        madeAt: now,
        madeBy,
        querySeconds: withinMs / 1_000,
        completeSince: rollups?.completeSince ?? null,
        rollupsUpTo: rollups?.upTo ?? null,
      },
      rows,
    );
    return { ...figures, findings: findingsOf(figures) };
  });
}

function stateOf(row: TextRow): { readonly now: number; readonly rollups: RollupState | null } {
  const [now, generation, completeSince, upTo] = row;
  const numberOf = (text: string | null | undefined) => (text == null ? null : Number(text));
  if (generation == null) return { now: Number(now), rollups: null };
  return { now: Number(now), rollups: { completeSince: numberOf(completeSince), upTo: numberOf(upTo) } };
}

function timeText(ms: number): string {
  return new Date(ms).toISOString();
}

/** The date in UTC; the next one where the time is later than the begin of a day. */
function dayOrNext(ms: number): string {
  return timeText(ms + DAY_MS - 1).slice(0, 10);
}

/**
 * Promotions of a file of events: the progress of its players, and why events did not count
 * (docs/rules.md, P18, P20).
 */
import { ACCOUNT_KINDS, type Judged } from '../domain/event/event';
import type { Decision } from '../domain/verdict/decide';
import type { PromotionDefinition } from './definition';
import { FileLedger, type FileSource } from './file-ledger';
import { PromotionFold } from './fold';
import type { LedgerEntry, RoundCredit } from './ledger-entry';
import { MISS_REASONS, type MissReason, matchEntry } from './matching';
import { type CompiledPromotion, compilePromotion } from './terms';

/** Why an entry of the ledger counts nothing in a promotion of its kind. */
export const PREVIEW_REASONS = {
  ...MISS_REASONS,
  round_refunded: 'the event counted, and its round was refunded later',
} as const;
export type PreviewReason = MissReason | 'round_refunded';

/** The reasons of promo.miss_reasons, in its order. A preview has no promotion that was removed. */
export const STORED_REASONS: Readonly<Record<string, string>> = {
  removed: 'the promotion had been removed',
  ...PREVIEW_REASONS,
};

/** The meaning of a stored reason. Null for one that only a newer version knows. */
export function missMeaning(reason: string): string | null {
  return STORED_REASONS[reason] ?? null;
}

/** Events that a promotion did not count for one reason. */
export interface Misses {
  count: number;
  /** The lines of the first ones. */
  readonly lines: number[];
}

const LINES_KEPT = 5;

/** Why an accepted event has no entry in the ledger (R3, R6). */
const NO_ENTRY: Readonly<Record<string, string>> = {
  settled: 'the second settled of its round',
  win: 'a win after the refund of its round',
};

export class Preview {
  readonly promotions: readonly CompiledPromotion[];
  readonly fold: PromotionFold;
  readonly misses = new Map<CompiledPromotion, Map<PreviewReason, Misses>>();
  /** Accepted events that no promotion counts, by cause. */
  readonly uncounted = new Map<string, Misses>();
  private readonly ledger: FileLedger;
  private readonly lines = new Map<number, number>();
  /** The time of the latest decision. */
  latest: bigint | null = null;

  /** @param credits rounds that count for another player than their own */
  constructor(
    definitions: readonly PromotionDefinition[],
    source: FileSource,
    credits: readonly RoundCredit[] = [],
  ) {
    this.promotions = definitions
      .filter(({ operator }) => operator === source.operatorId)
      .map(compilePromotion);
    this.fold = new PromotionFold(
      this.promotions.map((promotion) => ({
        version: 1,
        promotion,
        since: null,
        until: null,
        removedAt: null,
      })),
      credits.length > 0,
    );
    // The order does not matter (B4).
    for (const credit of credits) this.fold.creditRound(credit, 0, 0n);
    this.ledger = new FileLedger(source);
  }

  /** The events that have a verdict. The preview keeps all of them in memory. */
  get size(): number {
    return this.ledger.size;
  }

  /** @param decidedAt microseconds since 1970; null: the event is decided when it occurs */
  take(judged: Extract<Judged, { type: 'keyed' }>, line: number, decidedAt: bigint | null): Decision {
    const { decision, rows } = this.ledger.decide(judged, decidedAt);
    for (const row of rows) {
      this.fold.take(row);
      this.explain(row, line);
      if (this.latest === null || row.enteredAt > this.latest) this.latest = row.enteredAt;
    }
    const { kind } = judged.fields;
    if (decision.type === 'decided' && decision.outcome.verdict === 'accepted' && kind !== null) {
      const isEntry = rows.some(({ reversesEntryId }) => reversesEntryId === null);
      if (!isEntry && kind !== 'refund') note(this.uncounted, NO_ENTRY[kind] ?? kind, line);
      else if (isEntry && !this.isCountedKind(kind)) note(this.uncounted, causeOf(kind), line);
    }
    return decision;
  }

  private explain(row: LedgerEntry, line: number): void {
    const { reversesEntryId } = row;
    if (reversesEntryId === null) this.lines.set(row.entryId, line);
    const ownLine = this.lines.get(reversesEntryId ?? row.entryId) ?? line;
    for (const promotion of this.promotions) {
      const match = matchEntry(promotion, row);
      if (match === undefined) continue;
      const misses = this.misses.get(promotion) ?? new Map<PreviewReason, Misses>();
      this.misses.set(promotion, misses);
      if (reversesEntryId !== null) {
        if (!('miss' in match)) note(misses, 'round_refunded', ownLine);
      } else if ('miss' in match) note(misses, match.miss, ownLine);
    }
  }

  private isCountedKind(kind: string): boolean {
    return this.promotions.some(({ terms }) => terms.some((term) => term.kind === kind));
  }
}

function causeOf(kind: string): string {
  const isAccount = ACCOUNT_KINDS.some((each) => each === kind);
  if (kind === 'win') return 'win: promotions count no wins';
  return `${kind}: no promotion of the file counts ${isAccount ? `${kind}s` : `a ${kind}`}`;
}

function note<K>(into: Map<K, Misses>, key: K, line: number): void {
  const found = into.get(key) ?? { count: 0, lines: [] };
  into.set(key, found);
  found.count++;
  if (found.lines.length < LINES_KEPT) found.lines.push(line);
}

/** Promotions and rows of the ledger, made in a test. */
import { parsePromotions } from '../../src/promotion-file/promotion-file';
import type { CompletionEntry } from '../../src/promotions/completion';
import type { PromotionVersion } from '../../src/promotions/counting';
import type { PromotionDefinition } from '../../src/promotions/definition';
import { PromotionFold } from '../../src/promotions/fold';
import type { LedgerEntry } from '../../src/promotions/ledger-entry';
import type { PlayerProgress } from '../../src/promotions/player-progress';
import { compilePromotion } from '../../src/promotions/terms';

/** Microseconds since 1970. */
export const micros = (text: string): bigint => BigInt(Date.parse(text)) * 1000n;

/** Definitions of acme, each in the flow style of YAML, without the braces. @throws where one has a fault */
export function definitionsOf(...flows: readonly string[]): readonly PromotionDefinition[] {
  const parsed = parsePromotions(
    `promotions: [${flows.map((each) => `{ operator: acme, ${each} }`).join(', ')}]`,
    'p',
  );
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.document.promotions;
}

export const versionsOf = (definitions: readonly PromotionDefinition[]): PromotionVersion[] =>
  definitions.map((each) => ({
    version: 1,
    promotion: compilePromotion(each),
    since: null,
    until: null,
    removedAt: null,
  }));

export interface EntryFields {
  readonly player?: string;
  readonly kind?: LedgerEntry['kind'];
  readonly round?: string;
  readonly amount?: bigint;
  readonly currency?: string;
  readonly game?: string | null;
  readonly brand?: string;
  readonly operator?: string;
  readonly at?: string;
  /** The default is `at`. */
  readonly decidedAt?: string;
}

/** A ledger: entries, and refunds that take back all entries of their round that count. */
export class LedgerRows {
  readonly rows: LedgerEntry[] = [];
  private readonly refunded = new Set<string>();
  changeNo = 0;

  entry(fields: EntryFields = {}): LedgerEntry {
    const {
      player = 'p',
      kind = 'bet',
      amount = 100n,
      currency = 'EUR',
      at = '2026-12-01T12:00:00Z',
    } = fields;
    const changeNo = ++this.changeNo;
    const decidedAt = micros(fields.decidedAt ?? at);
    const isLogin = kind === 'login';
    const isAccount = isLogin || kind === 'deposit' || kind === 'withdrawal';
    const row: LedgerEntry = {
      changeNo,
      entryId: changeNo * 2,
      reversesEntryId: null,
      operatorId: fields.operator ?? 'acme',
      feedId: 'acme',
      roundId: isAccount ? null : (fields.round ?? `r-${changeNo}`),
      brand: fields.brand ?? 'main',
      playerRef: player,
      kind,
      currency: isLogin ? null : currency,
      amountMinor: isLogin ? 0n : amount,
      gameId: isAccount || fields.game === null ? null : (fields.game ?? 'g1'),
      occurredAt: micros(at),
      decidedAt,
      enteredAt: decidedAt,
    };
    this.rows.push(row);
    return row;
  }

  refund(round: string, at = '2026-12-02T12:00:00Z'): readonly LedgerEntry[] {
    const changeNo = ++this.changeNo;
    const entries = this.rows.filter(
      ({ roundId, reversesEntryId }) => roundId === round && reversesEntryId === null,
    );
    const isFirst = !this.refunded.has(round);
    this.refunded.add(round);
    const reversals = (isFirst ? entries : []).map((entry) => ({
      ...entry,
      changeNo,
      entryId: entry.entryId + 1,
      reversesEntryId: entry.entryId,
      amountMinor: -entry.amountMinor,
      enteredAt: micros(at),
    }));
    this.rows.push(...reversals);
    return reversals;
  }
}

export interface Folded {
  readonly fold: PromotionFold;
  readonly entries: readonly CompletionEntry[];
  progressOf(player: string, promotion?: string): PlayerProgress | undefined;
}

/** Folds slices, each judged at its end. */
export function foldSlices(
  versions: readonly PromotionVersion[],
  slices: readonly (readonly LedgerEntry[])[],
  asOf: (slice: readonly LedgerEntry[]) => bigint = () => 0n,
): Folded {
  const fold = new PromotionFold(versions);
  const entries = slices.flatMap((slice) => {
    for (const row of slice) fold.take(row);
    return fold.endSlice(asOf(slice));
  });
  const progressOf = (player: string, promotion?: string) =>
    [...fold.progress()].find(
      (each) =>
        each.playerRef === player && (promotion === undefined || each.promotion.definition.id === promotion),
    );
  return { fold, entries, progressOf };
}

/** The progress of a player as text: "EUR 500", "3", by item where there are items. */
export function valuesOf(progress: PlayerProgress | undefined): string {
  const rows = progress?.rows() ?? [];
  return rows
    .filter(({ value }) => value !== 0n)
    .map(({ item, currency, value }) => [item, currency, value].filter((part) => part !== '').join(' '))
    .sort()
    .join(', ');
}

/** "completed 1#1 p": the change, the ordinal, the attempt and the player. */
export const changesOf = (entries: readonly CompletionEntry[]): string[] =>
  entries.map(({ change, ordinal, attempt, playerRef }) => `${change} ${ordinal}#${attempt} ${playerRef}`);

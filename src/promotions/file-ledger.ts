/**
 * The ledger that a file of events makes, by the decision of the workers. It needs no store
 * (docs/rules.md, P20).
 */
import { contentHashOf } from '../domain/event/content-hash';
import { isRoundKind, type Judged } from '../domain/event/event';
import { PlayerTags } from '../domain/event/player-tag';
import { type Decision, decide, FeedMap, type KeyedItem, type Known } from '../domain/verdict/decide';
import type { LedgerEntry } from './ledger-entry';

/** The sender of the events. */
export interface FileSource {
  readonly operatorId: string;
  readonly feedId: string;
}

export interface FileDecision {
  readonly decision: Decision;
  /** The rows of the ledger that the event makes: an entry, or the reversals of its round. */
  readonly rows: readonly LedgerEntry[];
}

const FEED_NO = 1;

export class FileLedger {
  private readonly known: Known;
  private readonly brands = new Map<string, number>();
  /** The entries that count now, by round. */
  private readonly counted = new Map<string, LedgerEntry[]>();
  private changeNo = 0;

  constructor(private readonly source: FileSource) {
    this.known = {
      events: new FeedMap(),
      resends: new Map(),
      unstored: new Set(),
      rounds: new FeedMap(),
      tags: new PlayerTags(new Map(), 0),
    };
  }

  /** The events that have a verdict. */
  get size(): number {
    return this.changeNo;
  }

  /** @param decidedAt microseconds since 1970; null: the event is decided when it occurs */
  decide(judged: Extract<Judged, { type: 'keyed' }>, decidedAt: bigint | null): FileDecision {
    const item = this.itemOf(judged);
    const [decision] = decide([item], this.known).decisions;
    if (decision === undefined) throw new Error('an event has no decision');
    if (decision.type !== 'decided') return { decision, rows: [] };
    // The event itself would keep its fields in memory. Its hash is enough to compare later events with it.
    const content = BigInt(contentHashOf(item));
    this.known.events.set(FEED_NO, item.eventId, { outcome: decision.outcome, content, source: null });
    this.changeNo++;
    return { decision, rows: this.rowsOf(item, decision, decidedAt) };
  }

  private itemOf(judged: Extract<Judged, { type: 'keyed' }>): KeyedItem {
    const { brand } = judged.fields;
    const { eventId, fields, contentHash, restHash, refusal } = judged;
    return {
      type: 'keyed',
      source: null,
      feedNo: FEED_NO,
      connectionNo: 1,
      eventId,
      fields,
      // Without reference data the brands of the file are numbered as they come.
      brandNo: judged.brandNo ?? this.brandNo(brand ?? ''),
      contentHash,
      restHash,
      playerTag: null,
      refusal,
    };
  }

  private brandNo(brand: string): number {
    const known = this.brands.get(brand) ?? this.brands.size + 1;
    this.brands.set(brand, known);
    return known;
  }

  private rowsOf(
    { fields }: KeyedItem,
    decision: Extract<Decision, { type: 'decided' }>,
    decidedAt: bigint | null,
  ): LedgerEntry[] {
    const { kind, roundId, playerRef, occurredAtMicros } = fields;
    if (kind === null || playerRef === null || occurredAtMicros === null) return [];
    const at = decidedAt ?? occurredAtMicros;
    if (kind === 'refund' && decision.outcome.verdict === 'accepted') return this.reversalsOf(roundId, at);
    if (!decision.counted) return [];
    const entry: LedgerEntry = {
      ...this.source,
      changeNo: this.changeNo,
      entryId: this.changeNo * 2,
      reversesEntryId: null,
      roundId,
      brand: fields.brand,
      playerRef,
      kind,
      currency: fields.currency?.code ?? null,
      amountMinor: fields.amountMinor ?? 0n,
      gameId: fields.gameId,
      occurredAt: occurredAtMicros,
      decidedAt: at,
      enteredAt: at,
    };
    if (roundId !== null && isRoundKind(kind)) {
      const entries = this.counted.get(roundId);
      if (entries === undefined) this.counted.set(roundId, [entry]);
      else entries.push(entry);
    }
    return [entry];
  }

  /** The first refund of a round takes back all of its entries. A later one finds none (R2, R3). */
  private reversalsOf(roundId: string | null, at: bigint): LedgerEntry[] {
    const entries = roundId === null ? undefined : this.counted.get(roundId);
    if (roundId === null || entries === undefined) return [];
    this.counted.delete(roundId);
    return entries.map((entry) => ({
      ...entry,
      changeNo: this.changeNo,
      entryId: entry.entryId + 1,
      reversesEntryId: entry.entryId,
      amountMinor: -entry.amountMinor,
      enteredAt: at,
    }));
  }
}

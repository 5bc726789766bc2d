/**
 * The processes that decide events and attribute rounds beside a fold. Batches take a number, stay open for a
 * while, and commit or fail. A store that falls back gets its lost events and attributions again.
 */
import type { Random } from '../../dev/random';
import { isKind, kindCode } from '../../src/domain/event/event';
import { BATCH_NUMBERS } from '../../src/fold/statements';
import type { FeedEvent } from '../support/promotion-feeds';
import { isErasedRound } from './fold-erasure';
import { OPERATOR } from './fold-expected';
import { REFUND_KIND } from './fold-ledger-statements';
import type { FoldStoreModel } from './fold-store';
import {
  type CreditRow,
  everDecided,
  type LedgerTables,
  type RefundedRound,
  type Verdict,
} from './fold-tables';
import { Actor } from './scheduler';

const WRITERS = 2;
const SETTLED_KIND = kindCode('settled');

export type WaitingCredit = Pick<CreditRow, 'round' | 'brand' | 'player'>;

export class FoldIntake {
  private waiting: FeedEvent[];
  private waitingCredits: WaitingCredit[];
  private readonly actor = new Actor('intake');
  /** Rounds of open batches: no other batch may decide them. */
  private readonly locked = new Set<string>();
  private fallBacks = 0;

  constructor(
    private readonly store: FoldStoreModel,
    private readonly random: Random,
    private readonly events: readonly FeedEvent[],
    /** Attributions in their order: a later one of a round corrects it. */
    private readonly credits: readonly WaitingCredit[],
  ) {
    this.waiting = [...events];
    this.waitingCredits = [...credits];
    for (let n = 0; n < WRITERS; n++) this.later();
    this.creditLater();
  }

  /** Whether all events are decided. */
  get isDone(): boolean {
    const { waiting, waitingCredits } = this;
    return (
      waiting.length + waitingCredits.length === 0 &&
      this.locked.size === 0 &&
      this.store.openBatches.size === 0
    );
  }

  /** The store has lost batches: their events come again. */
  readAgain(): void {
    this.fallBacks++;
    this.locked.clear();
    const known = new Set(everDecided(this.store.committed.ledger).map(({ eventId }) => eventId));
    this.waiting = this.random.shuffled(this.events.filter(({ id }) => !known.has(id)));
    const set = this.store.committed.ledger.credits;
    this.waitingCredits = this.credits.filter(
      (each) => !set.some(({ round, player }) => round === each.round && player === each.player),
    );
  }

  private creditLater(): void {
    this.store.scheduler.after(this.random.between(1_000, 9_000), this.actor, 'attribution', () =>
      this.credit(),
    );
  }

  /** Attributes a round, also one that a batch decides at the moment. */
  private credit(): void {
    const { random, store, fallBacks } = this;
    // Nothing is stored of a round with an erased player.
    const { ledger: now } = store.committed;
    while (this.waitingCredits[0] !== undefined && isErasedRound(now, this.waitingCredits[0].round))
      this.waitingCredits.shift();
    const [credit] = store.isAway ? [] : this.waitingCredits;
    if (credit === undefined) {
      this.creditLater();
      return;
    }
    const batchNo = ++store.lastBatchNo;
    store.openBatches.add(batchNo);
    const at = store.now();
    store.scheduler.after(random.between(1, 500), this.actor, 'attribution ends', () => {
      this.creditLater();
      if (this.fallBacks !== fallBacks) return;
      store.openBatches.delete(batchNo);
      const { ledger } = store.committed;
      if (isErasedRound(ledger, credit.round)) return;
      const changeNo = batchNo * BATCH_NUMBERS;
      store.write({ ...ledger, credits: [...ledger.credits, { ...credit, changeNo, at }] });
      this.waitingCredits.shift();
    });
  }

  private later(): void {
    this.store.scheduler.after(this.random.between(10, 900), this.actor, 'intake', () => {
      if (this.store.isAway) this.later();
      else this.begin();
    });
  }

  private begin(): void {
    const { random, store, fallBacks } = this;
    const chunk = this.waiting.slice(0, random.between(1, 12));
    const rounds = chunk.flatMap(({ round }) => (round === null ? [] : [round]));
    if (chunk.length === 0 || rounds.some((round) => this.locked.has(round))) {
      this.later();
      return;
    }
    this.waiting.splice(0, chunk.length);
    // A batch locks its rounds before it takes its number.
    for (const round of rounds) this.locked.add(round);
    const batchNo = ++store.lastBatchNo;
    store.openBatches.add(batchNo);
    const decidedAt = store.now();
    const openMs = random.chance(0.05) ? random.between(2_000, 9_000) : random.between(1, 500);
    store.scheduler.after(openMs, this.actor, 'batch ends', () => {
      this.later();
      if (this.fallBacks !== fallBacks) return;
      for (const round of rounds) this.locked.delete(round);
      store.openBatches.delete(batchNo);
      if (random.chance(0.1)) this.waiting.push(...chunk);
      else store.write(decided(store.committed.ledger, chunk, batchNo, decidedAt));
    });
  }
}

/** The ledger after a batch, by the rules of rounds (R2, R3). */
export function decided(
  ledger: LedgerTables,
  events: readonly FeedEvent[],
  batchNo: number,
  decidedAt: bigint,
): LedgerTables {
  const rows: Verdict[] = [];
  const refunded = new Map<number, RefundedRound>(ledger.refunds);
  const decidedBefore = everDecided(ledger);
  const known = new Set(decidedBefore.map(({ eventId }) => eventId));
  for (const { id, kind, player, brand, round, game, amount, currency, at } of events) {
    if (known.has(id)) continue;
    known.add(id);
    if (!isKind(kind)) throw new Error(`unknown kind: ${kind}`);
    const code = kindCode(kind);
    const verdictId = batchNo * BATCH_NUMBERS + rows.length;
    const ofRound = round === null ? [] : [...decidedBefore, ...rows].filter((row) => row.round === round);
    const first = ofRound[0];
    const roundNo = round === null ? null : (first?.roundNo ?? verdictId);
    const isRefunded = roundNo !== null && refunded.has(roundNo);
    const isSecond = code === SETTLED_KIND && ofRound.some((row) => row.kind === code && row.isCounted);
    rows.push({
      verdictId,
      eventId: id,
      operatorId: OPERATOR,
      kind: code,
      round,
      roundNo,
      brand,
      player,
      currency: kind === 'login' ? null : currency,
      amount: kind === 'login' ? 0n : BigInt(amount),
      game,
      occurredAt: BigInt(at) * 1_000n,
      decidedAt,
      isCounted: code !== REFUND_KIND && !isRefunded && !isSecond,
    });
    if (code === REFUND_KIND && roundNo !== null && !isRefunded)
      refunded.set(roundNo, {
        roundNo,
        refundedBy: id,
        refundedAt: decidedAt,
        openedAt: first?.decidedAt ?? decidedAt,
      });
  }
  return { ...ledger, history: [...ledger.history, ...rows], refunds: refunded };
}

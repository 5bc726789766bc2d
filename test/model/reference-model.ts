/**
 * The rules a second time, written naively from docs/rules.md without sharing code with src/domain. The model
 * keeps lists of events, and answers every question by going through them. The store must agree with the
 * model.
 */
import type { ReferenceDocument } from '../../src/domain/reference';

/** A delivery whose connection is known. `event` is null where the record is no JSON object. */
export interface Delivery {
  readonly connection: string;
  readonly source: string;
  readonly event: Readonly<Record<string, unknown>> | null;
}

/** The model's verdict on an event. */
export interface ModelVerdict {
  readonly verdict: 'accepted' | 'rejected' | 'skipped';
  readonly reason: string | null;
  readonly counted: boolean;
}

interface Decided extends ModelVerdict {
  readonly source: string;
  readonly content: string;
  readonly facts: Facts;
}

/** The facts read from an event; null where a fact is missing, not valid, or not read. */
interface Facts {
  readonly feed: string;
  readonly eventId: string;
  readonly kind: string | null;
  readonly brand: string | null;
  readonly player: string | null;
  readonly round: string | null;
  readonly game: string | null;
  readonly amount: bigint | null;
  readonly currency: string | null;
}

/** Net sums of a round in one currency. */
export interface Net {
  bet: bigint;
  win: bigint;
  settled: bigint;
}

/** Decimals of the currencies that the model's feeds use (M4). */
const SCALES: Readonly<Record<string, number>> = { EUR: 2, USD: 2, JPY: 0, BTC: 8, ETH: 18 };
const ROUND_KINDS = ['bet', 'win', 'settled', 'refund'];
const ACCOUNT_KINDS = ['deposit', 'withdrawal', 'login'];
const SIGNED_64_BITS = 2n ** 63n - 1n;

const isText = (value: unknown): value is string => typeof value === 'string';

/** M1-M3: the amount in minor units, or null. */
function minorOf(amount: unknown, currency: string): bigint | null {
  if (!isText(amount) || !isPlainDecimal(amount)) return null;
  const scale = SCALES[currency] ?? 0;
  const [whole = '', decimals = ''] = amount.split('.');
  if (decimals.length > scale) return null;
  const minor = BigInt(whole) * 10n ** BigInt(scale) + BigInt(decimals.padEnd(scale, '0') || '0');
  return minor <= SIGNED_64_BITS ? minor : null;
}

function isPlainDecimal(amount: string): boolean {
  return /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(amount);
}

function currencyOf(value: unknown): string | null {
  const code = isText(value) ? value.toUpperCase() : '';
  return code in SCALES ? code : null;
}

export class ReferenceModel {
  private readonly decided = new Map<string, Decided>();
  /** Duplicates by event and source, with whether their content differs. */
  private readonly resends = new Map<string, boolean>();

  /** @param reference the data in force; may be replaced for later deliveries */
  constructor(public reference: ReferenceDocument) {}

  /** Takes a delivery and returns its outcome, in the words of test/support/ledger.ts. */
  take(delivery: Delivery): string {
    const { event, source } = delivery;
    if (event === null || !isText(event.event_id) || event.event_id === '') return 'without key';
    const facts = this.factsOf(delivery.connection, event);
    const content = this.contentOf(delivery.connection, event);
    const key = `${facts.feed} ${facts.eventId}`;
    const first = this.decided.get(key);
    if (first === undefined) {
      const verdict = this.judge(delivery.connection, event, facts);
      this.decided.set(key, { ...verdict, source, content, facts });
      return nameOf(verdict);
    }
    if (first.source === source) return `${nameOf(first)}, again`;
    const resend = `${key} ${source}`;
    const before = this.resends.get(resend);
    const differs = before ?? first.content !== content;
    this.resends.set(resend, differs);
    return `duplicate of ${nameOf(first)}${differs ? ', differs' : ''}${before === undefined ? '' : ', again'}`;
  }

  verdictOf(feed: string, eventId: string): ModelVerdict | undefined {
    const found = this.decided.get(`${feed} ${eventId}`);
    return found && { verdict: found.verdict, reason: found.reason, counted: found.counted };
  }

  /** Rounds that have an event, as [feed, round]. */
  rounds(): [feed: string, round: string][] {
    const found = new Map<string, [string, string]>();
    for (const { facts } of this.decided.values()) {
      if (facts.round !== null) found.set(`${facts.feed} ${facts.round}`, [facts.feed, facts.round]);
    }
    return [...found.values()];
  }

  /** R2: the event that refunded a round, or null. */
  refundedBy(feed: string, round: string): string | null {
    const refund = this.eventsOf(feed, round).find(
      ({ facts, verdict }) => facts.kind === 'refund' && verdict === 'accepted',
    );
    return refund?.facts.eventId ?? null;
  }

  /**
   * The net sums of a round, by currency: everything counted, or nothing once the round is refunded (R2, R7,
   * L3).
   */
  net(feed: string, round: string): Map<string, Net> {
    const sums = new Map<string, Net>();
    const isRefunded = this.refundedBy(feed, round) !== null;
    for (const { facts, counted } of this.eventsOf(feed, round)) {
      if (facts.currency === null || !this.speaks(facts)) continue;
      const net = sums.get(facts.currency) ?? { bet: 0n, win: 0n, settled: 0n };
      sums.set(facts.currency, net);
      if (!counted || isRefunded || facts.amount === null) continue;
      if (facts.kind === 'bet') net.bet += facts.amount;
      if (facts.kind === 'win') net.win += facts.amount;
      if (facts.kind === 'settled') net.settled += facts.amount;
    }
    return sums;
  }

  /** The anomalies of a round (A1-A3). */
  anomalies(feed: string, round: string): string[] {
    const events = this.eventsOf(feed, round).filter(({ verdict }) => verdict !== 'rejected');
    const found: string[] = [];
    const settled = events.filter(({ facts, verdict }) => facts.kind === 'settled' && verdict === 'accepted');
    if (settled.length > 1) found.push('second_settled');
    const counted = settled.filter((event) => event.counted);
    if (counted.length > 0 && this.refundedBy(feed, round) === null) {
      const currencies = new Set(events.map(({ facts }) => facts.currency));
      const mismatch = [...currencies].some((currency) => {
        const bets = events.filter(
          ({ facts, verdict, reason }) =>
            facts.kind === 'bet' &&
            (verdict === 'accepted' || reason === 'below_min_bet') &&
            facts.currency === currency,
        );
        const stakes = sum(bets.map(({ facts }) => facts.amount));
        return (
          stakes !==
          sum(counted.filter(({ facts }) => facts.currency === currency).map(({ facts }) => facts.amount))
        );
      });
      if (mismatch) found.push('settled_mismatch');
    }
    const disagree = (value: (facts: Facts) => string | null) =>
      new Set(events.map(({ facts }) => value(facts)).filter((text) => text !== null)).size > 1;
    if (disagree(({ player }) => player)) found.push('player_mismatch');
    if (disagree(({ brand }) => brand)) found.push('brand_mismatch');
    if (disagree(({ currency }) => currency)) found.push('currency_mismatch');
    return found.sort();
  }

  /** In the order in which the events were decided. */
  private eventsOf(feed: string, round: string): Decided[] {
    return [...this.decided.values()].filter(({ facts }) => facts.feed === feed && facts.round === round);
  }

  /** Whether an event takes part in its round: it was not rejected. */
  private speaks(facts: Facts): boolean {
    return this.decided.get(`${facts.feed} ${facts.eventId}`)?.verdict !== 'rejected';
  }

  private find(connectionId: string) {
    for (const operator of this.reference.operators) {
      const connection = operator.connections.find(({ id }) => id === connectionId);
      if (connection !== undefined) return { operator, connection };
    }
    throw new Error(`no connection ${connectionId}`);
  }

  private factsOf(connectionId: string, event: Readonly<Record<string, unknown>>): Facts {
    const { operator, connection } = this.find(connectionId);
    const kind = [...ROUND_KINDS, ...ACCOUNT_KINDS].find((known) => known === event.kind) ?? null;
    const isRound = kind !== null && ROUND_KINDS.includes(kind);
    const hasMoney = kind !== null && kind !== 'login';
    const currency = hasMoney ? currencyOf(event.currency) : null;
    const text = (value: unknown) => (isText(value) && value !== '' ? value : null);
    const { game } = event;
    const gameId = typeof game === 'object' && game !== null && 'id' in game ? text(game.id) : null;
    return {
      feed: connection.feed === undefined ? operator.id : `${operator.id}/${connection.feed}`,
      eventId: String(event.event_id),
      kind,
      brand: event.brand === undefined ? (connection.brand ?? null) : text(event.brand),
      player: text(event.player_ref),
      round: isRound ? text(event.round_id) : null,
      game: isRound ? gameId : null,
      amount: currency === null ? null : minorOf(event.amount, currency),
      currency,
    };
  }

  /** K4: the content that is read, by value where it is valid. */
  private contentOf(connectionId: string, event: Readonly<Record<string, unknown>>): string {
    const facts = this.factsOf(connectionId, event);
    const isRound = facts.kind !== null && ROUND_KINDS.includes(facts.kind);
    const hasMoney = facts.kind !== null && facts.kind !== 'login';
    return JSON.stringify([
      event.spec ?? null,
      event.kind ?? null,
      facts.brand,
      // A player_ref that is missing is other content than an empty one.
      facts.player ?? `no player: ${event.player_ref === undefined ? 'missing' : 'empty'}`,
      Date.parse(String(event.occurred_at)) || String(event.occurred_at),
      isRound ? facts.round : '-',
      isRound ? facts.game : '-',
      hasMoney ? (facts.amount?.toString() ?? event.amount ?? null) : '-',
      hasMoney ? (facts.currency ?? event.currency ?? null) : '-',
    ]);
  }

  /** V2: the first reason that applies. */
  private judge(connectionId: string, event: Readonly<Record<string, unknown>>, facts: Facts): ModelVerdict {
    const { operator, connection } = this.find(connectionId);
    const { kind, game, amount, currency } = facts;
    const rejected = (reason: string): ModelVerdict => ({ verdict: 'rejected', reason, counted: false });
    const skipped = (reason: string): ModelVerdict => ({ verdict: 'skipped', reason, counted: false });
    const accepted = (counted: boolean): ModelVerdict => ({ verdict: 'accepted', reason: null, counted });

    const isRound = kind !== null && ROUND_KINDS.includes(kind);
    const hasMoney = kind !== null && kind !== 'login';
    if (event.spec !== 'promo.event.v1' || !isText(event.kind)) return rejected('malformed');
    if (Number.isNaN(Date.parse(String(event.occurred_at)))) return rejected('malformed');
    if (isRound && facts.round === null) return rejected('malformed');
    if (kind === null) return rejected('op_unknown');
    if (facts.player === null) return rejected('no_player');
    if (hasMoney && !(isText(event.amount) && isPlainDecimal(event.amount))) return rejected('bad_amount');
    if (hasMoney && currency !== null && amount === null) return rejected('bad_amount');

    if (connection.brand === undefined && event.brand === undefined) return rejected('no_brand');
    if (connection.brand !== undefined && event.brand !== undefined) return rejected('brand_unexpected');
    const brand = operator.brands.find(({ id }) => id === facts.brand);
    if (brand === undefined) return rejected('brand_unmapped');
    if (!brand.active || !operator.active) return rejected('operator_inactive');

    if (hasMoney && currency === null) return skipped('currency_unknown');
    const isBetOrSettled = kind === 'bet' || kind === 'settled';
    if (isBetOrSettled && amount === 0n) return skipped('zero_amount');
    if (isBetOrSettled || kind === 'win') {
      if (game !== null && brand.games.deny.includes(game)) return skipped('game_denied');
      if (brand.games.allow !== undefined && (game === null || !brand.games.allow.includes(game)))
        return skipped('game_not_allowed');
    }
    const minimum = currency === null ? undefined : brand.minBet[currency];
    if (kind === 'bet' && minimum !== undefined && currency !== null && amount !== null) {
      const least = minorOf(minimum, currency);
      if (least !== null && amount < least) return skipped('below_min_bet');
    }
    if (isBetOrSettled && operator.catalogue.length > 0) {
      if (!operator.catalogue.some(({ id, active }) => id === game && active)) return skipped('game_unknown');
    }

    if (!isRound || facts.round === null) return accepted(true);
    const isRefunded = this.refundedBy(facts.feed, facts.round) !== null;
    if (isBetOrSettled && isRefunded) return skipped('round_refunded');
    if (kind === 'refund') return accepted(false);
    if (kind === 'win') return accepted(!isRefunded);
    if (kind === 'bet') return accepted(true);
    const isSettled = this.eventsOf(facts.feed, facts.round).some(
      (other) => other.facts.kind === 'settled' && other.counted,
    );
    return accepted(!isSettled);
  }
}

function nameOf({ verdict, reason }: ModelVerdict): string {
  return reason === null ? verdict : `${verdict}/${reason}`;
}

function sum(amounts: readonly (bigint | null)[]): bigint {
  return amounts.reduce((total: bigint, amount) => total + (amount ?? 0n), 0n);
}

/** The whole way of an event from bytes to a decision, with two maps as its store. */

import type { Judged } from '../../../src/domain/event/event';
import type { Connection } from '../../../src/domain/reference';
import {
  type Coordinates,
  type Decision,
  decide,
  type KeyedItem,
  type Known,
} from '../../../src/domain/verdict/decide';
import { judge } from '../../../src/domain/verdict/judge';
import type { Outcome } from '../../../src/domain/verdict/reasons';
import type { Round } from '../../../src/domain/verdict/round';
import { judgeBothWays } from '../../support/both-ways';
import { aConnection, bytesOf, type EventJson, nothingKnown } from '../../support/builders';

/** Carries several brands, of which `main` is registered and has no rules. */
export const SEVERAL = aConnection();
/** Carries the brand `main` alone. */
export const ONE_BRAND = aConnection({}, { brand: 'main' });

type Keyed = Extract<Judged, { type: 'keyed' }>;

export function judgeBytes(bytes: Buffer | string | null, connection: Connection = SEVERAL): Judged {
  return judgeBothWays(typeof bytes === 'string' ? Buffer.from(bytes) : bytes, connection);
}

/**
 * The CPU time of judging in ms, so that a busy machine does not count. The best of three runs, since noise
 * only adds time.
 */
export function judgingMs(bytes: Buffer): number {
  const times = [1, 2, 3].map(() => {
    const start = process.cpuUsage();
    judge({ type: 'json', bytes }, SEVERAL);
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1000;
  });
  return Math.min(...times);
}

/** The result of judging an event that has a usable id. */
export function judged(event: EventJson, connection: Connection = SEVERAL): Keyed {
  const result = judgeBytes(bytesOf(event), connection);
  if (result.type === 'unkeyed') throw new Error(`no usable id: ${result.faults[0]?.detail}`);
  return result;
}

/**
 * The verdict and reason of an event that comes first of all, such as `accepted` or `skipped/zero_amount`.
 */
export function verdictOf(event: EventJson, connection: Connection = SEVERAL): string {
  return verdictOfBytes(bytesOf(event), connection);
}

export function verdictOfBytes(bytes: Buffer | string | null, connection: Connection = SEVERAL): string {
  const result = judgeBytes(bytes, connection);
  return new World().decideJudged(result, connection);
}

export function named(outcome: Outcome): string {
  return outcome.reason === null ? outcome.verdict : `${outcome.verdict}/${outcome.reason}`;
}

/** The faults of an event as `reason field`, the deciding one first. */
export function faultsOf(event: EventJson, connection: Connection = SEVERAL): string[] {
  return judgeBytes(bytesOf(event), connection).faults.map(({ reason, field }) => `${reason} ${field}`);
}

/** Reasons that an event gets because of the schema. */
const OF_THE_SCHEMA = ['no_idempotency_key', 'malformed', 'op_unknown', 'no_player', 'bad_amount'];
/** Whether the schema refuses an event, for every connection. */
export const isRefusedByContract = (event: unknown): boolean => {
  const { faults } = judge({ type: 'json', bytes: bytesOf(event) }, undefined);
  return faults.some(
    ({ reason, detail }) =>
      OF_THE_SCHEMA.includes(reason) ||
      (reason === 'currency_unknown' && detail.startsWith('currency is missing')),
  );
};

/** A judged event as the intake passes it to the decision. */
export function itemOf(judgement: Keyed, connection: Connection, source: Coordinates | null): KeyedItem {
  const { fields } = judgement;
  return {
    type: 'keyed',
    source,
    feedNo: connection.feedNo,
    connectionNo: connection.no,
    eventId: judgement.eventId,
    fields,
    brandNo: judgement.brandNo,
    contentHash: judgement.contentHash,
    restHash: judgement.restHash,
    playerTag: null,
    refusal: judgement.refusal,
  };
}

/** An entry of the ledger that follows from the decisions. */
export interface Entry {
  readonly feedNo: number;
  readonly roundId: string | null;
  readonly kind: string;
  readonly currency: string | null;
  readonly amountMinor: bigint;
}

/**
 * A store in memory. It adds an entry for each counted event, and reverses it when a refund removes the round
 * (R2, L1).
 */
export class World {
  readonly known: Known = nothingKnown();
  readonly entries: Entry[] = [];
  private offset = 0;

  /** Delivers events one after another, each as a record of its own. Returns the answers as text. */
  deliver(events: readonly EventJson[], connection: Connection = SEVERAL): string[] {
    return events.map((event) => this.decideJudged(judged(event, connection), connection));
  }

  decideJudged(judgement: Judged, connection: Connection): string {
    if (judgement.type === 'unkeyed') return 'rejected/no_idempotency_key';
    const decision = this.decide([itemOf(judgement, connection, this.nextSource())])[0];
    if (decision === undefined || decision.type === 'unstored') throw new Error('a keyed event is decided');
    return decision.type === 'duplicate' ? 'duplicate' : named(decision.outcome);
  }

  nextSource(): Coordinates {
    return { partitionNo: 1, offset: this.offset++ };
  }

  /** Decides a batch. */
  decide(items: readonly KeyedItem[]): readonly Decision[] {
    return items.map((item) => {
      const before = this.refunded(item);
      const decision = decide([item], this.known).decisions[0]!;
      if (decision.type === 'decided' && decision.counted) this.entries.push(entryOf(item));
      if (!before && this.refunded(item)) this.reverse(item);
      return decision;
    });
  }

  private refunded({ feedNo, fields: { roundId } }: KeyedItem): boolean {
    return roundId !== null && (this.known.rounds.get(feedNo, roundId)?.refundedBy ?? null) !== null;
  }

  private reverse({ feedNo, fields: { roundId } }: KeyedItem): void {
    const counted = this.entries.filter((entry) => entry.feedNo === feedNo && entry.roundId === roundId);
    this.entries.push(...counted.map((entry) => ({ ...entry, amountMinor: -entry.amountMinor })));
  }

  /** The state of the only round. */
  get round(): Round {
    const [round, ...others] = this.known.rounds.values();
    if (round === undefined || others.length > 0) throw new Error('there is not exactly one round');
    return round;
  }

  /** The counted sums, as `kind currency` to minor units. Zero sums are included. */
  net(): { readonly [kindAndCurrency: string]: bigint } {
    const sums = new Map<string, bigint>();
    for (const { kind, currency, amountMinor } of this.entries) {
      const name = currency === null ? kind : `${kind} ${currency}`;
      sums.set(name, (sums.get(name) ?? 0n) + amountMinor);
    }
    return Object.fromEntries([...sums].sort());
  }
}

function entryOf({ feedNo, fields }: KeyedItem): Entry {
  return {
    feedNo,
    roundId: fields.roundId,
    kind: fields.kind ?? 'none',
    currency: fields.currency?.code ?? null,
    amountMinor: fields.amountMinor ?? 0n,
  };
}

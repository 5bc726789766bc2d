/**
 * The feed that the benchmark measures with: rounds of four events, events of some 263 bytes, keyed by player, with 5 % resends,
 * 1 % invalid events and 2 % of the rounds refunded.
 */
import { randomBytes } from 'node:crypto';
import { makeRandom } from '../random';

export interface FeedMessage {
  readonly key: string;
  readonly value: string;
}

export interface FeedShape {
  readonly events: number;
  readonly players: number;
  readonly resendShare: number;
  readonly invalidShare: number;
  readonly refundShare: number;
}

export const USUAL_SHAPE: Omit<FeedShape, 'events'> = {
  players: 20_000,
  resendShare: 0.05,
  invalidShare: 0.01,
  refundShare: 0.02,
};

/** A time-ordered UUID (version 7) whose random part is from the system: no two runs share an id. */
export function uuidV7(now: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Yields the messages of a feed, a round at a time. */
export function* makeFeed(shape: FeedShape, seed: number): Generator<FeedMessage> {
  const random = makeRandom(seed);
  const start = Date.now();
  const recent: FeedMessage[] = [];
  let made = 0;
  while (made < shape.events) {
    const player = `player-${random.below(shape.players)}`;
    const round = uuidV7(start + made);
    const refunded = random.chance(shape.refundShare);
    const stake = `${random.between(1, 50)}.50`;
    const kinds = [
      ['bet', stake],
      [refunded ? 'refund' : 'win', stake],
      ['settled', stake],
      ['win', '0.10'],
    ] as const;
    for (const [kind, amount] of kinds) {
      if (made++ >= shape.events) return;
      const resend = random.chance(shape.resendShare) ? recent[random.below(recent.length)] : undefined;
      if (resend !== undefined) {
        yield resend;
        continue;
      }
      const invalid = random.chance(shape.invalidShare);
      const message = {
        key: player,
        value: JSON.stringify({
          spec: 'promo.event.v1',
          event_id: uuidV7(start + made),
          brand: 'main',
          player_ref: player,
          kind,
          round_id: round,
          game: { id: 'g1' },
          amount: invalid ? 'ten' : amount,
          currency: 'EUR',
          occurred_at: new Date(start + made).toISOString(),
        }),
      };
      recent[made % 1000] = message;
      yield message;
    }
  }
}

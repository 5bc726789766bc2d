/**
 * The senders and players of the demo's feed. Senders are those of reference.yaml, with their players, games,
 * stakes and forms of ids.
 */
import { makeWeighted, type Random } from '../random';

/** A Kafka connection of reference.yaml, as its operator's side knows it. */
export interface Sender {
  readonly id: string;
  readonly topic: string;
  /** Shares its topic, so that its records name it in the header connection-id. */
  readonly shared: boolean;
  /** The one brand of the connection, which its events must not name. */
  readonly onlyBrand: boolean;
  readonly brands: readonly string[];
  readonly currencies: readonly string[];
  readonly games: readonly string[];
  /** Offset of the zone in which it writes times. */
  readonly zoneHours: number;
  readonly roundPrefix: string;
  readonly eventIds: 'uuid' | 'counter' | 'round';
  /** Share of the players. */
  readonly weight: number;
}

/** Prefix of every topic of the demo. On a shared Kafka the demo's own prefix replaces it. */
export const TOPIC_PREFIX = 'promo.demo.';

const FJORD_TOPIC = `${TOPIC_PREFIX}fjordspill`;
const FJORD = { zoneHours: 0, eventIds: 'uuid' } as const;

export const SENDERS = {
  lobby: {
    ...FJORD,
    id: 'fjord-lobby',
    topic: FJORD_TOPIC,
    shared: true,
    onlyBrand: false,
    brands: ['nordlys', 'nordlys', 'midnattsol'],
    currencies: ['EUR', 'EUR', 'SEK', 'NOK', 'GBP', 'BTC'],
    games: ['aurora-reels', 'trolls-gold', 'herring-run', 'rune-forge', 'lighthouse', 'midsummer-wilds'],
    roundPrefix: 'fj',
    weight: 38,
  },
  live: {
    ...FJORD,
    id: 'fjord-live',
    topic: FJORD_TOPIC,
    shared: true,
    onlyBrand: false,
    brands: ['nordlys', 'midnattsol'],
    currencies: ['EUR', 'SEK', 'NOK'],
    games: ['roulette-tromso', 'blackjack-aker', 'wheel-of-skagen'],
    roundPrefix: 'fl',
    weight: 20,
  },
  bingo: {
    ...FJORD,
    id: 'fjord-bingo',
    topic: `${TOPIC_PREFIX}fjord-bingo`,
    shared: false,
    onlyBrand: true,
    brands: ['bingohavn'],
    currencies: ['EUR', 'SEK'],
    games: ['bingo-90', 'bingo-75', 'keno-kvick'],
    roundPrefix: 'fb',
    weight: 12,
  },
  slots: {
    id: 'hanabi-slots',
    topic: `${TOPIC_PREFIX}hanabi`,
    shared: false,
    onlyBrand: true,
    brands: ['hanabi'],
    currencies: ['JPY', 'JPY', 'USDT'],
    games: ['hanabi-nights', 'koi-cascade', 'lucky-daruma', 'tengu-tower', 'sakura-spins'],
    zoneHours: 9,
    roundPrefix: 'hn',
    eventIds: 'counter',
    weight: 20,
  },
  tables: {
    id: 'hanabi-live',
    topic: `${TOPIC_PREFIX}hanabi-live`,
    shared: false,
    onlyBrand: false,
    brands: ['tsukimi', 'koinobori'],
    currencies: ['JPY', 'BTC', 'ETH', 'SOL'],
    games: ['sic-bo-asakusa', 'dragon-tiger', 'mahjong-rush'],
    zoneHours: 9,
    roundPrefix: 'hl',
    eventIds: 'round',
    weight: 10,
  },
} as const satisfies Record<string, Sender>;

export type SenderName = keyof typeof SENDERS;

/** The usual smallest stake in minor units: not below any brand's minimum. */
const SMALLEST_STAKES: Readonly<Record<string, bigint>> = {
  EUR: 20n,
  GBP: 20n,
  SEK: 200n,
  NOK: 200n,
  JPY: 20n,
  USDT: 200_000n,
  BTC: 1_000n,
  SOL: 2_000_000n,
  ETH: 100_000_000_000_000n,
};

/** Most stakes are small. */
const STAKE_LADDER = [1n, 1n, 1n, 2n, 2n, 2n, 3n, 5n, 5n, 10n, 10n, 20n, 25n, 50n, 100n];
/** Payouts in percent of the stake: many small ones, few large. */
const WIN_LADDER = [25n, 50n, 50n, 75n, 100n, 120n, 150n, 200n, 200n, 350n, 500n, 1_200n, 4_000n];
const DEPOSIT_LADDER = [50n, 100n, 100n, 125n, 250n, 250n, 500n, 1_000n, 2_500n];

export function smallestStake(currency: string): bigint {
  const stake = SMALLEST_STAKES[currency];
  if (stake === undefined) throw new RangeError(`no stakes are known in ${currency}`);
  return stake;
}

export const pickStake = (random: Random, currency: string): bigint =>
  smallestStake(currency) * random.pick(STAKE_LADDER);
export const pickWin = (random: Random, stake: bigint): bigint => (stake * random.pick(WIN_LADDER)) / 100n;
export const pickDeposit = (random: Random, currency: string): bigint =>
  smallestStake(currency) * random.pick(DEPOSIT_LADDER);

export interface Player {
  readonly ref: string;
  readonly sender: Sender;
  readonly brand: string;
  readonly currency: string;
  readonly pickGame: (random: Random) => string;
}

export interface World {
  /** Picks a player by activity, among those of `sender` if it is given. */
  player(random: Random, sender?: SenderName): Player;
}

const PLAYERS = 1_200;
/**
 * Activity of the n-th most active player is n^-SKEW: the first plays hundreds of rounds, most play a few.
 */
const SKEW = 0.9;

export function makeWorld(random: Random): World {
  const all = Object.values<Sender>(SENDERS);
  const pickSender = makeWeighted(all, ({ weight }) => weight);
  const players = Array.from({ length: PLAYERS }, (_, index): Player => {
    // Every sender has one of the busiest players, so that none of them is ever silent.
    const sender = all[index] ?? pickSender(random);
    const favourites = random.shuffled(sender.games);
    return {
      ref: `${sender.brands[0]?.slice(0, 2)}-${100_000 + index * 37 + random.below(37)}`,
      sender,
      brand: random.pick(sender.brands),
      currency: random.pick(sender.currencies),
      pickGame: makeWeighted(favourites, (_game, rank) => 1 / (rank + 1) ** 2),
    };
  });
  const activity = new Map(players.map((player, rank) => [player, (rank + 1) ** -SKEW]));
  const byActivity = (list: readonly Player[]) => makeWeighted(list, (player) => activity.get(player) ?? 0);
  const ofAll = byActivity(players);
  const ofSender = new Map(
    all.map((sender) => [sender.id, byActivity(players.filter((p) => p.sender === sender))]),
  );
  return {
    player: (chance, name) =>
      (name === undefined ? ofAll : (ofSender.get(SENDERS[name].id) ?? ofAll))(chance),
  };
}

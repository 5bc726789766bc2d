/** The unusual scenes of the feed. They cause every verdict, reason and anomaly that a feed can cause. */
import { FAULTY_BETS, type FaultyBet } from './faults';
import {
  type Arrival,
  changed,
  type Fact,
  type FeedRecord,
  type Play,
  rawRecord,
  recordOf,
  sentBy,
} from './play';
import { asItHappens, inThisOrder, type Scene } from './scenes';
import { SENDERS, type Sender, smallestStake } from './world';

export interface Case {
  readonly scene: Scene;
  readonly weight: number;
}

/** A faulty bet. Half of the senders correct it. A bet that a rule sets aside is part of a whole round. */
export const faultyBet =
  ({ patch, stake, sender, round: options }: FaultyBet): Scene =>
  (play, startMs) => {
    const { random } = play;
    const round = play.round(startMs, { ...options, ...(sender && { sender }) });
    const bet = round.bet(stake);
    const facts = [changed(bet, patch ?? {})];
    if (patch === undefined) {
      if (random.chance(0.3)) facts.push(round.win(smallestStake(round.player.currency)));
      facts.push(round.settled());
    } else if (random.chance(0.5)) {
      // The old id is used up, so the corrected bet has another one.
      const corrected = changed(bet, { event_id: play.eventId(bet.sender, bet.occurredMs) });
      facts.push({ ...corrected, occurredMs: bet.occurredMs + 30_000 }, round.settled());
    }
    return asItHappens(play, facts);
  };

const scene = (build: (play: Play, startMs: number) => Fact[]): Scene => {
  return (play, startMs) => inThisOrder(build(play, startMs));
};

const RESENDS: readonly Scene[] = [
  // The same content in other words: a time in another zone, a code in other letters, a field nobody reads.
  scene((play, startMs) => {
    const bet = play.round(startMs, { sender: 'lobby' }).bet();
    const occurredAt = new Date(bet.occurredMs).toISOString().replace('Z', '000+00:00');
    return [
      bet,
      changed(bet, { occurred_at: occurredAt, currency: String(bet.event.currency).toLowerCase(), retry: 1 }),
    ];
  }),
  // Different content under the same id: the first one counts.
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'slots' });
    const bet = round.bet();
    return [bet, changed(bet, { amount: '999' }), round.settled()];
  }),
  // A rejected event that was corrected under its old id: the id is used up.
  scene((play, startMs) => {
    const bet = play.round(startMs, { sender: 'live' }).bet();
    return [changed(bet, { amount: 5 }), bet, changed(bet, { event_id: play.eventId(bet.sender, startMs) })];
  }),
  // The same event by two connections that share topic and feed, then by one with another topic.
  scene((play, startMs) => {
    const bet = play.round(startMs, { sender: 'lobby' }).bet();
    return [bet, sentBy(SENDERS.live, bet)];
  }),
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'bingo' });
    const bet = round.bet();
    return [bet, sentBy(SENDERS.lobby, bet), round.settled()];
  }),
  // One connection bets, another refunds: one feed, one round.
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'live' });
    return [round.bet(), sentBy(SENDERS.lobby, round.refund()), round.settled()];
  }),
  // Equal ids in two feeds of one operator are unrelated.
  scene((play, startMs) => {
    const login = play.account('login', startMs, play.player('slots'));
    return [login, changed(sentBy(SENDERS.tables, login), { brand: 'tsukimi' })];
  }),
];

const ANOMALIES: readonly Scene[] = [
  scene((play, startMs) => {
    const round = play.round(startMs);
    return [round.bet(), round.settled(), round.settled()];
  }),
  scene((play, startMs) => {
    const round = play.round(startMs);
    const bet = round.bet();
    return [bet, round.settled(smallestStake(round.player.currency) * 500n)];
  }),
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'live' });
    return [round.bet(), changed(round.settled(), { player_ref: `${round.player.ref}-bonus` })];
  }),
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'tables' });
    const other = round.player.brand === 'tsukimi' ? 'koinobori' : 'tsukimi';
    return [round.bet(), round.settled(), changed(round.win(), { brand: other })];
  }),
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'live' });
    const other = round.player.currency === 'EUR' ? 'SEK' : 'EUR';
    return [round.bet(), round.settled(), changed(round.win(), { currency: other })];
  }),
];

const ODDITIES: readonly Scene[] = [
  // Valid, although they look odd: no win, no game, a long id, letters of all kinds.
  scene((play, startMs) => {
    const round = play.round(startMs, { sender: 'slots', game: null });
    return [round.bet(), round.win(0n), round.settled()];
  }),
  scene((play, startMs) => {
    const login = play.account('login', startMs, play.player('live'));
    return [changed(login, { event_id: `login/${'session-'.repeat(60)}${play.random.hex(8)}` })];
  }),
  scene((play, startMs) => {
    const ref = `Bjørn-\u{1f3b2}-${play.random.hex(4)}`;
    return [changed(play.account('deposit', startMs, play.player('lobby')), { player_ref: ref })];
  }),
];

/**
 * One round with many events. Their order is kept because all of them are in one partition. The report shows
 * this round.
 */
const eventfulRefund: Scene = scene((play, startMs) => {
  const { random } = play;
  let player = play.player('lobby');
  while (player.brand !== 'nordlys' || player.currency !== 'EUR') player = play.player('lobby');
  const round = play.round(startMs, { player });
  const bet = round.bet(BigInt(random.between(20, 40)) * 50n);
  const small = round.bet(10n);
  const more = round.bet(BigInt(random.between(4, 12)) * 50n);
  const win = round.win(BigInt(random.between(100, 900)) * 5n);
  const [settled, refund] = [round.settled(), round.refund()];
  const [lateBet, lateWin] = [round.bet(500n), round.win(250n)];
  const otherBet = changed(bet, { amount: '1000.00' });
  return [
    settled,
    win,
    bet,
    small,
    sentBy(SENDERS.live, bet),
    more,
    refund,
    otherBet,
    lateBet,
    lateWin,
    refund,
  ];
});

/** Records without a usable event_id. */
const UNUSABLE: readonly ((play: Play, fact: Fact) => FeedRecord['value'])[] = [
  () => null,
  (_play, { event }) => JSON.stringify(event).slice(0, -9),
  (_play, { event }) => Buffer.from(JSON.stringify(event).replace('"bet"', '"b\u00e9t"'), 'latin1'),
  (_play, { event }) => `\ufeff${JSON.stringify(event)}`,
  (_play, { event }) => JSON.stringify([event]),
  (_play, { event }) => JSON.stringify({ events: [event] }),
  (_play, { event }) => JSON.stringify({ ...event, event_id: undefined }),
  (_play, { event }) => JSON.stringify({ ...event, event_id: '' }),
  (play, { event }) => JSON.stringify({ ...event, event_id: play.random.below(1_000_000) }),
  (_play, { event }) => JSON.stringify({ ...event, event_id: 'half of a pair: \ud83c' }),
  // The Confluent wire format, which nobody can read without a schema registry.
  (_play, { event }) => Buffer.concat([Buffer.from([0, 0, 0, 0, 7]), Buffer.from(JSON.stringify(event))]),
];

/** Headers by which no connection claims a record of the shared topic. */
const UNCLAIMED: readonly FeedRecord['headers'][] = [
  {},
  { 'connection-id': 'fjord-old' },
  { 'connection-id': SENDERS.slots.id },
  { 'connection-id': [SENDERS.lobby.id, SENDERS.live.id] },
];
/**
 * Odd headers that a connection still claims: the same word twice, and any word on a topic of one connection.
 */
const CLAIMED_ALL_THE_SAME: readonly [Sender, FeedRecord['headers']][] = [
  [SENDERS.lobby, { 'connection-id': [SENDERS.lobby.id, SENDERS.lobby.id] }],
  [SENDERS.bingo, { 'connection-id': SENDERS.lobby.id }],
];

const once = (atMs: number, record: FeedRecord): Arrival[] => [{ atMs, record }];

const unusable = (spoil: (typeof UNUSABLE)[number]): Scene => {
  return (play, startMs) => {
    const bet = play.round(startMs).bet();
    return once(startMs, rawRecord(bet.sender, bet.playerRef, spoil(play, bet)));
  };
};

const headed = (sender: Sender, headers: FeedRecord['headers']): Scene => {
  return (play, startMs) => {
    const player = play.player(sender === SENDERS.bingo ? 'bingo' : 'lobby');
    const record = recordOf(play.round(startMs, { player }).bet());
    return once(startMs, { ...record, headers });
  };
};

export const CASES: readonly Case[] = [
  { scene: eventfulRefund, weight: 1 },
  ...FAULTY_BETS.map((fault) => ({ scene: faultyBet(fault), weight: fault.weight })),
  ...RESENDS.map((each) => ({ scene: each, weight: 8 })),
  ...ANOMALIES.map((each) => ({ scene: each, weight: 2 })),
  ...ODDITIES.map((each) => ({ scene: each, weight: 3 })),
  ...UNUSABLE.map((each) => ({ scene: unusable(each), weight: 2 })),
  ...UNCLAIMED.map((each) => ({ scene: headed(SENDERS.lobby, each), weight: 2 })),
  ...CLAIMED_ALL_THE_SAME.map(([sender, headers]) => ({ scene: headed(sender, headers), weight: 2 })),
];

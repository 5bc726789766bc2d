/** The usual scenes of the feed: rounds in order and out of order, refunds, account events, resends. */
import { type Arrival, type Fact, type Play, recordOf } from './play';

/** A scene begins at a moment and returns arrivals in any order. */
export type Scene = (play: Play, startMs: number) => Arrival[];

/** Facts as they arrive when nothing goes wrong: soon, and nearly always in order. */
export function asItHappens(play: Play, facts: readonly Fact[]): Arrival[] {
  return facts.map((fact) => ({ atMs: fact.occurredMs + play.delay(), record: recordOf(fact) }));
}

/** Facts that arrive in exactly this order, half a second apart. */
export function inThisOrder(facts: readonly Fact[]): Arrival[] {
  const lastMs = Math.max(...facts.map(({ occurredMs }) => occurredMs));
  return facts.map((fact, index) => ({ atMs: lastMs + index * 500, record: recordOf(fact) }));
}

const ordinaryRound: Scene = (play, startMs) => {
  const { random } = play;
  const round = play.round(startMs);
  const facts = [round.bet()];
  // At live tables a player bets on several things at once.
  while (facts.length < 4 && random.chance(0.22)) facts.push(round.bet());
  if (random.chance(0.34)) facts.push(round.win());
  facts.push(round.settled());
  const arrivals = asItHappens(play, facts);
  // A record without a key goes to any partition, and may overtake the others of its player.
  return random.chance(0.02)
    ? arrivals.map(({ atMs, record }) => ({ atMs, record: { ...record, key: null } }))
    : arrivals;
};

/** A whole round out of order: the sender's own queues were stuck and then sent everything at once. */
const scrambledRound: Scene = (play, startMs) => {
  const round = play.round(startMs);
  const facts = [round.bet(), round.bet(), round.win(), round.settled()];
  const releasedMs = startMs + play.random.between(20_000, 90_000);
  return play.random.shuffled(facts).map((fact, index) => ({
    atMs: releasedMs + index * play.random.between(1, 40),
    record: recordOf(fact),
  }));
};

/** The game server failed: the stake is refunded. */
const refundAfterBet: Scene = (play, startMs) => {
  const round = play.round(startMs);
  const facts = [round.bet()];
  if (play.random.chance(0.3)) facts.push(round.win());
  if (play.random.chance(0.3)) facts.push(round.settled());
  facts.push(round.refund());
  return asItHappens(play, facts);
};

const refundBeforeBet: Scene = (play, startMs) => {
  const round = play.round(startMs);
  const [bet, settled, refund] = [round.bet(), round.settled(), round.refund()];
  return inThisOrder(
    play.random.pick([
      [refund, bet],
      [refund, bet, settled],
      [bet, refund, settled],
    ]),
  );
};

const winAfterRefund: Scene = (play, startMs) => {
  const round = play.round(startMs);
  const [bet, win, refund] = [round.bet(), round.win(), round.refund()];
  return inThisOrder([bet, refund, win]);
};

const signIn: Scene = (play, startMs) => {
  const player = play.player();
  const facts = [play.account('login', startMs, player)];
  if (play.random.chance(0.3)) facts.push(play.account('deposit', startMs + 45_000, player));
  return asItHappens(play, facts);
};

const payOut: Scene = (play, startMs) => asItHappens(play, [play.account('withdrawal', startMs)]);

/** The sender had no answer in time and sends the same bytes again. */
const resentRound: Scene = (play, startMs) => {
  const arrivals = ordinaryRound(play, startMs);
  const again = play.random.pick(arrivals);
  return [...arrivals, { ...again, atMs: again.atMs + play.random.between(1_000, 60_000) }];
};

/** The usual scenes with their relative frequency. */
export const USUAL_SCENES: readonly { readonly scene: Scene; readonly weight: number }[] = [
  { scene: ordinaryRound, weight: 740 },
  { scene: scrambledRound, weight: 55 },
  { scene: resentRound, weight: 45 },
  { scene: refundAfterBet, weight: 14 },
  { scene: refundBeforeBet, weight: 6 },
  { scene: winAfterRefund, weight: 3 },
  { scene: signIn, weight: 95 },
  { scene: payOut, weight: 12 },
];

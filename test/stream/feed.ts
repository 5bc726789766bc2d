/**
 * A small feed of every kind of record, for runs that are compared with one another. The same seed gives the
 * same feed.
 */
import { makeRandom } from '../../dev/random';
import {
  aBet,
  aDeposit,
  aLogin,
  anotherBet,
  aRefund,
  aSettledOf,
  aWinOf,
  bytesOf,
} from '../support/builders';
import type { Outgoing } from '../support/kafka';
import type { World } from './world';

const PARTITIONS = 4;
/** Records of one round spread over this many other records. */
const REACH = 300;

/**
 * Records whose order matters share one partition: resends with other content, and the settled of a round. A
 * bet and its refund may be in different partitions.
 */
export function makeFeed(seed: number, records: number): Outgoing[] {
  const random = makeRandom(seed);
  let made = 0;
  const id = (kind: string) => `${kind}-${++made}`;
  const placed: { at: number; record: Outgoing }[] = [];
  const anywhere = () => random.between(0, PARTITIONS - 1);
  const place = (at: number, value: unknown, partition = anywhere()) => {
    placed.push({
      at,
      record: { value: Buffer.isBuffer(value) || value === null ? value : bytesOf(value), partition },
    });
  };

  while (placed.length < records) {
    const at = placed.length;
    const soon = () => at + random.between(0, REACH);
    const home = anywhere();
    const first = aBet({
      event_id: id('bet'),
      round_id: id('round'),
      player_ref: `p-${random.between(1, 50)}`,
      amount: `${random.between(0, 20)}.50`,
      currency: random.chance(0.8) ? 'EUR' : 'USD',
    });
    place(soon(), first);
    if (random.chance(0.4)) place(soon(), anotherBet(first, { event_id: id('bet') }));
    if (random.chance(0.5)) place(soon(), aWinOf(first, { event_id: id('win') }));
    if (random.chance(0.7)) place(soon(), aSettledOf(first, { event_id: id('settled') }), home);
    if (random.chance(0.1)) place(soon(), aSettledOf(first, { event_id: id('settled') }), home);
    if (random.chance(0.25)) place(soon(), aRefund(first, { event_id: id('refund') }));
    if (random.chance(0.2)) {
      const deposit = aDeposit({ event_id: id('deposit') });
      place(at, deposit, home);
      place(at + REACH, random.chance(0.5) ? deposit : { ...deposit, amount: '1.00' }, home);
    }
    if (random.chance(0.1)) place(soon(), aLogin({ event_id: id('login'), player_ref: '' }));
    if (random.chance(0.1)) place(soon(), aBet({ event_id: id('bet'), amount: '0' }));
    if (random.chance(0.05)) place(soon(), Buffer.from(`no json ${id('x')}`));
    if (random.chance(0.02)) place(soon(), null);
  }
  return placed.sort((a, b) => a.at - b.at).map(({ record }) => record);
}

/**
 * The result of a run in the tables, without the parts that may differ between runs. These are numbers,
 * times, and the order of a round's refund and its bet or settled. Before the refund they are accepted and
 * then reversed, after it they are skipped; either order leaves its marks on the round.
 */
export async function outcomeOf(world: World<string>): Promise<Record<string, unknown>> {
  const { records = 0, accepted = 0, skipped = 0, ...became } = await world.balance();
  return {
    verdicts: await world.rows(`
      select v.event_id, case when r.refunded and v.kind in ('bet', 'settled') and (v.verdict = 'accepted' or v.reason = 'round_refunded')
        then 'of a refunded round' else concat_ws('/', v.verdict, v.reason) end,
        v.player_ref, v.kind, v.round_id, v.amount_minor, v.currency, v.occurred_at
      from promo.verdicts v left join (select distinct round_id, refunded from promo.rounds) r using (round_id) order by 1`),
    rounds: await world.rows(`
      select round_id, refunded, refunded_by, settled and not refunded, currency, net_bet_minor, net_win_minor, net_settled_minor
      from promo.rounds order by 1, 5`),
    ledger: await world.rows(`
      select round_id, kind, currency, sum(amount_minor) from promo.ledger
      group by 1, 2, 3 having sum(amount_minor) <> 0 order by 1, 2, 3`),
    deliveries: await world.rows(
      'select event_id, content_differs, count(*) from promo.deliveries group by 1, 2 order by 1, 2',
    ),
    anomalies: await world.rows(`
      select round_id, anomaly from promo.anomalies
      where round_id not in (select round_id from promo.rounds where refunded) order by 1, 2`),
    balance: { ...became, records, acceptedOrSkipped: accepted + skipped },
    isBalanced: Object.values(became).reduce((sum, count) => sum + count, accepted + skipped) === records,
  };
}

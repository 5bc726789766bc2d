/** Counting promotions: the rate of the process, beside a query that counts everything, and the answers. */
import { writeFileSync } from 'node:fs';
import type { Client } from 'pg';
import { until } from '../../servers/deadline';
import { fillMonths, OPERATOR } from '../filled-months';
import { withClient } from '../guest';
import { watchProcess } from '../measure';
import type { Bench, Mode } from '../mode';
import { percentiles } from '../statistics';
import { figure } from '../table';

/** Five promotions, so that each bet counts in three of them, and each settled and deposit in one. */
const PROMOTIONS = `promotions:
  - { id: bets, operator: ${OPERATOR}, type: bet_count, target: 100, completes: each }
  - { id: turnover, operator: ${OPERATOR}, type: turnover_target, counts: bet, target: { EUR: "500.00" }, completes: each }
  - { id: race, operator: ${OPERATOR}, type: leaderboard, points: [{ counts: bet, per: { EUR: "1.00" }, points: 1 }] }
  - { id: rounds, operator: ${OPERATOR}, type: round_count, target: 50, completes: each }
  - { id: deposits, operator: ${OPERATOR}, type: deposit_target, target: { EUR: "100.00" }, completes: each }
`;
/** The same sums by one query: without completions, ranks, and the verdict that decided each of them. */
const GROUP_BY = `select player_ref, count(*) filter (where kind = 'bet'), sum(amount_minor) filter (where kind = 'bet'),
  count(*) filter (where kind = 'settled'), sum(amount_minor) filter (where kind = 'deposit')
from promo.facts where not refunded group by player_ref`;
const ONE_PLAYER = `select * from promo.promotion_progress where operator_id = $1 and player_ref = $2`;
const TOP = `select * from promo.leaderboard_with_players($1, 'race', null, 100)`;
const PLAYERS = `select player_ref from promo_store.promotion_progress tablesample system (20) limit 200`;

const GOALS = { playerMs: 5, topMs: 300, memoryMib: 96, refundsShare: 0.9, rebuildRate: 300_000 };
/** For each event, at most. */
const COUNT_MS = 2;
const BEGIN_MS = 60_000;
const END_MS = 30_000;
/** Each round has five events, so 2 % of the events are refunds. */
const ROUNDS_PER_REFUND = 10;
const CAUGHT_UP = 'select from promo.promotion_coverage where caught_up_at is not null';
const REBUILT =
  'select from promo.promotion_coverage where generation > 1 and rebuilt_because is null and caught_up_at is not null';

export const promotions: Mode = {
  name: 'promotions',
  about: 'the rate at which promotions are counted, beside one query, and the time of their answers',
  extent: { events: 1_000_000, days: 30, players: 50_000, games: 200 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const events = extent.number('events');
    const ofRefunds = await stage.withDatabase([], async (databaseUrl) => {
      await fillPromotions(bench, databaseUrl, ROUNDS_PER_REFUND);
      return countAll(bench, databaseUrl, [], CAUGHT_UP);
    });
    say(`2 % refunds: ${rateOf(events, ofRefunds.seconds)} events/s`);
    return stage.withDatabase([], async (databaseUrl) => {
      await fillPromotions(bench, databaseUrl);
      const counted = await countAll(bench, databaseUrl, [], CAUGHT_UP);
      say(`${rateOf(events, counted.seconds)} events/s, ${figure(counted.rss, 1)} MiB`);
      const rebuilt = await countAll(bench, databaseUrl, ['--rebuild', 'measured'], REBUILT);
      say(`again: ${rateOf(events, rebuilt.seconds)} events/s`);
      const asked = await withClient(databaseUrl, askAll, BEGIN_MS);
      const weighted = asked.player.map((value) => ({ value, count: 1 }));
      const [p50 = Number.NaN, p99 = Number.NaN] = percentiles(weighted, [0.5, 0.99]);
      const rowOf = (way: string, { seconds, rss }: Counted) => [
        ...[way, figure(seconds, 1), rateOf(events, seconds), figure(rss, 1)],
      ];
      const share = counted.seconds / ofRefunds.seconds;
      const highest = Math.max(counted.rss, ofRefunds.rss, rebuilt.rss);
      const goals = [
        [
          `progress of one player: p99 <= ${GOALS.playerMs} ms`,
          `${figure(p99, 1)} ms`,
          p99 <= GOALS.playerMs,
        ],
        [
          `the best 100 of a leaderboard <= ${GOALS.topMs} ms`,
          `${figure(asked.top)} ms`,
          asked.top <= GOALS.topMs,
        ],
        [
          `memory of the process <= ${GOALS.memoryMib} MiB`,
          `${figure(highest, 1)} MiB`,
          highest <= GOALS.memoryMib,
        ],
        [
          `with 2 % refunds >= ${GOALS.refundsShare} x the rate with 0.4 %`,
          `${figure(share, 2)} x`,
          share >= GOALS.refundsShare,
        ],
        [
          `counting again >= ${figure(GOALS.rebuildRate)} events/s`,
          `${rateOf(events, rebuilt.seconds)} events/s`,
          events / rebuilt.seconds >= GOALS.rebuildRate,
        ],
      ] as const;
      return {
        table: {
          columns: ['way', 's', 'events/s', 'highest RSS, MiB'],
          rows: [
            rowOf('promo-intake promotions, from nothing', counted),
            rowOf('the same, and 2 % of the events are refunds', ofRefunds),
            rowOf('promo-intake promotions --rebuild', rebuilt),
            [
              'one query with GROUP BY, without completions',
              ...[figure(asked.groupBy, 1), rateOf(events, asked.groupBy), ''],
            ],
          ],
          notes: [
            `Five promotions, ${figure(extent.number('players'))} players. A bet counts in three of them.`,
            `The progress of one player: p50 ${figure(p50, 1)} ms, p99 ${figure(p99, 1)} ms. The best 100 of the leaderboard: ${figure(asked.top)} ms.`,
          ],
        },
        goals: goals.map(([goal, measured, met]) => ({ id: 'promotions', goal, measured, met })),
        runs: [
          {
            events,
            seconds: counted.seconds,
            rss_mib: counted.rss,
            refunds_seconds: ofRefunds.seconds,
            refunds_rss_mib: ofRefunds.rss,
            rebuild_seconds: rebuilt.seconds,
            rebuild_rss_mib: rebuilt.rss,
            group_by_seconds: asked.groupBy,
            top_ms: asked.top,
          },
        ],
      };
    });
  },
};

const rateOf = (events: number, seconds: number): string => figure(Math.round(events / seconds));

async function fillPromotions(bench: Bench, databaseUrl: string, roundsPerRefund?: number): Promise<void> {
  const { stage } = bench;
  await fillMonths(bench, databaseUrl, roundsPerRefund === undefined ? {} : { roundsPerRefund });
  const file = stage.file('promotions.yaml');
  writeFileSync(file, PROMOTIONS);
  await stage.command(['promotions', 'apply', file], { DATABASE_URL: databaseUrl });
  await withClient(databaseUrl, (client) => client.query('vacuum analyze'), BEGIN_MS);
}

interface Counted {
  readonly seconds: number;
  readonly rss: number;
}

/** Runs the process until a query has a row. */
async function countAll(
  { stage, extent }: Bench,
  databaseUrl: string,
  options: readonly string[],
  done: string,
): Promise<Counted> {
  const began = performance.now();
  const counting = stage.start(['promotions', ...options], { DATABASE_URL: databaseUrl });
  const watch = watchProcess(counting.pid ?? 0);
  await withClient(databaseUrl, (client) =>
    until(
      'promotions have counted everything',
      BEGIN_MS + extent.number('events') * COUNT_MS,
      async () => ((await client.query(done)).rowCount ?? 0) > 0,
    ),
  );
  const seconds = (performance.now() - began) / 1000;
  const rss = watch.stop().peakRssMib;
  if (counting.pid !== undefined) process.kill(counting.pid, 'SIGTERM');
  await counting.untilDone(END_MS);
  return { seconds, rss };
}

async function askAll(client: Client) {
  await client.query('vacuum analyze promo_store.promotion_progress');
  const timed = async (text: string, values: readonly unknown[] = []) => {
    const began = performance.now();
    await client.query(text, [...values]);
    return performance.now() - began;
  };
  const { rows } = await client.query<{ player_ref: string }>(PLAYERS);
  const player: number[] = [];
  for (const { player_ref } of rows) player.push(await timed(ONE_PLAYER, [OPERATOR, player_ref]));
  await timed(TOP, [OPERATOR]);
  return { player, top: await timed(TOP, [OPERATOR]), groupBy: (await timed(GROUP_BY)) / 1000 };
}

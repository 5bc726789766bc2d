/** Counting promotions: the rate of the process, beside a query that counts everything, and the answers. */
import { writeFileSync } from 'node:fs';
import type { Client } from 'pg';
import { until } from '../../servers/deadline';
import { fillMonths, OPERATOR } from '../filled-months';
import { withClient } from '../guest';
import { residentMib } from '../measure';
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

const GOALS = { playerMs: 5, topMs: 300, memoryMib: 96 };
/** For each event, at most. */
const COUNT_MS = 2;
const BEGIN_MS = 60_000;
const END_MS = 30_000;
const SAMPLE_MS = 50;

export const promotions: Mode = {
  name: 'promotions',
  about: 'the rate at which promotions are counted, beside one query, and the time of their answers',
  extent: { events: 1_000_000, days: 30, players: 50_000, games: 200 },
  async run(bench) {
    const { stage, extent, say } = bench;
    return stage.withDatabase([], async (databaseUrl) => {
      await fillMonths(bench, databaseUrl);
      const file = stage.file('promotions.yaml');
      writeFileSync(file, PROMOTIONS);
      await stage.command(['promotions', 'apply', file], { DATABASE_URL: databaseUrl });
      await withClient(databaseUrl, (client) => client.query('vacuum analyze'), BEGIN_MS);
      const counted = await countAll(bench, databaseUrl);
      const events = extent.number('events');
      say(`${figure(Math.round(events / counted.seconds))} events/s, ${figure(counted.rss, 1)} MiB`);
      const asked = await withClient(databaseUrl, askAll, BEGIN_MS);
      const weighted = asked.player.map((value) => ({ value, count: 1 }));
      const [p50 = Number.NaN, p99 = Number.NaN] = percentiles(weighted, [0.5, 0.99]);
      return {
        table: {
          columns: ['way', 's', 'events/s', 'highest RSS, MiB'],
          rows: [
            [
              'promo-intake promotions, from nothing',
              figure(counted.seconds, 1),
              figure(Math.round(events / counted.seconds)),
              figure(counted.rss, 1),
            ],
            [
              'one query with GROUP BY, without completions',
              figure(asked.groupBy, 1),
              figure(Math.round(events / asked.groupBy)),
              '',
            ],
          ],
          notes: [
            `Five promotions, ${figure(extent.number('players'))} players. A bet counts in three of them.`,
            `The progress of one player: p50 ${figure(p50, 1)} ms, p99 ${figure(p99, 1)} ms. The best 100 of the leaderboard: ${figure(asked.top, 0)} ms.`,
          ],
        },
        goals: [
          {
            id: 'promotions',
            goal: `progress of one player: p99 <= ${GOALS.playerMs} ms`,
            measured: `${figure(p99, 1)} ms`,
            met: p99 <= GOALS.playerMs,
          },
          {
            id: 'promotions',
            goal: `memory of the process <= ${GOALS.memoryMib} MiB`,
            measured: `${figure(counted.rss, 1)} MiB`,
            met: counted.rss <= GOALS.memoryMib,
          },
        ],
        runs: [
          {
            events,
            seconds: counted.seconds,
            rss_mib: counted.rss,
            group_by_seconds: asked.groupBy,
            top_ms: asked.top,
          },
        ],
      };
    });
  },
};

/** Runs the process until it has counted everything. */
async function countAll(
  { stage, extent }: Bench,
  databaseUrl: string,
): Promise<{ readonly seconds: number; readonly rss: number }> {
  const began = performance.now();
  const counting = stage.start(['promotions'], { DATABASE_URL: databaseUrl });
  let rss = 0;
  const sampling = setInterval(() => {
    rss = Math.max(rss, residentMib(counting.pid ?? 0) || 0);
  }, SAMPLE_MS);
  const caughtUp = 'select from promo.promotion_coverage where caught_up_at is not null';
  try {
    await withClient(databaseUrl, (client) =>
      until(
        'promotions have counted everything',
        BEGIN_MS + extent.number('events') * COUNT_MS,
        async () => ((await client.query(caughtUp)).rowCount ?? 0) > 0,
      ),
    );
  } finally {
    clearInterval(sampling);
  }
  const seconds = (performance.now() - began) / 1000;
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

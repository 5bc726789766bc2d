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
/** The rows of the players who have points in the leaderboard. */
const ON_BOARD = `select p.* from promo_store.promotion_progress p
join promo_store.promotion_windows w using (window_no)
join promo_store.promotions x using (promotion_no)
where p.generation = (select generation from promo_store.folds where fold = 'promotions') and x.promotion_id = 'race' and p.score > 0`;
/** Further players, each with the points of one of them. So ties are longer than in life. */
const JOIN_BOARD = `insert into promo_store.promotion_progress (generation, window_no, player_ref, items, currencies, amounts,
  attained, has_attempts, score, scored_no, changed_no, changed_at)
select p.generation, p.window_no, p.player_ref || '-' || n, p.items, p.currencies, p.amounts,
  p.attained, p.has_attempts, p.score, p.scored_no, p.changed_no, p.changed_at
from (${ON_BOARD}) p, generate_series(1, $1::int) n order by n, p.player_ref limit $2::int`;
const ALL_OF_BOARD = `select sum(points), max(value) from promo.promotion_progress where operator_id = $1 and promotion_id = 'race'`;
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
  extent: { events: 1_000_000, days: 30, players: 50_000, games: 200, ranked: 1_000_000 },
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
      const ranked = extent.number('ranked');
      const asked = await withClient(databaseUrl, (client) => askAll(client, ranked), BEGIN_MS);
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
          `the best 100 of a leaderboard of ${figure(ranked)} players <= ${GOALS.topMs} ms`,
          `${figure(asked.topOfRanked)} ms`,
          asked.topOfRanked <= GOALS.topMs,
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
            `The progress of one player: p50 ${figure(p50, 1)} ms, p99 ${figure(p99, 1)} ms.`,
            `The best 100 of the leaderboard: ${figure(asked.top)} ms. With ${figure(ranked)} players: ${figure(asked.topOfRanked)} ms, and all progress of these ${figure(asked.allOfRanked, 1)} s.`,
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
            top_of_ranked_ms: asked.topOfRanked,
            all_of_ranked_seconds: asked.allOfRanked,
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

/** @param ranked the players of the larger leaderboard */
async function askAll(client: Client, ranked: number) {
  const timed = async (text: string, values: readonly unknown[] = []) => {
    const began = performance.now();
    await client.query(text, [...values]);
    return performance.now() - began;
  };
  /** The second answer: the first one fills caches. */
  const timedTwice = async (text: string, values: readonly unknown[]) => {
    await timed(text, values);
    return timed(text, values);
  };
  const vacuum = () => client.query('vacuum analyze promo_store.promotion_progress');
  await vacuum();
  const { rows } = await client.query<{ player_ref: string }>(PLAYERS);
  const player: number[] = [];
  for (const { player_ref } of rows) player.push(await timed(ONE_PLAYER, [OPERATOR, player_ref]));
  const top = await timedTwice(TOP, [OPERATOR]);
  const groupBy = (await timed(GROUP_BY)) / 1000;
  await joinBoard(client, ranked);
  await vacuum();
  const topOfRanked = await timedTwice(TOP, [OPERATOR]);
  const allOfRanked = (await timed(ALL_OF_BOARD, [OPERATOR])) / 1000;
  return { player, top, groupBy, topOfRanked, allOfRanked };
}

/** Adds players to the leaderboard until it has `ranked` players. */
async function joinBoard(client: Client, ranked: number): Promise<void> {
  const onBoard = async () => {
    const { rows } = await client.query<{ count: string }>(`select count(*) from (${ON_BOARD}) p`);
    return Number(rows[0]?.count);
  };
  const counted = await onBoard();
  await client.query(JOIN_BOARD, [Math.ceil(ranked / counted), Math.max(0, ranked - counted)]);
  const joined = await onBoard();
  if (joined < ranked) throw new Error(`the leaderboard has ${joined} players instead of ${ranked}`);
}

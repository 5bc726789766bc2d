/** The twenty questions of the analysts' guide, on months of verdicts: seconds, rows read, and the plan. */
import type { Client } from 'pg';
import { forNow, IDS_OF_STORE, type Ids, type Question, readQuestions } from '../../analysts-guide';
import { until } from '../../servers/deadline';
import { fillMonths, OPERATOR } from '../filled-months';
import { givePseudonyms } from '../filled-store';
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import { settingsText } from '../postgres-settings';
import type { Measured } from '../result';
import { median } from '../statistics';
import { figure } from '../table';

/**
 * A large store takes an hour to fill, on a machine that may have quiet minutes only. With this variable set,
 * a run fills a store, and keeps it until Ctrl-C.
 */
const KEEP_STORE = 'KEEP_STORE';
/** The address of a store that a run keeps: it is asked, and none is filled. */
const KEPT_STORE = 'KEPT_STORE';
/** As the guide recommends. */
const SESSION = `set timezone = 'UTC'; set work_mem = '64MB'`;
const GOAL_SECONDS = 1;
/** A larger store has a goal of its own. */
const LARGE = { events: 100_000_000, seconds: 5, variant: '100m' } as const;
const MEMORY = { shared_buffers: '4GB', max_wal_size: '4GB' } as const;
/** A fill takes half of the time if it waits for no disk. A crash may lose the store anyway. */
const FILLING = { fsync: 'off', wal_level: 'minimal', max_wal_senders: '0' } as const;
const COMPLETE_SINCE = `select (complete_since at time zone 'utc')::date::text as since from promo.rollup_coverage`;
const BEGIN_MS = 600_000;
/** For each event, at most. */
const FOLD_MS = 0.05;
const QUERY_DEADLINE_MS = 600_000;
const ROLLUPS_END_MS = 30_000;

interface Answer {
  readonly question: Question;
  readonly seconds: readonly number[];
  readonly rowsRead: number;
  readonly blocks: number;
  readonly node: string;
}

interface Answers {
  readonly answers: readonly Answer[];
  /** The day from which on the rollups have everything; null: they have all verdicts. */
  readonly completeSince: string | null;
}

export const questions: Mode = {
  name: 'questions',
  about: "the twenty questions of the analysts' guide on months of verdicts",
  ownPostgres: true,
  extent: { events: 20_000_000, days: 120, players: 50_000, games: 200, rounds: 3 },
  async run(bench) {
    return measuredOf(
      await measureAnswers(bench),
      bench.extent.number('rounds'),
      bench.extent.number('events'),
    );
  },
};

/** The result of all questions. */
function measuredOf({ answers, completeSince }: Answers, rounds: number, events: number): Measured {
  const isLarge = events >= LARGE.events;
  const goalSeconds = isLarge ? LARGE.seconds : GOAL_SECONDS;
  const slowest = answers.reduce((a, b) => (median(b.seconds) > median(a.seconds) ? b : a));
  return {
    table: {
      columns: ['question', 'lines', 'median, s', 'rows read', 'blocks read', 'most rows by'],
      rows: answers.map(({ question, seconds, rowsRead, blocks, node }) => [
        `${question.number}. ${question.title}`,
        figure(question.lines),
        figure(median(seconds), 3),
        figure(rowsRead),
        figure(blocks),
        node,
      ]),
      notes: [
        `Each question was asked once before, and then ${figure(rounds)} times. A block has 8 KiB.`,
        'Questions about a time range are about the last week.',
        ...(completeSince === null ? [] : [`The rollups are complete since ${completeSince}.`]),
      ],
    },
    goals: [
      {
        id: 'questions',
        goal: `each question answered in < ${goalSeconds} s at ${figure(events)} verdicts`,
        measured: `${figure(median(slowest.seconds), 2)} s for question ${slowest.question.number}`,
        met: median(slowest.seconds) < goalSeconds,
      },
    ],
    runs: answers.map(({ question, seconds, rowsRead, blocks }) => ({
      question: question.number,
      seconds: seconds.map((each) => each.toFixed(3)).join(' '),
      rows_read: rowsRead,
      blocks,
    })),
    settings: [`${settingsText(MEMORY)} work_mem=64MB`],
    ...(isLarge && { variant: LARGE.variant }),
  };
}

async function measureAnswers(bench: Bench): Promise<Answers> {
  const { stage, extent, say } = bench;
  const kept = process.env[KEPT_STORE];
  if (kept !== undefined) return askAll(kept, extent.number('rounds'), say);
  await stage.restartPostgres({ ...MEMORY, ...FILLING });
  return stage.withDatabase([], async (databaseUrl) => {
    await fillMonths(bench, databaseUrl);
    await withClient(databaseUrl, (client) => givePseudonyms(client, OPERATOR, extent.number('players')));
    await keepRollups(bench, databaseUrl);
    await stage.restartPostgres(MEMORY);
    if (process.env[KEEP_STORE] !== undefined) {
      say(`kept until Ctrl-C: ${KEPT_STORE}=${databaseUrl}`);
      await new Promise(() => {});
    }
    return askAll(databaseUrl, extent.number('rounds'), say);
  });
}

/** Asks each question of a filled store. */
async function askAll(databaseUrl: string, rounds: number, say: Bench['say']): Promise<Answers> {
  const answers: Answer[] = [];
  const [[ids = {}], [coverage]] = await withClient(databaseUrl, async (client) => [
    (await client.query<Ids>(IDS_OF_STORE)).rows,
    (await client.query<{ readonly since: string | null }>(COMPLETE_SINCE)).rows,
  ]);
  for (const question of readQuestions()) {
    const answer = await ask(databaseUrl, question, ids, rounds);
    say(`${question.number}. ${question.title}: ${figure(median(answer.seconds), 3)} s`);
    answers.push(answer);
  }
  return { answers, completeSince: coverage?.since ?? null };
}

/** Runs the rollups until they have everything. */
async function keepRollups({ stage, extent, say }: Bench, databaseUrl: string): Promise<void> {
  say('counting the rollups');
  const rollups = stage.start(['rollups'], { DATABASE_URL: databaseUrl });
  const withinMs = BEGIN_MS + extent.number('events') * FOLD_MS;
  const caughtUp = 'select from promo.rollup_coverage where caught_up_at is not null';
  await withClient(databaseUrl, (client) =>
    until(
      'the rollups have everything',
      withinMs,
      async () => ((await client.query(caughtUp)).rowCount ?? 0) > 0,
    ),
  );
  if (rollups.pid !== undefined) process.kill(rollups.pid, 'SIGTERM');
  await rollups.untilDone(ROLLUPS_END_MS);
  await withClient(databaseUrl, (client) => client.query('vacuum analyze'), withinMs);
}

function ask(databaseUrl: string, question: Question, ids: Ids, rounds: number): Promise<Answer> {
  return withClient(
    databaseUrl,
    async (client) => {
      await client.query(SESSION);
      const sql = forNow(question.sql, ids);
      const seconds: number[] = [];
      for (let round = 0; round <= rounds; round++) {
        const began = performance.now();
        await client.query(sql);
        if (round > 0) seconds.push((performance.now() - began) / 1000);
      }
      return { question, seconds, ...(await explain(client, sql)) };
    },
    QUERY_DEADLINE_MS,
  );
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Function Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

/** Rows that scans of tables read, the blocks read, and the scan with the most rows. */
async function explain(client: Client, sql: string): Promise<Pick<Answer, 'rowsRead' | 'blocks' | 'node'>> {
  const { rows } = await client.query<{ 'QUERY PLAN': readonly { readonly Plan: PlanNode }[] }>(
    `explain (analyze, buffers, timing off, format json) ${sql}`,
  );
  const plan = rows[0]?.['QUERY PLAN'][0]?.Plan;
  if (plan === undefined) throw new Error(`no plan: ${sql}`);
  const read = new Map<string, number>();
  for (const node of nodesOf(plan)) {
    const scanned = node['Relation Name'] ?? node['Function Name'];
    if (scanned === undefined) continue;
    const rowsOfLoop =
      node['Actual Rows'] +
      (node['Rows Removed by Filter'] ?? 0) +
      (node['Rows Removed by Index Recheck'] ?? 0);
    const name = `${node['Node Type']} on ${scanned.replace(/_\d{4}_\d{2}$/, '')}`;
    read.set(name, (read.get(name) ?? 0) + rowsOfLoop * node['Actual Loops']);
  }
  const [most] = [...read].sort(([, a], [, b]) => b - a);
  return {
    rowsRead: Math.round([...read.values()].reduce((a, b) => a + b, 0)),
    blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    node: most?.[0] ?? '',
  };
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

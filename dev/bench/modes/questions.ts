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

/** As the guide recommends. */
const SESSION = `set timezone = 'UTC'; set work_mem = '64MB'`;
const GOAL_SECONDS = 1;
const MEMORY = { shared_buffers: '4GB', max_wal_size: '2GB' } as const;
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

export const questions: Mode = {
  name: 'questions',
  about: "the twenty questions of the analysts' guide on months of verdicts",
  ownPostgres: true,
  extent: { events: 20_000_000, days: 120, players: 50_000, games: 200, rounds: 3 },
  async run(bench) {
    return measuredOf(await measureAnswers(bench), bench.extent.number('rounds'));
  },
};

/** The result of all questions. */
export function measuredOf(answers: readonly Answer[], rounds: number): Measured {
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
      ],
    },
    goals: [
      {
        id: 'questions',
        goal: `each question answered in < ${GOAL_SECONDS} s`,
        measured: `${figure(median(slowest.seconds), 2)} s for question ${slowest.question.number}`,
        met: median(slowest.seconds) < GOAL_SECONDS,
      },
    ],
    runs: answers.map(({ question, seconds, rowsRead, blocks }) => ({
      question: question.number,
      seconds: seconds.map((each) => each.toFixed(3)).join(' '),
      rows_read: rowsRead,
      blocks,
    })),
    settings: [`${settingsText(MEMORY)} work_mem=64MB`],
  };
}

async function measureAnswers(bench: Bench): Promise<Answer[]> {
  const { stage, extent } = bench;
  await stage.restartPostgres(MEMORY);
  return stage.withDatabase([], async (databaseUrl) => {
    await fillMonths(bench, databaseUrl);
    await withClient(databaseUrl, (client) => givePseudonyms(client, OPERATOR, extent.number('players')));
    await keepRollups(bench, databaseUrl);
    return askAll(databaseUrl, extent.number('rounds'), bench.say);
  });
}

/** Asks each question of a filled store. */
export async function askAll(databaseUrl: string, rounds: number, say: Bench['say']): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const question of readQuestions()) {
    const answer = await ask(databaseUrl, question, rounds);
    say(`${question.number}. ${question.title}: ${figure(median(answer.seconds), 3)} s`);
    answers.push(answer);
  }
  return answers;
}

/** Runs the rollups until they have everything. */
async function keepRollups({ stage, extent, say }: Bench, databaseUrl: string): Promise<void> {
  say('counting the rollups');
  const rollups = stage.start(['rollups'], { DATABASE_URL: databaseUrl });
  const caughtUp = 'select from promo.rollup_coverage where caught_up_at is not null';
  await withClient(databaseUrl, (client) =>
    until(
      'the rollups have everything',
      BEGIN_MS + extent.number('events') * FOLD_MS,
      async () => ((await client.query(caughtUp)).rowCount ?? 0) > 0,
    ),
  );
  if (rollups.pid !== undefined) process.kill(rollups.pid, 'SIGTERM');
  await rollups.untilDone(ROLLUPS_END_MS);
  await withClient(databaseUrl, (client) => client.query('vacuum analyze'), BEGIN_MS);
}

function ask(databaseUrl: string, question: Question, rounds: number): Promise<Answer> {
  return withClient(
    databaseUrl,
    async (client) => {
      await client.query(SESSION);
      const [ids = {}] = (await client.query<Ids>(IDS_OF_STORE)).rows;
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

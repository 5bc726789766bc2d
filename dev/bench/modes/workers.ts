/**
 * Several workers in one group, on the usual feed and on a feed in which all workers write to the same few
 * rounds (P8).
 */

import { type FeedMessage, makeFeed, makeHotRounds, USUAL_SHAPE } from '../feed';
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import { publishHeldBack } from '../publish';
import type { Goal } from '../result';
import { drainTogether, type Run, rateOf, recordOf } from '../runs';
import { PARTITIONS } from '../stage';
import { median, rounded, sumOf } from '../statistics';
import { figure, times } from '../table';
import { decidingMs, lostToRetries } from '../worker-log';

const LOST_GOAL_PERCENT = 2;
const FEEDS = ['usual', 'hot rounds'] as const;
type Feed = (typeof FEEDS)[number];

interface Entry {
  readonly feed: Feed;
  readonly workers: number;
  readonly run: Run;
  readonly deadlocks: number;
  readonly again: number;
  readonly undecided: number;
  /** Share of the time in which batches were decided. */
  readonly lostPercent: number;
}

export const workers: Mode = {
  name: 'workers',
  about: 'rate, deadlocks and retries of 1, 2 and 4 workers in one group',
  extent: { events: 400_000, rounds: 2, workers: [1, 2, 4], hot: 16 },
  async run(bench) {
    const { extent } = bench;
    const [counts, rounds] = [extent.numbers('workers'), extent.number('rounds')];
    const entries: Entry[] = [];
    for (const feed of FEEDS) {
      for (let round = 1; round <= rounds; round++)
        for (const workers of counts) entries.push(await measureRun(bench, feed, workers, round));
    }
    const groups = FEEDS.flatMap((feed) =>
      counts.map((workers) => ({
        feed,
        workers,
        list: entries.filter((entry) => entry.feed === feed && entry.workers === workers),
      })),
    );
    const rate = (list: readonly Entry[]) => median(list.map(({ run }) => rateOf(run)));
    const rateOfOne = (feed: Feed) =>
      rate(entries.filter((entry) => entry.feed === feed && entry.workers === counts[0]));
    return {
      table: {
        columns: [
          'feed',
          'workers',
          'events/s',
          `x ${counts[0]}`,
          'deadlocks',
          'repeated',
          'undecided',
          'lost %',
        ],
        rows: groups.map(({ feed, workers, list }) => [
          feed,
          figure(workers),
          figure(rate(list)),
          times(rate(list) / rateOfOne(feed)),
          figure(sumOf(list, ({ deadlocks }) => deadlocks)),
          figure(sumOf(list, ({ again }) => again)),
          figure(sumOf(list, ({ undecided }) => undecided)),
          figure(Math.max(...list.map(({ lostPercent }) => lostPercent)), 2),
        ]),
        notes: [
          'Rates are medians, counts are sums over the rounds. Lost: the share of the deciding time before a last retry or in waits, in the worst round.',
        ],
      },
      goals: goalsOf(entries),
      runs: entries.map(({ run, lostPercent, ...entry }) => ({
        ...entry,
        lost_percent: lostPercent,
        ...recordOf('workers', run),
      })),
    };
  },
};

function feedOf({ extent }: Bench, feed: Feed): Iterable<FeedMessage> {
  const events = extent.number('events');
  return feed === 'usual'
    ? makeFeed({ ...USUAL_SHAPE, events })
    : makeHotRounds(events, extent.number('hot'));
}

async function measureRun(bench: Bench, feed: Feed, workers: number, round: number): Promise<Entry> {
  const { stage, say } = bench;
  const topic = await stage.makeTopic();
  const { records, release } = await publishHeldBack(stage.brokers, topic, feedOf(bench, feed));
  const entry = await stage.withDatabase([topic], async (databaseUrl) => {
    const course = { databaseUrl, topic, records, groupId: stage.newGroup(), partitions: PARTITIONS };
    const run = await drainTogether(stage, course, workers, release);
    const busyMs = sumOf(run.logs, decidingMs);
    return {
      feed,
      workers,
      run,
      deadlocks: await deadlocksIn(databaseUrl),
      again: sumOf(run.logs, (log) => log.again.length),
      undecided: sumOf(run.logs, (log) => log.undecided.length),
      lostPercent: rounded((100 * sumOf(run.logs, lostToRetries)) / busyMs),
    };
  });
  await stage.removeTopic(topic);
  say(
    `${feed}, round ${round}, ${workers} workers: ${figure(rateOf(entry.run))} events/s, ${entry.deadlocks} deadlocks, ${entry.again} batches repeated`,
  );
  return entry;
}

/**
 * Deadlocks since the database was made. Read once the workers have ended: their sessions have reported
 * everything by then.
 */
async function deadlocksIn(databaseUrl: string): Promise<number> {
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ deadlocks: number }>(
      'select deadlocks::float8 as deadlocks from pg_stat_database where datname = current_database()',
    );
    return rows[0]?.deadlocks ?? Number.NaN;
  });
}

function goalsOf(entries: readonly Entry[]): Goal[] {
  const deadlocks = sumOf(entries, (entry) => entry.deadlocks);
  const lost = Math.max(...entries.map(({ lostPercent }) => lostPercent));
  return [
    { id: 'P8', goal: 'no deadlock', measured: figure(deadlocks), met: deadlocks === 0 },
    {
      id: 'P8',
      goal: `time lost to retries <= ${LOST_GOAL_PERCENT} %`,
      measured: `${figure(lost, 2)} % at worst`,
      met: lost <= LOST_GOAL_PERCENT,
    },
  ];
}

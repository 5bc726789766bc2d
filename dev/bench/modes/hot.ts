/** One partition has far too much to do, or cannot be decided: the other partitions keep their pace (P10). */
import type { Client } from 'pg';
import { eventText, type FeedMessage, makeFeed, USUAL_SHAPE, uuidV7 } from '../feed';
import { withClient } from '../guest';
import { latenciesOf } from '../latencies';
import type { Bench, Mode } from '../mode';
import { type PacedLoad, type PacedRun, runPaced, untilDecided } from '../paced';
import { publish } from '../publish';
import { PARTITIONS } from '../stage';
import { percentiles, sumOf } from '../statistics';
import { figure, times } from '../table';
import { fullRate } from '../usual';

const GOAL = 0.9;
/** The partition in trouble. */
const HOT = 0;
const BACKLOG_TIMES = 20;
const ROUND = 'poisoned-round';
const CASES = ['no trouble', 'backlog', 'undecided'] as const;
type Case = (typeof CASES)[number];

interface Entry {
  readonly name: Case;
  /** Load of all other partitions together, in events a second. */
  readonly offered: number;
  readonly rate: number;
  readonly p99: number;
  /** Rate of the hot partition. */
  readonly hotRate: number;
  readonly retries: number;
}

export const hot: Mode = {
  name: 'hot',
  about: 'the other partitions beside one with a backlog, and beside one that is undecided',
  extent: { rate: 0, events: 250_000, seconds: 30, warmup: 5, load: 30 },
  async run(bench) {
    const { extent } = bench;
    const full = await fullRate(bench);
    const rate = Math.round((full * extent.number('load')) / 100);
    const entries: Entry[] = [];
    for (const name of CASES) entries.push(await measureCase(bench, name, rate));
    const plain = entries[0]?.rate ?? Number.NaN;
    return {
      table: {
        columns: [
          'hot partition',
          'others offered',
          'others decided',
          'x no trouble',
          'others p99 ms',
          'hot decided',
          'its retries',
        ],
        rows: entries.map((entry) => [
          entry.name,
          figure(entry.offered),
          figure(entry.rate),
          times(entry.rate / plain),
          figure(entry.p99),
          figure(entry.hotRate),
          figure(entry.retries),
        ]),
        notes: ['Rates are events a second while the load was on.'],
      },
      goals: entries.slice(1).map((entry) => ({
        id: 'P10',
        goal: `beside a partition with ${entry.name === 'backlog' ? `a ${BACKLOG_TIMES} x backlog` : 'an undecided record'} the others keep >= ${GOAL} x`,
        measured: `${times(entry.rate / plain)} x`,
        met: entry.rate / plain >= GOAL,
      })),
      runs: entries.map(({ name, offered, rate, p99, hotRate, retries }) => ({
        hot_partition: name,
        others_offered: offered,
        others_decided: rate,
        others_p99_ms: p99,
        hot_decided: hotRate,
        hot_retries: retries,
      })),
      settings: [
        `full rate ${figure(full)} events/s, paced ${figure(rate)} events/s over ${PARTITIONS} partitions`,
      ],
    };
  },
};

async function measureCase(bench: Bench, name: Case, rate: number): Promise<Entry> {
  const { stage, extent, say } = bench;
  const warmup = extent.number('warmup');
  const seconds = extent.number('seconds') + warmup;
  say(`${name}: ${figure(rate)} events/s for ${seconds} s`);
  const topic = await stage.makeTopic();
  const run = await stage.withDatabase([topic], (databaseUrl) => {
    const load = { topic, databaseUrl, rate, seconds };
    if (name === 'backlog') return runWithBacklog(bench, load);
    return name === 'undecided' ? runUndecided(bench, load) : runPaced(bench, load);
  });
  await stage.removeTopic(topic);
  const entry = { name, ...summarize(run, warmup, seconds) };
  say(`${name}: others ${figure(entry.rate)} events/s, p99 ${figure(entry.p99)} ms`);
  return entry;
}

async function runWithBacklog(bench: Bench, load: PacedLoad): Promise<PacedRun> {
  const backlog = Math.round((BACKLOG_TIMES * load.rate * load.seconds) / PARTITIONS);
  const feed = makeFeed({ ...USUAL_SHAPE, events: backlog });
  bench.say(`publishing a backlog of ${figure(backlog)} records`);
  await publish(bench.stage.brokers, load.topic, inHot(feed), bench.say);
  return runPaced(bench, { ...load, otherRecords: backlog });
}

function* inHot(feed: Iterable<FeedMessage>): Generator<FeedMessage> {
  for (const message of feed) yield { ...message, partition: HOT };
}

/**
 * A first event opens the round, and another session locks it. A second event then waits for that lock, again
 * and again.
 */
async function runUndecided(bench: Bench, load: PacedLoad): Promise<PacedRun> {
  const { brokers } = bench.stage;
  return withClient(load.databaseUrl, (client) =>
    runPaced(bench, {
      ...load,
      otherRecords: 2,
      async before(worker) {
        await publish(brokers, load.topic, [eventOfRound()]);
        await untilDecided(load, 1, worker);
        await lockRound(client);
        await publish(brokers, load.topic, [eventOfRound()]);
      },
      async after() {
        await client.query('rollback');
      },
    }),
  );
}

function eventOfRound(): FeedMessage {
  const at = Date.now();
  const event = { eventId: uuidV7(at), player: 'player', kind: 'bet', round: ROUND, amount: '1.00', at };
  return { key: ROUND, value: eventText(event), partition: HOT };
}

async function lockRound(client: Client): Promise<void> {
  await client.query('begin');
  const { rowCount } = await client.query(
    'select round_no from promo_store.rounds where round_id = $1 for update',
    [ROUND],
  );
  if (rowCount !== 1) throw new Error(`there is no round ${ROUND} to lock`);
}

function summarize(
  { sends, log, startedAt }: PacedRun,
  warmup: number,
  seconds: number,
): Omit<Entry, 'name'> {
  const [from, to] = [startedAt + warmup * 1000, startedAt + seconds * 1000];
  const during = log.batches.filter(({ at }) => at >= from && at < to);
  const scheduled = sends.filter(
    ({ scheduledAt, partition }) => scheduledAt >= from && scheduledAt < to && partition !== HOT,
  );
  const perSecond = (events: number) => events / ((to - from) / 1000);
  const [p99 = Number.NaN] = percentiles(latenciesOf(scheduled, log.batches), [0.99]);
  const of = (isHot: boolean) => during.filter(({ partition }) => (partition === HOT) === isHot);
  return {
    offered: Math.round(perSecond(sumOf(scheduled, ({ count }) => count))),
    rate: Math.round(perSecond(sumOf(of(false), ({ events }) => events))),
    hotRate: Math.round(perSecond(sumOf(of(true), ({ events }) => events))),
    p99,
    retries: log.undecided.filter(({ source }) => source?.partition === HOT).length,
  };
}

/** Promotions beside the intake: its rate, the time from commit to progress, a large round refunded. */
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../servers/deadline';
import {
  alone,
  beside,
  besideCounter,
  type Counter,
  type Counting,
  LAG_NOTE,
  measureLag,
  measureRounds,
  measureWays,
  medianRate,
  medianShare,
  progressOf,
  type Round,
  recordsOf,
  startCounting,
  type Way,
} from '../beside-fold';
import { eventText, makeBetsOf, uuidV7 } from '../feed';
import { kafkaAt, withClient } from '../guest';
import { residentMib } from '../measure';
import type { Bench, Mode } from '../mode';
import { stopWorker, untilDecided } from '../paced';
import { type Published, publish } from '../publish';
import { drain } from '../runs';
import type { Stage } from '../stage';
import { percentiles, rounded } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

const GOALS = {
  intakeShare: 0.9,
  rebuildShare: 0.8,
  lagMedianMs: 500,
  lagMs: 2_000,
  refundMs: 1_000,
  flat: 1.1,
};
const START_MS = 60_000;
/** A million verdicts are counted again. */
const VERIFY_MS = 180_000;
/** For each bet of a round, at most. */
const COUNT_MS = 0.5;
const SAMPLE_MS = 10;
const BESIDE = 'beside the promotions';
const TRIGGER = 'with a row trigger';
const HISTORY = 'into a store with history';
const REBUILD = 'beside a rebuild of the history';

/** Each promotion counts all bets, or all settled events. */
const PROMOTIONS = `promotions:
  - { id: bets, operator: bench, type: bet_count, target: 100, completes: each }
  - { id: turnover, operator: bench, type: turnover_target, counts: bet, target: { EUR: "500.00" }, completes: each }
  - { id: race, operator: bench, type: leaderboard, points: [{ counts: bet, per: { EUR: "1.00" }, points: 1 }] }
  - { id: rounds, operator: bench, type: round_count, target: 50, completes: each }
  - { id: settled, operator: bench, type: leaderboard, points: [{ counts: settled, per: { EUR: "1.00" }, points: 1 }] }
`;

const COUNTER: Counter = {
  name: 'promotions',
  coverage: 'promo.promotion_coverage',
  async prepare(stage, databaseUrl) {
    const file = stage.file('promotions.yaml');
    writeFileSync(file, PROMOTIONS);
    await stage.command(['promotions', 'apply', file], { DATABASE_URL: databaseUrl });
  },
  async expectSound(stage, databaseUrl) {
    await stage.command(['promotions', 'verify'], { DATABASE_URL: databaseUrl }, VERIFY_MS);
  },
};

/**
 * The same sums in the deciding transaction, without windows, completions, ranks and refunds: the way that
 * most schemas take.
 */
const ROW_TRIGGER = `create table public.progress (promotion text, player_ref text, amount bigint not null, primary key (promotion, player_ref));
create function public.count_progress() returns trigger language plpgsql as $$
begin
  if new.counted and new.kind in (1, 3) then
    insert into public.progress
    select p.promotion, new.player_ref, p.amount
    from (values (1, 'bets', 1), (1, 'turnover', new.amount_minor), (1, 'race', new.amount_minor), (3, 'rounds', 1), (3, 'settled', new.amount_minor))
      p (kind, promotion, amount)
    where p.kind = new.kind
    on conflict (promotion, player_ref) do update set amount = progress.amount + excluded.amount;
  end if;
  return null;
end $$;
create trigger count_progress after insert on promo_store.history for each row execute function public.count_progress()`;
const withRowTrigger: Way = async (_stage, databaseUrl, intake) => {
  await withClient(databaseUrl, (client) => client.query(ROW_TRIGGER));
  const run = await intake();
  await withClient(databaseUrl, async (client) => {
    const { rows } = await client.query('select from public.progress limit 1');
    if (rows.length === 0) throw new Error('the trigger counted nothing');
  });
  return run;
};

export const progress: Mode = {
  name: 'progress',
  about: 'the intake beside promotions, the time from commit to progress, and the refund of a large round',
  extent: {
    events: 250_000,
    rounds: 2,
    history: 500_000,
    backlog: 800_000,
    seconds: 25,
    warmup: 10,
    bets: 1_000_000,
  },
  async run(bench) {
    const { extent, say } = bench;
    const ways = new Map([
      ['alone', alone],
      [BESIDE, beside(COUNTER)],
      [TRIGGER, withRowTrigger],
    ]);
    const rounds = await measureWays(bench, ways);
    const [share, triggerShare] = [BESIDE, TRIGGER].map((name) => medianShare(rounds, name, 'alone'));
    const rate = Math.round(medianRate(rounds, 'alone') / 2);
    const lags = await measureLag(bench, COUNTER, rate);
    const [p50 = Number.NaN, p99 = Number.NaN, most = Number.NaN] = percentiles(lags, [0.5, 0.99, 1]);
    say(`commit to progress: p50 ${figure(p50)} ms, p99 ${figure(p99)} ms`);
    const besideRebuild = await measureBesideRebuild(bench);
    const rebuildShare = medianShare(besideRebuild, REBUILD, HISTORY);
    const bets = extent.number('bets');
    const refund = await measureRefund(bench, bets);
    say(`refund of ${figure(bets)} bets: ${figure(refund.ms)} ms`);
    const growth = refund.highest / refund.before;
    const goals = [
      [
        `intake beside the promotions >= ${GOALS.intakeShare} x`,
        `${times(share ?? Number.NaN)} x`,
        (share ?? 0) >= GOALS.intakeShare,
      ],
      [
        `intake beside a rebuild >= ${GOALS.rebuildShare} x`,
        `${times(rebuildShare)} x`,
        rebuildShare >= GOALS.rebuildShare,
      ],
      [
        `commit to progress at half of the full rate: p50 <= ${GOALS.lagMedianMs / 1000} s`,
        `${figure(p50 / 1000, 2)} s`,
        p50 <= GOALS.lagMedianMs,
      ],
      [
        `commit to progress at half of the full rate: p99 <= ${GOALS.lagMs / 1000} s`,
        `${figure(p99 / 1000, 2)} s`,
        p99 <= GOALS.lagMs,
      ],
      [
        `refund of a round of ${figure(bets)} bets <= ${GOALS.refundMs / 1000} s`,
        `${figure(refund.ms / 1000, 2)} s`,
        refund.ms <= GOALS.refundMs,
      ],
      [`resident memory flat meanwhile (<= ${GOALS.flat} x)`, `${times(growth)} x`, growth <= GOALS.flat],
    ] as const;
    return {
      table: {
        columns: ['figure', 'measured'],
        rows: [
          ['intake alone, events/s', figure(medianRate(rounds, 'alone'))],
          ['intake beside the promotions, events/s', figure(medianRate(rounds, BESIDE))],
          ['the same, times the rate alone', times(share ?? Number.NaN)],
          ['intake with a row trigger that counts, events/s', figure(medianRate(rounds, TRIGGER))],
          ['the same, times the rate alone', times(triggerShare ?? Number.NaN)],
          [`intake ${HISTORY}, events/s`, figure(medianRate(besideRebuild, HISTORY))],
          [`intake ${REBUILD}, events/s`, figure(medianRate(besideRebuild, REBUILD))],
          ['the same, times the rate without a rebuild', times(rebuildShare)],
          [`commit to progress at ${figure(rate)} events/s, p50 ms`, figure(p50)],
          ['the same, p99 ms', figure(p99)],
          ['the same, longest, ms', figure(most)],
          [`refund of a round of ${figure(bets)} bets, ms`, figure(refund.ms)],
          [
            'resident memory before and meanwhile, MiB',
            `${figure(refund.before)}, ${figure(refund.highest)}`,
          ],
        ],
        notes: [
          'Five promotions. A bet counts in three of them, and a settled in two.',
          LAG_NOTE,
          `The history has ${figure(extent.number('history'))} events, and the intake decides ${figure(extent.number('backlog'))} beside its rebuild.`,
          'The refund counts from the send of its event to the progress without the round.',
        ],
      },
      goals: goals.map(([goal, measured, met]) => ({ id: 'promotions', goal, measured, met })),
      runs: [
        ...recordsOf(rounds),
        ...recordsOf(besideRebuild),
        { rate, lag_p50_ms: Math.round(p50), lag_p99_ms: Math.round(p99), lag_most_ms: Math.round(most) },
        {
          bets,
          refund_ms: Math.round(refund.ms),
          rss_before_mib: rounded(refund.before),
          rss_highest_mib: rounded(refund.highest),
        },
      ],
    };
  },
};

const REBUILDS = 'select from promo.promotion_coverage where rebuilt_because is not null';

/**
 * Measures the intake into a store whose history is counted, with and without a rebuild of it. The intake is
 * longer than a slice, since a rebuild gives way from one slice to the next.
 *
 * @throws where a rebuild ends before the intake: its history is too short for the machine
 */
async function measureBesideRebuild(bench: Bench): Promise<Round[]> {
  const { stage, extent, say } = bench;
  const history = await publishUsual(bench, extent.number('history'));
  const published = await publishUsual(bench, extent.number('backlog'));
  const intakeOf = (databaseUrl: string, { topic, records }: Published) =>
    drain(stage, { databaseUrl, topic, records, groupId: stage.newGroup() });
  const besideRebuild: Way = async (_stage, databaseUrl, intake) => {
    const counting = startCounting(stage, COUNTER, databaseUrl, ['--rebuild', 'measured']);
    const rebuilds = () =>
      withClient(databaseUrl, async (client) => ((await client.query(REBUILDS)).rowCount ?? 0) > 0);
    await until('the rebuild runs', START_MS, rebuilds);
    const run = await intake();
    if (!(await rebuilds())) throw new Error('the rebuild ended before the intake: raise BENCH_HISTORY');
    await counting.untilCaughtUp(2, VERIFY_MS);
    await counting.end();
    return run;
  };
  return measureRounds(
    bench,
    new Map([
      [HISTORY, alone],
      [REBUILD, besideRebuild],
    ]),
    (way) =>
      stage.withDatabase([history.topic, published.topic], async (databaseUrl) => {
        await intakeOf(databaseUrl, history);
        await besideCounter(stage, COUNTER, databaseUrl, async () => say('the history is counted'));
        return way(stage, databaseUrl, () => intakeOf(databaseUrl, published));
      }),
  );
}

interface Refund {
  /** From the send of the refund to the progress without its round. */
  readonly ms: number;
  /** Resident memory of the promotions before the refund, and the highest meanwhile, in MiB. */
  readonly before: number;
  readonly highest: number;
}

async function measureRefund({ stage, say }: Bench, bets: number): Promise<Refund> {
  const topic = await stage.makeTopic();
  const sent = await publish(stage.brokers, topic, makeBetsOf(ROUND, bets), say);
  return stage.withDatabase([topic], (databaseUrl) =>
    besideCounter(stage, COUNTER, databaseUrl, async (counting) => {
      const worker = stage.startWorker([], {
        DATABASE_URL: databaseUrl,
        KAFKA_GROUP_ID: stage.newGroup(),
        KAFKA_TOPICS: topic,
      });
      await untilDecided({ databaseUrl, topic }, sent.records, worker);
      await counting.untilCaughtUp(1, START_MS + bets * COUNT_MS);
      const refund = await sendRefund(stage, databaseUrl, topic, counting);
      await untilDecided({ databaseUrl, topic }, sent.records + 1, worker);
      await stopWorker(worker);
      return refund;
    }),
  );
}

const ROUND = 'large';
const COUNTED_BETS = `select from promo.promotion_progress where promotion_id = 'bets' and value_minor > 0`;

async function sendRefund(
  stage: Stage,
  databaseUrl: string,
  topic: string,
  { pid }: Counting,
): Promise<Refund> {
  const producer = kafkaAt(stage.brokers).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  const before = residentMib(pid);
  let highest = before;
  const sampling = setInterval(() => {
    highest = Math.max(highest, residentMib(pid));
  }, SAMPLE_MS);
  try {
    const player = `player-of-${ROUND}`;
    const at = Date.now();
    const event = { eventId: uuidV7(at), player, kind: 'refund', round: ROUND, amount: '1.00', at } as const;
    return await withClient(databaseUrl, async (client) => {
      const began = performance.now();
      const { given } = await progressOf(client, COUNTER);
      await producer.send({ topic, messages: [{ key: player, value: eventText(event) }] });
      for (;;) {
        const { counted } = await progressOf(client, COUNTER);
        const { rows } = await client.query(COUNTED_BETS);
        if (counted > given && rows.length === 0) break;
        if (performance.now() - began > START_MS) throw new Error('the refund is not counted');
        await sleep(SAMPLE_MS);
      }
      return { ms: performance.now() - began, before, highest };
    });
  } finally {
    clearInterval(sampling);
    await producer.disconnect();
  }
}

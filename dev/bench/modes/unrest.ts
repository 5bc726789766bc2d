/**
 * A long time under a steady load while everything else changes (`make soak`). A second worker joins and
 * leaves, by turns in order and by SIGKILL. Kafka is restarted, by turns after an orderly end and after
 * SIGKILL. In the end the counts of events sent, records in Kafka and events decided have to be the same, and
 * the store sound.
 */
import type { Client } from 'pg';
import type { Child } from '../../servers/child';
import { sleep, until } from '../../servers/deadline';
import { kafkaAt, withClient } from '../guest';
import {
  growthGoal,
  memoryChart,
  quarterTable,
  recordsOf,
  residentGoal,
  type Sample,
  sampleMemory,
} from '../memory';
import type { Bench, Mode } from '../mode';
import { runPaced } from '../paced';
import type { Measured } from '../result';
import type { Stage } from '../stage';
import { rounded, sumOf } from '../statistics';
import { figure } from '../table';

/** From the end of a fault to the next decision. */
const STANDSTILL_GOAL_S = 35;
const COMMITTED_DEADLINE_MS = 180_000;
/** Long, since the invariants read everything. */
const VERIFY_DEADLINE_MS = 900_000;
const COUNT_DEADLINE_MS = 300_000;
const PROGRESS_EVERY_MS = 500;
/** Sends of the producer in flight that are retried when Kafka is back. */
const MAX_IN_FLIGHT = 8;

interface Faults {
  joined: number;
  left: number;
  killed: number;
  kafkaStopped: number;
  kafkaKilled: number;
}

/** Times at which Kafka was back, in milliseconds since 1970. */
type FaultEnds = number[];

export const unrest: Mode = {
  name: 'unrest',
  about:
    'nothing lost and nothing twice under a steady load, while workers come and go and Kafka is restarted (make soak)',
  ownKafka: true,
  extent: { rate: 1_000, minutes: 60, rebalance: 30, restart: 120, sample: 10 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const [rate, minutes] = [extent.number('rate'), extent.number('minutes')];
    const topic = await stage.makeTopic();
    const group = stage.newGroup();
    const faults: Faults = { joined: 0, left: 0, killed: 0, kafkaStopped: 0, kafkaKilled: 0 };
    const faultEnds: FaultEnds = [];
    let samples: Sample[] = [];
    let standstillMs = 0;
    say(`${figure(rate)} events/s for ${minutes} minutes`);
    return stage.withDatabase([topic], async (databaseUrl) => {
      const settings = {
        DATABASE_URL: databaseUrl,
        KAFKA_GROUP_ID: group,
        KAFKA_TOPICS: topic,
        // At debug level, a line for each batch would make a log of a hundred megabytes.
        LOG_LEVEL: 'info',
      };
      const run = await runPaced(bench, {
        topic,
        databaseUrl,
        rate,
        settings,
        seconds: minutes * 60,
        recordEvery: 0,
        // Without resends in the feed, the number of sent events is known by their count alone. Each resend
        // in the store is then a repeated send of the producer.
        resendShare: 0,
        maxInFlight: MAX_IN_FLIGHT,
        async meanwhile(worker, startedAt) {
          const end = startedAt + minutes * 60_000;
          const over = { isSo: false };
          const disturb = async () => {
            try {
              [samples] = await Promise.all([
                sampleMemory(bench, worker, startedAt),
                disturbGroup(bench, settings, end, faults),
                restartKafka(bench, end, faults, faultEnds),
              ]);
            } finally {
              over.isSo = true;
            }
          };
          [standstillMs] = await Promise.all([watchProgress(databaseUrl, faultEnds, over), disturb()]);
        },
        after: () => untilCommitted(stage, topic, group),
      });
      const counts = await withClient(databaseUrl, countStored, COUNT_DEADLINE_MS);
      const inKafka = await recordsIn(stage, topic);
      say(
        `sent ${run.records}, in Kafka ${inKafka}, ${JSON.stringify(counts)}; comparing the store with Kafka`,
      );
      const verified = await stage.command(['verify'], settings, VERIFY_DEADLINE_MS);
      const outcome = { published: run.records, inKafka, ...counts, faults, standstillMs };
      return describe(outcome, samples, minutes, verified.trimEnd().split('\n').at(-1) ?? '');
    });
  },
};

interface Stored {
  readonly verdicts: number;
  readonly events: number;
  readonly resends: number;
  readonly readAgain: number;
}

interface Outcome extends Stored {
  /** Events that were sent and acknowledged, each with an id of its own. */
  readonly published: number;
  readonly inKafka: number;
  readonly faults: Faults;
  readonly standstillMs: number;
}

function describe(outcome: Outcome, samples: readonly Sample[], minutes: number, verified: string): Measured {
  const { published, inKafka, verdicts, events, resends, readAgain, faults, standstillMs } = outcome;
  const lost = published - events;
  const twice = verdicts - events;
  const unanswered = inKafka - verdicts - resends;
  const isExact = lost === 0 && twice === 0 && unanswered === 0 && verified === 'sound';
  return {
    table: {
      columns: ['', 'count'],
      rows: [
        ['events sent and acknowledged', figure(published)],
        ['records in Kafka, with resends of the producer', figure(inKafka)],
        ['events with a verdict', figure(events)],
        ['verdicts', figure(verdicts)],
        ['resends', figure(resends)],
        ['records that were read again', figure(readAgain)],
        ['workers that joined; left; were killed', `${faults.joined}; ${faults.left}; ${faults.killed}`],
        ['starts of Kafka after its end; after SIGKILL', `${faults.kafkaStopped}; ${faults.kafkaKilled}`],
        [
          'RSS MiB by quarter, median (highest)',
          quarterTable(samples, minutes)
            .rows.map(([, rss, most]) => `${rss} (${most})`)
            .join('; '),
        ],
      ],
      notes: [`\`promo-intake verify\` ends with: ${verified}.`],
    },
    goals: [
      {
        id: 'I1, I2, I5',
        goal: '0 lost, 0 twice, every record answered, the store sound',
        measured: `${lost} lost, ${twice} twice, ${unanswered} unanswered, ${verified}`,
        met: isExact,
      },
      {
        id: 'I9',
        goal: `decisions continue within ${STANDSTILL_GOAL_S} s, counted from Kafka's being back where it was away`,
        measured: `${figure(standstillMs / 1000, 1)} s at most`,
        met: standstillMs <= STANDSTILL_GOAL_S * 1000,
      },
      growthGoal('I8', samples, minutes),
      residentGoal('I8', samples),
    ],
    runs: [
      {
        published,
        in_kafka: inKafka,
        events,
        verdicts,
        resends,
        read_again: readAgain,
        lost,
        twice,
        unanswered,
        verified,
        standstill_s: rounded(standstillMs / 1000),
        ...faults,
      },
      ...recordsOf(samples),
    ],
    chart: memoryChart('Resident memory while workers come and go and Kafka is restarted', samples),
    ...(isExact ? {} : { failure: 'sent and decided events differ' }),
  };
}

/**
 * A second worker joins, and leaves at the next turn: two rebalances. On every other exit the group notices
 * only the missing heartbeats.
 */
async function disturbGroup(
  { stage, extent, say }: Bench,
  settings: Readonly<Record<string, string>>,
  end: number,
  faults: Faults,
): Promise<void> {
  const everyMs = extent.number('rebalance') * 1000;
  let second: Child | null = null;
  for (let at = Date.now() + everyMs; at < end; at += everyMs) {
    await sleep(at - Date.now());
    if (second === null) {
      second = stage.startWorker([], settings);
      faults.joined++;
      say('a second worker joins');
    } else if (faults.left <= faults.killed) {
      await second.stop();
      second = null;
      faults.left++;
      say('it leaves');
    } else {
      await second.kill();
      second = null;
      faults.killed++;
      say('it is killed');
    }
  }
  await second?.stop();
}

async function restartKafka(
  { stage, extent, say }: Bench,
  end: number,
  faults: Faults,
  faultEnds: FaultEnds,
): Promise<void> {
  const everyMs = extent.number('restart') * 1000;
  for (let at = Date.now() + everyMs; at < end; at += everyMs) {
    await sleep(at - Date.now());
    const isOrderly = faults.kafkaStopped <= faults.kafkaKilled;
    const began = Date.now();
    await (isOrderly ? stage.kafka.stop() : stage.kafka.kill());
    await stage.kafka.start();
    faultEnds.push(Date.now());
    if (isOrderly) faults.kafkaStopped++;
    else faults.kafkaKilled++;
    say(
      `Kafka was ${isOrderly ? 'stopped' : 'killed'}, and is back after ${figure((Date.now() - began) / 1000, 1)} s`,
    );
  }
}

/**
 * @returns the longest time in which nothing was decided at all, not counting the time until a fault ended
 */
async function watchProgress(
  databaseUrl: string,
  faultEnds: FaultEnds,
  over: { readonly isSo: boolean },
): Promise<number> {
  return withClient(databaseUrl, async (client) => {
    let longest = 0;
    let [decided, since] = [0, Date.now()];
    const standstill = () => Date.now() - Math.max(since, faultEnds.at(-1) ?? 0);
    while (!over.isSo) {
      const now = await sumOfPartitions(client, 'records_read');
      if (now > decided) {
        // The time before the first batch is no standstill.
        if (decided > 0) longest = Math.max(longest, standstill());
        [decided, since] = [now, Date.now()];
      }
      await sleep(PROGRESS_EVERY_MS);
    }
    return Math.max(longest, standstill());
  });
}

async function sumOfPartitions(client: Client, column: 'records_read' | 'redeliveries'): Promise<number> {
  const { rows } = await client.query<{ sum: number }>(
    `select coalesce(sum(${column}), 0)::float8 as sum from promo.partitions`,
  );
  return rows[0]?.sum ?? 0;
}

async function countStored(client: Client): Promise<Stored> {
  const count = async (query: string) => {
    const { rows } = await client.query<{ count: number }>(`select (${query})::float8 as count`);
    return rows[0]?.count ?? Number.NaN;
  };
  return {
    verdicts: await count('select count(*) from promo_store.history'),
    events: await count('select count(*) from promo_store.event_keys'),
    resends: await count('select count(*) from promo_store.resends'),
    readAgain: await sumOfPartitions(client, 'redeliveries'),
  };
}

async function recordsIn(stage: Stage, topic: string): Promise<number> {
  const admin = kafkaAt(stage.brokers).admin();
  await admin.connect();
  const offsets = await admin.fetchTopicOffsets(topic);
  await admin.disconnect();
  // No transactions and no compaction: every offset is a record.
  return sumOf(offsets, ({ low, high }) => Number(high) - Number(low));
}

/** Waits until everything is committed, so that no decided record is in flight any more. */
async function untilCommitted(stage: Stage, topic: string, groupId: string): Promise<void> {
  const admin = kafkaAt(stage.brokers).admin();
  await admin.connect();
  try {
    await until('everything is committed', COMMITTED_DEADLINE_MS, async () => {
      const [ends, [committed]] = [
        await admin.fetchTopicOffsets(topic),
        await admin.fetchOffsets({ groupId, topics: [topic] }),
      ];
      const offsets = new Map(
        committed?.partitions.map(({ partition, offset }) => [partition, Number(offset)]),
      );
      return ends.every(
        ({ partition, high }) => Number(high) === 0 || offsets.get(partition) === Number(high),
      );
    });
  } finally {
    await admin.disconnect();
  }
}

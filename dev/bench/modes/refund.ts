/** The refund of a very large round costs as much as any other refund (P11). */

import type { Child } from '../../servers/child';
import { until } from '../../servers/deadline';
import { eventText, type FeedMessage, makeBetsOf, uuidV7 } from '../feed';
import { kafkaAt, withClient } from '../guest';
import { residentMib } from '../measure';
import type { Bench, Mode } from '../mode';
import { stopWorker, untilDecided } from '../paced';
import { publish } from '../publish';
import { figure } from '../table';
import { readWorkerLog } from '../worker-log';

const GOAL_SECONDS = 1;
/** The limit for "flat": resident memory while the refund is decided, compared with just before. */
const FLAT = 1.1;
const START_DEADLINE_MS = 60_000;
const DECISION_DEADLINE_MS = 60_000;
const SAMPLE_MS = 10;
/** Memory is also sampled for this long after the decision. */
const AFTERWARDS_MS = 1_000;
/** Pause between the last bet and the refund, so that the work after a decision is over. */
const SETTLE_MS = 2_000;

interface Entry {
  readonly bets: number;
  readonly ms: number;
  readonly rssBefore: number;
  readonly rssHighest: number;
}

export const refund: Mode = {
  name: 'refund',
  about: 'time and memory of refunding a round of up to a million events',
  isExperiment: true,
  extent: { sizes: [1_000, 100_000, 1_000_000] },
  async run(bench) {
    const sizes = bench.extent.numbers('sizes');
    const entries = await measureRounds(bench, sizes);
    const largest = entries.at(-1);
    return {
      table: {
        columns: ['bets in the round', 'refund decided, ms', 'RSS before, MiB', 'highest RSS, MiB'],
        rows: entries.map(({ bets, ms, rssBefore, rssHighest }) => [
          figure(bets),
          figure(ms),
          figure(rssBefore, 1),
          figure(rssHighest, 1),
        ]),
        notes: ['From the send of the refund to its answered commit.'],
      },
      goals: [
        {
          id: 'P11',
          goal: `refund of ${figure(largest?.bets ?? 0)} events decided in < ${GOAL_SECONDS} s`,
          measured: `${figure(largest?.ms ?? Number.NaN)} ms`,
          met: largest === undefined ? null : largest.ms < GOAL_SECONDS * 1000,
        },
        {
          id: 'P11',
          goal: `resident memory flat meanwhile (<= ${FLAT} x)`,
          measured: `${figure((largest?.rssHighest ?? Number.NaN) / (largest?.rssBefore ?? Number.NaN), 2)} x`,
          met: largest === undefined ? null : largest.rssHighest <= FLAT * largest.rssBefore,
        },
      ],
      runs: entries.map(({ bets, ms, rssBefore, rssHighest }) => ({
        bets,
        refund_ms: ms,
        rss_before_mib: rssBefore,
        rss_highest_mib: rssHighest,
      })),
    };
  },
};

async function measureRounds({ stage, say }: Bench, sizes: readonly number[]): Promise<Entry[]> {
  const topic = await stage.makeTopic();
  return stage.withDatabase([topic], async (databaseUrl) => {
    const worker = stage.startWorker([], {
      DATABASE_URL: databaseUrl,
      KAFKA_GROUP_ID: stage.newGroup(),
      KAFKA_TOPICS: topic,
    });
    await worker.untilLogged(/"partitions assigned"/, START_DEADLINE_MS);
    const entries: Entry[] = [];
    let sent = 0;
    for (const bets of sizes) {
      const round = `round-of-${bets}`;
      say(`${figure(bets)} bets of one round`);
      sent += (await publish(stage.brokers, topic, makeBetsOf(round, bets), say)).records;
      await untilDecided({ databaseUrl, topic }, sent, worker);
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      const entry = { bets, ...(await refundRound(stage.brokers, topic, round, worker)) };
      sent++;
      await requireRefunded(databaseUrl, round);
      say(`refunded within ${entry.ms} ms`);
      entries.push(entry);
    }
    await stopWorker(worker);
    return entries;
  });
}

async function refundRound(brokers: string, topic: string, round: string, worker: Child) {
  const producer = kafkaAt(brokers).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  const rssBefore = residentMib(worker.pid ?? 0);
  let rssHighest = rssBefore;
  const sampling = setInterval(() => {
    rssHighest = Math.max(rssHighest, residentMib(worker.pid ?? 0));
  }, SAMPLE_MS);
  try {
    const sentAt = Date.now();
    const [place] = await producer.send({ topic, messages: [refundOf(round, sentAt)] });
    const offset = Number(place?.baseOffset);
    const decision = () =>
      readWorkerLog(worker.output()).batches.find(
        ({ partition, nextOffset }) => partition === place?.partition && nextOffset > offset,
      );
    await until('the refund is decided', DECISION_DEADLINE_MS, () => decision() !== undefined);
    const ms = (decision()?.at ?? Number.NaN) - sentAt;
    await new Promise((resolve) => setTimeout(resolve, AFTERWARDS_MS));
    return { ms, rssBefore, rssHighest };
  } finally {
    clearInterval(sampling);
    await producer.disconnect();
  }
}

function refundOf(round: string, at: number): FeedMessage {
  const player = `player-of-${round}`;
  return {
    key: player,
    value: eventText({ eventId: uuidV7(at), player, kind: 'refund', round, amount: '1.00', at }),
  };
}

async function requireRefunded(databaseUrl: string, round: string): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ refunded: boolean }>(
      'select refunded_by is not null as refunded from promo_store.rounds where round_id = $1',
      [round],
    );
    if (rows[0]?.refunded !== true) throw new Error(`the round ${round} is not refunded`);
  });
}

/**
 * The webhook's rate and latency by the number of events in a request. Each sender sends its next request
 * once the last one is answered.
 */
import { randomBytes } from 'node:crypto';
import type { Child } from '../../servers/child';
import { makeFeed, USUAL_SHAPE } from '../feed';
import { withClient } from '../guest';
import { watchProcess } from '../measure';
import type { Bench, Mode } from '../mode';
import { inTurns, type PostgresUse, watchPostgres } from '../runs';
import { checkpoint, WEBHOOK } from '../stage';
import { median, percentiles, rounded } from '../statistics';
import { figure } from '../table';
import { sendFromAll } from '../webhook-senders';

const START_MS = 30_000;
const READY = /"port":(\d+),"connections"/;

interface Entry extends PostgresUse {
  readonly eventsOfARequest: number;
  readonly senders: number;
  readonly requests: number;
  readonly refused: number;
  readonly seconds: number;
  /** Time from a request to its answer, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly cpuSeconds: number;
  readonly peakRssMib: number;
}

export const webhook: Mode = {
  name: 'webhook',
  about: "the webhook's rate and time by the events of a request",
  extent: { sizes: [1, 10, 100, 500], senders: 32, seconds: 10, rounds: 3 },
  async run(bench) {
    const { extent, say } = bench;
    const [sizes, senders] = [extent.numbers('sizes'), extent.number('senders')];
    const [seconds, rounds] = [extent.number('seconds'), extent.number('rounds')];
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const size of inTurns(sizes, round)) {
        const entry = await measure(bench, size, senders, seconds);
        entries.push(entry);
        say(`round ${round} of ${rounds}: ${size} a request: ${figure(rateOf(entry))} events/s`);
      }
    }
    const of = (size: number, pick: (entry: Entry) => number) =>
      median(entries.filter(({ eventsOfARequest }) => eventsOfARequest === size).map(pick));
    return {
      table: {
        columns: [
          'events a request',
          'requests/s',
          'events/s',
          'p50 ms',
          'p99 ms',
          'CPU s',
          'Postgres CPU s',
          'RSS MiB',
        ],
        rows: sizes.map((size) => [
          figure(size),
          figure(of(size, (entry) => entry.requests / entry.seconds)),
          figure(of(size, rateOf)),
          figure(of(size, ({ p50 }) => p50)),
          figure(of(size, ({ p99 }) => p99)),
          figure(
            of(size, (entry) => per100k(entry, entry.cpuSeconds)),
            2,
          ),
          figure(
            of(size, (entry) => per100k(entry, entry.postgresCpuSeconds)),
            2,
          ),
          figure(of(size, ({ peakRssMib }) => peakRssMib)),
        ]),
        notes: [
          `Medians, with ${senders} senders. CPU of the webhook and of Postgres in seconds for 100,000 events, without that of the senders.`,
        ],
      },
      goals: [],
      runs: entries.map((entry) => ({
        name: 'webhook',
        events_a_request: entry.eventsOfARequest,
        senders: entry.senders,
        requests: entry.requests,
        refused: entry.refused,
        seconds: rounded(entry.seconds),
        events_per_second: Math.round(rateOf(entry)),
        p50_ms: rounded(entry.p50, 1),
        p99_ms: rounded(entry.p99, 1),
        webhook_cpu_seconds_per_100k: rounded(per100k(entry, entry.cpuSeconds)),
        postgres_cpu_seconds_per_100k: rounded(per100k(entry, entry.postgresCpuSeconds)),
        rss_mib: Math.round(entry.peakRssMib),
      })),
    };
  },
};

function rateOf({ eventsOfARequest, requests, seconds }: Entry): number {
  return (eventsOfARequest * requests) / seconds;
}

function per100k({ eventsOfARequest, requests }: Entry, value: number): number {
  return (value / (eventsOfARequest * requests)) * 100_000;
}

async function measure({ stage }: Bench, size: number, senders: number, seconds: number): Promise<Entry> {
  const secret = randomBytes(32);
  return stage.withDatabase([], async (databaseUrl) => {
    await checkpoint(databaseUrl);
    const child: Child = stage.startWebhook(`whsec_${secret.toString('base64')}`, {
      DATABASE_URL: databaseUrl,
    });
    await child.untilLogged(READY, START_MS);
    const port = Number(READY.exec(child.output())?.[1]);
    const feed = makeFeed({ ...USUAL_SHAPE, events: Number.POSITIVE_INFINITY });
    const watch = watchProcess(child.pid ?? 0);
    const before = watch.stop();
    return withClient(stage.serverUrl, async (client) => {
      const postgres = await watchPostgres(client);
      const during = watchProcess(child.pid ?? 0);
      const began = performance.now();
      const { latenciesMs, refused } = await sendFromAll({ port, connectionId: WEBHOOK, secret }, feed, {
        size,
        senders,
        seconds,
      });
      const took = (performance.now() - began) / 1000;
      const weighted = latenciesMs.map((value) => ({ value, count: 1 }));
      const [p50 = Number.NaN, p99 = Number.NaN] = percentiles(weighted, [0.5, 0.99]);
      const use = during.stop();
      const postgresUse = await postgres.stop();
      await child.stop();
      return {
        eventsOfARequest: size,
        senders,
        seconds: took,
        requests: latenciesMs.length,
        refused,
        p50,
        p99,
        cpuSeconds: use.cpuSeconds - before.cpuSeconds,
        peakRssMib: use.peakRssMib,
        ...postgresUse,
      };
    });
  });
}

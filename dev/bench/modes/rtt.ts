/** The rate with Postgres further away: a proxy delays each direction by half of the round trip (P7). */
import type { Child } from '../../servers/child';
import { countRounds, type JudgedRun } from '../counted';
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import type { Published } from '../publish';
import { drain, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

/** Least share of the rate at 0, by the round trip in milliseconds. */
const GOALS = [
  { trip: 2.5, share: 0.7 },
  { trip: 10, share: 0.85 },
] as const;
const PROXY_START_MS = 10_000;
const PINGS = 50;

interface Entry {
  readonly round: number;
  /** Round trip through the proxy; null without a proxy. */
  readonly roundTripMs: number | null;
  readonly pingMs: number;
  readonly run: Run;
}

export const rtt: Mode = {
  name: 'rtt',
  about: 'rate by the round trip to Postgres',
  extent: { events: 200_000, rounds: 3, trips: [0, 1, 2.5, 5, 10] },
  async run(bench) {
    const { extent, say } = bench;
    const [rounds, trips] = [extent.number('rounds'), extent.numbers('trips')];
    const published = await publishUsual(bench, extent.number('events'));
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const trip of [null, ...trips]) {
        const entry = await measureTrip(bench, published, trip);
        say(
          `round ${round} of ${rounds}: ${nameOf(trip)} (measured ${figure(entry.pingMs, 2)} ms): ${figure(rateOf(entry.run))} events/s`,
        );
        entries.push({ round, ...entry });
      }
    }
    const counted = countRounds(entries.filter(isJudged).map(judgedRun));
    const shown = counted.areEnough ? entries.filter(({ round }) => counted.counts(round)) : entries;
    const of = (trip: number | null, pick: (entry: Entry) => number) =>
      median(shown.filter(({ roundTripMs }) => roundTripMs === trip).map(pick));
    const rate = (trip: number | null) => of(trip, ({ run }) => rateOf(run));
    return {
      table: {
        columns: ['round trip', 'measured ms', 'events/s', 'x 0 ms'],
        rows: [null, ...trips].map((trip) => [
          nameOf(trip),
          figure(
            of(trip, ({ pingMs }) => pingMs),
            2,
          ),
          figure(rate(trip)),
          times(rate(trip) / rate(0)),
        ]),
        notes: ['Medians. Measured: "select 1" over the same line, on an idle machine.', ...counted.notes],
      },
      goals: GOALS.filter(({ trip }) => trips.includes(trip)).map(({ trip, share }) => {
        const measured = rate(trip) / rate(0);
        return {
          id: 'P7',
          goal: `${trip} ms round trip: >= ${share} x the rate at 0`,
          measured: `${times(measured)} x`,
          met: counted.areEnough && Number.isFinite(measured) ? measured >= share : null,
        };
      }),
      runs: entries.map(({ round, roundTripMs, pingMs, run }) => ({
        round,
        round_trip_ms: roundTripMs,
        measured_ms: pingMs,
        ...recordOf('worker', run),
        counts: counted.counts(round),
      })),
    };
  },
};

function isJudged({ roundTripMs }: Entry): boolean {
  return roundTripMs === 0 || GOALS.some(({ trip }) => trip === roundTripMs);
}

function judgedRun({ round, roundTripMs, run }: Entry): JudgedRun {
  return { round, name: nameOf(roundTripMs), rate: rateOf(run), takenByHost: run.takenByHost };
}

function nameOf(trip: number | null): string {
  return trip === null ? 'no proxy' : `${trip} ms`;
}

async function measureTrip(
  { stage }: Bench,
  published: Published,
  trip: number | null,
): Promise<Omit<Entry, 'round'>> {
  const { topic, records } = published;
  return stage.withDatabase([topic], async (direct) => {
    const url = new URL(direct);
    let proxy: Child | undefined;
    if (trip !== null) {
      proxy = stage.startProgram('delay-proxy', {
        TARGET_HOST: url.hostname,
        TARGET_PORT: url.port || '5432',
        DELAY_MS: String(trip / 2),
      });
      await proxy.untilLogged(/^port \d+$/m, PROXY_START_MS);
      url.host = `127.0.0.1:${/^port (\d+)$/m.exec(proxy.output())?.[1]}`;
    }
    const pingMs = await ping(url.href);
    const run = await drain(stage, { databaseUrl: url.href, topic, records, groupId: stage.newGroup() });
    await proxy?.stop();
    return { roundTripMs: trip, pingMs, run };
  });
}

/** Median time of a statement that does no work. */
async function ping(databaseUrl: string): Promise<number> {
  return withClient(databaseUrl, async (client) => {
    const taken: number[] = [];
    for (let count = 0; count < PINGS; count++) {
      const began = performance.now();
      await client.query('select 1');
      taken.push(performance.now() - began);
    }
    return Number(median(taken).toFixed(2));
  });
}

/** The rate with Postgres further away: a proxy delays each direction by half of the round trip (P7). */
import type { Child } from '../../servers/child';
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import type { Published } from '../publish';
import { drain, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

const GOAL_MS = 2.5;
const GOAL_SHARE = 0.7;
const PROXY_START_MS = 10_000;
const PINGS = 50;

interface Entry {
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
        entries.push(entry);
      }
    }
    const of = (trip: number | null, pick: (entry: Entry) => number) =>
      median(entries.filter(({ roundTripMs }) => roundTripMs === trip).map(pick));
    const rate = (trip: number | null) => of(trip, ({ run }) => rateOf(run));
    const share = rate(GOAL_MS) / rate(0);
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
        notes: ['Medians. Measured: "select 1" over the same line, on an idle machine.'],
      },
      goals: [
        {
          id: 'P7',
          goal: `${GOAL_MS} ms round trip: >= ${GOAL_SHARE} x the rate at 0`,
          measured: `${times(share)} x`,
          met: Number.isFinite(share) ? share >= GOAL_SHARE : null,
        },
      ],
      runs: entries.map(({ roundTripMs, pingMs, run }) => ({
        round_trip_ms: roundTripMs,
        measured_ms: pingMs,
        ...recordOf('worker', run),
      })),
    };
  },
};

function nameOf(trip: number | null): string {
  return trip === null ? 'no proxy' : `${trip} ms`;
}

async function measureTrip({ stage }: Bench, published: Published, trip: number | null): Promise<Entry> {
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

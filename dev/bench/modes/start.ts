/**
 * From spawning a worker to its first committed verdict, with records waiting (P9). And from spawning `try`
 * to the line that says that it is ready.
 */
import { until } from '../../servers/deadline';
import { makeFeed, USUAL_SHAPE } from '../feed';
import type { Bench, Mode } from '../mode';
import { stopWorker } from '../paced';
import { publish } from '../publish';
import { median } from '../statistics';
import { figure } from '../table';
import { readWorkerLog } from '../worker-log';

const GOAL_SECONDS = 2;
/** docs/operators/try.md promises it. */
const GOAL_SECONDS_OF_TRY = 5;
const DEADLINE_MS = 60_000;

/** Milliseconds since the worker was spawned. */
interface Start {
  readonly running: number;
  readonly assigned: number;
  readonly decided: number;
  /** Of `try`, whose server of Postgres starts with it. */
  readonly tryReady: number;
}

export const start: Mode = {
  name: 'start',
  about: 'from spawning a worker to its first committed verdict, and try to ready',
  extent: { events: 20_000, rounds: 5 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const [events, rounds] = [extent.number('events'), extent.number('rounds')];
    const topic = await stage.makeTopic();
    await publish(stage.brokers, topic, makeFeed({ ...USUAL_SHAPE, events }));
    const starts: Start[] = [];
    for (let round = 1; round <= rounds; round++) {
      const measured = { ...(await measureStart(bench, topic)), tryReady: await measureTry(bench) };
      say(`round ${round} of ${rounds}: ${measured.decided} ms, and ${measured.tryReady} ms of try`);
      starts.push(measured);
    }
    const middle = (pick: (start: Start) => number) => median(starts.map(pick));
    const seconds = middle(({ decided }) => decided) / 1000;
    const secondsOfTry = middle(({ tryReady }) => tryReady) / 1000;
    return {
      table: {
        columns: ['from the spawn to', 'median ms', 'from - to'],
        rows: (
          [
            ['the first line of the log', 'running'],
            ['its partitions', 'assigned'],
            ['the first committed verdict', 'decided'],
            ['`promo-intake try is ready`', 'tryReady'],
          ] as const
        ).map(([what, name]) => {
          const values = starts.map((each) => each[name]);
          return [
            what,
            figure(middle((each) => each[name])),
            `${figure(Math.min(...values))} - ${figure(Math.max(...values))}`,
          ];
        }),
        notes: [],
      },
      goals: [
        {
          id: 'P9',
          goal: `spawn to first verdict <= ${GOAL_SECONDS} s, median of ${rounds}`,
          measured: `${figure(seconds, 2)} s`,
          met: seconds <= GOAL_SECONDS,
        },
        {
          id: 'try',
          goal: `spawn to ready <= ${GOAL_SECONDS_OF_TRY} s, median of ${rounds}`,
          measured: `${figure(secondsOfTry, 2)} s`,
          met: secondsOfTry <= GOAL_SECONDS_OF_TRY,
        },
      ],
      runs: starts.map(({ running, assigned, decided, tryReady }) => ({
        running_ms: running,
        assigned_ms: assigned,
        decided_ms: decided,
        try_ready_ms: tryReady,
      })),
    };
  },
};

async function measureStart({ stage }: Bench, topic: string): Promise<Omit<Start, 'tryReady'>> {
  return stage.withDatabase([topic], async (databaseUrl) => {
    const spawnedAt = Date.now();
    const worker = stage.startWorker([], { DATABASE_URL: databaseUrl, KAFKA_GROUP_ID: stage.newGroup() });
    const read = () => readWorkerLog(worker.output());
    await until('the first verdict is committed', DEADLINE_MS, () => {
      if (worker.endedBy !== undefined) throw worker.failure(`ended (${worker.endedBy})`);
      return read().batches.length > 0;
    });
    const { startedAt, assignments, batches } = read();
    await stopWorker(worker);
    return {
      running: startedAt - spawnedAt,
      assigned: (assignments[0]?.at ?? Number.NaN) - spawnedAt,
      decided: (batches[0]?.at ?? Number.NaN) - spawnedAt,
    };
  });
}

async function measureTry({ stage }: Bench): Promise<number> {
  const spawnedAt = performance.now();
  const child = stage.start(['try', '--port', '0'], {});
  await until('try is ready', DEADLINE_MS, () => {
    if (child.endedBy !== undefined) throw child.failure(`ended (${child.endedBy})`);
    return child.output().includes('promo-intake try is ready');
  });
  const tookMs = Math.round(performance.now() - spawnedAt);
  await child.stop();
  return tookMs;
}

/** A log, or results, that cannot be written: no room, a reader that has stopped, a reader that is gone. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep, until, within } from '../../dev/servers/deadline';
import { freePort } from '../../dev/servers/ports';
import { productCommand } from '../../dev/servers/product';
import { sideBySide } from '../stream/side-by-side';
import { inWorld, type World } from '../stream/world';
import { aLogin } from '../support/builders';
import { produce } from '../support/kafka';
import { withClient } from '../support/ledger';
import { findTerminals, PseudoTerminal } from '../support/pseudo-terminal';
import { withAdmin } from '../support/servers';
import { program, type Settings } from '../support/worker';
import { loginsIn } from './promises';

const together = sideBySide(4);
const SECOND = 1_000;
const END_MS = 30 * SECOND;
const READY_MS = 60 * SECOND;
const PROBE_MS = 20 * SECOND;

interface Sink {
  readonly descriptor: number;
  /** The bytes that its reader has taken since; only for a reader that had stopped. */
  read(): string;
  close(): void;
}

/**
 * A pipe.
 * @param isFull whether the pipe is full and its reader has stopped; otherwise its reader is gone
 */
function pipe(isFull: boolean): Sink {
  const directory = mkdtempSync(join(tmpdir(), 'log-'));
  const path = join(directory, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const descriptor = openSync(path, constants.O_WRONLY);
  if (isFull) {
    const filler = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    const fill = (bytes: Buffer) => {
      try {
        for (;;) writeSync(filler, bytes);
      } catch (error) {
        expect(error).toMatchObject({ code: 'EAGAIN' });
      }
    };
    fill(Buffer.alloc(4096, '\n'));
    fill(Buffer.alloc(1, '\n'));
    closeSync(filler);
  } else closeSync(reader);
  return {
    descriptor,
    read() {
      const parts: Buffer[] = [];
      const buffer = Buffer.alloc(65_536);
      try {
        for (;;) {
          const length = readSync(reader, buffer);
          if (length === 0) break;
          parts.push(Buffer.from(buffer.subarray(0, length)));
        }
      } catch (error) {
        expect(error).toMatchObject({ code: 'EAGAIN' });
      }
      return Buffer.concat(parts).toString();
    },
    close() {
      closeSync(descriptor);
      if (isFull) closeSync(reader);
      rmSync(directory, { recursive: true });
    },
  };
}

const TERMINAL = constants.O_WRONLY | constants.O_NOCTTY;

async function terminal(): Promise<Sink> {
  const lost = await PseudoTerminal.open(['cat']);
  const descriptor = openSync(lost.path(), TERMINAL);
  await lost.close();
  expect(() => writeSync(descriptor, '\n')).toThrow('EIO');
  return { descriptor, read: () => '', close: () => closeSync(descriptor) };
}

const SINKS = {
  'a device without room': () => {
    const descriptor = openSync('/dev/full', constants.O_WRONLY);
    return { descriptor, read: () => '', close: () => closeSync(descriptor) };
  },
  'a pipe whose reader has stopped': () => pipe(true),
  'a pipe whose reader is gone': () => pipe(false),
  'a terminal that is gone': terminal,
} as const satisfies Record<string, () => Sink | Promise<Sink>>;

type SinkName = keyof typeof SINKS;
const isSinkName = (name: string): name is SinkName => name in SINKS;
const withoutTerminals = findTerminals();
const hasSink = (name: SinkName) => name !== 'a terminal that is gone' || !('problem' in withoutTerminals);
const SINK_NAMES = Object.keys(SINKS).filter(isSinkName).filter(hasSink);

/** The sink takes standard output, and also standard error on request. */
function run(
  args: readonly string[],
  settings: Settings,
  sink: Pick<Sink, 'descriptor'>,
  stderr: 'pipe' | 'sink',
): ChildProcess {
  const command = productCommand(program(), args);
  const { PATH, HOME } = process.env;
  return spawn(command.file, command.args, {
    env: { PATH, HOME, ...command.environment, ...settings },
    stdio: ['ignore', sink.descriptor, stderr === 'sink' ? sink.descriptor : 'pipe'],
  });
}

async function endOf(child: ChildProcess): Promise<number | string | null> {
  if (child.exitCode !== null) return child.exitCode;
  const [code, signal] = await within('the command ends', END_MS, once(child, 'exit'));
  return code ?? signal;
}

async function isLive(port: number): Promise<boolean> {
  const signal = AbortSignal.timeout(PROBE_MS);
  return (await fetch(`http://127.0.0.1:${port}/livez`, { signal })).ok;
}

async function untilAnswers(port: number, path: string): Promise<void> {
  await until(`${path} answers 200`, READY_MS, async () => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    return answer?.ok === true;
  });
}

async function withCommand(
  sinkName: SinkName,
  start: (sink: Sink) => ChildProcess,
  work: (child: ChildProcess, sink: Sink) => Promise<void>,
): Promise<void> {
  const sink = await SINKS[sinkName]();
  const child = start(sink);
  try {
    await work(child, sink);
  } finally {
    child.kill('SIGKILL');
    sink.close();
  }
}

const EVENTS = 50;
const load = (world: World<'main'>) => produce(world.topics.main, loginsIn(1, 'one', EVENTS));

for (const name of SINK_NAMES) {
  together(`a log to ${name}: the worker decides, /livez answers, and SIGTERM ends it with 0`, () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      await load(world);
      const port = await freePort();
      const settings = { ...world.settings, HTTP_PORT: String(port), LOG_LEVEL: 'debug' };
      await withCommand(
        name,
        (sink) => run(['worker'], settings, sink, 'sink'),
        async (child, sink) => {
          await world.untilDecided(EVENTS);
          expect(await isLive(port)).toBe(true);
          if (name === 'a pipe whose reader has stopped') {
            // The worker writes as soon as the pipe has room, also while the test empties it.
            let lines = '';
            await until('the waiting lines are written', END_MS, () => {
              lines += sink.read();
              return lines.includes('partitions assigned');
            });
          }
          child.kill('SIGTERM');
          expect(await endOf(child)).toBe(0);
        },
      );
    }),
  );

  together(`a log to ${name}: worker --drain decides all, and ends with 0`, () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      await load(world);
      await withCommand(
        name,
        (sink) => run(['worker', '--drain'], { ...world.settings, HTTP_PORT: '0' }, sink, 'sink'),
        async (child) => expect(await endOf(child)).toBe(0),
      );
      await world.untilDecided(EVENTS);
    }),
  );

  together(`a log to ${name}: SIGTERM ends a worker that cannot start`, async () => {
    const port = await freePort();
    const settings = {
      KAFKA_BROKERS: '127.0.0.1:1',
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      HTTP_PORT: String(port),
    };
    await withCommand(
      name,
      (sink) => run(['worker'], settings, sink, 'sink'),
      async (child) => {
        await untilAnswers(port, '/livez');
        child.kill('SIGTERM');
        expect(await endOf(child)).toBe(0);
      },
    );
  });

  together(`a log to ${name}: the webhook answers /livez, and SIGTERM ends it with 0`, () =>
    inWorld({ topics: { main: 1 } }, async ({ databaseUrl }) => {
      const [port, hook] = [await freePort(), await freePort()];
      const settings = {
        DATABASE_URL: databaseUrl,
        HTTP_PORT: String(port),
        WEBHOOK_PORT: String(hook),
        WEBHOOK_DRAIN_SECONDS: '0',
        WEBHOOK_SECRETS: JSON.stringify({ hook: `whsec_${Buffer.alloc(32, 1).toString('base64')}` }),
      };
      await withCommand(
        name,
        (sink) => run(['webhook'], settings, sink, 'sink'),
        async (child) => {
          await untilAnswers(port, '/readyz');
          expect(await isLive(port)).toBe(true);
          child.kill('SIGTERM');
          expect(await endOf(child)).toBe(0);
        },
      );
    }),
  );
}

/** The same as `together`, where terminals can be made here. */
function inTerminal(title: string, run: () => Promise<void>): void {
  if ('problem' in withoutTerminals) test.skip(`${title} (skipped: ${withoutTerminals.problem})`, () => {});
  else together(title, run);
}

inTerminal('a log to a terminal that goes away: the worker decides on, and SIGTERM ends it with 0', () =>
  inWorld({ topics: { main: 1 } }, async (world) => {
    const port = await freePort();
    const settings = { ...world.settings, HTTP_PORT: String(port), LOG_LEVEL: 'debug' };
    // It ends with the terminal that it reads.
    const window = await PseudoTerminal.open(['cat']);
    const descriptor = openSync(window.path(), TERMINAL);
    const child = run(['worker'], settings, { descriptor }, 'sink');
    try {
      await load(world);
      await world.untilDecided(EVENTS);
      await window.lose();
      await produce(world.topics.main, loginsIn(1, 'two', EVENTS));
      await world.untilDecided(2 * EVENTS);
      expect(await isLive(port)).toBe(true);
      child.kill('SIGTERM');
      expect(await endOf(child)).toBe(0);
    } finally {
      child.kill('SIGKILL');
      closeSync(descriptor);
      await window.close();
    }
  }),
);

inTerminal('a worker whose own terminal goes away leaves its group, and ends with 0', () =>
  inWorld({ topics: { main: 1 } }, async (world) => {
    await load(world);
    const { file, args, environment } = productCommand(program(), ['worker']);
    const settings = { ...environment, ...world.settings, HTTP_PORT: '0' };
    const window = await PseudoTerminal.open([file, ...args], settings);
    try {
      await world.untilDecided(EVENTS);
      expect(window.code()).toBe(undefined);
      await window.lose();
      await until('the worker ends', END_MS, () => window.code() !== undefined);
      expect(window.code()).toBe(0);
      const { members } = await withAdmin(async (admin) => {
        const { groups } = await admin.describeGroups([world.groupId]);
        return { members: groups.flatMap((group) => group.members) };
      });
      expect(members).toEqual([]);
    } finally {
      await window.close();
    }
  }),
);

together('a worker on which a shell and the kernel hang up ends with 0', () =>
  inWorld({ topics: { main: 1 } }, async (world) => {
    const { main } = world.topics;
    await produce(main, loginsIn(1, 'first', 1));
    const worker = await world.started();
    await world.untilDecided(1);
    // A batch in flight keeps the worker alive between both signals.
    await withClient(world.databaseUrl, async (holder) => {
      await holder.query('begin; select from promo_store.partitions for update');
      await produce(main, loginsIn(1, 'second', 1));
      await until('a batch waits for the lock', END_MS, async () => {
        const [[waiting] = []] = await world.rows(
          `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return waiting !== '0';
      });
      worker.signal('SIGHUP');
      await worker.waitForLog('signal received');
      worker.signal('SIGHUP');
      await holder.query('rollback');
    });
    expect(await worker.ending(END_MS)).toEqual({ code: 0, signal: null });
    expect(worker.logged('signal received')).toHaveLength(1);
  }),
);

/** Results that exceed the buffer of a pipe. */
function manyEvents(directory: string): string {
  const file = join(directory, 'events.ndjson');
  const lines = Array.from({ length: 3_000 }, (_, n) =>
    JSON.stringify({ ...aLogin(), event_id: `e${n}`, player_ref: 7 }),
  );
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

async function checked(
  sinkName: SinkName,
  work: (child: ChildProcess, errorOutput: () => string) => Promise<void>,
) {
  const directory = mkdtempSync(join(tmpdir(), 'check-'));
  let errorOutput = '';
  await withCommand(
    sinkName,
    (sink) => run(['check', manyEvents(directory)], {}, sink, 'pipe'),
    async (child) => {
      child.stderr?.on('data', (bytes) => {
        errorOutput += String(bytes);
      });
      await work(child, () => errorOutput);
    },
  ).finally(() => rmSync(directory, { recursive: true }));
}

together(
  'results to a pipe whose reader is gone: the command ends without output, with the exit code of its work',
  () =>
    checked('a pipe whose reader is gone', async (child, errorOutput) => {
      expect([await endOf(child), errorOutput()]).toEqual([1, '']);
    }),
);

together('results to a device without room: the command reports it in one sentence, and ends with 1', () =>
  checked('a device without room', async (child, errorOutput) => {
    const code = await endOf(child);
    expect([code, errorOutput()]).toEqual([
      1,
      'standard output cannot be written (ENOSPC): the results are incomplete\n',
    ]);
  }),
);

inTerminal(
  'results to a terminal that is gone: the command reports it in one sentence, and ends with 1',
  () =>
    checked('a terminal that is gone', async (child, errorOutput) => {
      const code = await endOf(child);
      expect([code, errorOutput()]).toEqual([
        1,
        'standard output cannot be written (EIO): the results are incomplete\n',
      ]);
    }),
);

together('results to a pipe whose reader has stopped: the command waits, and SIGTERM ends it', () =>
  checked('a pipe whose reader has stopped', async (child) => {
    // Long enough to judge the file; afterwards the command only waits.
    await sleep(15 * SECOND);
    expect(child.exitCode).toBe(null);
    child.kill('SIGTERM');
    expect(await endOf(child)).toBe(1);
  }),
);

together(
  'results of a change to a pipe whose reader is gone: the change is made, and the exit code is 0',
  () =>
    inWorld({ topics: { main: 1 } }, async ({ databaseUrl, rows }) => {
      const directory = mkdtempSync(join(tmpdir(), 'apply-'));
      const file = join(directory, 'reference.json');
      writeFileSync(file, JSON.stringify({ operators: [{ id: 'later', active: true }] }));
      await withCommand(
        'a pipe whose reader is gone',
        (sink) =>
          run(['reference', 'apply', file, '--allow-removal'], { DATABASE_URL: databaseUrl }, sink, 'pipe'),
        async (child) => expect(await endOf(child)).toBe(0),
      ).finally(() => rmSync(directory, { recursive: true }));
      expect(await rows('select max(version) as version from promo.reference_versions')).toEqual([['2']]);
    }),
);

/** The life of a service, with components that fail, hang or end it at every position. */
import { Writable } from 'node:stream';
import pino from 'pino';
import {
  BY_SIGNAL,
  type Component,
  FAILURE,
  runService,
  type Service,
} from '../../../../src/commands/services/lifecycle';
import { type Clock, systemClock } from '../../../../src/lib/clock';
import type { Health } from '../../../../src/telemetry/health-server';

const NAMES = ['store', 'producer', 'stream'] as const;
const STOP_WITHIN_MS = 20_000;

interface Scene {
  /** "start store", "stop store" ... in their order. */
  readonly events: string[];
  readonly lines: Record<string, unknown>[];
  readonly health: Health;
  readonly exits: number[];
  readonly signal: (name?: string) => void;
  readonly ended: ReturnType<typeof runService>;
}

/** A clock whose timers end at once, in the order of their times: whatever hangs is late. */
function impatientClock(): Clock {
  let now = 0;
  return {
    ...systemClock,
    now: () => now,
    after(ms, run) {
      return setTimeout(() => {
        now += ms;
        run();
      }, 10);
    },
  };
}

type Change = Partial<Component<string>>;

/** Runs a service of three components. @param changes by the name of the component */
function run(changes: Readonly<Record<string, Change>> = {}, more: Partial<Service> = {}): Scene {
  const events: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const exits: number[] = [];
  let signal: Scene['signal'] = () => undefined;
  let health: Health | undefined;
  const logger = pino(
    new Writable({
      write(chunk: Buffer, _, done) {
        lines.push(JSON.parse(chunk.toString()));
        done();
      },
    }),
  );
  const ended = runService(
    {
      name: 'worker',
      stopWithinMs: STOP_WITHIN_MS,
      codeOf: (reason) => (reason === BY_SIGNAL || reason === 'drained' ? 0 : 1),
      async start({ start }) {
        for (const name of NAMES)
          await start<string>({
            name,
            start() {
              events.push(`start ${name}`);
              return name;
            },
            async stop() {
              events.push(`stop ${name}`);
            },
            async quiesce() {
              events.push(`quiesce ${name}`);
            },
            ...changes[name],
          });
      },
      ...more,
    },
    {
      clock: impatientClock(),
      logger,
      onSignal(listener) {
        signal = (name = 'SIGTERM') => listener(name);
      },
      exitNow: (code) => exits.push(code),
      async openHealth(given) {
        health = given;
        events.push('open health');
        return { close: async () => events.push('close health') };
      },
    },
  );
  if (health === undefined) throw new Error('health is not served first');
  return { events, lines, health, exits, signal: (name) => signal(name), ended };
}

const settled = () => new Promise<void>((resolve) => setTimeout(resolve, 5));
const messages = ({ lines }: Scene) => lines.map(({ msg }) => msg);
const never = () => new Promise<never>(() => undefined);

test('components start in order, refuse new work before any stops, and stop in reverse order', async () => {
  const scene = run();
  await settled();
  scene.signal();
  expect(await scene.ended).toEqual({ code: 0, isClean: true });
  expect(scene.events).toEqual([
    ...['open health', 'start store', 'start producer', 'start stream'],
    ...['quiesce stream', 'quiesce producer', 'quiesce store'],
    ...['stop stream', 'stop producer', 'stop store', 'close health'],
  ]);
  expect(messages(scene)).toEqual(['signal received', 'stopping', 'stopped']);
  expect(scene.lines[1]).toMatchObject({ reason: BY_SIGNAL });
});

describe.each(NAMES.map((name, place) => ({ name, before: NAMES.slice(0, place) })))(
  'where $name',
  ({ name, before }) => {
    const starts = [...before, name].map((each) => `start ${each}`);

    test.each(['rejects', 'throws'])(
      '%s at its start, the components before it stop, and the code is 1',
      async (how) => {
        const scene = run({
          [name]: {
            start() {
              scene.events.push(`start ${name}`);
              const error = new Error('no answer');
              if (how === 'throws') throw error;
              return Promise.reject(error);
            },
          },
        });
        expect(await scene.ended).toEqual({ code: 1, isClean: false });
        const stops = before.toReversed().map((each) => `stop ${each}`);
        expect(scene.events).toEqual(['open health', ...starts, ...stops, 'close health']);
        expect(scene.lines).toEqual([
          expect.objectContaining({
            msg: 'the worker cannot start',
            error: expect.stringContaining('no answer'),
          }),
        ]);
      },
    );

    test('is starting when a signal comes, no further component starts, and the started components stop', async () => {
      const scene: Scene = run({
        [name]: {
          async start() {
            scene.events.push(`start ${name}`);
            await settled();
            scene.signal();
            return name;
          },
        },
      });
      expect(await scene.ended).toEqual({ code: 0, isClean: false });
      const stops = [...before, name].toReversed().map((each) => `stop ${each}`);
      expect(scene.events).toEqual(['open health', ...starts, ...stops, 'close health']);
      expect(messages(scene)).toEqual(['signal received', 'stopped before the start was complete']);
    });

    test('gives up its start on a signal, that is no failure', async () => {
      const scene: Scene = run({
        [name]: {
          async start() {
            scene.signal();
            throw new Error('stop requested');
          },
        },
      });
      expect(await scene.ended).toEqual({ code: 0, isClean: false });
      expect(messages(scene)).toEqual(['signal received', 'stopped before the start was complete']);
    });

    test('hangs at its stop, it is late, the others stop, and the code is 1', async () => {
      const scene = run({ [name]: { stop: never } });
      await settled();
      scene.signal();
      expect(await scene.ended).toEqual({ code: 1, isClean: false });
      const stops = NAMES.filter((each) => each !== name).toReversed();
      expect(scene.events.slice(7)).toEqual([...stops.map((each) => `stop ${each}`), 'close health']);
      expect(
        scene.lines.find(({ msg }) => msg === 'connections did not close in time, dropping them'),
      ).toMatchObject({ components: [name] });
    });

    test('cuts work at its stop, the code is 1', async () => {
      const scene = run({ [name]: { stop: async () => false } });
      await settled();
      scene.signal();
      expect(await scene.ended).toEqual({ code: 1, isClean: false });
    });

    test.each(['stop', 'quiesce'])('fails to %s, the others stop, and the code stays', async (step) => {
      const scene = run({ [name]: { [step]: () => Promise.reject(new Error('broken pipe')) } });
      await settled();
      scene.signal();
      expect(await scene.ended).toEqual({ code: 0, isClean: true });
      expect(scene.events.at(-1)).toBe('close health');
      expect(scene.lines.find(({ level }) => level === 40)).toMatchObject({
        component: name,
        error: 'broken pipe',
      });
    });

    test.each([
      ['drained', 0],
      [FAILURE, 1],
    ])('ends the service as %s, all components stop, and the code is %i', async (reason, code) => {
      const scene = run({ [name]: { ended: async () => reason } });
      expect(await scene.ended).toEqual({ code, isClean: true });
      expect(scene.lines[0]).toMatchObject({ msg: 'stopping', reason });
      expect(scene.events.slice(-4)).toEqual(['stop stream', 'stop producer', 'stop store', 'close health']);
    });

    test('waits for its end in vain, the service stops with code 1', async () => {
      const scene = run({ [name]: { ended: () => Promise.reject(new Error('lost')) } });
      expect(await scene.ended).toEqual({ code: 1, isClean: true });
      expect(messages(scene)).toEqual(['the worker cannot go on', 'stopping', 'stopped']);
    });

    test('is not ready, or not live, or has a note, the service is and has so too', async () => {
      const scene = run({
        [name]: { isReady: () => false, isLive: () => false, notes: () => ['undecided'] },
      });
      await settled();
      expect([scene.health.ready(), scene.health.live(), scene.health.notes()]).toEqual([
        false,
        false,
        ['undecided'],
      ]);
      scene.signal();
      await scene.ended;
    });
  },
);

test('the service is live at once, ready from the start of its last component on, and not once it has to stop', async () => {
  const scene = run({ stream: { start: () => settled().then(() => 'stream') } });
  expect([scene.health.live(), scene.health.ready()]).toEqual([true, false]);
  await settled();
  await settled();
  expect([scene.health.live(), scene.health.ready()]).toEqual([true, true]);
  scene.signal();
  expect([scene.health.live(), scene.health.ready()]).toEqual([true, false]);
  await scene.ended;
});

test('a second signal ends the process at once, while components start and while they stop', async () => {
  const starting = run({ store: { start: never } });
  starting.signal();
  expect(starting.exits).toEqual([]);
  starting.signal('SIGINT');
  expect(starting.exits).toEqual([1]);

  const stopping = run({ stream: { stop: never } });
  await settled();
  stopping.signal();
  await settled();
  stopping.signal();
  expect(stopping.exits).toEqual([1]);
  await stopping.ended;
});

test('each component has what time is left, and leaves some to the components that stop after it', async () => {
  const given: number[] = [];
  const keep = async (_: string, withinMs: number) => {
    given.push(withinMs);
    return withinMs > 1_000 ? never() : undefined;
  };
  const scene = run(Object.fromEntries(NAMES.map((name) => [name, { stop: keep }])));
  await settled();
  scene.signal();
  await scene.ended;
  // 100 ms are reserved for each component behind: three, then two, then one, which is the health.
  expect(given).toEqual([STOP_WITHIN_MS - 300, 100, 200]);
});

test('where health cannot be served nothing starts', async () => {
  const started: string[] = [];
  const ended = runService(
    {
      name: 'worker',
      stopWithinMs: STOP_WITHIN_MS,
      codeOf: () => 0,
      async start() {
        started.push('components');
      },
    },
    {
      clock: systemClock,
      logger: pino({ level: 'silent' }),
      onSignal: () => undefined,
      exitNow: () => undefined,
      openHealth: () => Promise.reject(new Error('the port is taken')),
    },
  );
  await expect(ended).rejects.toThrow('the port is taken');
  expect(started).toEqual([]);
});

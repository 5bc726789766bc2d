/** The servers as containers, on a machine with an engine and the images; and the fallbacks without them. */
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isLongRun } from '../../dev/long-run';
import { sleep, until } from '../../dev/servers/deadline';
import { type Engine, removeContainers } from '../../dev/servers/engine';
import { withFreePorts } from '../../dev/servers/ports';
import { testWhere } from '../support/needed';
import { freshTopic, ownServers } from '../support/servers';
import {
  containersOf,
  type EngineWithoutImages,
  engineWithImages,
  engineWithoutImages,
  findEngineWithImages,
} from './engines';
import {
  type Build,
  builtTools,
  closeDirectory,
  ending,
  openDirectory,
  type Program,
  produceAndConsume,
  query,
  runNode,
  stackDirectories,
  startAnd,
  untilAServerIsReady,
  untilReady,
  whileItRuns,
} from './programs';
import { expectToSurviveFaults } from './survive-faults';

const CONTAINERS = { STACK: 'containers' };
const KEEP_UP = "console.log('ready'); setInterval(() => {}, 1000);";

let build: Build;
let temporary: string;
beforeAll(() => {
  build = builtTools();
});
beforeEach(() => {
  temporary = openDirectory();
});
afterEach(closeDirectory);

const stacks = (): string[] => stackDirectories().map((directory) => basename(directory));

describe('with an engine that has the images', () => {
  let engine: Engine | undefined;
  const found = findEngineWithImages();
  beforeAll(async () => {
    if ('problem' in found) return;
    const engineNow = await engineWithImages();
    if ('problem' in engineNow) throw new Error(engineNow.problem);
    engine = engineNow;
  });
  afterEach(async () => {
    // After a failed test.
    const names = stacks();
    await Promise.all(names.map((name) => engine && removeContainers(engine, name)));
  });

  function testWithEngine(name: string, work: (engine: Engine) => Promise<void>): void {
    testWhere(found)(name, async () => {
      if (engine === undefined) throw new Error('there is no engine');
      await work(engine);
    });
  }

  testWithEngine('make stack: prints addresses that work, and leaves nothing behind', async (engine) => {
    const stack = runNode([build.stack], CONTAINERS);
    await untilReady(stack);
    const addresses = Object.fromEntries(
      [...stack.output().matchAll(/^export (\w+)=(.+)$/gm)].map(([, name, value]) => [name, value]),
    );
    const { KAFKA_BROKERS = '', DATABASE_URL = '', SCHEMA_REGISTRY_URL = '' } = addresses;
    const topic = await freshTopic('containers', { partitions: 3, brokers: KAFKA_BROKERS.split(',') });
    expect(await produceAndConsume(KAFKA_BROKERS, topic, 'one')).toBe('one');
    expect(await query(DATABASE_URL, 'SHOW server_version')).toMatch(/^18/);
    expect(await query(DATABASE_URL, 'SHOW timezone')).toBe('UTC');
    expect(await query(DATABASE_URL, 'SELECT current_database()')).toBe('promo');
    const subjects = await fetch(`${SCHEMA_REGISTRY_URL}/subjects`);
    expect(await subjects.json()).toEqual([]);

    const [name = ''] = stacks();
    const { client } = engine;
    const containers = await Promise.all(
      (await containersOf(engine, name)).map((id) => client.container.getById(id).inspect()),
    );
    expect(containers).toHaveLength(3);
    if (client.info.containerRuntime.host === 'localhost') {
      const bindings = containers.flatMap(({ NetworkSettings }) => Object.values(NetworkSettings.Ports));
      const openTo = bindings.flatMap((each) => each ?? []).map(({ HostIp }) => HostIp);
      expect(openTo).toEqual(['127.0.0.1', '127.0.0.1', '127.0.0.1']);
    }

    stack.process.kill('SIGINT');
    expect(await ending(stack)).toBe(0);
    expect(await containersOf(engine, name)).toEqual([]);
    expect(stackDirectories()).toEqual([]);
    const volumes = containers.flatMap(({ Mounts }) => Mounts.flatMap(({ Name }) => Name ?? []));
    expect(volumes.length).toBeGreaterThan(0);
    const { Volumes } = await client.container.dockerode.listVolumes();
    expect(Volumes.filter(({ Name }) => volumes.includes(Name))).toEqual([]);
  });

  const untilAContainerIsMade = (stack: Program, engine: Engine) =>
    whileItRuns(stack, 'a container is made', async () => {
      const [name] = stacks();
      return name !== undefined && (await containersOf(engine, name)).length > 0;
    });
  const MOMENTS = [
    ['when the first server is ready', untilAServerIsReady],
    ['300 ms into the start', () => sleep(300)],
    ['when a container is made', untilAContainerIsMade],
  ] as const;
  for (const [when, untilThen] of isLongRun ? MOMENTS : MOMENTS.slice(0, 1)) {
    testWithEngine(`SIGINT ${when} leaves nothing behind`, async (engine) => {
      const stack = runNode([build.stack], CONTAINERS);
      await untilThen(stack, engine);
      const names = stacks();
      stack.process.kill('SIGINT');
      // Before the program has its first handler, the signal itself ends it.
      expect(['SIGINT', 130]).toContain(await ending(stack));
      expect(stack.output()).not.toMatch(/ready/);
      expect(stackDirectories()).toEqual([]);
      expect(await Promise.all(names.map((name) => containersOf(engine, name)))).toEqual(names.map(() => []));
    });
  }

  for (const [how, then] of [
    ['a kill -9 of the program', KEEP_UP],
    ['an exit that stops nothing', "console.log('ready'); process.exit(3);"],
  ] as const) {
    testWithEngine(`the start after ${how} removes its containers`, async (engine) => {
      const first = runNode(startAnd(build, "['postgres']", then), CONTAINERS);
      await until('the first program is ready', 90_000, () => /^ready$/m.test(first.output()));
      first.process.kill('SIGKILL');
      await first.ended;
      const [name = ''] = stacks();
      expect(await containersOf(engine, name)).toHaveLength(1);

      const next = runNode(startAnd(build, "['postgres']", KEEP_UP), CONTAINERS);
      await untilReady(next);
      expect(await containersOf(engine, name)).toEqual([]);
      const [own = '', ...others] = stacks();
      expect(others).toEqual([]);
      expect(own).not.toBe(name);
      next.process.kill('SIGINT');
      expect(await ending(next)).toBe(130);
      expect(await containersOf(engine, own)).toEqual([]);
      expect(stackDirectories()).toEqual([]);
    });
  }

  testWithEngine('servers can be killed, suspended and started again on the same address and data', () =>
    expectToSurviveFaults(CONTAINERS, 'containers'),
  );

  testWithEngine('a failed start shows the end of the log', async () => {
    const environment = { ...CONTAINERS, STACK_KAFKA_IMAGE: 'postgres:18' };
    await expect(ownServers({ need: ['kafka'], environment })).rejects.toThrow(
      /kafka: ended while starting \(exit code 1\); the end of its log:\n.*password is not specified/s,
    );
  });
});

describe('with an engine without an image and without a registry', () => {
  let engine: EngineWithoutImages;
  afterEach(() => engine.close());

  test('the servers are processes, and the reason is printed', async () => {
    engine = await engineWithoutImages(temporary, 'fails');
    const environment = { STACK: '', DOCKER_HOST: engine.address, TMPDIR: ownDirectory() };
    const program = runNode(startAnd(build, "['postgres']", KEEP_UP), environment);
    await untilReady(program);
    expect(program.errors()).toMatch(
      /no containers: postgres:18 could not be pulled: .*the registry cannot be reached.*; using processes\npostgres 18 is ready/,
    );
    expect(engine.pulls()).toBe(1);
    program.process.kill('SIGINT');
    expect(await ending(program)).toBe(130);
  });

  test('STACK=containers fails with the reason', async () => {
    engine = await engineWithoutImages(temporary, 'fails');
    const program = runNode([build.stack], { ...CONTAINERS, DOCKER_HOST: engine.address });
    expect(await ending(program)).toBe(1);
    expect(program.errors()).toMatch(
      /STACK=containers: apicurio\/\S+ could not be pulled: .*cannot be reached/,
    );
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('%s ends the wait for a pull', async (signal) => {
    engine = await engineWithoutImages(temporary, 'hangs');
    const program = runNode([build.stack], { STACK: '', DOCKER_HOST: engine.address });
    await until('a pull hangs', 60_000, () => engine.pulls() === 1);
    program.process.kill(signal);
    expect(await ending(program)).toBe(130);
  });

  /** The engine's socket is in `temporary`, which then holds more than stacks. */
  function ownDirectory(): string {
    const directory = join(temporary, 'tmp');
    mkdirSync(directory, { mode: 0o711 });
    return directory;
  }
});

describe('without an engine', () => {
  test('an address without an answer counts as absent, unless containers are required', async () => {
    const DOCKER_HOST = `unix://${join(temporary, 'nobody.sock')}`;
    const program = runNode(startAnd(build, "['postgres']", KEEP_UP), { STACK: '', DOCKER_HOST });
    await until('it uses processes', 60_000, () =>
      /^no containers: .*; using processes$/m.test(program.errors()),
    );
    program.process.kill('SIGINT');
    expect(await ending(program)).toBe(130);

    const forced = runNode([build.stack], { ...CONTAINERS, DOCKER_HOST });
    expect(await ending(forced)).toBe(1);
    expect(forced.errors()).toMatch(/STACK=containers: .*container runtime/);
  });
});

test.each([
  'driver failed programming external connectivity on endpoint x: Bind for 0.0.0.0:1 failed: port is already allocated',
  'Error starting userland proxy: listen tcp4 127.0.0.1:1: bind: address already in use',
  'Ports are not available: exposing port TCP 127.0.0.1:1 -> 0.0.0.0:0: listen tcp 127.0.0.1:1: bind: ...',
])('another port is tried after the message: %s', async (message) => {
  const tried: number[] = [];
  const used = await withFreePorts(1, async ([port = 0]) => {
    tried.push(port);
    if (tried.length === 1) {
      throw new Error(message);
    }
    return port;
  });
  expect(tried).toEqual([expect.any(Number), used]);
});

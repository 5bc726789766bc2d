/**
 * `make container-test`: tests the product's image, and the servers as containers, on a container engine. If
 * no engine answers, it starts one in namespaces of its own, which ends with them. If the machine can do
 * neither, it reports the reason and exits with code 3. If no registry can be reached, the images are
 * stand-ins (dev/containers/stand-ins.ts).
 */
import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { program, provide } from './containers/debian';
import {
  BRIDGE_NEEDS,
  buildImage,
  ENGINE_NEEDS,
  findImageEngine,
  type ImageEngine,
  startImageEngine,
} from './containers/engine';
import { runInside } from './containers/namespaces';
import { endOf, must } from './containers/run';
import { makeStandIns } from './containers/stand-ins';
import { readJestTests } from './jest-results';
import { makeRecipe, provideImage } from './servers/containers';
import { projectRoot } from './servers/download';
import { connectToEngine } from './servers/engine';
import { DEFAULT_KAFKA_VERSION } from './servers/kafka';
import { DEFAULT_POSTGRES_VERSION } from './servers/postgres-programs';
import { messageOf, type ServerName } from './servers/types';
import { SKIPPED_EXIT_CODE } from './test-results';

const TAG_DEADLINE_MS = 10_000;
const LOOPBACK_DEADLINE_MS = 5_000;
/** Each program takes three minutes; the first may build the image before. */
const PROGRAM_DEADLINE_MS = 1_740_000;
const WORKER_IMAGE = 'promo-intake:container-test';
const TRY_IMAGE = `${WORKER_IMAGE}-try`;
const SERVERS: readonly ServerName[] = ['postgres', 'kafka', 'registry'];
const VERSIONS = { kafka: DEFAULT_KAFKA_VERSION, postgres: DEFAULT_POSTGRES_VERSION };
const JEST_RESULTS = join('build', 'jest-results-containers.json');
const JEST = join('node_modules', 'jest', 'bin', 'jest.js');
/**
 * The programs that run on the engine, each to its end: the tests, and the demo with its servers in
 * containers.
 */
const PROGRAMS: readonly {
  readonly args: readonly string[];
  readonly environment: Record<string, string>;
}[] = [
  {
    args: [
      JEST,
      '--ci',
      '--runInBand',
      '--json',
      `--outputFile=${JEST_RESULTS}`,
      '--selectProjects',
      'dev',
      '--testPathPatterns',
      'dev/(image|operator-image|containers)',
    ],
    environment: {},
  },
  { args: [join('build', 'dev', 'demo.js')], environment: { STACK: 'containers' } },
];

const log = (line: string): void => console.log(`container-test: ${line}`);

/** @returns the exit code */
async function main([command, directory = '']: readonly string[]): Promise<number> {
  if (command === 'inside') return inside(directory);
  if ((await findImageEngine(process.env)) !== undefined) {
    await pullImages();
    return runAll({});
  }
  const why = whyNoEngine() ?? (await provide([...ENGINE_NEEDS, ...BRIDGE_NEEDS, UNSHARE], process.env, log));
  if (why !== undefined) {
    log(`skipped: no container engine answers, and none can be started: ${why}`);
    return SKIPPED_EXIT_CODE;
  }
  return withNamespaces();
}

const UNSHARE = program('unshare', 'util-linux');

function whyNoEngine(): string | undefined {
  if (process.platform !== 'linux') return `that needs Linux, and this is ${process.platform}`;
  return process.getuid?.() === 0 ? undefined : 'that needs root';
}

/** Makes the images, then runs this program again on an engine in an otherwise empty network of its own. */
const withNamespaces = (): Promise<number> =>
  runInside({
    program: __filename,
    directoryPrefix: 'promo-intake-containers-',
    log,
    async prepare(directory) {
      const engine = await startImageEngine(directory, process.env);
      await provideImages(engine).finally(() => engine.stop());
      return [];
    },
  });

/**
 * Pulls the images on an engine that answers. The tests pull nothing, so without an image they could test
 * nothing.
 */
async function pullImages(): Promise<void> {
  const engine = await connectToEngine(process.env);
  for (const server of SERVERS) await provideImage(engine, makeRecipe(server, VERSIONS, process.env), log);
}

/**
 * Makes the images on an engine of our own, whose images nobody else sees. The server images have their
 * makers' names.
 */
async function provideImages(engine: ImageEngine): Promise<void> {
  const names = await makeStandIns(engine, SERVERS, log);
  const { cli, environment } = engine;
  for (const server of SERVERS) {
    const { image } = makeRecipe(server, VERSIONS, process.env);
    await must(cli, ['tag', names[server], image], { deadlineMs: TAG_DEADLINE_MS, environment });
  }
  await buildImage(engine, WORKER_IMAGE, names, log);
  await buildImage(engine, TRY_IMAGE, names, log, 'try');
}

async function inside(directory: string): Promise<number> {
  await must('ip', ['link', 'set', 'lo', 'up'], { deadlineMs: LOOPBACK_DEADLINE_MS });
  const { environment } = await startImageEngine(directory, process.env, true);
  const { DOCKER_HOST = '', PATH = '' } = environment;
  log('the engine answers');
  return runAll({ DOCKER_HOST, PATH, IMAGE: WORKER_IMAGE, TRY_IMAGE });
}

/** @returns 1 if one of the programs has failed, or tests of containers were skipped */
async function runAll(engine: Readonly<Record<string, string>>): Promise<number> {
  let failed = 0;
  rmSync(join(projectRoot, JEST_RESULTS), { force: true });
  for (const { args, environment } of PROGRAMS) {
    const child = spawn(process.execPath, args, {
      cwd: projectRoot,
      env: { ...process.env, ...engine, ...environment },
      stdio: ['ignore', 'inherit', 'inherit'],
      timeout: PROGRAM_DEADLINE_MS,
      killSignal: 'SIGKILL',
    });
    const code = await endOf(child);
    log(`${code === 0 ? 'passed' : 'failed'}: ${args.join(' ')}`);
    if (code !== 0) failed++;
  }
  const skipped = skippedTests();
  for (const name of skipped) log(`failed: it was not tested: ${name}`);
  return failed === 0 && skipped.length === 0 ? 0 : 1;
}

/** Tests that were skipped although the engine is there. */
function skippedTests(): string[] {
  const json: unknown = JSON.parse(readFileSync(join(projectRoot, JEST_RESULTS), 'utf8'));
  return readJestTests(json, projectRoot)
    .filter(({ status }) => status === 'skipped')
    .map(({ titles }) => titles.join(': '));
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    log(messageOf(error));
    process.exit(1);
  },
);

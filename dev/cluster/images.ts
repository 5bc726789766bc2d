/**
 * The images of the cluster: the product's by its Dockerfile, Kafka's and Postgres's as their makers publish them. They come of the container
 * engine that answers, or of one that is started for the purpose. Where no registry can be reached, stand-ins are made of Debian's packages,
 * Maven's jars and npm's programs: they run the same servers, and say nothing about the makers' images.
 */
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cacheOf } from '../chart/tools';
import { Child } from '../servers/child';
import { until } from '../servers/deadline';
import { projectRoot } from '../servers/download';
import { findOnPath } from '../servers/java';
import { DEFAULT_KAFKA_VERSION, fetchKafka } from '../servers/kafka';
import { DEFAULT_POSTGRES_VERSION, providePostgres } from '../servers/postgres-programs';
import { Supervisor } from '../servers/supervisor';
import type { Environment, Log } from '../servers/types';
import { PAUSE_IMAGE } from './node';
import { withSystem } from './requirements';
import { must, run } from './run';

const ANSWER_DEADLINE_MS = 5_000;
const START_DEADLINE_MS = 30_000;
const PULL_DEADLINE_MS = 300_000;
const BUILD_DEADLINE_MS = 600_000;

/** Names by which pods ask for them. */
export interface Images {
  readonly worker: string;
  /** The same as a version of its own, to upgrade to. */
  readonly upgrade: string;
  readonly kafka: string;
  readonly postgres: string;
}

const VERSIONED = 'promo-intake-cluster/worker';
const STAND_INS = 'promo-intake-cluster';
export function imagesOf({
  KUBECONFIG,
  IMAGE,
  STACK_KAFKA_IMAGE,
  STACK_POSTGRES_IMAGE,
}: Environment): Images {
  const isGiven = Boolean(KUBECONFIG && IMAGE);
  return {
    worker: (isGiven && IMAGE) || `${VERSIONED}:1`,
    upgrade: (isGiven && IMAGE) || `${VERSIONED}:2`,
    kafka: STACK_KAFKA_IMAGE || `apache/kafka:${DEFAULT_KAFKA_VERSION}`,
    postgres: STACK_POSTGRES_IMAGE || `postgres:${DEFAULT_POSTGRES_VERSION}`,
  };
}

export const IMAGES = imagesOf(process.env);

/** Those of the makers that are used where they can be had, as the Dockerfile names its own. */
const NODE_IMAGE = 'node:24.20.0-bookworm-slim';
const RUNTIME_IMAGE = 'debian:12.12-slim';

/** A container engine, by its command line. */
export interface ImageEngine {
  readonly cli: string;
  readonly environment: Environment;
  /** Whether it was started here: then builds share the machine's network, for it has none of its own. */
  readonly isOwn: boolean;
  stop(): Promise<void>;
}

/** The one that answers; undefined where none does. */
export async function findImageEngine(environment: Environment): Promise<ImageEngine | undefined> {
  const cli = findOnPath('docker', environment) ?? findOnPath('podman', environment);
  if (cli === undefined) return undefined;
  const { code } = await run(cli, ['version'], { deadlineMs: ANSWER_DEADLINE_MS, environment });
  return code === 0 ? { cli, environment, isOwn: false, stop: async () => {} } : undefined;
}

/** Its images stay in the cache. @throws where it does not start, with the end of its log */
export async function startImageEngine(directory: string, environment: Environment): Promise<ImageEngine> {
  const inSystem = withSystem(environment);
  const file = findOnPath('dockerd', inSystem) ?? 'dockerd';
  const socket = `unix://${join(directory, 'docker.sock')}`;
  const engine = new Child(
    {
      ...{ name: 'dockerd', file, directory, environment: inSystem },
      args: [
        ...['--data-root', join(dirname(cacheOf('cluster', environment)), 'engine'), '--host', socket],
        ...['--exec-root', join(directory, 'engine'), '--pidfile', join(directory, 'docker.pid')],
        // It leaves the network of the machine as it is.
        ...[
          '--bridge=none',
          '--iptables=false',
          '--ip6tables=false',
          '--ip-forward=false',
          '--ip-masq=false',
        ],
      ],
      ...{ logFile: join(directory, 'dockerd.log'), stopSignal: 'SIGTERM' },
    },
    () => {},
  );
  // Beside its server: a client that was installed otherwise may want plugins.
  const besides = {
    ...inSystem,
    PATH: `/usr/bin:${inSystem.PATH}`,
    DOCKER_HOST: socket,
    DOCKER_BUILDKIT: '1',
  };
  const cli = findOnPath('docker', besides) ?? 'docker';
  await until('dockerd answers', START_DEADLINE_MS, async () => {
    if (engine.endedBy !== undefined) throw engine.failure(`ended while starting (${engine.endedBy})`);
    return (await run(cli, ['version'], { deadlineMs: ANSWER_DEADLINE_MS, environment: besides })).code === 0;
  });
  return { cli, environment: besides, isOwn: true, stop: () => engine.stop() };
}

export interface Provided {
  /** Of `docker save`, with all of them. */
  readonly archive: string;
  readonly workerBytes: number;
  readonly hasStandIns: boolean;
}

export async function provideImages(engine: ImageEngine, directory: string, log: Log): Promise<Provided> {
  const docker = (args: readonly string[], deadlineMs = BUILD_DEADLINE_MS, input = ''): Promise<string> =>
    must(engine.cli, args, { deadlineMs, environment: engine.environment, input });
  const has = async (name: string): Promise<boolean> =>
    (
      await run(engine.cli, ['image', 'inspect', name], {
        deadlineMs: ANSWER_DEADLINE_MS,
        environment: engine.environment,
      })
    ).code === 0;
  const pulls = async (name: string): Promise<boolean> =>
    (await has(name)) ||
    (
      await run(engine.cli, ['pull', '--quiet', name], {
        deadlineMs: PULL_DEADLINE_MS,
        environment: engine.environment,
      })
    ).code === 0;

  const hasStandIns = !(await pulls(RUNTIME_IMAGE));
  const names = hasStandIns
    ? await makeStandIns({ engine, docker, has, log })
    : { node: NODE_IMAGE, runtime: RUNTIME_IMAGE, kafka: IMAGES.kafka, postgres: IMAGES.postgres };
  if (!hasStandIns)
    for (const name of [names.node, names.kafka, names.postgres]) {
      log(`pulling ${name} …`);
      if (!(await pulls(name))) throw new Error(`${name} could not be pulled`);
    }
  const began = performance.now();
  const options = [`--build-arg NODE_IMAGE=${names.node} --build-arg RUNTIME_IMAGE=${names.runtime}`];
  await must(
    'make',
    [
      '--no-print-directory',
      'image',
      `IMAGE=${IMAGES.worker}`,
      `BUILD_OPTIONS=${[...options, ...networkOf(engine)].join(' ')}`,
    ],
    {
      ...{ deadlineMs: BUILD_DEADLINE_MS, environment: engine.environment, directory: projectRoot },
    },
  );
  log(`the image is built (${seconds(began)})`);
  await docker(['tag', IMAGES.worker, IMAGES.upgrade]);
  await docker(['tag', names.kafka, IMAGES.kafka]);
  await docker(['tag', names.postgres, IMAGES.postgres]);
  // Holds the namespaces of a pod, and does nothing.
  await docker(
    ['build', '--quiet', '--tag', PAUSE_IMAGE, '-'],
    BUILD_DEADLINE_MS,
    `FROM ${names.runtime}\nENTRYPOINT ["sleep", "infinity"]\n`,
  );
  const archive = join(directory, 'images.tar');
  await docker(['save', '--output', archive, ...Object.values(IMAGES), PAUSE_IMAGE]);
  const workerBytes = Number(await docker(['image', 'inspect', '--format', '{{.Size}}', IMAGES.worker]));
  return { archive, workerBytes, hasStandIns };
}

const seconds = (began: number): string => `${((performance.now() - began) / 1000).toFixed(1)} s`;
const networkOf = ({ isOwn }: ImageEngine): string[] => (isOwn ? ['--network host'] : []);

interface Maker {
  readonly engine: ImageEngine;
  readonly docker: (args: readonly string[], deadlineMs?: number, input?: string) => Promise<string>;
  readonly has: (name: string) => Promise<boolean>;
  readonly log: Log;
}

/** Each is made once. @returns their names */
async function makeStandIns({ engine, docker, has, log }: Maker) {
  const names = {
    runtime: `${STAND_INS}/debian:12`,
    node: `${STAND_INS}/node:${process.versions.node}`,
    kafka: `${STAND_INS}/kafka:${DEFAULT_KAFKA_VERSION}`,
    postgres: `${STAND_INS}/postgres:${DEFAULT_POSTGRES_VERSION}`,
  };
  const context = mkdtempSync(join(tmpdir(), 'promo-intake-images-'));
  const make = async (
    name: string,
    fill: (target: string) => void | Promise<void>,
    dockerfile: string,
  ): Promise<void> => {
    if (await has(name)) return;
    const began = performance.now();
    const target = join(context, name.replaceAll(/\W/g, '-'));
    mkdirSync(target);
    await fill(target);
    writeFileSync(join(target, 'Dockerfile'), dockerfile);
    await docker([
      'build',
      '--quiet',
      ...networkOf(engine).flatMap((each) => each.split(' ')),
      '--tag',
      name,
      target,
    ]);
    log(`${name} is made, in place of its maker's (${seconds(began)})`);
  };
  const supervisor = new Supervisor(log, false);
  try {
    if (!(await has(names.runtime))) {
      const began = performance.now();
      const [root, archive] = [join(context, 'root'), join(context, 'root.tar')];
      const options = { deadlineMs: BUILD_DEADLINE_MS, environment: withSystem(engine.environment) };
      await must(
        'debootstrap',
        ['--variant=minbase', '--include=ca-certificates', 'bookworm', root],
        options,
      );
      // What this machine trusts, an authority of its own network may be among it.
      cpSync('/etc/ssl/certs/ca-certificates.crt', join(root, 'etc/ssl/certs/ca-certificates.crt'));
      await must(
        'tar',
        ['--directory', root, '--exclude=./var/cache/apt/archives/*.deb', '--create', '--file', archive, '.'],
        options,
      );
      await docker(['import', archive, names.runtime]);
      log(`${names.runtime} is made, in place of its maker's (${seconds(began)})`);
    }
    const from = `FROM ${names.runtime}\n`;
    const provide = { supervisor, environment: process.env, log };
    await make(
      names.node,
      (target) => {
        const npm = findOnPath('npm', process.env);
        if (npm === undefined) throw new Error('npm is missing');
        cpSync(process.execPath, join(target, 'node'));
        cpSync(join(dirname(realpathSync(npm)), '..'), join(target, 'npm'), {
          recursive: true,
          dereference: true,
        });
      },
      `${from}ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt\nCOPY node /usr/local/bin/\nCOPY npm /usr/local/lib/node_modules/npm\nRUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm\n`,
    );
    await make(
      names.postgres,
      async (target) => {
        const { binDirectory } = await providePostgres(
          provide,
          DEFAULT_POSTGRES_VERSION,
          join(context, 'postgres-copy'),
        );
        cpSync(dirname(binDirectory), join(target, 'native'), { recursive: true, verbatimSymlinks: true });
      },
      `${from}COPY native /usr/lib/postgresql/${DEFAULT_POSTGRES_VERSION}
ENV PATH=/usr/lib/postgresql/${DEFAULT_POSTGRES_VERSION}/bin:$PATH LD_LIBRARY_PATH=/usr/lib/postgresql/${DEFAULT_POSTGRES_VERSION}/lib
RUN useradd --uid 999 postgres
`,
    );
    await make(
      names.kafka,
      async (target) => {
        const { jars } = await fetchKafka(provide, DEFAULT_KAFKA_VERSION);
        cpSync(jars, join(target, 'libs'), { recursive: true });
        mkdirSync(join(target, 'bin'));
        for (const [script, mainClass] of [
          ['kafka-storage', 'kafka.tools.StorageTool'],
          ['kafka-server-start', 'kafka.Kafka'],
        ])
          writeFileSync(
            join(target, 'bin', `${script}.sh`),
            `#!/bin/sh\nexec java $KAFKA_HEAP_OPTS -cp '/opt/kafka/libs/*' ${mainClass} "$@"\n`,
            { mode: 0o755 },
          );
      },
      `${from}RUN apt-get update -q && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
COPY libs /opt/kafka/libs
COPY bin /opt/kafka/bin
`,
    );
    return names;
  } finally {
    await supervisor.stop();
    rmSync(context, { recursive: true, force: true });
  }
}

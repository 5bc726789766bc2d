/**
 * Stand-ins for the makers' images, if no registry can be reached. They are made of Debian's packages,
 * Maven's jars, npm's programs and this machine's Java. They run the same servers, with the same variables as
 * far as our images use them. They prove nothing about the makers' images.
 */
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { projectRoot } from '../servers/download';
import { findOnPath } from '../servers/java';
import { DEFAULT_KAFKA_VERSION, fetchKafka } from '../servers/kafka';
import { DEFAULT_POSTGRES_VERSION, providePostgres } from '../servers/postgres-programs';
import { fetchRegistry, REGISTRY_VERSION } from '../servers/registry';
import { Supervisor } from '../servers/supervisor';
import type { Log, ServerName } from '../servers/types';
import { withSystem } from './debian';
import { BUILD_DEADLINE_MS, docker, hasImage, type ImageEngine, networkOf, secondsSince } from './engine';
import { must } from './run';

const STAND_INS = 'promo-intake-stand-ins';

/** Names of the stand-ins; the product's own image is made of the first two. */
const NAMES = {
  runtime: `${STAND_INS}/debian:12`,
  node: `${STAND_INS}/node:${process.versions.node}`,
  kafka: `${STAND_INS}/kafka:${DEFAULT_KAFKA_VERSION}`,
  postgres: `${STAND_INS}/postgres:${DEFAULT_POSTGRES_VERSION}`,
  registry: `${STAND_INS}/registry:${REGISTRY_VERSION}`,
} as const;

/** Parts of a JDK that only compilers need: half of it. */
const NOT_OF_A_RUNTIME = /\/(jmods|include|man|lib\/src\.zip|lib\/ct\.sym)$/;

/**
 * Makes the stand-ins that the engine does not have.
 *
 * @returns their names
 */
export async function makeStandIns(
  engine: ImageEngine,
  servers: readonly ServerName[],
  log: Log,
): Promise<typeof NAMES> {
  const context = mkdtempSync(join(tmpdir(), 'promo-intake-images-'));
  const supervisor = new Supervisor(log, false);
  const fetching = { supervisor, environment: process.env, log };

  /** @param fill puts the files that the Dockerfile copies into the directory */
  async function make(
    name: string,
    fill: (target: string) => void | Promise<void>,
    dockerfile: string,
  ): Promise<void> {
    if (await hasImage(engine, name)) return;
    const began = performance.now();
    const target = join(context, name.replaceAll(/\W/g, '-'));
    mkdirSync(target);
    await fill(target);
    writeFileSync(join(target, 'Dockerfile'), dockerfile);
    await docker(engine, ['build', '--quiet', ...networkOf(engine), '--tag', name, target]);
    log(`${name} is made, in place of its maker's (${secondsSince(began)})`);
  }

  async function makeRuntime(): Promise<void> {
    if (await hasImage(engine, NAMES.runtime)) return;
    const began = performance.now();
    const [root, archive] = [join(context, 'root'), join(context, 'root.tar')];
    const options = { deadlineMs: BUILD_DEADLINE_MS, environment: withSystem(engine.environment) };
    await must('debootstrap', ['--variant=minbase', '--include=ca-certificates', 'bookworm', root], options);
    // The authorities that this machine trusts, since one of its own network may be among them.
    cpSync('/etc/ssl/certs/ca-certificates.crt', join(root, 'etc/ssl/certs/ca-certificates.crt'));
    const leftOut = '--exclude=./var/cache/apt/archives/*.deb';
    await must('tar', ['--directory', root, leftOut, '--create', '--file', archive, '.'], options);
    await docker(engine, ['import', archive, NAMES.runtime]);
    log(`${NAMES.runtime} is made, in place of its maker's (${secondsSince(began)})`);
  }

  const from = `FROM ${NAMES.runtime}\n`;
  const makeNode = () =>
    make(
      NAMES.node,
      (target) => {
        const npm = findOnPath('npm', process.env);
        if (npm === undefined) throw new Error('npm is missing');
        cpSync(process.execPath, join(target, 'node'));
        cpSync(join(dirname(realpathSync(npm)), '..'), join(target, 'npm'), {
          recursive: true,
          dereference: true,
        });
      },
      `${from}ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
COPY node /usr/local/bin/
COPY npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
`,
    );

  const makers: Record<ServerName, () => Promise<void>> = {
    postgres: () =>
      make(
        NAMES.postgres,
        async (target) => {
          const copy = join(context, 'postgres-copy');
          const { binDirectory } = await providePostgres(fetching, DEFAULT_POSTGRES_VERSION, copy);
          cpSync(dirname(binDirectory), join(target, 'native'), { recursive: true, verbatimSymlinks: true });
          copyEntrypoint('postgres', target);
        },
        `${from}COPY native /usr/lib/postgresql/${DEFAULT_POSTGRES_VERSION}
COPY entrypoint.sh /usr/local/bin/
ENV PATH=/usr/lib/postgresql/${DEFAULT_POSTGRES_VERSION}/bin:$PATH LD_LIBRARY_PATH=/usr/lib/postgresql/${DEFAULT_POSTGRES_VERSION}/lib
RUN useradd --uid 999 postgres && install --directory --owner postgres --mode 700 /var/lib/postgresql/data
ENV PGDATA=/var/lib/postgresql/data
USER postgres
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["entrypoint.sh"]
CMD ["postgres"]
`,
      ),
    kafka: () =>
      make(
        NAMES.kafka,
        async (target) => {
          const { jars, java } = await fetchKafka(fetching, DEFAULT_KAFKA_VERSION);
          cpSync(jars, join(target, 'libs'), { recursive: true });
          copyJava(java.home, target);
          copyEntrypoint('kafka', target);
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
        `${from}COPY java /opt/java
COPY libs /opt/kafka/libs
COPY bin /opt/kafka/bin
COPY entrypoint.sh /usr/local/bin/
RUN useradd --uid 1000 kafka && install --directory --owner kafka /var/lib/kafka/data
ENV PATH=/opt/java/bin:$PATH
USER kafka
VOLUME /var/lib/kafka/data
ENTRYPOINT ["entrypoint.sh"]
`,
      ),
    registry: () =>
      make(
        NAMES.registry,
        async (target) => {
          const { program, java } = await fetchRegistry(fetching);
          cpSync(program, join(target, 'registry'), { recursive: true });
          copyJava(java.home, target);
        },
        `${from}COPY java /opt/java
COPY registry /opt/registry
RUN useradd --uid 1000 registry
USER registry
ENTRYPOINT ["/opt/java/bin/java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=0.0.0.0", "-jar", "/opt/registry/quarkus-run.jar"]
`,
      ),
  };

  try {
    await makeRuntime();
    await makeNode();
    for (const server of servers) await makers[server]();
    return NAMES;
  } finally {
    await supervisor.stop();
    rmSync(context, { recursive: true, force: true });
  }
}

function copyJava(home: string, target: string): void {
  cpSync(home, join(target, 'java'), {
    recursive: true,
    // Debian's package keeps its settings elsewhere.
    dereference: true,
    filter: (path) => !NOT_OF_A_RUNTIME.test(path),
  });
}

function copyEntrypoint(server: ServerName, target: string): void {
  cpSync(join(projectRoot, 'dev', 'containers', `${server}-entrypoint.sh`), join(target, 'entrypoint.sh'));
}

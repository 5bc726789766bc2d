/** The programs of docs/producers.md, as they are there, against a running webhook and a running worker. */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { findPython, installPackages, type Python } from '../../dev/python';
import { until } from '../../dev/servers/deadline';
import { projectRoot } from '../../dev/servers/download';
import { HOOK, secret, withWebhook } from '../stream/scene';
import { aBet, aLogin, aRefund, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { testWhere } from '../support/needed';
import { kafkaBrokers, withAdmin } from '../support/servers';
import { findGo, findJdk, findPhp, type Toolchain } from '../support/toolchains';
import { killWorkers } from '../support/worker';

const RUN_DEADLINE_MS = 300_000;
/** A group that is new has to be made first. */
const READ_DEADLINE_MS = 60_000;
/** The first run installs packages, and compiles those of Go. */
const TEST_DEADLINE_MS = 600_000;

/** Maven works for seconds: the best compiler costs more than it saves. */
const QUICK_JAVA = '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC';

jest.setTimeout(TEST_DEADLINE_MS);
afterEach(killWorkers);

const page = readFileSync(join(projectRoot, 'docs', 'producers.md'), 'utf8');

/** The files that the page shows, by name. The first line of each has its name in a comment. */
const files = new Map(
  [
    ...page.matchAll(
      /^```(?:python|js|java|go|php|xml)\n((?:<\?php )?(?:#|\/\/|<!--) (\S+)(?: -->)?\n.*?)^```$/gms,
    ),
  ].map(([, text = '', name = '']) => [name, text]),
);

/** The commands that the page shows for a language: how to install packages by each way. */
const installs = (language: string): string[] =>
  page
    .split(/^(?=##)/m)
    .filter((section) => section.startsWith(`### ${language}\n`))
    .flatMap((section) => [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = '']) => text));

type Way = 'webhook' | 'kafka';

/** The commands of the table: how to run the program of a language. PHP has one for the webhook alone. */
const commands = new Map(
  [...page.matchAll(/^\| \[(\w+)\]\(.*?\| `(.*?)` \|(?: `(.*?)`)? \|$/gm)].map(
    ([, language = '', webhook = '', kafka = '']) => [language, { webhook, kafka }],
  ),
);

// Beside node_modules, where the programs find their packages.
const BUILD = join(projectRoot, 'build');
let directory = '';
beforeAll(() => {
  mkdirSync(BUILD, { recursive: true });
  directory = mkdtempSync(join(BUILD, 'producers-'));
  for (const [name, text] of files) writeFileSync(join(directory, name), text);
});
afterAll(() => rmSync(directory, { recursive: true }));

interface Ended {
  readonly code: unknown;
  readonly stdout: string;
  readonly stderr: string;
}

function shell(script: string, environment: object): Promise<Ended> {
  // The Node.js of this run comes first.
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;
  const settings = {
    env: { ...process.env, PATH, ...environment },
    timeout: RUN_DEADLINE_MS,
    cwd: directory,
  };
  return new Promise((resolve) => {
    execFile('bash', ['-ec', script], settings, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

/** Runs a program on some events. */
type Run = (environment: object, events: readonly object[]) => Promise<Ended>;

function runOf(language: string, way: Way, toolchain: object): Run {
  const command = commands.get(language)?.[way] ?? '';
  return (environment, events) => {
    writeFileSync(
      join(directory, 'events.ndjson'),
      events.map((event) => `${JSON.stringify(event)}\n`).join(''),
    );
    return shell(command, { ...toolchain, ...environment });
  };
}

/** The packages of Python are pinned by their hashes. */
async function pythonPackages(python: Python): Promise<{ PYTHONPATH: string }> {
  const requirements = join(projectRoot, 'test', 'webhook', 'producers', 'requirements.txt');
  return { PYTHONPATH: await installPackages(python, requirements) };
}

/** By language: both ways use the same packages. */
const installed = new Map<string, Promise<object>>();

/** Installs packages by the commands of the page. The tools of a language keep them for the next run. */
function pagePackages(language: string, toolchain: Toolchain): Promise<object> {
  const installing = installed.get(language) ?? installPagePackages(language, toolchain);
  installed.set(language, installing);
  return installing;
}

async function installPagePackages(language: string, { environment }: Toolchain): Promise<object> {
  for (const script of installs(language)) {
    const { code, stdout, stderr } = await shell(script, { ...environment, MAVEN_OPTS: QUICK_JAVA });
    if (code !== 0) throw new Error(`${script} failed: ${stdout}${stderr}`);
  }
  return environment;
}

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

/** @param program the name of a file of the page, which the command runs */
const readsVerdicts = (command: string, program: string, toolchain: object) =>
  withWebhook({}, async ({ world }) => {
    const topic = `verdicts.${world.groupId}`;
    const bet = aBet({ event_id: 'bet', round_id: 'r-1', amount: '10.50' });
    const wrong = aBet({ event_id: 'wrong', amount: '1,50' });
    const events = [bet, wrong, wrong, aRefund(bet, { event_id: 'refund' }), { ...aLogin(), event_id: 7 }];
    await produce(
      world.topics.main,
      events.map((event) => ({ value: bytesOf(event) })),
    );
    await world.drain({ VERDICT_TOPIC: topic });
    const running = spawn(command, [program], {
      cwd: directory,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        ...toolchain,
        KAFKA_BROKERS: kafkaBrokers().join(),
        TOPIC: topic,
        GROUP: `reader-${randomBytes(6).toString('hex')}`,
      },
    });
    let output = '';
    running.stdout.on('data', (chunk) => {
      output += chunk;
    });
    try {
      await until('all is printed', READ_DEADLINE_MS, () => output.split('\n').length > 4);
    } finally {
      running.kill('SIGKILL');
      await withAdmin((admin) => admin.deleteTopics({ topics: [topic] }));
    }
    const correct = 'Send the exact amount as a decimal string, with a new event_id.';
    expect(output.trimEnd().split('\n').sort()).toEqual([
      'refund refunds r-1 EUR 10.50 0.00',
      `${world.topics.main}/0/4 rejected no_idempotency_key Fix the payload and send the event again.`,
      `wrong rejected bad_amount It was rejected under this id. ${correct}`,
      `wrong rejected bad_amount ${correct}`,
    ]);
  });

test('the page has a program of each language for each way, and a command that runs it', () => {
  expect([...files.keys()]).toEqual([
    ...['send.py', 'send.mjs', 'pom.xml', 'Send.java', 'send.go', 'send.php'],
    ...['produce.py', 'produce.mjs', 'Produce.java', 'produce.go'],
    ...['verdicts.py', 'verdicts.mjs'],
  ]);
  expect([...commands.keys()]).toEqual(['Python', 'JavaScript', 'Java', 'Go', 'PHP']);
  expect(installs('Java')).toHaveLength(1);
  expect(installs('Go')).toHaveLength(2);
});

describe.each([
  ['webhook', sendsByTheWebhook],
  ['kafka', sendsByKafka],
] as const)('by %s', (way, sends) => {
  testWhere(findPython())('Python sends', async (python) =>
    sends(runOf('Python', way, await pythonPackages(python))),
  );

  test('JavaScript sends', () => sends(runOf('JavaScript', way, {})));

  testWhere(findJdk())('Java sends', async (jdk) =>
    sends(runOf('Java', way, await pagePackages('Java', jdk))),
  );

  testWhere(findGo())('Go sends', async (go) => sends(runOf('Go', way, await pagePackages('Go', go))));
});

testWhere(findPython())('Python reads the verdicts', async (python) =>
  readsVerdicts(python.executable, 'verdicts.py', await pythonPackages(python)),
);

test('JavaScript reads the verdicts', () => readsVerdicts(process.execPath, 'verdicts.mjs', {}));

testWhere(findPhp())('by webhook PHP sends', () => sendsByTheWebhook(runOf('PHP', 'webhook', {})));

/** The npm package: check, send, reconcile and try run of it, without a checkout of the repository. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { makeCheckPage } from '../../dev/check-page';
import { until, within } from '../../dev/servers/deadline';
import { projectRoot } from '../../dev/servers/download';
import { trySecretOf } from '../../src/try/example';
import { aBet } from '../support/builders';
import { blocksOf } from '../support/terminal';
import { program } from '../support/worker';

jest.setTimeout(600_000);

const PACK_DEADLINE_MS = 120_000;
const INSTALL_DEADLINE_MS = 300_000;
const READY_DEADLINE_MS = 60_000;
const END_DEADLINE_MS = 60_000;

/** The block of the operators' page that installs the package. */
const [INSTALLATION] = blocksOf(readFileSync(join(projectRoot, 'docs/operators.md'), 'utf8')).filter(
  ({ lines }) => lines[0]?.startsWith('npm install '),
);
const QUIET_NPM = { npm_config_audit: 'false', npm_config_fund: 'false', npm_config_prefer_offline: 'true' };

const run = promisify(execFile);

let directory: string;
let files: readonly string[];
/** What `promo-intake --version` prints after the commands of the page. */
let installed: string;
let trying: ChildProcess | undefined;
let environment: NodeJS.ProcessEnv;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'package-test-'));
  // npm may have its configuration in variables.
  environment = { ...process.env, TMPDIR: directory };
  // The user of the server of `try` has to reach its directory.
  if (process.getuid?.() === 0) chmodSync(directory, 0o755);
  // As `make package` does, beside the checkout: other tests use its build.
  const copy = join(directory, 'copy');
  mkdirSync(copy);
  const packed = ['README.md', 'LICENSE', 'package.json', '.npmrc', 'migrations', 'pages', 'schemas'];
  await run('cp', ['-R', ...packed, copy], { cwd: projectRoot });
  // Its page is a link into the checkout.
  await run('cp', ['-RL', dirname(program()), join(copy, 'dist')]);
  writeFileSync(join(copy, 'dist', 'check.html'), await makeCheckPage(projectRoot));
  const packing = { cwd: copy, env: environment, timeout: PACK_DEADLINE_MS };
  const archive = (await run('npm', ['pack', '--silent', '--ignore-scripts'], packing)).stdout.trim();
  const listed = await run('tar', ['-tzf', join(copy, archive)]);
  files = listed.stdout.trim().split('\n');
  const empty = join(directory, 'empty');
  mkdirSync(empty);
  await run('npm', ['init', '--yes'], { cwd: empty, env: environment });
  renameSync(join(copy, archive), join(empty, archive));
  rmSync(copy, { recursive: true });
  const commands = ['set -e', ...(INSTALLATION?.lines ?? []), 'promo-intake --version'];
  const npm = { ...environment, ...QUIET_NPM };
  const installing = { cwd: empty, env: npm, timeout: INSTALL_DEADLINE_MS };
  installed = (await run('sh', ['-c', commands.join('\n')], installing)).stdout;
});
afterAll(() => {
  if (trying?.exitCode === null && trying.signalCode === null) process.kill(-Number(trying.pid), 'SIGTERM');
  rmSync(directory, { recursive: true, force: true });
});

interface Ended {
  readonly code: unknown;
  readonly output: string;
}

async function promoIntake(args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<Ended> {
  try {
    const options = { cwd: join(directory, 'empty'), env: { ...environment, ...more } };
    const { stdout, stderr } = await run('npx', ['--no-install', 'promo-intake', ...args], options);
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const of = (name: string): unknown => Reflect.get(Object(error), name);
    return { code: of('code'), output: `${of('stdout')}${of('stderr')}` };
  }
}

function write(name: string, events: readonly object[]): string {
  writeFileSync(join(directory, 'empty', name), events.map((each) => `${JSON.stringify(each)}\n`).join(''));
  return name;
}

test('holds the program, its migrations, pages, schemas and examples, and nothing of the tests', () => {
  const tops = new Set(files.map((file) => file.split('/')[1]));
  expect([...tops].sort()).toEqual([
    ...['LICENSE', 'README.md', 'dist', 'migrations', 'package.json', 'pages', 'schemas'],
  ]);
  expect(files).toContain('package/schemas/examples/valid/bet.json');
  expect(files.filter((file) => /\.(ts|map)$|\/released\//.test(file))).toEqual([]);
});

test('the commands of docs/operators.md install it, and find it by its name', () => {
  const { version } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'));
  expect(installed).toMatch(new RegExp(`^promo-intake ${version}\\b.*\n$`, 'm'));
});

test('checks a file, and names each fault', async () => {
  const file = write('check.ndjson', [aBet(), aBet({ amount: '1,50' })]);
  expect(await promoIntake(['check', file])).toEqual({
    code: 1,
    output: expect.stringContaining('check.ndjson:2: rejected/bad_amount'),
  });
  const example = 'node_modules/promo-intake/schemas/examples/valid/bet.json';
  expect(await promoIntake(['check', example])).toMatchObject({ code: 0 });
});

test('prints the page that checks events', async () => {
  const page = await makeCheckPage(projectRoot);
  expect(await promoIntake(['check-page'])).toEqual({ code: 0, output: page });
  expect(files).toContain('package/dist/check.html');
});

test('tries, sends and reconciles', async () => {
  const child = spawn('npx', ['--no-install', 'promo-intake', 'try', '--port', '0'], {
    cwd: join(directory, 'empty'),
    env: environment,
    // A group of its own, which gets the signal as a whole: so Ctrl-C does in a terminal.
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'] as const,
  });
  trying = child;
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await until('it is ready', READY_DEADLINE_MS, () => output.includes('promo-intake try is ready'));
  const address = /http:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0] ?? '';
  const target = ['--url', address, '--connection', 'acme-hook'];
  const secrets = { WEBHOOK_SECRETS: JSON.stringify({ 'acme-hook': trySecretOf('acme-hook') }) };
  const file = write('send.ndjson', [aBet({ event_id: 'a' }), aBet({ event_id: 'b', amount: '1,50' })]);
  expect(await promoIntake(['send', file, ...target], secrets)).toEqual({
    code: 1,
    output: expect.stringContaining('send.ndjson:2: rejected/bad_amount'),
  });
  expect(await promoIntake(['send', file, ...target, '--json'], secrets)).toMatchObject({
    output: expect.stringContaining('"verdict":"duplicate"'),
  });
  expect((await fetch(`${address}/check`)).status).toBe(200);
  const page = await (await fetch(`${address}/try`)).text();
  expect(page).toBe(readFileSync(join(projectRoot, 'pages/try/page.html'), 'utf8'));
  const asked = write('reconcile.ndjson', [aBet({ event_id: 'a' }), aBet({ event_id: 'never' })]);
  const DATABASE_URL = /^ +database +(\S+)$/m.exec(output)?.[1];
  const reconcile = ['reconcile', asked, '--connection', 'acme-hook', '--json'];
  const reconciled = await promoIntake(reconcile, { DATABASE_URL });
  expect(reconciled.code).toBe(1);
  expect(reconciled.output).toMatch(/"event_id":"never".*never_received/);
  process.kill(-Number(child.pid), 'SIGINT');
  await within('it ends', END_DEADLINE_MS, ended);
  const isLeft = () => readdirSync(directory).some((name) => name.startsWith('promo-intake-try-'));
  await until('its database is removed', END_DEADLINE_MS, () => !isLeft());
});

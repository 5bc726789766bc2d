/** wallet-check against the example wallet on a real Postgres: a sound one, and one with each planted bug. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { BUG_NAMES, BUGS, type BugName } from '../../dev/example-wallet/bugs';
import { type RunningWallet, startExampleWallet } from '../../dev/example-wallet/server';
import { projectRoot } from '../../dev/servers/download';
import { freePort } from '../../dev/servers/ports';
import { walletCheck } from '../../src/commands/wallet/wallet-check';
import { NEVER, systemClock } from '../../src/lib/clock';
import type { WalletProfile } from '../../src/wallet/profile';
import { parseProfile } from '../../src/wallet/profile-file';
import { runEndpointChecks } from '../../src/wallet-check/endpoint-runner';
import { endpointChecksFor } from '../../src/wallet-check/endpoints';
import { runScenarios, type ScenarioResult } from '../../src/wallet-check/runner';
import type { Scenario } from '../../src/wallet-check/scenario';
import { scenariosFor } from '../../src/wallet-check/scenarios/scenarios';
import { connectWallet } from '../../src/wallet-check/transport';
import { type FreshDatabase, freshDatabase } from '../support/servers';

const SECRET = 'secret-of-the-test';
/** The address in the example. */
const ADDRESS = 'http://127.0.0.1:8787';
const PROFILE = profileOf('wallet.yaml');
const SCENARIOS = [...scenariosFor(PROFILE), ...endpointChecksFor(PROFILE).map(({ scenario }) => scenario)];

function profileOf(file: string, url = ADDRESS): WalletProfile {
  const text = readFileSync(join(projectRoot, 'schemas/examples', file), 'utf8');
  const parsed = parseProfile(text.replaceAll(ADDRESS, url), file);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.profile;
}

/** Plays scenarios and checks of endpoints against a running wallet. */
async function check(
  wallet: RunningWallet,
  scenarios: readonly Scenario[],
): Promise<readonly ScenarioResult[]> {
  const profile = profileOf('wallet.yaml', wallet.url);
  const ids = new Set(scenarios.map(({ id }) => id));
  const played = await runScenarios(
    scenariosFor(profile).filter(({ id }) => ids.has(id)),
    {
      profile,
      transport: connectWallet(profile, SECRET, NEVER),
      clock: systemClock,
      stop: NEVER,
      run: `wc-${randomBytes(5).toString('hex')}`,
      progress: () => undefined,
    },
  );
  const checked = await runEndpointChecks(
    endpointChecksFor(profile).filter(({ scenario }) => ids.has(scenario.id)),
    { stop: NEVER, progress: () => undefined },
  );
  return [...played, ...checked];
}

const startWallet = (databaseUrl: string, bugs: readonly BugName[]) =>
  startExampleWallet({
    databaseUrl,
    secret: SECRET,
    keyId: 'wallet-key-1',
    port: 0,
    bugs: new Set(bugs),
  });

async function withWallet<T>(
  databaseUrl: string,
  bugs: readonly BugName[],
  use: (wallet: RunningWallet) => Promise<T>,
): Promise<T> {
  const wallet = await startWallet(databaseUrl, bugs);
  return use(wallet).finally(() => wallet.close());
}

const outcomes = (results: readonly ScenarioResult[]) =>
  results.map(({ scenario, status, reason, problems }) => ({ id: scenario.id, status, reason, problems }));
const named = (bug: BugName) => SCENARIOS.filter(({ id }) => id === BUGS[bug].caughtBy);
const LANES = 6;

/** Most of the time of a wallet is waiting, so wallets share the processors. */
describe('the example wallet', () => {
  const sound: (readonly ScenarioResult[])[] = [];
  const caught = new Map<BugName, readonly ScenarioResult[]>();

  beforeAll(async () => {
    // The slowest first.
    const waiting: BugName[] = ['slow', ...BUG_NAMES.filter((bug) => bug !== 'slow')];
    const soundLane = async () => {
      const database = await freshDatabase();
      for (let pass = 1; pass <= 2; pass++)
        await withWallet(database.url, [], async (wallet) => {
          sound.push(await check(wallet, SCENARIOS));
        });
      await database.drop();
    };
    const bugLane = async () => {
      const database = await freshDatabase();
      for (let bug = waiting.shift(); bug !== undefined; bug = waiting.shift()) {
        const scenarios = named(bug);
        caught.set(bug, await withWallet(database.url, [bug], (wallet) => check(wallet, scenarios)));
        await forgetExampleWallet(database.url);
      }
      await database.drop();
    };
    await Promise.all([soundLane(), ...Array.from({ length: LANES }, bugLane)]);
  }, 240_000);

  test('passes every scenario, and none is left out [O8]', () => {
    expect(outcomes(sound[0] ?? [])).toEqual(
      SCENARIOS.map(({ id }) => ({ id, status: 'passed', reason: null, problems: [] })),
    );
  });

  test('passes every scenario again on the same database', () => {
    expect(outcomes(sound[1] ?? [])).toEqual(outcomes(sound[0] ?? []));
  });

  test.each(BUG_NAMES)('with the planted bug %s is caught by the scenario that it names [O8]', (bug) => {
    const results = caught.get(bug) ?? [];
    expect(results.map(({ scenario, status }) => [scenario.id, status])).toEqual([
      [BUGS[bug].caughtBy, 'failed'],
    ]);
  });
});

async function forgetExampleWallet(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('drop schema example_wallet cascade');
  await client.end();
}

describe('the command', () => {
  let directory: string;
  let database: FreshDatabase;
  let wallet: RunningWallet | undefined;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());
  afterEach(async () => {
    await wallet?.close();
    wallet = undefined;
  });
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'wallet-check-'));
    writeFileSync(join(directory, 'wallet.secret'), `${SECRET}\n`);
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  /** Runs the command with the example profile, in which texts are replaced. */
  async function run(
    changes: readonly (readonly [string, string])[],
    only?: string,
    reports: { readonly junit?: string; readonly json?: string } = {},
  ) {
    const text = readFileSync(join(projectRoot, 'schemas/examples/wallet.yaml'), 'utf8');
    const changed = changes.reduce((rest, [was, is]) => rest.replaceAll(was, is), text);
    const [profile, junit, json] = [
      'wallet.yaml',
      reports.junit ?? 'wallet.xml',
      reports.json ?? 'wallet.json',
    ].map((name) => join(directory, name));
    writeFileSync(profile!, changed);
    const printed: string[] = [];
    const take = (part: unknown) => {
      printed.push(String(part));
      return true;
    };
    const spies = [
      jest.spyOn(console, 'error').mockImplementation(take),
      jest.spyOn(process.stdout, 'write').mockImplementation(take),
    ];
    const code = await walletCheck({ profile: profile!, only, junit, json }, NEVER).finally(() => {
      for (const spy of spies) spy.mockRestore();
    });
    const read = (file: string) =>
      statSync(file, { throwIfNoEntry: false })?.isFile() ? readFileSync(file, 'utf8') : '';
    return { code, printed: printed.join('\n'), junit: read(junit!), json: read(json!) };
  }

  async function start(bugs: readonly BugName[]) {
    wallet = await startWallet(database.url, bugs);
    return [[ADDRESS, wallet.url]] as const;
  }

  test('ends with 0 where all chosen scenarios pass, and writes JUnit and JSON', async () => {
    const { code, printed, junit, json } = await run(await start([]), 'rollback');
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(/ \d+ passed, 0 failed, 0 not run; \d+ requests in /),
    ]);
    expect(junit).toContain('<testcase classname="wallet-check" name="rollback-before-debit"');
    expect(JSON.parse(json)).toMatchObject({ failed: 0, not_run: 0 });
    expect(`${printed}${junit}${json}`).not.toMatch(/t-usual|secret-of-the-test/);
  });

  test('ends with 1 where a scenario fails, and reports rule, request, answer and expectation', async () => {
    const { code, printed, junit } = await run(
      await start(['rollback_of_unknown_forgotten']),
      'rollback-before-debit',
    );
    expect(code).toBe(1);
    expect(printed).toMatch(
      /FAILED rollback-before-debit\n {2}rule {6}7\.3: ERROR_CODE_ALREADY_ROLLED_BACK\n {2}must .*\n {2}sent {6}POST \/v2\/wallet\/debit .*\n {2}came {6}a success; HTTP 200 .*\n {2}expected {2}a refusal with ERROR_CODE_ALREADY_ROLLED_BACK/,
    );
    expect(junit).toContain('failures="1"');
  });

  test('ends with 1 and one message where there is no wallet', async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const { code, printed } = await run([[ADDRESS, nobody]]);
    expect([code, printed]).toEqual([
      1,
      `there is no wallet at ${nobody} (ECONNREFUSED); start it, or correct base_url of the profile`,
    ]);
  });

  test('ends with 2 and sends nothing for a profile without a test environment [O7]', async () => {
    const changes = await start([]);
    const { code, printed } = await run([...changes, ['environment: test', 'environment: production']]);
    expect([code, printed]).toEqual([
      2,
      expect.stringMatching(/wallet\.yaml:8:14: environment: .*moves money/),
    ]);
  });

  test.each([
    [
      'a directory that does not exist',
      { junit: 'no/wallet.xml' },
      /the file of --junit cannot be written: /,
    ],
    ['the directory itself', { json: '.' }, /the file of --json cannot be written: /],
    ['the profile', { json: 'wallet.yaml' }, /--json and --profile name the same file/],
    ['one file', { junit: 'a', json: './a' }, /--json and --junit name the same file/],
  ])('ends with 2 and sends nothing where a report would go to %s [O7]', async (_, reports, message) => {
    const { code, printed } = await run([[ADDRESS, 'http://127.0.0.1:9']], undefined, reports);
    expect([code, printed]).toEqual([2, expect.stringMatching(message)]);
    expect(readdirSync(directory).sort()).toEqual(['wallet.secret', 'wallet.yaml']);
  });

  test('replaces the reports of an earlier run', async () => {
    const changes = await start([]);
    for (let time = 1; time <= 2; time++) {
      const { code, json } = await run(changes, 'poor-bet');
      expect([code, JSON.parse(json)]).toMatchObject([0, { passed: 1 }]);
    }
  });

  test('ends with 2 where no scenario has the words', async () => {
    const { code, printed } = await run(await start([]), 'no-such-words');
    expect([code, printed]).toEqual([2, expect.stringContaining('bets-beyond-balance')]);
  });
});

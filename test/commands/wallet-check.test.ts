/** wallet-check against the example wallet on a real Postgres: a sound one, and one with each planted bug. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUG_NAMES, BUGS, type BugName } from '../../dev/example-wallet/bugs';
import { type RunningWallet, startExampleWallet } from '../../dev/example-wallet/server';
import { projectRoot } from '../../dev/servers/download';
import { NEVER, systemClock } from '../../src/lib/clock';
import type { WalletProfile } from '../../src/wallet-check/profile';
import { parseProfile } from '../../src/wallet-check/profile-file';
import { runScenarios, type ScenarioResult } from '../../src/wallet-check/runner';
import type { Scenario } from '../../src/wallet-check/scenario';
import { scenariosFor } from '../../src/wallet-check/scenarios/scenarios';
import { connectWallet } from '../../src/wallet-check/transport';
import { type FreshDatabase, freshDatabase } from '../support/servers';

const SECRET = 'secret-of-the-test';
const PROFILE = profileOf('wallet.yaml');
const SCENARIOS = scenariosFor(PROFILE);

function profileOf(file: string): WalletProfile {
  const parsed = parseProfile(readFileSync(join(projectRoot, 'schemas/examples', file), 'utf8'), file);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.profile;
}

let database: FreshDatabase;
let wallet: RunningWallet | undefined;
beforeEach(async () => {
  database = await freshDatabase();
});
afterEach(async () => {
  await wallet?.close();
  wallet = undefined;
  await database.drop();
});

async function check(scenarios: readonly Scenario[], bugs: readonly BugName[]): Promise<ScenarioResult[]> {
  wallet = await startExampleWallet({
    ...{ databaseUrl: database.url, secret: SECRET, keyId: 'wallet-key-1', port: 0 },
    bugs: new Set(bugs),
  });
  const profile = { ...PROFILE, baseUrl: wallet.url };
  return runScenarios(scenarios, {
    ...{ profile, transport: connectWallet(profile, SECRET, NEVER), clock: systemClock, stop: NEVER },
    run: `wc-${randomBytes(5).toString('hex')}`,
    progress: () => undefined,
  });
}

const outcomes = (results: readonly ScenarioResult[]) =>
  results.map(({ scenario, status, reason, problems }) => ({ id: scenario.id, status, reason, problems }));

test('the example wallet passes every scenario, and none is left out', async () => {
  expect(outcomes(await check(SCENARIOS, []))).toEqual(
    SCENARIOS.map(({ id }) => ({ id, status: 'passed', reason: null, problems: [] })),
  );
}, 120_000);

test('the example wallet passes every scenario twice on one database', async () => {
  await check(SCENARIOS, []);
  await wallet?.close();
  const failed = outcomes(await check(SCENARIOS, [])).filter(({ status }) => status !== 'passed');
  expect(failed).toEqual([]);
}, 240_000);

test.each(BUG_NAMES)(
  'the planted bug %s is caught by the scenario that it names',
  async (bug) => {
    const named = SCENARIOS.filter(({ id }) => id === BUGS[bug].caughtBy);
    expect(named).toHaveLength(1);
    expect((await check(named, [bug])).map(({ status }) => status)).toEqual(['failed']);
  },
  60_000,
);

test('a sound wallet passes each scenario that names a bug, alone', async () => {
  const ids = new Set<string>(BUG_NAMES.map((bug) => BUGS[bug].caughtBy));
  const named = SCENARIOS.filter(({ id }) => ids.has(id));
  const failed = outcomes(await check(named, [])).filter(({ status }) => status !== 'passed');
  expect(failed).toEqual([]);
}, 120_000);

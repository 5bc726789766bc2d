/** The scenarios and planted bugs as data. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUG_NAMES, BUGS } from '../../../dev/example-wallet/bugs';
import { projectRoot } from '../../../dev/servers/download';
import { parseProfile } from '../../../src/wallet/profile-file';
import { endpointChecksFor } from '../../../src/wallet-check/endpoints';
import { callsOf } from '../../../src/wallet-check/scenario';
import { scenariosFor, selectScenarios } from '../../../src/wallet-check/scenarios/scenarios';

const SCENARIOS = scenariosFor({
  unsupported: new Map([
    ['notify', '/n'],
    ['settle_free_rounds', '/s'],
  ]),
});

test('there are at least forty scenarios, each with an id of its own, a rule and a sentence', () => {
  expect(SCENARIOS.length).toBeGreaterThanOrEqual(40);
  expect(new Set(SCENARIOS.map(({ id }) => id)).size).toBe(SCENARIOS.length);
  for (const { id, rule, must } of SCENARIOS) {
    expect(id).toMatch(/^[a-z0-9-]+$/);
    expect(rule).toMatch(/^[1-9](\.\d)?/);
    expect(must).toMatch(/^[A-Z].*\.$/);
  }
});

test('each scenario expects something of every call that it does not cut', () => {
  for (const scenario of SCENARIOS) {
    const calls = callsOf(scenario);
    expect(calls.length).toBeGreaterThan(0);
    for (const { cut, expect: expected } of calls) expect(expected.type === 'unread').toBe(cut !== undefined);
  }
});

test('there are at least 25 planted bugs, and each names a scenario', () => {
  expect(BUG_NAMES.length).toBeGreaterThanOrEqual(25);
  const text = readFileSync(join(projectRoot, 'schemas/examples/wallet.yaml'), 'utf8');
  const parsed = parseProfile(text, 'wallet.yaml');
  const checks = 'profile' in parsed ? endpointChecksFor(parsed.profile) : [];
  const ids = [...SCENARIOS, ...checks.map(({ scenario }) => scenario)].map(({ id }) => id);
  for (const bug of BUG_NAMES) expect(ids).toContain(BUGS[bug].caughtBy);
});

test('words select the scenarios that have all of them', () => {
  const idsOf = (words: string) => selectScenarios(SCENARIOS, words).map(({ id }) => id);
  expect(idsOf('rollback before')).toContain('rollback-before-debit');
  expect(idsOf('BLOCKED win')).toEqual(['blocked-win']);
  expect(idsOf('nothing-like-this')).toEqual([]);
});

/** All scenarios, in the order in which they run. */
import type { WalletProfile } from '../../wallet/profile';
import type { Scenario } from '../scenario';
import { MONEY, unsupportedScenarios } from './money';
import { REPEATED, ROLLED_BACK } from './once';
import { MALFORMED, PLAYERS } from './refusals';

export function scenariosFor(profile: Pick<WalletProfile, 'unsupported'>): Scenario[] {
  return [
    ...[...MONEY, ...REPEATED, ...ROLLED_BACK, ...PLAYERS, ...MALFORMED],
    ...unsupportedScenarios(profile.unsupported.keys()),
  ];
}

/** The scenarios whose id or sentence holds each of the words. */
export function selectScenarios(scenarios: readonly Scenario[], words: string): Scenario[] {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return scenarios.filter(({ id, must }) => {
    const text = `${id} ${must}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** Rules that no test of minutes can check. The report lists them. */
export const NOT_TESTABLE: readonly string[] = [
  '8: an answer is stored for at least four months. Check how long your wallet keeps it.',
  '8: uncertain calls come again for 72 h. Check that no clean-up drops a rollback of an unknown debit before that.',
  '7.3: ERROR_CODE_RATE_LIMITED, ERROR_CODE_MAINTENANCE and ERROR_CODE_INTERNAL cannot be asked for. They are judged where they come.',
];

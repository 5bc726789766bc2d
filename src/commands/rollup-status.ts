/** The part of `status` about rollups: a problem where their process is late, a note where there is none. */
import { rounded, seconds } from '../cli/seconds';
import type { RollupCoverage } from '../ledger/fold-coverage';

/** A process notes its time every few seconds. */
const LATE_SECONDS = 60;

export interface ReportedRollups {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly rebuilt: boolean;
}

export function reportRollups({ lagSeconds, isRunning, isRebuilt }: RollupCoverage): ReportedRollups {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, rebuilt: isRebuilt };
}

export function rollupProblems(coverage: RollupCoverage | null | undefined): string[] {
  if (!coverage?.isRunning || coverage.lagSeconds <= LATE_SECONDS) return [];
  return [
    `the rollups are ${seconds(rounded(coverage.lagSeconds))} behind: the log of their process says why`,
  ];
}

/** A process that was stopped on purpose needs no person. */
export function rollupNotes(coverage: RollupCoverage | null | undefined): string[] {
  if (coverage == null || coverage.isRunning) return [];
  return [
    `no process keeps the rollups, which are ${seconds(rounded(coverage.lagSeconds))} behind: run promo-intake rollups`,
  ];
}

export function describeRollups(rollups: ReportedRollups | null): string[] {
  if (rollups === null) return [];
  const { lag_seconds, running, rebuilt } = rollups;
  const state = running ? `${seconds(lag_seconds)} behind` : 'no process keeps them';
  return [`rollups     ${state}${rebuilt ? '; being counted again' : ''}`];
}

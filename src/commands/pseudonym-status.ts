/** The part of `status` about pseudonyms: a problem where they are late, a note where no process runs. */
import { rounded, seconds } from '../cli/seconds';
import type { PseudonymCoverage } from '../ledger/fold-coverage';

/** A process notes its time every few seconds. */
const LATE_SECONDS = 60;

export interface ReportedPseudonyms {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly new_key: boolean;
}

export function reportPseudonyms({
  lagSeconds,
  isRunning,
  isRotated,
}: PseudonymCoverage): ReportedPseudonyms {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, new_key: isRotated };
}

/** While a new key is introduced, new players wait for its end. */
export function pseudonymProblems(coverage: PseudonymCoverage | null | undefined): string[] {
  if (!coverage?.isRunning || coverage.isRotated || coverage.lagSeconds <= LATE_SECONDS) return [];
  return [
    `the pseudonyms are ${seconds(rounded(coverage.lagSeconds))} behind: the log of their process says why`,
  ];
}

/** A process that was stopped on purpose needs no person. */
export function pseudonymNotes(coverage: PseudonymCoverage | null | undefined): string[] {
  if (coverage == null || coverage.isRunning) return [];
  return [
    `no process computes pseudonyms, which are ${seconds(rounded(coverage.lagSeconds))} behind: run promo-intake pseudonyms`,
  ];
}

export function describePseudonyms(pseudonyms: ReportedPseudonyms | null): string[] {
  if (pseudonyms === null) return [];
  const { lag_seconds, running, new_key } = pseudonyms;
  const state = running ? `${seconds(lag_seconds)} behind` : 'no process computes them';
  return [`pseudonyms  ${state}${new_key ? '; a new key is introduced' : ''}`];
}

/** The part of `status` about promotions: a problem where they are late, a note where no process runs. */
import { rounded, seconds } from '../cli/seconds';
import type { PromotionCoverage } from '../ledger/fold-coverage';

/** A process notes its time every few seconds. */
const LATE_SECONDS = 60;

export interface ReportedPromotions {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly rebuilt: boolean;
}

export function reportPromotions({
  lagSeconds,
  isRunning,
  isRebuilt,
}: PromotionCoverage): ReportedPromotions {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, rebuilt: isRebuilt };
}

export function promotionProblems(coverage: PromotionCoverage | null | undefined): string[] {
  if (!coverage?.isRunning || coverage.lagSeconds <= LATE_SECONDS) return [];
  return [
    `the promotions are ${seconds(rounded(coverage.lagSeconds))} behind: the log of their process says why`,
  ];
}

/** A process that was stopped on purpose needs no person. */
export function promotionNotes(coverage: PromotionCoverage | null | undefined): string[] {
  if (coverage == null || coverage.isRunning) return [];
  return [
    `no process counts promotions, which are ${seconds(rounded(coverage.lagSeconds))} behind: run promo-intake promotions`,
  ];
}

export function describePromotions(promotions: ReportedPromotions | null): string[] {
  if (promotions === null) return [];
  const { lag_seconds, running, rebuilt } = promotions;
  const state = running ? `${seconds(lag_seconds)} behind` : 'no process counts them';
  return [`promotions  ${state}${rebuilt ? '; being counted again' : ''}`];
}

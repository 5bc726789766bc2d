/**
 * The parts of `status` about the processes that derive results from verdicts. A process that is late is a
 * problem, and so is one that ended within the last day. Later it is a note: somebody stopped it for good.
 */

import type { CompletionState } from '../../ledger/completion-state';
import type { PromotionCoverage, PseudonymCoverage, RollupCoverage } from '../../ledger/fold-coverage';
import { elapsedText, rounded } from '../../lib/duration';
import { mapIfAny, type ReportPart, valueIn } from './status-part';

/**
 * A process notes its time every few seconds. That of completions publishes twice a second, and tries a topic
 * that refuses every 30 s at least.
 */
const LATE_SECONDS = 60;
/** The alerts report a stopped process for this long. */
const MISSED_SECONDS = 86_400;

/** Null where a process never ran; absent where the store was not asked. */
export interface DerivedFacts {
  readonly rollups?: ReportPart<RollupCoverage | null>;
  readonly pseudonyms?: ReportPart<PseudonymCoverage | null>;
  readonly promotions?: ReportPart<PromotionCoverage | null>;
  readonly completions?: ReportPart<CompletionState | null>;
}

export function derivedProblems(facts: DerivedFacts): string[] {
  return [
    ...rollupProblems(facts.rollups && valueIn(facts.rollups)),
    ...pseudonymProblems(facts.pseudonyms && valueIn(facts.pseudonyms)),
    ...promotionProblems(facts.promotions && valueIn(facts.promotions)),
    ...completionProblems(facts.completions && valueIn(facts.completions)),
    ...stoppedOnes(facts, isMissed),
  ];
}

export const derivedNotes = (facts: DerivedFacts): string[] =>
  stoppedOnes(facts, (state) => !isMissed(state));

interface DerivedState {
  readonly lagSeconds: number;
  readonly isRunning: boolean;
}

interface LateState extends DerivedState {
  readonly heldByPid: number | null;
}

const isMissed = ({ lagSeconds }: DerivedState): boolean =>
  lagSeconds > LATE_SECONDS && lagSeconds <= MISSED_SECONDS;

/** A sentence for each kind of results that no process makes now. */
function stoppedOnes(facts: DerivedFacts, isListed: (state: DerivedState) => boolean): string[] {
  const of = <T extends DerivedState>(
    part: ReportPart<T | null> | undefined,
    describe: (state: T) => string,
  ): string[] => {
    const state = part && valueIn(part);
    return state == null || state.isRunning || !isListed(state) ? [] : [describe(state)];
  };
  return [
    ...of(facts.rollups, stopped('keeps the rollups', 'rollups')),
    ...of(facts.pseudonyms, stopped('computes pseudonyms', 'pseudonyms')),
    ...of(facts.promotions, stopped('counts promotions', 'promotions')),
    ...of(facts.completions, stoppedCompletions),
  ];
}

const stopped =
  (work: string, command: string) =>
  ({ lagSeconds }: DerivedState): string =>
    `no process ${work}, which are ${elapsedText(lagSeconds)} behind: run promo-intake ${command}`;

export function reportDerived(facts: DerivedFacts) {
  return {
    rollups: mapIfAny(facts.rollups, reportRollups),
    pseudonyms: mapIfAny(facts.pseudonyms, reportPseudonyms),
    promotions: mapIfAny(facts.promotions, reportPromotions),
    completions: mapIfAny(facts.completions, reportCompletions),
  };
}

/** How late results are that a process makes, and who knows the reason. */
const behind = ({ lagSeconds, heldByPid }: LateState): string =>
  `${elapsedText(lagSeconds)} behind: ${heldByPid === null ? 'the log of their process says why' : `process ${heldByPid} of Postgres holds them in an open transaction, see pg_stat_activity`}`;

// --- rollups

export interface ReportedRollups {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly rebuilt: boolean;
}

function reportRollups({ lagSeconds, isRunning, isRebuilt }: RollupCoverage): ReportedRollups {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, rebuilt: isRebuilt };
}

function rollupProblems(coverage: RollupCoverage | null | undefined): string[] {
  if (!coverage?.isRunning || coverage.lagSeconds <= LATE_SECONDS) return [];
  return [`the rollups are ${behind(coverage)}`];
}

export function describeRollups(rollups: ReportedRollups | null): string[] {
  if (rollups === null) return [];
  const { lag_seconds, running, rebuilt } = rollups;
  const state = running ? `${elapsedText(lag_seconds)} behind` : 'no process keeps them';
  return [`rollups     ${state}${rebuilt ? '; being counted again' : ''}`];
}

// --- pseudonyms

export interface ReportedPseudonyms {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly new_key: boolean;
}

function reportPseudonyms({ lagSeconds, isRunning, isRotated }: PseudonymCoverage): ReportedPseudonyms {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, new_key: isRotated };
}

/** While a new key is introduced, new players wait for its end. */
function pseudonymProblems(coverage: PseudonymCoverage | null | undefined): string[] {
  if (!coverage?.isRunning || coverage.isRotated || coverage.lagSeconds <= LATE_SECONDS) return [];
  return [`the pseudonyms are ${behind(coverage)}`];
}

export function describePseudonyms(pseudonyms: ReportedPseudonyms | null): string[] {
  if (pseudonyms === null) return [];
  const { lag_seconds, running, new_key } = pseudonyms;
  const state = running ? `${elapsedText(lag_seconds)} behind` : 'no process computes them';
  return [`pseudonyms  ${state}${new_key ? '; a new key is introduced' : ''}`];
}

// --- promotions

export interface ReportedPromotions {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly rebuilt: boolean;
}

function reportPromotions({ lagSeconds, isRunning, isRebuilt }: PromotionCoverage): ReportedPromotions {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, rebuilt: isRebuilt };
}

function promotionProblems(coverage: PromotionCoverage | null | undefined): string[] {
  if (!coverage?.isRunning || coverage.lagSeconds <= LATE_SECONDS) return [];
  return [`the promotions are ${behind(coverage)}`];
}

export function describePromotions(promotions: ReportedPromotions | null): string[] {
  if (promotions === null) return [];
  const { lag_seconds, running, rebuilt } = promotions;
  const state = running ? `${elapsedText(lag_seconds)} behind` : 'no process counts them';
  return [`promotions  ${state}${rebuilt ? '; being counted again' : ''}`];
}

// --- completions

export interface ReportedCompletions {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly held_back: readonly string[];
}

function reportCompletions({ lagSeconds, isRunning, heldBack }: CompletionState): ReportedCompletions {
  return {
    lag_seconds: rounded(lagSeconds),
    running: isRunning,
    held_back: heldBack.map(({ operatorId }) => operatorId),
  };
}

function completionProblems(state: CompletionState | null | undefined): string[] {
  if (!state?.isRunning) return [];
  const refused = state.heldBack
    .filter((each) => each.seconds > LATE_SECONDS)
    .map(
      ({ operatorId, reason, seconds: waited }) =>
        `the completions of ${operatorId} are held back for ${elapsedText(waited)}${reason === null ? '' : `: ${reason}`}`,
    );
  if (refused.length > 0 || state.lagSeconds <= LATE_SECONDS) return refused;
  return [
    `completions wait for ${elapsedText(state.lagSeconds)} to be published: the log of their process says why`,
  ];
}

function stoppedCompletions({ lagSeconds }: CompletionState): string {
  const waiting = lagSeconds > 0 ? `, which wait for ${elapsedText(lagSeconds)}` : '';
  return `no process publishes completions${waiting}: run promo-intake completions`;
}

export function describeCompletions(completions: ReportedCompletions | null): string[] {
  if (completions === null) return [];
  const { lag_seconds, running, held_back } = completions;
  const state = running ? `published, ${elapsedText(lag_seconds)} behind` : 'no process publishes them';
  return [`completions ${state}${held_back.length > 0 ? `; held back: ${held_back.join(', ')}` : ''}`];
}

/**
 * The parts of `status` about the processes that derive results from verdicts: the folds, and the publishing
 * of completions. A process that is late is a problem, and so is one that ended within the last day. Later it
 * is a note: somebody stopped it for good.
 */
import type { CompletionState } from '../../ledger/completion-state';
import { FOLDS, type FoldCoverage, type FoldName } from '../../ledger/fold-coverage';
import { elapsedText, rounded } from '../../lib/duration';
import { mapIfAny, type OrUnknown, type ReportPart, valueIn } from './status-part';

/**
 * A process notes its time every few seconds. That of completions publishes twice a second, and tries a topic
 * that refuses every 30 s at least.
 */
const LATE_SECONDS = 60;
/** The alerts report a stopped process for this long. */
const MISSED_SECONDS = 86_400;

/** Null where a process never ran; absent where the store was not asked. */
export interface DerivedFacts extends Readonly<Partial<Record<FoldName, ReportPart<FoldCoverage | null>>>> {
  readonly completions?: ReportPart<CompletionState | null>;
}

/** Null where a process never ran. */
export interface ReportedDerived extends Readonly<Record<FoldName, OrUnknown<ReportedFold | null> | null>> {
  readonly completions: OrUnknown<ReportedCompletions | null> | null;
}

interface ReportedFold {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  /** Of rollups and promotions: whether they are being counted again. */
  readonly rebuilt?: boolean;
  /** Of pseudonyms: whether those of a new key are being computed. */
  readonly new_key?: boolean;
}

interface ReportedCompletions {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly held_back: readonly string[];
}

export function derivedProblems(facts: DerivedFacts): string[] {
  return [
    ...FOLDS.flatMap((fold) => foldProblems(fold, foundIn(facts[fold]))),
    ...completionProblems(foundIn(facts.completions)),
    ...stoppedOnes(facts, isMissed),
  ];
}

export const derivedNotes = (facts: DerivedFacts): string[] =>
  stoppedOnes(facts, (state) => !isMissed(state));

export function reportDerived(facts: DerivedFacts): ReportedDerived {
  const reportOf = (fold: FoldName) => mapIfAny(facts[fold], (coverage) => reportFold(fold, coverage));
  return {
    rollups: reportOf('rollups'),
    pseudonyms: reportOf('pseudonyms'),
    promotions: reportOf('promotions'),
    completions: mapIfAny(facts.completions, reportCompletions),
  };
}

/** A line for each process that ever ran. */
export function describeDerived(report: ReportedDerived): string[] {
  return [
    ...FOLDS.flatMap((fold) => lineOf(fold, report[fold], (reported) => foldText(fold, reported))),
    ...lineOf('completions', report.completions, completionsText),
  ];
}

function lineOf<T extends object>(
  name: string,
  part: OrUnknown<T | null> | null,
  describe: (reported: T) => string,
): string[] {
  if (part === null) return [];
  return [`${name.padEnd(12)}${'unknown' in part ? 'unknown' : describe(part)}`];
}

function foundIn<T>(part: ReportPart<T | null> | undefined): T | null {
  return (part && valueIn(part)) ?? null;
}

// --- processes that ended

type DerivedState = Pick<FoldCoverage, 'lagSeconds' | 'isRunning'>;

const isMissed = ({ lagSeconds }: DerivedState): boolean =>
  lagSeconds > LATE_SECONDS && lagSeconds <= MISSED_SECONDS;

/** A sentence for each kind of results that no process makes now. */
function stoppedOnes(facts: DerivedFacts, isListed: (state: DerivedState) => boolean): string[] {
  const of = <T extends DerivedState>(
    part: ReportPart<T | null> | undefined,
    describe: (state: T) => string,
  ): string[] => {
    const state = foundIn(part);
    return state === null || state.isRunning || !isListed(state) ? [] : [describe(state)];
  };
  return [
    ...FOLDS.flatMap((fold) => of(facts[fold], (coverage) => stoppedFold(fold, coverage))),
    ...of(facts.completions, stoppedCompletions),
  ];
}

// --- folds

interface FoldWords {
  readonly verb: string;
  readonly object: string;
  /** A new set of results is being filled. */
  readonly filling: string;
  /** The name of that fact in the report. */
  readonly field: 'rebuilt' | 'new_key';
}

const WORDS: Readonly<Record<FoldName, FoldWords>> = {
  rollups: { verb: 'keeps', object: 'the rollups', filling: 'being counted again', field: 'rebuilt' },
  pseudonyms: {
    verb: 'computes',
    object: 'pseudonyms',
    filling: 'a new key is introduced',
    field: 'new_key',
  },
  promotions: { verb: 'counts', object: 'promotions', filling: 'being counted again', field: 'rebuilt' },
};

function foldProblems(fold: FoldName, coverage: FoldCoverage | null): string[] {
  if (!coverage?.isRunning || coverage.lagSeconds <= LATE_SECONDS) return [];
  // While a new key is introduced, new players wait for its end.
  if (fold === 'pseudonyms' && coverage.isFilling) return [];
  const { lagSeconds, heldByPid } = coverage;
  const reason =
    heldByPid === null
      ? 'the log of their process says why'
      : `process ${heldByPid} of Postgres holds them in an open transaction, see pg_stat_activity`;
  return [`the ${fold} are ${elapsedText(lagSeconds)} behind: ${reason}`];
}

function stoppedFold(fold: FoldName, { lagSeconds }: FoldCoverage): string {
  const { verb, object } = WORDS[fold];
  return `no process ${verb} ${object}, which are ${elapsedText(lagSeconds)} behind: run promo-intake ${fold}`;
}

function reportFold(fold: FoldName, { lagSeconds, isRunning, isFilling }: FoldCoverage): ReportedFold {
  return { lag_seconds: rounded(lagSeconds), running: isRunning, [WORDS[fold].field]: isFilling };
}

function foldText(fold: FoldName, reported: ReportedFold): string {
  const { verb, filling, field } = WORDS[fold];
  const state = reported.running ? `${elapsedText(reported.lag_seconds)} behind` : `no process ${verb} them`;
  return reported[field] === true ? `${state}; ${filling}` : state;
}

// --- completions

function completionProblems(state: CompletionState | null): string[] {
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

function reportCompletions({ lagSeconds, isRunning, heldBack }: CompletionState): ReportedCompletions {
  return {
    lag_seconds: rounded(lagSeconds),
    running: isRunning,
    held_back: heldBack.map(({ operatorId }) => operatorId),
  };
}

function completionsText({ lag_seconds, running, held_back }: ReportedCompletions): string {
  const state = running ? `published, ${elapsedText(lag_seconds)} behind` : 'no process publishes them';
  return held_back.length > 0 ? `${state}; held back: ${held_back.join(', ')}` : state;
}

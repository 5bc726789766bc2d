/** The part of `status` about completions: a problem where they wait, a note where nobody publishes them. */
import { rounded, seconds } from '../cli/seconds';
import type { CompletionState } from '../ledger/completion-state';

/** A process publishes twice a second, and tries a topic that refuses every 30 s at least. */
const LATE_SECONDS = 60;

export interface ReportedCompletions {
  readonly lag_seconds: number | null;
  readonly running: boolean;
  readonly held_back: readonly string[];
}

export function reportCompletions({ lagSeconds, isRunning, heldBack }: CompletionState): ReportedCompletions {
  return {
    lag_seconds: rounded(lagSeconds),
    running: isRunning,
    held_back: heldBack.map(({ operatorId }) => operatorId),
  };
}

export function completionProblems(state: CompletionState | null | undefined): string[] {
  if (!state?.isRunning) return [];
  const refused = state.heldBack
    .filter((each) => each.seconds > LATE_SECONDS)
    .map(
      ({ operatorId, reason, seconds: waited }) =>
        `the completions of ${operatorId} are held back for ${seconds(rounded(waited))}${reason === null ? '' : `: ${reason}`}`,
    );
  if (refused.length > 0 || state.lagSeconds <= LATE_SECONDS) return refused;
  return [
    `completions wait for ${seconds(rounded(state.lagSeconds))} to be published: the log of their process says why`,
  ];
}

/** A process that was stopped on purpose needs no person. */
export function completionNotes(state: CompletionState | null | undefined): string[] {
  if (state == null || state.isRunning) return [];
  const waiting = state.lagSeconds > 0 ? `, which wait for ${seconds(rounded(state.lagSeconds))}` : '';
  return [`no process publishes completions${waiting}: run promo-intake completions`];
}

export function describeCompletions(completions: ReportedCompletions | null): string[] {
  if (completions === null) return [];
  const { lag_seconds, running, held_back } = completions;
  const state = running ? `published, ${seconds(lag_seconds)} behind` : 'no process publishes them';
  return [`completions ${state}${held_back.length > 0 ? `; held back: ${held_back.join(', ')}` : ''}`];
}

/**
 * Counts rows of some players (docs/rules.md, P1-P16). It restores progress, and counts rows by the code that
 * counts files. Then it saves progress and attempts.
 */
import type { Session } from '../postgres/transaction';
import type { PlacedEntry } from './completions';
import * as stored from './progress-rows';
import type { SliceCounting } from './slice-counting';
import { WindowNumbers, windowNoOf } from './windows';

export interface SliceOptions {
  readonly generation: number;
  /** The generation has no progress yet. */
  readonly isEmpty: boolean;
}

export class SlicePart {
  constructor(
    private readonly session: Session,
    private readonly options: SliceOptions,
    readonly counting: SliceCounting,
    private readonly numbers = new WindowNumbers(),
  ) {}

  /** Restores the progress that was found since the last call. */
  async restore(): Promise<void> {
    const { session, counting } = this;
    await this.numbers.number(session, counting.windows());
    const fresh = counting.takeFresh();
    if (!this.options.isEmpty) await stored.loadProgress(session, this.options.generation, fresh);
    for (const progress of fresh) counting.judge.awaitConfirmation(progress);
  }

  /**
   * Judges the progress, and saves it. Nothing refers to the progress until it is saved, so memory does not
   * hold it.
   *
   * @param asOf all rows from before this time are counted, in microseconds since 1970
   * @returns the entries of the ledger of completions, which are not written yet
   */
  save(asOf: bigint): Promise<PlacedEntry[]> {
    const { session, counting } = this;
    const { generation } = this.options;
    const { entries, changed } = counting.endSlice(asOf);
    const counted = counting.found.filter(({ lastStep }) => lastStep !== null);
    const placed = entries.map(([progress, entry]): PlacedEntry => [windowNoOf(progress.place), entry]);
    return Promise.all([
      stored.saveProgress(session, generation, counted),
      stored.saveAttempts(session, generation, changed),
    ]).then(() => placed);
  }
}

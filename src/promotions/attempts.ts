/**
 * The attempts of a player to complete a promotion, by ordinal (docs/rules.md, P12).
 *
 * Each verdict is a step. An ordinal that a step attains again gets its next attempt, whether or not a slice
 * ends in between. So the ids of completions do not depend on slices. The ledger of completions gets the
 * difference of two ends of slices.
 */

/** A change of progress: by a verdict, by the change of an attribution, or by the time alone. */
export interface ProgressStep {
  /** The number of the verdict, or of the change of an attribution. Null: the time alone decided. */
  readonly changeNo: number | null;
  /** Microseconds since 1970. */
  readonly at: bigint;
}

/** The completion of an ordinal that the ledger of completions holds. */
export interface HeldAttempt {
  readonly attempt: number;
  /** When it was completed, in microseconds since 1970. */
  readonly at: bigint;
  /** When it will be confirmed; null: it is confirmed, or it never will be. */
  readonly confirmsAt: bigint | null;
}

export interface OrdinalAttempt {
  /** How often the ordinal was attained. */
  readonly attempt: number;
  readonly isAttained: boolean;
  /** The step that attained the ordinal last, or took it back. */
  readonly step: ProgressStep;
  readonly held: HeldAttempt | null;
}

/** A change of the ledger of completions. */
export interface AttemptChange {
  readonly change: 'completed' | 'revoked' | 'confirmed';
  readonly ordinal: number;
  readonly attempt: number;
  readonly step: ProgressStep;
}

export class Attempts {
  private readonly byOrdinal: Map<number, OrdinalAttempt>;
  /** Steps that took back what the ledger holds, since the end of the last slice. */
  private readonly lost = new Map<number, ProgressStep>();
  /** The ordinals that changed since the end of the last slice. */
  private readonly touched = new Set<number>();

  /** @param stored the attempts at the end of the last slice */
  constructor(stored: Iterable<readonly [ordinal: number, attempt: OrdinalAttempt]> = []) {
    this.byOrdinal = new Map(stored);
  }

  attain(ordinal: number, step: ProgressStep): void {
    const before = this.byOrdinal.get(ordinal);
    if (before?.isAttained === true) return;
    const attempt = (before?.attempt ?? 0) + 1;
    this.byOrdinal.set(ordinal, { attempt, isAttained: true, step, held: before?.held ?? null });
    this.touched.add(ordinal);
  }

  lose(ordinal: number, step: ProgressStep): void {
    const before = this.byOrdinal.get(ordinal);
    if (before?.isAttained !== true) return;
    this.byOrdinal.set(ordinal, { ...before, isAttained: false, step });
    this.touched.add(ordinal);
    if (!this.lost.has(ordinal)) this.lost.set(ordinal, step);
  }

  /** The completions that the ledger holds. */
  *held(): Generator<[ordinal: number, held: HeldAttempt]> {
    for (const [ordinal, { held }] of this.byOrdinal) if (held !== null) yield [ordinal, held];
  }

  get(ordinal: number): OrdinalAttempt | undefined {
    return this.byOrdinal.get(ordinal);
  }

  /**
   * Ends a slice: the ledger of completions then holds what is attained.
   *
   * @param confirmAfter microseconds; null: completions are never confirmed
   */
  settle(confirmAfter: bigint | null): { readonly changes: AttemptChange[]; readonly ordinals: number[] } {
    const changes: AttemptChange[] = [];
    const ordinals = [...this.touched];
    for (const ordinal of ordinals) {
      const attempt = this.byOrdinal.get(ordinal);
      if (attempt === undefined) continue;
      let { held } = attempt;
      if (held !== null && (!attempt.isAttained || held.attempt !== attempt.attempt)) {
        const step = this.lost.get(ordinal) ?? attempt.step;
        changes.push({ change: 'revoked', ordinal, attempt: held.attempt, step });
        held = null;
      }
      if (held === null && attempt.isAttained) {
        const { step } = attempt;
        changes.push({ change: 'completed', ordinal, attempt: attempt.attempt, step });
        const confirmsAt = confirmAfter === null ? null : step.at + confirmAfter;
        held = { attempt: attempt.attempt, at: step.at, confirmsAt };
      }
      this.byOrdinal.set(ordinal, { ...attempt, held });
    }
    this.touched.clear();
    this.lost.clear();
    return { changes, ordinals };
  }

  /** Confirms a completion whose time has come. */
  confirm(ordinal: number, asOf: bigint): AttemptChange | undefined {
    const attempt = this.byOrdinal.get(ordinal);
    const held = attempt?.held;
    if (attempt === undefined || held == null || held.confirmsAt === null || held.confirmsAt > asOf)
      return undefined;
    this.byOrdinal.set(ordinal, { ...attempt, held: { ...held, confirmsAt: null } });
    const step = { changeNo: null, at: held.confirmsAt };
    return { change: 'confirmed', ordinal, attempt: held.attempt, step };
  }
}

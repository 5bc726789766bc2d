/** A broken promise of a run, and the names that both monitors give to verdicts. */

/** A promise that was broken, by the name of the invariant. */
export class Violation extends Error {}

export function must(holds: boolean, invariant: string, what: string): void {
  if (!holds) throw new Violation(`${invariant}: ${what}`);
}

/** The name of a verdict, from a message of the verdict topic or from an answer. */
export function nameOf(message: Record<string, unknown>): string {
  const { verdict, reason, first_verdict, first_reason, content_differs } = message;
  if (reason === 'no_idempotency_key') return 'without key';
  if (verdict !== 'duplicate') return [verdict, reason].filter(Boolean).join('/');
  const first = [first_verdict, first_reason].filter(Boolean).join('/');
  return `duplicate of ${first}${content_differs === true ? ', differs' : ''}`;
}

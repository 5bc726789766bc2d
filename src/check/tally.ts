/** Counts the events of a file by verdict. */
import { nameOf, REASONS, type Reason, type Verdict } from '../domain/verdict/reasons';
import { grouped } from '../lib/printable';

/** The verdict on one event. */
interface Counted {
  readonly verdict: Verdict;
  readonly reason: Reason | null;
  /** For a duplicate: the first verdict on its event, if the answer has it. */
  readonly standing?: { readonly verdict: Verdict; readonly reason: Reason | null };
}

export function makeTally() {
  const counts = new Map<string, number>();
  const firsts = new Map<string, number>();
  let total = 0;
  const count = (key: string) => counts.get(key) ?? 0;
  /** "3 rejected (2 malformed, 1 no_player)" */
  const ofReasons = (verdict: 'rejected' | 'skipped'): string => {
    const found = REASONS.filter((entry) => entry.verdict === verdict && count(entry.name) > 0);
    const parts = found.map(({ name }) => `${grouped(count(name))} ${name}`).join(', ');
    return parts === '' ? `0 ${verdict}` : `${grouped(count(verdict))} ${verdict} (${parts})`;
  };
  /** "2 duplicate (1 of accepted, 1 of rejected/malformed)" */
  const ofFirsts = (): string => {
    const parts = FIRSTS.filter((name) => firsts.has(name)).map(
      (name) => `${grouped(firsts.get(name) ?? 0)} of ${name}`,
    );
    return `${grouped(count('duplicate'))} duplicate${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
  };
  return {
    add({ verdict, reason, standing }: Counted): void {
      total++;
      for (const key of reason === null ? [verdict] : [verdict, reason]) counts.set(key, count(key) + 1);
      if (verdict !== 'duplicate' || standing === undefined) return;
      const first = nameOf(standing);
      firsts.set(first, (firsts.get(first) ?? 0) + 1);
    },
    isClean: () => count('accepted') === total,
    summary: () =>
      `${grouped(total)} ${total === 1 ? 'event' : 'events'}: ${grouped(count('accepted'))} accepted, ${ofReasons('rejected')}, ` +
      `${ofReasons('skipped')}, ${ofFirsts()}`,
  };
}

/** The verdicts that a first event may have, in the order of a summary. */
const FIRSTS = ['accepted', ...REASONS.map(({ verdict, name }) => nameOf({ verdict, reason: name }))];

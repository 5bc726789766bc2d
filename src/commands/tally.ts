/** How many events of a file have which verdict, and printing as fast as is read. */
import { once } from 'node:events';
import { REASONS, type Reason, type Verdict } from '../domain/verdict';

/** What is told of an event. */
interface Told {
  readonly verdict: Verdict;
  readonly reason: Reason | null;
}

export function makeTally() {
  const counts = new Map<string, number>();
  let total = 0;
  const count = (key: string) => counts.get(key) ?? 0;
  /** "3 rejected (2 malformed, 1 no_player)" */
  const ofReasons = (verdict: 'rejected' | 'skipped'): string => {
    const found = REASONS.filter((entry) => entry.verdict === verdict && count(entry.name) > 0);
    const parts = found.map(({ name }) => `${number(count(name))} ${name}`).join(', ');
    return parts === '' ? `0 ${verdict}` : `${number(count(verdict))} ${verdict} (${parts})`;
  };
  return {
    add({ verdict, reason }: Told): void {
      total++;
      for (const key of reason === null ? [verdict] : [verdict, reason]) counts.set(key, count(key) + 1);
    },
    isClean: () => count('accepted') === total,
    summary: () =>
      `${number(total)} ${total === 1 ? 'event' : 'events'}: ${number(count('accepted'))} accepted, ${ofReasons('rejected')}, ` +
      `${ofReasons('skipped')}, ${number(count('duplicate'))} duplicate`,
  };
}

function number(value: number): string {
  return value.toLocaleString('en');
}

/** To stdout; resolves once there is room for more. */
export async function print(text: string): Promise<void> {
  if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain');
}

/** Finds the smallest run that still fails in the same way as a failing run, and describes it. */
import { Coverage } from './faults';
import { makePlan, type Without } from './plan';
import { type Outcome, type Sabotage, simulate } from './simulation';

/** Maximum number of runs spent on shrinking. */
const MAX_RUNS = 400;
/** Number of trace lines shown: the last ones matter most. */
const SHOWN_LINES = 150;

export interface Failure {
  readonly seed: number;
  readonly without: Without;
  readonly outcome: Outcome;
}

/** The invariant that was broken. */
const kindOf = (problem: string | null) => problem?.split(':')[0] ?? null;

/**
 * Leaves out faults and records as long as the run breaks the same invariant. It begins with large groups of
 * them.
 */
export async function shrink(seed: number, problem: string, sabotage: Sabotage = {}): Promise<Failure> {
  const kind = kindOf(problem);
  let runs = 0;
  const run = (without: Without, traced = false) => {
    runs++;
    return simulate(makePlan(seed, without), new Coverage(), { traced, sabotage });
  };
  let least: Without = { records: new Set(), faults: new Set() };
  let struck = (await run(least)).struck.map(({ number }) => number);
  const { partitions, requests } = makePlan(seed);
  const total = partitions.reduce(
    (sum, { entries, recreated }) => sum + entries.length + recreated.length,
    requests.length,
  );

  const tryWithout = async (records: readonly number[], faults: readonly number[]): Promise<boolean> => {
    const without = {
      records: new Set([...least.records, ...records]),
      faults: new Set([...least.faults, ...faults]),
    };
    const outcome = await run(without);
    if (kindOf(outcome.problem) !== kind) return false;
    least = without;
    struck = outcome.struck.map(({ number }) => number);
    return true;
  };
  for (const what of ['faults', 'records', 'faults'] as const) {
    const left = () =>
      what === 'faults'
        ? struck.filter((number) => !least.faults.has(number))
        : Array.from({ length: total }, (_, n) => n).filter((n) => !least.records.has(n));
    for (let size = Math.ceil(left().length / 2); size >= 1; size = Math.floor(size / 2)) {
      for (let from = 0; from < left().length && runs < MAX_RUNS; ) {
        const some = left().slice(from, from + size);
        const isLess = await (what === 'faults' ? tryWithout([], some) : tryWithout(some, []));
        if (!isLess) from += size;
      }
    }
  }
  return { seed, without: least, outcome: await run(least, true) };
}

/** The parts that are left out, as `make simulate` takes them: r and f with numbers. */
function writeWithout({ records, faults }: Without): string {
  return [...[...records].map((n) => `r${n}`), ...[...faults].map((n) => `f${n}`)].join(',');
}

export function readWithout(text: string): Without {
  const numbers = (letter: string) =>
    new Set(text.split(',').flatMap((part) => (part.startsWith(letter) ? [Number(part.slice(1))] : [])));
  return { records: numbers('r'), faults: numbers('f') };
}

export function describeFailure({ seed, without, outcome }: Failure): string {
  const left = writeWithout(without);
  const { trace } = outcome;
  return [
    `seed ${seed} breaks ${outcome.problem}`,
    `again: make simulate SEED=${seed}${left === '' ? '' : ` WITHOUT=${left}`}`,
    `faults: ${outcome.struck.map(({ number, what }) => `${number} ${what}`).join('; ') || 'none'}`,
    ...(trace.length > SHOWN_LINES ? [`(${trace.length - SHOWN_LINES} lines before these)`] : []),
    ...trace.slice(-SHOWN_LINES),
  ].join('\n');
}

/**
 * The rounds of a measurement that count. A round counts where the host left the CPU to this machine, and
 * where the rates are those of the other rounds. Otherwise something beside the contenders was measured.
 */
import { median } from './statistics';
import { figure, times } from './table';

/** A run counts where the host took less than this share of the CPU, in percent. */
const LEAST_TAKEN_PERCENT = 1;
/** Rounds count where their rates differ by less than this share. */
const LEAST_DIFFERENCE = 0.1;
/** One round alone shows no difference. */
const LEAST_ROUNDS = 2;

/** One run of a contender that is judged. */
export interface JudgedRun {
  readonly round: number;
  readonly name: string;
  readonly rate: number;
  /** CPU time that the host took from the machine during the run, in percent; NaN if unknown. */
  readonly takenByHost: number;
}

export interface CountedRounds {
  counts(round: number): boolean;
  /** False: no round counts. */
  readonly areEnough: boolean;
  /** Sentences: the rounds that do not count, each with its reason. */
  readonly notes: readonly string[];
}

/** Whether the host took so much CPU that the figures say nothing. */
export function isDisturbed(takenByHost: number): boolean {
  return takenByHost >= LEAST_TAKEN_PERCENT;
}

/** @param runs of the contenders that are judged, in any order */
export function countRounds(runs: readonly JudgedRun[]): CountedRounds {
  const notes: string[] = [];
  const rounds = [...Map.groupBy(runs, ({ round }) => round).values()];
  let counted = rounds.filter((list) => {
    const worst = list.toSorted((a, b) => b.takenByHost - a.takenByHost).find(isTaken);
    if (worst === undefined) return true;
    const { round, name, takenByHost } = worst;
    notes.push(`Round ${round} does not count: the host took ${figure(takenByHost, 1)} % during ${name}.`);
    return false;
  });
  while (counted.length > LEAST_ROUNDS && differ(counted)) {
    const { round, name, rate, ratio } = furthestOf(counted);
    counted = counted.filter(([first]) => first?.round !== round);
    notes.push(
      `Round ${round} does not count: ${name} had ${figure(rate)} events/s, ${times(ratio)} x the median.`,
    );
  }
  if (differ(counted)) {
    const { name } = furthestOf(counted);
    const both = counted.flat().filter((run) => run.name === name);
    const [rounds, rates] = [both.map(({ round }) => round), both.map(({ rate }) => figure(rate))];
    notes.push(`Rounds ${rounds.join(' and ')} differ: ${name} had ${rates.join(' and ')} events/s.`);
    counted = [];
  }
  const areEnough = counted.length >= LEAST_ROUNDS;
  if (!areEnough) notes.push('No round counts: two have to differ by less than a tenth.');
  const numbers = new Set(areEnough ? counted.flat().map(({ round }) => round) : []);
  return { counts: (round) => numbers.has(round), areEnough, notes };
}

function isTaken({ takenByHost }: JudgedRun): boolean {
  return isDisturbed(takenByHost);
}

/** Whether a contender's rates differ by a tenth or more. */
function differ(rounds: readonly (readonly JudgedRun[])[]): boolean {
  return [...Map.groupBy(rounds.flat(), ({ name }) => name).values()].some((list) => {
    const rates = list.map(({ rate }) => rate);
    const least = Math.min(...rates);
    return Math.max(...rates) - least >= LEAST_DIFFERENCE * least;
  });
}

/** The run that differs most from the median of its contender. */
function furthestOf(rounds: readonly (readonly JudgedRun[])[]): JudgedRun & { readonly ratio: number } {
  const compared = [...Map.groupBy(rounds.flat(), ({ name }) => name).values()].flatMap((list) => {
    const middle = median(list.map(({ rate }) => rate));
    return list.map((run) => ({ ...run, ratio: run.rate / middle }));
  });
  return compared.reduce((worst, run) => (distance(run.ratio) > distance(worst.ratio) ? run : worst));
}

function distance(ratio: number): number {
  return Math.abs(Math.log(ratio));
}

/** What each step came to, as a table. */
import { table } from '../demo/screen';

export interface StepResult {
  readonly name: string;
  readonly result: 'passed' | 'failed' | 'skipped';
  /** What was measured, or what went wrong, or why it was skipped. */
  readonly told: string;
  readonly seconds: number;
}

/** Lines for people: a row for each step, and the counts last. */
export function reportOf(results: readonly StepResult[]): string[] {
  const rows = results.map(({ name, result, told, seconds }) => [
    name,
    result,
    `${seconds.toFixed(1)} s`,
    told.split('\n')[0] ?? '',
  ]);
  const count = (wanted: StepResult['result']): number =>
    results.filter(({ result }) => result === wanted).length;
  return [
    ...table([['step', 'result', 'time', 'measured'], ...rows], [2]),
    '',
    `${count('passed')} passed, ${count('failed')} failed${count('skipped') > 0 ? `, ${count('skipped')} skipped` : ''}`,
  ];
}

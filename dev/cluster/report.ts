/** The result of each step, as a table. */
import { table } from '../demo/screen';

export interface StepResult {
  readonly name: string;
  readonly result: 'passed' | 'failed' | 'skipped';
  /** The measured value, the error, or the reason for skipping. */
  readonly details: string;
  readonly seconds: number;
}

/** Lines for readers: a row for each step, and the counts last. */
export function reportOf(results: readonly StepResult[]): string[] {
  const rows = results.map(({ name, result, details, seconds }) => [
    name,
    result,
    `${seconds.toFixed(1)} s`,
    details.split('\n')[0] ?? '',
  ]);
  const count = (wanted: StepResult['result']): number =>
    results.filter(({ result }) => result === wanted).length;
  return [
    ...table([['step', 'result', 'time', 'measured'], ...rows], [2]),
    '',
    `${count('passed')} passed, ${count('failed')} failed${count('skipped') > 0 ? `, ${count('skipped')} skipped` : ''}`,
  ];
}

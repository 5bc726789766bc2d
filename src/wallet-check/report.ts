/** The report of a check: for people, as JUnit XML, and as JSON. Pure. */
import { counted, escapeUnprintable, inOneLine } from '../lib/printable';
import type { CheckProblem } from './play';
import type { ScenarioResult } from './runner';
import { NOT_TESTABLE } from './scenarios/scenarios';

export interface CheckTally {
  readonly passed: number;
  readonly failed: number;
  readonly notRun: number;
}

export function checkTally(results: readonly ScenarioResult[]): CheckTally {
  const count = (status: ScenarioResult['status']) => results.filter((it) => it.status === status).length;
  return { passed: count('passed'), failed: count('failed'), notRun: count('not_run') };
}

/** The line of one scenario, for the progress. */
export function progressLine(done: number, of: number, { scenario, status, reason }: ScenarioResult): string {
  const words = { passed: 'passed', failed: 'FAILED', not_run: 'not run' } as const;
  return `[${done}/${of}] ${words[status]}  ${scenario.id}${status === 'not_run' ? `: ${reason}` : ''}`;
}

const PROBLEMS_SHOWN = 3;

export function textReport(results: readonly ScenarioResult[]): string {
  const { passed, failed, notRun } = checkTally(results);
  const requests = results.reduce((sum, it) => sum + it.requests, 0);
  const seconds = results.reduce((sum, it) => sum + it.seconds, 0);
  const summary = `${counted(results.length, 'scenario')}: ${passed} passed, ${failed} failed, ${notRun} not run; ${counted(requests, 'request')} in ${seconds.toFixed(1)} s`;
  const unchecked = ['Not checked by any scenario:', ...NOT_TESTABLE.map((line) => `  ${line}`)];
  return `${[...results.flatMap(failure), ...unchecked, '', summary].join('\n')}\n`;
}

function failure({ scenario, status, problems, reason }: ScenarioResult): string[] {
  if (status !== 'failed') return [];
  const more = problems.length - PROBLEMS_SHOWN;
  return [
    `FAILED ${scenario.id}`,
    `  rule      ${scenario.rule}`,
    `  must      ${scenario.must}`,
    ...problems.slice(0, PROBLEMS_SHOWN).flatMap(problemLines),
    ...(more > 0 ? [`  ${counted(more, 'more problem')}: --json FILE has all`] : []),
    ...(reason === null ? [] : [`  ended     ${reason}`]),
    '',
  ];
}

function problemLines({ sent, came, expected }: CheckProblem): string[] {
  return [
    ...(sent === null ? [] : [`  sent      ${inOneLine(sent)}`]),
    `  came      ${inOneLine(came)}`,
    `  expected  ${inOneLine(expected)}`,
  ];
}

export function jsonReport(results: readonly ScenarioResult[]): string {
  const { passed, failed, notRun } = checkTally(results);
  const scenarios = results.map(
    ({ scenario: { id, rule, must }, status, reason, problems, requests, seconds }) => ({
      id,
      rule,
      must,
      status,
      reason,
      requests,
      seconds: Math.round(seconds * 1_000) / 1_000,
      problems,
    }),
  );
  return `${JSON.stringify({ passed, failed, not_run: notRun, not_testable: NOT_TESTABLE, scenarios }, null, 2)}\n`;
}

export function junitReport(results: readonly ScenarioResult[]): string {
  const { failed, notRun } = checkTally(results);
  const seconds = results.reduce((sum, it) => sum + it.seconds, 0);
  const attributes = `name="wallet-check" tests="${results.length}" failures="${failed}" errors="0" skipped="${notRun}" time="${seconds.toFixed(3)}"`;
  const lines = ['<?xml version="1.0" encoding="UTF-8"?>', `<testsuites>`, `<testsuite ${attributes}>`];
  return `${[...lines, ...results.map(testCase), '</testsuite>', '</testsuites>'].join('\n')}\n`;
}

function testCase({ scenario, status, reason, problems, seconds }: ScenarioResult): string {
  const start = `<testcase classname="wallet-check" name="${xml(scenario.id)}" time="${seconds.toFixed(3)}"`;
  if (status === 'passed') return `${start}/>`;
  if (status === 'not_run') return `${start}><skipped message="${xml(reason ?? '')}"/></testcase>`;
  const text = [`rule      ${scenario.rule}`, ...problems.flatMap(problemLines)].join('\n');
  return `${start}><failure message="${xml(scenario.must)}">${xml(text)}</failure></testcase>`;
}

/** XML 1.0 allows no control characters, not even as references. */
function xml(text: string): string {
  return escapeUnprintable(text.toWellFormed())
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replace(/[\uFFFE\uFFFF]/g, '\uFFFD');
}

/** The output of `jest --json`, as far as these programs read it. */
import { join, relative, sep } from 'node:path';
import { isObject } from '../src/lib/json';

/**
 * The files of a whole run: of the layers on servers, of the computing ones, of those that follow these, and
 * of the benchmark.
 */
export const RUN_RESULTS = {
  servers: join('build', 'jest-results.json'),
  computing: join('build', 'jest-results-computing.json'),
  following: join('build', 'jest-results-following.json'),
  bench: join('build', 'jest-results-bench.json'),
} as const;

export interface JestTest {
  /** Path from the project's root, with slashes. */
  readonly file: string;
  /** The titles of the enclosing describes, outermost first, and its own title. */
  readonly titles: readonly string[];
  /** A pending, todo or disabled test did not run: it was skipped. */
  readonly status: 'passed' | 'failed' | 'skipped';
  /** The reason of a failure. */
  readonly message: unknown;
}

export interface JestFile {
  readonly file: string;
  /** Undefined if Jest does not report when it ran. */
  readonly seconds: number | undefined;
  readonly hasFailed: boolean;
  /** The reason of a failure outside of its tests. */
  readonly message: unknown;
  readonly tests: readonly JestTest[];
}

/** @throws if the JSON has another form */
export function readJestFiles(json: unknown, root: string): JestFile[] {
  if (!isObject(json) || !Array.isArray(json.testResults)) throw new Error('jest wrote no list of results');
  return json.testResults.map((result: unknown): JestFile => {
    if (!isObject(result) || typeof result.name !== 'string' || !Array.isArray(result.assertionResults))
      throw new Error('jest wrote a result that names no file or no tests');
    const { name, startTime, endTime, status, message } = result;
    const file = relative(root, name).split(sep).join('/');
    return {
      file,
      seconds:
        typeof startTime === 'number' && typeof endTime === 'number'
          ? (endTime - startTime) / 1000
          : undefined,
      hasFailed: status === 'failed',
      message,
      tests: result.assertionResults.map((test: unknown) => readTest(file, test)),
    };
  });
}

/**
 * The tests of all files.
 *
 * @throws if the JSON has another form
 */
export const readJestTests = (json: unknown, root: string): JestTest[] =>
  readJestFiles(json, root).flatMap(({ tests }) => tests);

function readTest(file: string, test: unknown): JestTest {
  if (!isObject(test) || typeof test.title !== 'string' || !Array.isArray(test.ancestorTitles))
    throw new Error('jest wrote a test without title');
  if (typeof test.status !== 'string') throw new Error('jest wrote a test without status');
  const { title, ancestorTitles, status, failureMessages } = test;
  return {
    file,
    titles: [...ancestorTitles, title].map(String),
    status: status === 'passed' || status === 'failed' ? status : 'skipped',
    message: Array.isArray(failureMessages) ? failureMessages[0] : undefined,
  };
}

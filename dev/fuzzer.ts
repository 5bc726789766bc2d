/**
 * Runs schemathesis, a fuzzer that reads an OpenAPI document, against a running service. It sends valid and
 * invalid requests, and compares each answer with the document: `node build/dev/fuzzer.js DOCUMENT --url URL
 * [--hooks FILE] [--seed N] [--seconds N]`. The exit code is 1 where it has a finding.
 *
 * schemathesis has the licence MIT. Its packages take 68 MB, and are installed once (python.ts).
 */
import { isObject } from '../src/lib/json';
import './own-node';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { inRun } from './long-run';
import { findPython, installPackages, type Python, runPython } from './python';
import { projectRoot } from './servers/download';
import { runProgram } from './servers/program';

const REQUIREMENTS = join(projectRoot, 'dev', 'fuzzer', 'requirements.txt');
/** Fills the tables of characters that hypothesis keeps, which takes seconds. */
const PREPARE = `
from hypothesis.internal import charmap
charmap.charmap()
for codec in ("utf-8", "ascii", "iso8859-1"):
    charmap.intervals_from_codec(codec)
`;
const PREPARE_DEADLINE_MS = 120_000;
/** A repeatable run: FUZZ_SEED is for another one. */
const SEED = inRun({ usual: 1, long: 1, variable: 'FUZZ_SEED' });
/** FUZZ_SECONDS is for a longer run. */
const SECONDS = inRun({ usual: 10, long: 30, variable: 'FUZZ_SECONDS' });
/** The fuzzer begins the last request before its time ends, and then makes a failure smaller. */
const MORE_SECONDS = 120;
const USAGE = 'usage: node build/dev/fuzzer.js DOCUMENT --url URL [--hooks FILE] [--seed N] [--seconds N]';

export interface FuzzRun {
  /** The path or the URL of an OpenAPI document, in JSON. */
  readonly document: string;
  /** The address of the running service, without a path. */
  readonly baseUrl: string;
  /** A Python file with hooks of schemathesis. It may sign requests. */
  readonly hooks?: string;
  /** Variables that the hooks read. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: FUZZ_SEED, or 1. */
  readonly seed?: number;
  /** The time of the whole run: random requests fill its rest. Default: FUZZ_SECONDS, or 10. */
  readonly seconds?: number;
  /** More options of `schemathesis run`. */
  readonly options?: readonly string[];
}

export interface FuzzReport {
  /** One for each kind of failure, with the operations that have it. Empty: the service is as documented. */
  readonly findings: readonly string[];
  /** The number of requests that were made. */
  readonly cases: number;
  /** Shares of the random requests that were accepted, by operation. A low share means a weak run. */
  readonly accepted: Readonly<Record<string, { readonly accepted: number; readonly rejected: number }>>;
  /** What schemathesis prints, with the request of each failure. */
  readonly output: string;
}

/** Python, or why the fuzzer cannot run on this machine. */
export const findFuzzer = findPython;

/** @throws where the fuzzer cannot run to its end */
export async function fuzz(python: Python, run: FuzzRun): Promise<FuzzReport> {
  const { seed = SEED, seconds = SECONDS } = run;
  const packages = await installPackages(python, REQUIREMENTS);
  // The fuzzer writes its failures beside its report, for a replay.
  const directory = mkdtempSync(join(tmpdir(), 'promo-intake-fuzzer-'));
  try {
    const report = join(directory, 'report.json');
    const isFile = !/^https?:/.test(run.document);
    const args = [
      ...['-m', 'schemathesis.cli', 'run', isFile ? resolve(run.document) : run.document],
      ...['--url', run.baseUrl, '--seed', String(seed), '--max-time', String(seconds), '--no-color'],
      ...['--report', 'json', '--report-json-path', report, '--generation-database', 'none'],
      ...(run.options ?? []),
    ];
    const tables = join(packages, '..', 'hypothesis');
    const storage = { HYPOTHESIS_STORAGE_DIRECTORY: tables };
    const settings = { packages: [packages], directory, environment: storage };
    if (!existsSync(tables))
      await runPython(python, ['-c', PREPARE], { ...settings, timeoutMs: PREPARE_DEADLINE_MS });
    const hooks = run.hooks === undefined ? {} : { SCHEMATHESIS_HOOKS: resolve(run.hooks) };
    const { code, output } = await runPython(python, args, {
      ...settings,
      environment: { ...run.environment, ...storage, ...hooks },
      timeoutMs: (seconds + MORE_SECONDS) * 1000,
    });
    if (code !== 0 && code !== 1) throw new Error(`the fuzzer ended with ${code}:\n${output.slice(-4_000)}`);
    const read = readReport(readFileSync(report, 'utf8'));
    if (read.cases === 0)
      throw new Error(`the fuzzer made no request in ${seconds} s; give it more time:\n${output}`);
    return { ...read, output };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function readReport(text: string): Omit<FuzzReport, 'output'> {
  const report: unknown = JSON.parse(text);
  if (!isObject(report) || !isObject(report.test_cases) || typeof report.test_cases.generated !== 'number')
    throw new Error(`the fuzzer wrote no report that can be read: ${text.slice(0, 500)}`);
  const failures = objectsOf(report.failures).map(
    ({ code, title, operations }) => `${code} ${title}: ${[operations].flat().join(', ')}`,
  );
  const errors = objectsOf(report.errors).map((error) => `error: ${JSON.stringify(error)}`);
  const rates = isObject(report.valid_rates) ? Object.entries(report.valid_rates) : [];
  return {
    findings: [...failures, ...errors],
    cases: report.test_cases.generated,
    accepted: Object.fromEntries(
      rates.map(([operation, phases]) => [operation, acceptedOf(isObject(phases) ? phases : {})]),
    ),
  };
}

function acceptedOf(phases: Readonly<Record<string, unknown>>): { accepted: number; rejected: number } {
  const counts = Object.values(phases).filter(isObject);
  const sum = (name: string) =>
    counts.reduce((total, { [name]: count }) => total + (typeof count === 'number' ? count : 0), 0);
  return { accepted: sum('accepted'), rejected: sum('rejected') };
}

function objectsOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

async function main(): Promise<number> {
  const text = { type: 'string' } as const;
  const { values, positionals } = parseArgs({
    options: { url: text, hooks: text, seed: text, seconds: text },
    allowPositionals: true,
  });
  const [document, ...rest] = positionals;
  if (document === undefined || values.url === undefined || rest.length > 0) {
    console.error(USAGE);
    return 2;
  }
  const python = findFuzzer();
  if ('problem' in python) throw new Error(python.problem);
  const { output, findings } = await fuzz(python, {
    document,
    baseUrl: values.url,
    ...(values.hooks === undefined ? {} : { hooks: values.hooks }),
    ...(values.seed === undefined ? {} : { seed: Number(values.seed) }),
    ...(values.seconds === undefined ? {} : { seconds: Number(values.seconds) }),
  });
  console.log(output);
  return findings.length === 0 ? 0 : 1;
}

if (require.main === module) runProgram('fuzzer', main);

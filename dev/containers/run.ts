/** Runs programs to their end, and keeps all their output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { within } from '../servers/deadline';
import type { Environment } from '../servers/types';

export interface Ran {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  /** Output of both streams. */
  readonly output: string;
}

export interface RunOptions {
  readonly deadlineMs: number;
  readonly input?: string;
  readonly environment?: Environment;
  readonly directory?: string;
}

/** @throws if it cannot be started, or does not end in time: it is killed then */
export async function run(file: string, args: readonly string[], options: RunOptions): Promise<Ran> {
  const { deadlineMs, input = '', environment = process.env, directory } = options;
  const child = spawn(file, args, { env: { ...environment }, cwd: directory, stdio: 'pipe' });
  child.stdin.on('error', () => {
    // It has ended without reading all its input; its exit code is the result.
  });
  child.stdin.end(input);
  let stdout = '';
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  try {
    const code = await within(`${file} ${args.slice(0, 3).join(' ')}`, deadlineMs, endOf(child));
    return { code, stdout, output };
  } finally {
    child.kill('SIGKILL');
  }
}

/**
 * The same for a program that has to succeed.
 *
 * @returns its stdout
 * @throws with the end of its output
 */
export async function must(file: string, args: readonly string[], options: RunOptions): Promise<string> {
  const { code, stdout, output } = await run(file, args, options);
  if (code !== 0)
    throw new Error(`${[file, ...args].join(' ').slice(0, 300)}: exit code ${code}\n${tail(output)}`);
  return stdout;
}

const TAIL_LINES = 25;
const tail = (output: string): string => output.trimEnd().split('\n').slice(-TAIL_LINES).join('\n');

export function endOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
}

/**
 * TypeScript files of this repository as processes of their own. A test kills them, or runs one before it can
 * wait for anything.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { until, within } from '../../dev/servers/deadline';
import { projectRoot } from '../../dev/servers/download';
import type { End } from './worker';

const START_DEADLINE_MS = 60_000;
const END_DEADLINE_MS = 60_000;

const RUN = `
require.extensions['.ts'] = (module, file) => module._compile(require('@swc/core').transformFileSync(file, {
  jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } }).code, file);
require(process.argv[1]);`;

export interface RunningProgram {
  /**
   * Resolves once the program has written that line.
   * @throws where it ends before
   */
  waitForLine(line: string): Promise<void>;
  /**
   * SIGKILL, as a crash.
   * @returns how the program ended: by that, or by itself before
   */
  kill(): Promise<End>;
}

/** @throws where there is no such file: it would end before anything waits for it */
export function startProgram(file: string, environment: Readonly<Record<string, string>>): RunningProgram {
  if (!existsSync(file)) throw new Error(`there is no program ${file}`);
  const child = spawn(process.execPath, ['-e', RUN, file], {
    cwd: projectRoot,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let written = '';
  let end: End | undefined;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    written += text;
  });
  const ended = new Promise<End>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      end = { code, signal };
      resolve(end);
    });
  });
  return {
    waitForLine: (line) =>
      until(`${file} says "${line}"`, START_DEADLINE_MS, () => {
        const isWritten = written.split('\n').includes(line);
        if (!isWritten && end !== undefined)
          throw new Error(`${file} ended with ${end.signal ?? end.code} before it wrote "${line}"`);
        return isWritten;
      }),
    kill() {
      child.kill('SIGKILL');
      return within(`${file} ends`, END_DEADLINE_MS, ended);
    },
  };
}

/**
 * Runs a program to its end, while this process waits.
 * @returns its output
 * @throws where it does not end with 0
 */
export function runProgramNow(file: string): string {
  const { status, stdout, error } = spawnSync(process.execPath, ['-e', RUN, file], {
    cwd: projectRoot,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    timeout: END_DEADLINE_MS,
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${file} ended with ${status}`);
  return stdout;
}

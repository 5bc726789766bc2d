/** Runs a mode of the benchmark that passes or fails, as `make bench` does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/**
 * Prints the table. @param bench file of the compiled benchmark
 * @throws where the exit code is not 0: the last line of stderr comes first, since a summary of tests shows
 * one line of an error
 */
export async function runCheck(
  bench: string,
  environment: Readonly<Record<string, string>>,
  deadlineMs: number,
): Promise<void> {
  const child = spawn(process.execPath, [bench], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: deadlineMs,
  });
  const [printed, told, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  process.stdout.write(printed);
  if (code === 0) return;
  const lines = told.trimEnd().split('\n');
  throw new Error(`${lines.at(-1)?.trim()} (exit code ${code ?? signal})\n${told}`);
}

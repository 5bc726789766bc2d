/** Runs a mode of the benchmark that passes or fails, as `make bench` does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/**
 * @returns the exit code, and the output if it is not 0. Prints the table. @param bench file of the compiled
 * benchmark
 */
export async function runCheck(
  bench: string,
  environment: Readonly<Record<string, string>>,
  deadlineMs: number,
): Promise<{ code: unknown; told: string }> {
  const child = spawn(process.execPath, [bench], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: deadlineMs,
  });
  const [printed, told, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  process.stdout.write(printed);
  return { code, told: code === 0 ? '' : told };
}

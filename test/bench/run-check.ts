/** A mode of the benchmark that passes or fails, run as `make bench` runs it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/** How it ended, and where that is not with 0, how far it came. Prints its table. @param bench file of the compiled benchmark */
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

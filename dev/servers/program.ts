/** The end of a program that runs something on servers, such as `make demo` and `make bench`. */
import { messageOf } from './types';

export const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

/** The first signal that requests the end. A closed output counts as one, too. */
export function endingSignal(): Promise<keyof typeof EXIT_CODES> {
  return new Promise((resolve) => {
    process.on('SIGINT', resolve).on('SIGTERM', resolve).on('SIGHUP', resolve);
    for (const output of [process.stdout, process.stderr]) output.on('error', () => resolve('SIGHUP'));
  });
}

/**
 * Runs the program to its end, and ends the process with it.
 *
 * @param main returns the exit code
 * @param codeOf the exit code for an error of `main`
 */
export function runProgram(
  name: string,
  main: () => Promise<number>,
  codeOf: (error: unknown) => number = () => 1,
): void {
  process.removeAllListeners('warning').on('warning', (warning) => {
    process.stderr.write(`${name}: ${warning.name}: ${warning.message}\n`);
  });
  // Signal handlers and child processes alone do not keep this program alive.
  setInterval(() => {}, 60_000);
  main().then(
    (code) => process.exit(code),
    (error: unknown) => {
      process.stderr.write(`${name}: ${messageOf(error)}\n`);
      process.exit(codeOf(error));
    },
  );
}

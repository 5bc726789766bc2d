#!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --min-semi-space-size=16 --max-semi-space-size=16 --no-parallel-scavenge --heap-growing-percent=150 --no-allocation-site-pretenuring
/**
 * The program's entry point. The folders of src/commands have the commands, each folder with a table.
 *
 * The code of a command is loaded only when it runs, so that --help answers at once.
 */
import { access, constants, stat } from 'node:fs/promises';
import { DONE, USAGE } from './cli/exit-codes';
import { causesOf, explain } from './cli/explain-error';
import { nodeProblem } from './cli/node-version';
import { codeWithOutput, guardOutput, outputFlushed } from './cli/output';
import { packageVersion } from './cli/package-version';
import { escapeControlsOf } from './cli/terminal';
import { type Command, type Given, helpOf, overview, readArguments, synopsis } from './cli/usage';
import { ANALYST_COMMANDS } from './commands/analysts/commands';
import { DIAGNOSIS_COMMANDS } from './commands/diagnosis/commands';
import { INTAKE_COMMANDS } from './commands/intake/commands';
import { OPERATOR_COMMANDS } from './commands/operators/commands';
import { PROMOTION_COMMANDS } from './commands/promotions/commands';
import { RECORD_COMMANDS } from './commands/records/commands';
import { STORE_COMMANDS } from './commands/store/commands';
import { WALLET_COMMANDS } from './commands/wallet/commands';

/**
 * Time for open handles to close after the command has ended: a reconnecting client would keep the process
 * alive.
 */
const LINGER_MS = 2_000;

/** Sorted for the help: the commands of a first run come first. */
export const COMMANDS: readonly Command[] = [
  ...STORE_COMMANDS,
  ...INTAKE_COMMANDS,
  ...DIAGNOSIS_COMMANDS,
  ...RECORD_COMMANDS,
  ...OPERATOR_COMMANDS,
  ...PROMOTION_COMMANDS,
  ...ANALYST_COMMANDS,
  ...WALLET_COMMANDS,
];

// --- running

/** Runs the command, unless this Node.js is too old: then the modules of a command may not even load. */
async function run(argv: readonly string[]): Promise<number> {
  const problem = nodeProblem(process.versions.node);
  if (problem === undefined) return main(argv);
  console.error(problem);
  return USAGE;
}

async function main(argv: readonly string[]): Promise<number> {
  const request = readArguments(argv, COMMANDS);
  switch (request.type) {
    case 'help':
      process.stdout.write(request.command === undefined ? overview(COMMANDS) : helpOf(request.command));
      return DONE;
    case 'version':
      console.log(`promo-intake ${await packageVersion()}`);
      return DONE;
    case 'wrong':
      return usage(request.problem, request.command);
    case 'run': {
      const { command, given } = request;
      const problems = await Promise.all(filesOf(command, given).map(unreadable));
      const problem = problems.filter((each) => each !== undefined).join('\n');
      if (problem === '') return command.run(given);
      console.error(problem);
      return USAGE;
    }
  }
}

function usage(problem: string, command: Command | undefined): number {
  const more = command === undefined ? 'promo-intake --help' : `promo-intake ${command.name} --help`;
  const line = command === undefined ? '' : `Usage: ${synopsis(command)}\n`;
  console.error(`${problem}\n${line}${more} shows the options.`);
  return USAGE;
}

/** The files that have to exist: `-` is standard input where the command takes it. */
function filesOf(command: Command, { file, options }: Given): string[] {
  const named = Object.entries(command.options).map(([name, option]) => [option.file, options.get(name)]);
  return [[command.file, file], ...named].flatMap(([kind, value]) =>
    kind === undefined || value === undefined || (value === '-' && kind === 'file or -') ? [] : [value],
  );
}

/** The reason why a file cannot be read, if there is one. It is reported before the command starts. */
async function unreadable(file: string): Promise<string | undefined> {
  try {
    if ((await stat(file)).isDirectory()) return `${file} is a directory; name a file`;
    await access(file, constants.R_OK);
    return undefined;
  } catch (error) {
    const code = causesOf(error)[0]?.code;
    if (code === 'ENOENT') return `there is no file ${file}`;
    return code === 'EACCES' ? `there is no permission to read ${file}` : `${file} cannot be read (${code})`;
  }
}

/** Exit codes that shells report for a process that a signal ended. */
const SIGNALLED = { SIGINT: 130, SIGTERM: 143 } as const;

if (require.main === module) {
  // By default Node opens its inspector on SIGUSR1, and a process that may send signals could use it. The
  // image starts Node with --disable-sigusr1 as well.
  process.on('SIGUSR1', () => undefined);
  for (const stream of [process.stdout, process.stderr]) escapeControlsOf(stream);
  // The kernel delivers to process 1 of a container only signals with a handler. A command without one could
  // only be killed.
  if (process.pid === 1) {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        if (process.listenerCount(signal) === 0) process.exit(SIGNALLED[signal]);
      });
    }
  }
  process.removeAllListeners('warning').on('warning', ({ name, message }) => {
    console.error(`${name}: ${message}`);
  });
  guardOutput();
  run(process.argv.slice(2))
    .catch((error: unknown) => {
      const { message, code } = explain(error);
      console.error(message);
      return code;
    })
    .then(async (code) => {
      process.exitCode = codeWithOutput(code);
      await outputFlushed(process.exitCode);
      process.exitCode = codeWithOutput(code);
      setTimeout(() => process.exit(), LINGER_MS).unref();
    });
}

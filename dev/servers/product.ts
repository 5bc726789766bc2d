/** The product as whoever measures, shows or tests it starts it: the compiled command, as its first line says. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './download';
import type { Environment } from './types';

/** As `make build` leaves it. */
export const CLI = join(projectRoot, 'dist', 'cli.js');
const SOURCES = join(projectRoot, 'src');
/** What a command may take over from a program's environment: no setting, so that only those that are given are in force. */
const INHERITED = /^(PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|PG\w+|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS)$/;
const FIRST_LINE = /^#!\/usr\/bin\/env -S ((?:\w+=\S+ )+)node((?: --\S+)+)$/;

/** A program with its arguments, and what its environment has to hold. */
export interface ProgramCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * How a command is started: with the variables and the options of Node that the first line says.
 *
 * @throws where it says none: memory and speed would be another program's
 */
export function productCommand(cli: string, args: readonly string[]): ProgramCommand {
  const [firstLine = ''] = readFileSync(cli, 'utf8').split('\n', 1);
  const [, variables, options] = FIRST_LINE.exec(firstLine) ?? [];
  if (variables === undefined || options === undefined)
    throw new Error(`${cli}: the first line has no variables or no options of Node: ${firstLine}`);
  const environment = variables
    .trim()
    .split(' ')
    .map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)] as const);
  return {
    file: process.execPath,
    args: [...options.trim().split(' '), cli, ...args],
    environment: Object.fromEntries(environment),
  };
}

/** @throws where the product is not built, or its sources are newer than what was built: that would be another product */
export function requireProduct(cli: string = CLI, sources: string = SOURCES): void {
  const built = statSync(cli, { throwIfNoEntry: false });
  if (built === undefined)
    throw new Error('dist/cli.js is missing. Build it first: make build, or npm run build.');
  const newer = readdirSync(sources, { recursive: true, encoding: 'utf8' }).find(
    (name) => name.endsWith('.ts') && statSync(join(sources, name)).mtimeMs > built.mtimeMs,
  );
  if (newer !== undefined)
    throw new Error(`dist is older than src/${newer}. Build it again: make build, or npm run build.`);
}

/** What is inherited of an environment. */
export const inheritedFrom = (environment: Environment): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));

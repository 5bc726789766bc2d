/** The compilers of operators' languages, for the programs of the documents. */
import { spawnSync } from 'node:child_process';
import { chooseJava, describeJavas, findJavas, findOnPath } from '../../dev/servers/java';
import { missingForPostgres } from '../../dev/servers/postgres-programs';
import type { Environment } from '../../dev/servers/types';
import type { Problem } from './needed';

const JAVA_VERSION = 17;
/** That of the Kafka client. */
const GO_MINOR = 26;
/** 8.1: each part of the version has two digits, as in PHP's own number. */
const PHP_VERSION_ID = 80_100;
const VERSION_DEADLINE_MS = 60_000;

/** Variables that the tools of a language need. */
export interface Toolchain {
  readonly environment: Readonly<Record<string, string>>;
}

/** Java that runs a source file, with Maven. */
export function findJdk(environment: Environment = process.env): Toolchain | Problem {
  const remedy = `apt-get install openjdk-${JAVA_VERSION}-jdk-headless maven`;
  for (const name of ['mvn', 'java', 'javac'])
    if (findOnPath(name, environment) === undefined) return { problem: `${name} is missing: ${remedy}` };
  const javas = findJavas(environment);
  const java = chooseJava(javas, JAVA_VERSION);
  if (java === undefined) return { problem: `Java ${JAVA_VERSION} is missing: ${describeJavas(javas)}` };
  return { environment: { JAVA_HOME: java.home } };
}

export function findGo(environment: Environment = process.env): Toolchain | Problem {
  const remedy = `install Go 1.${GO_MINOR} or newer`;
  const executable = findOnPath('go', environment);
  if (executable === undefined) return { problem: `go is missing: ${remedy}` };
  const { stdout } = spawnSync(executable, ['env', 'GOVERSION'], {
    encoding: 'utf8',
    timeout: VERSION_DEADLINE_MS,
  });
  const [, minor] = /^go1\.(\d+)/.exec(stdout ?? '') ?? [];
  if (Number(minor ?? 0) < GO_MINOR) return { problem: `go is ${stdout?.trim()}: ${remedy}` };
  return { environment: {} };
}

/** PHP with the extension curl. */
export function findPhp(environment: Environment = process.env): Toolchain | Problem {
  const remedy = 'apt-get install php-cli php-curl';
  const executable = findOnPath('php', environment);
  if (executable === undefined) return { problem: `php is missing: ${remedy}` };
  const ask = `echo PHP_VERSION_ID >= ${PHP_VERSION_ID} && extension_loaded('curl') ? 'yes' : PHP_VERSION;`;
  const { stdout } = spawnSync(executable, ['-r', ask], { encoding: 'utf8', timeout: VERSION_DEADLINE_MS });
  if (stdout !== 'yes') return { problem: `php is ${stdout}, or has no extension curl: ${remedy}` };
  return { environment: {} };
}

/** pg_dump and pg_restore, and the major version of Postgres that they belong to. */
export interface DumpTools {
  readonly version: string;
  readonly dump: string;
  readonly restore: string;
}

export function findDumpTools(environment: Environment = process.env): DumpTools | Problem {
  const remedy = 'apt-get install postgresql-client';
  const [dump, restore] = ['pg_dump', 'pg_restore'].map((name) => findOnPath(name, environment));
  if (dump === undefined || restore === undefined) return { problem: `pg_dump is missing: ${remedy}` };
  const { stdout } = spawnSync(dump, ['--version'], { encoding: 'utf8', timeout: VERSION_DEADLINE_MS });
  const [, version] = / (\d+)\./.exec(stdout ?? '') ?? [];
  if (version === undefined) return { problem: `pg_dump does not name its version: ${remedy}` };
  const [missing] = missingForPostgres(version, environment);
  if (missing !== undefined) return { problem: `${missing.what}: ${missing.remedy}` };
  return { version, dump, restore };
}

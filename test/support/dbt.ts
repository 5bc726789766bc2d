/** Real dbt on the package of docs/analysts/dbt, with files of its runs in a directory of their own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPackages, type Python, runPython } from '../../dev/python';
import { projectRoot } from '../../dev/servers/download';

const REQUIREMENTS = join(__dirname, 'dbt', 'requirements.txt');
const PACKAGE = join(projectRoot, 'docs', 'analysts', 'dbt');
const MAIN = 'import sys; from dbt.cli.main import cli; sys.exit(cli())';
const RUN_DEADLINE_MS = 300_000;

export interface DbtEnd {
  readonly code: number | null;
  readonly output: string;
}

export interface Dbt {
  /** Runs dbt once, as the role of the URL. The copy is in the schema. Runs at once have different names. */
  run(url: string, schema: string, args: readonly string[], name?: string): Promise<DbtEnd>;
  close(): void;
}

/** Installs dbt, unless it is there. */
export async function makeDbt(python: Python): Promise<Dbt> {
  const packages = await installPackages(python, REQUIREMENTS);
  const directory = mkdtempSync(join(tmpdir(), 'promo-dbt-'));
  return {
    run(url, schema, args, name = 'one') {
      const { hostname, port, username, password, pathname } = new URL(url);
      const environment = {
        PGHOST: hostname,
        PGPORT: port === '' ? '5432' : port,
        PGUSER: username,
        PGPASSWORD: decodeURIComponent(password),
        PGDATABASE: pathname.slice(1),
        PROMO_DBT_SCHEMA: schema,
        DBT_PROJECT_DIR: PACKAGE,
        DBT_PROFILES_DIR: PACKAGE,
        DBT_TARGET_PATH: join(directory, name),
        DBT_LOG_PATH: join(directory, name),
        DBT_USE_COLORS: 'false',
        // A warning of dbt is a construct that a later version refuses.
        DBT_WARN_ERROR: 'true',
      };
      return runPython(python, ['-c', MAIN, '--no-version-check', ...args], {
        packages: [packages],
        directory,
        environment,
        timeoutMs: RUN_DEADLINE_MS,
      });
    },
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
}

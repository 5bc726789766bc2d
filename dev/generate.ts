/**
 * Writes the files that are generated from code: `node build/dev/generate.js`. `node build/dev/generate.js
 * tables` writes those that need Postgres. With --check it writes nothing; it names the files that differ,
 * and the exit code is 1.
 */
import './own-node';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { renderDashboard } from './generate/dashboard-picture';
import {
  dashboardFile,
  driftOf,
  GENERATE_TABLES_COMMAND,
  type GeneratedFile,
  generatedFiles,
  tablesFile,
  writeFiles,
} from './generate/files';
import { renderTables } from './generate/tables';
import { startServers } from './servers';
import { projectRoot } from './servers/download';
import { makeGuest } from './servers/guest';
import { CLI, productCommand, requireProduct } from './servers/product';
import { runProgram } from './servers/program';

const USAGE = 'usage: node build/dev/generate.js [tables] [--check]';
const USAGE_EXIT_CODE = 2;
const MIGRATE_TIMEOUT_MS = 60_000;

const { makeDatabase, dropDatabase } = makeGuest('promo-generate', 30_000);

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: { check: { type: 'boolean', default: false } },
    allowPositionals: true,
  });
  const [what, ...rest] = positionals;
  if (rest.length > 0 || (what !== undefined && what !== 'tables')) {
    console.error(USAGE);
    return USAGE_EXIT_CODE;
  }
  const root = projectRoot;
  const files = what === 'tables' ? await makeTables() : generatedFiles(root);
  if (values.check) {
    const drift = driftOf(files, root);
    for (const line of drift) console.error(line);
    if (drift.length === 0) console.log(`${files.length} generated files are up to date`);
    return drift.length === 0 ? 0 : 1;
  }
  const changed = writeFiles(files, root);
  for (const path of changed) console.log(`wrote ${path}`);
  if (changed.length === 0) console.log(`${files.length} generated files were up to date`);
  return 0;
}

/**
 * Migrates a database of its own, on the server of DATABASE_URL or on one that it starts, and drops it again.
 */
async function makeTables(): Promise<GeneratedFile[]> {
  const servers = await startServers({ need: ['postgres'], log: (line) => console.error(line) });
  try {
    const name = `promo_test_${randomBytes(8).toString('hex')}`;
    const url = await makeDatabase(servers.databaseUrl, name);
    try {
      migrate(url);
      const tables = tablesFile(await renderTables(url, GENERATE_TABLES_COMMAND));
      return [tables, dashboardFile(await renderDashboard(url))];
    } finally {
      await dropDatabase(servers.databaseUrl, name);
    }
  } finally {
    await servers.stop();
  }
}

/** Runs the product's own command, which finds its migrations beside dist/. */
function migrate(databaseUrl: string): void {
  requireProduct();
  const { file, args, environment } = productCommand(CLI, ['migrate']);
  execFileSync(file, args, {
    env: { PATH: process.env.PATH, ...environment, DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: MIGRATE_TIMEOUT_MS,
  });
}

runProgram('generate', main);

/** The report of the demo as one HTML file. It stays in build/ when the demo removes all else. */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Client } from 'pg';
import { projectRoot } from '../servers/download';
import type { Stage } from './stage';

const FILE = join('build', 'demo-report.html');

/** The range is that of the verdicts: they were decided within seconds. */
const BEGIN = `select to_char(min(decided_at) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as begin from promo.verdicts`;

/** @returns the path of the file from the project's root */
export async function makeDemoReport(stage: Stage, client: Client): Promise<string> {
  const { rows } = await client.query<{ begin: string }>(BEGIN);
  const [{ begin } = { begin: '' }] = rows;
  mkdirSync(dirname(join(projectRoot, FILE)), { recursive: true });
  await stage.run('report', '--from', begin, '--out', FILE);
  return FILE;
}

/**
 * Runs the present program on the Node of node_modules, where the machine's own is too old. Import this
 * module first: the modules of the product may not load on an old Node.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { nodeProblem } from '../src/cli/node-version';

const OWN_NODE = join(__dirname, '..', '..', 'node_modules', '.bin', 'node');

const problem = nodeProblem(process.versions.node);
if (problem !== undefined) {
  const { status, error } = spawnSync(OWN_NODE, process.argv.slice(1), { stdio: 'inherit' });
  if (error !== undefined) console.error(`${problem}; ${OWN_NODE} does not start: ${error.message}`);
  process.exit(status ?? 1);
}

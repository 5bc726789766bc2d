/** The compiler as tests need it: fast, and with a deadline. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot } from '../../dev/servers/download';

const TSC = join(projectRoot, 'node_modules', 'typescript', 'bin', 'tsc');
const DEADLINE_MS = 120_000;

/**
 * @param project a directory of the checkout with a tsconfig.json. `make lint` checks the types, not this
 * function
 */
export function compileProject(project: string, outDirectory: string): void {
  execFileSync(process.execPath, [TSC, '-p', project, '--outDir', outDirectory, '--noCheck'], {
    cwd: projectRoot,
    timeout: DEADLINE_MS,
  });
}

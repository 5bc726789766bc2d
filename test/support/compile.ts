/** The compiler as tests need it: fast, and not without end. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot } from '../../dev/servers/download';

const TSC = join(projectRoot, 'node_modules', 'typescript', 'bin', 'tsc');
const DEADLINE_MS = 120_000;

/** @param project a directory of the checkout with a tsconfig.json. Whether the types are right is for `make lint` to say. */
export function compileProject(project: string, outDirectory: string): void {
  execFileSync(process.execPath, [TSC, '-p', project, '--outDir', outDirectory, '--noCheck'], {
    cwd: projectRoot,
    timeout: DEADLINE_MS,
  });
}

/** The requirements of a program on this machine, and the installation of those that are Debian packages. */
import { findOnPath } from '../servers/java';
import type { Environment, Log } from '../servers/types';
import { must } from './run';

const INSTALL_DEADLINE_MS = 600_000;

export interface Need {
  readonly what: string;
  readonly debianPackage: string;
  readonly isThere: (environment: Environment) => boolean;
}

export const program = (name: string, debianPackage: string): Need => ({
  what: name,
  debianPackage,
  isThere: (environment) => findOnPath(name, withSystem(environment)) !== undefined,
});

/** Programs for root may be in directories that only root's PATH names. */
export function withSystem(environment: Environment): Environment {
  return { ...environment, PATH: `${environment.PATH ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` };
}

/**
 * Installs the packages of missing requirements.
 *
 * @returns the requirements that are still missing as a sentence, or undefined
 */
export async function provide(
  needs: readonly Need[],
  environment: Environment,
  log: Log,
): Promise<string | undefined> {
  const missing = () => needs.filter(({ isThere }) => !isThere(environment));
  const packages = missing().map(({ debianPackage }) => debianPackage);
  if (packages.length === 0) return undefined;
  const apt = findOnPath('apt-get', environment);
  if (apt !== undefined) {
    log(`apt-get install ${packages.join(' ')} …`);
    const options = {
      deadlineMs: INSTALL_DEADLINE_MS,
      environment: { ...withSystem(environment), DEBIAN_FRONTEND: 'noninteractive' },
    };
    await must(apt, ['update', '-q'], options);
    await must(apt, ['install', '-y', '-q', '--no-install-recommends', ...packages], options);
  }
  const still = missing();
  if (still.length === 0) return undefined;
  const names = still.map(({ what, debianPackage }) => `${what} (Debian: ${debianPackage})`).join(', ');
  return `missing: ${names}`;
}

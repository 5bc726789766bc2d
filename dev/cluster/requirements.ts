/** What a machine has to have for a node of its own, and how it gets what a package of Debian brings. */
import { existsSync } from 'node:fs';
import { findOnPath } from '../servers/java';
import type { Environment, Log } from '../servers/types';
import { must } from './run';

/** Where Debian and others put the plugins that give pods their network. */
const CNI_DIRECTORIES = ['/usr/lib/cni', '/opt/cni/bin', '/usr/libexec/cni'];
const INSTALL_DEADLINE_MS = 600_000;

interface Need {
  readonly what: string;
  readonly debianPackage: string;
  readonly isThere: (environment: Environment) => boolean;
}

const program = (name: string, debianPackage: string): Need => ({
  what: name,
  debianPackage,
  isThere: (environment) => findOnPath(name, withSystem(environment)) !== undefined,
});

const NEEDS: readonly Need[] = [
  program('containerd', 'containerd'),
  program('runc', 'runc'),
  program('ip', 'iproute2'),
  program('unshare', 'util-linux'),
  {
    what: 'bridge of CNI',
    debianPackage: 'containernetworking-plugins',
    isThere: () => findCni() !== undefined,
  },
];
/** For images, where no container engine answers. */
const ENGINE_NEEDS: readonly Need[] = [
  program('dockerd', 'docker.io'),
  program('debootstrap', 'debootstrap'),
];

/** What is run as root lies where only root's PATH leads. */
export function withSystem(environment: Environment): Environment {
  return { ...environment, PATH: `${environment.PATH ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` };
}

export function findCni(): string | undefined {
  return CNI_DIRECTORIES.find((directory) => existsSync(`${directory}/bridge`));
}

/** Why no node can be made here, whatever were installed; undefined where one can. */
export function whyNoNode(environment: Environment): string | undefined {
  if (process.platform !== 'linux') return `a node needs Linux, and this is ${process.platform}`;
  if (process.getuid?.() !== 0)
    return 'a node needs root: run it as root, or name a cluster by KUBECONFIG and IMAGE';
  if (findOnPath('go', environment) === undefined)
    return 'the programs of Kubernetes are built by Go, which is missing: install Go 1.26 or newer (https://go.dev/dl)';
  return undefined;
}

/** Installs the packages of what is missing. @returns what is still missing, as a sentence, or undefined */
export async function provideNeeds(
  withEngine: boolean,
  environment: Environment,
  log: Log,
): Promise<string | undefined> {
  const missing = () =>
    [...NEEDS, ...(withEngine ? ENGINE_NEEDS : [])].filter(({ isThere }) => !isThere(environment));
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

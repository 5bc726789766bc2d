/**
 * The requirements of a machine for a node of its own, and the installation of those that are Debian
 * packages.
 */
import { existsSync } from 'node:fs';
import { type Need, program, provide } from '../containers/debian';
import { ENGINE_NEEDS } from '../containers/engine';
import { findOnPath } from '../servers/java';
import type { Environment, Log } from '../servers/types';

/** Directories of the plugins that give pods their network, in Debian and elsewhere. */
const CNI_DIRECTORIES = ['/usr/lib/cni', '/opt/cni/bin', '/usr/libexec/cni'];

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
export function findCni(): string | undefined {
  return CNI_DIRECTORIES.find((directory) => existsSync(`${directory}/bridge`));
}

/** Why no node can be made here, even with more packages; undefined if one can. */
export function whyNoNode(environment: Environment): string | undefined {
  if (process.platform !== 'linux') return `a node needs Linux, and this is ${process.platform}`;
  if (process.getuid?.() !== 0)
    return 'a node needs root: run it as root, or name a cluster by KUBECONFIG and IMAGE';
  if (findOnPath('go', environment) === undefined)
    return 'the programs of Kubernetes are built by Go, which is missing: install Go 1.26 or newer (https://go.dev/dl)';
  return undefined;
}

/**
 * @param withEngine true if no container engine answers
 * @returns the missing requirements as a sentence, or undefined
 */
export const provideNeeds = (
  withEngine: boolean,
  environment: Environment,
  log: Log,
): Promise<string | undefined> => provide([...NEEDS, ...(withEngine ? ENGINE_NEEDS : [])], environment, log);

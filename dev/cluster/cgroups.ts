/** Control groups of a node's pods. The kernel keeps them when the pods are gone. */
import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../servers/deadline';

const REMOVE_DEADLINE_MS = 30_000;
const CGROUPS = '/sys/fs/cgroup';

/** One directory with version 2; with version 1 one for each controller. */
function hierarchies(): string[] {
  const isUnified = existsSync(join(CGROUPS, 'cgroup.controllers'));
  const below = readdirSync(CGROUPS).map((name) => join(CGROUPS, name));
  return isUnified ? [CGROUPS] : below.filter((path) => existsSync(join(path, 'cgroup.procs')));
}

export function makeCgroup(name: string): void {
  for (const parent of hierarchies()) mkdirSync(join(parent, name));
}

/**
 * Removes a control group and all groups below it. Its processes have been killed, and may take a moment to
 * be gone.
 */
export async function removeCgroup(name: string): Promise<void> {
  for (const path of hierarchies().map((parent) => join(parent, name)))
    await until(`${path} is gone`, REMOVE_DEADLINE_MS, () => {
      try {
        if (existsSync(path)) remove(path);
        return true;
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'EBUSY') return false;
        throw error;
      }
    });
}

function remove(path: string): void {
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) remove(join(path, entry.name));
  rmdirSync(path);
}

/** Control groups that a node's pods live under. The kernel keeps them when the pods are gone. */
import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';

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

/** With all that is below it, of which nothing may run any more. */
export function removeCgroup(name: string): void {
  for (const path of hierarchies().map((parent) => join(parent, name))) if (existsSync(path)) remove(path);
}

function remove(path: string): void {
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) remove(join(path, entry.name));
  rmdirSync(path);
}

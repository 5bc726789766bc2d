/**
 * Lists the changes of the published schemas since the last release: `node build/dev/schemas.js`. The exit
 * code is 1 where a change is breaking. `node build/dev/schemas.js release` keeps copies of the schemas for
 * the version of package.json.
 */
import { isObject } from '../src/lib/json';
import './own-node';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { changesSince, describeChange, release, releasedVersions } from './compatibility/published';
import { projectRoot } from './servers/download';

const USAGE = 'usage: node build/dev/schemas.js [release]';
const USAGE_EXIT_CODE = 2;

function main(given: readonly string[]): number {
  if (given.length === 0) return listChanges();
  if (given.length > 1 || given[0] !== 'release') {
    console.error(USAGE);
    return USAGE_EXIT_CODE;
  }
  for (const path of release(versionOf(projectRoot), projectRoot)) console.log(`wrote ${path}`);
  return 0;
}

function listChanges(): number {
  const last = releasedVersions(projectRoot).at(-1);
  const changes = last === undefined ? [] : changesSince(last, projectRoot);
  for (const change of changes) console.log(describeChange(change));
  const broken = changes.filter(({ isBreaking }) => isBreaking).length;
  console.log(`since ${last}: ${changes.length - broken} additions, ${broken} breaking changes`);
  return broken === 0 ? 0 : 1;
}

function versionOf(root: string): string {
  const manifest: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  if (!isObject(manifest) || typeof manifest.version !== 'string')
    throw new Error('package.json has no version');
  return manifest.version;
}

process.exitCode = main(process.argv.slice(2));

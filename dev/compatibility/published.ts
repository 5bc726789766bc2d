/** The published schemas, and the copies of released versions that they must stay compatible with. */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareSchemas, type Direction, type SchemaChange } from './json-schema';
import { compareOpenApi } from './openapi';

/**
 * Published files that are made of others here. A change of their messages is a change of the schemas that
 * they refer to.
 */
export const DERIVED: readonly string[] = ['topics.asyncapi.json'];

/** Each published file of schemas/, with the parties that meet its documents. */
export const PUBLISHED: Readonly<Record<string, Direction | 'openapi'>> = {
  'promo.event.v1.json': 'others_write',
  'promo.verdict.v1.json': 'others_read',
  'promo.completion.v1.json': 'others_read',
  'promo.answer.v1.json': 'others_read',
  'promo.reconcile.v1.json': 'others_write',
  'promo.reconciliation.v1.json': 'others_read',
  'operator.error.v2.json': 'others_read',
  'wallet.request.v2.json': 'others_read',
  'wallet.error.v2.json': 'others_write',
  'reference.schema.json': 'others_write',
  'promotions.schema.json': 'others_write',
  'webhook.openapi.json': 'openapi',
  'wallet-profile.schema.json': 'others_write',
  'sandbox.openapi.json': 'openapi',
  'sandbox.schema.json': 'others_write',
};

export const SCHEMAS = 'schemas';
export const RELEASED = 'schemas/released';

/** The released versions, the oldest first. */
export function releasedVersions(root: string): string[] {
  const parts = (version: string) => version.split('.').map(Number);
  return readdirSync(join(root, RELEASED)).sort((a, b) => {
    const [left, right] = [parts(a), parts(b)];
    const index = left.findIndex((part, at) => part !== right[at]);
    return index < 0 ? 0 : (left[index] ?? 0) - (right[index] ?? 0);
  });
}

export interface PublishedChange extends SchemaChange {
  readonly file: string;
}

/** The changes of all published files since a released version. */
export function changesSince(version: string, root: string): PublishedChange[] {
  const released = join(root, RELEASED, version);
  return Object.entries(PUBLISHED).flatMap(([file, kind]) => {
    const [was, is] = [join(released, file), join(root, SCHEMAS, file)].map((path) =>
      existsSync(path) ? readFileSync(path, 'utf8') : undefined,
    );
    const change = (isBreaking: boolean, text: string) => [{ file, path: '', isBreaking, change: text }];
    if (was === undefined) return is === undefined ? [] : change(false, 'is new');
    if (is === undefined) return change(true, 'is gone');
    if (is === was) return [];
    const [before, after] = [was, is].map((text): unknown => JSON.parse(text));
    const changes = kind === 'openapi' ? compareOpenApi(before, after) : compareSchemas(before, after, kind);
    return changes.map((each) => ({ file, ...each }));
  });
}

export function describeChange({ file, path, isBreaking, change }: PublishedChange): string {
  return `${isBreaking ? 'BREAKING' : 'addition'}: ${file}${path === '' ? '' : ` ${path}`} ${change}`;
}

/** Copies the published files as those of a version. @throws where the version was released before */
export function release(version: string, root: string): string[] {
  const target = join(root, RELEASED, version);
  if (existsSync(target)) throw new Error(`${RELEASED}/${version} exists; a released copy never changes`);
  mkdirSync(target, { recursive: true });
  const files = Object.keys(PUBLISHED);
  for (const file of files) copyFileSync(join(root, SCHEMAS, file), join(target, file));
  return files.map((file) => `${RELEASED}/${version}/${file}`);
}

/** The published schemas against the copies of released versions: a change is an addition, or fails here. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { objectOf } from '../../../dev/compatibility/json-schema';
import {
  changesSince,
  DERIVED,
  describeChange,
  PUBLISHED,
  release,
  releasedVersions,
  SCHEMAS,
} from '../../../dev/compatibility/published';
import { projectRoot as ROOT } from '../../../dev/servers/download';

/**
 * Breaking changes that were agreed with the readers, each as it is described, with the reason. Empty them
 * after the release.
 */
const AGREED: Readonly<Record<string, string>> = {};

const versions = releasedVersions(ROOT);

test.each(versions)('since %s, published schemas have grown by additions alone [O11]', (version) => {
  const broken = changesSince(version, ROOT)
    .filter(({ isBreaking }) => isBreaking)
    .map(describeChange);
  expect(broken.filter((change) => !Object.hasOwn(AGREED, change))).toEqual([]);
});

test('each agreed change is one since the last release', () => {
  const changes = versions
    .slice(-1)
    .flatMap((version) => changesSince(version, ROOT))
    .map(describeChange);
  expect(Object.keys(AGREED).filter((change) => !changes.includes(change))).toEqual([]);
});

test('each schema of schemas/ has its direction', () => {
  const files = readdirSync(join(ROOT, SCHEMAS)).filter((name) => name.endsWith('.json'));
  expect(files.sort()).toEqual([...Object.keys(PUBLISHED), ...DERIVED].sort());
});

test('the last released copies are those of the last version in CHANGELOG.md', () => {
  const changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8');
  const [, last] = /^## \[(\d+\.\d+\.\d+)\]/m.exec(changelog) ?? [];
  expect(versions.at(-1)).toBe(last);
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});

describe('in a copy of the project', () => {
  let root = '';
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'schemas-'));
    cpSync(join(ROOT, SCHEMAS), join(root, SCHEMAS), { recursive: true });
  });
  afterEach(() => rmSync(root, { recursive: true }));

  const read = (file: string) => objectOf(JSON.parse(readFileSync(join(root, SCHEMAS, file), 'utf8')));
  const write = (file: string, schema: object) =>
    writeFileSync(join(root, SCHEMAS, file), JSON.stringify(schema));
  const brokenSince = (version: string): string[] =>
    changesSince(version, root)
      .filter(({ isBreaking }) => isBreaking)
      .map(describeChange);

  test('a release keeps copies, from which nothing differs, and never replaces them', () => {
    expect(release('9.10.0', root)).toHaveLength(Object.keys(PUBLISHED).length);
    expect(changesSince('9.10.0', root)).toEqual([]);
    expect(() => release('9.10.0', root)).toThrow('a released copy never changes');
    release('9.9.0', root);
    expect(releasedVersions(root)).toEqual([...versions, '9.9.0', '9.10.0']);
  });

  test.each(Object.keys(PUBLISHED))('a release sees that a field or a path of %s is gone', (file) => {
    release('9.0.0', root);
    const key = PUBLISHED[file] === 'openapi' ? 'paths' : 'properties';
    const { [key]: parts, ...schema } = read(file);
    const [first = '', ...rest] = Object.entries(objectOf(parts)).reverse();
    write(file, { ...schema, [key]: Object.fromEntries(rest) });
    const name = String(first[0]).replaceAll('/', '~1');
    expect(brokenSince('9.0.0')).toEqual([`BREAKING: ${file} /${key}/${name} is gone`]);
  });

  test('a release sees that a response and a path of the OpenAPI document are gone', () => {
    release('9.0.0', root);
    const { paths, ...document } = read('webhook.openapi.json');
    const { '/readyz': _, '/v1/events/{connection_id}': events, ...others } = objectOf(paths);
    const { post, ...item } = objectOf(events);
    const { 413: _gone, ...responses } = objectOf(objectOf(post).responses);
    const changed = { ...item, post: { ...objectOf(post), responses } };
    write('webhook.openapi.json', {
      ...document,
      paths: { ...others, '/v1/events/{connection_id}': changed },
    });
    expect(brokenSince('9.0.0').sort()).toEqual([
      'BREAKING: webhook.openapi.json /paths/~1readyz is gone',
      'BREAKING: webhook.openapi.json /paths/~1v1~1events~1{connection_id}/post/responses/413 is gone',
    ]);
  });

  test.each(Object.keys(PUBLISHED))('a release sees that %s is gone', (file) => {
    release('9.0.0', root);
    rmSync(join(root, SCHEMAS, file));
    expect(brokenSince('9.0.0')).toEqual([`BREAKING: ${file} is gone`]);
  });

  test('a new reason is breaking for readers of verdicts, and a new field is not', () => {
    release('9.0.0', root);
    const schema = read('promo.verdict.v1.json');
    const properties = objectOf(schema.properties);
    write('promo.verdict.v1.json', { ...schema, properties: { ...properties, more: { type: 'string' } } });
    expect(changesSince('9.0.0', root).map(describeChange)).toEqual([
      'addition: promo.verdict.v1.json /properties/more is new',
    ]);
    const listed = objectOf(properties.reason).enum;
    write('promo.verdict.v1.json', {
      ...schema,
      properties: { ...properties, reason: { enum: [...(Array.isArray(listed) ? listed : []), 'tired'] } },
    });
    expect(brokenSince('9.0.0')).toEqual([
      'BREAKING: promo.verdict.v1.json /properties/reason/enum "tired" is new',
    ]);
  });
});

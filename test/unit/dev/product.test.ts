/** How the demo, the benchmark and the tests start the product. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../../dev/servers/download';
import { inheritedFrom, productCommand, requireBuild } from '../../../dev/servers/product';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'product-test-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const file = (name: string, text: string): string => {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
};

test('the command starts with the variables and the options of its first line', () => {
  const cli = file('cli.js', '#!/usr/bin/env -S A=1 B=x=y node --one=1 --two\n// more\n');
  expect(productCommand(cli, ['worker', '--drain'])).toEqual({
    file: process.execPath,
    args: ['--one=1', '--two', cli, 'worker', '--drain'],
    environment: { A: '1', B: 'x=y' },
  });
  const { args, environment } = productCommand(join(projectRoot, 'src', 'cli.ts'), []);
  expect(args.length).toBeGreaterThan(1);
  expect(Object.keys(environment)).not.toEqual([]);
});

test('the build makes the program executable, so that it starts with its first line', () => {
  const built = readFileSync(join(projectRoot, 'package.json'), 'utf8');
  expect(built).toContain('"postbuild": "chmod +x dist/cli.js"');
  for (const page of ['deploy.md', 'walkthrough.md'])
    expect(readFileSync(join(projectRoot, 'docs', 'operations', page), 'utf8')).toContain(
      'alias promo-intake=$PWD/dist/cli.js\n',
    );
});

test.each([
  '',
  '"use strict";',
  '#!/usr/bin/env node',
  '#!/usr/bin/env -S A=1 node',
  '#!/usr/bin/env -S node --one=1',
])('a first line without both is no command of ours: %j', (line) => {
  expect(() => productCommand(file('cli.js', `${line}\n`), [])).toThrow('no variables or no options');
});

test('a program that was not built, or is older than its sources, is refused', () => {
  const sources = join(directory, 'src');
  mkdirSync(join(sources, 'inside'), { recursive: true });
  const cli = join(directory, 'cli.js');
  const require = () => requireBuild({ file: cli, sources, by: 'make build' });
  expect(require).toThrow(/cli\.js is missing\. Build it first: make build\.$/);
  file('src/a.ts', '');
  const changed = file('src/inside/b.ts', '');
  file('cli.js', '');
  utimesSync(cli, 2_000, 2_000);
  for (const name of ['src/a.ts', 'src/inside/b.ts']) utimesSync(join(directory, name), 1_000, 1_000);
  expect(require).not.toThrow();
  utimesSync(changed, 3_000, 3_000);
  expect(require).toThrow(/cli\.js is older than .*src\/inside\/b\.ts\. Build it again: make build\.$/);
});

test('no setting of the product is inherited from an environment', () => {
  const environment = {
    PATH: '/bin',
    LC_ALL: 'C',
    KAFKA_BROKERS: 'b:1',
    DATABASE_URL: 'x',
    NODE_OPTIONS: '--x',
  };
  expect(inheritedFrom(environment)).toEqual({ PATH: '/bin', LC_ALL: 'C' });
});

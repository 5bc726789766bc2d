import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { driftOf, type GeneratedFile, generatedFiles, writeFiles } from '../../../dev/generate/files';
import { projectRoot as ROOT } from '../../../dev/servers/download';
import { COMMANDS } from '../../../src/cli';
import { ConfigError, readConfig, SETTINGS, settingsOf } from '../../../src/config/config';
import { DEAD_LETTER_REASONS, REASONS } from '../../../src/domain/verdict/reasons';
import { LABELS, makeMetrics, OWN_PREFIX } from '../../../src/telemetry/metrics';
import { settingsByFile } from '../../support/settings-read';

const files = generatedFiles(ROOT);
const contentOf = (path: string): string => files.find((file) => file.path === path)?.content ?? '';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'generated-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

// docs/tables.md needs a database: test/commands/generated-tables.test.ts.
test.each(files)('$path agrees with its source', (file) => {
  expect(driftOf([file], ROOT)).toEqual([]);
});

describe('a file that differs from its source', () => {
  const file: GeneratedFile = { path: 'docs/some.md', content: 'one\ntwo\nthree\n', command: 'make it' };

  test.each([
    ['is missing', undefined, 'docs/some.md is missing; run: make it'],
    [
      'has another line',
      'one\n2\nthree\n',
      'docs/some.md differs from what it is generated from, first in line 2; run: make it',
    ],
    [
      'has a line more',
      'one\ntwo\nthree\nfour\n',
      'docs/some.md differs from what it is generated from, first in line 4; run: make it',
    ],
    [
      'ends too early',
      'one\ntwo',
      'docs/some.md differs from what it is generated from, first in line 3; run: make it',
    ],
  ])('is reported with the command that generates it, if it %s', (_, committed, message) => {
    mkdirSync(join(directory, 'docs'));
    if (committed !== undefined) writeFileSync(join(directory, file.path), committed);
    expect(driftOf([file], directory)).toEqual([message]);
  });

  test('is written with its directory, and no other file is', () => {
    expect(writeFiles([file], directory)).toEqual(['docs/some.md']);
    expect(driftOf([file], directory)).toEqual([]);
    expect(writeFiles([file], directory)).toEqual([]);
  });
});

describe('schemas/VERDICTS.md', () => {
  const lines = contentOf('schemas/VERDICTS.md').split('\n');
  const names = lines.flatMap((line) => /^\| `(\w+)`/.exec(line)?.[1] ?? []);

  test('lists every reason in order of precedence, then the dead letters', () => {
    expect(names).toEqual([...REASONS, ...DEAD_LETTER_REASONS].map(({ name }) => name));
  });
});

describe('docs/configuration.md', () => {
  const text = contentOf('docs/configuration.md');

  test('has a line for every setting', () => {
    expect(text.split('\n').flatMap((line) => /^\| `(\w+)`/.exec(line)?.[1] ?? [])).toEqual(
      Object.keys(SETTINGS),
    );
  });

  test('has exactly the prefixes of refused unknown variables', () => {
    const refused = (prefix: string): boolean => {
      try {
        readConfig({ [`${prefix}OTHER`]: 'x' }, []);
        return false;
      } catch (error) {
        return error instanceof ConfigError;
      }
    };
    const named = new Set(text.match(/(?<=`)[A-Z_]+_(?=`)/g));
    const beginnings = Object.keys(SETTINGS).map((name) => name.replace(/[A-Z]+$/, ''));
    expect(named.size).toBeGreaterThan(0);
    expect([...named].filter((prefix) => !refused(prefix))).toEqual([]);
    const covered = (beginning: string) => [...named].some((prefix) => beginning.startsWith(prefix));
    expect(beginnings.filter((beginning) => refused(beginning) && !covered(beginning))).toEqual([]);
  });

  test.each([
    ['a list', "readConfig(process.env, ['LOG_LEVEL']);", ['LOG_LEVEL']],
    [
      'a group',
      "readConfig(process.env, ['SCHEMA_REGISTRY']);",
      ['URL', 'USERNAME', 'PASSWORD', 'TOKEN'].map((name) => `SCHEMA_REGISTRY_${name}`),
    ],
    [
      'a list of settings.ts',
      'readConfig(process.env, LIST_SETTINGS);',
      [...settingsOf('KAFKA'), 'KAFKA_GROUP_ID', 'DEAD_LETTER_TOPIC'],
    ],
    ['two lists', "readConfig(process.env, ['A']); readConfig(process.env, ['B']);", ['A', 'B']],
  ])('finds the settings that a command reads as %s', (_, source, names) => {
    writeFileSync(join(directory, 'some.ts'), source);
    writeFileSync(join(directory, 'other.ts'), 'export const nothing = readConfig({}, names);');
    expect(settingsByFile(directory)).toEqual(new Map([['some', new Set(names)]]));
  });

  test('is not generated if the settings of a command cannot be read', () => {
    writeFileSync(join(directory, 'some.ts'), 'readConfig(process.env, namesOf(options));');
    expect(() => settingsByFile(directory)).toThrow('src/commands/some.ts: write the settings');
  });

  test('has each command with the settings that its source reads', () => {
    const rows = text.split('\n').filter((line) => /^\| `\w+`/.test(line));
    const readers = new Set(
      rows.flatMap(
        (row) =>
          row
            .split(' | ')
            .at(-1)
            ?.match(/[a-z][a-z -]+/g) ?? [],
      ),
    );
    const names = COMMANDS.filter(({ settings }) => settings.length > 0).map(({ name }) => name);
    expect([...readers].sort()).toEqual(names.sort());

    const byFile = settingsByFile(join(ROOT, 'src', 'commands'));
    expect(byFile.size).toBeGreaterThan(5);
    for (const [file, read] of byFile) {
      const run = COMMANDS.filter((command) => command.run.toString().includes(`/${file}.js`));
      const told = run.flatMap(({ settings }) => settings.flatMap(settingsOf));
      expect([file, [...new Set<string>(told)].sort()]).toEqual([file, [...read].sort()]);
    }
  });
});

describe('docs/metrics.md', () => {
  const lines = contentOf('docs/metrics.md').split('\n');

  test('has type, labels, meaning and action of every metric', () => {
    const rows = lines.filter((line) => line.startsWith('| `promo_intake_') && line.split('|').length > 4);
    expect(rows).toHaveLength(makeMetrics().actions.size);
    for (const row of rows)
      expect(row).toMatch(
        /^\| `promo_intake_\w+` \| (counter|gauge|histogram) \| [^|]+ \| [0-9A-Z][^|]+\. \| [A-Z0-9a-z][^|]+\. \|$/,
      );
  });

  test('has the values of every label of a metric, and of no other label', () => {
    const used = makeMetrics()
      .registry.getMetricsAsArray()
      .filter(({ name }) => name.startsWith(OWN_PREFIX))
      .flatMap((metric) => {
        const names: unknown = Reflect.get(metric, 'labelNames');
        return Array.isArray(names) ? names.map(String) : [];
      });
    expect(new Set(used)).toEqual(new Set(Object.keys(LABELS)));
    for (const label of Object.keys(LABELS))
      expect(lines.filter((line) => line.startsWith(`| \`${label}\` |`))).toHaveLength(1);
  });
});

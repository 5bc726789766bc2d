import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { driftOf, type GeneratedFile, generatedFiles, writeFiles } from '../../dev/generate/files';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { COMMANDS } from '../../src/cli';
import { ANALYST_COMMANDS } from '../../src/commands/analysts/commands';
import { DIAGNOSIS_COMMANDS } from '../../src/commands/diagnosis/commands';
import { INTAKE_COMMANDS } from '../../src/commands/intake/commands';
import { OPERATOR_COMMANDS } from '../../src/commands/operators/commands';
import { PROMOTION_COMMANDS } from '../../src/commands/promotions/commands';
import { RECORD_COMMANDS } from '../../src/commands/records/commands';
import { STORE_COMMANDS } from '../../src/commands/store/commands';
import { WALLET_COMMANDS } from '../../src/commands/wallet/commands';
import { ConfigError, readConfig, SETTINGS, settingsOf } from '../../src/config/config';
import { DEAD_LETTER_REASONS, REASONS } from '../../src/domain/verdict/reasons';
import { LABELS, OWN_PREFIX } from '../../src/telemetry/metric-makers';
import { makeMetrics } from '../../src/telemetry/metrics';
import { settingsByFile } from '../support/settings-read';

const files = generatedFiles(ROOT);
const contentOf = (path: string): string => files.find((file) => file.path === path)?.content ?? '';

/** The commands of each folder of src/commands, in the order of the help. */
const TABLES = {
  store: STORE_COMMANDS,
  intake: INTAKE_COMMANDS,
  diagnosis: DIAGNOSIS_COMMANDS,
  records: RECORD_COMMANDS,
  operators: OPERATOR_COMMANDS,
  promotions: PROMOTION_COMMANDS,
  analysts: ANALYST_COMMANDS,
  wallet: WALLET_COMMANDS,
};

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
    expect(() => settingsByFile(directory)).toThrow('some.ts: write the settings');
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

    const rooms = Object.entries(TABLES).flatMap(([room, commands]) =>
      [...settingsByFile(join(ROOT, 'src', 'commands', room))].map(
        ([file, read]) => [`${room}/${file}`, read, commands] as const,
      ),
    );
    expect(rooms.length).toBeGreaterThan(5);
    for (const [path, read, commands] of rooms) {
      const file = basename(path);
      const run = commands.filter((command) => command.run.toString().includes(`/${file}.js`));
      const told = run.flatMap(({ settings }) => settings.flatMap(settingsOf));
      expect([path, [...new Set<string>(told)].sort()]).toEqual([path, [...read].sort()]);
    }
  });

  test('has the tables of all rooms of commands', () => {
    expect(Object.values(TABLES).flat()).toEqual(COMMANDS);
    const readers = readdirSync(join(ROOT, 'src', 'commands')).filter(
      (room) => settingsByFile(join(ROOT, 'src', 'commands', room)).size > 0,
    );
    expect(readers.filter((room) => !(room in TABLES))).toEqual([]);
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

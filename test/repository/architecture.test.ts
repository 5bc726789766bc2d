import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';
import { findProblems, LAYERS, MAX_LINES, PACKAGES, RULES, type Rule } from '../support/architecture';

function readSources(): Map<string, string> {
  const entries = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true });
  return new Map(
    entries
      .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
      .map((path) => [relative(ROOT, path).split(sep).join('/'), readFileSync(path, 'utf8')]),
  );
}

/** Files by path; `index`, `money` and the like are there for others to import. */
const given = (files: Record<string, string>): Map<string, string> => new Map(Object.entries(files));
const messagesOf = (files: ReadonlyMap<string, string>, rule: Rule): string[] =>
  findProblems(files)
    .filter((problem) => problem.rule === rule)
    .map(({ message }) => message);
const isRule = (name: string): name is Rule => name in RULES;

describe('src', () => {
  const sources = readSources();
  const problems = findProblems(sources);

  test.each(Object.entries(RULES))('%s: %s', (rule) => {
    expect(problems.filter((problem) => problem.rule === rule).map(({ message }) => message)).toEqual([]);
  });

  /** Their files are statements alone: test/README.md. */
  const WITHOUT_UNIT_TESTS = ['rollups'];
  test('each room has a folder of unit tests, and each folder a room', () => {
    const foldersOf = (path: string) =>
      readdirSync(join(ROOT, path), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name);
    const rooms = foldersOf('src').filter((name) => !WITHOUT_UNIT_TESTS.includes(name));
    expect(foldersOf('test/unit').sort()).toEqual([...rooms, 'dev'].sort());
  });

  test('every layer has files, and every file a layer', () => {
    for (const { files } of Object.values(LAYERS)) {
      expect([files, [...sources.keys()].some((path) => files.test(path))]).toEqual([files, true]);
    }
    const layers = Object.values(LAYERS);
    expect([...sources.keys()].filter((path) => !layers.some(({ files }) => files.test(path)))).toEqual([]);
  });

  test('the packages with a home are those that package.json names', () => {
    const manifest: unknown = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const dependencies = isObject(manifest) && isObject(manifest.dependencies) ? manifest.dependencies : {};
    expect(Object.keys(dependencies).sort()).toEqual(Object.keys(PACKAGES).sort());
  });
});

describe('files that keep the rules', () => {
  test('have no problems', () => {
    const files = given({
      'src/lib/clock.ts':
        'export const now = () => performance.now();\nexport type Batch = number;\nexport function both(a: 1): 1;\nexport function both(a: 2): 2;\nexport function both(a: 1 | 2) { return a; }',
      'src/stream/batch.ts': "export { both, now, type Batch } from '../lib/clock';",
      'src/config/config.ts':
        'export function readConfig(env: Record<string, string | undefined>) { return env; }',
      'src/domain/event/money.ts': "import { hash } from 'node:crypto';\nexport const leap = new Date(0);",
      'src/domain/event/event.ts':
        "import { leap } from './money';\n// any process.env in a comment, or in\nexport const s = 'console.log(any)';",
      'src/ledger/decide-batch.ts':
        "import { Pool } from 'pg';\nimport type { Logger } from 'pino';\nimport { s } from '../domain/event/event';",
      'src/commands/intake/worker.ts':
        "import { readConfig } from '../../config/config';\nconsole.log(readConfig(process.env));\nprocess.on('SIGTERM', () => process.exit(1));",
      'src/commands/intake/commands.ts': "void import('./worker.js');",
      'src/cli.ts': "void import('./commands/intake/commands.js');\nprocess.exitCode = 1;",
    });
    expect(findProblems(files)).toEqual([]);
  });
});

const DOMAIN = { 'src/domain/event/money.ts': 'export const a = 1;' };
const STORE = { 'src/ledger/decide-batch.ts': 'export const b = 1;' };

/** A way to break a rule, with its message. */
const BREACHES: readonly (readonly [Rule, string, Record<string, string>, string])[] = [
  [
    'direction',
    'the domain imports the ledger',
    { ...STORE, 'src/domain/verdict/decide.ts': "\nimport { b } from '../../ledger/decide-batch';" },
    'src/domain/verdict/decide.ts:2: domain must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'only a type is imported',
    { ...STORE, 'src/domain/verdict/decide.ts': "import type { B } from '../../ledger/decide-batch';" },
    'src/domain/verdict/decide.ts:1: domain must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'a type is imported in passing',
    { ...STORE, 'src/domain/verdict/decide.ts': "export type B = import('../../ledger/decide-batch').B;" },
    'src/domain/verdict/decide.ts:1: domain must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'the ledger is exported again',
    { ...STORE, 'src/domain/verdict/decide.ts': "export * from '../../ledger/decide-batch';" },
    'src/domain/verdict/decide.ts:1: domain must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'the ledger is loaded later',
    { ...STORE, 'src/domain/verdict/decide.ts': "void import('../../ledger/decide-batch.js');" },
    'src/domain/verdict/decide.ts:1: domain must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'the ledger is required',
    { ...STORE, 'src/domain/verdict/decide.ts': "import b = require('../../ledger/decide-batch');" },
    'src/domain/verdict/decide.ts:1: domain must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'a leaf imports anything',
    { ...DOMAIN, 'src/config/config.ts': "import { a } from '../domain/event/money';" },
    'src/config/config.ts:1: config must not import domain (src/domain/event/money.ts)',
  ],
  [
    'direction',
    'a transport goes past the intake',
    { ...STORE, 'src/webhook/server.ts': "import { b } from '../ledger/decide-batch';" },
    'src/webhook/server.ts:1: webhook must not import ledger (src/ledger/decide-batch.ts)',
  ],
  [
    'direction',
    'the intake imports a transport',
    { 'src/stream/stream.ts': '', 'src/intake/intake.ts': "import '../stream/stream';" },
    'src/intake/intake.ts:1: intake must not import stream (src/stream/stream.ts)',
  ],
  [
    'direction',
    'a test or a tool is imported',
    { 'src/cli.ts': "import '../dev/servers';" },
    'src/cli.ts:1: imports ../dev/servers, which is not in src',
  ],
  [
    'direction',
    'a file belongs to no layer',
    { ...DOMAIN, 'src/utils.ts': "import './domain/event/money';" },
    'src/utils.ts:1: the file belongs to no layer',
  ],
  [
    'names',
    'two files have a type and a function of one name',
    {
      'src/lib/batch.ts': 'export interface Batch { readonly size: number }',
      'src/stream/batch.ts':
        "export { type Batch as Other } from '../lib/batch';\nexport function Batch() {}",
    },
    'src/lib/batch.ts, src/stream/batch.ts: each exports its own Batch',
  ],
  [
    'names',
    'two files have a constant of one name',
    { 'src/lib/one.ts': 'export const LIMIT = 1;', 'src/lib/two.ts': 'export const A = 2, LIMIT = 3;' },
    'src/lib/one.ts, src/lib/two.ts: each exports its own LIMIT',
  ],
  [
    'speech',
    'a function is named by a verb of speech',
    { 'src/lib/one.ts': 'export const lastHeardAt = 1;' },
    'src/lib/one.ts:1: lastHeardAt',
  ],
  [
    'cycles',
    'two files import each other',
    { 'src/domain/a.ts': "import './b';", 'src/domain/b.ts': "import './a';" },
    'src/domain/a.ts -> src/domain/b.ts -> src/domain/a.ts',
  ],
  [
    'cycles',
    'three files do, by types only, behind another file',
    {
      'src/domain/a.ts': "import type { B } from './b';",
      'src/domain/b.ts': "import type { C } from './c';",
      'src/domain/c.ts': "import type { D } from './d';",
      'src/domain/d.ts': "import type { B } from './b';",
    },
    'src/domain/b.ts -> src/domain/c.ts -> src/domain/d.ts -> src/domain/b.ts',
  ],
  [
    'cycles',
    'a file imports itself',
    { 'src/domain/a.ts': "import './a';" },
    'src/domain/a.ts -> src/domain/a.ts',
  ],
  [
    'packages',
    'the consumer reaches into kafkajs',
    { 'src/kafka/consumer/membership.ts': "import x from 'kafkajs/src/consumer/runner';" },
    'src/kafka/consumer/membership.ts:1: kafkajs/src/consumer/runner is imported outside kafka/client/patches',
  ],
  [
    'packages',
    'kafkajs is imported by the stream',
    { 'src/stream/stream.ts': "import type { Kafka } from 'kafkajs';" },
    'src/stream/stream.ts:1: the package kafkajs is imported outside its home',
  ],
  [
    'packages',
    'the registry client is imported by kafka.ts',
    { 'src/kafka/client/client.ts': "import { SchemaRegistry } from '@kafkajs/confluent-schema-registry';" },
    'src/kafka/client/client.ts:1: the package @kafkajs/confluent-schema-registry is imported outside its home',
  ],
  [
    'packages',
    'pg is imported by a command',
    { 'src/commands/intake/worker.ts': "import { Pool } from 'pg';" },
    'src/commands/intake/worker.ts:1: the package pg is imported outside its home',
  ],
  [
    'packages',
    'a part of knex is imported by the intake',
    { 'src/intake/intake.ts': "import x from 'knex/lib/util';" },
    'src/intake/intake.ts:1: the package knex is imported outside its home',
  ],
  [
    'packages',
    'the domain logs',
    { 'src/domain/verdict/decide.ts': "import pino from 'pino';" },
    'src/domain/verdict/decide.ts:1: the package pino is imported outside its home',
  ],
  [
    'packages',
    'a package has no home',
    { 'src/domain/verdict/decide.ts': "import _ from 'lodash';" },
    'src/domain/verdict/decide.ts:1: the package lodash has no home',
  ],
  ...(['fs', 'node:fs/promises', 'net', 'node:http', 'node:timers'] as const).map(
    (name) =>
      [
        'purity',
        `the domain imports ${name}`,
        { 'src/domain/verdict/decide.ts': `import x from '${name}';` },
        `src/domain/verdict/decide.ts:1: the domain must not import ${name.startsWith('node:') ? name : `node:${name}`}`,
      ] as const,
  ),
  ...(
    [
      ['Date.now()', 'Date.now'],
      ['new Date()', 'new Date()'],
      ['Math.random()', 'Math.random'],
      ['performance.now()', 'performance'],
      ['fetch(url)', 'fetch'],
      ["Math['random']()", 'Math.random'],
    ] as const
  ).map(
    ([expression, used]) =>
      [
        'purity',
        `the domain uses ${expression}`,
        { 'src/domain/verdict/decide.ts': `export const x = () => ${expression};` },
        `src/domain/verdict/decide.ts:1: the domain must not use ${used}`,
      ] as const,
  ),
  ...(
    [
      ['src/postgres/connection.ts', 'export const url = process.env.DATABASE_URL;'],
      ['src/postgres/connection.ts', "export const url = process['env'].DATABASE_URL;"],
      ['src/postgres/connection.ts', 'const { env } = process;'],
      ['src/config/config.ts', 'export const level = process.env.LOG_LEVEL;'],
      ['src/cli.ts', 'if (process.env.DEBUG) run();'],
      ['src/commands/intake/worker.ts', 'const debug = process.env.DEBUG;'],
      ['src/commands/intake/worker.ts', 'readConfig({ ...process.env, LOG_LEVEL: level }, names);'],
      ['src/commands/intake/worker.ts', 'other(process.env, names);'],
    ] as const
  ).map(
    ([path, text]) =>
      [
        'environment',
        `${path} says ${text}`,
        { [path]: `\n${text}` },
        `${path}:2: process.env is for readConfig(process.env, ...) in a command`,
      ] as const,
  ),
  ...(['src/contract/limits.ts', 'src/wallet/answer.ts', 'src/wallet/policy.ts'] as const).map(
    (path) =>
      [
        'purity',
        `${path} reads the clock`,
        { [path]: 'export const x = () => Date.now();' },
        `${path}:1: the ${path.split('/')[1]} must not use Date.now`,
      ] as const,
  ),
  [
    'direction',
    'the contract imports the domain',
    { ...DOMAIN, 'src/contract/limits.ts': "import { a } from '../domain/event/money';" },
    'src/contract/limits.ts:1: contract must not import domain (src/domain/event/money.ts)',
  ],
  [
    'environment',
    'process is imported',
    { 'src/telemetry/telemetry.ts': "import { env } from 'node:process';" },
    'src/telemetry/telemetry.ts:1: imports node:process; process is a global',
  ],
  [
    'console',
    'the ledger prints',
    { 'src/ledger/decide-batch.ts': "\n\nconsole.log('done');" },
    'src/ledger/decide-batch.ts:3: prints; return it, or log it',
  ],
  [
    'length',
    'a file grows',
    { 'src/domain/verdict/judge.ts': '// line\n'.repeat(MAX_LINES + 1) },
    `src/domain/verdict/judge.ts: has ${MAX_LINES + 1} lines`,
  ],
  ...(['let x: any;', 'let x: any[];', 'let x = y as any;', 'function f<T = any>() {}'] as const).map(
    (text) =>
      [
        'text',
        `a file says ${text}`,
        { 'src/lib/clock.ts': `// é\n${text}` },
        'src/lib/clock.ts:2: holds any',
      ] as const,
  ),
  // In two parts, so that this file itself holds none of them.
  ...(['ts-ignore', 'ts-expect-error', 'ts-nocheck'] as const).map(
    (word) =>
      [
        'text',
        `a comment says ${word}`,
        { 'src/lib/clock.ts': `\n// @${word} because` },
        `src/lib/clock.ts:2: holds @${word}`,
      ] as const,
  ),
  ...(['TO' + 'DO', 'FIX' + 'ME'] as const).map(
    (word) =>
      [
        'text',
        `a comment says ${word}`,
        { 'src/lib/clock.ts': `/* ${word}: later */` },
        `src/lib/clock.ts:1: holds ${word}`,
      ] as const,
  ),
];

describe('a breach is found', () => {
  test.each(BREACHES)('%s: where %s', (rule, _, files, message) => {
    expect(messagesOf(given(files), rule)).toContain(message);
  });

  test.each(Object.keys(RULES).filter(isRule))('there is an example of each rule: %s', (rule) => {
    expect(BREACHES.some(([broken]) => broken === rule)).toBe(true);
  });
});

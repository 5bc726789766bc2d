/**
 * Reads the sources and reports violations of the architecture: forbidden imports, packages outside of their
 * home, and contents that no file may hold. The tables below are the rules.
 * test/repository/architecture.test.ts checks src/ by them, and checks the rules by bad examples.
 */
import { isBuiltin } from 'node:module';
import { posix } from 'node:path';
import {
  argumentOf,
  isEnvironment,
  memberOf,
  nameOf,
  parseSource,
  type Source,
  type SyntaxNode,
  textOf,
} from '../../dev/syntax';
import { isObject } from '../../src/lib/json';

/**
 * The allowed imports. A room may import itself and the listed rooms. Imports of types count too: a type is
 * knowledge. No room imports upwards.
 *
 *     cli.ts -> commands -> stream, webhook -> publishing -> intake -> ledger -> postgres -> lib
 *                                                                 \-> domain -> lib
 *     commands -> wallet -> contract -> lib, webhook -> contract, and wallet -> postgres, reference-file
 *     commands -> sandbox, wallet-check -> wallet
 *
 *     commands -> promotion-store -> promotion-file -> promotions, reference-file
 *
 * Rollups and pseudonyms use fold, and all three reach the store by postgres.
 *
 * Of the rooms of commands, all may import shared, and those with services may import services. Retention and
 * verification of the store include promotions.
 *
 * Some rules are stricter than the direction. Transports reach the store through the intake alone, and the
 * webhook knows no Kafka. The readers of Kafka's protocol use no other room than lib, and postgres knows no
 * table.
 */
export const LAYERS = {
  lib: { files: /^src\/lib\//, mayImport: [] },
  config: { files: /^src\/config\//, mayImport: [] },
  contract: { files: /^src\/contract\//, mayImport: ['lib'] },
  wallet: { files: /^src\/wallet\//, mayImport: ['lib', 'contract', 'reference-file', 'postgres'] },
  domain: { files: /^src\/domain\//, mayImport: ['lib'] },
  check: { files: /^src\/check\//, mayImport: ['lib', 'domain'] },
  'check-page': { files: /^src\/check-page\//, mayImport: ['lib', 'domain', 'check', 'reference-file'] },
  telemetry: { files: /^src\/telemetry\//, mayImport: ['lib'] },
  'reference-file': { files: /^src\/reference-file\//, mayImport: ['lib', 'domain'] },
  promotions: { files: /^src\/promotions\//, mayImport: ['lib', 'domain'] },
  'promotion-file': {
    files: /^src\/promotion-file\//,
    mayImport: ['lib', 'domain', 'promotions', 'reference-file'],
  },
  'promotion-store': {
    files: /^src\/promotion-store\//,
    mayImport: ['lib', 'domain', 'promotions', 'promotion-file', 'fold', 'postgres'],
  },
  'wallet-check': { files: /^src\/wallet-check\//, mayImport: ['lib', 'contract', 'wallet'] },
  postgres: { files: /^src\/postgres\//, mayImport: ['lib'] },
  ledger: { files: /^src\/ledger\//, mayImport: ['lib', 'domain', 'reference-file', 'postgres'] },
  fold: { files: /^src\/fold\//, mayImport: ['lib', 'postgres'] },
  rollups: { files: /^src\/rollups\//, mayImport: ['lib', 'fold', 'postgres'] },
  pseudonyms: { files: /^src\/pseudonyms\//, mayImport: ['fold', 'postgres'] },
  intake: { files: /^src\/intake\//, mayImport: ['lib', 'domain', 'ledger', 'postgres', 'telemetry'] },
  reconciliation: {
    files: /^src\/reconciliation\//,
    mayImport: ['lib', 'domain', 'ledger', 'postgres'],
  },
  'kafka/protocol': { files: /^src\/kafka\/protocol\//, mayImport: ['lib'] },
  'kafka/port': {
    files: /^src\/kafka\/(port|commit-notes)\.ts$/,
    mayImport: ['lib', 'kafka/protocol'],
  },
  'kafka/client/patches': {
    files: /^src\/kafka\/client\/patches\//,
    mayImport: ['lib', 'kafka/protocol', 'kafka/port'],
  },
  'kafka/client': {
    files: /^src\/kafka\/client\/[^/]+$/,
    mayImport: ['lib', 'kafka/protocol', 'kafka/port', 'kafka/client/patches'],
  },
  'kafka/producer': {
    files: /^src\/kafka\/(producer|partition-batches|send-to-topics)\.ts$/,
    mayImport: ['lib', 'kafka/protocol', 'kafka/client', 'kafka/client/patches'],
  },
  'kafka/admin': { files: /^src\/kafka\/admin\//, mayImport: ['lib', 'kafka/port', 'kafka/client'] },
  'kafka/consumer': {
    files: /^src\/kafka\/consumer\//,
    mayImport: ['lib', 'kafka/protocol', 'kafka/port', 'kafka/client', 'kafka/client/patches', 'kafka/admin'],
  },
  'schema-registry': { files: /^src\/schema-registry\//, mayImport: ['lib', 'domain'] },
  publishing: {
    files: /^src\/publishing\//,
    mayImport: ['lib', 'domain', 'intake', 'kafka/protocol', 'kafka/producer'],
  },
  'promotion-publishing': {
    files: /^src\/promotion-publishing\//,
    mayImport: ['lib', 'promotions', 'postgres', 'publishing', 'kafka/protocol', 'kafka/producer'],
  },
  stream: {
    files: /^src\/stream\//,
    mayImport: [
      'lib',
      'intake',
      'kafka/protocol',
      'kafka/port',
      'publishing',
      'schema-registry',
      'telemetry',
    ],
  },
  webhook: {
    files: /^src\/webhook\//,
    mayImport: ['lib', 'contract', 'domain', 'intake', 'publishing', 'reconciliation', 'telemetry'],
  },
  sandbox: {
    files: /^src\/sandbox\//,
    mayImport: [...['lib', 'contract', 'domain', 'wallet'], ...['reference-file', 'postgres', 'telemetry']],
  },
  try: {
    files: /^src\/try\//,
    mayImport: ['lib', 'contract', 'domain', 'intake', 'publishing', 'postgres'],
  },
  markup: { files: /^src\/markup\//, mayImport: ['lib'] },
  console: {
    files: /^src\/console\//,
    mayImport: ['lib', 'domain', 'promotions', 'markup', 'postgres', 'telemetry'],
  },
  report: {
    files: /^src\/report\//,
    mayImport: ['lib', 'domain', 'promotions', 'markup', 'postgres'],
  },
  cli: { files: /^src\/cli\//, mayImport: ['lib', 'config', 'domain'] },
  'commands/shared': {
    files: /^src\/commands\/shared\//,
    mayImport: ['lib', 'config', 'reference-file', 'telemetry', 'cli', 'postgres', 'ledger'],
  },
  'commands/services': {
    files: /^src\/commands\/services\//,
    mayImport: [
      ...['lib', 'config', 'domain', 'telemetry', 'cli', 'postgres', 'ledger', 'fold'],
      ...['intake', 'publishing', 'stream', 'kafka/client', 'kafka/producer'],
      ...['commands/shared'],
    ],
  },
  'commands/intake': {
    files: /^src\/commands\/intake\//,
    mayImport: [
      ...['lib', 'config', 'domain', 'check', 'reference-file', 'telemetry', 'cli'],
      ...['postgres', 'ledger', 'intake', 'publishing', 'reconciliation', 'stream'],
      ...['webhook', 'try', 'schema-registry', 'kafka/port', 'kafka/client', 'kafka/admin'],
      ...['kafka/consumer'],
      ...['commands/shared', 'commands/services'],
    ],
  },
  'commands/records': {
    files: /^src\/commands\/records\//,
    mayImport: [
      ...['lib', 'config', 'domain', 'check', 'telemetry', 'cli', 'postgres', 'ledger'],
      ...['intake', 'publishing', 'stream', 'schema-registry', 'kafka/protocol'],
      ...['kafka/client', 'kafka/producer', 'kafka/admin', 'kafka/consumer'],
      ...['commands/shared', 'commands/services'],
    ],
  },
  'commands/operators': {
    files: /^src\/commands\/operators\//,
    mayImport: [
      ...['lib', 'config', 'domain', 'check', 'reference-file', 'telemetry', 'cli'],
      ...['postgres', 'ledger', 'publishing', 'reconciliation', 'webhook', 'console'],
      ...['commands/shared', 'commands/services'],
    ],
  },
  'commands/promotions': {
    files: /^src\/commands\/promotions\//,
    mayImport: [
      ...['lib', 'config', 'domain', 'check', 'reference-file', 'telemetry', 'cli'],
      ...['postgres', 'ledger', 'fold', 'promotions', 'promotion-file', 'promotion-store'],
      ...['publishing', 'promotion-publishing', 'kafka/client', 'kafka/producer'],
      ...['commands/shared', 'commands/services'],
    ],
  },
  'commands/analysts': {
    files: /^src\/commands\/analysts\//,
    mayImport: [
      ...['lib', 'config', 'cli', 'fold', 'rollups', 'pseudonyms', 'report'],
      ...['commands/shared', 'commands/services'],
    ],
  },
  'commands/wallet': {
    files: /^src\/commands\/wallet\//,
    mayImport: [
      ...['lib', 'config', 'contract', 'reference-file', 'telemetry', 'cli', 'postgres'],
      ...['ledger', 'wallet', 'wallet-check', 'sandbox', 'webhook'],
      ...['commands/shared', 'commands/services'],
    ],
  },
  'commands/store': {
    files: /^src\/commands\/store\//,
    mayImport: [
      ...['lib', 'config', 'contract', 'domain', 'reference-file', 'telemetry', 'cli'],
      ...['postgres', 'ledger', 'promotions', 'promotion-store'],
      ...['commands/shared', 'commands/promotions'],
    ],
  },
  'commands/diagnosis': {
    files: /^src\/commands\/diagnosis\//,
    mayImport: [
      ...['lib', 'config', 'telemetry', 'cli', 'ledger', 'kafka/port', 'kafka/client'],
      ...['kafka/admin', 'kafka/consumer'],
      ...['commands/shared', 'commands/services', 'commands/promotions'],
    ],
  },
  main: {
    files: /^src\/cli\.ts$/,
    mayImport: [
      'cli',
      ...['commands/store', 'commands/intake', 'commands/diagnosis', 'commands/records'],
      ...['commands/operators', 'commands/promotions', 'commands/analysts', 'commands/wallet'],
    ],
  },
} as const satisfies Record<string, { files: RegExp; mayImport: readonly string[] }>;
type Layer = keyof typeof LAYERS;

/**
 * The files that may import each package. A package that is not listed has no home yet: choose one, and list
 * it.
 */
export const PACKAGES: Readonly<Record<string, RegExp>> = {
  '@kafkajs/confluent-schema-registry': /^src\/schema-registry\//,
  '@opentelemetry/api': /^src\/intake\/tracing\.ts$/,
  '@opentelemetry/core': /^src\/intake\/tracing\.ts$/,
  '@opentelemetry/exporter-trace-otlp-proto': /^src\/intake\/tracing\.ts$/,
  '@opentelemetry/resources': /^src\/intake\/tracing\.ts$/,
  '@opentelemetry/sdk-trace-base': /^src\/intake\/tracing\.ts$/,
  ajv: /^src\/(domain\/(verdict\/judge|event\/(compile-schema|fault-words|schema-check))|sandbox\/requests)\.ts$/,
  'd3-scale': /^src\/markup\/chart\.ts$/,
  'd3-shape': /^src\/markup\/chart\.ts$/,
  kafkajs: /^src\/kafka\/(client|consumer|admin)\/|^src\/kafka\/(producer|partition-batches)\.ts$/,
  knex: /^src\/ledger\//,
  pg: /^src\/(postgres|ledger)\//,
  // Rooms that log receive a Logger; only telemetry makes one.
  pino: /^src\/(telemetry|intake|ledger|postgres|kafka|schema-registry|publishing|promotion-publishing|stream|fold|wallet|webhook|sandbox|try|console|commands)\//,
  'prom-client': /^src\/telemetry\//,
  snappyjs: /^src\/kafka\/protocol\/(compression|snappyjs\.d)\.ts$/,
  yaml: /^src\/reference-file\/yaml\.ts$/,
};

/** Code without I/O and clock: the domain, promotions, the contract, and the decisions about wallets. */
const PURE_FILES =
  /^src\/(domain|contract|check|wallet-check\/scenarios)\/|^src\/wallet\/(answer|policy|profile(-\w+)?|template|request|call-change)\.ts$|^src\/wallet-check\/(endpoints|judge|json-changes|needs|report|scenario|written-call)\.ts$/;

function isPure(path: string): boolean {
  return PURE_FILES.test(path);
}

/** The words for a pure file in a message. */
function pureSubject(path: string): string {
  return `the ${path.split('/')[1]}`;
}

/** Node modules that pure code may use: computation, no I/O. */
const PURE_BUILTINS: readonly string[] = ['node:buffer', 'node:crypto'];

/** Globals that reach out of a computation, or return different values each time. */
const IMPURE_GLOBALS: ReadonlySet<string> = new Set([
  ...['process', 'console', 'fetch', 'performance', 'WebSocket'],
  ...['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask'],
]);

export const MAX_LINES = 400;

const FORBIDDEN_TEXT = /@ts-(ignore|expect-error|nocheck)|\b(TODO|FIXME|XXX|HACK)\b/g;

/** A reader of such a name does not see who sends, answers, asks or logs. */
const SPEECH = new Set('ask,asks,asked,hear,heard,said,say,says,tell,tells,told'.split(','));
/** A field of schemas/examples/index.json. */
const PUBLISHED_FIELD = 'says';

export const RULES = {
  direction: 'no file imports against the direction',
  cycles: 'no files import one another in a circle',
  packages: 'every package is imported in its home only',
  purity: 'pure code does no I/O, reads no clock and uses no random numbers',
  environment: 'only a command uses process.env, and passes it whole to readConfig or describeConfig',
  console: 'only cli.ts and the commands print',
  names: 'no two files export different things by one name',
  speech: 'no name holds a verb of speech',
  length: `no file has more than ${MAX_LINES} lines`,
  text: 'no any, no suppressed compiler errors, no open tasks',
} as const;
export type Rule = keyof typeof RULES;

export interface Problem {
  readonly rule: Rule;
  /** `file:line: the problem`. */
  readonly message: string;
}

interface Import {
  readonly specifier: string;
  readonly line: number;
}

interface Module {
  readonly path: string;
  readonly text: string;
  readonly source: Source;
  readonly imports: readonly Import[];
}

/** @param files text by path, such as src/domain/event/money.ts */
export function findProblems(files: ReadonlyMap<string, string>): Problem[] {
  const modules = [...files].map(([path, text]): Module => {
    const source = parseSource(text);
    return { path, text, source, imports: importsOf(source) };
  });
  return [
    ...modules.flatMap((module) => [
      ...checkImports(module, files),
      ...checkPurity(module),
      ...checkEnvironment(module),
      ...checkConsole(module),
      ...checkSpeech(module),
      ...checkLength(module),
      ...checkText(module),
    ]),
    ...findCycles(modules, files),
    ...findSharedNames(modules),
  ];
}

// --- imports

/** Static, dynamic and re-exporting imports, `import x = require()`, `typeof import()` and `require()`. */
function importsOf({ nodes, lineOf }: Source): Import[] {
  return nodes.flatMap((node) => {
    const specifier = textOf(importedBy(node));
    return specifier === undefined ? [] : [{ specifier, line: lineOf(node) }];
  });
}

function importedBy(node: SyntaxNode): unknown {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return node.source;
    case 'TsExternalModuleReference':
      return node.expression;
    case 'TsImportType':
      return node.argument;
    case 'CallExpression': {
      const isDynamic = isObject(node.callee) && node.callee.type === 'Import';
      return isDynamic || nameOf(node.callee) === 'require' ? argumentOf(node, 0) : undefined;
    }
    default:
      return undefined;
  }
}

function checkImports(module: Module, files: ReadonlyMap<string, string>): Problem[] {
  return module.imports.flatMap(({ specifier, line }) => {
    const at = `${module.path}:${line}`;
    if (specifier.startsWith('.')) return checkOwn(at, module.path, specifier, files);
    if (isBuiltin(specifier)) return checkBuiltin(at, module.path, specifier);
    return checkPackage(at, module.path, specifier);
  });
}

function checkOwn(
  at: string,
  path: string,
  specifier: string,
  files: ReadonlyMap<string, string>,
): Problem[] {
  const target = resolveOwn(path, specifier, files);
  if (target === undefined)
    return [{ rule: 'direction', message: `${at}: imports ${specifier}, which is not in src` }];
  const from = layerOf(path);
  const to = layerOf(target);
  if (from === undefined) return [{ rule: 'direction', message: `${at}: the file belongs to no layer` }];
  if (to === undefined)
    return [{ rule: 'direction', message: `${at}: imports ${target}, which belongs to no layer` }];
  const allowed: readonly string[] = LAYERS[from].mayImport;
  if (from === to || allowed.includes(to)) return [];
  return [{ rule: 'direction', message: `${at}: ${from} must not import ${to} (${target})` }];
}

function layerOf(path: string): Layer | undefined {
  const isLayer = (name: string): name is Layer => name in LAYERS;
  return Object.keys(LAYERS)
    .filter(isLayer)
    .find((name) => LAYERS[name].files.test(path));
}

function resolveOwn(path: string, specifier: string, files: ReadonlyMap<string, string>): string | undefined {
  const target = posix.join(posix.dirname(path), specifier).replace(/\.js$/, '');
  return [`${target}.ts`, `${target}.d.ts`, `${target}/index.ts`].find((candidate) => files.has(candidate));
}

function checkBuiltin(at: string, path: string, specifier: string): Problem[] {
  const name = specifier.startsWith('node:') ? specifier : `node:${specifier}`;
  if (name === 'node:process')
    return [{ rule: 'environment', message: `${at}: imports ${name}; process is a global` }];
  if (!isPure(path) || PURE_BUILTINS.includes(name)) return [];
  return [{ rule: 'purity', message: `${at}: ${pureSubject(path)} must not import ${name}` }];
}

function checkPackage(at: string, path: string, specifier: string): Problem[] {
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  if (specifier.startsWith('kafkajs/src') && layerOf(path) !== 'kafka/client/patches')
    return [{ rule: 'packages', message: `${at}: ${specifier} is imported outside kafka/client/patches` }];
  const home = PACKAGES[name];
  if (home === undefined) return [{ rule: 'packages', message: `${at}: the package ${name} has no home` }];
  if (home.test(path)) return [];
  return [{ rule: 'packages', message: `${at}: the package ${name} is imported outside its home` }];
}

// --- cycles

/** Each cycle once, as the path that closes it. */
function findCycles(modules: readonly Module[], files: ReadonlyMap<string, string>): Problem[] {
  const targets = new Map(
    modules.map(({ path, imports }) => [
      path,
      new Set(
        imports
          .filter(({ specifier }) => specifier.startsWith('.'))
          .flatMap(({ specifier }) => resolveOwn(path, specifier, files) ?? []),
      ),
    ]),
  );
  const problems: Problem[] = [];
  const finished = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      problems.push({ rule: 'cycles', message: [...trail.slice(start), path].join(' -> ') });
      return;
    }
    if (finished.has(path)) return;
    for (const target of targets.get(path) ?? []) visit(target, [...trail, path]);
    finished.add(path);
  };
  for (const path of targets.keys()) visit(path, []);
  return problems;
}

// --- exported names

/** Each name that several files declare and export. A re-export declares nothing. */
function findSharedNames(modules: readonly Module[]): Problem[] {
  const filesByName = new Map<string, string[]>();
  for (const { path, source } of modules) {
    // A declaration of a foreign module has the names of that module.
    if (path.endsWith('.d.ts')) continue;
    for (const name of new Set(source.nodes.flatMap(exportedBy)))
      filesByName.set(name, [...(filesByName.get(name) ?? []), path]);
  }
  return [...filesByName]
    .filter(([, paths]) => paths.length > 1)
    .map(([name, paths]) => ({
      rule: 'names',
      message: `${paths.join(', ')}: each exports its own ${name}`,
    }));
}

/** The names that a node declares and exports: functions, classes, types, and constants. */
function exportedBy(node: SyntaxNode): string[] {
  if (node.type !== 'ExportDeclaration' || !isObject(node.declaration)) return [];
  const { identifier, id, declarations } = node.declaration;
  const variables: unknown[] = Array.isArray(declarations) ? declarations : [];
  const ids = [identifier, id, ...variables.map((each) => (isObject(each) ? each.id : undefined))];
  return ids.flatMap((each) => nameOf(each) ?? []);
}

// --- what a file uses

function checkPurity({ path, source }: Module): Problem[] {
  if (!isPure(path)) return [];
  return source.nodes.flatMap((node): Problem[] => {
    const used = impureUse(node);
    if (used === undefined) return [];
    return [
      {
        rule: 'purity',
        message: `${path}:${source.lineOf(node)}: ${pureSubject(path)} must not use ${used}`,
      },
    ];
  });
}

function impureUse(node: SyntaxNode): string | undefined {
  const name = nameOf(node);
  if (name !== undefined && IMPURE_GLOBALS.has(name)) return name;
  const member = memberOf(node);
  const object = nameOf(member?.object);
  if (object === 'Date' && member?.property === 'now') return 'Date.now';
  if (object === 'Math' && member?.property === 'random') return 'Math.random';
  if (object === 'crypto' && /^random|^getRandomValues$/.test(member?.property ?? '')) return 'random bytes';
  const makesNow =
    node.type === 'NewExpression' && nameOf(node.callee) === 'Date' && argumentOf(node, 0) === undefined;
  return makesNow ? 'new Date()' : undefined;
}

function checkEnvironment({ path, source: { nodes, lineOf } }: Module): Problem[] {
  const handedOver = new Set(
    nodes
      .filter(
        (node) =>
          node.type === 'CallExpression' &&
          ['readConfig', 'describeConfig'].includes(nameOf(node.callee) ?? ''),
      )
      .map((call) => argumentOf(call, 0)),
  );
  const isCommand = layerOf(path)?.startsWith('commands/');
  const whole = nodes.filter((node) => nameOf(node) === 'process');
  const membered = new Set(nodes.map((node) => memberOf(node)?.object));
  return [
    ...nodes.filter((node) => isEnvironment(node) && !(isCommand && handedOver.has(node))),
    // Code that destructures `process` or passes it on could read its env unseen by this check.
    ...whole.filter((node) => !membered.has(node)),
  ].map((node) => ({
    rule: 'environment',
    message: `${path}:${lineOf(node)}: process.env is for readConfig(process.env, ...) in a command`,
  }));
}

function checkConsole({ path, source: { nodes, lineOf } }: Module): Problem[] {
  const layer = layerOf(path);
  if (layer === 'main' || layer === 'cli' || layer?.startsWith('commands/')) return [];
  return nodes
    .filter((node) => nameOf(node) === 'console')
    .map((node) => ({ rule: 'console', message: `${path}:${lineOf(node)}: prints; return it, or log it` }));
}

function checkLength({ path, text }: Module): Problem[] {
  const lines = text.replace(/\n$/, '').split('\n').length;
  return lines <= MAX_LINES ? [] : [{ rule: 'length', message: `${path}: has ${lines} lines` }];
}

function checkSpeech({ path, source: { nodes, lineOf } }: Module): Problem[] {
  return nodes.flatMap((node): Problem[] => {
    const name = nameOf(node);
    const words = name?.split(/(?=[A-Z])|_/) ?? [];
    if (
      name === undefined ||
      name === PUBLISHED_FIELD ||
      !words.some((word) => SPEECH.has(word.toLowerCase()))
    )
      return [];
    return [{ rule: 'speech', message: `${path}:${lineOf(node)}: ${name}` }];
  });
}

function checkText({ path, text, source: { nodes, lineOf } }: Module): Problem[] {
  const anys = nodes
    .filter((node) => node.type === 'TsKeywordType' && node.kind === 'any')
    .map((node): Problem => ({ rule: 'text', message: `${path}:${lineOf(node)}: holds any` }));
  const words = [...text.matchAll(FORBIDDEN_TEXT)].map((match): Problem => {
    const line = text.slice(0, match.index).split('\n').length;
    return { rule: 'text', message: `${path}:${line}: holds ${match[0]}` };
  });
  return [...anys, ...words];
}

#!/usr/bin/env node
/**
 * The commands: what each is called, takes, reads and tells. Exit codes: 0 done, 1 failed or not clean, 2 wrong usage or configuration.
 *
 * A command's code is loaded when it runs, so that --help answers at once.
 */
import { access, constants, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, SETTINGS, type SettingName } from './config';

const USAGE = 2;
const FAILED = 1;
const HELP_WIDTH = 100;
/** Whatever still holds the process after its command has ended, such as a client that tries to reconnect. */
const LINGER_MS = 2_000;

// --- the commands as data

interface Option {
  /** What stands for the value in the help; absent for an option without one. */
  readonly value?: string;
  readonly help: string;
  readonly required?: true;
  readonly choices?: readonly string[];
  /** The value names a file that is read. */
  readonly file?: true;
  /** The option that it makes no sense without. */
  readonly needs?: string;
}

/** What was asked for, checked against the command's options. */
export interface Given {
  /** The FILE; empty for a command that takes none. */
  readonly file: string;
  readonly options: ReadonlyMap<string, string>;
}

export interface Command {
  readonly name: string;
  /** What FILE may be; absent for a command that takes none. */
  readonly file?: 'file' | 'file or -';
  /** For the overview. */
  readonly summary: string;
  readonly purpose: string;
  readonly example: string;
  readonly options: Readonly<Record<string, Option>>;
  readonly settings: readonly SettingName[];
  readonly exits: Readonly<Record<0 | 1 | 2, string>>;
  /** @returns the exit code */
  readonly run: (given: Given) => Promise<number>;
}

const WRONG_USAGE = 'a wrong option, setting or FILE; nothing was started';
const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;

export const COMMANDS: readonly Command[] = [
  {
    name: 'migrate',
    summary: 'bring the database to this version',
    purpose:
      'Runs the migrations that the database lacks, each in a transaction of its own, and names them. Run it before the workers of a new version start. Two that run at once wait for one another.',
    example: 'DATABASE_URL=postgres://postgres@localhost/promo promo-intake migrate',
    options: {},
    settings: ['DATABASE_URL'],
    exits: { 0: 'the database is up to date', 1: 'a migration failed', 2: WRONG_USAGE },
    run: async () => (await import('./commands/migrate.js')).migrate(),
  },
  {
    name: 'worker',
    summary: 'read the topics and decide, until SIGTERM',
    purpose:
      'Joins the consumer group, reads the topics of the connections, and decides a verdict for each event. Run as many as there are partitions to share. SIGTERM or Ctrl-C ends it after what is under way was decided; a second one ends it at once.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake worker',
    options: { drain: { help: 'end once the group has decided all that was in the topics at the start' } },
    settings: [
      'KAFKA_BROKERS',
      'KAFKA_GROUP_ID',
      'KAFKA_TOPICS',
      'DATABASE_URL',
      'SCHEMA_REGISTRY_URL',
      'VERDICT_TOPIC',
      'DEAD_LETTER_TOPIC',
      'HTTP_PORT',
      'LOG_LEVEL',
      'BATCH_EVENTS',
      'PARTITIONS_AT_ONCE',
      'SHUTDOWN_SECONDS',
    ],
    exits: {
      0: 'told to stop, or drained',
      1: 'it cannot go on: no database or brokers, or migrations are missing',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./commands/worker.js')).worker({ drain: options.has('drain') }),
  },
  {
    name: 'webhook',
    summary: 'take in events over HTTP (joins later)',
    purpose: 'Will take in events over HTTP. This version has no webhook yet: Kafka is the way in.',
    example: 'promo-intake publish events.ndjson --topic promo.event.v1',
    options: {},
    settings: [],
    exits: { 0: 'never yet', 1: 'never yet', 2: 'always: it is not part of this version' },
    run: async () => {
      console.error(
        'The webhook joins in a later version. Until then, events come by Kafka: promo-intake publish --help',
      );
      return USAGE;
    },
  },
  {
    name: 'reference apply',
    file: 'file',
    summary: 'put operators, connections, brands and rules into force',
    purpose:
      'Applies a reference data file (YAML or JSON) whole, and prints what changes. What the file no longer holds stops being used; decided events stay as they are. The same file again changes nothing. All faults of a file are told at once, with their lines.',
    example: 'promo-intake reference apply schemas/examples/reference.yaml --dry-run',
    options: {
      'dry-run': { help: 'only print what would change' },
      'allow-removal': { help: 'allow operators and connections to be removed' },
    },
    settings: ['DATABASE_URL'],
    exits: {
      0: 'in force, or nothing changes',
      1: 'the file has faults, or would remove something; nothing was applied',
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) =>
      (await import('./commands/reference.js')).applyReferenceFile({
        file,
        dryRun: options.has('dry-run'),
        allowRemoval: options.has('allow-removal'),
      }),
  },
  {
    name: 'publish',
    file: 'file or -',
    summary: 'send events to Kafka, one a line',
    purpose:
      'Sends each line of FILE as one record, byte for byte as it is and without checking it; blank lines are left out. The key is player_ref, else event_id, so that the events of one player stay in order. A line that the broker refuses is reported, and the others go on; when Kafka is away for long, it stops and says at which line to go on. All in-sync replicas have what is counted as sent. A line whose acknowledgement got lost may be sent twice, which the intake answers as a duplicate.',
    example: 'promo-intake publish events.ndjson --topic promo.event.v1 --connection acme-stream',
    options: {
      topic: { value: 'TOPIC', required: true, help: 'the topic, which has to exist' },
      connection: {
        value: 'ID',
        help: 'name the connection in the header connection-id, for a topic that several share',
      },
      compression: {
        value: 'CODEC',
        choices: COMPRESSIONS,
        help: `${COMPRESSIONS.join(', ')} (default none; zstd needs Node 22.15)`,
      },
    },
    settings: ['KAFKA_BROKERS'],
    exits: {
      0: 'every line is sent',
      1: 'some are not: they were refused, Kafka is away, there is no such topic, or it was interrupted',
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) => {
      const { publish } = await import('./commands/publish.js');
      const compression = COMPRESSIONS.find((name) => name === options.get('compression')) ?? 'none';
      const [topic = '', connection] = [options.get('topic'), options.get('connection')];
      return publish({ file, topic, connection, compression }, interruption());
    },
  },
  {
    name: 'check',
    file: 'file or -',
    summary: 'tell the verdict of each event of a file, as far as no stored state is needed',
    purpose:
      'Judges each event of FILE by the rules that the worker judges by, and tells every fault with its line, field and remedy. FILE holds an event a line, or is one JSON document: an event, an array of events, or {"events": [...]}. Two events of FILE with one event_id are told, too. What needs stored state is left out: ids that are decided already, and rounds that are refunded. Needs neither Kafka nor a database.',
    example:
      'promo-intake check events.ndjson --reference schemas/examples/reference.yaml --connection acme-stream',
    options: {
      reference: {
        value: 'FILE',
        file: true,
        needs: 'connection',
        help: 'apply the brand and game rules of this reference data',
      },
      connection: {
        value: 'ID',
        needs: 'reference',
        help: 'the connection of the reference data that the events come by',
      },
      json: {
        help: 'print an object an event: line, event_id, verdict, reason, faults; of a duplicate also first_line and content_differs',
      },
    },
    settings: [],
    exits: {
      0: 'every event is accepted',
      1: 'some are rejected, skipped or duplicates, or it was interrupted',
      2: 'a wrong option or FILE, or reference data with faults',
    },
    run: async ({ file, options }) => {
      const { check } = await import('./commands/check.js');
      const [reference, connection] = [options.get('reference'), options.get('connection')];
      const rules =
        reference === undefined || connection === undefined ? undefined : { reference, connection };
      return check({ file, json: options.has('json'), rules }, interruption());
    },
  },
];

/** Aborted by the first Ctrl-C or SIGTERM. The second ends the process at once. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(FAILED);
      controller.abort();
    });
  }
  return controller.signal;
}

// --- what was asked for

export type Request =
  | { readonly type: 'help'; readonly command: Command | undefined }
  | { readonly type: 'version' }
  | { readonly type: 'run'; readonly command: Command; readonly given: Given }
  | { readonly type: 'wrong'; readonly problem: string; readonly command: Command | undefined };

/** Reads the arguments. Looks at nothing else: whether a FILE exists is not known here. */
export function readArguments(argv: readonly string[]): Request {
  const [first] = argv;
  if (first === '--help' || first === '-h') return { type: 'help', command: undefined };
  if (first === '--version') return { type: 'version' };
  const command = COMMANDS.find(({ name }) => name === argv.slice(0, wordsOf(name)).join(' '));
  if (command === undefined) return withoutCommand(argv);
  return readCommand(command, argv.slice(wordsOf(command.name)));
}

function wordsOf(name: string): number {
  return name.split(' ').length;
}

function withoutCommand([first, second]: readonly string[]): Request {
  const wrong = (problem: string): Request => ({ type: 'wrong', problem, command: undefined });
  const group = COMMANDS.find(({ name }) => first !== undefined && name.startsWith(`${first} `));
  if (group !== undefined) {
    if (second === '--help' || second === '-h') return { type: 'help', command: group };
    return { type: 'wrong', problem: `the command is "${group.name}"`, command: group };
  }
  if (first === undefined) return wrong('a command is missing');
  if (first.startsWith('-')) return wrong(`the command comes first, then its options: ${first}`);
  return wrong(
    `there is no command "${first}"${didYouMean(
      first,
      COMMANDS.map(({ name }) => name),
    )}`,
  );
}

function readCommand(command: Command, args: readonly string[]): Request {
  const names = Object.keys(command.options);
  const { tokens, positionals } = parseArgs({
    args: [...args],
    strict: false, // its own complaints are long, and differ from Node to Node
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      names.map((name) => [name, { type: command.options[name]?.value ? 'string' : 'boolean' } as const]),
    ),
  });
  const options = new Map<string, string>();
  const problems: string[] = [];
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    if (token.name === 'help' || token.name === 'h') return { type: 'help', command };
    const problem = optionProblem(command, token);
    if (problem === undefined) options.set(token.name, token.value ?? '');
    else problems.push(problem);
  }
  // After a slip in an option, what seems to be missing or too many is mostly a consequence of it.
  if (problems.length === 0)
    problems.push(...missingOptions(command, options), ...fileProblems(command, positionals));
  if (problems.length > 0) return { type: 'wrong', problem: problems.join('\n'), command };
  return { type: 'run', command, given: { file: positionals[0] ?? '', options } };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function optionProblem(command: Command, { name, rawName, value, inlineValue }: OptionToken) {
  const option = command.options[name];
  if (option === undefined || rawName !== `--${name}`) return unknownOption(command, rawName);
  if (option.value === undefined)
    return value === undefined ? undefined : `${rawName} takes no value, but was given "${value}"`;
  const isLeftOut = value === undefined || value === '' || (!inlineValue && /^-./.test(value));
  if (isLeftOut) return `${rawName} needs a value: ${rawName} ${option.value}`;
  if (option.choices?.includes(value) === false)
    return `${rawName} ${value} is not one of ${option.choices.join(', ')}${didYouMean(value, option.choices)}`;
  return undefined;
}

function unknownOption(command: Command, rawName: string): string {
  const known = Object.keys(command.options).map((name) => `--${name}`);
  const owners = COMMANDS.filter(({ options }) => rawName.slice(2) in options);
  const hint =
    owners.length > 0
      ? `; it is an option of ${owners.map(({ name }) => name).join(' and ')}`
      : didYouMean(rawName, [...known, '--help']);
  return `${command.name} has no option ${rawName}${hint}`;
}

function missingOptions(command: Command, given: ReadonlyMap<string, string>): string[] {
  return Object.entries(command.options).flatMap(([name, { value, required, needs }]) => {
    if (required && !given.has(name)) return [`${command.name} needs --${name} ${value}`];
    if (needs !== undefined && given.has(name) && !given.has(needs))
      return [`--${name} needs --${needs} as well`];
    return [];
  });
}

function fileProblems({ name, file }: Command, [given, ...more]: readonly string[]): string[] {
  if (file === undefined)
    return given === undefined ? [] : [`${name} takes no FILE, but was given "${given}"`];
  if (given === undefined || given === '') return [`${name} needs a FILE`];
  if (given === '-' && file === 'file') return [`${name} does not read standard input; name a FILE`];
  return more.length === 0 ? [] : [`${name} takes one FILE, but was given "${more.join('" and "')}" as well`];
}

/** What is most like the word, if anything is so like it that a slip explains the difference. */
function didYouMean(word: string, known: readonly string[]): string {
  const [best] = known
    .map((name) => ({ name, distance: editDistance(word, name) }))
    .filter(({ name, distance }) => distance <= Math.max(2, name.length / 3) || name.startsWith(word))
    .sort((a, b) => a.distance - b.distance);
  return best === undefined ? '' : `; did you mean ${best.name}?`;
}

/** Levenshtein's distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] ?? 0) + (b[j] === letter ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

// --- help

function synopsis({ name, file, options }: Command): string {
  const parts = Object.entries(options).map(([option, { value, required }]) => {
    const text = `--${option}${value === undefined ? '' : ` ${value}`}`;
    return required ? text : `[${text}]`;
  });
  return ['promo-intake', name, ...(file === undefined ? [] : ['FILE']), ...parts].join(' ');
}

export function overview(): string {
  const commands = COMMANDS.map((command): [string, string] => [
    `${command.name}${command.file === undefined ? '' : ' FILE'}`,
    command.summary,
  ]);
  return `promo-intake takes in promotion events and decides a verdict for each, once.

Commands
${table(commands)}

promo-intake COMMAND --help tells more of each; --version tells the version.
Settings come from the environment; each command names those that it reads.

A first run
  export KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo
  promo-intake migrate
  promo-intake reference apply schemas/examples/reference.yaml
  promo-intake worker
`;
}

export function helpOf(command: Command): string {
  const sections: [title: string, text: string][] = [
    ['Usage', `  ${synopsis(command)}`],
    ['Example', `  ${command.example}`],
  ];
  const options = Object.entries(command.options).map(([name, { value, help }]): [string, string] => [
    `--${name}${value === undefined ? '' : ` ${value}`}`,
    help,
  ]);
  if (command.file === 'file or -') options.unshift(['FILE', '- is standard input']);
  if (options.length > 0) sections.push(['Options', table(options)]);
  if (command.settings.length > 0)
    sections.push(['Settings, from the environment', table(command.settings.map(describeSetting))]);
  sections.push(['Exit codes', table(Object.entries(command.exits))]);
  const heading = `promo-intake ${command.name}: ${command.summary}\n\n${wrap(command.purpose, 0)}`;
  return `${heading}\n\n${sections.map(([title, text]) => `${title}\n${text}`).join('\n\n')}\n`;
}

function describeSetting(name: SettingName): [string, string] {
  const { describe, ...rest } = SETTINGS[name];
  if ('required' in rest) return [name, `${describe} Required.`];
  return [name, 'fallback' in rest ? `${describe} Default: ${rest.fallback}.` : describe];
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length)) + 4;
  return rows.map(([name, text]) => `  ${name.padEnd(width - 2)}${wrap(text, width)}`).join('\n');
}

/** Breaks lines at spaces; those that follow are indented. */
function wrap(text: string, indent: number): string {
  const line = new RegExp(`(.{1,${HELP_WIDTH - indent}})(?: +|$)`, 'gm');
  return text
    .replace(line, `$1\n${' '.repeat(indent)}`)
    .replace(/ +$/gm, '')
    .trimEnd();
}

// --- errors that a person can mend

interface Trouble {
  readonly message: string;
  readonly code: number;
}

/** What to tell of an error: a sentence with its remedy where a person can mend it, else the stack of a defect. */
export function explain(error: unknown): Trouble {
  if (error instanceof ConfigError) return { message: error.message, code: USAGE };
  const chain = causesOf(error);
  const message = fileTrouble(chain) ?? kafkaTrouble(chain) ?? postgresTrouble(chain) ?? defect(error);
  // Only a defect can hold an address as it was written, but none may ever show a password.
  return { message: message.replace(/(:\/\/[^\s:@/]*):[^\s@]*@/g, '$1:***@'), code: FAILED };
}

interface Cause {
  readonly name: string;
  readonly message: string;
  /** An errno's name or a SQLSTATE. */
  readonly code: string;
  readonly path: string;
}

/** The error and what it came from: causes, and the attempts behind an AggregateError. */
function causesOf(error: unknown, depth = 0): Cause[] {
  if (typeof error !== 'object' || error === null || depth > 8) return [];
  const text = (name: string): string => {
    const value: unknown = Reflect.get(error, name);
    return typeof value === 'string' ? value : '';
  };
  const attempts: unknown = Reflect.get(error, 'errors');
  return [
    { name: text('name'), message: text('message'), code: text('code'), path: text('path') },
    ...causesOf(Reflect.get(error, 'cause'), depth + 1),
    ...(Array.isArray(attempts) ? attempts.flatMap((attempt) => causesOf(attempt, depth + 1)) : []),
  ];
}

const UNREACHABLE = /ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE/;

function fileTrouble(chain: readonly Cause[]): string | undefined {
  const found = chain.find(({ code, path }) => path !== '' && /^E[A-Z]+$/.test(code));
  return found && `${found.path} cannot be read (${found.code})`;
}

function kafkaTrouble(chain: readonly Cause[]): string | undefined {
  const root = chain.filter(({ name }) => name.startsWith('KafkaJS')).at(-1);
  if (root === undefined) return undefined;
  if (/Connection|NoBroker|Timeout/.test(root.name))
    return `Kafka cannot be reached: ${root.message}. Check that the brokers of KAFKA_BROKERS run and can be reached from here.`;
  return `Kafka answered: ${root.message}`;
}

const SQL_STATES: Readonly<Record<string, string>> = {
  '28P01': 'Correct the user or the password in DATABASE_URL.',
  '28000': 'Correct the user in DATABASE_URL, or let it in (pg_hba.conf).',
  '3D000': 'Create the database, or correct DATABASE_URL.',
  '3F000': 'The database lacks migrations. Run: promo-intake migrate',
  '42P01': 'The database lacks migrations. Run: promo-intake migrate',
  '42703': 'The database lacks migrations. Run: promo-intake migrate',
  '42501': 'Give the user of DATABASE_URL the permission.',
  '25006': 'The server only reads, as a replica does: DATABASE_URL has to name the primary.',
  '53300': 'Close connections, or raise max_connections.',
  '57P03': 'Try again in a moment.',
};

function postgresTrouble(chain: readonly Cause[]): string | undefined {
  const answer = chain.find(({ code }) => /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code));
  if (answer !== undefined) {
    const remedy = SQL_STATES[answer.code] ?? `SQLSTATE ${answer.code}.`;
    return `Postgres answered: ${answer.message}. ${remedy}`;
  }
  const broken = chain.find(({ code }) => UNREACHABLE.test(code)) ?? chain.find(isConnectionTimeout);
  if (broken !== undefined)
    return `Postgres cannot be reached: ${broken.message}. Check that the server of DATABASE_URL runs and can be reached from here.`;
  return undefined;
}

function isConnectionTimeout({ message }: Cause): boolean {
  return /timeout expired|timeout exceeded|connection timeout|Connection terminated/i.test(message);
}

function defect(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

// --- running

async function main(argv: readonly string[]): Promise<number> {
  const request = readArguments(argv);
  switch (request.type) {
    case 'help':
      process.stdout.write(request.command === undefined ? overview() : helpOf(request.command));
      return 0;
    case 'version':
      console.log(await version());
      return 0;
    case 'wrong':
      return usage(request.problem, request.command);
    case 'run': {
      const { command, given } = request;
      const problems = await Promise.all(filesOf(command, given).map(unreadable));
      const problem = problems.filter((each) => each !== undefined).join('\n');
      if (problem === '') return command.run(given);
      console.error(problem);
      return USAGE;
    }
  }
}

function usage(problem: string, command: Command | undefined): number {
  const more = command === undefined ? 'promo-intake --help' : `promo-intake ${command.name} --help`;
  const line = command === undefined ? '' : `Usage: ${synopsis(command)}\n`;
  console.error(`${problem}\n${line}${more} tells more.`);
  return USAGE;
}

async function version(): Promise<string> {
  const json: unknown = JSON.parse(await readFile(join(__dirname, '..', 'package.json'), 'utf8'));
  const found = typeof json === 'object' && json !== null && 'version' in json ? json.version : undefined;
  return `promo-intake ${typeof found === 'string' ? found : 'of unknown version'}`;
}

function filesOf(command: Command, { file, options }: Given): string[] {
  const named = Object.entries(command.options).flatMap(([name, option]) =>
    option.file ? (options.get(name) ?? []) : [],
  );
  return [...(command.file === undefined || file === '-' ? [] : [file]), ...named];
}

/** Why the file cannot be read, if so: told before anything starts. */
async function unreadable(file: string): Promise<string | undefined> {
  try {
    if ((await stat(file)).isDirectory()) return `${file} is a directory; name a file`;
    await access(file, constants.R_OK);
    return undefined;
  } catch (error) {
    const code = causesOf(error)[0]?.code;
    if (code === 'ENOENT') return `there is no file ${file}`;
    return code === 'EACCES' ? `there is no permission to read ${file}` : `${file} cannot be read (${code})`;
  }
}

if (require.main === module) {
  // The Kafka client sets a timer to the past at each start, which Node 24 warns of (kafkajs#1751).
  process.removeAllListeners('warning').on('warning', ({ name, message }) => {
    if (name !== 'TimeoutNegativeWarning') console.error(`${name}: ${message}`);
  });
  // Whoever reads our output may end before us, as head does.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(FAILED);
    throw error;
  });
  main(process.argv.slice(2))
    .catch((error: unknown) => {
      const { message, code } = explain(error);
      console.error(message);
      return code;
    })
    .then((code) => {
      process.exitCode = code;
      setTimeout(() => process.exit(), LINGER_MS).unref();
    });
}

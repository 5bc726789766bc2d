#!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --min-semi-space-size=16 --max-semi-space-size=16 --no-parallel-scavenge --heap-growing-percent=150 --no-allocation-site-pretenuring
/**
 * The table of commands, and the program's entry point.
 *
 * The code of a command is loaded only when it runs, so that --help answers at once.
 */
import { access, constants, stat } from 'node:fs/promises';
import { DONE, USAGE } from './cli/exit-codes';
import { causesOf, explain } from './cli/explain-error';
import { interruption } from './cli/interruption';
import { nodeProblem } from './cli/node-version';
import { codeWithOutput, guardOutput, outputFlushed } from './cli/output';
import { packageVersion } from './cli/package-version';
import { escapeControlsOf } from './cli/terminal';
import { type Command, type Given, helpOf, overview, readArguments, synopsis } from './cli/usage';
import { ATTRIBUTE } from './commands/attribute-commands';
import { CHECK } from './commands/check-commands';
import { COMPLETIONS } from './commands/completions-command';
import { CONSOLE } from './commands/console-command';
import { FEEDBACK } from './commands/feedback-commands';
import { OPERATIONS } from './commands/operations';
import { PROMOTIONS } from './commands/promotions-command';
import { PSEUDONYMS } from './commands/pseudonyms-command';
import { RECONCILE } from './commands/reconcile-command';
import { REPORT } from './commands/report-command';
import { ROLLUPS } from './commands/rollups-command';
import { SANDBOX } from './commands/sandbox-command';
import {
  PUBLISH_SETTINGS,
  PUBLISHING_WEBHOOK_SETTINGS,
  SEND_SETTINGS,
  WORKER_SETTINGS,
} from './commands/settings';
import { TRY } from './commands/try-command';
import { WALLET_CHECK } from './commands/wallet-check-command';
import { SPEC } from './domain/event/event';

/**
 * Time for open handles to close after the command has ended: a reconnecting client would keep the process
 * alive.
 */
const LINGER_MS = 2_000;

// --- the commands as data

const WRONG_USAGE = 'a wrong option, setting or FILE; nothing was started';
const ROLES = [
  ...(['writer', 'reader', 'janitor', 'maintainer'] as const),
  ...(['reconciler', 'attributor', 'wallet', 'rollups', 'pseudonyms', 'promotions', 'completions'] as const),
] as const;
const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;

export const COMMANDS: readonly Command[] = [
  {
    name: 'migrate',
    summary: 'bring the database to this version',
    purpose:
      'Runs the migrations that the database lacks, each in its own transaction, and prints their names.',
    example: 'DATABASE_URL=postgres://postgres@localhost/promo promo-intake migrate',
    options: {},
    settings: ['DATABASE'],
    exits: { 0: 'the database is up to date', 1: 'a migration failed', 2: WRONG_USAGE },
    run: async () => (await import('./commands/migrate.js')).migrate(),
  },
  {
    name: 'grant',
    summary: 'grant roles of the database their permissions, and revoke all others',
    purpose:
      'Grants each named role its permissions in the schemas promo, promo_reader and promo_store, and revokes all others that it has there.',
    example: 'promo-intake grant --writer promo_app --reader analysts --janitor promo_cron',
    options: {
      writer: {
        value: 'NAME',
        help: 'the role of workers: decides events, cannot change or delete decided ones',
      },
      reader: {
        value: 'NAME',
        help: 'the role of analysts and of verify: reads the views of promo_reader, and those of promo without players',
      },
      janitor: { value: 'NAME', help: 'the role of retention apply: drops expired months' },
      maintainer: { value: 'NAME', help: 'the role of erase-player and dead-letters replay' },
      reconciler: { value: 'NAME', help: 'the role of reconcile: looks event ids up, and reads no event' },
      attributor: {
        value: 'NAME',
        help: 'the role of attribute: sets the players that rounds are credited to',
      },
      wallet: { value: 'NAME', help: "the role of the service that calls operators' wallets" },
      rollups: {
        value: 'NAME',
        help: 'the role of rollups: reads history without players, and writes rollups',
      },
      pseudonyms: {
        value: 'NAME',
        help: 'the role of pseudonyms: reads the names of players, and writes pseudonyms',
      },
      promotions: {
        value: 'NAME',
        help: 'the role of promotions: reads history, and writes progress and completions',
      },
      completions: {
        value: 'NAME',
        help: 'the role of completions: reads the ledger of completions, and writes how far it is published',
      },
      print: { help: 'only print the SQL, for another person to run; needs no database' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'granted, or printed',
      1: 'a role does not exist or cannot be limited; nothing was granted',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => {
      const { grant } = await import('./commands/grant.js');
      const grantees = ROLES.flatMap((role) => {
        const name = options.get(role);
        return name === undefined ? [] : [{ role, name }];
      });
      return grant(grantees, options.has('print'));
    },
  },
  {
    name: 'worker',
    summary: 'read the topics and decide their events, until SIGTERM',
    purpose:
      'Joins the consumer group, reads the topics of the connections, and decides a verdict for each event.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake worker',
    options: {
      drain: { help: 'end once the group has decided all records that the topics held at the start' },
    },
    settings: WORKER_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time; with --drain: everything is decided',
      1: 'it cannot start or continue, it did not close within SHUTDOWN_SECONDS, or a signal ended --drain early',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./commands/worker.js')).worker({ drain: options.has('drain') }),
  },
  {
    name: 'verify',
    summary: 'check that the stored data is sound, and agrees with Kafka',
    purpose:
      'Checks the invariants of the database, compares decided with committed offsets and with Kafka, and prints each damage.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake verify',
    options: {},
    settings: ['KAFKA', 'KAFKA_GROUP_ID', 'DATABASE'],
    exits: { 0: 'sound', 1: 'damage was found, or a check could not run', 2: WRONG_USAGE },
    run: async () => (await import('./commands/verify.js')).verify(),
  },
  {
    name: 'health',
    summary: 'ask a running worker whether it is alive',
    purpose: 'Requests /livez of the worker on this machine, or another URL, and prints the answer.',
    example: 'promo-intake health --url http://promo-intake-worker:8080/readyz',
    options: {
      url: { value: 'URL', help: 'the address to request (default http://127.0.0.1:HTTP_PORT/livez)' },
    },
    settings: ['HTTP_PORT'],
    exits: { 0: 'the answer is 200', 1: 'there is another answer, or none within 4 s', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./commands/health.js')).health(options.get('url')),
  },
  {
    name: 'webhook',
    summary: 'receive events over HTTP and decide them, until SIGTERM',
    purpose:
      'Serves POST /v1/events/CONNECTION_ID, decides the events of each signed request, and answers with their verdicts.',
    example:
      'WEBHOOK_SECRETS_FILE=secrets.json DATABASE_URL=postgres://postgres@localhost/promo promo-intake webhook',
    options: {},
    settings: PUBLISHING_WEBHOOK_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async () => (await import('./commands/webhook.js')).webhook(),
  },
  {
    name: 'reference apply',
    file: 'file or -',
    summary: 'put operators, connections, brands and rules into force',
    purpose:
      'Applies a reference data file (YAML or JSON, plain or gzipped) as a whole, and prints the changes.',
    example: 'promo-intake reference apply schemas/examples/reference.yaml --dry-run',
    options: {
      'dry-run': { help: 'only print the changes' },
      'allow-removal': { help: 'allow operators and connections to be removed' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or there are no changes',
      1: 'the file has faults, or removes something; nothing was applied',
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) =>
      (await import('./commands/reference.js')).applyReferenceFile({
        file,
        dryRun: options.has('dry-run'),
        allowRemoval: options.has('allow-removal'),
      }),
  },
  ...OPERATIONS,
  ...ATTRIBUTE,
  ...SANDBOX,
  ...TRY,
  ...CONSOLE,
  ...FEEDBACK,
  {
    name: 'publish',
    file: 'file or -',
    summary: 'send events to Kafka, one per line',
    purpose:
      'Sends each line of FILE to a topic as one record, unchanged; its key is player_ref, or else event_id.',
    example: 'promo-intake publish events.ndjson --connection acme-stream',
    options: {
      topic: { value: 'TOPIC', help: `the topic, which must exist (default ${SPEC})` },
      connection: {
        value: 'ID',
        help: 'set the header connection-id, for a topic that several connections share',
      },
      compression: {
        value: 'CODEC',
        choices: COMPRESSIONS,
        help: `${COMPRESSIONS.join(', ')} (default none)`,
      },
      force: { help: 'also send lines that are no JSON objects; the exit code is still 1 then' },
    },
    settings: PUBLISH_SETTINGS,
    exits: {
      0: 'every line was sent, and is a JSON object',
      1: 'a line was refused or is no JSON object, Kafka is away, the topic does not exist, or it was interrupted',
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) => {
      const { publish } = await import('./commands/publish.js');
      const compression = COMPRESSIONS.find((name) => name === options.get('compression')) ?? 'none';
      const [topic = SPEC, connection] = [options.get('topic'), options.get('connection')];
      return publish({ file, topic, connection, compression, force: options.has('force') }, interruption());
    },
  },
  {
    name: 'send',
    file: 'file or -',
    summary: 'send events to a webhook, and print their verdicts',
    purpose:
      'Sends the events of FILE to a webhook, 500 per request, and prints the result of each event that is not simply accepted.',
    example:
      'WEBHOOK_SECRETS_FILE=secrets.json promo-intake send events.ndjson --url https://events.example.com --connection acme-hook',
    options: {
      url: { value: 'URL', required: true, help: 'the address of the webhook; /v1/events/ID is appended' },
      connection: {
        value: 'ID',
        required: true,
        help: 'the sending connection; WEBHOOK_SECRETS has its secret',
      },
      'dry-run': {
        help: 'rehearse: print the verdicts that the events would get, and store nothing; 500 events see one another',
      },
      json: { help: 'print one object per event: its line, and the answer of the webhook' },
    },
    settings: SEND_SETTINGS,
    exits: {
      0: 'every event is decided, and none is rejected; with --dry-run: none would be rejected',
      1: 'some events are rejected or were not sent, the webhook refused them, or it was interrupted',
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) => {
      const { send } = await import('./commands/send.js');
      const [url = '', connection = ''] = [options.get('url'), options.get('connection')];
      const isRehearsal = options.has('dry-run');
      return send({ file, url, connection, json: options.has('json'), isRehearsal }, interruption());
    },
  },
  ...RECONCILE,
  ...ROLLUPS,
  ...REPORT,
  ...PSEUDONYMS,
  ...COMPLETIONS,
  ...CHECK,
  ...PROMOTIONS,
  ...WALLET_CHECK,
];

// --- running

/** Runs the command, unless this Node.js is too old: then the modules of a command may not even load. */
async function run(argv: readonly string[]): Promise<number> {
  const problem = nodeProblem(process.versions.node);
  if (problem === undefined) return main(argv);
  console.error(problem);
  return USAGE;
}

async function main(argv: readonly string[]): Promise<number> {
  const request = readArguments(argv, COMMANDS);
  switch (request.type) {
    case 'help':
      process.stdout.write(request.command === undefined ? overview(COMMANDS) : helpOf(request.command));
      return DONE;
    case 'version':
      console.log(`promo-intake ${await packageVersion()}`);
      return DONE;
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
  console.error(`${problem}\n${line}${more} shows the options.`);
  return USAGE;
}

function filesOf(command: Command, { file, options }: Given): string[] {
  const named = Object.entries(command.options).flatMap(([name, option]) =>
    option.file ? (options.get(name) ?? []) : [],
  );
  return [...(command.file === undefined || file === '-' ? [] : [file]), ...named];
}

/** The reason why a file cannot be read, if there is one. It is reported before the command starts. */
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

/** Exit codes that shells report for a process that a signal ended. */
const SIGNALLED = { SIGINT: 130, SIGTERM: 143 } as const;

if (require.main === module) {
  // By default Node opens its inspector on SIGUSR1, and a process that may send signals could use it. The
  // image starts Node with --disable-sigusr1 as well.
  process.on('SIGUSR1', () => undefined);
  for (const stream of [process.stdout, process.stderr]) escapeControlsOf(stream);
  // The kernel delivers to process 1 of a container only signals with a handler. A command without one could
  // only be killed.
  if (process.pid === 1) {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        if (process.listenerCount(signal) === 0) process.exit(SIGNALLED[signal]);
      });
    }
  }
  process.removeAllListeners('warning').on('warning', ({ name, message }) => {
    console.error(`${name}: ${message}`);
  });
  guardOutput();
  run(process.argv.slice(2))
    .catch((error: unknown) => {
      const { message, code } = explain(error);
      console.error(message);
      return code;
    })
    .then(async (code) => {
      process.exitCode = codeWithOutput(code);
      await outputFlushed(process.exitCode);
      process.exitCode = codeWithOutput(code);
      setTimeout(() => process.exit(), LINGER_MS).unref();
    });
}

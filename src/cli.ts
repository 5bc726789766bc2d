#!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --min-semi-space-size=16 --max-semi-space-size=16 --no-parallel-scavenge --heap-growing-percent=150 --no-allocation-site-pretenuring
/**
 * The table of commands, and the program's entry point.
 *
 * The code of a command is loaded only when it runs, so that --help answers at once.
 */
import { access, constants, stat } from 'node:fs/promises';
import { DONE, FAILED, USAGE } from './cli/exit-codes';
import { causesOf, explain } from './cli/explain-error';
import { codeWithOutput, endStuckOutput, guardOutput, outputFlushed } from './cli/output';
import { packageVersion } from './cli/package-version';
import { guard } from './cli/terminal';
import { type Command, type Given, helpOf, overview, readArguments, synopsis } from './cli/usage';
import { OPERATIONS } from './commands/operations';
import {
  PUBLISH_SETTINGS,
  PUBLISHING_WEBHOOK_SETTINGS,
  SEND_SETTINGS,
  WORKER_SETTINGS,
} from './commands/settings';
import { SPEC } from './domain/event/event';

/**
 * Time for open handles to close after the command has ended: a reconnecting client would keep the process
 * alive.
 */
const LINGER_MS = 2_000;

// --- the commands as data

const WRONG_USAGE = 'a wrong option, setting or FILE; nothing was started';
const ROLES = ['writer', 'reader', 'janitor', 'maintainer'] as const;
const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;

export const COMMANDS: readonly Command[] = [
  {
    name: 'migrate',
    summary: 'bring the database to this version',
    purpose:
      'Runs the migrations that the database lacks, each in a transaction of its own, and names them. Run it before the workers of a new version start. Two that run at once wait for one another.',
    example: 'DATABASE_URL=postgres://postgres@localhost/promo promo-intake migrate',
    options: {},
    settings: ['DATABASE'],
    exits: { 0: 'the database is up to date', 1: 'a migration failed', 2: WRONG_USAGE },
    run: async () => (await import('./commands/migrate.js')).migrate(),
  },
  {
    name: 'grant',
    summary: 'give roles of the database what they need, and nothing more',
    purpose:
      'Roles exist already, under names of your choosing. Run it as the owner of the tables, after each migrate: whatever else the named roles were granted in the schemas promo and promo_store is taken from them. The writer is for the worker, the reader for analysts (no player_ref) and verify, the janitor for retention, the maintainer for erasures and dead letters.',
    example: 'promo-intake grant --writer promo_app --reader analysts --janitor promo_cron',
    options: {
      writer: { value: 'NAME', help: 'decides events; cannot change or delete what is decided' },
      reader: { value: 'NAME', help: 'reads the views of promo, without player_ref' },
      janitor: { value: 'NAME', help: 'drops months that are over' },
      maintainer: { value: 'NAME', help: 'erases players, replays dead letters' },
      print: { help: 'only print the SQL, for somebody else to run; needs no database' },
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
    summary: 'read the topics and decide, until SIGTERM',
    purpose:
      'Joins the consumer group, reads the topics of the connections, and decides a verdict for each event. Run as many as there are partitions to share. SIGTERM or Ctrl-C ends it after what is under way was decided; a second one ends it at once.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake worker',
    options: { drain: { help: 'end once the group has decided all that was in the topics at the start' } },
    settings: WORKER_SETTINGS,
    exits: {
      0: 'told to stop and closed in time; with --drain: everything is decided',
      1: 'it cannot start or go on (no database or brokers, missing migrations), it did not close within SHUTDOWN_SECONDS, or with --drain it was told to stop before everything was decided',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./commands/worker.js')).worker({ drain: options.has('drain') }),
  },
  {
    name: 'verify',
    summary: 'tell whether what is stored is sound, and agrees with Kafka',
    purpose:
      'Runs promo.check_invariants() on the database, compares what the group has committed with what is decided, and what is decided with the offsets that Kafka has. Names each damage. Workers may run meanwhile. Everything stored is read once. Committed offsets that no decided record has are looked for in Kafka, up to a million back, as a group of its own (KAFKA_GROUP_ID.verify-...): transaction markers and aborted records are no damage.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake verify',
    options: {},
    settings: ['KAFKA', 'KAFKA_GROUP_ID', 'DATABASE'],
    exits: { 0: 'sound', 1: 'a damage is named, or it could not be told', 2: WRONG_USAGE },
    run: async () => (await import('./commands/verify.js')).verify(),
  },
  {
    name: 'health',
    summary: 'ask a running worker whether it lives',
    purpose:
      'Asks /livez of the worker on this machine, or what --url names, and tells the answer: for the HEALTHCHECK of a container and for tests of a deployment, which then need no curl.',
    example: 'promo-intake health --url http://promo-intake-worker:8080/readyz',
    options: { url: { value: 'URL', help: 'what to ask (default http://127.0.0.1:HTTP_PORT/livez)' } },
    settings: ['HTTP_PORT'],
    exits: { 0: 'it answers 200', 1: 'it answers otherwise, or not within 4 s', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./commands/health.js')).health(options.get('url')),
  },
  {
    name: 'webhook',
    summary: 'take in events over HTTP and decide, until SIGTERM',
    purpose:
      'Serves POST /v1/events/CONNECTION_ID: one event, or {"events": [...]}, signed with a secret of the connection as Standard Webhooks lays down. Answers with the verdict on each event once it is committed; 503 with Retry-After where they cannot be decided now. What it takes in is decided as the workers decide: an event that came over Kafka before is a duplicate. Run several behind one address. Needs Kafka only where VERDICT_TOPIC is set. SIGTERM or Ctrl-C ends it after the requests under way were answered; a second one ends it at once.',
    example:
      'WEBHOOK_SECRETS_FILE=secrets.json DATABASE_URL=postgres://postgres@localhost/promo promo-intake webhook',
    options: {},
    settings: PUBLISHING_WEBHOOK_SETTINGS,
    exits: {
      0: 'told to stop and closed in time',
      1: 'it cannot start (no database, missing migrations, a port that is taken), or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async () => (await import('./commands/webhook.js')).webhook(),
  },
  {
    name: 'reference apply',
    file: 'file or -',
    summary: 'put operators, connections, brands and rules into force',
    purpose:
      'Applies a reference data file (YAML or JSON, which may be gzipped) whole, and prints what changes. What the file no longer holds stops being used; decided events stay as they are. The same file again changes nothing. All faults of a file are told at once, with their lines.',
    example: 'promo-intake reference apply schemas/examples/reference.yaml --dry-run',
    options: {
      'dry-run': { help: 'only print what would change' },
      'allow-removal': { help: 'allow operators and connections to be removed' },
    },
    settings: ['DATABASE'],
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
  ...OPERATIONS,
  {
    name: 'publish',
    file: 'file or -',
    summary: 'send events to Kafka, one a line',
    purpose:
      'Sends each line of FILE as one record, byte for byte as it is and without judging it; blank lines are left out. A line that is no JSON object, a batch or an array of events is not sent, and of a file that is one JSON document over several lines nothing is. The key is player_ref, else event_id, so that the events of one player stay in order. A line that the broker refuses is reported, and the others go on; when Kafka is away for long, it stops and says at which line to go on. All in-sync replicas have what is counted as sent. A line whose acknowledgement got lost may be sent twice, which the intake answers as a duplicate.',
    example: 'promo-intake publish events.ndjson --connection acme-stream',
    options: {
      topic: { value: 'TOPIC', help: `the topic, which has to exist (default ${SPEC})` },
      connection: {
        value: 'ID',
        help: 'name the connection in the header connection-id, for a topic that several share',
      },
      compression: {
        value: 'CODEC',
        choices: COMPRESSIONS,
        help: `${COMPRESSIONS.join(', ')} (default none; zstd needs Node 22.15)`,
      },
      force: { help: 'send lines that are no JSON objects, too; it still exits with 1 then' },
    },
    settings: PUBLISH_SETTINGS,
    exits: {
      0: 'every line is sent, and is a JSON object',
      1: 'some are not: they were refused, they are no JSON objects, batches or one document over several lines, Kafka is away, there is no such topic, or it was interrupted',
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
    summary: 'send events to a webhook, and tell what became of them',
    purpose:
      'Sends the events of FILE to a webhook, 500 a request, each as it is and without checking it, and tells what became of each that is not simply accepted. FILE holds an event a line, or is one JSON document: an event, an array of events, or {"events": [...]}. What the webhook does not answer, or answers with 503, is sent again after 1 s, doubling to 30 s; what it refuses ends it, and where to go on is said.',
    example:
      'WEBHOOK_SECRETS_FILE=secrets.json promo-intake send events.ndjson --url https://events.example.com --connection acme-hook',
    options: {
      url: { value: 'URL', required: true, help: 'where the webhook is; /v1/events/ID is added' },
      connection: {
        value: 'ID',
        required: true,
        help: 'the connection to send as; WEBHOOK_SECRETS has its secret',
      },
      json: { help: 'print an object an event: line, and what the webhook told of it' },
    },
    settings: SEND_SETTINGS,
    exits: {
      0: 'every event is decided, and none rejected',
      1: 'some are rejected or were not sent, the webhook refused them, or it was interrupted',
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) => {
      const { send } = await import('./commands/send.js');
      const [url = '', connection = ''] = [options.get('url'), options.get('connection')];
      return send({ file, url, connection, json: options.has('json') }, interruption());
    },
  },
  {
    name: 'check',
    file: 'file or -',
    summary: 'tell the verdict of each event of a file, as far as no stored state is needed',
    purpose:
      'Judges each event of FILE by the rules that the worker judges by, and tells every fault with its line, field and remedy. FILE holds an event a line, or is one JSON document: an event, an array of events, or {"events": [...]}; that is said, since publish sends lines. Two events of FILE with one event_id are told, too, and for a connection of the webhook what no request may hold. What needs stored state is left out: ids that are decided already, and rounds that are refunded. Needs neither Kafka nor a database.',
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
        help: 'print an object an event: line, event_id, verdict, reason, faults; of a duplicate also first_line and content_differs; warning, of what the webhook would not take',
      },
    },
    settings: [],
    exits: {
      0: 'every event is accepted',
      1: 'some are rejected, skipped or duplicates, the webhook would not take them, or it was interrupted',
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
      endStuckOutput();
    });
  }
  return controller.signal;
}

// --- running

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
  console.error(`${problem}\n${line}${more} tells more.`);
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
  for (const stream of [process.stdout, process.stderr]) guard(stream);
  // The kernel delivers to process 1 of a container only signals with a handler. A command without one could
  // only be killed.
  if (process.pid === 1) {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        if (process.listenerCount(signal) === 0) process.exit(SIGNALLED[signal]);
      });
    }
  }
  // Node 24 warns of a timer in the past, which the Kafka client sets at each start (kafkajs#1751).
  process.removeAllListeners('warning').on('warning', ({ name, message }) => {
    if (name !== 'TimeoutNegativeWarning') console.error(`${name}: ${message}`);
  });
  guardOutput();
  main(process.argv.slice(2))
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

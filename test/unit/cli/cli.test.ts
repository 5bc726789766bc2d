/** Reading of arguments, content of the help, and explanations of errors. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMMANDS } from '../../../src/cli';
import { explain, Unable } from '../../../src/cli/explain-error';
import { helpOf, overview, readArguments } from '../../../src/cli/usage';
import { replay } from '../../../src/commands/records/replay';
import {
  LIST_SETTINGS,
  PUBLISH_SETTINGS,
  REPLAY_LETTERS_SETTINGS,
  REPLAY_SETTINGS,
  STATUS_SETTINGS,
  WORKER_SETTINGS,
} from '../../../src/commands/shared/settings';
import { ConfigError, SETTINGS, settingsOf } from '../../../src/config/config';
import { KafkaProblem, noTopic } from '../../../src/kafka/client/errors';
import { MigrationProblem } from '../../../src/ledger/migrate';
import { StoreError } from '../../../src/postgres/errors';

const read = (line: string) => readArguments(line === '' ? [] : line.split(' '), COMMANDS);
/** The arguments with which the command would run. */
function given(line: string): unknown {
  const request = read(line);
  if (request.type !== 'run') return request;
  const { file, options } = request.given;
  return [request.command.name, file, Object.fromEntries(options)];
}
function problem(line: string): string {
  const request = read(line);
  return request.type === 'wrong' ? request.problem : `it is ${request.type}`;
}
const commandNamed = (name: string) => COMMANDS.find((command) => command.name === name)!;

describe('arguments', () => {
  test.each([
    ['migrate', ['migrate', '', {}]],
    ['worker --drain', ['worker', '', { drain: '' }]],
    ['verify', ['verify', '', {}]],
    ['grant --writer a --reader "b"', ['grant', '', { writer: 'a', reader: '"b"' }]],
    ['grant --janitor=c --print', ['grant', '', { janitor: 'c', print: '' }]],
    ['webhook', ['webhook', '', {}]],
    ['reference apply a.yaml --dry-run', ['reference apply', 'a.yaml', { 'dry-run': '' }]],
    ['reference apply --allow-removal a.yaml', ['reference apply', 'a.yaml', { 'allow-removal': '' }]],
    ['reference apply -', ['reference apply', '-', {}]],
    ['publish a.ndjson', ['publish', 'a.ndjson', {}]],
    ['publish a.ndjson --topic t', ['publish', 'a.ndjson', { topic: 't' }]],
    ['publish --topic=t --connection c -', ['publish', '-', { topic: 't', connection: 'c' }]],
    ['publish - --topic t --compression lz4', ['publish', '-', { topic: 't', compression: 'lz4' }]],
    ['check - --json', ['check', '-', { json: '' }]],
    ['check a --reference r --connection c', ['check', 'a', { reference: 'r', connection: 'c' }]],
    ['erase-player --operator a --player=-77', ['erase-player', '', { operator: 'a', player: '-77' }]],
    ['check -- --odd-name', ['check', '--odd-name', {}]],
  ])('%s', (line, expected) => {
    expect(given(line)).toEqual(expected);
  });

  test.each([
    ['', 'a command is missing'],
    ['wroker', 'there is no command "wroker"; did you mean worker?'],
    ['rewind', 'there is no command "rewind"'],
    ['replay', 'replay needs --topic TOPIC'],
    ['retention', 'the command "retention" is incomplete; did you mean "retention apply"?'],
    [
      'reference',
      'the command "reference" is incomplete; its commands are "reference apply", "reference export", "reference history", "reference rollback"',
    ],
    [
      'dead-letters lst',
      'the command "dead-letters" is incomplete; its commands are "dead-letters list", "dead-letters replay"',
    ],
    ['--drain worker', 'the option --drain comes before the command; write the command first'],
    ['worker --drian', 'worker has no option --drian; did you mean --drain?'],
    ['worker --colour', 'worker has no option --colour'],
    ['worker -d', 'worker has no option -d'],
    ['worker --constructor', 'worker has no option --constructor'],
    ['check a --toString', 'check has no option --toString'],
    [
      'migrate --allow-removal',
      'migrate has no option --allow-removal; it is an option of reference apply and reference rollback and promotions apply and promotions rollback',
    ],
    ['worker --drain=no', '--drain takes no value, but was given "no"'],
    ['worker now', 'worker takes no FILE, but was given "now"'],
    ['promotions rebuild', 'there is no command "promotions rebuild"; did you mean promotions --rebuild?'],
    [
      'promotions lst',
      'there is no command "promotions lst"; its commands are "promotions check", "promotions preview", "promotions apply", "promotions diff", "promotions verify", "promotions list", "promotions history", "promotions export", "promotions rollback"',
    ],
    ['reference apply', 'reference apply needs a FILE'],
    ['check a b', 'check takes one FILE, but was given "b" as well'],
    ['publish a --topic', '--topic needs a value: --topic TOPIC'],
    ['publish a --topic --connection c', '--topic needs a value: --topic TOPIC'],
    ['publish a --topic=', '--topic needs a value: --topic TOPIC'],
    ['erase-player --operator a --player -77', '--player needs a value: --player=-77, if that is the value'],
    ['publish a --topic t --topic=u', '--topic is given twice'],
    ['worker --drain --drain', '--drain is given twice'],
    [
      'publish a --topic t --compression zstdd',
      '--compression zstdd is not one of none, gzip, snappy, lz4, zstd; did you mean zstd?',
    ],
    ['check a --reference r', '--reference needs --connection as well'],
    ['check a --connection c', '--connection needs --reference as well'],
    [
      'worker --drian --colour',
      'worker has no option --drian; did you mean --drain?\nworker has no option --colour',
    ],
  ])('%s is wrong: %s', (line, expected) => {
    expect(problem(line)).toBe(expected);
  });

  test.each(['--help', '-h'])(
    '%s shows the overview, and behind a command the help of the command',
    (flag) => {
      expect(read(flag)).toEqual({ type: 'help', command: undefined });
      expect(read(`publish ${flag}`)).toEqual({ type: 'help', command: commandNamed('publish') });
      expect(read(`reference ${flag}`)).toEqual({ type: 'help', command: commandNamed('reference apply') });
      // A request for help is answered even if other arguments are wrong.
      expect(read(`worker --drian extra ${flag}`)).toEqual({ type: 'help', command: commandNamed('worker') });
    },
  );

  test('--version', () => {
    expect(read('--version')).toEqual({ type: 'version' });
  });
});

describe('help', () => {
  test('the overview has a line for every command, each as wide as a terminal at most', () => {
    for (const { name, summary } of COMMANDS) {
      expect(overview(COMMANDS)).toContain(`  ${name}`);
      expect(overview(COMMANDS).replace(/\s+/g, ' ')).toContain(summary);
    }
    expect(
      Math.max(
        ...overview(COMMANDS)
          .split('\n')
          .map((line) => line.length),
      ),
    ).toBeLessThanOrEqual(100);
  });

  test.each(COMMANDS.map((command) => [command.name, command] as const))(
    '%s has usage, example, options, settings and exit codes',
    (name, command) => {
      const help = helpOf(command);
      const words = help.replace(/\s+/g, ' ');
      expect(help).toContain(`Usage\n  promo-intake ${name}`);
      expect(help).toContain(`Example\n  ${command.example}`);
      for (const [option, { help: sentence }] of Object.entries(command.options)) {
        expect(help).toContain(`  --${option}`);
        expect(words).toContain(sentence);
      }
      for (const setting of command.settings.flatMap(settingsOf))
        expect(words).toContain(`${setting} ${SETTINGS[setting].describe}`);
      for (const [code, sentence] of Object.entries(command.exits))
        expect(words).toContain(`${code} ${sentence}`);
    },
  );

  test('every example can be run as it is written', () => {
    for (const { name, example } of COMMANDS) {
      const [, line = ''] = example.split('promo-intake ');
      expect([name, read(line).type]).toEqual([name, 'run']);
    }
  });

  test('the help lists the settings that the command reads', () => {
    expect(commandNamed('worker').settings).toEqual(WORKER_SETTINGS);
    expect(commandNamed('publish').settings).toEqual(PUBLISH_SETTINGS);
    expect(commandNamed('status').settings).toEqual(STATUS_SETTINGS);
    expect(STATUS_SETTINGS).toEqual(WORKER_SETTINGS);
    expect(commandNamed('dead-letters list').settings).toEqual(LIST_SETTINGS);
    expect(commandNamed('dead-letters replay').settings).toEqual(REPLAY_LETTERS_SETTINGS);
    expect(commandNamed('replay').settings).toEqual(REPLAY_SETTINGS);
  });
});

describe('docs/commands.md', () => {
  const document = readFileSync(join(__dirname, '..', '..', '..', 'docs', 'commands.md'), 'utf8');
  const sections = new Map(
    document.split(/^### /m).map((section) => [section.slice(0, section.indexOf('\n')), section] as const),
  );

  test.each(COMMANDS.map((command) => [command.name, command] as const))(
    'has a section for %s with its exit codes',
    (name, { exits }) => {
      const section = sections.get(name) ?? '';
      expect(document).toContain(`| [${name}](#${name.replace(' ', '-')}) |`);
      for (const code of [0, 1] as const) expect(section).toContain(`| ${code} | ${exits[code]} |\n`);
    },
  );
});

describe('an error that a person can resolve is a sentence with the remedy', () => {
  const error = (message: string, fields: object) => Object.assign(new Error(message), fields);
  const refused = error('connect ECONNREFUSED 127.0.0.1:5432', { code: 'ECONNREFUSED' });

  test.each([
    ['a refused connection', refused, /^Postgres cannot be reached: connect ECONNREFUSED .* DATABASE_URL/],
    ['an error of the store', new StoreError('connect', refused), /^Postgres cannot be reached/],
    [
      'a session that is gone',
      error('Client has encountered a connection error and is not queryable', {}),
      /^Postgres cannot be reached: Client .* DATABASE_URL/,
    ],
    ['several attempts', new AggregateError([refused]), /^Postgres cannot be reached: connect ECONNREFUSED/],
    [
      'a wrong password',
      error('no', { code: '28P01' }),
      /^Postgres answered: no. Correct the user or the password/,
    ],
    ['missing tables', error('no', { code: '42P01' }), /Run: promo-intake migrate$/],
    [
      'a view that came with a migration, before grant',
      error('permission denied for view wallet_backlog', { code: '42501' }),
      /for view wallet_backlog\. Run promo-intake grant for the user of DATABASE_URL/,
    ],
    ['missing functions', error('no', { code: '42883' }), /Run: promo-intake migrate$/],
    [
      'no password for a server that requires one',
      new StoreError(
        'connect',
        error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string', {}),
      ),
      /^Postgres requires a password, and none is set\. Set DATABASE_PASSWORD/,
    ],
    [
      'a missing socket',
      error('connect ENOENT /run/.s.PGSQL.5432', { code: 'ENOENT' }),
      /^Postgres cannot be reached: connect ENOENT \/run\/\.s\.PGSQL\.5432\. Check/,
    ],
    [
      'a store that hangs',
      error('Query read timeout', {}),
      /^Postgres cannot be reached: Query read timeout/,
    ],
    [
      'a migration that got no lock, with any message of the store',
      new MigrationProblem('0005.sql got no lock in 120 s', { cause: error('lock', { code: '55P03' }) }),
      /^0005\.sql got no lock in 120 s$/,
    ],
    ['any other answer', error('no', { code: '99X99' }), /^Postgres answered: no. SQLSTATE 99X99.$/],
    ['its hint', error('no', { code: '99X99', hint: 'Do so.' }), /^Postgres answered: no. Do so.$/],
    [
      'no Kafka',
      error('retries', {
        name: 'KafkaJSNumberOfRetriesExceeded',
        cause: error('connect ECONNREFUSED', { name: 'KafkaJSConnectionError' }),
      }),
      /^Kafka cannot be reached: connect ECONNREFUSED. .* KAFKA_BROKERS/,
    ],
    [
      'no permission',
      error('not allowed', { name: 'KafkaJSProtocolError' }),
      /^Kafka answered: not allowed$/,
    ],
    [
      'too few replicas in sync',
      error('not enough', { name: 'KafkaJSProtocolError', type: 'NOT_ENOUGH_REPLICAS' }),
      /^Kafka answered: not enough\. Start the missing brokers, or lower min\.insync\.replicas/,
    ],
    [
      'no offsets topic, behind the message of the client',
      error('Failed to find group coordinator: no', {
        name: 'KafkaJSGroupCoordinatorNotFound',
        cause: error('no', { name: 'KafkaJSProtocolError', type: 'GROUP_COORDINATOR_NOT_AVAILABLE' }),
      }),
      /^Kafka answered: no\. Start the missing brokers\. .*offsets\.topic\.replication\.factor\.$/,
    ],
    [
      'a full disk of Postgres',
      error('could not extend file', { code: '53100' }),
      /^Postgres answered: could not extend file\. The disk of the server is full/,
    ],
    [
      'a lock that another session holds',
      error('canceling statement due to lock timeout', { code: '55P03' }),
      /Find it in pg_stat_activity/,
    ],
    [
      'a topic for which a start waited',
      new Error('Kafka: t is missing', { cause: new KafkaProblem('t is missing. Make it') }),
      /^t is missing\. Make it$/,
    ],
    [
      'a topic that is missing',
      new KafkaProblem(noTopic('t')),
      /^Kafka has no topic t, or hides it from this user$/,
    ],
    [
      'a port that is taken',
      error('listen EADDRINUSE: address already in use :::8080', { code: 'EADDRINUSE' }),
      /^HTTP_PORT cannot be served: listen EADDRINUSE.* Set it to a free port/,
    ],
    [
      'a failure of a command, with any cause',
      new Unable('t/0 is undecided at offset 7', { cause: refused }),
      /^t\/0 is undecided at offset 7$/,
    ],
    ['a file', error('ENOENT: x', { code: 'ENOENT', path: '/a' }), /^\/a cannot be read \(ENOENT\)$/],
  ])('%s', (_, cause, expected) => {
    expect(explain(cause)).toEqual({ message: expect.stringMatching(expected), code: 1 });
  });

  test('wrong settings are reported together, with exit code 2', () => {
    const fault = { problem: 'is not set', remedy: 'Set it' };
    const faults = [
      { setting: 'A', ...fault },
      { setting: 'B', ...fault },
    ];
    expect(explain(new ConfigError(faults))).toEqual({
      message: 'A: is not set. Set it.\nB: is not set. Set it.',
      code: 2,
    });
  });

  test('wrong options and missing settings are reported together', async () => {
    const options = new Map([
      ['topic', 't'],
      ['partition', 'x'],
      ['from-offset', 'y'],
      ['since', 'yesterday'],
    ]);
    const told = await replay(options).catch((thrown: unknown) => explain(thrown));
    expect(told).toEqual({
      // A run with servers has both settings in its environment.
      message: expect.stringMatching(
        /^--partition: .*\n--from-offset: .*\n--since: [^\n]*(\nKAFKA_BROKERS: .*)?(\nDATABASE_URL: .*)?$/,
      ),
      code: 2,
    });
  });

  test('a defect is reported with its stack, but without the password of an address', () => {
    const { message } = explain(new TypeError('no host in postgres://promo:s3cret@db/promo'));
    expect(message).toContain('postgres://promo:***@db/promo');
    expect(message).toContain('cli.test.ts');
    expect(message).not.toContain('s3cret');
  });
});

/**
 * Settings: the only reader of the environment. It reports all faults at once, before anything starts.
 *
 * The table in docs/configuration.md is generated from SETTINGS.
 */

import { consoleSettings } from './console';
import { database } from './database';
import { kafka } from './kafka';
import { PSEUDONYM_KEYS } from './pseudonyms';
import { type ConfigFault, type Environment, type Group, readSetting, type SettingTable } from './reading';
import { registry } from './registry';
import { rejectLimit } from './reject-limit';
import { FILE_SUFFIX, integer, oneOf, portNumber, setting, text, type ValueOf } from './setting';
import { OPENTELEMETRY, traces } from './traces';
import { webhookSettings } from './webhook';

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  constructor(readonly faults: readonly ConfigFault[]) {
    const lines = faults.map(({ setting, problem, remedy }) => `${setting}: ${problem}. ${remedy}.`);
    // A remedy may be a question: did you mean ...?
    super(lines.map((line) => line.replace(/\?\.$/, '?')).join('\n'));
  }
}

const TOPIC = /^[a-zA-Z0-9._-]{1,249}$/;

function list(check: (entry: string) => string | undefined, example: string) {
  return (text: string): { value: readonly string[] } | { problem: string; remedy: string } => {
    const entries = text.split(',').map((entry) => entry.trim());
    const wrong = entries.map(check).find((problem) => problem !== undefined);
    if (wrong !== undefined)
      return { problem: wrong, remedy: `Write a comma-separated list such as ${example}` };
    return { value: entries };
  };
}

function topicProblem(entry: string): string | undefined {
  return TOPIC.test(entry) && entry !== '.' && entry !== '..'
    ? undefined
    : `"${entry}" is not a Kafka topic name`;
}

function topic(text: string) {
  const problem = topicProblem(text);
  return problem === undefined
    ? { value: text }
    : { problem, remedy: 'Use at most 249 letters, digits, ".", "_" and "-"' };
}

const OPERATOR = '{operator}';

/** Parses a topic name, or a pattern that makes one of each operator's id. */
const topicOrPattern = (example: string) => (text: string) => {
  const [before = '', ...after] = text.split(OPERATOR);
  if (after.length === 0 && !/[{}]/.test(text)) return topic(text);
  const read = topicProblem(`${before}x${after[0]}`);
  if (after.length === 1 && read === undefined) return { value: text };
  return {
    problem: `"${text}" is neither a Kafka topic name nor one with ${OPERATOR} in it, once`,
    remedy: `Name a topic, or a pattern such as ${example}.${OPERATOR}`,
  };
};

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
/**
 * Groups of settings, most of them for one server that the process connects to. A command requests a group by
 * its name here and gets one value, which the group's settings form together.
 */
export const GROUPS = {
  KAFKA: kafka,
  DATABASE: database,
  SCHEMA_REGISTRY: registry,
  REJECT_LIMIT: rejectLimit,
  TRACES: traces,
  WEBHOOK: webhookSettings,
  CONSOLE: consoleSettings,
} as const;

export const SETTINGS = {
  ...kafka.settings,
  KAFKA_GROUP_ID: setting({
    describe: 'Consumer group. Workers of one deployment share it.',
    fallback: 'promo-intake',
    example: 'promo-intake',
    parse: text,
  }),
  KAFKA_TOPICS: setting({
    describe:
      'Topics to read, comma-separated. Absent: the topics of the connections in the reference data; the worker follows their changes.',
    example: 'promo.event.v1,promo.event.v1.solo',
    parse: list(topicProblem, 'promo.event.v1,promo.event.v1.solo'),
  }),
  KAFKA_DEAD_MEMBER_WATCH: setting({
    describe:
      'enabled or disabled. Enabled: a worker rejoins the group where another member commits nothing although it has records to read. Kafka then drops that member if it is dead.',
    fallback: 'enabled',
    example: 'enabled',
    // Not on and off: YAML reads these as true and false.
    parse: oneOf(['enabled', 'disabled'], 'enabled or disabled'),
  }),
  ...database.settings,
  ...registry.settings,
  VERDICT_TOPIC: setting({
    describe:
      'Topic to which every decision is published. With `{operator}` in the name, each operator has a topic of its own. Absent: decisions are in the store only.',
    example: 'promo.verdict.v1.{operator}',
    parse: topicOrPattern('promo.verdict.v1'),
  }),
  COMPLETION_TOPIC: setting({
    describe:
      'Topic to which each completion of a promotion is published, and each change of one. With `{operator}` in the name, each operator has a topic of its own.',
    required: true,
    example: 'promo.completion.v1.{operator}',
    parse: topicOrPattern('promo.completion.v1'),
  }),
  DEAD_LETTER_TOPIC: setting({
    describe:
      'Topic for records that no connection claims, whose schema is unknown, or whose batch cannot be read. A worker creates it at its start if it is missing.',
    fallback: 'promo.event.v1.dead-letter',
    example: 'promo.event.v1.dead-letter',
    parse: topic,
  }),
  HTTP_PORT: setting({
    describe: 'Port of /livez, /readyz and /metrics. 0: any free port; the log has its number.',
    fallback: '8080',
    example: '8080',
    parse: portNumber,
  }),
  LIVENESS_HEARTBEAT: setting({
    describe:
      'Path of a file whose modification time is the moment until which this process counts as alive. A probe inside the container reads it: `test PATH -nt /proc/self`. Absent: none.',
    example: '/dev/shm/promo-intake-live',
    parse: text,
  }),
  LOG_LEVEL: setting({
    describe: `Lowest level that is logged: ${LOG_LEVELS.join(', ')}. debug has a line for each batch, info a line for each change of state.`,
    fallback: 'info',
    example: 'info',
    parse: oneOf(LOG_LEVELS, 'a level'),
  }),
  BATCH_EVENTS: setting({
    describe:
      'Most events that one transaction decides. A transaction takes the events that have arrived, so it is small under light load.',
    fallback: '8000',
    example: '8000',
    parse: integer(1, 8_000),
  }),
  PARTITIONS_AT_ONCE: setting({
    describe:
      'Batches in flight at the same time, each over its own connection to Postgres. A batch may hold records of any partitions.',
    fallback: '3',
    example: '3',
    parse: integer(1, 64),
  }),
  FETCH_INTERVAL_MS: setting({
    describe:
      'Milliseconds from the beginning of one fetch with records to the next. A longer interval makes fewer and larger batches under light load: 20 needs a fifth less CPU than 10, with verdicts some 6 ms later. After a fetch of 64 KiB or more, the interval is 10 ms, unless a partition has a backlog.',
    fallback: '20',
    example: '20',
    // A fetch brings at most half a MiB of a partition. Longer intervals would slow down a partition that is
    // behind.
    parse: integer(10, 50),
  }),
  ...rejectLimit.settings,
  LIVENESS_SECONDS: setting({
    describe:
      '/livez fails once the Kafka client has not tried to fetch, and no batch was tried, for this many seconds. Then only a restart helps.',
    fallback: '120',
    example: '120',
    parse: integer(30, 3_600),
  }),
  SHUTDOWN_SECONDS: setting({
    describe:
      'Time after SIGTERM to decide the batches in flight and to commit offsets. The next owner reads the remaining records again.',
    fallback: '20',
    example: '20',
    parse: integer(1, 600),
  }),
  ...webhookSettings.settings,
  ...consoleSettings.settings,
  PSEUDONYM_KEYS,
  ...traces.settings,
} as const;

export type SettingName = keyof typeof SETTINGS;
export type GroupName = keyof typeof GROUPS;

/** The settings that a name covers: those of a group, or the one setting of that name. */
export function settingsOf(name: SettingName | GroupName): SettingName[] {
  if (!isGroup(name)) return [name];
  return Object.keys(GROUPS[name].settings).filter((each): each is SettingName => each in SETTINGS);
}

function isGroup(name: string): name is GroupName {
  return name in GROUPS;
}

type Config<N extends SettingName | GroupName> = {
  readonly [K in N]: K extends GroupName
    ? (typeof GROUPS)[K] extends Group<infer _, infer T>
      ? T
      : never
    : K extends SettingName
      ? ValueOf<(typeof SETTINGS)[K]> | Absent<K>
      : never;
};
/** These settings may be absent and have no default. */
type Absent<N extends SettingName> = N extends 'KAFKA_TOPICS' | 'VERDICT_TOPIC' | 'LIVENESS_HEARTBEAT'
  ? undefined
  : never;

/**
 * Our prefixes. A variable with one of them that is no setting is refused, since it would be ignored
 * otherwise.
 */
export const OWN_PREFIXES: readonly string[] = [
  ...['KAFKA_', 'DATABASE_', 'SCHEMA_REGISTRY_', 'VERDICT_', 'DEAD_LETTER_'],
  ...['BATCH_', 'PARTITIONS_', 'FETCH_', 'REJECT_', 'LIVENESS_', 'SHUTDOWN_'],
  ...['OTEL_EXPORTER_OTLP_', 'OTEL_TRACES_', 'WEBHOOK_', 'CONSOLE_', 'PSEUDONYM_', 'COMPLETION_'],
];

/** Kubernetes sets these for a service named kafka, in every pod of its namespace. */
const SERVICE_LINK = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)$/;
/** Kubernetes sets these too, to the service's address. With any other value, a person set them. */
const SERVICE_ADDRESS = /_PORT(_\d+_(TCP|UDP|SCTP))?$/;

function isServiceLink(name: string, value = ''): boolean {
  return SERVICE_LINK.test(name) || (SERVICE_ADDRESS.test(name) && /^(tcp|udp|sctp):\/\//.test(value));
}

/**
 * Reads the settings that a command needs, one by one or as groups.
 *
 * @throws ConfigError with every fault
 */
export function readConfig<N extends SettingName | GroupName>(
  env: Environment,
  names: readonly N[],
): Config<N> {
  const faults = [...unknownSettings(env), ...unsafeOfNode(env)];
  const values = names.map((name: SettingName | GroupName): [string, unknown] => [
    name,
    isGroup(name) ? GROUPS[name].read(env, faults) : readSetting(name, SETTINGS[name], env, faults),
  ]);
  faults.push(...sharedTopics(new Map(values)));
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.fromEntries(values) as Config<N>;
}

/**
 * Topics that the worker writes to must differ from each other and from the topics it reads. Otherwise it
 * would read its own messages as events, or mix verdicts and dead letters.
 */
function sharedTopics(values: ReadonlyMap<string, unknown>): ConfigFault[] {
  const [verdicts, letters, read] = [
    values.get('VERDICT_TOPIC'),
    values.get('DEAD_LETTER_TOPIC'),
    values.get('KAFKA_TOPICS'),
  ];
  const own = { VERDICT_TOPIC: verdicts, DEAD_LETTER_TOPIC: letters };
  const remedy = 'Use a separate topic';
  const isRead = Object.entries(own)
    .filter(([, topic]) => Array.isArray(read) && read.includes(topic))
    .map(([setting]) => ({ setting, problem: 'is one of KAFKA_TOPICS', remedy }));
  if (verdicts === undefined || verdicts !== letters) return isRead;
  return [{ setting: 'VERDICT_TOPIC', problem: 'is the same as DEAD_LETTER_TOPIC', remedy }, ...isRead];
}

/** A setting as it takes effect, for people to read. */
export interface EffectiveSetting {
  readonly name: SettingName;
  /** The value with secrets masked; null where the setting is absent. */
  readonly value: string | null;
  readonly from: 'environment' | 'file' | 'default' | 'absent';
}

/**
 * The settings of the names as they take effect. Secrets are masked, and so is the password in an address.
 */
export function describeConfig(
  env: Environment,
  names: readonly (SettingName | GroupName)[],
): EffectiveSetting[] {
  return names.flatMap(settingsOf).map((name): EffectiveSetting => {
    const { secret, fallback }: SettingTable[string] = SETTINGS[name];
    const file = secret ? env[name + FILE_SUFFIX] : undefined;
    if (file) return { name, value: `in ${file}`, from: 'file' };
    const written = env[name];
    if (!written)
      return { name, value: fallback ?? null, from: fallback === undefined ? 'absent' : 'default' };
    return { name, value: withoutSecrets(written, secret === true), from: 'environment' };
  });
}

const MASK = '***';

/**
 * Masks secrets. An address keeps everything but its secrets, since that shows where it leads; any other
 * secret is masked whole.
 */
function withoutSecrets(text: string, isSecret: boolean): string {
  const written = text.trim();
  const isAddress = (isSecret ? /^postgres(ql)?:\/\// : /^\w+:\/\//).test(written) && URL.canParse(written);
  if (!isAddress) return isSecret ? MASK : written;
  const address = new URL(written);
  if (address.password !== '') address.password = MASK;
  // A token may be in place of a user, and parameters may hold anything.
  if (!isSecret && address.username !== '') address.username = MASK;
  for (const parameter of [...address.searchParams.keys()]) address.searchParams.set(parameter, MASK);
  return address.href;
}

/**
 * A variable that Node itself reads, and that would turn off the verification of certificates in the whole
 * process.
 */
function unsafeOfNode(env: Environment): ConfigFault[] {
  return env.NODE_TLS_REJECT_UNAUTHORIZED === '0'
    ? [
        {
          setting: 'NODE_TLS_REJECT_UNAUTHORIZED',
          problem: 'turns off the verification of certificates',
          remedy:
            'Remove it, and set KAFKA_SSL_CA_FILE, DATABASE_SSL_CA_FILE or NODE_EXTRA_CA_CERTS to the authority of your certificates',
        },
      ]
    : [];
}

function unknownSettings(env: Environment): ConfigFault[] {
  return Object.keys(env)
    .filter((name) => OWN_PREFIXES.some((prefix) => name.startsWith(prefix)))
    .filter((name) => !isSetting(name))
    .filter((name) => !isServiceLink(name, env[name]) && !OPENTELEMETRY.test(name))
    .map((name) => ({
      setting: name,
      problem: 'is not a setting',
      remedy: `Remove it; the settings are ${Object.keys(SETTINGS).join(', ')}`,
    }));
}

function isSetting(name: string): boolean {
  const table: SettingTable = SETTINGS;
  return (
    name in table ||
    (name.endsWith(FILE_SUFFIX) && table[name.slice(0, -FILE_SUFFIX.length)]?.secret === true)
  );
}

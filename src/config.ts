/**
 * Settings: the only reader of the environment. All faults are reported at once, before anything starts.
 * The table in docs/configuration.md is generated from SETTINGS.
 */

/** A value of the environment that cannot be used. */
export interface ConfigFault {
  readonly setting: string;
  readonly problem: string;
  readonly remedy: string;
}

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  constructor(readonly faults: readonly ConfigFault[]) {
    super(faults.map(({ setting, problem, remedy }) => `${setting}: ${problem}. ${remedy}.`).join('\n'));
  }
}

interface Setting<T> {
  readonly describe: string;
  /** What is used where the variable is absent, as it would be written. Undefined: see `required`. */
  readonly fallback?: string;
  readonly required?: true;
  readonly example: string;
  /** @returns the value, or what is wrong with the text */
  readonly parse: (text: string) => { value: T } | { problem: string; remedy: string };
}

const TOPIC = /^[a-zA-Z0-9._-]{1,249}$/;
const MAX_PORT = 65_535;

function text(text: string): { value: string } {
  return { value: text };
}

function list(check: (entry: string) => string | undefined, example: string) {
  return (text: string): { value: readonly string[] } | { problem: string; remedy: string } => {
    const entries = text.split(',').map((entry) => entry.trim());
    const wrong = entries.map(check).find((problem) => problem !== undefined);
    if (wrong !== undefined)
      return { problem: wrong, remedy: `Write a comma-separated list such as ${example}` };
    return { value: entries };
  };
}

function broker(entry: string): string | undefined {
  const port = Number(/^(?:\[[0-9a-fA-F:]+\]|[^\s:/@]+):(\d{1,5})$/.exec(entry)?.[1]);
  return port >= 1 && port <= MAX_PORT ? undefined : `"${entry}" is not host:port`;
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
    : { problem, remedy: 'Use letters, digits, ".", "_" and "-", 249 at most' };
}

function url(...protocols: string[]) {
  return (text: string) => {
    const parsed = URL.canParse(text) ? new URL(text) : undefined;
    // The text itself is not repeated: it may hold a password.
    if (parsed === undefined || !protocols.includes(parsed.protocol)) {
      return { problem: 'is not an address', remedy: `Write ${protocols.join('// or ')}//host:port/...` };
    }
    return { value: text };
  };
}

function integer(least: number, most: number) {
  return (text: string) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return { value };
    return {
      problem: `"${text}" is not a whole number from ${least} to ${most}`,
      remedy: 'Correct the number',
    };
  };
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

function logLevel(text: string): { value: LogLevel } | { problem: string; remedy: string } {
  const value = LOG_LEVELS.find((level) => level === text);
  return value === undefined
    ? { problem: `"${text}" is not a level`, remedy: `Use one of ${LOG_LEVELS.join(', ')}` }
    : { value };
}

function setting<T>(definition: Setting<T>): Setting<T> {
  return definition;
}

export const SETTINGS = {
  KAFKA_BROKERS: setting({
    describe: 'Brokers to find the cluster by, as host:port, comma-separated.',
    required: true,
    example: 'kafka-0.kafka:9092,kafka-1.kafka:9092',
    parse: list(broker, 'kafka-0:9092,kafka-1:9092'),
  }),
  KAFKA_GROUP_ID: setting({
    describe: 'Consumer group. Workers of one deployment share it.',
    fallback: 'promo-intake',
    example: 'promo-intake',
    parse: text,
  }),
  KAFKA_TOPICS: setting({
    describe:
      'Topics to read, comma-separated. Absent: the topics that the connections of the reference data name, followed as they change.',
    example: 'promo.event.v1,promo.event.v1.solo',
    parse: list(topicProblem, 'promo.event.v1,promo.event.v1.solo'),
  }),
  DATABASE_URL: setting({
    describe: 'Postgres database.',
    required: true,
    example: 'postgres://promo:secret@db:5432/promo',
    parse: url('postgres:', 'postgresql:'),
  }),
  SCHEMA_REGISTRY_URL: setting({
    describe:
      'Confluent-compatible schema registry. Absent: a value in the Confluent wire format is not JSON, so it has no key.',
    example: 'http://registry:8081',
    parse: url('http:', 'https:'),
  }),
  VERDICT_TOPIC: setting({
    describe: 'Topic that every decision is produced to. Absent: decisions are in the store only.',
    example: 'promo.verdict.v1',
    parse: topic,
  }),
  DEAD_LETTER_TOPIC: setting({
    describe:
      'Topic for records that no connection claims, whose schema is unknown, or whose batch cannot be read. Made at start where it is missing.',
    fallback: 'promo.event.v1.dead-letter',
    example: 'promo.event.v1.dead-letter',
    parse: topic,
  }),
  HTTP_PORT: setting({
    describe: 'Port of /livez, /readyz and /metrics. 0: any free port, which the log names.',
    fallback: '8080',
    example: '8080',
    parse: integer(0, MAX_PORT),
  }),
  WEBHOOK_PORT: setting({
    describe: 'Port of the webhook. 0: any free port.',
    fallback: '8081',
    example: '8081',
    parse: integer(0, MAX_PORT),
  }),
  LOG_LEVEL: setting({
    describe: `Least level that is logged: ${LOG_LEVELS.join(', ')}. A line a batch at debug, a line a change of state at info.`,
    fallback: 'info',
    example: 'info',
    parse: logLevel,
  }),
  BATCH_EVENTS: setting({
    describe:
      'Most events that one transaction decides. It takes what has come, so it is small while little comes.',
    fallback: '8000',
    example: '8000',
    parse: integer(1, 8_000),
  }),
  PARTITIONS_AT_ONCE: setting({
    describe: 'Partitions that are decided at the same time, each over a connection of its own to Postgres.',
    fallback: '3',
    example: '3',
    parse: integer(1, 64),
  }),
  SHUTDOWN_SECONDS: setting({
    describe:
      'Time for deciding what is under way and committing offsets after SIGTERM. What is left is read again by the next owner.',
    fallback: '20',
    example: '20',
    parse: integer(1, 600),
  }),
} as const;

export type SettingName = keyof typeof SETTINGS;

type ValueOf<S> = S extends { readonly parse: (text: string) => infer R }
  ? R extends { value: infer T }
    ? T
    : never
  : never;
type Config<N extends SettingName> = { readonly [K in N]: ValueOf<(typeof SETTINGS)[K]> | Absent<K> };
/** Settings without a value of their own may be absent. */
type Absent<N extends SettingName> = N extends 'KAFKA_TOPICS' | 'SCHEMA_REGISTRY_URL' | 'VERDICT_TOPIC'
  ? undefined
  : never;

/** Prefixes that are ours: a variable with one of them that is no setting is refused, since it would be ignored otherwise. */
const OWN_PREFIXES = ['KAFKA_', 'DATABASE_', 'SCHEMA_REGISTRY_', 'VERDICT_', 'DEAD_LETTER_', 'WEBHOOK_'];
/** Kubernetes sets these for a service named kafka, in every pod beside it. */
const SERVICE_LINK = /_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP)|$)/;

/**
 * Reads the settings that a command needs.
 *
 * @throws ConfigError with every fault
 */
export function readConfig<N extends SettingName>(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly N[],
): Config<N> {
  const faults = unknownSettings(env);
  const values = new Map<string, unknown>();
  for (const name of names) {
    const definition: Setting<unknown> = SETTINGS[name];
    const written = env[name];
    const source = written === undefined || written === '' ? definition.fallback : written;
    if (source === undefined) {
      if (definition.required) {
        faults.push({
          setting: name,
          problem: 'is not set',
          remedy: `Set it, for example to ${definition.example}`,
        });
      }
      continue;
    }
    const parsed = definition.parse(source);
    if ('value' in parsed) values.set(name, parsed.value);
    else faults.push({ setting: name, ...parsed });
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.fromEntries(names.map((name) => [name, values.get(name)])) as Config<N>;
}

function unknownSettings(env: Readonly<Record<string, string | undefined>>): ConfigFault[] {
  return Object.keys(env)
    .filter((name) => OWN_PREFIXES.some((prefix) => name.startsWith(prefix)))
    .filter((name) => !(name in SETTINGS) && !SERVICE_LINK.test(name))
    .map((name) => ({
      setting: name,
      problem: 'is not a setting',
      remedy: `Remove it; the settings are ${Object.keys(SETTINGS).join(', ')}`,
    }));
}

/** The servers a worker needs: what can be asked for, and what is handed out. */

export type ServerName = 'kafka' | 'postgres' | 'registry';

/** Where a server comes from: an address in the environment, a container, or a child process of this program. */
export type Origin = 'environment' | 'containers' | 'processes';

/** A server that this program started itself, and may therefore disturb. */
export interface Server {
  /** Ends it cleanly and waits for its end; its data and its port are kept for `start`. */
  stop(): Promise<void>;
  /** Ends it as a crash would (SIGKILL). */
  kill(): Promise<void>;
  /** Starts it again, on the same port and the same data. */
  start(): Promise<void>;
  /** Makes it hang: connections stay open and nothing answers (SIGSTOP). */
  suspend(): Promise<void>;
  /** Lets a suspended server go on (SIGCONT). */
  resume(): Promise<void>;
}

export interface Servers {
  /** Only the servers that were asked for have an entry. */
  readonly origin: { readonly [Name in ServerName]?: Origin };
  /** Comma-separated host:port list. Reading it throws if Kafka was not asked for. */
  readonly kafkaBrokers: string;
  /** Its user may create databases. Reading it throws if Postgres was not asked for. */
  readonly databaseUrl: string;
  readonly schemaRegistryUrl: string | undefined;
  /** Address of each further listener of Kafka, by its name. */
  readonly kafkaListeners: Readonly<Record<string, string>>;
  /** Undefined where the server was not asked for, or is not ours. */
  readonly kafka: Server | undefined;
  readonly postgres: Server | undefined;
  readonly registry: Server | undefined;
  /** Stops what was started and removes its data. Never touches a server whose address came from the environment. */
  stop(): Promise<void>;
}

export type Environment = Readonly<Record<string, string | undefined>>;
export type Log = (line: string) => void;

/** What a Kafka is given beside its open listener, for tests of who may connect. */
export interface KafkaExtras {
  /** Further listeners on localhost: the security protocol of each, by its name in upper case. */
  readonly listeners: Readonly<Record<string, string>>;
  /** What a further listener advertises in place of its own address, by its name. */
  readonly advertised?: Readonly<Record<string, string>>;
  readonly settings: Readonly<Record<string, string>>;
  /** Users that are there from the start, as StorageTool takes them: `SCRAM-SHA-256=[name=...,password=...]`. */
  readonly scramUsers: readonly string[];
  readonly javaOptions: readonly string[];
  /** Sources of classes for the broker, by the names of the classes: compiled by the `javac` in the path. */
  readonly classes?: Readonly<Record<string, string>>;
}

/** The same for a Postgres. */
export interface PostgresExtras {
  readonly settings: Readonly<Record<string, string>>;
  /** Contents of files of the data directory, by their names. */
  readonly files: Readonly<Record<string, string>>;
}

export interface StartOptions {
  need: readonly ServerName[];
  /** A version of Apache Kafka, such as 3.9.2. */
  kafkaVersion?: string;
  /** A major version of Postgres, such as 15. */
  postgresVersion?: string;
  /** For child processes only. */
  kafkaExtras?: KafkaExtras;
  /** For child processes only. */
  postgresExtras?: PostgresExtras;
  log?: Log;
  /** Addresses, STACK and the names of images are read from here; default: the environment of this process. */
  environment?: Environment;
  /** They live for minutes: rather fast than quickly started. */
  longLived?: boolean;
  /** False: on SIGINT or SIGTERM the servers are stopped, and ending the process is the program's own affair. */
  exitAfterSignal?: boolean;
}

/** A started server together with the address it answers at. */
export interface Started {
  server: Server;
  address: string;
  /** Of Kafka's further listeners, by their names. */
  listeners?: Readonly<Record<string, string>>;
}

/** Something this machine lacks, and what to do about it. */
export interface Missing {
  server: ServerName;
  what: string;
  remedy: string;
}

export class MissingRequirementsError extends Error {
  constructor(readonly missing: readonly Missing[]) {
    const lines = missing.map(({ server, what, remedy }) => `- ${server}: ${what}\n  Remedy: ${remedy}`);
    super(`The local servers cannot be started here:\n${lines.join('\n')}`);
    this.name = 'MissingRequirementsError';
  }
}

/** The servers were stopped (by a signal or by `stop`) while they were still starting. */
export class InterruptedError extends Error {
  constructor() {
    super('Interrupted: the servers are being stopped');
    this.name = 'InterruptedError';
  }
}

export function messageOf(error: unknown): string {
  // As one is where an address stands for several.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ');
  return (error instanceof Error ? error.message : String(error)).trim();
}

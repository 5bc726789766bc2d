/** The servers of a worker: the options of a start, and the result. */

export type ServerName = 'kafka' | 'postgres' | 'registry';

/** The origin of a server: an address in the environment, a container, or a child process of this program. */
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
  /** Only requested servers have an entry. */
  readonly origin: { readonly [Name in ServerName]?: Origin };
  /** Comma-separated host:port list. Reading it throws if Kafka was not requested. */
  readonly kafkaBrokers: string;
  /** Its user may create databases. Reading it throws if Postgres was not requested. */
  readonly databaseUrl: string;
  readonly schemaRegistryUrl: string | undefined;
  /** Address of each further listener of Kafka, by its name. */
  readonly kafkaListeners: Readonly<Record<string, string>>;
  /** Undefined if the server was not requested, or is not ours. */
  readonly kafka: Server | undefined;
  readonly postgres: Server | undefined;
  readonly registry: Server | undefined;
  /**
   * Stops the started servers and removes their data. Never touches a server whose address came from the
   * environment.
   */
  stop(): Promise<void>;
}

export type Environment = Readonly<Record<string, string | undefined>>;
export type Log = (line: string) => void;

/** Extras of a Kafka beside its open listener, for tests of access. */
export interface KafkaExtras {
  /** Further listeners on localhost: the security protocol of each, by its name in upper case. */
  readonly listeners: Readonly<Record<string, string>>;
  /** The address that a further listener advertises in place of its own, by its name. */
  readonly advertised?: Readonly<Record<string, string>>;
  readonly settings: Readonly<Record<string, string>>;
  /** Users that exist from the start, as StorageTool takes them: `SCRAM-SHA-256=[name=...,password=...]`. */
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
  /** Source of addresses, STACK and the names of images; default: the environment of this process. */
  environment?: Environment;
  /** The servers live for minutes: fast work matters more than a fast start. */
  longLived?: boolean;
  /** Only a crash of the machine could show the difference. */
  withoutFsync?: boolean;
  /** False: on SIGINT or SIGTERM the servers are stopped, and the program itself ends the process. */
  exitAfterSignal?: boolean;
}

/** A started server together with its address. */
export interface Started {
  server: Server;
  address: string;
  /** Addresses of Kafka's further listeners, by their names. */
  listeners?: Readonly<Record<string, string>>;
}

/** Something that this machine lacks, and the remedy. */
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
  // Node throws such an error if a host name has several addresses.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ');
  return (error instanceof Error ? error.message : String(error)).trim();
}

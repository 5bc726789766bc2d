/** What is told of an error: a sentence with its remedy where a person can mend it, else the stack of a defect. */
import { ConfigError } from '../config';

const FAILED = 1;
const USAGE = 2;

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

export interface Cause {
  readonly name: string;
  readonly message: string;
  /** An errno's name or a SQLSTATE. */
  readonly code: string;
  readonly path: string;
}

/** The error and what it came from: causes, and the attempts behind an AggregateError. */
export function causesOf(error: unknown, depth = 0): Cause[] {
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

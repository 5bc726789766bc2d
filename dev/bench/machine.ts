/** The machine and the measured servers, in words: figures mean nothing without them. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, machine, release, totalmem, type } from 'node:os';
import type { Servers } from '../servers';
import { DEFAULT_KAFKA_VERSION } from '../servers/kafka';
import { withClient } from './guest';

const POSTGRES_SETTINGS = [
  'server_version',
  'fsync',
  'full_page_writes',
  'synchronous_commit',
  'wal_compression',
  'shared_buffers',
  'max_wal_size',
  'checkpoint_timeout',
];

const GIBIBYTE = 1024 ** 3;

export async function describeMachine(servers: Servers): Promise<string[]> {
  return [
    `${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ${(totalmem() / GIBIBYTE).toFixed(1)} GiB, ${distribution()}, ${type()} ${release()} ${machine()}`,
    `Node ${process.version}, ${describeKafka(servers)}`,
    `Postgres ${await describePostgres(servers)}`,
  ];
}

function distribution(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]+)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? type();
  } catch {
    return type();
  }
}

/** A broker does not report its version to clients. */
function describeKafka({ origin }: Servers): string {
  return origin.kafka === 'environment'
    ? 'Kafka of KAFKA_BROKERS'
    : `Kafka ${DEFAULT_KAFKA_VERSION} (${origin.kafka})`;
}

async function describePostgres({ origin, databaseUrl }: Servers): Promise<string> {
  const where = origin.postgres === 'environment' ? 'of DATABASE_URL' : `(${origin.postgres})`;
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ name: string; value: string }>(
      `select name, current_setting(name) as value from pg_settings where name = any($1) order by array_position($1, name)`,
      [POSTGRES_SETTINGS],
    );
    const [version, ...settings] = rows;
    return `${version?.value} ${where}: ${settings.map(({ name, value }) => `${name}=${value}`).join(' ')}`;
  });
}

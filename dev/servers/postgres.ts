/** Postgres as a child process, on the loopback interface only. */
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import type { Context } from './download';
import { LocalServer } from './local-server';
import { LOOPBACK, withFreePorts } from './ports';
import { providePostgres } from './postgres-programs';
import type { Started, StartOptions } from './types';

/** The names of the user and of the first database, wherever the server runs. */
export const POSTGRES_USER = 'postgres';
export const POSTGRES_DATABASE = 'promo';

const INITDB_DEADLINE_MS = 60_000;
const CONNECT_DEADLINE_MS = 30_000;
/**
 * The server's log lines about a crash of one of its processes. It then ends all others, and its clients see
 * only that.
 */
const CRASH = /^.*(?:PANIC: |\(PID \d+\) was terminated by).*\n?(?:.*DETAIL: .*)?/gm;

/** Settings of a production server that matter for the tests: durability above all. */
const POSTGRES_SETTINGS: Readonly<Record<string, string>> = {
  fsync: 'on',
  synchronous_commit: 'on',
  max_connections: '400',
  timezone: 'UTC',
  log_timezone: 'UTC',
  shared_preload_libraries: 'pg_stat_statements',
};

/** The same for data that no crash of the machine has to leave. */
const WITHOUT_FSYNC = { ...POSTGRES_SETTINGS, fsync: 'off' };
/**
 * Server and client compute so many hashes for each connection. More only slow down the guessing of a
 * password, and ours is random.
 */
const ONE_ITERATION = '--set=scram_iterations=1';
/** initdb has the option, and Postgres the setting, since this version. */
const ITERATIONS_SINCE = 16;

export const postgresSettings = (withoutFsync = false): Readonly<Record<string, string>> =>
  withoutFsync ? WITHOUT_FSYNC : POSTGRES_SETTINGS;

/** Postgres refuses to run as root: then it runs as nobody. */
function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) {
    return undefined;
  }
  const [, uid, gid] = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8')) ?? [];
  if (uid === undefined || gid === undefined) {
    throw new Error('Postgres does not run as root, and /etc/passwd has no user named nobody');
  }
  return { uid: Number(uid), gid: Number(gid) };
}

function giveTo({ uid, gid }: { uid: number; gid: number }, directory: string): void {
  lchownSync(directory, uid, gid);
  for (const entry of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    lchownSync(join(directory, entry), uid, gid);
  }
}

/** Connects for the first time; makes the database on a new server. */
export async function connectToPostgres(serverUrl: string): Promise<void> {
  const client = new Client({
    connectionString: `${serverUrl}/postgres`,
    connectionTimeoutMillis: CONNECT_DEADLINE_MS,
    query_timeout: CONNECT_DEADLINE_MS,
  });
  client.on('error', () => {
    // The current query reports this error.
  });
  await client.connect();
  try {
    const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [POSTGRES_DATABASE]);
    if (found.rowCount === 0) {
      await client.query(`CREATE DATABASE ${POSTGRES_DATABASE}`);
    }
  } finally {
    await client.end();
  }
}

export async function startPostgres(
  context: Context,
  version: string,
  {
    postgresExtras: extras = { settings: {}, files: {} },
    withoutFsync = false,
  }: Pick<StartOptions, 'postgresExtras' | 'withoutFsync'> = {},
): Promise<Started> {
  const { supervisor, environment, log } = context;
  const user = unprivilegedUser();
  const directory = join(supervisor.directory.path, 'postgres');
  const data = join(directory, 'data');
  const passwordFile = join(directory, 'password');
  const logFile = join(supervisor.directory.path, 'postgres.log');
  mkdirSync(directory);
  const programs = await providePostgres(context, version, directory);
  supervisor.refuseWhenStopping();

  // Other users of this machine can reach the port: without a password they would be superusers of this
  // server.
  const password = randomBytes(12).toString('hex');
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (user !== undefined) {
    giveTo(user, directory);
  }
  chmodSync(directory, 0o700);
  const common = {
    directory,
    environment: { PATH: environment.PATH, LC_ALL: 'C', ...programs.environment },
    logFile,
    user,
    // The fast shutdown: ends the connections instead of waiting for them.
    stopSignal: 'SIGINT' as const,
  };
  await supervisor.run(
    {
      ...common,
      name: 'initdb',
      file: join(programs.binDirectory, 'initdb'),
      args: [
        ...['-D', data, '-U', POSTGRES_USER, '--encoding=UTF8', '--locale=C', '--auth=scram-sha-256'],
        ...[`--pwfile=${passwordFile}`, '--no-sync', '--no-instructions'],
        ...(Number(version) >= ITERATIONS_SINCE ? [ONE_ITERATION] : []),
      ],
    },
    INITDB_DEADLINE_MS,
  );
  rmSync(passwordFile);
  const settings = {
    ...postgresSettings(withoutFsync),
    listen_addresses: LOOPBACK,
    unix_socket_directories: '',
    ...extras.settings,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
  appendFileSync(join(data, 'postgresql.conf'), lines.join(''));
  supervisor.onStop(async () => {
    for (const [crash] of readFileSync(logFile, 'utf8').matchAll(CRASH)) log(`postgres ${version}: ${crash}`);
  });
  for (const [name, content] of Object.entries(extras.files)) {
    writeFileSync(join(data, name), content, { mode: 0o600 });
  }
  if (user !== undefined) {
    giveTo(user, data);
  }

  return withFreePorts(1, async ([port]) => {
    const serverUrl = `postgres://${POSTGRES_USER}:${password}@${LOOPBACK}:${port}`;
    const server = new LocalServer(
      supervisor,
      {
        ...common,
        name: `postgres ${version}`,
        file: join(programs.binDirectory, 'postgres'),
        args: ['-D', data, '-p', String(port)],
      },
      { line: /database system is ready to accept connections/, connect: () => connectToPostgres(serverUrl) },
      log,
    );
    await server.start();
    return { server, address: `${serverUrl}/${POSTGRES_DATABASE}` };
  });
}

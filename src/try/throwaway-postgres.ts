/**
 * A Postgres of this process alone. It listens on a socket in a directory that only its owner can enter, and
 * on no network. Its data is not kept: it never waits for the disk, and its directory is removed at the end.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { messageOf } from '../lib/errors';
import { inTransaction, type Store } from '../postgres/transaction';
import { findPrograms, PLATFORM_PACKAGE, type ProgramDirectory } from './programs';
import {
  dataIn,
  makeThrowawayDirectory,
  removeDirectory,
  removeLeftovers,
  type UserIds,
} from './throwaway-directory';

const USER = 'postgres';
/** initdb needs the name of its user. A container may run as a number. */
const NO_NAME = /could not look up effective user/;
const READY = /database system is ready to accept connections/;
const READY_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 10;
const END_WITHIN_MS = 5_000;
/** The last lines of the log that an error shows. */
const SHOWN_LINES = 5;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  max_connections: '30',
  shared_buffers: '32MB',
  // Nothing has to survive a crash.
  fsync: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // emptyStore empties no other store.
  'promo.throwaway': 'on',
};

/** Postgres cannot be found or started. The message has the remedy. */
export class NoPostgres extends Error {
  override readonly name = 'NoPostgres';
}

export interface ThrowawayPostgres {
  readonly databaseUrl: string;
  /** Resolves once the server ends, with the last lines of its log. */
  readonly ended: Promise<string>;
  /** Ends the server, and removes its directory. */
  stop(): Promise<void>;
}

/** @throws NoPostgres */
export async function startThrowawayPostgres(logger: Logger): Promise<ThrowawayPostgres> {
  if (process.platform === 'win32')
    throw new NoPostgres(
      'promo-intake try does not run on Windows. Use it in WSL, or use its container image',
    );
  const user = unprivilegedUser();
  removeLeftovers(user, logger);
  const directory = makeThrowawayDirectory(user);
  let child: ChildProcess | undefined;
  let isMade = false;
  const stopNow = (): void => {
    process.removeListener('exit', stopNow);
    // The immediate shutdown of Postgres writes nothing more. initdb goes on after SIGQUIT, and would make
    // the removed directory again.
    if (isMade) child?.kill('SIGQUIT');
    else killGroup(child);
    removeDirectory(directory);
  };
  // A second signal ends this process at once.
  process.once('exit', stopNow);
  try {
    const programs = findPrograms(directory, user !== undefined);
    const run = { directory, programs, user };
    child = startProgram(run, 'initdb', [
      ...['-D', dataIn(directory), '-U', USER, '--encoding=UTF8', '--locale=C'],
      // Only the owner of the directory reaches the socket.
      ...['--auth=trust', '--no-sync', '--no-instructions'],
    ]);
    const made = await endOf(child);
    if (made !== 0) throw failure(directory, `initdb ended with ${made}`);
    isMade = true;
    const settings = { ...SETTINGS, unix_socket_directories: directory };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
    appendFileSync(join(dataIn(directory), 'postgresql.conf'), lines.join(''));
    child = startProgram(run, 'postgres', ['-D', dataIn(directory)]);
    const end = endOf(child);
    await untilReady(directory, end);
    return {
      databaseUrl: `postgres:///postgres?host=${encodeURIComponent(directory)}&user=${USER}`,
      ended: end.then(() => logOf(directory)),
      async stop() {
        child?.kill('SIGQUIT');
        await Promise.race([end, sleep(END_WITHIN_MS, undefined, { ref: false })]);
        stopNow();
      },
    };
  } catch (error) {
    stopNow();
    throw error;
  }
}

interface Run {
  readonly directory: string;
  readonly programs: ProgramDirectory;
  readonly user: UserIds | undefined;
}

/**
 * A session of its own: Ctrl-C reaches this process alone, which then ends the server in its turn.
 * @throws NoPostgres
 */
function startProgram(
  { directory, programs, user }: Run,
  name: 'initdb' | 'postgres',
  args: readonly string[],
): ChildProcess {
  const log = openSync(join(directory, 'log'), 'a', 0o600);
  try {
    return spawn(programs === null ? name : join(programs, name), args, {
      cwd: directory,
      detached: true,
      stdio: ['ignore', log, log],
      ...user,
    });
  } finally {
    closeSync(log);
  }
}

/** Ends a process of startProgram and the processes that it started. */
function killGroup(child: ChildProcess | undefined): void {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch (error) {
    // Nobody has read its exit code so far.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

/** Resolves with the exit code or the signal. @throws NoPostgres where the program did not start */
async function endOf(child: ChildProcess): Promise<string | number> {
  try {
    const [code, signal]: unknown[] = await once(child, 'exit');
    return typeof code === 'number' ? code : String(signal);
  } catch (error) {
    throw new NoPostgres(
      `Postgres cannot be started: ${messageOf(error)}. Install promo-intake with its optional packages (${PLATFORM_PACKAGE}). Or install Postgres 15 or newer, with initdb on the PATH. Or use the container image of try`,
    );
  }
}

async function untilReady(directory: string, end: Promise<string | number>): Promise<void> {
  let ended: string | number | undefined;
  const noted = end.then((code) => {
    ended = code;
  });
  const until = performance.now() + READY_WITHIN_MS;
  while (!READY.test(logOf(directory, Number.POSITIVE_INFINITY))) {
    await Promise.race([noted, sleep(LOOK_EVERY_MS)]);
    if (ended !== undefined) throw failure(directory, `it ended with ${ended}`);
    if (performance.now() > until)
      throw failure(directory, `it was not ready within ${READY_WITHIN_MS / 1000} s`);
  }
}

function failure(directory: string, problem: string): NoPostgres {
  const log = logOf(directory);
  const remedy = NO_NAME.test(log) ? '\nRun promo-intake try as a user that /etc/passwd has' : '';
  return new NoPostgres(`Postgres cannot be started: ${problem}:\n${log}${remedy}`);
}

function logOf(directory: string, lines = SHOWN_LINES): string {
  const file = join(directory, 'log');
  const text = existsSync(file) ? readFileSync(file, 'utf8').trimEnd() : '';
  return lines === Number.POSITIVE_INFINITY ? text : text.split('\n').slice(-lines).join('\n');
}

/** @throws NoPostgres where Postgres would have to run as root */
function unprivilegedUser(): UserIds | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : '';
  const [, uid, gid] = /^nobody:[^:]*:(\d+):(\d+):/m.exec(users) ?? [];
  if (uid === undefined || gid === undefined)
    throw new NoPostgres(
      'Postgres does not run as root, and /etc/passwd has no user nobody to run it as. Run promo-intake try as another user',
    );
  return { uid: Number(uid), gid: Number(gid) };
}

// --- a store of it, emptied

/** Tables that a new store has rows in, and those of reference data. */
const KEPT = [
  ...['migrations', 'migrations_lock', 'migrate_guard', 'months', 'player_keys', 'first_cluster', 'cell'],
  ...['currencies', 'reference_versions', 'operators', 'feeds', 'connections', 'brands'],
];

const EMPTY = {
  name: 'empty_store',
  text: `do $$
declare
  names text;
begin
  if current_setting('promo.throwaway', true) is distinct from 'on' then
    raise exception 'this store is not a throwaway one';
  end if;
  select string_agg(format('promo_store.%I', c.relname), ', ' order by c.relname) into names
  from pg_catalog.pg_class c
  where c.relnamespace = 'promo_store'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> all (array[${KEPT.map((name) => `'${name}'`).join(', ')}]);
  execute 'truncate ' || names;
end $$`,
};

/**
 * Removes every decision, and no reference data. No decision may be in flight. Any other store is refused.
 *
 * @throws StoreError
 */
export async function emptyStore(store: Store): Promise<void> {
  await inTransaction(store, (session) => session.write([EMPTY]));
}

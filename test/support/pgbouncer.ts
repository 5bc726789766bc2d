/** A real pgbouncer in transaction mode, where the machine has one: in the path, or named by PGBOUNCER. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, readFileSync } from 'node:fs';
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { LOOPBACK, withFreePorts } from '../../dev/servers/ports';

const START_DEADLINE_MS = 60_000;
const PROGRAM = process.env.PGBOUNCER ?? 'pgbouncer';
/** The first version that keeps prepared statements in transaction mode. */
const OLDEST = [1, 21] as const;

/** Why no pgbouncer is available; undefined where one is. */
export function pgbouncerProblem(): string | undefined {
  const { stdout, error } = spawnSync(PROGRAM, ['--version'], { encoding: 'utf8', timeout: 5_000 });
  if (error !== undefined) return `no pgbouncer in the path, nor by PGBOUNCER: ${error.message}`;
  const [, major, minor] = /^PgBouncer (\d+)\.(\d+)/m.exec(stdout)?.map(Number) ?? [];
  if (major === undefined || minor === undefined) return `${PROGRAM} reports no version`;
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  return isOld ? `pgbouncer ${major}.${minor} is older than ${OLDEST.join('.')}` : undefined;
}

/** A user without privileges, because pgbouncer refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [, uid, gid] = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8')) ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

/**
 * Runs `work` with a pgbouncer in front of the server of `databaseUrl`.
 *
 * @param work receives the url of the same database through it
 */
export async function withPgbouncer(
  databaseUrl: string,
  settings: Readonly<Record<string, string | number>>,
  work: (url: string) => Promise<void>,
): Promise<void> {
  const { hostname, port, username, password } = new URL(databaseUrl);
  const directory = await mkdtemp(join(tmpdir(), 'promo-pgbouncer-'));
  const user = unprivileged();
  if (user !== undefined) chownSync(directory, user.uid, user.gid);
  const [config, log] = [join(directory, 'pgbouncer.ini'), join(directory, 'log')];
  try {
    await withFreePorts(1, async ([listenPort = 0]) => {
      const lines = Object.entries({
        listen_addr: LOOPBACK,
        listen_port: listenPort,
        unix_socket_dir: '',
        auth_type: 'any',
        pool_mode: 'transaction',
        ...settings,
      }).map(([name, value]) => `${name} = ${value}`);
      const server = `* = host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`;
      await writeFile(config, ['[databases]', server, '[pgbouncer]', ...lines, ''].join('\n'), {
        mode: 0o644,
      });
      const output = await open(log, 'w');
      const child = spawn(PROGRAM, [config], { stdio: ['ignore', output.fd, output.fd], ...user });
      const ended = once(child, 'exit');
      await output.close();
      try {
        await until('pgbouncer listens', START_DEADLINE_MS, async () => {
          const logged = await readFile(log, 'utf8');
          if (child.exitCode !== null) throw new Error(`pgbouncer ended: ${logged}`);
          return logged.includes(`listening on ${LOOPBACK}:${listenPort}`);
        });
        const url = new URL(databaseUrl);
        url.host = `${LOOPBACK}:${listenPort}`;
        await work(url.href);
      } finally {
        child.kill('SIGQUIT'); // At once, even with connected clients.
        await ended;
      }
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

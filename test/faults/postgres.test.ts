/**
 * Faults of Postgres while a worker decides. Most faults leave the partitions undecided. The log names the
 * cause, no event id is used up, and all events are decided once the fault is over. A test that would disturb
 * others has a Postgres of its own.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isDeepStrictEqual } from 'node:util';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { startDelayProxy } from '../../dev/bench/delay-line';
import { sleep, until } from '../../dev/servers/deadline';
import { grantRoles } from '../../src/ledger/roles';
import { throughLine } from '../stream/line';
import { sideBySide } from '../stream/side-by-side';
import { inOwnWorld, inWorld, type World } from '../stream/world';
import { type Outgoing, produce } from '../support/kafka';
import { damagesOf, migratedDatabase, rowsOf, withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { databaseUrl, dropDatabase } from '../support/servers';
import { makeTimerAlarm } from '../support/timer-alarm';
import type { LogLine } from '../support/worker';
import { allAcceptedOnce, leftOf, loginsIn, untilCaughtUp, verifySound } from './promises';

const together = sideBySide(6);

const SECOND = 1_000;
const PARTITIONS = 2;
type Main = World<'main'>;

const logins = (name: string, each: number): Outgoing[] => loginsIn(PARTITIONS, name, each);

// --- faults that leave everything undecided

interface Outage {
  cause(world: Main, role: string): Promise<unknown>;
  heal(world: Main, role: string): Promise<unknown>;
  /** The cause in the log. */
  readonly error: RegExp;
}

/** Number of events of each partition before the fault, and again during it. */
const EACH = 500;

/** A worker over an outage of its store: before it, in it, and after it. */
async function survive(world: Main, { cause, heal, error }: Outage): Promise<void> {
  const { main } = world.topics;
  const role = await makeRole(world.databaseUrl, 'writer');
  try {
    await grantRoles(world.databaseUrl, [{ role: 'writer', name: role.name }]);
    const worker = await world.started({ DATABASE_URL: role.url });
    await produce(main, logins('before', EACH));
    await untilCaughtUp(world, main);

    await cause(world, role.name);
    await produce(main, logins('during', EACH));
    const isExpected = (line: LogLine) =>
      line.msg === 'partition is undecided' && error.test(String(line.error));
    await worker.waitForLog(isExpected);
    expect(await worker.metric('promo_intake_undecided_partitions')).toBeGreaterThan(0);
    expect((await worker.get('/livez')).status).toBe(200);
    const decided = await world.rows('select count(*) from promo_store.event_keys');
    const committed = await world.committed(main);
    // The committed records are decided, and no others.
    expect(decided).toEqual([[String(committed.reduce((sum, offset) => sum + offset, 0))]]);

    await heal(world, role.name);
    await untilCaughtUp(world, main);
    expect(await worker.metric('promo_intake_undecided_partitions')).toBe(0);
    await allAcceptedOnce(world, 2 * EACH * PARTITIONS);
    expect(worker.hasEnded()).toBe(false);
    await worker.stop();
  } finally {
    await dropRoles(world.databaseUrl, [role.name]);
  }
}

const asOwner = (statement: (role: string) => string) => (world: Main, role: string) =>
  world.pool.query(statement(role));
const endSessions = (world: Main) =>
  world.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'promo-intake'`,
  );
const nameOf = (world: Main): string => new URL(world.databaseUrl).pathname.slice(1);

const OUTAGES: Readonly<Record<string, Outage>> = {
  'a statement that runs too long': {
    cause: asOwner(
      () => `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$;
        create trigger slow before insert on promo_store.event_keys for each row execute function slow()`,
    ),
    heal: asOwner(() => 'drop function slow cascade'),
    error: /copy_keys: canceling statement due to statement timeout/,
  },
  'a database that is read-only': {
    async cause(world) {
      await world.pool.query(`alter database ${nameOf(world)} set default_transaction_read_only = on`);
      await endSessions(world);
    },
    heal: (world) =>
      withClient(world.databaseUrl, (client) =>
        client.query(
          `begin read write; alter database ${nameOf(world)} reset default_transaction_read_only; commit`,
        ),
      ),
    error: /read-only transaction/,
  },
  'too many connections': {
    async cause(world, role) {
      await world.pool.query(`alter role ${role} connection limit 0`);
      await endSessions(world);
    },
    heal: asOwner((role) => `alter role ${role} connection limit -1`),
    error: /connect: too many connections for role/,
  },
  'a missing grant': {
    cause: asOwner((role) => `revoke insert on promo_store.history from ${role}`),
    heal: asOwner((role) => `grant insert on promo_store.history to ${role}`),
    error: /permission denied/,
  },
  'a missing column': {
    cause: asOwner(() => 'alter table promo_store.history rename player_ref to player'),
    heal: asOwner(() => 'alter table promo_store.history rename player to player_ref'),
    error: /column "player_ref" of relation "history" does not exist/,
  },
};

for (const [name, outage] of Object.entries(OUTAGES)) {
  together(
    `${name}: undecided, no event id is used up, and all events are decided once it is over [U1 U2 V9]`,
    () => inWorld({ topics: { main: PARTITIONS } }, (world) => survive(world, outage)),
  );
}

// --- a disk that is full

const diskProblem = smallDiskProblem();
const whereDisksCanBeMade = diskProblem === null ? together : test.skip;
const SMALL_DISK_MIB = 24;

whereDisksCanBeMade(
  `a disk that is full${diskProblem === null ? '' : ` (skipped: ${diskProblem})`}: undecided, no event id is used up, and all events are decided once there is room [U1 U2 V9]`,
  async () => {
    const disk = mkdtempSync(join(tmpdir(), 'promo-small-disk-'));
    chmodSync(disk, 0o755);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SMALL_DISK_MIB}m`, 'tmpfs', disk]);
    try {
      await inOwnWorld(
        { need: ['postgres'], environment: { STACK: 'processes' } },
        { topics: { main: PARTITIONS } },
        async (world) => {
          await moveTo(world, disk);
          await survive(world, {
            cause: fill,
            heal: async () => execFileSync('mount', ['-o', `remount,size=${SMALL_DISK_MIB * 4}m`, disk]),
            error: /could not extend file .*No space left on device/,
          });
        },
      );
    } finally {
      execFileSync('umount', ['--lazy', disk]);
      rmSync(disk, { recursive: true });
    }
  },
);

/** Moves the database to a tablespace in a directory. */
async function moveTo(world: Main, directory: string): Promise<void> {
  const [[data = null] = []] = await world.rows('show data_directory');
  const { uid, gid } = statSync(String(data));
  chownSync(directory, uid, gid);
  const server = new URL(world.databaseUrl);
  server.pathname = '/postgres';
  await withClient(server.href, async (client) => {
    await client.query(`create tablespace small location '${directory}'`);
    await client.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
      nameOf(world),
    ]);
    await client.query(`alter database ${nameOf(world)} set tablespace small`);
  });
}

/** Fills the disk to its last page. */
async function fill(world: Main): Promise<void> {
  await world.pool.query('create table public.ballast (bytes text)');
  for (const rows of [1_000, 10, 1]) {
    const insert = `insert into public.ballast select repeat(md5(n::text), 200) from generate_series(1, ${rows}) n`;
    await expect(
      (async () => {
        for (;;) await world.pool.query(insert);
      })(),
    ).rejects.toThrow('No space left on device');
  }
}

/** The reason why no small file system can be created here; null if one can. */
function smallDiskProblem(): string | null {
  const directory = mkdtempSync(join(tmpdir(), 'promo-no-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', directory], { stdio: 'ignore' });
    execFileSync('umount', [directory], { stdio: 'ignore' });
    return null;
  } catch {
    return 'mounting a small file system is not allowed here';
  } finally {
    rmSync(directory, { recursive: true });
  }
}

// --- the others

together(
  'a trigger that fails one event: the event is rejected as panic and logged, and the rest is decided [V9]',
  () =>
    inWorld({ topics: { main: PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      await world.pool.query(`
      create function fail() returns trigger language plpgsql as $$ begin
        if new.event_id = 'during-1-7' and new.outcome <> 10 then raise exception 'poisoned'; end if;
        return new;
      end $$;
      create trigger fail before insert on promo_store.history for each row execute function fail()`);
      const worker = await world.started();
      await produce(main, logins('during', 20));
      await untilCaughtUp(world, main);
      expect(await world.balance()).toEqual({ records: 40, accepted: 39, rejected: 1 });
      expect((await world.verdicts())['during-1-7']).toBe('rejected/panic');
      expect(worker.logged('event failed twice and is rejected as panic')).toMatchObject([
        { level: 'error', partition: 1, offset: 7, error: expect.stringContaining('poisoned') },
      ]);
      const { text } = await worker.get('/metrics');
      expect(text).toMatch(/^promo_intake_verdicts_total\{verdict="rejected",reason="panic",.*\} 1$/m);
      await verifySound(world);
    }),
);

/** A clock that statements find before that of Postgres, and that can be set. */
const WRONG_CLOCK = `create schema wrong;
create table wrong.clock as select interval '0' as ahead;
create function wrong.clock_timestamp() returns timestamptz volatile language sql
  as 'select pg_catalog.clock_timestamp() + ahead from wrong.clock';
grant usage on schema wrong to public;
grant select on wrong.clock to public;`;

together(
  'a clock that goes forward and back by minutes and by a day: all events are decided, in their order [D2 U1]',
  () =>
    inWorld({ topics: { main: PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      await world.pool.query(WRONG_CLOCK);
      await world.pool.query(`alter database ${nameOf(world)} set search_path = wrong, pg_catalog, public`);
      const worker = await world.started();
      const clocks = ['10 minutes', '-10 minutes', '1 day', '0'];
      for (const [step, ahead] of clocks.entries()) {
        await world.pool.query('update wrong.clock set ahead = $1', [ahead]);
        await produce(main, logins(`step-${step}`, 100));
        await untilCaughtUp(world, main);
        const [[isByThisClock] = []] = await world.rows(
          `select bool_and(abs(extract(epoch from decided_at - pg_catalog.clock_timestamp() - $1::interval)) < 120)
          from promo.verdicts where event_id like $2`,
          [ahead, `step-${step}-%`],
        );
        expect([ahead, isByThisClock]).toEqual([ahead, 't']);
      }
      const inOrder = await world.rows(
        `select bool_and(verdict_id > before) from (select verdict_id, lag(verdict_id) over (
          partition by partition_no order by source_offset) as before from promo_store.event_keys) decided`,
      );
      expect(inOrder).toEqual([['t']]);
      expect(worker.logged('partition is undecided')).toEqual([]);
      await allAcceptedOnce(world, clocks.length * 100 * PARTITIONS);
    }),
);

const LATENCY_MS = 2 * SECOND;

together(
  'answers that take two seconds: events are decided, slowly, also on new connections and by a new worker [U1]',
  () =>
    inWorld({ topics: { main: PARTITIONS } }, async (world) => {
      const { main } = world.topics;
      const { line, address } = await throughLine(world.databaseUrl);
      const { hostname, port } = new URL(world.databaseUrl);
      const slow = await startDelayProxy(
        { host: hostname, port: Number(port), delayMs: LATENCY_MS / 2 },
        makeTimerAlarm,
      );
      try {
        const worker = await world.started({ DATABASE_URL: address });
        await produce(main, logins('before', 100));
        await untilCaughtUp(world, main);
        line.leadTo('127.0.0.1', slow.port);
        const second = world.start({ DATABASE_URL: address });
        await produce(main, logins('during', 100));
        await untilCaughtUp(world, main);
        await second.waitForLog('partitions assigned', 60 * SECOND);
        expect(second.logged('Postgres is not ready, retrying')).toEqual([]);
        await allAcceptedOnce(world, 200 * PARTITIONS);
        const decidedWithin = (seconds: string) =>
          worker.metric(`promo_intake_batch_seconds_bucket{le="${seconds}"}`);
        expect(await decidedWithin('+Inf')).toBeGreaterThan(await decidedWithin('5'));
      } finally {
        await line.close();
        await slow.close();
      }
    }),
);

/**
 * A worker loses its store in the middle of a load, and finds another one at the same address with the copied
 * data.
 */
const failover = (copied: 'the events before the failover' | 'all events') => () =>
  inOwnWorld({ need: ['postgres'] }, { topics: { main: PARTITIONS } }, async (world, { postgres }) => {
    const { main } = world.topics;
    const each = 2_000;
    const name = nameOf(world);
    const role = await makeRole(databaseUrl(), 'failover');
    const heir = await migratedDatabase();
    const heirUrl = new URL(heir);
    heirUrl.pathname = `/${name}`;
    try {
      // Clients find the same user and the same database at both addresses.
      await withClient(world.databaseUrl, (client) =>
        client.query(`create role ${role.name} superuser login password '${new URL(role.url).password}'`),
      );
      await withClient(databaseUrl(), async (client) => {
        await client.query(`alter role ${role.name} superuser`);
        await client.query(`alter database ${new URL(heir).pathname.slice(1)} rename to ${name}`);
      });
      const address = new URL(world.databaseUrl);
      address.username = role.name;
      address.password = new URL(role.url).password;
      const { line, address: through } = await throughLine(address.href);
      try {
        await produce(main, logins('load', each));
        const worker = await world.started({ DATABASE_URL: through, BATCH_EVENTS: '10' });
        await world.untilDecided(200);
        line.become('broken');
        // All requests in flight end, one way or another.
        await sleep(SECOND);
        await replicate(world.databaseUrl, heirUrl.href);
        if (copied === 'the events before the failover') {
          line.become('open');
          await untilCaughtUp(world, main);
          await world.untilDecided(each * PARTITIONS);
        }
        const sums = 'select sum(records_read - redeliveries), sum(accepted) from promo.partitions';
        const copiedSums = await withClient(heirUrl.href, (client) => rowsOf(client, sums));
        await postgres.kill();
        line.leadTo(heirUrl.hostname, Number(heirUrl.port));
        const switchedAt = Date.now();
        await untilCaughtUp(world, main, switchedAt);
        await withClient(heirUrl.href, async (client) => {
          // The group may have committed all records before. Records that the new server lacks show whether
          // work continues.
          await until(
            'more events are decided there',
            leftOf(switchedAt),
            async () => !isDeepStrictEqual(await rowsOf(client, sums), copiedSums),
          );
          const whole = [[String(each * PARTITIONS), String(each * PARTITIONS)]];
          await until('all events are decided', 60 * SECOND, async () =>
            isDeepStrictEqual(await rowsOf(client, sums), whole),
          );
          expect(await damagesOf(client)).toEqual([]);
        });
        expect(worker.hasEnded()).toBe(false);
        expect(worker.logged('partition is undecided').length).toBeGreaterThan(0);
        const lost = worker.logged('the store has lost decided events; reading them again');
        expect(lost.length).toBe(copied === 'all events' ? 0 : PARTITIONS);
        await verifySound(world, heirUrl.href);
        await worker.stop();
      } finally {
        await line.close();
      }
      await postgres.start();
    } finally {
      await dropDatabase(heirUrl.href);
      await dropRoles(databaseUrl(), [role.name]);
    }
  });

together(
  'failover to a server at another address, in the middle of a load: the worker continues there [U1 K3]',
  failover('all events'),
);
together(
  'failover to a standby that was behind, with no new records: the records that it lacks are read again [U1 D2]',
  failover('the events before the failover'),
);

const TABLES = `select format('promo_store.%I', c.relname), string_agg(quote_ident(a.attname), ', ' order by a.attnum)
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
where c.relnamespace = 'promo_store'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and c.relname not in ('currencies', 'migrations', 'migrations_lock')
group by c.relname`;

/** Copies the data of another store, as a promoted standby has it. */
async function replicate(fromUrl: string, toUrl: string): Promise<void> {
  await withClient(fromUrl, (source) =>
    withClient(toUrl, async (target) => {
      await target.query('set session_replication_role = replica');
      const tables = await rowsOf(source, TABLES);
      await target.query(`truncate ${tables.map(([table]) => table).join(', ')}`);
      for (const [table, columns] of tables) {
        await pipeline(
          source.query(copyTo(`copy (select ${columns} from ${table}) to stdout`)),
          target.query(copyFrom(`copy ${table} (${columns}) from stdin`)),
        );
      }
      const sequences = `select format('%I.%I', schemaname, sequencename), last_value from pg_sequences where last_value is not null`;
      for (const [sequence, last] of await rowsOf(source, sequences))
        await target.query('select setval($1, $2)', [sequence, last]);
    }),
  );
}

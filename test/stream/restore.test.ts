/**
 * A store is restored to a moment behind the committed offsets of its group, and workers bring it up to date.
 */
import {
  chownSync,
  cpSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { aBet, aLogin, aRefund, aSettledOf, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { rowsOf, withClient } from '../support/ledger';
import { applyDefinitions, foldPromotions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';
import { RunningCommand } from '../support/worker';
import { inOwnWorld, type World } from './world';

const ARCHIVED_WITHIN_MS = 60_000;
const COPY_LEFT_OUT = /postmaster\.(pid|opts)$|\/pg_wal\/./;

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'restore-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function run({ settings }: World<string>, args: readonly string[]) {
  const command = new RunningCommand(args, settings);
  const { code } = await command.ending(60_000);
  return { code, output: command.output() };
}

/** The contents of the store that readers see, without the numbers and times of deciding. */
const contents = async ({ rows, balance }: World<string>) => ({
  verdicts: await rows('select event_id, verdict, reason, counted from promo.verdicts order by 1'),
  ledger: await rows(
    'select event_id, kind, amount_minor, credited_player from promo.ledger order by 1, 2, 3',
  ),
  rounds: await rows('select round_id, refunded, settled, net_bet_minor from promo.rounds order by 1'),
  deliveries: await rows(
    'select event_id, content_differs, source_offset from promo.deliveries order by 1, 3',
  ),
  balance: await balance(),
  // Numbers of entries and verdicts are others after a restore. Ids are not.
  completions: await rows(
    `select encode(completion_id, 'hex'), change, player_ref, ordinal, attempt from promo_store.promotion_completions order by 1, 2`,
  ),
  progress: await rows(
    'select promotion_id, window_key, player_ref, value, completions from promo.promotion_progress order by 1, 2, 3',
  ),
});

const PROMOTIONS = definitionsOf(
  'id: bets, type: bet_count, target: 1, completes: each',
  'id: logins, type: login_streak, days: 1, time_zone: UTC',
);

/** Copies a directory of Postgres, and gives the copy the owner of the original. */
function copy(from: string, to: string, owner: { uid: number; gid: number }, leaveOut = /^$/): void {
  cpSync(from, to, { recursive: true, verbatimSymlinks: true, filter: (path) => !leaveOut.test(path) });
  for (const path of ['', ...readdirSync(to, { recursive: true, encoding: 'utf8' })])
    lchownSync(join(to, path), owner.uid, owner.gid);
}

test('a restored store is behind its group: verify reports it, and workers repair it by themselves [K3] [U1] [L3]', async () => {
  const [archive, backup] = [join(directory, 'archive'), join(directory, 'backup')];
  mkdirSync(archive);
  // A server that recovers first syncs all of its files, which takes seconds. No crash is tested here.
  const settings = { archive_mode: 'on', archive_command: `cp %p ${archive}/%f`, fsync: 'off' };
  const environment = { ...process.env, STACK: 'processes' };
  await inOwnWorld(
    { need: ['postgres'], environment, postgresExtras: { settings, files: {} } },
    { topics: { main: 2 } },
    async (world, { postgres }) => {
      const { main } = world.topics;
      const send = (...events: readonly (readonly [number, object])[]) =>
        produce(
          main,
          events.map(([partition, event]) => ({ partition, value: bytesOf(event) })),
        );
      const data = (await world.rows('show data_directory'))[0]?.[0] ?? '';
      const owner = statSync(data);
      for (const path of [directory, archive]) chownSync(path, owner.uid, owner.gid);

      // A base backup, as pg_basebackup takes one. Some events are decided between the backup and the moment
      // of the restore, others after that.
      await withClient(world.databaseUrl, async (client) => {
        await client.query(`select pg_backup_start('a test', fast => true)`);
        copy(data, backup, owner, COPY_LEFT_OUT);
        const [[label] = []] = await rowsOf(client, 'select labelfile from pg_backup_stop()');
        writeFileSync(join(backup, 'backup_label'), label ?? '');
      });
      await applyDefinitions(world.pool, PROMOTIONS);
      const bet = aBet({ event_id: 'between', round_id: 'r-1' });
      await send(
        [0, bet],
        [1, aSettledOf(bet, { event_id: 'between-too' })],
        [0, aLogin({ event_id: 'between-all' })],
        [1, bet],
      );
      await world.drain();
      const attribute = async (round: string) =>
        (await world.rows(`select promo.attribute_round('acme', $1, 'normal')`, [round]))[0]?.[0];
      expect(await attribute('r-1')).toBe('set');
      await foldPromotions(world.pool);
      const [[moment] = []] = await world.rows('select clock_timestamp()');
      const then = await contents(world);
      await send(
        [0, aRefund(bet, { event_id: 'after' })],
        [0, bet],
        [1, aBet({ event_id: 'after-too', round_id: 'r-3' })],
        [1, aBet({ event_id: 'after-all', round_id: 'r-2' })],
      );
      await world.drain();
      expect(await attribute('r-3')).toBe('set');
      await foldPromotions(world.pool);
      const now = await contents(world);
      const [[segment] = []] = await world.rows('select pg_walfile_name(pg_switch_wal())');
      await until('the log is archived', ARCHIVED_WITHIN_MS, () =>
        readdirSync(archive).includes(segment ?? ''),
      );

      // Restored to the moment, as by hand.
      await postgres.stop();
      rmSync(data, { recursive: true });
      writeFileSync(join(backup, 'recovery.signal'), '');
      writeFileSync(
        join(backup, 'postgresql.auto.conf'),
        `restore_command = 'cp ${archive}/%f %p'
recovery_target_time = '${moment}'
recovery_target_action = 'promote'
`,
      );
      copy(backup, data, owner);
      await postgres.start();
      expect(await contents(world)).toEqual(then);
      const lost = await run(world, ['verify']);
      expect(lost.code).toBe(1);
      for (const partition of [0, 1])
        expect(lost.output).toContain(
          `I2 ${main}/${partition}: offset 4 is committed, but 2 records before it are not decided, the first at offset 2\n`,
        );
      // One partition is replayed by hand. The other partition gets no new records: a worker reads the lost
      // records again, and only those.
      const range = ['replay', '--topic', main, '--partition', '0', '--from-offset', '0', '--confirm'];
      expect(await run(world, range)).toMatchObject({
        code: 0,
        output: expect.stringContaining('redeliveries: 2\naccepted: 1\nduplicates: 1\n'),
      });
      await world.drain();
      // Attributions since the moment are lost, too. Setting all of them again is safe.
      expect([await attribute('r-1'), await attribute('r-3')]).toEqual(['unchanged', 'set']);
      await foldPromotions(world.pool);
      expect(await contents(world)).toEqual(now);
      // A login and three bets complete, and the refund revokes one of them.
      expect(now.completions.map(([, change]) => change).sort()).toEqual(['0', '0', '0', '0', '1']);
      expect(await world.redeliveries()).toBe(2);
      const sound = await run(world, ['verify']);
      expect([sound.code, sound.output.trim().split('\n').at(-1)]).toEqual([0, 'sound']);
    },
  );
}, 300_000);

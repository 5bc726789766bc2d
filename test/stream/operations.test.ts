/** Operations on real servers: inspecting a deployment, and replaying records. */
import { randomBytes } from 'node:crypto';
import { CompressionTypes } from 'kafkajs';
import { deleteTopics } from '../../dev/servers/topics';
import { migrationNames } from '../../src/ledger/migrate';
import { aLogin, anOperator, bytesOf } from '../support/builders';
import { alterTopic, type Outgoing, produce, readTopic } from '../support/kafka';
import { withAdmin } from '../support/servers';
import { RunningCommand, type Settings } from '../support/worker';
import { sideBySide } from './side-by-side';
import { connectionOf, inWorld, type World } from './world';

const logins = (count: number, name: string): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({ value: bytesOf(aLogin({ event_id: `${name}-${n}` })) }));

async function run({ settings }: World<string>, args: readonly string[], more: Settings = {}) {
  const command = new RunningCommand(args, { ...settings, ...more });
  const { code } = await command.ending(100_000);
  return { code, output: command.output() };
}
const parsed = ({ output }: { output: string }): unknown => JSON.parse(output);

const together = sideBySide();

describe('status', () => {
  together('reports lag in records and seconds, and a problem where no worker reads the partition', () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      await produce(main, logins(3, 'a'));
      await world.drain();
      const well = await run(world, ['status', '--json', '--check']);
      expect(parsed(well)).toMatchObject({
        needs_a_person: [],
        schema: { newest: (await migrationNames()).at(-1), missing: [] },
        reference: { version: 1 },
        lag: { records: 0, seconds: 0, undecided_partitions: 0 },
        balance: { records_read: 3, became: 3 },
        invariants: { damages: 0 },
      });
      expect(well.code).toBe(0);

      const timestamp = String(Date.now() - 90_000);
      await produce(
        main,
        logins(2, 'b').map((record) => ({ ...record, timestamp })),
      );
      const { code, output } = await run(world, ['status']);
      expect(code).toBe(1);
      expect(output).toContain('! 2 records wait, and no worker is in the group\n');
      const [, waited] = /lag +2 records, (\d+) s; 0 undecided partitions/.exec(output) ?? [];
      expect(Number(waited)).toBeGreaterThanOrEqual(90);
      const password = new URL(world.databaseUrl).password;
      expect(password === '' || !output.includes(password)).toBe(true);
    }),
  );

  together('reports the lag while Postgres is away, and Postgres while Kafka is away', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      await produce(world.topics.main, logins(1, 'a'));
      await world.drain();
      await produce(world.topics.main, logins(2, 'b'));
      const [withoutKafka, withoutStore] = await Promise.all([
        run(world, ['status', '--json'], { KAFKA_BROKERS: '127.0.0.1:1' }),
        run(world, ['status', '--json'], { DATABASE_URL: 'postgres://postgres@127.0.0.1:1/x' }),
      ]);
      expect([withoutKafka.code, withoutStore.code]).toEqual([1, 1]);
      expect(parsed(withoutKafka)).toMatchObject({
        lag: { unknown: expect.stringContaining('Kafka cannot be reached') },
        balance: { records_read: 1, became: 1 },
      });
      expect(parsed(withoutStore)).toMatchObject({
        balance: { unknown: expect.stringContaining('Postgres cannot be reached') },
        lag: { records: 2, undecided_partitions: null },
        unread_topics: [],
      });
    }),
  );
});

describe('a topic that looks like a topic of events, and that no worker reads', () => {
  together('is reported by a running worker, its metric and status, until a connection names it', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { main } = world.topics;
      // One topic lacks a letter; the other begins as the documents recommend.
      const near = main.replace('.main', '.man');
      const prefixed = `promo.event.v1.${randomBytes(4).toString('hex')}`;
      const worker = await world.started();
      const line = 'topic of events has no reader: no connection names it';
      await withAdmin(
        (admin) =>
          admin.createTopics({ topics: [near, prefixed].map((topic) => ({ topic })), waitForLeaders: true }),
        world.brokers,
      );
      try {
        for (const topic of [near, prefixed])
          await worker.waitForLog((each) => each.msg === line && each.topic === topic);
        expect(worker.logged(line).find(({ topic }) => topic === near)).toMatchObject({
          level: 'warn',
          meant: main,
        });
        expect(await worker.metric('promo_intake_unread_topics')).toBeGreaterThanOrEqual(2);
        const json = parsed(await run(world, ['status', '--json']));
        expect(json).toMatchObject({
          unread_topics: expect.arrayContaining([
            { topic: near, meant: main },
            { topic: prefixed, meant: null },
          ]),
        });
        const text = (await run(world, ['status'])).output;
        expect(text).toContain(
          `no worker reads ${near}, which looks like a topic of events (did the sender mean ${main}?). Add it`,
        );
        expect(text).toContain(`no worker reads ${prefixed}, which looks like a topic of events. Add it`);

        const connections = [main, near, prefixed].map((topic) => connectionOf(topic));
        await world.apply([anOperator({ connections })]);
        await worker.waitForLog(
          (each) => each.msg === 'reading topics' && String(each.topics).includes(prefixed),
        );
        const after = parsed(await run(world, ['status', '--json']));
        expect(JSON.stringify(after)).not.toContain(`"topic":"${near}","meant"`);
        expect(worker.logged(line).filter(({ topic }) => topic === near)).toHaveLength(1);
      } finally {
        await withAdmin((admin) => deleteTopics(admin, [near, prefixed]), world.brokers);
      }
    }),
  );
});

describe('dead-letters', () => {
  together(
    'are listed with their cause and without their content, and replayed once a connection claims them [S4] [S5] [K1]',
    () =>
      inWorld({ topics: { main: 2 } }, async (world) => {
        const { main } = world.topics;
        const shared = [connectionOf(main, { id: 'one' }), connectionOf(main, { id: 'other' })];
        await world.apply([anOperator({ connections: shared })]);
        const [first, second, claimed] = logins(3, 'secret-player');
        const headers = { trace: ['a', 'b'] };
        await produce(main, [
          { ...first!, key: 'secret-key', headers, partition: 1 },
          second!,
          { ...claimed!, headers: { 'connection-id': 'one' } },
        ]);
        await world.drain();

        const list = await run(world, ['dead-letters', 'list', '--json']);
        expect(parsed(list)).toMatchObject({
          counts: { unclaimed: 2 },
          newest: [
            { reason: 'unclaimed', source: { topic: main } },
            { reason: 'unclaimed', source: { topic: main } },
          ],
        });
        expect(list.output).not.toMatch(/secret/);
        const one = [
          '--source-topic',
          main,
          '--source-partition',
          '1',
          '--from-offset',
          '0',
          '--to-offset',
          '0',
        ];
        const some = await run(world, ['dead-letters', 'list', ...one]);
        expect(some.output).toMatch(
          new RegExp(
            `^\\S+Z unclaimed: ${main}/1 offset 0 of \\S+Z, \\d+ bytes; letter at partition 0 offset \\d\\n  the record has no header connection-id,`,
          ),
        );
        expect(some.output).toContain(`${world.deadLetterTopic}: 1 dead letters (1 unclaimed)\n`);
        expect(await run(world, ['dead-letters', 'list', '--from-offset', '3'])).toMatchObject({ code: 2 });

        await world.apply([anOperator({ connections: [connectionOf(main, { id: 'one' })] })]);
        const replay = ['dead-letters', 'replay', '--reason', 'unclaimed'];
        expect(await run(world, replay)).toEqual({
          code: 0,
          output: `${main}: 2 records\nnothing was sent: add --confirm to send them\n`,
        });
        expect(await world.ends(main)).toEqual([2, 1]);
        expect(await run(world, [...replay, '--confirm', '--by', 'ops@desk'])).toMatchObject({
          code: 0,
          output: expect.stringContaining('2 records were sent (operation 1)'),
        });
        const moved = (await readTopic(main)).filter(({ partition }) => partition === 1);
        const origin = expect.stringMatching(new RegExp(`^${main}/1@0 \\d+$`));
        expect(moved.map(({ key, headers, value }) => ({ key, headers, value: String(value) }))).toEqual(
          [headers, { ...headers, 'dead-letter-replayed': [origin] }].map((headers) => {
            return { key: 'secret-key', headers, value: String(first?.value) };
          }),
        );
        await world.drain();
        expect(await world.verdicts()).toEqual({
          'secret-player-0': 'accepted',
          'secret-player-1': 'accepted',
          'secret-player-2': 'accepted',
        });

        // A second replay: no event counts twice, and the log has both replays.
        await run(world, [...replay, '--confirm']);
        await world.drain();
        expect(await world.balance()).toEqual({
          records: 7,
          accepted: 3,
          duplicate_deliveries: 2,
          dead_letters: 2,
        });
        expect(
          await world.rows(
            `select operation, requested_by, outcome ->> 'sent', request ->> 'reason', ended_at is not null from promo.operations order by 1, operation_no`,
          ),
        ).toEqual([
          ['dead_letter_replay', 'ops@desk', '2', 'unclaimed', 't'],
          ['dead_letter_replay', expect.stringContaining('@'), '2', 'unclaimed', 't'],
        ]);
      }),
  );

  together('a record of the largest readable size becomes a dead letter that can be read [S5] [S8]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { main } = world.topics;
      await world.apply([
        anOperator({ connections: ['one', 'two'].map((id) => connectionOf(main, { id })) }),
      ]);
      // In a batch, the record has 15 bytes in addition to its value.
      const bytes = 64 * 1024 * 1024 - 15;
      await produce(main, [{ value: Buffer.alloc(bytes) }], { compression: CompressionTypes.GZIP });
      await world.drain();
      const list = await run(world, ['dead-letters', 'list', '--json']);
      expect(parsed(list)).toMatchObject({ counts: { unclaimed: 1 }, newest: [{ bytes }] });
    }),
  );
});

describe('dead-letters replay', () => {
  together(
    'sends records that fit only when compressed, skips a record that is too large, and names it',
    () =>
      inWorld({ topics: { main: 1, other: 1 } }, async (world) => {
        const { main, other } = world.topics;
        const shared = [connectionOf(main, { id: 'one' }), connectionOf(main, { id: 'two' })];
        await world.apply([anOperator({ connections: shared })]);
        const [first, last] = logins(2, 'small');
        const long = bytesOf(aLogin({ event_id: 'long', note: 'a'.repeat(60_000) }));
        // The value cannot be compressed, and the event has no owner.
        const tooLarge = { value: `secret ${randomBytes(60_000).toString('base64')}` };
        await produce(main, [first!, { value: long }, tooLarge, last!]);
        await world.drain();
        await alterTopic(other, { 'max.message.bytes': '20000' });

        const replay = ['dead-letters', 'replay', '--to', other, '--confirm'];
        const { code, output } = await run(world, replay);
        expect(output).toMatch(new RegExp(`^${main}/0 offset 2 was not sent: .*larger than`, 'm'));
        expect(output).toContain('3 records were sent (operation 1)\n');
        expect(output).toContain(
          '1 were not sent; the lines above have the reasons. If they are too large, raise max.message.bytes',
        );
        expect(output).not.toContain('secret');
        expect(code).toBe(1);
        const sent = (await readTopic(other)).map(({ value }) => String(value));
        expect(sent).toEqual([first?.value, long, last?.value].map(String));
        expect(await world.rows('select outcome::text from promo.operations')).toEqual([
          ['{"sent": 3, "refused": 1, "repeated": 0, "undecodable": 0}'],
        ]);
      }),
  );

  together('reports the first error, also where the end of the operation cannot be recorded', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const { main } = world.topics;
      const shared = [connectionOf(main, { id: 'one' }), connectionOf(main, { id: 'two' })];
      await world.apply([anOperator({ connections: shared })]);
      await produce(main, logins(1, 'a'));
      await world.drain();
      await world.pool.query('drop function promo.end_operation');
      const lines = (await run(world, ['dead-letters', 'replay', '--to', 'none', '--confirm'])).output
        .trim()
        .split('\n');
      expect(lines).toEqual([
        'interrupted: at least 0 records were sent before',
        expect.stringMatching(
          /^the end of operation 1 could not be written to promo.operations: Postgres answered: /,
        ),
        'Kafka has no topic none, or hides it from this user',
      ]);
    }),
  );
});

describe('replay', () => {
  together(
    'answers decided records as before, and decides records that the group had passed over, beside a worker [K3] [U1] [S7]',
    () =>
      inWorld({ topics: { main: 1, verdicts: 1 } }, async (world) => {
        const { main, verdicts } = world.topics;
        const settings = { VERDICT_TOPIC: verdicts };
        await produce(main, [...logins(3, 'a'), { value: 'no json' }]);
        await produce(main, logins(2, 'a')); // duplicates
        await world.drain(settings);
        await produce(main, logins(4, 'passed-over'));
        await withAdmin(async (admin) => {
          const partitions = [{ partition: 0, offset: '10' }];
          await admin.setOffsets({ groupId: world.groupId, topic: main, partitions });
        });
        const worker = await world.started(settings);
        const before = await world.ends(verdicts);

        const range = [
          'replay',
          '--topic',
          main,
          '--partition',
          '0',
          '--from-offset',
          '1',
          '--to-offset',
          '7',
        ];
        const planned = `${main}/0: offsets 1 to 7\n`;
        expect(await run(world, range, settings)).toEqual({
          code: 0,
          output: `${planned}nothing was replayed: add --confirm to replay it\n`,
        });
        expect(await run(world, [...range, '--confirm', '--by', 'ops'], settings)).toEqual({
          code: 0,
          output: `${planned}redeliveries: 5\naccepted: 2\nreplayed (operation 1)\n`,
        });
        const once = { records: 8, accepted: 5, duplicate_deliveries: 2, events_without_key: 1 };
        expect(await world.balance()).toEqual(once);
        expect((await world.ends(verdicts))[0]).toBe((before[0] ?? 0) + 7);
        // Again, and by time: all records but the last two are decided by now.
        const all = ['replay', '--topic', main, '--since', '2020-01-01T00:00:00Z', '--confirm'];
        expect((await run(world, all)).output).toContain('redeliveries: 8\naccepted: 2\n');
        expect((await run(world, all)).output).toContain('redeliveries: 10\nreplayed');
        expect(await world.balance()).toEqual({ ...once, records: 10, accepted: 7 });
        expect(await world.committed(main)).toEqual([10]);
        expect(
          await world.rows(
            `select requested_by, request ->> 'topic', request #>> '{ranges,0,from}', outcome::text from promo.operations where operation_no = 1`,
          ),
        ).toEqual([['ops', main, '1', '{"accepted": 2, "redeliveries": 5}']]);
        await worker.stop();

        expect(
          await run(world, ['replay', '--topic', 'none', '--since', '2020-01-01T00:00:00Z']),
        ).toMatchObject({ code: 1 });
        expect(await run(world, ['replay', '--topic', main])).toMatchObject({ code: 2 });
        const future = ['replay', '--topic', main, '--since', '2999-01-01T00:00:00Z'];
        const nothing = { code: 0, output: 'the group has read nothing of this range\n' };
        expect(await run(world, [...future, '--confirm'])).toEqual(nothing);
        expect(await run(world, future)).toEqual(nothing);
        expect(await run(world, [...future, '--partition', '9', '--confirm'])).toEqual({
          code: 1,
          output: `${main} has no partition 9. Correct --partition\n`,
        });

        // Without its connection a topic is not replayed. No connection would claim its records, and records
        // that have verdicts would become dead letters.
        await world.apply([anOperator({ connections: [connectionOf(`${main}.other`)] })]);
        expect(await run(world, all)).toEqual({
          code: 1,
          output: expect.stringMatching(/^no connection of the reference data in force names /),
        });
        expect(await world.balance()).toEqual({ ...once, records: 10, accepted: 7 });
        expect(await world.rows('select count(*) from promo.operations')).toEqual([['3']]);
      }),
  );
});

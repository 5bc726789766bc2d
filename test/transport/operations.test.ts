/** Operations on real servers: looking at a deployment, and reading again what it has read. */
import { aLogin, bytesOf } from '../support/builders';
import { type Outgoing, produce } from '../support/kafka';
import { RunningCommand, type Settings } from '../support/worker';
import { sideBySide } from './side-by-side';
import { inWorld, type World } from './world';

const logins = (count: number, name: string): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({ value: bytesOf(aLogin({ event_id: `${name}-${n}` })) }));

async function run({ settings }: World<string>, args: readonly string[], more: Settings = {}) {
  const command = new RunningCommand(args, { ...settings, ...more });
  const { code } = await command.ending(100_000);
  return { code, output: command.output() };
}
const parsed = ({ output }: { output: string }): unknown => JSON.parse(output);

const together = sideBySide(240_000);

describe('status', () => {
  together('tells lag in records and seconds, and asks for a person where no worker reads it', () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      await produce(main, logins(3, 'a'));
      await world.drain();
      const well = await run(world, ['status', '--json', '--check']);
      expect(parsed(well)).toMatchObject({
        needs_a_person: [],
        schema: { newest: '0003_operations_log.sql', missing: [] },
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
      expect(output).toMatch(/lag +2 records, 9\d s; 0 undecided partitions/);
      const password = new URL(world.databaseUrl).password;
      expect(password === '' || !output.includes(password)).toBe(true);
    }),
  );

  together('tells of Kafka where Postgres is away, and of Postgres where Kafka is', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      await produce(world.topics.main, logins(1, 'a'));
      await world.drain();
      const [withoutKafka, withoutStore] = await Promise.all([
        run(world, ['status', '--json'], { KAFKA_BROKERS: '127.0.0.1:1' }),
        run(world, ['status', '--json'], {
          DATABASE_URL: 'postgres://postgres@127.0.0.1:1/x',
          KAFKA_TOPICS: world.topics.main,
        }),
      ]);
      expect([withoutKafka.code, withoutStore.code]).toEqual([1, 1]);
      expect(parsed(withoutKafka)).toMatchObject({
        lag: { unknown: expect.stringContaining('Kafka cannot be reached') },
        balance: { records_read: 1, became: 1 },
      });
      expect(parsed(withoutStore)).toMatchObject({
        balance: { unknown: expect.stringContaining('Postgres cannot be reached') },
        lag: { records: 0 },
      });
    }),
  );
});

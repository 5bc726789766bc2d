/** The worker as a process: its log, its answers, the settings that it refuses, and its end. */
import { type AddressInfo, createServer } from 'node:net';
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { aBet, aDeposit, aLogin, anOperator, aRefund, bytesOf } from '../support/builders';
import { type Outgoing, produce } from '../support/kafka';
import { freshDatabase, schemaRegistryUrl, withAdmin } from '../support/servers';
import { startWorker } from '../support/worker';
import { framed } from './registry';
import { sideBySide } from './side-by-side';
import { connectionOf, inWorld } from './world';

const LONG = 60_000;
const together = sideBySide();
const MARKER = 'XMARKERX';

describe('logs', () => {
  together('hold no player_ref, payload, key or header of a record, at any level', () =>
    inWorld<'main' | 'shared' | 'verdicts'>(
      {
        topics: { main: 1, shared: 1, verdicts: 1 },
        operators: ({ main, shared }) => [
          anOperator({
            connections: [
              connectionOf(main),
              connectionOf(shared, { id: 'one' }),
              connectionOf(shared, { id: 'two' }),
            ],
          }),
        ],
      },
      async (world) => {
        const { main, shared, verdicts } = world.topics;
        const marked = (more = {}) =>
          aBet({
            event_id: `${MARKER}-event`,
            player_ref: `${MARKER}-player`,
            round_id: `${MARKER}-round`,
            ...more,
          });
        const values = [
          marked(),
          marked({ amount: '1.23' }),
          aRefund(marked({ event_id: `${MARKER}-1` })),
          marked({ event_id: `${MARKER}-2`, game: { id: MARKER } }),
          marked({ event_id: `${MARKER}-3`, brand: MARKER }),
          marked({ event_id: `${MARKER}-4`, amount: MARKER }),
          marked({ event_id: `${MARKER}-5`, currency: MARKER }),
          marked({ event_id: `${MARKER}-6`, kind: MARKER }),
          marked({ event_id: `${MARKER}-7`, occurred_at: MARKER }),
          marked({ event_id: `${MARKER}-8`, spec: MARKER }),
          marked({ event_id: `${MARKER}-9`, player_ref: `${MARKER}\u0000` }),
          marked({ event_id: 9, [MARKER]: MARKER }),
          { [MARKER]: MARKER },
        ].map(bytesOf);
        const headers = { [`${MARKER}-header`]: MARKER, 'connection-id': `${MARKER}-connection` };
        const records: Outgoing[] = [
          ...values,
          Buffer.from(`{"event_id": "${MARKER}`),
          framed(1_999_999_999, MARKER),
          Buffer.from([0, 0x58]),
        ].map((value) => ({ value, key: `${MARKER}-key`, headers }));
        await produce(main, records);
        await produce(shared, records);
        const worker = await world.drain({
          LOG_LEVEL: 'trace',
          VERDICT_TOPIC: verdicts,
          SCHEMA_REGISTRY_URL: schemaRegistryUrl(),
        });
        expect(await world.balance()).toMatchObject({
          records: 2 * records.length,
          dead_letters: records.length + 1,
        });
        expect(worker.output()).toContain('"level":"debug"');
        expect(worker.output()).not.toContain(MARKER);
        expect(worker.output()).not.toContain(Buffer.from(MARKER).toString('base64').slice(0, 8));
        expect(worker.output()).not.toContain(Buffer.from(MARKER).toString('hex'));
      },
    ),
  );

  together('are one JSON object per line, and hold no password of an address', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      await produce(world.topics.main, [{ value: bytesOf(aLogin()) }]);
      const worker = await world.drain({
        LOG_LEVEL: 'trace',
        SCHEMA_REGISTRY_URL: 'http://user:XSECRETX@127.0.0.1:1',
      });
      const lines = worker.output().split('\n').slice(0, -1);
      expect(lines.length).toBeGreaterThan(5);
      expect(lines.filter((line) => !line.startsWith('{'))).toEqual([]);
      const { password } = new URL(world.databaseUrl);
      expect(password.length).toBeGreaterThan(5);
      expect(worker.output()).not.toContain(password);
      expect(worker.output()).not.toContain('XSECRETX');
    }),
  );
});

describe('health and metrics', () => {
  together('answer from the start to the end, and count the decided records [D3]', () =>
    inWorld({ topics: { main: 2 } }, async (world) => {
      const { main } = world.topics;
      const event = aDeposit();
      await produce(main, [
        ...[event, event, aBet({ amount: '0' })].map((value) => ({ value: bytesOf(value) })),
        { value: 'no json', partition: 1 },
      ]);
      const worker = await world.started();
      // A batch is counted before its offset is committed.
      await until(
        'all offsets are committed',
        LONG,
        async () => (await world.committed(main)).join() === '3,1',
      );
      expect(await worker.get('/livez')).toEqual({ status: 200, text: 'live\n' });
      expect(await worker.get('/readyz')).toEqual({ status: 200, text: 'ready\n' });
      expect((await worker.get('/')).status).toBe(404);
      const { text } = await worker.get('/metrics');
      const verdict = (name: string) => {
        const line = text
          .split('\n')
          .find((each) => each.startsWith('promo_intake_verdicts_total{') && each.includes(name));
        return Number(line?.split(' ').at(-1));
      };
      expect(verdict('verdict="accepted"')).toBe(1);
      expect(verdict('verdict="duplicate"')).toBe(1);
      expect(verdict('reason="zero_amount"')).toBe(1);
      expect(verdict('reason="no_idempotency_key"')).toBe(1);
      expect(text).toContain(`connection="of-${main}"`);
      expect(await worker.metric('promo_intake_undecided_partitions')).toBe(0);
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
    }),
  );
});

describe('the start', () => {
  together('names all faults of the settings at once, connects to nothing, and ends with 2', async () => {
    const worker = startWorker({
      KAFKA_BROKERS: 'no-port',
      DATABASE_URL: 'mysql://user:XSECRETX@host/db',
      HTTP_PORT: '99999',
      LOG_LEVEL: 'loud',
      VERDICT_TOPIC: 'with space',
      KAFKA_GROUP: 'a setting that does not exist',
    });
    expect(await worker.ending()).toEqual({ code: 2, signal: null });
    for (const setting of [
      'KAFKA_BROKERS',
      'DATABASE_URL',
      'HTTP_PORT',
      'LOG_LEVEL',
      'VERDICT_TOPIC',
      'KAFKA_GROUP:',
    ])
      expect(worker.output()).toContain(setting);
    expect(worker.output()).not.toContain('XSECRETX');
    expect(worker.log()).toEqual([]);
  });

  together('on a database that lacks migrations reports it and ends with 1', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const empty = await freshDatabase();
      try {
        const worker = world.start({ DATABASE_URL: empty.url });
        expect(await worker.ending()).toEqual({ code: 1, signal: null });
        const [line] = worker.logged('the worker cannot start');
        expect(line?.error).toMatch(/^The database lacks the migrations 0001.*\. Run: promo-intake migrate$/);
      } finally {
        await empty.drop();
      }
    }),
  );

  together('with a compacted dead-letter or verdict topic reports it and ends with 1', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const configEntries = [{ name: 'cleanup.policy', value: 'compact,delete' }];
      await withAdmin(
        (admin) =>
          admin.createTopics({
            topics: [{ topic: world.deadLetterTopic, configEntries }],
            waitForLeaders: true,
          }),
        world.brokers,
      );
      const worker = world.start();
      expect(await worker.ending()).toEqual({ code: 1, signal: null });
      const [line] = worker.logged('the worker cannot start');
      expect(line?.error).toBe(
        `Topic ${world.deadLetterTopic} is compacted. A compacted topic refuses messages without a key: set its cleanup.policy to delete`,
      );
    }),
  );

  together('on a port that is in use reports it and ends with 1', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const holder = createServer();
      await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
      try {
        const address: AddressInfo | string | null = holder.address();
        if (address === null || typeof address === 'string') throw new Error('no port');
        const worker = world.start({ HTTP_PORT: String(address.port) });
        expect(await worker.ending()).toEqual({ code: 1, signal: null });
        expect(worker.output()).toMatch(/^HTTP_PORT cannot be served: listen EADDRINUSE.*\n$/m);
        expect(worker.output()).not.toContain('serveHealth');
      } finally {
        await new Promise((resolve) => holder.close(resolve));
      }
    }),
  );

  together('creates the dead-letter topic and the verdict topic where they are missing [S5 S7]', () =>
    inWorld({ topics: { main: 1 } }, async (world) => {
      const verdictTopic = `${world.topics.main}.verdicts`;
      const workers = [1, 2].map(() => world.start({ VERDICT_TOPIC: verdictTopic }, { drain: true }));
      const ends = await Promise.all(workers.map((worker) => worker.ending()));
      expect(ends.map(({ code }) => code)).toEqual([0, 0]);
      const existing = await withAdmin((admin) => admin.listTopics());
      expect(existing).toEqual(expect.arrayContaining([world.deadLetterTopic, verdictTopic]));
      await withAdmin((admin) => deleteTopics(admin, [verdictTopic]));
    }),
  );

  together(
    'before any reference data is applied reads nothing and stays live, and reads once data is applied [U6]',
    () =>
      inWorld<'main'>({ topics: { main: 1 }, operators: () => [] }, async (world) => {
        const { main } = world.topics;
        await produce(main, [{ value: bytesOf(aLogin({ event_id: 'e' })) }]);
        const worker = world.start();
        await worker.waitForLog('there are no topics to read yet');
        expect((await worker.get('/livez')).status).toBe(200);
        await world.apply([anOperator({ connections: [connectionOf(main)] })]);
        await world.untilDecided(1, LONG);
      }),
  );
});

describe('the end', () => {
  together('comes without an exit call once everything is closed: no timer and no connection is left', () =>
    inWorld({ topics: { main: 1, verdicts: 1 } }, async (world) => {
      await produce(world.topics.main, [{ value: bytesOf(aLogin()) }]);
      const worker = await world.started({ VERDICT_TOPIC: world.topics.verdicts });
      await world.untilDecided(1);
      worker.signal('SIGINT');
      const stopped = await worker.waitForLog('stopped');
      expect(await worker.ending()).toEqual({ code: 0, signal: null });
      // Node ends a process once nothing is left. A busy machine may be seconds late.
      expect(Date.now() - Date.parse(stopped.time)).toBeLessThan(8_000);
    }),
  );
});

/** Alerts and dashboards on a real Prometheus, which scrapes real workers. Skipped, by name, where the machine has none. */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { alertsOf, faster, panels, RULES, SCALING, selecting } from '../support/alerts';
import { aBrand, aLogin, anOperator, bytesOf } from '../support/builders';
import { testWith } from '../support/chart';
import { type Outgoing, produce } from '../support/kafka';
import { findPrometheus, type Prometheus, promtool, withPrometheus } from '../support/prometheus';
import { schemaRegistryUrl, withAdmin } from '../support/servers';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';
import { framed } from '../transport/registry';
import { connectionOf, inOwnWorld } from '../transport/world';

const LONG = 60_000;
jest.setTimeout(4 * LONG);
afterEach(killWorkers);

/** A minute of an alert passes in less than a second. */
const TIMES_FASTER = 100;
const INTERVAL_MS = 500;
const HOUR_MS = 3_600_000;
/** Each waits so long in the store that its topic lags, and no so long that the store gives up. */
const SLOW_EVENTS = 60;

testWith(findPrometheus('promtool'))(
  'promtool finds every alert valid, and each fires when it should, and not before',
  () => {
    const directory = mkdtempSync(join(tmpdir(), 'promtool-'));
    try {
      writeFileSync(join(directory, 'alerts.yaml'), selecting('namespace="a",pod=~"one-worker-.*"', RULES));
      copyFileSync(join(__dirname, 'alerts.promtool.yaml'), join(directory, 'tests.yaml'));
      expect(promtool(['check', 'rules', 'alerts.yaml'], directory)).toEqual({
        status: 0,
        output: expect.stringContaining(`${alertsOf(RULES).length} rules found`),
      });
      expect(promtool(['test', 'rules', 'tests.yaml'], directory)).toEqual({
        status: 0,
        output: expect.stringContaining('SUCCESS'),
      });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
);

/** Of the workers below. */
const WORKERS = 'namespace="test",pod=~"worker-.*"';
const SCALING_OF_WORKERS = selecting(WORKERS, SCALING);

testWith(findPrometheus('promtool'))(
  'what KEDA scales by is the lag that is being decided, of this release, and nothing while the store is away or nobody is scraped',
  () => {
    const directory = mkdtempSync(join(tmpdir(), 'promtool-'));
    const labels = (pod: string) => `namespace="test", pod="${pod}"`;
    const lag = (pod: string, partition: number, state: string, values: string) => ({
      series: `promo_intake_lag_records{${labels(pod)}, topic="t", partition="${partition}", state="${state}"}`,
      values,
    });
    const waits = (cause: string, values: string) => ({
      series: `promo_intake_undecided_seconds{${labels('worker-0')}, cause="${cause}"}`,
      values,
    });
    const test = {
      interval: '1m',
      input_series: [
        lag('worker-0', 0, 'deciding', '100000x30 stale'),
        lag('worker-1', 1, 'deciding', '200000x30 stale'),
        lag('worker-1', 2, 'undecided', '500000x30 stale'),
        lag('other-0', 0, 'deciding', '700000x50'),
        waits('kafka', '90x30 stale'),
        // Minute 10 to 19.
        waits('store', '0x9 30+60x9 0x10 stale'),
      ],
      promql_expr_test: [
        ...[5, 25].map((minute) => ({
          expr: SCALING_OF_WORKERS,
          eval_time: `${minute}m`,
          exp_samples: [{ labels: '{}', value: 300_000 }],
        })),
        ...[12, 19, 35].map((minute) => ({
          expr: SCALING_OF_WORKERS,
          eval_time: `${minute}m`,
          exp_samples: [],
        })),
      ],
    };
    try {
      writeFileSync(
        join(directory, 'tests.yaml'),
        JSON.stringify({ evaluation_interval: '1m', tests: [test] }),
      );
      expect(promtool(['test', 'rules', 'tests.yaml'], directory)).toEqual({
        status: 0,
        output: expect.stringContaining('SUCCESS'),
      });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
);

const logins = (name: string, count: number, brand = 'main', more: Partial<Outgoing> = {}): Outgoing[] =>
  Array.from({ length: count }, (_, n) => ({
    value: bytesOf(aLogin({ event_id: `${name}-${n}`, brand })),
    ...more,
  }));

/** What the store does to events by their ids: as a defect, as a full disk, and as one that is slow. */
const DISTURB = `create sequence panics;
create function disturb() returns trigger language plpgsql as $$ begin
  if new.event_id like 'panic%' and nextval('panics') <= 2 then raise exception 'of this event'; end if;
  if new.event_id like 'stuck%' then raise exception using errcode = '53100', message = 'the disk is full'; end if;
  if new.event_id like 'slow%' then perform pg_sleep(0.5); end if;
  return new; end $$;
create trigger disturb before insert on promo_store.history for each row execute function disturb();`;

testWith(findPrometheus('prometheus'))(
  'each alert fires by its fault, and every query of every panel returns series',
  () =>
    inOwnWorld(
      { need: ['kafka'] },
      {
        topics: { main: 1, paused: 1, shared: 1, panic: 1, gap: 1, stuck: 1, slow: 1 },
        operators: ({ shared, ...topics }) => [
          anOperator({
            brands: [aBrand({ id: 'main' }), aBrand({ id: 'other' })],
            connections: [
              ...Object.values(topics).map((topic) => connectionOf(topic)),
              ...['one', 'two'].map((id) => connectionOf(shared, { id })),
              { id: 'hook', transport: 'webhook' },
            ],
          }),
        ],
        settings: {
          SCHEMA_REGISTRY_URL: schemaRegistryUrl(),
          BATCH_EVENTS: '10',
          PARTITIONS_AT_ONCE: '8',
          REJECT_LIMIT_PERCENT: '60',
          REJECT_WINDOW_EVENTS: '100',
          REJECT_MIN_EVENTS: '20',
        },
      },
      async ({ topics, brokers, ...world }, { kafka }) => {
        const send = (topic: string, records: readonly Outgoing[]) => produce(topic, records, { brokers });
        await world.pool.query(DISTURB);
        // The group stood at 0, and two of the records behind it are gone before it comes back.
        await send(topics.gap, logins('gap', 4));
        await withAdmin(async (admin) => {
          await admin.setOffsets({
            groupId: world.groupId,
            topic: topics.gap,
            partitions: [{ partition: 0, offset: '0' }],
          });
          // Asked first, so that the client knows the topic.
          await admin.fetchTopicOffsets(topics.gap);
          await admin.deleteTopicRecords({ topic: topics.gap, partitions: [{ partition: 0, offset: '2' }] });
        }, brokers);
        await send(topics.main, [...logins('again', 1), ...logins('again', 1)]);
        await send(topics.main, [{ value: framed(1_999_999_999, 'x') }]);
        await send(topics.shared, logins('nobody', 3));
        await send(topics.panic, logins('panic', 1));
        await send(topics.stuck, logins('stuck', 1));
        const old = { timestamp: String(Date.now() - HOUR_MS) };
        await send(topics.slow, logins('slow', SLOW_EVENTS, 'main', old));
        const worker = await world.started();
        const { port } = await worker.waitForLog('health and metrics are served');
        const secret = aSecret();
        const webhook = await startWebhook({ DATABASE_URL: world.databaseUrl }, { hook: secret });
        const byWebhook = senderTo(webhook.port, 'hook', secret);
        const { port: hookPort } = await webhook.command.waitForLog('health and metrics are served');

        await withPrometheus(
          {
            targets: [
              { port: Number(port), labels: { namespace: 'test', pod: 'worker-0' } },
              { port: Number(hookPort), labels: { namespace: 'test', pod: 'worker-hook-0' } },
            ],
            rules: faster(selecting(WORKERS, RULES), TIMES_FASTER),
            intervalMs: INTERVAL_MS,
          },
          async (prometheus) => {
            // In portions: the limit looks at batches, and a share needs two points in time.
            const feeding = feed(async (n) => {
              await send(topics.main, [...logins(`good-${n}`, 6), ...logins(`bad-${n}`, 4, 'none')]);
              await send(topics.paused, logins(`paused-${n}`, 10, 'none'));
              await byWebhook(aLogin());
            });
            const fired = new Set<string>();
            try {
              const expected = alertsOf(RULES).map(({ name }) => name);
              const others = expected.filter((name) => name !== 'PromoIntakeNotReading');
              await untilFired(prometheus, fired, others);
              // It may have fired before: Prometheus takes up what it scrapes seconds after its start, and till then there is no worker.
              expect(await prometheus.firing()).not.toContain('PromoIntakeNotReading');
              fired.delete('PromoIntakeNotReading');
              await everyPanelHasSeries(prometheus);
              // One topic is stuck in the store, so that nothing is scaled.
              expect(await prometheus.query(SCALING_OF_WORKERS.split(' unless ')[0] ?? '')).toHaveLength(1);
              expect(await prometheus.query(SCALING_OF_WORKERS)).toEqual([]);
              await feeding.end();
              await kafka.suspend();
              await untilFired(prometheus, fired, expected);
              await kafka.resume();
            } finally {
              await feeding.end();
            }
          },
        );
      },
    ),
);

/** Does something four times a second until it is ended. */
function feed(work: (n: number) => Promise<void>): { end(): Promise<void> } {
  let ended = false;
  const running = (async () => {
    for (let n = 0; !ended; n++) {
      await work(n);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  })();
  running.catch(() => undefined);
  return {
    async end() {
      ended = true;
      await running;
    },
  };
}

async function untilFired(
  prometheus: Prometheus,
  fired: Set<string>,
  names: readonly string[],
): Promise<void> {
  const missing = () => names.filter((name) => !fired.has(name));
  try {
    await until('all alerts have fired', LONG, async () => {
      for (const name of await prometheus.firing()) fired.add(name);
      return missing().length === 0;
    });
  } catch (error) {
    throw new Error(`these did not fire: ${missing().join(', ')}`, { cause: error });
  }
}

async function everyPanelHasSeries(prometheus: Prometheus): Promise<void> {
  const empty: string[] = [];
  for (const { title, expressions } of panels())
    for (const expression of expressions) {
      const query = expression.replaceAll('$namespace', '.*').replaceAll('$__rate_interval', '10s');
      if ((await prometheus.query(query)).length === 0) empty.push(`${title}: ${query}`);
    }
  expect(empty).toEqual([]);
}

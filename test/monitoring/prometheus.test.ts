/**
 * Alerts and dashboards on a real Prometheus, which scrapes real workers. Skipped, by name, on a machine
 * without Prometheus.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { framed } from '../stream/registry';
import { connectionOf, inOwnWorld } from '../stream/world';
import { alertsOf, faster, panels, RULES, SCALING, selecting } from '../support/alerts';
import { aBrand, aLogin, anOperator, bytesOf } from '../support/builders';
import { testWith } from '../support/chart';
import { type Outgoing, produce } from '../support/kafka';
import { findPrometheus, type Prometheus, promtool, withPrometheus } from '../support/prometheus';
import { dial, signedText } from '../support/raw-http';
import { schemaRegistryUrl, withAdmin } from '../support/servers';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

const LONG = 60_000;
jest.setTimeout(4 * LONG);
afterEach(killWorkers);

/** A minute of an alert passes in less than a second. */
const TIMES_FASTER = 100;
const INTERVAL_MS = 500;
const HOUR_MS = 3_600_000;
/**
 * Each event waits long enough in the store that its topic lags, and not so long that the statement times
 * out.
 */
const SLOW_EVENTS = 60;

testWith(findPrometheus('promtool'))(
  'promtool finds every alert valid, and each fires at its time and not before',
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
  'KEDA scales by the deciding lag of this release, and not while the store is away or nothing is scraped',
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
        // Minutes 10 to 19.
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

/** The effect of the store on events, by their ids: a defect, a full disk, and a slow store. */
const DISTURB = `create sequence panics;
create function disturb() returns trigger language plpgsql as $$ begin
  if new.event_id like 'panic%' and nextval('panics') <= 2 then raise exception 'of this event'; end if;
  if new.event_id like 'stuck%' then raise exception using errcode = '53100', message = 'the disk is full'; end if;
  if new.event_id like 'slow%' then perform pg_sleep(0.5); end if;
  return new; end $$;
grant usage on sequence panics to public;
create trigger disturb before insert on promo_store.history for each row execute function disturb();`;

/**
 * Promtool alone proves these alerts. Most of their processes do not run here. The limits on a sender's log
 * lines prevent a full log. A quota throttles in waves of 11 s, and the accelerated window is shorter.
 */
const ELSEWHERE = [
  ...['PromoIntakePseudonymsLag', 'PromoIntakeRollupsLag', 'PromoIntakePromotionsLag'],
  ...['PromoIntakeCompletionsLag', 'PromoIntakeVerdictTopicRefuses', 'PromoIntakeRetentionFails'],
  ...['PromoIntakeLogDropped', 'PromoIntakeThrottled'],
];

/** Metrics of processes that do not run here, and of features that this world does not use. */
const METRICS_ELSEWHERE =
  /promo_intake_(rollups|pseudonyms|promotions|completions?|console|published_verdicts|test_verdicts|verdict_topic|webhook_rehears)/;

const UNRESOLVED = `insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, state, due_at)
values ('acme', 'op-1', 'reconcile', '', '{}', '{}', 'unresolved', now())`;

testWith(findPrometheus('prometheus'))(
  'alerts of workers and webhooks fire at their faults, and each query of their panels returns series',
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
        await world.pool.query(UNRESOLVED);
        // The group was at offset 0, and two later records are gone before it comes back.
        await send(topics.gap, logins('gap', 4));
        await withAdmin(async (admin) => {
          await admin.setOffsets({
            groupId: world.groupId,
            topic: topics.gap,
            partitions: [{ partition: 0, offset: '0' }],
          });
          // Requested first, so that the client knows the topic.
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
        const { port } = await worker.waitForLog('serving health and metrics');
        const secret = aSecret();
        const webhook = await startWebhook({ DATABASE_URL: world.writerUrl }, { hook: secret });
        const byWebhook = senderTo(webhook.port, 'hook', secret);
        const { port: hookPort } = await webhook.command.waitForLog('serving health and metrics');
        const replayed = signedText({ connectionId: 'hook', secret, body: JSON.stringify(aLogin()) });

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
            // In portions: the limit counts batches, and a rate needs two points in time.
            const feeding = feed(async (n) => {
              await send(topics.main, [...logins(`good-${n}`, 6), ...logins(`bad-${n}`, 4, 'none')]);
              await send(topics.paused, logins(`paused-${n}`, 10, 'none'));
              await byWebhook(aLogin());
              // Like a load balancer with another protocol, a sender that replays requests, and one without a
              // secret.
              await say(webhook.port, 'no http\r\n\r\n', true);
              await say(webhook.port, replayed, false);
              await byWebhook(aLogin(), { secret: aSecret() });
            });
            const fired = new Set<string>();
            try {
              const expected = alertsOf(RULES).flatMap(({ name }) =>
                ELSEWHERE.includes(name) ? [] : [name],
              );
              const others = expected.filter((name) => name !== 'PromoIntakeNotReading');
              await untilFired(prometheus, fired, others);
              // The alert may have fired before: Prometheus scrapes first some seconds after its start, and
              // sees no worker before.
              expect(await prometheus.firing()).not.toContain('PromoIntakeNotReading');
              await everyPanelHasSeries(prometheus);
              // One topic is stuck in the store, so nothing is scaled.
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

/**
 * Sends bytes over a new connection, and waits for the answer. @param ends whether the bytes end the
 * connection
 */
async function say(port: number, bytes: string, ends: boolean): Promise<void> {
  const line = dial(port);
  line.socket.write(bytes);
  if (ends) await line.closed();
  else await until('it is answered', LONG, () => line.statuses().length > 0);
  line.socket.destroy();
}

const FEED_PAUSE_MS = 250;

/** Repeats an action with a pause until it is stopped. */
function feed(work: (n: number) => Promise<unknown>): { end(): Promise<void> } {
  let ended = false;
  const running = (async () => {
    for (let n = 0; !ended; n++) {
      await work(n);
      await new Promise((resolve) => setTimeout(resolve, FEED_PAUSE_MS));
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
      if (METRICS_ELSEWHERE.test(expression)) continue;
      const query = expression.replaceAll('$namespace', '.*').replaceAll('$__rate_interval', '10s');
      if ((await prometheus.query(query)).length === 0) empty.push(`${title}: ${query}`);
    }
  expect(empty).toEqual([]);
}

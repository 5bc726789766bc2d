/** Traces as a collector of OpenTelemetry receives them, and workers whose collector fails. */
import { execFileSync } from 'node:child_process';
import { aBet, anOperator, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { type Collector, startCollector } from '../support/otlp';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { program } from '../support/worker';
import { sideBySide } from './side-by-side';
import { inWorld, type World } from './world';

const together = sideBySide();
const MARKER = 'XMARKERX';
const TRACE = 'a'.repeat(32);
const OTHER_TRACE = 'b'.repeat(32);

async function withCollector(
  answer: number | null,
  work: (collector: Collector, world: World<'main'>) => Promise<void>,
): Promise<void> {
  const collector = await startCollector(answer);
  try {
    await inWorld({ topics: { main: 1 } }, (world) => work(collector, world));
  } finally {
    await collector.close();
  }
}

const record = (id: string, traceparent?: string) => ({
  value: bytesOf(aBet({ event_id: `${MARKER}-${id}`, player_ref: MARKER, round_id: `${MARKER}-${id}` })),
  ...(traceparent === undefined ? {} : { headers: { traceparent } }),
});

describe('a batch', () => {
  together(
    'is a span with links to the spans of its producers, and with a child for each step of its transaction',
    () =>
      withCollector(200, async (collector, world) => {
        await produce(world.topics.main, [
          record('1', `00-${TRACE}-1111111111111111-01`),
          record('2', `00-${TRACE}-1111111111111111-01`),
          record('3', `00-${TRACE}-2222222222222222-01`),
          record('4', `00-${OTHER_TRACE}-3333333333333333-00`),
          record('5'),
        ]);
        await world.drain({
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
          OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%2Cb',
          OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
        });
        const [request] = collector.requests;
        expect(request).toMatchObject({
          path: '/v1/traces',
          headers: { 'content-type': 'application/x-protobuf', 'api-key': 'a,b' },
        });
        const batches = collector.spans.filter(({ kind }) => kind === CONSUMER);
        expect(sum(batches.map(({ attributes }) => attributes['messaging.batch.message_count']))).toBe(5);
        for (const batch of batches) {
          expect(batch).toMatchObject({
            name: `process ${world.topics.main}`,
            parentSpanId: '',
            status: 0,
            attributes: {
              'messaging.system': 'kafka',
              'messaging.operation.name': 'process',
              'messaging.operation.type': 'process',
              'messaging.destination.name': world.topics.main,
              'messaging.destination.partition.id': '0',
              'messaging.consumer.group.name': world.groupId,
              'promo_intake.decided_count': batch.attributes['messaging.batch.message_count'],
            },
            resource: {
              'service.name': 'promo-intake',
              'deployment.environment.name': 'test',
            },
          });
          const steps = collector.spans.filter(({ parentSpanId }) => parentSpanId === batch.spanId);
          expect(steps.map(({ name, kind }) => [name, kind])).toEqual([
            ['connect', CLIENT],
            ['find', CLIENT],
            ['lock', CLIENT],
            ['decide', INTERNAL],
            ['write', CLIENT],
          ]);
          expect(new Set(steps.map(({ traceId }) => traceId))).toEqual(new Set([batch.traceId]));
          expect(sum(steps.map(({ seconds }) => seconds))).toBeLessThanOrEqual(
            batch.seconds + ROUNDING_SECONDS,
          );
        }
        expect(batches.flatMap(({ links }) => links)).toEqual([
          { traceId: TRACE, spanId: '1111111111111111', attributes: { 'messaging.kafka.offset': 0 } },
          { traceId: TRACE, spanId: '2222222222222222', attributes: { 'messaging.kafka.offset': 2 } },
        ]);
        expect(JSON.stringify(collector.spans)).not.toContain(MARKER);
      }),
  );

  together('that cannot be decided is a span with the error, and so is the step that failed', () =>
    withCollector(200, async (collector, world) => {
      const worker = await world.started({
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.endpoint}/elsewhere`,
        OTEL_SERVICE_NAME: 'intake-of-a-test',
      });
      await world.rows('alter table promo_store.history rename to history_away');
      await produce(world.topics.main, [record('1')]);
      await worker.waitForLog('partition is undecided');
      await world.rows('alter table promo_store.history_away rename to history');
      await world.untilDecided(1);
      await worker.stop();
      expect(collector.requests[0]?.path).toBe('/elsewhere');
      const failed = collector.spans.filter(({ status }) => status === ERROR);
      expect(failed.map(({ name, attributes }) => [name, attributes['error.type']])).toEqual([
        ['write', 'StoreError'],
        [`process ${world.topics.main}`, 'store'],
      ]);
      for (const { statusMessage, resource } of failed) {
        expect(statusMessage).toContain('history');
        expect(resource['service.name']).toBe('intake-of-a-test');
      }
    }),
  );

  together('without any sampled record is decided all the same', () =>
    withCollector(200, async (collector, world) => {
      await produce(world.topics.main, [record('1', `00-${TRACE}-1111111111111111-01`)]);
      await world.drain({
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
        OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
        OTEL_TRACES_SAMPLER_ARG: '0',
      });
      expect(await world.balance()).toEqual({ records: 1, accepted: 1 });
      expect(collector.requests).toEqual([]);
    }),
  );
});

describe('a request to the webhook', () => {
  together('is a child of the span of its sender, with a child for each step of its transaction', () =>
    withCollector(200, async (collector, world) => {
      const secret = aSecret();
      await world.apply([anOperator({ connections: [{ id: MARKER, transport: 'webhook' }] })]);
      const { command, port } = await startWebhook(
        { DATABASE_URL: world.writerUrl, OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint },
        { [MARKER]: secret },
      );
      const send = senderTo(port, MARKER, secret);
      const headers = { traceparent: `00-${TRACE}-1111111111111111-01` };
      expect(
        (await send(aBet({ event_id: MARKER, player_ref: MARKER, round_id: MARKER }), { headers })).status,
      ).toBe(200);
      expect((await send('{')).status).toBe(400);
      expect((await send(aBet(), { path: `/v1/rehearse/${MARKER}` })).status).toBe(200);
      await world.rows('alter table promo_store.history rename to history_away');
      expect((await send(aBet())).status).toBe(503);
      await world.rows('alter table promo_store.history_away rename to history');
      await command.stop();
      const requests = collector.spans.filter(({ kind }) => kind === SERVER);
      expect(requests.map(({ name, attributes, status }) => [name, attributes, status])).toEqual([
        ['POST /v1/events/{connection_id}', { ...ROUTE, 'http.response.status_code': 200 }, 0],
        ['POST /v1/events/{connection_id}', { ...ROUTE, 'http.response.status_code': 400 }, 0],
        [
          'POST /v1/rehearse/{connection_id}',
          { ...ROUTE, 'http.route': '/v1/rehearse/{connection_id}', 'http.response.status_code': 200 },
          0,
        ],
        [
          'POST /v1/events/{connection_id}',
          { ...ROUTE, 'http.response.status_code': 503, 'error.type': '503' },
          ERROR,
        ],
      ]);
      const [first, second] = requests;
      expect(first).toMatchObject({ traceId: TRACE, parentSpanId: '1111111111111111' });
      expect(second).toMatchObject({ parentSpanId: '' });
      const steps = collector.spans.filter(({ parentSpanId }) => parentSpanId === first?.spanId);
      expect(steps.map(({ name }) => name)).toEqual(['connect', 'find', 'lock', 'decide', 'write']);
      expect(JSON.stringify(collector.spans)).not.toContain(MARKER);
    }),
  );
});

describe('a decision that the store has lost', () => {
  for (const sampler of ['always_on', 'always_off']) {
    together(`is made again while batches are traced, by ${sampler}`, () =>
      withCollector(200, async (collector, world) => {
        const worker = await world.started({
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
          OTEL_TRACES_SAMPLER: sampler,
        });
        await produce(world.topics.main, [record('1'), record('2')]);
        await world.untilDecided(2);
        await world.rows('update promo_store.partitions set next_offset = 0, records_read = 0, accepted = 0');
        await world.rows(
          'truncate promo_store.event_keys, promo_store.history, promo_store.rounds, promo_store.resends',
        );
        await produce(world.topics.main, [record('3')]);
        await worker.waitForLog('the store has lost decided events; reading them again');
        await world.untilDecided(3);
        await worker.stop();
      }),
    );
  }
});

describe('a collector that', () => {
  const refusals: readonly (readonly [string, number | null, string])[] = [
    ['refuses', 401, 'cannot send some or all traces'],
    ['never answers', null, 'last traces not sent in time'],
  ];
  for (const [what, answer, said] of refusals) {
    together(`${what} is logged once, and delays nothing`, () =>
      withCollector(answer, async (collector, world) => {
        await produce(world.topics.main, [record('1')]);
        const worker = await world.drain({
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
          // One span a request: each request fails.
          OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '1',
        });
        expect(await world.balance()).toEqual({ records: 1, accepted: 1 });
        expect(collector.requests.length).toBeGreaterThan(1);
        expect(worker.logged(said)).toHaveLength(1);
      }),
    );
  }
});

test('a worker without tracing does not load the SDK', () => {
  const loaded = `require(${JSON.stringify(program().replace(/cli\.js$/, 'commands/intake/worker.js'))});
    console.log(Object.keys(require.cache).filter((path) => /opentelemetry.(sdk|exporter|otlp|core|resources)/.test(path)).length)`;
  expect(execFileSync(process.execPath, ['-e', loaded], { encoding: 'utf8' })).toBe('0\n');
});

const INTERNAL = 1;
const SERVER = 2;
const CLIENT = 3;
const CONSUMER = 5;
const ERROR = 2;
const ROUTE = { 'http.request.method': 'POST', 'http.route': '/v1/events/{connection_id}' };
/** Spans report their times to about a microsecond. */
const ROUNDING_SECONDS = 0.001;

function sum(values: readonly (string | number | undefined)[]): number {
  return values.reduce<number>((total, value) => total + Number(value), 0);
}

/** Connections for tests, by a real worker and a real webhook. */
import { inWorld } from '../stream/world';
import { anOperator, bytesOf } from '../support/builders';
import { produce, readTopic } from '../support/kafka';
import { aBet, aLogin, aRefund } from '../support/ledger';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

afterEach(killWorkers);

const secret = aSecret();

test('a round of both transports is decided in the feed of tests, and no verdict, view or metric counts it [C11]', () =>
  inWorld(
    {
      topics: { tests: 1, verdicts: 1 },
      operators: (topics: Readonly<Record<string, string>>) => [
        anOperator({
          connections: [
            { id: 'acme-test', transport: 'kafka', topic: topics.tests ?? '', test: true },
            { id: 'acme-test-hook', transport: 'webhook', test: true },
            { id: 'acme-hook', transport: 'webhook' },
          ],
        }),
      ],
    },
    async (world) => {
      const verdictTopic = String(world.topics.verdicts);
      const webhook = await startWebhook(
        {
          DATABASE_URL: world.writerUrl,
          KAFKA_BROKERS: process.env.KAFKA_BROKERS,
          VERDICT_TOPIC: verdictTopic,
        },
        { 'acme-test-hook': secret, 'acme-hook': aSecret() },
      );
      const send = senderTo(webhook.port, 'acme-test-hook', secret);
      await produce(String(world.topics.tests), [
        { value: bytesOf(aBet({ event_id: 'bet', round_id: 'r' })) },
        { value: bytesOf(aLogin({ event_id: 'in', spec: 'x' })) },
      ]);
      await world.drain({ VERDICT_TOPIC: verdictTopic });
      expect(
        (
          await send({
            events: [aBet({ event_id: 'bet', round_id: 'r' }), aRefund({ event_id: 'back', round_id: 'r' })],
          })
        ).verdicts,
      ).toEqual(['duplicate of accepted', 'accepted']);

      expect(await world.rows('select count(*) from promo.verdicts')).toEqual([['0']]);
      expect(await world.rows('select count(*) from promo.ledger')).toEqual([['0']]);
      expect(
        await world.rows('select event_id, verdict from promo.test_verdicts order by verdict_id'),
      ).toEqual([
        ['bet', 'accepted'],
        ['in', 'rejected'],
        ['back', 'accepted'],
      ]);
      expect(await readTopic(verdictTopic)).toEqual([]);
      const counted = (name: string, verdict: string, reason = '') =>
        webhook.command.metric(
          `promo_intake_${name}{verdict="${verdict}",reason="${reason}",kind="refund",connection="acme-test-hook"}`,
        );
      expect(await counted('test_verdicts_total', 'accepted')).toBe(1);
      expect(await counted('verdicts_total', 'accepted')).toBe(0);
    },
  ));

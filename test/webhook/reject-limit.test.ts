/** The limit on rejected events by the webhook: a bad export of one connection stops, on each replica. */

import { until } from '../../dev/servers/deadline';
import { HOOK, secret } from '../stream/scene';
import { inWorld } from '../stream/world';
import { anOperator } from '../support/builders';
import { aLogin } from '../support/ledger';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

afterEach(killWorkers);

/** All requests of the test that are refused have to be sent within this time. */
const PAUSE_SECONDS = '20';
const others = aSecret();
const bad = () => ({ ...aLogin(), spec: 'another' });

test('stops after 10 ids of each replica, names limit, reasons and remedy, and continues after the time [W11]', () =>
  inWorld(
    {
      topics: {},
      operators: () => [
        anOperator({
          connections: [
            { id: HOOK, transport: 'webhook' },
            { id: 'other-hook', transport: 'webhook' },
          ],
        }),
      ],
    },
    async (world) => {
      const settings = {
        DATABASE_URL: world.writerUrl,
        REJECT_LIMIT_PERCENT: '50',
        REJECT_MIN_EVENTS: '20',
        REJECT_PAUSE_SECONDS: PAUSE_SECONDS,
      };
      const secrets = { [HOOK]: secret, 'other-hook': others };
      const replicas = [await startWebhook(settings, secrets), await startWebhook(settings, secrets)];
      const send = replicas.map(({ port }) => senderTo(port, HOOK, secret));
      const stored = async () => Number((await world.rows('select count(*) from promo.verdicts'))[0]?.[0]);

      // One event a request, to the first replica.
      const statuses: number[] = [];
      const decidedFirst = bad();
      statuses.push((await send[0]?.(decidedFirst))?.status ?? 0);
      for (let count = 1; count < 30; count++) statuses.push((await send[0]?.(bad()))?.status ?? 0);
      expect(statuses).toEqual([...Array(10).fill(200), ...Array(20).fill(403)]);
      expect(await stored()).toBe(10);

      // A whole export, to the second one: nothing of it is decided.
      const events = Array.from({ length: 200 }, bad);
      const refused = await send[1]?.({ events });
      expect(refused?.status).toBe(403);
      expect(JSON.parse(refused?.text ?? '')).toEqual({
        code: 'ERROR_CODE_BUSINESS_REJECTED',
        message: expect.stringMatching(
          /^restricted: 200 of the last 200 events would be rejected, more than the limit of 50 % \(in the last batch: 200 malformed\)\. No event is decided until 20\S+Z, .*\/v1\/rehearse\/\{connection_id\}/,
        ),
      });
      expect(await stored()).toBe(10);

      // Good events are refused as well, a rehearsal is answered, and the neighbour is decided.
      expect((await send[1]?.(aLogin()))?.status).toBe(403);
      const dry = { path: `/v1/rehearse/${HOOK}` };
      expect((await send[1]?.(aLogin(), dry))?.verdicts).toEqual(['accepted']);
      // An earlier try has decided a part: a rehearsal answers that those events are duplicates.
      const tried = await send[0]?.({ events: [decidedFirst, ...events.slice(0, 2)] });
      expect([tried?.status, tried?.text]).toEqual([
        403,
        expect.stringContaining('a duplicate was decided by an earlier request'),
      ]);
      expect((await send[0]?.({ events: [decidedFirst, ...events.slice(0, 2)] }, dry))?.verdicts).toEqual([
        ...['duplicate of rejected/malformed', 'rejected/malformed', 'rejected/malformed'],
      ]);
      const neighbour = senderTo(replicas[1]?.port ?? 0, 'other-hook', others);
      expect((await neighbour(aLogin())).verdicts).toEqual(['accepted']);
      expect(
        await replicas[1]?.command.metric(
          `promo_intake_webhook_refusals_total{status="403",token="restricted",connection="${HOOK}"}`,
        ),
      ).toBe(2);

      let answer = await send[1]?.(aLogin());
      await until('the pause is over', 60_000, async () => {
        answer = await send[1]?.(aLogin());
        return answer?.status !== 403;
      });
      expect(answer?.verdicts).toEqual(['accepted']);
      // The ids of the refused export are free: corrected events are decided.
      const corrected = events.map((event) => ({ ...event, spec: 'promo.event.v1' }));
      expect(new Set((await send[1]?.({ events: corrected }))?.verdicts)).toEqual(new Set(['accepted']));
    },
  ));

/** Retries of verdicts on several topics: an answer that is published once is not published again. */
import { within } from '../../../dev/servers/deadline';
import { outcomeOf } from '../../../src/domain/verdict/reasons';
import { NEVER, systemClock } from '../../../src/lib/clock';
import {
  NotAllPublished,
  type PublishedAnswer,
  publishingRest,
} from '../../../src/publishing/published-answer';
import { makeLogger } from '../../../src/telemetry/logger';
import { makeMetrics } from '../../../src/telemetry/metrics';
import { makePublishing } from '../../../src/webhook/verdict-queues';
import { aConnection } from '../../support/builders';

const answerOf = (operator: string, offset: number): PublishedAnswer => ({
  offset,
  connection: aConnection({ id: operator }, { id: `of-${operator}` }),
  eventId: `e-${offset}`,
  faults: [],
  decision: { type: 'decided', outcome: outcomeOf('bad_amount'), counted: false, redelivered: false },
});

test('a refusal of one topic repeats only its own answers [S9]', async () => {
  const all = [answerOf('acme', 0), answerOf('beta', 1), answerOf('acme', 2)];
  const tries: string[] = [];
  const publish = publishingRest(
    async (_, answers) => {
      tries.push(answers.map(({ eventId }) => eventId).join());
      if (tries.length > 2) return;
      throw new NotAllPublished('beta refuses', all.slice(1, 2));
    },
    { topic: 't', partition: 0 },
    all,
  );
  await expect(publish()).rejects.toThrow('beta refuses');
  await expect(publish()).rejects.toThrow('beta refuses');
  await publish();
  expect(tries).toEqual(['e-0,e-1,e-2', 'e-1', 'e-1']);
});

test('a topic that refuses blocks the webhook connections of its operator alone [S9]', async () => {
  const published: string[] = [];
  let isRefused = true;
  let wake = (): void => undefined;
  const publishing = makePublishing({
    async publishVerdicts(_, answers) {
      const ids = answers.map(({ eventId }) => eventId);
      if (isRefused && answers.some(({ connection }) => connection?.operator.id === 'beta'))
        throw new Error('beta refuses');
      published.push(ids.join());
    },
    isPerOperator: true,
    clock: {
      ...systemClock,
      sleep: () =>
        new Promise((resolve) => {
          wake = resolve;
        }),
    },
    logger: makeLogger('silent'),
    metrics: makeMetrics('webhook'),
    ended: NEVER,
  });
  const ofBeta = publishing.publish({ connectionId: 'of-beta' }, [answerOf('beta', 1)]);
  const ofAcme = publishing.publish({ connectionId: 'of-acme' }, [answerOf('acme', 2)]);
  await within('acme is not blocked', 10_000, ofAcme);
  await publishing.publish({ connectionId: 'of-acme' }, [answerOf('acme', 3)]);
  expect(['of-beta', 'of-acme'].map((id) => publishing.isBlocked(id))).toEqual([true, false]);
  isRefused = false;
  wake();
  await ofBeta;
  expect(publishing.isBlocked('of-beta')).toBe(false);
  expect(published).toEqual(['e-2', 'e-3', 'e-1']);
});

/** The answer of /v1/reconcile to entries that share an id. */
import { NO_TAGS } from '../../../src/domain/event/player-tag';
import { systemClock } from '../../../src/lib/clock';
import { standingOf } from '../../../src/reconciliation/standing';
import { makeReconciling } from '../../../src/webhook/reconciling';
import { aBet, aConnection } from '../../support/builders';

const connection = aConnection();
const reconciling = makeReconciling(
  {
    reconciler: {
      reconcile: async (_, entries) => entries.map((entry) => standingOf(entry, { type: 'absent' }, NO_TAGS)),
    },
    scopeOf: async () => ({
      connection,
      referenceVersion: 1,
      connectionNos: [connection.no],
      ownsTopic: true,
    }),
  },
  systemClock,
);

async function entriesOf(...events: readonly object[]) {
  const { status, body } = await reconciling.answer('acme', Buffer.from(JSON.stringify({ events })), 1_000);
  expect(status).toBe(200);
  return JSON.parse(body).entries;
}

test('an id alone has no content that could differ from that of an event', async () => {
  const event = aBet({ event_id: 'a' });
  const [, afterId] = await entriesOf({ event_id: 'a' }, event);
  expect(afterId).toMatchObject({ first_entry: 1, action: 'none' });
  expect(afterId).not.toHaveProperty('content_differs');
  const [, afterEvent, other] = await entriesOf(event, { event_id: 'a' }, { ...event, amount: '11.00' });
  expect(afterEvent).not.toHaveProperty('content_differs');
  expect(other).toMatchObject({ first_entry: 1, action: 'correct', content_differs: true });
});

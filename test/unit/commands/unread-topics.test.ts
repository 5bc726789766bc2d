/** Which topics look like topics of events that nobody reads, and what `status` says of them. */
import { describeUnread, unreadTopics } from '../../../src/commands/unread-topics';

const own = ['promo.event.v1.dead-letter', 'promo.verdict.v1'];
const read = { known: ['promo.event.v1', 'acme-casino-events'], own };

test.each([
  ['a topic of the documented prefix', 'promo.event.v1.acme', null],
  ['a name with a slip', 'acme-casino-event', 'acme-casino-events'],
  ['a name in other letters', 'ACME-Casino-Events', 'acme-casino-events'],
  ['another case of the prefix', 'Promo.Event.V1.acme', null],
])('%s is found, with the topic that is meant', (_, topic, meant) => {
  expect(unreadTopics([topic, ...read.known], read)).toEqual([{ topic, meant }]);
});

test.each([
  ['what is read', 'promo.event.v1'],
  ['our own dead letters', 'promo.event.v1.dead-letter'],
  ['dead letters of another deployment', 'promo.event.v1.other.dead-letter'],
  ['what a mirror makes of our verdicts', 'dc1.promo.verdict.v1'],
  ['a stranger', 'orders'],
  ['an internal topic', '__consumer_offsets'],
])('%s is not', (_, topic) => {
  expect(unreadTopics([topic], read)).toEqual([]);
});

test('no more than twenty are named, and each says what to do', () => {
  const many = Array.from({ length: 30 }, (_, n) => `promo.event.v1.${n}`);
  const found = unreadTopics(many, read);
  expect(found).toHaveLength(20);
  expect(describeUnread([{ topic: 'acme-casino-event', meant: 'acme-casino-events' }])).toEqual([
    'no worker reads acme-casino-event, which looks like a topic of events (did the sender mean acme-casino-events?): add it to a connection of the reference data, or correct the topic of its sender',
  ]);
});

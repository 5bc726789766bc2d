/** Topics of events that no worker reads, and their lines in `status`. */
import { describeUnread, unreadTopics } from '../../../../src/commands/services/unread-topics';

const own = ['promo.event.v1.dead-letter', 'promo.verdict.v1'];
const read = { known: ['promo.event.v1', 'acme-casino-events'], own };

test.each([
  ['a topic of the documented prefix', 'promo.event.v1.acme', null],
  ['a name with a typing error', 'acme-casino-event', 'acme-casino-events'],
  ['a name in other letters', 'ACME-Casino-Events', 'acme-casino-events'],
  ['another case of the prefix', 'Promo.Event.V1.acme', null],
])('%s is found, with the intended topic', (_, topic, meant) => {
  expect(unreadTopics([topic, ...read.known], read)).toEqual([{ topic, meant }]);
});

test.each([
  ['a topic that is read', 'promo.event.v1'],
  ['dead letters of this deployment', 'promo.event.v1.dead-letter'],
  ['dead letters of another deployment', 'promo.event.v1.other.dead-letter'],
  ['the mirror of our verdicts', 'dc1.promo.verdict.v1'],
  ['a stranger', 'orders'],
  ['an internal topic', '__consumer_offsets'],
])('%s is not', (_, topic) => {
  expect(unreadTopics([topic], read)).toEqual([]);
});

test('at most twenty are listed, each with a remedy', () => {
  const many = Array.from({ length: 30 }, (_, n) => `promo.event.v1.${n}`);
  const found = unreadTopics(many, read);
  expect(found).toHaveLength(20);
  expect(describeUnread([{ topic: 'acme-casino-event', meant: 'acme-casino-events' }])).toEqual([
    'no worker reads acme-casino-event, which looks like a topic of events (did the sender mean acme-casino-events?). Add it to a connection of the reference data, or correct the topic of its sender. A topic of another cell needs neither',
  ]);
});

/** Whether records of different partitions share rounds is noticed from a sample of rounds. */

import { NO_FIELDS } from '../../../src/domain/event/event';
import type { Item } from '../../../src/domain/verdict/decide';
import { makeSharedRounds } from '../../../src/intake/shared-rounds';

function item(roundId: string | null, partitionNo: number, offset: number): Item {
  return {
    type: 'keyed',
    source: { partitionNo, offset },
    feedNo: 1,
    connectionNo: 1,
    eventId: `e${offset}`,
    fields: { ...NO_FIELDS, roundId },
    brandNo: null,
    contentHash: null,
    restHash: 0,
    playerTag: null,
    refusal: null,
  };
}

/** Three events of each round. @param partitionOf the partition of an event, by its round and place */
function observed(rounds: number, partitionOf: (round: number, place: number) => number) {
  const shared = makeSharedRounds();
  for (let round = 0; round < rounds; round++)
    shared.observe([0, 1, 2].map((place) => item(`round-${round}`, partitionOf(round, place), round)));
  return shared;
}

it.each([
  ['each round has a partition of its own', (round: number) => round % 8, false],
  [
    'the events of a round come by any partition',
    (round: number, place: number) => (round + place) % 8,
    true,
  ],
  [
    'one round of eight changes its partition, as without keys and with resends',
    (round: number, place: number) => (round % 8 === 0 && place > 0 ? 1 : 0),
    true,
  ],
  [
    'one round of a hundred changes its partition',
    (round: number, place: number) => (round % 100 === 0 ? place : 1),
    false,
  ],
] as const)('where %s: %s', (_, partitionOf, expected) => {
  expect(observed(8_000, partitionOf).areShared()).toBe(expected);
});

it('notices within a few thousand rounds that the keys of records have changed', () => {
  const shared = observed(8_000, (round) => round % 8);
  for (let round = 0; round < 3_000; round++)
    shared.observe([0, 1].map((place) => item(`later-${round}`, place, round)));
  expect(shared.areShared()).toBe(true);
});

it.each([0, 123_456, 777_000, 5_000_000])(
  'notices it within 1,000 events, also of ids that are counted up from %i',
  (begin) => {
    const shared = makeSharedRounds();
    for (let event = 0; event < 1_000; event++)
      shared.observe([item(`round-${begin + (event >> 2)}`, event % 4, event)]);
    expect(shared.areShared()).toBe(true);
  },
);

it('remembers no round id that is longer than 256 characters, since a sender chooses its length', () => {
  for (const [length, isRemembered] of [
    [256, true],
    [257, false],
  ] as const) {
    const shared = makeSharedRounds();
    for (let offset = 0; offset < 5_000; offset++)
      shared.observe([item(`${'x'.repeat(length - 4)}${1_000 + (offset >> 3)}`, offset % 8, offset)]);
    expect(shared.areShared()).toBe(isRemembered);
  }
});

it('counts neither events without a round nor those of the webhook', () => {
  const shared = makeSharedRounds();
  for (let offset = 0; offset < 5_000; offset++)
    shared.observe([item(null, offset % 8, offset), { ...item('r', offset % 8, offset), source: null }]);
  expect(shared.areShared()).toBe(false);
});

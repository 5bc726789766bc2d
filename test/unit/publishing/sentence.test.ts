/** A verdict as a sentence. */
import { endOfName, sentenceOf } from '../../../src/publishing/sentence';

const BET = { kind: 'bet', event_id: 'b-1', amount: '10.50', currency: 'EUR' };

test.each([
  [{ ...BET, name: 'accepted', remedy: null }, 'bet b-1 of 10.50 EUR is accepted.'],
  [
    { ...BET, name: 'rejected/malformed', remedy: 'Fix the field.', fields: ['/occurred_at'] },
    'bet b-1 of 10.50 EUR is rejected/malformed at /occurred_at. Fix the field.',
  ],
  [
    { ...BET, amount: null, name: 'rejected/no_player', remedy: null, fields: ['/player_ref', '/amount'] },
    'bet b-1 is rejected/no_player at /player_ref and /amount.',
  ],
  [
    {
      ...BET,
      kind: null,
      event_id: null,
      amount: null,
      name: 'rejected/malformed',
      remedy: null,
      fields: [],
    },
    'event without an id is rejected/malformed.',
  ],
])('%j is "%s"', (parts, sentence) => {
  expect(sentenceOf(parts)).toBe(sentence);
});

test.each([
  ['round_refunded', ': the round was already refunded.'],
  ['panic', ': the service failed twice while it processed this event alone.'],
  ['malformed', '.'],
  [null, '.'],
])('the name of %s ends with "%s"', (reason, end) => {
  expect(endOfName(reason)).toBe(end);
});

/** Events with 10 MB in one field, which fit into a record, have a verdict. cost.test.ts tests the cost. */
import { judge } from '../../src/domain/verdict/judge';
import { aBet, bytesOf } from '../support/builders';
import { SEVERAL, World } from '../unit/domain/world';

const TEN_MEGABYTES = 10 * 1024 * 1024;

it.each([
  ['spec', { spec: 'x' }, 'rejected/malformed'],
  ['event_id', { event_id: 'x' }, 'accepted'],
  ['brand', { brand: 'x' }, 'rejected/malformed'],
  ['player_ref', { player_ref: 'x' }, 'rejected/malformed'],
  ['kind', { kind: 'x' }, 'rejected/op_unknown'],
  ['round_id', { round_id: 'x' }, 'accepted'],
  ['amount', { amount: '1' }, 'rejected/bad_amount'],
  ['currency', { currency: 'x' }, 'skipped/currency_unknown'],
  ['occurred_at', { occurred_at: 'x' }, 'rejected/malformed'],
])('%s of 10 MB has a verdict [V3] [V4]', (field, changes, expected) => {
  const text = Object.values(changes)[0]!.repeat(TEN_MEGABYTES);
  const judged = judge({ type: 'json', bytes: bytesOf(aBet({ [field]: text })) }, SEVERAL);
  expect(new World().decideJudged(judged, SEVERAL)).toBe(expected);
});

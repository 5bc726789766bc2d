/** The fields of answers and verdict messages: remedy, details, and whether a new event_id is needed. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import type { Fault } from '../../../src/domain/event/event';
import type { Decision } from '../../../src/domain/verdict/decide';
import { ACCEPTED, outcomeOf, REASONS, type Reason } from '../../../src/domain/verdict/reasons';
import { outcomeFields } from '../../../src/publishing/outcome';
import { VERDICT_SCHEMA } from '../../../src/publishing/verdict-schema';

const fault = (reason: Reason): Fault => ({ reason, field: '/amount', detail: 'the amount is wrong' });
const matchesSchema = new Ajv2020({ strict: false }).compile({ ...VERDICT_SCHEMA, required: [] });

const EXAMPLES = join(__dirname, '../../../schemas/examples/verdicts');

test.each(readdirSync(EXAMPLES))('the example %s is valid by the schema', (file) => {
  const isMessage = new Ajv2020({ strict: true, allErrors: true }).compile(VERDICT_SCHEMA);
  const message: unknown = JSON.parse(readFileSync(join(EXAMPLES, file), 'utf8'));
  expect([isMessage(message), isMessage.errors]).toEqual([true, null]);
});

function told(decision: Decision, faults: readonly Fault[] = []): unknown {
  const fields = outcomeFields({ decision, faults });
  if (fields === null) throw new Error('the answer has no fields');
  const message: unknown = JSON.parse(`{${fields}}`);
  expect([matchesSchema(message), matchesSchema.errors]).toEqual([true, null]);
  return message;
}

const duplicateOf = (
  reason: Reason | null,
  contentDiffers: boolean,
): Extract<Decision, { type: 'duplicate' }> => ({
  type: 'duplicate',
  first: reason === null ? ACCEPTED : outcomeOf(reason),
  firstTransport: 'kafka',
  contentDiffers,
  redelivered: false,
});
const decided = (reason: Reason): Extract<Decision, { type: 'decided' }> => ({
  type: 'decided',
  outcome: outcomeOf(reason),
  counted: false,
  redelivered: false,
});

const STORED = REASONS.filter(({ name }) => name !== 'no_idempotency_key');

it.each(STORED)(
  '$name: the answer, and those of its duplicates, say that a corrected event needs a new event_id',
  ({ name, verdict }) => {
    expect(told(decided(name))).toMatchObject({ verdict, needs_new_event_id: true });
    for (const differs of [false, true])
      expect(told(duplicateOf(name, differs))).toMatchObject({
        verdict: 'duplicate',
        reason: null,
        needs_new_event_id: true,
        first_verdict: verdict,
        first_reason: name,
        content_differs: differs,
      });
  },
);

it('a corrected event may keep its event_id if the first one had no usable id', () => {
  const decision: Decision = { type: 'unstored', deadLetter: null, redelivered: false };
  expect(told(decision)).toMatchObject({ reason: 'no_idempotency_key', needs_new_event_id: false });
});

it('a duplicate of an accepted event needs no action, unless its content differs', () => {
  expect(told(duplicateOf(null, false))).toEqual({
    verdict: 'duplicate',
    reason: null,
    remedy: null,
    first_verdict: 'accepted',
    first_reason: null,
    content_differs: false,
  });
  expect(told(duplicateOf(null, true))).toMatchObject({
    remedy: 'Give each event its own event_id.',
    needs_new_event_id: true,
  });
});

it.each([
  ['bad_amount', false, /^It was rejected under this id\. Send the exact amount .* with a new event_id\.$/],
  ['currency_unknown', false, /^It was skipped under this id\. Use a code .* with a new event_id\.$/],
  ['bad_amount', true, /^It was rejected under this id: send it under a new id\.$/],
  ['below_min_bet', true, /^It was skipped under this id: send it under a new id\.$/],
] as const)('a duplicate of %s, content differs %s: the remedy is %s', (reason, differs, remedy) => {
  expect(told(duplicateOf(reason, differs))).toMatchObject({ remedy: expect.stringMatching(remedy) });
});

it('a duplicate of a skipped event needs no action', () => {
  expect(told(duplicateOf('below_min_bet', false))).toMatchObject({
    remedy: null,
    first_reason: 'below_min_bet',
  });
});

it('a duplicate carries the faults of the decision, and its own faults if its content differs', () => {
  const faults = [fault('bad_amount'), fault('no_brand')];
  expect(told(duplicateOf('bad_amount', false), faults)).toMatchObject({ details: faults });
  expect(told(duplicateOf('bad_amount', true), [fault('malformed')])).toMatchObject({
    details: [fault('malformed')],
  });
  // After a change of the reference data the same content has other faults, which did not decide.
  expect(told(duplicateOf('brand_unmapped', false), [fault('below_min_bet')])).not.toHaveProperty('details');
  expect(told(duplicateOf(null, false), [fault('operator_inactive')])).not.toHaveProperty('details');
});

it('every answer with anomalies names them, and accepted stays accepted', () => {
  const anomalies = ['second_settled', 'player_mismatch'] as const;
  const accepted = { type: 'decided', outcome: ACCEPTED, counted: false, redelivered: false } as const;
  expect(told({ ...accepted, anomalies })).toEqual({
    verdict: 'accepted',
    reason: null,
    remedy: null,
    anomalies,
  });
  expect(told(accepted)).not.toHaveProperty('anomalies');
  expect(told({ ...decided('below_min_bet'), anomalies })).toMatchObject({ verdict: 'skipped', anomalies });
  expect(told({ ...duplicateOf(null, false), anomalies })).toMatchObject({ verdict: 'duplicate', anomalies });
});

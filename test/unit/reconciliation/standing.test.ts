/** The standing of an entry: its state and the next step of its sender. */
import { NO_TAGS } from '../../../src/domain/event/player-tag';
import {
  ACCEPTED,
  DEAD_LETTER_REASONS,
  outcomeOf,
  REASONS,
  reasonInfo,
} from '../../../src/domain/verdict/reasons';
import { readEntry } from '../../../src/reconciliation/entry';
import {
  repeated,
  type Standing,
  standingFields,
  standingOf,
  type Trace,
} from '../../../src/reconciliation/standing';
import { aBet, bytesOf } from '../../support/builders';
import { SEVERAL } from '../domain/world';

const entryOf = (json: unknown) => readEntry(bytesOf(json), SEVERAL);
const BET = entryOf(aBet({ event_id: 'e-1' }));
const standing = (found: Trace, entry = BET) => standingOf(entry, found, NO_TAGS);
const ABSENT: Trace = { type: 'absent' };
const firstOf = (reason: (typeof REASONS)[number]['name'] | null, differs = false): Trace => ({
  type: 'duplicate',
  eventId: 'e-1',
  differs,
  first: reason === null ? ACCEPTED : outcomeOf(reason),
});

describe('an event that nobody received', () => {
  test('is sent again as it is', () => {
    expect(standing(ABSENT)).toMatchObject({ state: 'never_received', action: 'resend', details: [] });
  });

  test('and that would be refused is corrected first: sent as it is, it would use its id up', () => {
    const found = standing(ABSENT, entryOf(aBet({ amount: 'x' })));
    expect(found).toMatchObject({ state: 'never_received', action: 'correct', needsNewEventId: false });
    expect(found.details).toMatchObject([{ reason: 'bad_amount' }]);
  });

  test('and that would be skipped is sent: a skip is no mistake', () => {
    expect(standing(ABSENT, entryOf(aBet({ amount: '0.00' })))).toMatchObject({ action: 'resend' });
  });

  test('has no id, so it cannot be looked up', () => {
    expect(standing(ABSENT, entryOf({ brand: 'main' }))).toMatchObject({
      state: 'unidentified',
      action: 'correct',
      needsNewEventId: false,
    });
  });
});

describe('an event that was decided', () => {
  test('as accepted needs nothing', () => {
    expect(standing(firstOf(null))).toEqual({
      eventId: 'e-1',
      state: 'accepted',
      reason: null,
      action: 'none',
      remedy: null,
      contentDiffers: false,
      details: [],
    });
  });

  test.each(REASONS.map(({ name }) => name))('as %s has an action by the one who has to act', (reason) => {
    const { verdict, charge, remedy } = reasonInfo(reason);
    const found = standing(firstOf(reason));
    expect(found).toMatchObject({ state: verdict, reason });
    expect([found.action, found.remedy]).toEqual(charge === 'nobody' ? ['none', null] : ['correct', remedy]);
  });

  test('with other content needs a new id, also where it was accepted', () => {
    expect(standing(firstOf(null, true))).toMatchObject({
      state: 'accepted',
      action: 'correct',
      contentDiffers: true,
      needsNewEventId: true,
    });
  });

  test('shows the faults of now where they explain the verdict, and no others', () => {
    const faulty = entryOf(aBet({ event_id: 'e-1', amount: 'x' }));
    expect(standing(firstOf('bad_amount'), faulty).details).toMatchObject([{ reason: 'bad_amount' }]);
    expect(standing(firstOf('malformed'), faulty).details).toEqual([]);
  });
});

test.each(DEAD_LETTER_REASONS.map(({ name }) => name))('a dead letter for %s waits for support', (reason) => {
  const found = standing({ type: 'dead_letter', reason, isClaimed: true });
  expect(found).toMatchObject({ state: 'undecided', reason, action: 'wait' });
  expect(found.remedy).toContain('Ask support');
});

test('a record that is not decided yet waits', () => {
  expect(standing({ type: 'waiting' })).toMatchObject({ state: 'undecided', reason: null, action: 'wait' });
});

test('a record without a key is corrected, and may keep the id that it gets [V3]', () => {
  expect(standing({ type: 'without_key' })).toMatchObject({
    state: 'rejected',
    reason: 'no_idempotency_key',
    action: 'correct',
    needsNewEventId: false,
  });
});

describe('an entry whose id an earlier one has', () => {
  const missing = standing(ABSENT);
  test('with equal content needs nothing: the earlier one is sent', () => {
    expect(repeated(missing, 4, false)).toMatchObject({ repeatOf: 4, action: 'none', remedy: null });
  });

  test('with other content needs an id of its own', () => {
    expect(repeated(missing, 4, true)).toMatchObject({
      repeatOf: 4,
      action: 'correct',
      contentDiffers: true,
      needsNewEventId: true,
    });
  });

  test('with other content than the earlier one, but decided, stays as the store compared it', () => {
    const accepted = standing(firstOf(null));
    expect(repeated(accepted, 4, true)).toEqual({ ...accepted, repeatOf: 4 });
  });
});

test('the published fields leave out what does not apply', () => {
  const accepted: Standing = standing(firstOf(null));
  expect(Object.keys(standingFields(accepted))).toEqual(['event_id', 'state', 'reason', 'action', 'remedy']);
  expect(standingFields(standing(firstOf(null, true)))).toMatchObject({
    needs_new_event_id: true,
    content_differs: true,
  });
});

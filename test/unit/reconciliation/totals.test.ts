/** The counts of a reconciliation. */
import { readEntry } from '../../../src/reconciliation/entry';
import { repeated, type Standing } from '../../../src/reconciliation/standing';
import { Totals } from '../../../src/reconciliation/totals';
import { aBet, aDeposit, bytesOf } from '../../support/builders';
import { SEVERAL } from '../domain/world';

const entryOf = (json: unknown) => readEntry(bytesOf(json), SEVERAL);
const ACCEPTED: Standing = {
  eventId: 'e-1',
  state: 'accepted',
  reason: null,
  action: 'none',
  remedy: null,
  contentDiffers: false,
  details: [],
};
const MISSING: Standing = { ...ACCEPTED, state: 'never_received', action: 'resend' };
const REJECTED: Standing = { ...ACCEPTED, state: 'rejected', reason: 'malformed', action: 'correct' };

function totalsOf(...pairs: (readonly [json: unknown, standing: Standing])[]): Totals {
  const totals = new Totals();
  for (const [json, standing] of pairs) totals.add(entryOf(json), standing);
  return totals;
}

test('a reconciliation without entries is clean', () => {
  const totals = totalsOf();
  expect([totals.isClean(), totals.summary()]).toEqual([
    true,
    '0 events: 0 accepted, 0 rejected, 0 skipped, 0 never received',
  ]);
});

test('is clean while nothing is to be sent, corrected or asked again', () => {
  expect(totalsOf([aBet(), ACCEPTED]).isClean()).toBe(true);
  expect(totalsOf([aBet(), ACCEPTED], [aBet(), MISSING]).isClean()).toBe(false);
});

test('a repeated entry counts once, and its action counts too', () => {
  const totals = totalsOf([aBet(), MISSING], [aBet(), repeated(MISSING, 1, false)]);
  expect(totals.report()).toMatchObject({ entries: 2, repeated: 1, states: { sent: 1, never_received: 1 } });
  expect(totals.report().actions).toEqual({ none: 1, resend: 1, correct: 0, wait: 0 });
  expect(totals.summary()).toBe(
    '1 event: 0 accepted, 0 rejected, 0 skipped, 1 never received, 1 repeated in the file',
  );
});

test('sums are exact, by kind and currency, and an event with other content is not in the accepted sum', () => {
  const many = Array.from({ length: 3 }, () => [aBet({ amount: '0.10' }), ACCEPTED] as const);
  const totals = totalsOf(
    ...many,
    [aBet({ amount: '9007199254740.93' }), ACCEPTED],
    [aBet({ amount: '5', currency: 'JPY' }), MISSING],
    [aDeposit({ amount: '7.00' }), { ...ACCEPTED, contentDiffers: true }],
  );
  expect(totals.report().money).toEqual([
    { kind: 'bet', currency: 'EUR', sent: '9007199254741.23', accepted: '9007199254741.23' },
    { kind: 'bet', currency: 'JPY', sent: '5', accepted: '0' },
    { kind: 'deposit', currency: 'EUR', sent: '7.00', accepted: '0.00' },
  ]);
  expect(totals.report().states.content_differs).toBe(1);
});

test('groups are by kind and by hour of UTC, and an id alone has neither', () => {
  const report = totalsOf(
    [aBet({ occurred_at: '2026-11-21T12:59:59.999999Z' }), ACCEPTED],
    [aBet({ occurred_at: '2026-11-21T14:00:00+01:00' }), REJECTED],
    [{ event_id: 'e-1' }, MISSING],
  ).report();
  expect(Object.keys(report.hours)).toEqual(['2026-11-21T12Z', '2026-11-21T13Z', 'none']);
  expect(report.kinds).toMatchObject({ bet: { sent: 2, accepted: 1, rejected: 1 }, none: { sent: 1 } });
  expect(report.reasons).toEqual({ malformed: 1 });
});

test('hours are bounded: a file of any times takes no more memory', () => {
  const totals = new Totals();
  const entry = entryOf(aBet());
  for (let hour = 0n; hour < 10_050n; hour++)
    totals.add({ ...entry, occurredAtMicros: hour * 3_600_000_000n }, ACCEPTED);
  totals.add({ ...entry, occurredAtMicros: 0n }, ACCEPTED);
  const { hours } = totals.report();
  expect(Object.keys(hours)).toHaveLength(10_001);
  expect(hours['other hours']?.sent).toBe(50);
  expect(hours['1970-01-01T00Z']?.sent).toBe(2);
});

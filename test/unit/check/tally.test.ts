/** The summary of a file: its events by verdict and reason. */
import { makeTally } from '../../../src/check/tally';

const ACCEPTED = { verdict: 'accepted', reason: null } as const;
const MALFORMED = { verdict: 'rejected', reason: 'malformed' } as const;
const NO_PLAYER = { verdict: 'rejected', reason: 'no_player' } as const;
const ZERO = { verdict: 'skipped', reason: 'zero_amount' } as const;
const DUPLICATE = { verdict: 'duplicate', reason: null } as const;

function tallyOf(...verdicts: Parameters<ReturnType<typeof makeTally>['add']>[0][]) {
  const tally = makeTally();
  for (const verdict of verdicts) tally.add(verdict);
  return tally;
}

test('a file without events is clean, and all of its counts are 0', () => {
  const tally = tallyOf();
  expect(tally.summary()).toBe('0 events: 0 accepted, 0 rejected, 0 skipped, 0 duplicate');
  expect(tally.isClean()).toBe(true);
});

test('a file is clean while every event is accepted: a duplicate or a skipped event is not [V1]', () => {
  expect(tallyOf(ACCEPTED, ACCEPTED).isClean()).toBe(true);
  for (const other of [MALFORMED, ZERO, DUPLICATE]) expect(tallyOf(ACCEPTED, other).isClean()).toBe(false);
});

test('reasons have the order of their precedence, not that of the file [V2]', () => {
  const expected = '3 events: 0 accepted, 3 rejected (1 malformed, 2 no_player), 0 skipped, 0 duplicate';
  expect(tallyOf(NO_PLAYER, NO_PLAYER, MALFORMED).summary()).toBe(expected);
  expect(tallyOf(MALFORMED, NO_PLAYER, NO_PLAYER).summary()).toBe(expected);
});

test('duplicates are counted by the first verdict where the answer has it', () => {
  const tally = tallyOf(
    ACCEPTED,
    { ...DUPLICATE, standing: MALFORMED },
    { ...DUPLICATE, standing: ACCEPTED },
    { ...DUPLICATE, standing: ACCEPTED },
    DUPLICATE,
  );
  expect(tally.summary()).toBe(
    '5 events: 1 accepted, 0 rejected, 0 skipped, 4 duplicate (2 of accepted, 1 of rejected/malformed)',
  );
});

test('one event is no "events", and thousands have a separator', () => {
  expect(tallyOf(ZERO).summary()).toBe(
    '1 event: 0 accepted, 0 rejected, 1 skipped (1 zero_amount), 0 duplicate',
  );
  expect(tallyOf(...Array.from({ length: 1_234 }, () => ACCEPTED)).summary()).toMatch(
    /^1,234 events: 1,234 accepted, /,
  );
});

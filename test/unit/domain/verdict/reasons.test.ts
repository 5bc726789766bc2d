/**
 * The closed lists: reasons with their precedence and stored codes (V2), and the wait of an undecided
 * partition (U2).
 */

import { isKind, isRoundKind, KINDS, kindCode } from '../../../../src/domain/event/event';
import {
  ACCEPTED,
  DEAD_LETTER_REASONS,
  duplicateRemedy,
  outcomeOf,
  outcomeOfCode,
  REASONS,
  rankOf,
  reasonInfo,
  withoutNewId,
} from '../../../../src/domain/verdict/reasons';
import { backoffMs } from '../../../../src/lib/backoff';

/**
 * The stored codes, in the order of precedence. Do not change a line, since stored codes never change. A new
 * reason gets a line with a new code.
 */
const COMMITTED = [
  [1, 'rejected', 'no_idempotency_key'],
  [2, 'rejected', 'malformed'],
  [3, 'rejected', 'op_unknown'],
  [4, 'rejected', 'no_player'],
  [5, 'rejected', 'bad_amount'],
  [6, 'rejected', 'no_brand'],
  [7, 'rejected', 'brand_unexpected'],
  [8, 'rejected', 'brand_unmapped'],
  [9, 'rejected', 'operator_inactive'],
  [10, 'rejected', 'panic'],
  [20, 'skipped', 'currency_unknown'],
  [21, 'skipped', 'zero_amount'],
  [22, 'skipped', 'game_denied'],
  [23, 'skipped', 'game_not_allowed'],
  [24, 'skipped', 'below_min_bet'],
  [25, 'skipped', 'game_unknown'],
  [26, 'skipped', 'round_refunded'],
] as const;

describe('reasons [V2]', () => {
  it('have the order of V2, and codes that never change', () => {
    expect(REASONS.map(({ code, verdict, name }) => [code, verdict, name])).toEqual(COMMITTED);
  });

  it('have one code each, different from the code of accepted', () => {
    const codes = [ACCEPTED.code, ...REASONS.map(({ code }) => code)];
    expect(new Set(codes).size).toBe(codes.length);
  });

  it('rank by that order', () => {
    expect(COMMITTED.map(([, , name]) => rankOf(name))).toEqual(COMMITTED.map((_, index) => index));
  });

  it.each(COMMITTED)('%i is %s/%s', (code, verdict, reason) => {
    expect(outcomeOf(reason)).toEqual({ verdict, reason, code });
    expect(outcomeOfCode(code)).toBe(outcomeOf(reason));
    expect(reasonInfo(reason)).toMatchObject({ code, verdict, name: reason });
  });

  it('0 is accepted, and an unknown code has no outcome', () => {
    expect(ACCEPTED).toEqual({ verdict: 'accepted', reason: null, code: 0 });
    expect(outcomeOfCode(0)).toBe(ACCEPTED);
    expect(outcomeOfCode(11)).toBeUndefined();
  });

  it('have a meaning and a remedy for operators', () => {
    for (const { name, meaning, remedy, charge } of REASONS) {
      expect([name, meaning]).toEqual([name, expect.stringMatching(/^[a-z].{20,}\.$/s)]);
      expect([name, remedy]).toEqual([name, expect.stringMatching(/^[A-Z].{10,}\.$/s)]);
      expect([name, charge]).toEqual([name, expect.stringMatching(/^(operator|service|nobody)$/)]);
    }
  });

  it.each(REASONS.filter(({ name }) => name !== 'no_idempotency_key'))(
    '$name: the remedy says that a corrected event needs a new event_id [V8]',
    ({ name, remedy }) => {
      expect(remedy).toMatch(/\bnew event_ids?\b/);
      expect(duplicateRemedy(outcomeOf(name), true)).toMatch(
        /^It was (rejected|skipped) under this id: send it under a new id\.$/,
      );
      expect(duplicateRemedy(outcomeOf(name), false) ?? 'new event_id').toMatch(/\bnew event_ids?\b/);
    },
  );

  it('charge the service only with a panic, and nobody if there is nothing to do', () => {
    const chargedTo = (who: string) => REASONS.filter(({ charge }) => charge === who).map(({ name }) => name);
    expect(chargedTo('service')).toEqual(['panic']);
    expect(chargedTo('nobody')).toEqual([
      'zero_amount',
      'game_denied',
      'game_not_allowed',
      'below_min_bet',
      'round_refunded',
    ]);
    for (const { name, charge, remedy } of REASONS)
      expect([name, remedy.startsWith('Nothing to do.')]).toEqual([name, charge === 'nobody']);
  });
});

describe('the other closed lists', () => {
  it('dead letters have their own reasons, with codes that never change [S4]', () => {
    expect(DEAD_LETTER_REASONS.map(({ code, name }) => [code, name])).toEqual([
      [1, 'unclaimed'],
      [2, 'schema_unknown'],
      [3, 'undecodable'],
    ]);
    for (const { meaning } of DEAD_LETTER_REASONS) expect(meaning).toMatch(/^[a-z].{20,}/);
  });

  it('kinds have codes that never change [F5]', () => {
    expect(KINDS.map((kind) => [kindCode(kind), kind])).toEqual([
      [1, 'bet'],
      [2, 'win'],
      [3, 'settled'],
      [4, 'refund'],
      [5, 'deposit'],
      [6, 'withdrawal'],
      [7, 'login'],
    ]);
    expect(KINDS.filter(isRoundKind)).toEqual(['bet', 'win', 'settled', 'refund']);
    expect(['bet', 'Bet', ''].map(isKind)).toEqual([true, false, false]);
  });
});

describe('the wait of an undecided partition [U2]', () => {
  it('is 1, 2, 4, 8, 16, 30, 30 ... seconds', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 8].map(backoffMs)).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
    ]);
  });

  it('has a limit, and no end', () => {
    for (const failures of [16, 17, 100, 1_100, 1e9, Number.MAX_SAFE_INTEGER])
      expect(backoffMs(failures)).toBe(30_000);
  });
});

test('a rehearsal asks for no new event_id: none was used up [W9]', () => {
  for (const { name, verdict, remedy, charge } of REASONS) {
    if (charge === 'nobody') continue;
    const rehearsed = withoutNewId(remedy);
    expect(rehearsed).not.toContain('new event_id');
    expect(rehearsed).toMatch(/\.$/);
    // The first event was rehearsed, too. Its duplicate may keep the id, unless it is another event.
    const duplicate = duplicateRemedy(outcomeOf(name), false, true);
    expect(duplicate).toBe(`It would be ${verdict} under this id. ${rehearsed}`);
    expect(duplicateRemedy(outcomeOf(name), true, true)).toBe('Give each event its own event_id.');
  }
});

/** The change of a stored call after an attempt. */
import fc from 'fast-check';
import { interpretReply, type WalletAnswer } from '../../../src/wallet/answer';
import { changeAfter, makeCall, type StoredCall } from '../../../src/wallet/call-change';
import { readStoredAnswer, storedAnswer } from '../../../src/wallet/call-store';
import type { CallHistory } from '../../../src/wallet/policy';
import { aProfile } from '../../support/wallet';
import { anyAction, anyReply } from '../../support/wallet-replies';

const NOW = Date.UTC(2026, 10, 21);
const HOUR_MS = 3_600_000;
const profile = aProfile('http://127.0.0.1:1');
const SILENCE: WalletAnswer = interpretReply('debit', { type: 'nothing', cause: 'timeout' });
const OK: WalletAnswer = { type: 'ok', body: { balance: 'of a player' } };
const attempt = (answer: WalletAnswer, at = NOW) => ({ sentAt: at, endedAt: at + 10, answer });
const call = (more: Partial<StoredCall> = {}): StoredCall => ({
  opId: 'op-1',
  action: 'debit',
  values: { player: 'p', amount: '5' },
  history: null,
  ...more,
});

test('a bet without an answer is resent, and then followed by one rollback of it [O5]', () => {
  let history: CallHistory | null = null;
  for (const state of ['open', 'open', 'followed'] as const) {
    const change = changeAfter(profile, call({ history }), attempt(SILENCE), NOW + 10);
    expect(change.state).toBe(state);
    history = change.history;
    if (state === 'open') expect(change.following).toBeNull();
    else
      expect(change.following).toEqual({
        opId: 'op-1.rollback',
        action: 'rollback',
        dueAt: NOW + 10,
        payload: '{"original":"op-1","player":"p","meta":{"op_id":"op-1.rollback"}}',
        values: { player: 'p', amount: '5', original: 'op-1' },
        contentHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      });
  }
});

test('a credit is resent for 72 h, and then followed by a reconcile [O5]', () => {
  const credit = call({ action: 'credit' });
  const first = changeAfter(profile, credit, attempt(SILENCE), NOW);
  expect(first.state).toBe('open');
  const late = NOW + 73 * HOUR_MS;
  const last = changeAfter(profile, { ...credit, history: first.history }, attempt(SILENCE, late), late);
  expect([last.state, last.following?.opId]).toEqual(['followed', 'op-1.reconcile']);
});

test('a wallet without the action that would follow leaves the call to people', () => {
  const poor = aProfile('http://127.0.0.1:1', {
    actions: new Map([...profile.actions].filter(([action]) => action === 'debit' || action === 'credit')),
  });
  const late = NOW + HOUR_MS;
  const first = changeAfter(poor, call(), attempt(SILENCE), NOW);
  const change = changeAfter(poor, call({ history: first.history }), attempt(SILENCE, late), late);
  expect([change.state, change.following]).toEqual(['unresolved', null]);
});

test('every reply to every action leaves a call either open with a due time, or over [X4]', () => {
  fc.assert(
    fc.property(anyAction, anyReply, fc.integer({ min: 0, max: 80 }), (action, reply, hours) => {
      const answer = interpretReply(action, reply);
      const now = NOW + hours * HOUR_MS;
      const change = changeAfter(profile, call({ action }), attempt(answer, now), now);
      expect(Number.isFinite(change.dueAt)).toBe(true);
      expect(change.following !== null).toBe(change.state === 'followed');
      if (answer.type === 'ok') expect(change.state).toBe('ok');
    }),
  );
});

test('a call without a value that it needs, or with a wrong number, is refused with all faults', () => {
  expect(makeCall(profile, { action: 'debit', opId: 'op-1', values: { amount: '1,5' } })).toEqual({
    type: 'malformed',
    faults: [
      'the payload needs the value player, which the call does not have',
      'the value amount is not a number',
    ],
  });
  expect(makeCall(profile, { action: 'rollback', opId: 'op-1', values: { player: 'p' } })).toEqual({
    type: 'malformed',
    faults: ['the payload needs the value original, which the call does not have'],
  });
  expect(makeCall(profile, { action: 'notify', opId: 'op-1', values: {} })).toEqual({
    type: 'malformed',
    faults: ['the profile of acme has no notify: add it'],
  });
});

test('the hash of the content covers everything but the player [X5]', () => {
  const hashOf = (values: Record<string, string>) => {
    const made = makeCall(profile, { action: 'debit', opId: 'op-1', values });
    return made.type === 'call' ? made.call.contentHash : undefined;
  };
  const hash = hashOf({ player: 'p', amount: '5' });
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  expect(hashOf({ player: 'q', amount: '5' })).toBe(hash);
  expect(hashOf({ player: 'p', amount: '6' })).not.toBe(hash);
});

test('a stored answer is read as the policy needs it, without the body of the wallet', () => {
  fc.assert(
    fc.property(anyAction, anyReply, (action, reply) => {
      const answer = interpretReply(action, reply);
      const read = readStoredAnswer(JSON.stringify(storedAnswer(answer)));
      if (answer.type === 'ok') expect(read).toEqual({ type: 'ok', body: {} });
      else if (answer.type === 'no_answer' && answer.cause === 'unknown_code')
        expect(read).toEqual({ ...answer, code: null });
      else expect(read).toEqual(answer);
    }),
  );
  expect(JSON.stringify(storedAnswer(OK))).toBe('{"type":"ok"}');
  expect(() => readStoredAnswer('{"type":"later"}')).toThrow('run the newer version');
});

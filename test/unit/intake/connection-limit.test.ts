/** The limit on rejected events of a webhook connection: when it stops, and how it continues. */

import type { Decision } from '../../../src/domain/verdict/decide';
import { ACCEPTED, outcomeOf } from '../../../src/domain/verdict/reasons';
import { ConnectionPaused, makeConnectionLimit } from '../../../src/intake/connection-limit';
import { makeLogger } from '../../../src/telemetry/logger';
import { aDocument, anOperator, aReference } from '../../support/builders';

const decided = (outcome = ACCEPTED): Decision => ({
  type: 'decided',
  outcome,
  counted: false,
  redelivered: false,
});
const GOOD = decided();
const BAD = decided(outcomeOf('bad_amount'));
const times = (count: number, decision: Decision): Decision[] => Array(count).fill(decision);
const LIMIT = { percent: 50, minEvents: 100, pauseSeconds: 600 };
const V1 = { version: 1, appliedAt: '1' };
const V2 = { version: 2, appliedAt: '2' };

function scene() {
  let now = Date.parse('2026-11-27T02:00:00Z');
  const limit = makeConnectionLimit(LIMIT, makeLogger('silent'), () => now);
  return {
    limit,
    /** @returns whether the batch was decided */
    send(decisions: readonly Decision[], connection = 'hook', reference = V1): boolean {
      try {
        limit.admit(connection, reference);
        limit.check(connection, reference, decisions)(true);
      } catch (error) {
        if (!(error instanceof ConnectionPaused)) throw error;
        return false;
      }
      return true;
    },
    pass(seconds: number) {
      now += seconds * 1000;
    },
  };
}

test.each([
  ['of a process that has just started', 0],
  ['after a thousand good events', 1_000],
])('a bad export, one event a request, uses up 50 ids and no more: %s [W11]', (_, before) => {
  const { send } = scene();
  let decided = 0;
  for (let count = 0; count < before; count++) if (send([GOOD])) decided++;
  expect(decided).toBe(before);
  let usedUp = 0;
  for (let count = 0; count < 500; count++) if (send([BAD])) usedUp++;
  expect(usedUp).toBe(50);
});

test('of a bad export in whole requests nothing is decided [W11]', () => {
  const { send } = scene();
  send(times(400, GOOD));
  expect(send(times(500, BAD))).toBe(false);
  expect(send(times(500, BAD))).toBe(false);
});

test('requests that are decided side by side use up no more ids together [W11]', () => {
  const { limit, send } = scene();
  const batches = [times(20, BAD), times(20, BAD), times(20, BAD)];
  const admitted = batches.filter((batch) => {
    try {
      limit.check('hook', V1, batch);
      return true;
    } catch {
      return false;
    }
  });
  expect(admitted).toHaveLength(2);
  expect(send([GOOD])).toBe(false);
});

test('a batch that is not committed counts no more, and is checked again alone [W11]', () => {
  const { limit, send } = scene();
  for (let tries = 0; tries < 5; tries++) limit.check('hook', V1, times(40, BAD))(false);
  expect(send(times(40, BAD))).toBe(true);
  expect(send(times(10, BAD))).toBe(true);
  expect(send([BAD])).toBe(false);
});

test('a usual share of rejected events, and a small bad request, pause nothing [W11]', () => {
  const { send } = scene();
  for (let count = 0; count < 50; count++) expect(send([...times(6, GOOD), ...times(4, BAD)])).toBe(true);
  const fresh = scene();
  expect(fresh.send(times(50, BAD))).toBe(true);
});

test('the neighbours of a paused connection are decided [W11]', () => {
  const { send } = scene();
  expect(send(times(200, BAD))).toBe(false);
  expect(send([GOOD])).toBe(false);
  expect(send([GOOD], 'neighbour')).toBe(true);
});

test('it continues after the time that the answer names, and with newer reference data [W11]', () => {
  const { send, pass, limit } = scene();
  expect(send(times(200, BAD))).toBe(false);
  pass(599);
  expect([send([GOOD]), limit.isPaused('hook')]).toEqual([false, true]);
  pass(1);
  expect([limit.isPaused('hook'), send([GOOD])]).toEqual([false, true]);
  expect(send(times(200, BAD))).toBe(false);
  expect(send([GOOD], 'hook', V2)).toBe(true);
});

test('the error names the counts, the limit, the reasons and the time [W11]', () => {
  const { limit } = scene();
  expect(() =>
    limit.check('hook', V1, [
      ...times(90, BAD),
      ...times(20, decided(outcomeOf('no_player'))),
      ...times(10, GOOD),
    ]),
  ).toThrow(
    '110 of the last 120 events would be rejected, more than the limit of 50 % (in the last batch: 90 bad_amount, 20 no_player). No event is decided until 2026-11-27T02:10:00.000Z',
  );
});

test('a connection for tests is never paused [W11] [C11]', () => {
  const reference = aReference(
    aDocument(anOperator({ connections: [{ id: 'hook', transport: 'webhook', test: true }] })),
  );
  const { limit } = scene();
  expect(() => limit.check('hook', reference, times(500, BAD))).not.toThrow();
});

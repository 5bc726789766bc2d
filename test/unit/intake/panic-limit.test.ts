/** The limit on events that become panics. */
import { PANIC } from '../../../src/domain/verdict/judge';
import { makeIntake } from '../../../src/intake/intake';
import { makeLogger } from '../../../src/telemetry/logger';
import { aBet, aDocument, anOperator, aReference } from '../../support/builders';
import { streamRecord } from '../../support/chunk';

/** An intake in which every event fails alone. */
function failing() {
  const state = { now: 1_000, isResend: false };
  const reference = async () =>
    aReference(aDocument(anOperator({ connections: [{ id: 'of-t', transport: 'kafka', topic: 't' }] })));
  const intake = makeIntake({
    ledger: {
      partitionNo: async () => 1,
      async decideBatch({ panic }) {
        if (panic === undefined) throw new TypeError('a defect');
        const decided = { type: 'decided', outcome: PANIC, counted: false } as const;
        return { decisions: [{ ...decided, redelivered: state.isResend }], facts: null };
      },
    },
    references: { current: reference, reload: reference },
    logger: makeLogger('silent'),
    now: () => state.now,
  });
  const envelopes = [streamRecord(0, Buffer.from(JSON.stringify(aBet())))];
  /** Whether the event is decided. */
  const decide = async () => {
    const [result] = await intake.decide([{ origin: { topic: 't', partition: 0 }, envelopes }]);
    return result?.undecided === null;
  };
  return { state, decide };
}

const TEN = Array<boolean>(10).fill(true);

test('ten events a minute may become panics, and an eleventh may once a minute is over [V9]', async () => {
  const { state, decide } = failing();
  // At the same time, as by several partitions.
  expect(await Promise.all([...TEN, false].map(decide))).toEqual([...TEN, false]);
  state.now += 60_000;
  expect(await decide()).toBe(false);
  state.now += 1;
  expect(await decide()).toBe(true);
});

test('an event that had its verdict before takes no place of another [V9]', async () => {
  const { state, decide } = failing();
  state.isResend = true;
  expect(await Promise.all([...TEN, ...TEN].map(decide))).toContain(false);
  state.isResend = false;
  const later = [];
  for (let times = 0; times < 11; times++) later.push(await decide());
  expect(later).toEqual([...TEN, false]);
});

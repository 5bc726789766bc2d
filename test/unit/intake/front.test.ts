/** A batch whose records follow others in flight: judged meanwhile, and sent once those are decided. */
import { makeIntake } from '../../../src/intake/intake';
import { FrontUndecided } from '../../../src/intake/undecided';
import { makeLogger } from '../../../src/telemetry/logger';
import { aDocument, aReference } from '../../support/builders';

function aBatchBehind(front: Promise<void>) {
  const steps: string[] = [];
  const reference = async () => aReference(aDocument());
  const intake = makeIntake({
    ledger: {
      partitionNo: async () => 1,
      async decideBatch() {
        steps.push('sent');
        return { decisions: [], facts: null };
      },
    },
    references: { current: reference, reload: reference },
    sharedRounds: { observe: () => steps.push('judged') },
    logger: makeLogger('silent'),
    now: () => 0,
  });
  const beside = { origin: { topic: 't', partition: 1 }, envelopes: [] };
  const behind = { origin: { topic: 't', partition: 0 }, envelopes: [], front };
  return { steps, decided: intake.decide([beside, behind]) };
}

const afterAllWork = () => new Promise((resolve) => setImmediate(resolve));

it('is judged while the records in front are decided, and sent behind them [D2]', async () => {
  const front = Promise.withResolvers<void>();
  const { steps, decided } = aBatchBehind(front.promise);
  await afterAllWork();
  expect(steps).toEqual(['judged']);
  front.resolve();
  await decided;
  expect(steps).toEqual(['judged', 'sent']);
});

it('is never sent where the records in front stay undecided [D2]', async () => {
  const { steps, decided } = aBatchBehind(Promise.reject(new FrontUndecided()));
  const undecided = (await decided).map((result) => result.undecided?.message);
  expect(undecided).toEqual(['the records in front are undecided', 'the records in front are undecided']);
  expect(steps).toEqual(['judged']);
});

/** A batch whose records follow others in flight: judged meanwhile, and sent once those are decided. */
import { makeIntake } from '../../../src/intake/intake';
import { makeLogger } from '../../../src/telemetry/logger';
import { aDocument, aReference } from '../../support/builders';
import { streamRecord } from '../../support/chunk';

function aBatchBehind(front: Promise<void>) {
  const steps: string[] = [];
  /** The partitions of the batches that were sent. */
  const sent: number[] = [];
  const reference = async () => aReference(aDocument());
  const intake = makeIntake({
    ledger: {
      partitionNo: async () => 1,
      async decideBatch({ parts, items }) {
        steps.push('sent');
        sent.push(...parts.map(({ partition }) => partition.partition));
        const unclaimed = { type: 'unstored', deadLetter: 'unclaimed', redelivered: false } as const;
        return { decisions: items.map(() => unclaimed), facts: null };
      },
    },
    sendDeadLetters: async () => undefined,
    references: { current: reference, reload: reference },
    sharedRounds: { observe: () => steps.push('judged') },
    logger: makeLogger('silent'),
    now: () => 0,
  });
  const envelopes = [streamRecord(0)];
  const beside = { origin: { topic: 't', partition: 1 }, envelopes };
  const behind = { origin: { topic: 't', partition: 0 }, envelopes, front };
  return { steps, sent, decided: intake.decide([beside, behind]) };
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

it('is sent without the partition whose records in front stay undecided [D2] [U3]', async () => {
  const { steps, sent, decided } = aBatchBehind(
    Promise.reject(new Error('the records in front are undecided')),
  );
  const undecided = (await decided).map((result) => result.undecided?.message);
  expect(undecided).toEqual([undefined, 'the records in front are undecided']);
  expect(steps).toEqual(['judged', 'judged', 'sent']);
  expect(sent).toEqual([1]);
});

/** The fetch positions of a member: jumps that it reports, and offsets that it commits. */
import pino from 'pino';
import { type CommitRequest, FetchPositions } from '../../../../src/kafka/consumer/assigned-partitions';

const ONE = { topic: 't', partition: 1 };
const TWO = { topic: 't', partition: 2 };

function setUp() {
  const told: string[] = [];
  const nameOf = ({ topic, partition }: typeof ONE) => `${topic}/${partition}`;
  const positions = new FetchPositions(
    {
      onPositioned: (partition, offset, expectedUpTo) =>
        told.push(`${nameOf(partition)} begins at ${offset}, decided to ${expectedUpTo}`),
      onPassedOver: (partition, offsets) => told.push(`${nameOf(partition)} passed over ${offsets}`),
    },
    pino({ level: 'warn' }, { write: (line) => told.push(JSON.parse(line).msg) }),
  );
  const sent: string[] = [];
  const send = async ({ topics }: CommitRequest) => {
    for (const { topic, partitions } of topics)
      for (const { partition, offset } of partitions) sent.push(`${topic}/${partition}@${offset}`);
  };
  return { positions, told, sent, send };
}
const upTo = (partition: typeof ONE, offset: number) => ({ ...partition, offset, expectedUpTo: offset });

it('a partition continues at the committed offset, which only the first answer reports', () => {
  const { positions, told } = setUp();
  positions.onCommitted(ONE, 5, null);
  positions.onCommitted(ONE, 3, null);
  expect(positions.advance(ONE, 5, 9)).toBe(true);
  expect(told).toEqual(['t/1 begins at 5, decided to null']);
});

it('offsets that were passed over are reported, and a log that is new before any record of it is delivered', () => {
  const { positions, told } = setUp();
  positions.onCommitted(ONE, 5, null);
  expect(positions.advance(ONE, 8, 9)).toBe(true);
  positions.onCommitted(TWO, 5, null);
  expect(positions.advance(TWO, 0, 2)).toBe(true);
  expect(positions.isVoid).toBe(false);
  expect(told.filter((line) => !line.includes(' begins at '))).toEqual([
    't/1 passed over 3',
    'records were deleted before they were read',
    'the log of the partition is new; reading it from its beginning',
  ]);
});

it('a log of which no record was delivered is not in doubt', async () => {
  const { positions, sent, send } = setUp();
  positions.onCommitted(ONE, 5, null);
  positions.markInDoubt(ONE);
  expect(positions.advance(ONE, 0, 2)).toBe(true);
  await positions.commit([upTo(ONE, 2)], send);
  expect(sent).toEqual(['t/1@2']);
});

it('a commit is refused once the log is new under delivered records, until the next assignment', async () => {
  const { positions, sent, send } = setUp();
  expect(positions.advance(ONE, 0, 9)).toBe(true);
  expect(positions.advance(ONE, 0, 2)).toBe(false);
  expect(positions.isVoid).toBe(true);
  await expect(positions.commit([upTo(ONE, 9)], send)).rejects.toThrow('refused the offset of a partition');
  expect(sent).toEqual([]);
  positions.onAssigned();
  expect(positions.isVoid).toBe(false);
  expect(positions.advance(ONE, 0, 2)).toBe(true);
});

it('a rewind is not reported as a jump', () => {
  const { positions, told } = setUp();
  positions.advance(ONE, 0, 9);
  positions.rewindTo(ONE, 4);
  expect(positions.advance(ONE, 4, 6)).toBe(true);
  expect(positions.isVoid).toBe(false);
  expect(told).toEqual([]);
});

it('no commit exceeds the fetched records; a partition in doubt waits for its old high watermark', async () => {
  const { positions, sent, send } = setUp();
  positions.advance(ONE, 0, 9);
  positions.advance(TWO, 0, 9);
  await positions.commit([upTo(ONE, 10), upTo(TWO, 3)], send);
  expect(sent.splice(0)).toEqual(['t/2@3']);

  positions.markInDoubt(TWO);
  await expect(positions.commit([upTo(ONE, 4), upTo(TWO, 4)], send)).rejects.toThrow(
    'refused the offset of a partition',
  );
  expect(sent.splice(0)).toEqual(['t/1@4']);
  positions.onHighWatermark(TWO, 8);
  await expect(positions.commit([upTo(TWO, 4)], send)).rejects.toThrow('refused the offset of a partition');
  positions.onHighWatermark(TWO, 9);
  await positions.commit([upTo(TWO, 4)], send);
  expect(sent).toEqual(['t/2@4']);
});

/** The error of a producer where brokers did not take all messages. */
import { requireAcknowledged } from '../../../src/kafka/producer';

const partitions = [{ partition: 0 }, { partition: 1 }];

test('a partition whose messages no broker took may be without a leader: the error says so', () => {
  expect(() => requireAcknowledged('verdicts', partitions, partitions)).not.toThrow();
  expect(() => requireAcknowledged('verdicts', partitions, [{ partition: 0 }])).toThrow(
    'no broker took the messages for verdicts/1: this partition has no leader now, or does not exist any more',
  );
});

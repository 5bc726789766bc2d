/** The contender raw-consume: kafkajs and JSON.parse, nothing stored. What reading alone costs. */
import { consume, play } from './consume';
import { toldNumber } from './settings';

play(() =>
  consume(toldNumber('RECORDS'), toldNumber('PARTITIONS_AT_ONCE'), async ({ batch }) => {
    for (const { value } of batch.messages) JSON.parse(String(value));
    return batch.messages.length;
  }),
);

/** The contender raw-consume: kafkajs and JSON.parse, nothing stored. It shows the cost of reading alone. */
import { consume, play } from './consume';
import { numberSetting } from './settings';

play(() =>
  consume(numberSetting('RECORDS'), numberSetting('PARTITIONS_AT_ONCE'), async ({ batch }) => {
    for (const { value } of batch.messages) JSON.parse(String(value));
    return batch.messages.length;
  }),
);

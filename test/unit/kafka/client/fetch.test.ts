/** The facts about a partition in the answer to a fetch, beside its records. */
import fetchResponse from 'kafkajs/src/protocol/requests/fetch/v11/response';
import {
  type AnswerListener,
  installFetchDecoder,
  runWithListener,
} from '../../../../src/kafka/client/patches/fetch';
import { encodeBatch } from '../../../support/record-batch';

const int = (bytes: 2 | 4 | 8, value: number): Buffer => {
  const buffer = Buffer.alloc(bytes);
  if (bytes === 8) buffer.writeBigInt64BE(BigInt(value));
  else buffer.writeIntBE(value, 0, bytes);
  return buffer;
};

/** The answer for partition 0 of the topic t, which begins at 3 and ends at 9. https://kafka.apache.org/protocol#The_Messages_Fetch */
const answerWith = (records: Buffer, errorCode = 0): Buffer =>
  Buffer.concat([
    ...[int(4, 0), int(2, 0), int(4, 0)],
    ...[int(4, 1), int(2, 1), Buffer.from('t')],
    ...[int(4, 1), int(4, 0), int(2, errorCode), int(8, 9), int(8, 9), int(8, 3)],
    ...[int(4, 0), int(4, -1)],
    ...[int(4, records.length), records],
  ]);

const NOTHING = Buffer.alloc(0);
const BATCH = encodeBatch({ records: [{ value: Buffer.from('{}') }] });
/** Its length names more bytes than it has. */
const DAMAGED = Buffer.concat([BATCH.subarray(0, 8), int(4, 1_000_000), BATCH.subarray(12)]);
const NOT_ALLOWED = 29;
const OUT_OF_RANGE = 1;

async function heard(answer: Buffer): Promise<string[]> {
  const told: string[] = [];
  const listener: AnswerListener = {
    onHighWatermark: ({ topic, partition }, offset, start) =>
      told.push(`${topic}/${partition} ends at ${offset}, begins at ${start}`),
    onRefused: ({ topic, partition }, error) =>
      told.push(`${topic}/${partition} is refused: ${error.message}`),
    onLeaderless: ({ topic, partition }) => told.push(`${topic}/${partition} has no leader`),
    onMissing: ({ topic, partition }) => told.push(`${topic}/${partition} is missing`),
    onThrottled: () => told.push('throttled'),
    onJoining: () => told.push('joining'),
    onCommitted: () => told.push('committed'),
  };
  await runWithListener(listener, () => fetchResponse.decode(answer));
  return told;
}

beforeAll(() => installFetchDecoder(async (_, bytes) => bytes));

it.each([
  ['an end, without records', NOTHING, 0, 't/0 ends at 9, begins at 3'],
  ['an end, with a batch', BATCH, 0, 't/0 ends at 9, begins at 3'],
  [
    'an end, with a batch and the beginning of another',
    Buffer.concat([BATCH, DAMAGED]),
    0,
    't/0 ends at 9, begins at 3',
  ],
  [
    'a refusal',
    NOTHING,
    NOT_ALLOWED,
    't/0 is refused: Not authorized to access topics: [Topic authorization failed]',
  ],
  // The topic may have been created again. Offsets of the old topic must not be committed.
  ['an offset that the log does not have', NOTHING, OUT_OF_RANGE, 't/0 is missing'],
  // Otherwise the fetch would be repeated at once, without end and without a log line.
  ['a batch that claims more bytes than came', DAMAGED, 0, 't/0 is refused: its next batch is damaged'],
])('%s is told', async (_, records, errorCode, expected) => {
  expect(await heard(answerWith(records, errorCode))).toEqual([expected]);
});

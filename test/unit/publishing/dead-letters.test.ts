/** Sending dead letters: the names of refused ones, and one large letter at a time, even after a deadline. */
import type { DeadLetter } from '../../../src/intake/delivery';
import { LettersRefused } from '../../../src/intake/undecided';
import { type Producer, RecordsRefused } from '../../../src/kafka/producer';
import { makeSendDeadLetters } from '../../../src/publishing/dead-letters';

const letter = (offset: number, bytes = 2): DeadLetter => {
  const value = Buffer.alloc(bytes);
  const record = { offset, key: null, headers: [], claims: [], timestamp: '0' };
  return {
    envelope: { ...record, value, payload: { type: 'json', bytes: value } },
    source: { topic: 't', partition: 0 },
    reason: 'unclaimed',
  };
};
const LARGE = 2 * 1024 ** 2;

it('names the refused letters, in the order of their records [S6]', async () => {
  const send: Producer['send'] = async (_, items) => {
    throw new RecordsRefused(new Map([items[2], items[1]].map((item) => [item, 'too large'])));
  };
  const letters = [letter(0), letter(1), letter(2)];
  const error: unknown = await makeSendDeadLetters(
    { send, stop: async () => {} },
    'dead',
  )(letters).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LettersRefused);
  expect(error).toMatchObject({ message: 'too large', refused: letters.slice(1) });
});

it('holds no second large letter while the first is in flight, even after its deadline [S5]', async () => {
  const begun: (() => void)[] = [];
  const send: Producer['send'] = async (_, __, ___, options) => {
    begun.push(() => options?.onSettled?.());
    if (begun.length === 1) throw new Error('did not acknowledge in time');
  };
  const sendDeadLetters = makeSendDeadLetters({ send, stop: async () => {} }, 'dead');
  await expect(sendDeadLetters([letter(0, LARGE)])).rejects.toThrow('in time');
  const second = sendDeadLetters([letter(1, LARGE)]);
  await sendDeadLetters([letter(2)]);
  expect(begun).toHaveLength(2);
  begun[0]?.();
  await second;
  expect(begun).toHaveLength(3);
});

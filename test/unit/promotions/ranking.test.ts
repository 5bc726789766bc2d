/** The order of names in leaderboards and completions. */
import { makeRandom } from '../../../dev/random';
import { compareBytes } from '../../../src/promotions/ranking';

test('names have the order of their bytes in UTF-8, as in Postgres with collate "C" [P10]', () => {
  const random = makeRandom(7);
  const letters = ['', 'a', 'b', 'é', '中', '\ue000', '\uffff', '😀', '𐀀'];
  const name = () => Array.from({ length: 3 }, () => random.pick(letters)).join('');
  const pairs = Array.from({ length: 5_000 }, () => [name(), name()] as const);
  const wrong = pairs.filter(
    ([a, b]) => Math.sign(compareBytes(a, b)) !== Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
  expect(wrong).toEqual([]);
});

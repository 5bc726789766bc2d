/** The order of names in leaderboards and completions. */
import { makeRandom } from '../../../dev/random';
import { compareBytes } from '../../../src/promotions/ranking';

test('names have the order of their bytes in UTF-8, as in Postgres with collate "C" [P10]', () => {
  const random = makeRandom(7);
  const letters = ['', 'a', 'b', 'é', '中', '\ue000', '\uffff', '😀', '𐀀'];
  const name = () => Array.from({ length: 3 }, () => random.pick(letters)).join('');
  for (let i = 0; i < 5_000; i++) {
    const [a, b] = [name(), name()];
    const expected = Buffer.compare(Buffer.from(a), Buffer.from(b));
    expect([a, b, Math.sign(compareBytes(a, b))]).toEqual([a, b, expected]);
  }
});

/** Attempts of a completion within a slice, and over several. */
import { Attempts } from '../../../src/promotions/attempts';

const stepOf = (changeNo: number) => ({ changeNo, at: BigInt(changeNo) });

test('a slice that takes a completion back twice names the first step, and the last attempt [P11] [P12]', () => {
  const attempts = new Attempts();
  const settled = () => {
    const { changes } = attempts.settle(null);
    return changes.map(({ change, attempt, step }) => `${change} ${attempt} by ${step.changeNo}`);
  };
  attempts.lose(1, stepOf(1));
  expect(settled()).toEqual([]);
  attempts.attain(1, stepOf(2));
  attempts.attain(1, stepOf(3));
  expect(settled()).toEqual(['completed 1 by 2']);
  attempts.lose(1, stepOf(4));
  attempts.lose(1, stepOf(5));
  attempts.attain(1, stepOf(6));
  attempts.lose(1, stepOf(7));
  attempts.attain(1, stepOf(8));
  expect(settled()).toEqual(['revoked 1 by 4', 'completed 3 by 8']);
  expect(settled()).toEqual([]);
  attempts.lose(1, stepOf(9));
  expect(settled()).toEqual(['revoked 3 by 9']);
});

/** The number of cases of a test. */
import { inRun, isLongRun } from '../../../dev/long-run';

const VARIABLE = 'LONG_RUN_TEST_CASES';
const cases = (given?: string): number => {
  if (given !== undefined) process.env[VARIABLE] = given;
  return inRun({ usual: 2, long: 4, variable: VARIABLE });
};

afterEach(() => {
  delete process.env[VARIABLE];
});

test('the environment gives the number of cases, else the run', () => {
  expect([cases(), cases(''), cases('7')]).toEqual([isLongRun ? 4 : 2, isLongRun ? 4 : 2, 7]);
});

test.each(['x', '1.5', '-1'])('a number of cases is refused where it is %s', (given) => {
  expect(() => cases(given)).toThrow(`${VARIABLE} is "${given}": set a whole number`);
});

/** Texts of numbers and times on pages. */
import { unitOfTime } from '../../../src/lib/duration';
import { durationText } from '../../../src/markup/elements';

test.each([
  [0, '0 s'],
  [0.25, '0.3 s'],
  [119.9, '119.9 s'],
  [120, '2 min'],
  [615.4, '10.3 min'],
  [7_200, '2 h'],
  [172_799, '48 h'],
  [758_450.8, '8.8 d'],
])('%d seconds are shown in the largest unit of which they have two: %s', (seconds, text) => {
  expect(durationText(seconds).replace('\u00a0', ' ')).toBe(text);
});

test('an axis of times has the unit of its largest value', () => {
  expect([unitOfTime(119).name, unitOfTime(86_400).name, unitOfTime(172_800).name]).toEqual([
    'seconds',
    'hours',
    'days',
  ]);
});

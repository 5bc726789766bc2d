/** Texts of elapsed times. */
import { elapsedText } from '../../../src/lib/duration';

test.each([
  [null, 'for an unknown time'],
  [0.4, '0 s'],
  [89.6, '90 s'],
  [3_599, '3599 s'],
  [3_600, '60 min'],
  [4_530, '75.5 min'],
  [90_000, '25 h'],
  [758_450, '8.8 d'],
])('the time %s is shown in seconds below an hour, and in larger units above: %s', (seconds, text) => {
  expect(elapsedText(seconds)).toBe(text);
});

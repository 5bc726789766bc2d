/** The choice between rollups and views for the parts of a report. */
import { DAY_MS, TimeZone } from '../../../src/lib/time-zone';
import { planOf, type RollupState } from '../../../src/report/plan';
import { HOUR_MS } from '../../../src/report/window';

const UTC = new TimeZone('UTC');
const WARSAW = new TimeZone('Europe/Warsaw');
const KOLKATA = new TimeZone('Asia/Kolkata');
const NOW = Date.parse('2026-11-21T12:00:00Z');
const TODAY = Date.parse('2026-11-21T00:00:00Z');
const UP_TO_NOW: RollupState = { completeSince: null, upTo: NOW };
const planned = (from: number, zone: TimeZone, rollups: RollupState | null = UP_TO_NOW, to = NOW) => {
  const { verdicts, amounts, notes } = planOf({ from, to }, zone, rollups, NOW);
  return { sources: [verdicts.source, amounts.source], zone: amounts.buckets.zone, notes };
};

test.each([
  ['nobody keeps rollups', null, /No process has kept rollups/],
  ['they are counted for the first time', { completeSince: null, upTo: null }, /first time/],
  ['they are late', { completeSince: null, upTo: NOW - 10 * 60_000 - 1 }, /more than 10 minutes behind/],
])('where %s, all figures are from the views, and the report says why', (_, rollups, note) => {
  expect(planned(TODAY - 30 * DAY_MS, UTC, rollups)).toMatchObject({
    sources: ['views', 'views'],
    notes: [expect.stringMatching(note)],
  });
});

test('rollups that are ten minutes late serve', () => {
  const rollups = { completeSince: null, upTo: NOW - 10 * 60_000 };
  expect(planned(TODAY - 30 * DAY_MS, UTC, rollups).sources).toEqual(['rollups', 'rollups']);
});

test('a month of UTC is from the rollups, without a note', () => {
  expect(planned(TODAY - 30 * DAY_MS, UTC)).toMatchObject({ sources: ['rollups', 'rollups'], notes: [] });
});

test('buckets of minutes are from the views', () => {
  expect(planned(NOW - HOUR_MS, UTC)).toMatchObject({ sources: ['views', 'views'] });
});

test('a range that ends between two hours is from the rollups only where nothing is behind their end', () => {
  const end = NOW - 20 * 60_000;
  const from = TODAY - 30 * DAY_MS;
  const cut = planned(from, UTC, UP_TO_NOW, end);
  // Amounts are of whole dates, which the report says.
  expect(cut.sources).toEqual(['views', 'rollups']);
  expect(cut.notes.join(' ')).toMatch(/whole hours of UTC.*the same dates in UTC/);
  expect(planned(from, UTC, { completeSince: null, upTo: end }, end).sources).toEqual(['rollups', 'rollups']);
});

test('local days of a week are from the views, and those of a longer range are days of UTC', () => {
  const from = (days: number) => WARSAW.firstInstantOf(TODAY - days * DAY_MS);
  expect(planned(from(6), WARSAW)).toMatchObject({ sources: ['rollups', 'views'], zone: WARSAW });
  const long = planned(from(40), WARSAW);
  expect(long.sources).toEqual(['rollups', 'rollups']);
  expect(long.zone.name).toBe('UTC');
  expect(long.notes.join()).toContain('the same dates in UTC');
});

test('in a zone of half hours no bucket is whole hours of UTC', () => {
  expect(planned(KOLKATA.firstInstantOf(TODAY - 40 * DAY_MS), KOLKATA).sources).toEqual(['views', 'rollups']);
});

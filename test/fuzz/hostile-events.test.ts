/**
 * Events that are made to do harm: each has a verdict, and costs time in proportion to its length. Payloads
 * are arbitrary here. test/fuzz/fast-scan.test.ts tests valid and invalid events.
 */
import fc from 'fast-check';
import { inRun } from '../../dev/long-run';
import { judgeBothWays } from '../support/both-ways';
import { anEvent, bytesOf } from '../support/builders';
import { hostileBytes, hostileJson, hostileUnit } from '../support/hostile';
import { judgingMs, ONE_BRAND, SEVERAL, World } from '../unit/domain/world';

/** FUZZ_RUNS=1000000 takes an hour. */
const RUNS = inRun({ usual: 3_000, long: 10_000, variable: 'FUZZ_RUNS' });
jest.setTimeout(60_000 + RUNS * 10);

const connection = fc.constantFrom(SEVERAL, ONE_BRAND);
const VERDICT = /^(accepted|(rejected|skipped)\/[a-z_]+)$/;

it.each([
  ['any bytes', hostileBytes, RUNS],
  [
    'any JSON, with names of fields, nested and doubled',
    hostileJson.map((text) => Buffer.from(text)),
    RUNS / 5,
  ],
  [
    'an event with any JSON in and between its fields',
    fc
      .tuple(fc.constantFrom(...Object.keys(anEvent('bet'))), hostileJson, hostileJson)
      .map(([field, value, more]) => {
        const rest = bytesOf(anEvent('bet', { [field]: undefined }))
          .toString()
          .slice(1);
        return Buffer.from(`{"more":${more},"${field}":${value},${rest}`);
      }),
    RUNS / 10,
  ],
])('%s: has a verdict, the same on both ways [V3] [V4]', (_, payload, numRuns) => {
  fc.assert(
    fc.property(payload, connection, (bytes, by) => {
      expect(new World().decideJudged(judgeBothWays(bytes, by), by)).toMatch(VERDICT);
    }),
    { numRuns },
  );
});

describe('repetitions cost time in proportion to their number', () => {
  const SMALL = 32 * 1024;
  const LARGE = 8 * SMALL;
  /** Shorter times are noise. */
  const SHORTEST_MS = 8;
  /** Eight times the bytes: quadratic time grows to 64 times. */
  const MOST = 32;
  const EVENT = bytesOf(anEvent('bet')).toString().slice(1);

  /** The place of the repetition. */
  const PLACES: readonly (readonly [string, (text: string, times: number) => string])[] = [
    ['by itself', (text, times) => text.repeat(times)],
    ['in front of an event', (text, times) => `{${text.repeat(times)}${EVENT}`],
    ['in a text that is read', (text, times) => `{"event_id":"${text.repeat(times)}",${EVENT}`],
    ['in a value that is not read', (text, times) => `{"more":${text.repeat(times)},${EVENT}`],
    ['as keys, each a different one', (text, times) => `{${keys(text, times).join(',')},${EVENT}`],
  ];
  const keys = (text: string, times: number) =>
    Array.from({ length: times / 8 }, (_, n) => `"${n}${text.replaceAll('"', '')}":1`);

  const cost = (text: string): number => judgingMs(Buffer.from(text));

  it.each(PLACES)('%s', (_, place) => {
    fc.assert(
      fc.property(hostileUnit, (unit) => {
        const sized = (bytes: number) => place(unit, Math.ceil(bytes / Buffer.byteLength(unit)));
        const small = cost(sized(SMALL));
        expect(cost(sized(LARGE))).toBeLessThan(MOST * Math.max(small, SHORTEST_MS));
      }),
      { numRuns: Math.max(20, RUNS / 250) },
    );
  });

  // Units that are not in the list above: each stays open, or closes at the end.
  it.each<[string, (size: number) => string]>([
    ['arrays in arrays', (size) => `{"more":${'['.repeat(size / 2)}${']'.repeat(size / 2)},${EVENT}`],
    ['objects in objects', (size) => `{"more":${'{"a":'.repeat(size / 6)}1${'}'.repeat(size / 6)},${EVENT}`],
    ['a game in a game', (size) => `{"game":${'{"id":'.repeat(size / 7)}1${'}'.repeat(size / 7)},${EVENT}`],
    ['objects that never close', (size) => '{"event_id":'.repeat(size / 12)],
    ['the event_id again and again', (size) => `{${'"event_id":"e",'.repeat(size / 15)}${EVENT}`],
    ['keys like numbers', (size) => `{${sparse(size / 16)},${EVENT}`],
    ['a number of many digits', (size) => `{"more":${'9'.repeat(size)},${EVENT}`],
    ['a number with many decimals', (size) => `{"more":0.${'0'.repeat(size)}1,${EVENT}`],
  ])('%s', (_, text) => {
    expect(cost(text(LARGE))).toBeLessThan(MOST * Math.max(cost(text(SMALL)), SHORTEST_MS));
  });

  /** Keys that an engine may treat as distant indices of an array. */
  const sparse = (count: number) =>
    Array.from({ length: count }, (_, n) => `"${(n * 65_536) % 4_294_967_291}":1`).join(',');
});

/**
 * The fast way from bytes to fields (src/domain/event/fast-scan.ts) beside the parser and the contract. The
 * fast way may accept fewer events. It accepts no other event, and reads each field as the parser does.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { inRun } from '../../dev/long-run';
import { scan } from '../../src/domain/event/fast-scan';
import type { Connection } from '../../src/domain/reference';
import { judgeBothWays } from '../support/both-ways';
import { aBrand, aConnection, anEvent, bytesOf } from '../support/builders';
import { damaged, eventWith, MEANING, mutatedEvent, spliced, validEvent } from '../support/event-texts';

/** FUZZ_RUNS=1000000 takes a quarter of an hour. */
const RUNS = inRun({ usual: 3_000, long: 10_000, variable: 'FUZZ_RUNS' });
jest.setTimeout(60_000 + RUNS * 5);

// --- connections, so that brands and games are judged too

const brands = [
  aBrand({ id: 'main', games: { deny: ['g9'], allow: ['g1', 'g2', ''] }, minBet: { EUR: '1.00', JPY: '5' } }),
  aBrand({ id: 'other' }),
  aBrand({ id: '' }),
  aBrand({ id: 'closed', active: false }),
];
const catalogue = [
  { id: 'g1', active: true },
  { id: 'g3', active: false },
];
const CONNECTIONS: readonly (Connection | undefined)[] = [
  undefined,
  aConnection(),
  aConnection({ brands }),
  aConnection({ brands, catalogue }),
  aConnection({}, { brand: 'main' }),
  aConnection({ active: false }),
];

const connection = fc.constantFrom(...CONNECTIONS);

/**
 * The bytes as a record has them: a part of a larger buffer. More events follow, so that a read beyond the
 * end finds valid bytes.
 */
function asRecord(bytes: Buffer) {
  const before = Buffer.from('{"event_id":"');
  const all = Buffer.concat([before, bytes, bytes.subarray(-60), bytes]);
  return { bytes: all, from: before.length, to: before.length + bytes.length };
}

/** Whether the fast way accepts the event. The result must always equal the one of parser and contract. */
function expectAgreement(bytes: Buffer, by: Connection | undefined): boolean {
  const record = asRecord(bytes);
  judgeBothWays(bytes, by, { type: 'json', ...record });
  return scan(record.bytes, null, record.from, record.to) !== undefined;
}

describe('the fast way and the parser with the contract judge an event in the same way [F1] [V3] [V4] [D1]', () => {
  it.each([
    [
      'with values changed, removed, doubled or added, in any order and with any blanks',
      mutatedEvent,
      RUNS,
      0.2,
    ],
    ['with an amount and a currency of any form', eventWith('amount', 'currency'), RUNS, 0.2],
    ['with a time of any form', eventWith('occurred_at'), RUNS, 0.2],
    [
      'with names and ids of any form',
      eventWith('event_id', 'player_ref', 'brand', 'round_id', 'game'),
      RUNS,
      0.1,
    ],
    ['changed, and then damaged in transit', damaged(mutatedEvent, 2), RUNS, 0.01],
    ['damaged in one place', damaged(validEvent, 1), RUNS, 0.05],
    ['of any bytes', fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)), RUNS / 10, 0],
  ])('%s', (_, bytes, numRuns, leastShare) => {
    let runs = 0;
    let taken = 0;
    fc.assert(
      fc.property(bytes, connection, (sent, by) => {
        runs++;
        if (expectAgreement(sent, by)) taken++;
      }),
      { numRuns },
    );
    // A fast way that never accepts would agree as well.
    expect(taken / runs).toBeGreaterThanOrEqual(leastShare);
  });

  it.each(['bet', 'deposit', 'login'])(
    'a %s with each byte removed, doubled, or replaced by a byte of JSON',
    (one) => {
      const bytes = bytesOf(anEvent(one, { event_id: 'e', occurred_at: '2026-11-21T12:00:00.25Z' }));
      for (let at = 0; at <= bytes.length; at++) {
        expectAgreement(bytes.subarray(0, at), undefined);
        expectAgreement(spliced(bytes, at, 1), undefined);
        for (const byte of MEANING) {
          expectAgreement(spliced(bytes, at, 0, byte), undefined);
          expectAgreement(spliced(bytes, at, 1, byte), undefined);
        }
      }
    },
  );
});

describe('a text without an end', () => {
  it('is not searched in the events behind it, whose number its producer chooses', () => {
    const begun = Buffer.from('{"event_id":"');
    const megabytes = Buffer.concat([begun, Buffer.alloc(4 * 1024 * 1024, 'x')]);
    const began = performance.now();
    for (let event = 0; event < 5_000; event++) scan(megabytes, null, 0, begun.length + 10);
    // Milliseconds: to read to the end would be 20 GB.
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

describe('the fast way takes', () => {
  const takes = (event: unknown) => scan(bytesOf(event), null) !== undefined;

  it('every plain valid example of schemas/examples', () => {
    const folder = join(__dirname, '../../schemas/examples/valid');
    const examples = readdirSync(folder).map((file) => {
      const event: unknown = JSON.parse(readFileSync(join(folder, file), 'utf8'));
      return { file, taken: takes(event) };
    });
    expect(examples.length).toBeGreaterThan(20);
    expect(examples.filter(({ taken }) => !taken).map(({ file }) => file)).toEqual(NOT_PLAIN);
  });
});

/** Valid examples with 18 decimals, unknown fields, letters outside ASCII, second 60 or another zone. */
const NOT_PLAIN = [
  'bet-largest-amount.json',
  'bet-unknown-fields.json',
  'login-255-bytes.json',
  'login-leap-second.json',
  'login-unread-fields.json',
  'login-with-zone.json',
];

describe('repeated texts', () => {
  /** Texts of equal length and end, so that they have one place in the cache. Their beginnings differ. */
  const alike = (length: number) =>
    fc
      .string({ unit: fc.constantFrom('a', 'b'), minLength: length - 2, maxLength: length - 2 })
      .map((text) => `${text}xy`);
  const often = fc.oneof(
    ...[3, 8, 39, 40, 41].map(alike),
    fc.constantFrom('xy', 'bet', 'win', 'EUR', 'eur', 'main', 'g1', 'x', 'y', ''),
  );

  it('are not confused with texts of any field at the same place of the cache', () => {
    const sent = fc.record({
      player_ref: often,
      brand: often,
      round_id: often,
      game: fc.record({ id: often }),
      event_id: often,
    });
    fc.assert(
      fc.property(fc.array(sent, { minLength: 2, maxLength: 12 }), (events) => {
        for (const changes of events) {
          const event = anEvent('bet', changes);
          const taken = expectAgreement(bytesOf(event), undefined);
          expect(taken).toBe(![changes.player_ref, changes.round_id, changes.event_id].includes(''));
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('are unchanged after a thousand other texts', () => {
    const players = Array.from({ length: 1_000 }, (_, n) => `p-${n}`);
    for (let round = 0; round < 2; round++)
      for (const player of players)
        expect(scan(bytesOf(anEvent('login', { player_ref: player })), null)?.fields.playerRef).toBe(player);
  });

  it('stay the same when their bytes are reused', () => {
    const bytes = bytesOf(anEvent('bet', { player_ref: 'p-again', event_id: 'e-again' }));
    const scanned = scan(bytes, 'only');
    bytes.fill('x');
    expect(scanned).toMatchObject({
      eventId: 'e-again',
      brand: 'main',
      fields: { playerRef: 'p-again', brand: 'main', kind: 'bet' },
    });
    expect(scan(bytesOf(anEvent('bet', { player_ref: 'p-again' })), null)?.fields.playerRef).toBe('p-again');
  });
});

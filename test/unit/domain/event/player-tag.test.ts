/** Tags of players, and the stored form of an event's content with its tag (K6). */

import {
  contentHashOf,
  differsFromStored,
  FORGOTTEN,
  packContent,
} from '../../../../src/domain/event/content-hash';
import {
  monthNo,
  monthOf,
  type PlayerKey,
  PlayerTags,
  playerKeyOf,
  sipHash,
} from '../../../../src/domain/event/player-tag';
import { decide } from '../../../../src/domain/verdict/decide';
import { CopyRows } from '../../../../src/postgres/binary-format';
import { aBet, aLogin, type EventJson, without } from '../../../support/builders';
import { itemOf, judged, SEVERAL, World } from '../world';

const KEY: PlayerKey = [0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c];
const ANOTHER: PlayerKey = [1, 2, 3, 4];
const NOVEMBER = monthNo(2026, 11);
const DECEMBER = monthNo(2026, 12);

describe('the keyed hash of players [K6]', () => {
  // SipHash-1-3 of the bytes 0, 1, 2 ... under the key 0, 1, 2 ... 15, computed by an implementation of the
  // paper in another language.
  it.each([
    [0, 'abac0158050fc4dc'],
    [4, 'cf75576088d38328'],
    [8, '369095118d299a8e'],
    [16, 'cc4fdd1a7d908b66'],
  ])('is SipHash-1-3: %i bytes', (length, expected) => {
    const bytes = Buffer.from([...Array(length).keys()]);
    const words = Int32Array.from({ length: length / 4 }, (_, word) => bytes.readInt32LE(word * 4));
    const hash = { high: 0, low: 0 };
    sipHash(KEY, words, words.length, hash);
    const half = (word: number) => (word >>> 0).toString(16).padStart(8, '0');
    expect(half(hash.high) + half(hash.low)).toBe(expected);
  });

  it('differs for another key, month, salt or player, with any letters', () => {
    const tagsOf = (key: PlayerKey, month: number) => new PlayerTags(new Map([[month, key]]), month);
    const made = [
      tagsOf(KEY, NOVEMBER).make('r-1', 'p-1'),
      tagsOf(KEY, NOVEMBER).make('r-1', 'p-2'),
      tagsOf(KEY, NOVEMBER).make('r-1p', '-1'),
      tagsOf(KEY, NOVEMBER).make('r-2', 'p-1'),
      tagsOf(KEY, DECEMBER).make('r-1', 'p-1'),
      tagsOf(ANOTHER, NOVEMBER).make('r-1', 'p-1'),
      tagsOf(KEY, NOVEMBER).make('r-1', 'Å'),
      tagsOf(KEY, NOVEMBER).make('r-1', 'A\u030a'),
      tagsOf(KEY, NOVEMBER).make('r-1', 'p\u0000-\u0000'),
      tagsOf(KEY, NOVEMBER).make('r-1', 'p-1\u0000'),
      tagsOf(KEY, NOVEMBER).make('x'.repeat(1_001), '\u{1f600}'.repeat(63)),
      tagsOf(KEY, NOVEMBER).make('é'.repeat(1_000), 'é'.repeat(127)),
    ];
    expect(new Set(made).size).toBe(made.length);
    for (const tag of made) expect(Number.isSafeInteger(tag)).toBe(true);
  });

  it('needs a key, and cannot be compared after its key is deleted', () => {
    const both = new PlayerTags(new Map([[NOVEMBER, KEY]]), NOVEMBER);
    const tag = both.make('r', 'p');
    const later = new PlayerTags(new Map([[DECEMBER, ANOTHER]]), DECEMBER);
    expect([both.matches(tag ?? 0, 'r', 'p'), both.matches(tag ?? 0, 'r', 'q')]).toEqual([true, false]);
    expect(later.matches(tag ?? 0, 'r', 'p')).toBeNull();
    expect(new PlayerTags(new Map(), NOVEMBER).make('r', 'p')).toBeNull();
  });

  it('keys have 16 bytes, and months are those of UTC', () => {
    expect(playerKeyOf(Buffer.from([...Array(16).keys()]))).toEqual(KEY);
    expect(playerKeyOf(Buffer.alloc(15))).toBeUndefined();
    const micros = (text: string) => BigInt(Date.parse(text)) * 1000n;
    expect(monthOf(micros('2026-11-30T23:59:59.999Z'))).toBe(NOVEMBER);
    expect(monthOf(micros('2026-12-01T00:00:00Z'))).toBe(DECEMBER);
    expect([monthNo(2020, 1), monthNo(2062, 8), monthNo(2062, 9)]).toEqual([0, 511, 0]);
  });
});

describe('the content of an event as it is stored [K4] [K6]', () => {
  const tags = new PlayerTags(new Map([[NOVEMBER, KEY]]), NOVEMBER);
  const noTags = new PlayerTags(new Map(), NOVEMBER);
  const content = (event: EventJson) => ({ ...judged(event), playerTag: null });
  /** The value as the store reads it from the binary row. */
  const stored = (event: EventJson, by = tags): bigint => {
    const halves = { high: 0, low: 0 };
    packContent(content(event), by, halves);
    const rows = new CopyRows();
    rows.int8Halves(halves);
    const value = rows.end().readBigInt64BE(5 + 19 + 4);
    rows.recycle();
    return value;
  };
  const bet = aBet({ player_ref: 'p-1', round_id: 'r-1', amount: '10.50' });
  const withoutTag = (content: bigint) => content & ~0xffffffn;

  it('is negative with a tag, and 53 bits over everything without', () => {
    expect(stored(bet)).toBeLessThan(0n);
    expect(BigInt.asUintN(9, stored(bet) >> 54n)).toBe(BigInt(NOVEMBER));
    expect(stored(bet, noTags)).toBe(BigInt(contentHashOf(content(bet))));
  });

  it('separates an equal event from an event that differs in any field', () => {
    // There are many, so that each bit of both parts appears as 0 and as 1.
    for (let n = 0; n < 200; n++) {
      const event = { ...bet, amount: `${n}.00`, player_ref: `p-${n}` };
      const [same, otherPlayer, otherAmount] = [
        content(event),
        content({ ...event, player_ref: 'x' }),
        content({ ...event, amount: '0.01' }),
      ];
      for (const by of [tags, noTags]) {
        const value = stored(event, by);
        const differs = [same, otherPlayer, otherAmount].map((each) => differsFromStored(value, each, tags));
        expect(differs).toEqual([false, true, true]);
      }
    }
  });

  it('without the tag separates all fields except the player', () => {
    const erased = withoutTag(stored(bet));
    expect(differsFromStored(erased, content({ ...bet, player_ref: 'x' }), tags)).toBe(false);
    for (const change of [{ amount: '1.00' }, { brand: 'b' }, { kind: 'win' }, { player_ref: 7 }])
      expect(differsFromStored(erased, content({ ...bet, ...change }), tags)).toBe(true);
    expect(differsFromStored(erased, content(without(bet, 'player_ref')), tags)).toBe(true);
    expect(differsFromStored(FORGOTTEN, content({ ...bet, amount: '1.00' }), tags)).toBe(false);
  });

  it('of a month without a key is compared by all fields except the player', () => {
    const later = new PlayerTags(new Map([[DECEMBER, ANOTHER]]), DECEMBER);
    expect(differsFromStored(stored(bet), content({ ...bet, player_ref: 'x' }), later)).toBe(false);
    expect(differsFromStored(stored(bet), content({ ...bet, amount: '1.00' }), later)).toBe(true);
  });

  it('has the player only in the tag, and of an invalid player its type', () => {
    const rest = (event: EventJson) => withoutTag(stored(event));
    expect(rest({ ...bet, player_ref: 'x' })).toBe(rest(bet));
    const tag = (event: EventJson) => stored(event) & 0xffffffn;
    for (const player_ref of [7, true, null, [], {}, '', 'x'.repeat(300)])
      expect(tag({ ...bet, player_ref })).toBe(0n);
    expect(stored({ ...bet, player_ref: 7 })).toBe(stored({ ...bet, player_ref: 8 }));
    expect(stored({ ...bet, player_ref: 'x'.repeat(300) })).toBe(
      stored({ ...bet, player_ref: 'y'.repeat(300) }),
    );
    expect(
      new Set(
        [7, true, null, [], {}, '', 'x'.repeat(300)].map((player_ref) => stored({ ...bet, player_ref })),
      ).size,
    ).toBe(7);
    // Events without a round have tags of their own.
    expect(tag(aLogin({ player_ref: 'p', event_id: '1' }))).not.toBe(
      tag(aLogin({ player_ref: 'p', event_id: '2' })),
    );
  });

  it('is kept forever: its form never changes [K2]', () => {
    const event = {
      ...bet,
      event_id: 'e-1',
      occurred_at: '2026-11-21T12:00:00Z',
      brand: 'main',
      game: { id: 'g1' },
      currency: 'EUR',
    };
    expect(stored(event).toString()).toBe('-7730106223415210273');
    expect(stored(aLogin({ ...event, kind: 'login' })).toString()).toBe('-7728495104201638631');
  });
});

describe('a round whose events are in one batch [K6] [A3]', () => {
  const round = aBet({ round_id: 'r', player_ref: 'p' });
  const items = (players: readonly string[]) =>
    players.map((player_ref, offset) =>
      itemOf(judged({ ...round, event_id: `e-${offset}`, player_ref }), SEVERAL, { partitionNo: 1, offset }),
    );

  it('hashes its tag once, for all events of its player', () => {
    const tags = new PlayerTags(new Map([[NOVEMBER, KEY]]), NOVEMBER);
    const hashed = jest.spyOn(tags, 'makeFor');
    const events = items(['p', 'p', 'p', 'p']);
    decide(events, { ...new World().known, tags });
    expect(hashed).toHaveBeenCalledTimes(1);
    expect(new Set(events.map(({ playerTag }) => playerTag)).size).toBe(1);
    expect(events[0]?.playerTag).toBe(tags.make('r', 'p'));
  });

  it('hashes another tag for each event of another player', () => {
    const tags = new PlayerTags(new Map([[NOVEMBER, KEY]]), NOVEMBER);
    const events = items(['p', 'q', 'p', 'q']);
    const { decisions } = decide(events, { ...new World().known, tags });
    const [p, q] = [tags.make('r', 'p'), tags.make('r', 'q')];
    expect(events.map(({ playerTag }) => playerTag)).toEqual([p, q, p, q]);
    expect(
      decisions.map((decision) => (decision.type === 'decided' ? (decision.anomalies ?? []) : decision.type)),
    ).toEqual([[], ['player_mismatch'], [], ['player_mismatch']]);
  });
});

/** From bytes to an object with a usable event_id. Any other payload gets no verdict row (V3). */
import { NO_FIELDS } from '../../../../src/domain/event/event';
import { readEventId } from '../../../../src/domain/event/payload';
import { judge, PANIC } from '../../../../src/domain/verdict/judge';
import { aBet, aLogin, anEvent, bytesOf, type EventJson, without } from '../../../support/builders';
import { judgeBytes, SEVERAL, verdictOf, verdictOfBytes } from '../world';

const NO_KEY = 'rejected/no_idempotency_key';
const KINDS = ['bet', 'win', 'settled', 'refund', 'deposit', 'withdrawal', 'login'];

/** The text of an event, with an insertion after the opening brace. */
const textWith = (start: string, event: EventJson = aBet()) =>
  JSON.stringify(event).replace('{', `{${start},`);
/** The bytes of an event whose player_ref, or event_id, holds the given bytes. */
const bytesWith = (bytes: readonly number[], field: 'player_ref' | 'event_id' = 'player_ref') => {
  const [before, after] = JSON.stringify(aBet({ [field]: 'HERE' })).split('HERE');
  return Buffer.concat([Buffer.from(before!), Buffer.from(bytes), Buffer.from(after!)]);
};

describe('a payload without a usable event_id is rejected as no_idempotency_key [V3]', () => {
  it.each([
    ['a tombstone', null],
    ['no bytes at all', ''],
    ['blanks', ' \n\t'],
    ['text that is no JSON', 'spec=promo.event.v1'],
    ['JSON that is cut off', JSON.stringify(aBet()).slice(0, -1)],
    ['JSON with a character behind it', `${JSON.stringify(aBet())}x`],
    ['two events in one record', `${JSON.stringify(aBet())}\n${JSON.stringify(aBet())}`],
    ['JSON with a comment', textWith('/* bet */"x":1')],
    ['JSON with a trailing comma', JSON.stringify(aBet()).replace(/}$/, ',}')],
    ['JSON with single quotes', "{'event_id':'e-1'}"],
    ['a bare NaN', textWith('"x":NaN')],
    ['a raw control character in a string', textWith('"x":"a\nb"')],
    ['the start of the Confluent wire format', Buffer.concat([Buffer.alloc(5), bytesOf(aBet())])],
    ['UTF-16', Buffer.from(JSON.stringify(aBet()), 'utf16le')],
  ])('%s', (_, bytes) => {
    expect(verdictOfBytes(bytes)).toBe(NO_KEY);
  });

  it.each([
    ['null', 'null'],
    ['true', 'true'],
    ['a number', '1'],
    ['a string', '"event"'],
    ['an empty array', '[]'],
    ['an array with an event', JSON.stringify([aBet()])],
  ])('JSON that is no object: %s [F1]', (_, text) => {
    expect(verdictOfBytes(text)).toBe(NO_KEY);
  });

  it.each([
    ['missing', undefined],
    ['empty', ''],
    ['null', null],
    ['a number', 1],
    ['true', true],
    ['an array', ['e-1']],
    ['an object', { id: 'e-1' }],
    ['U+0000 alone', '\0'],
    ['text with U+0000', 'e\0e'],
    ['a high surrogate alone', 'e\ud83d'],
    ['a low surrogate alone', '\ude00e'],
    ['a surrogate pair in the wrong order', '\ude00\ud83d'],
  ])('event_id %s [F2]', (_, eventId) => {
    for (const kind of KINDS) expect(verdictOf(anEvent(kind, { event_id: eventId }))).toBe(NO_KEY);
  });

  it('a value that the transport could not decode [S2] [S3]', () => {
    expect(judge({ type: 'not_json' }, SEVERAL).type).toBe('unkeyed');
  });

  it('a batch, which has no event_id [F9]', () => {
    expect(verdictOf({ events: [aBet(), aBet()] })).toBe(NO_KEY);
  });

  it('the answer names the fault and its place', () => {
    const detailOf = (bytes: Buffer | string | null) => judgeBytes(bytes).faults;
    const fault = (field: string, detail: string) => [{ reason: 'no_idempotency_key', field, detail }];
    expect(detailOf(null)).toEqual(fault('', 'the record has no value (a tombstone)'));
    expect(detailOf(Buffer.from([0xff]))).toEqual(
      fault('', 'the payload is not valid UTF-8 at byte 0 (0xFF)'),
    );
    expect(detailOf('{')).toEqual(fault('', 'the payload ends too early, at byte 1: it was cut off'));
    expect(detailOf('[]')).toEqual(
      fault('', 'the payload is an array of 0 values, and must be an object: send each event by itself'),
    );
    expect(detailOf(JSON.stringify('{"event_id":"e-1"}'))).toEqual(
      fault('', 'the payload is a JSON text that holds JSON: it was encoded twice'),
    );
    expect(detailOf('"p-secret"')).toEqual(fault('', 'the payload is a text, and must be an object'));
    expect(judge({ type: 'not_json' }, SEVERAL)).toEqual({
      type: 'unkeyed',
      faults: fault('', 'the payload cannot be decoded'),
    });
    expect(detailOf('{}')).toEqual(fault('/event_id', 'event_id is missing'));
    expect(detailOf('{"event_id":7}')).toEqual(
      fault('/event_id', 'event_id is the number 7, and must be a text'),
    );
    expect(detailOf('{"event_id":""}')).toEqual(fault('/event_id', 'event_id is empty'));
    expect(detailOf('{"event_id":"\\u0000"}')).toEqual(
      fault('/event_id', 'event_id holds U+0000: "\\u0000"'),
    );
    const batch =
      'event_id is missing: the object has a key "events", so it is a batch of 2 events. A record holds one event, and only the webhook accepts batches';
    expect(detailOf('{"events":[{},{}]}')).toEqual(fault('/event_id', batch));
    expect(detailOf('{"eventId":"e-1"}')).toEqual(
      fault('/event_id', 'event_id is missing; there is "eventId": did you mean event_id?'),
    );
    expect(detailOf('{"data":{"event_id":"e-1"}}')).toEqual(
      fault('/event_id', 'event_id is missing; the object at "data" has one: send that object by itself'),
    );
  });
});

describe('bytes must be exact UTF-8 [V3]', () => {
  it.each([
    ['a byte that UTF-8 never has', [0xff]],
    ['a continuation byte alone', [0x80]],
    ['a two-byte character cut short', [0xc3]],
    ['a three-byte character cut short', [0xe2, 0x82]],
    ['a four-byte character cut short', [0xf0, 0x9f, 0x98]],
    ['an overlong slash in two bytes', [0xc0, 0xaf]],
    ['an overlong slash in three bytes', [0xe0, 0x80, 0xaf]],
    ['an overlong euro sign in four bytes', [0xf0, 0x82, 0x82, 0xac]],
    ['U+0000 as C0 80', [0xc0, 0x80]],
    ['a high surrogate', [0xed, 0xa0, 0x80]],
    ['a surrogate pair (CESU-8)', [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
    ['a character beyond U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
    ['a five-byte sequence', [0xf8, 0x88, 0x80, 0x80, 0x80]],
    ['Latin-1', [0x4d, 0xfc, 0x6c, 0x6c, 0x65, 0x72]],
  ])('%s is refused', (_, bytes) => {
    expect(verdictOfBytes(bytesWith(bytes))).toBe(NO_KEY);
    expect(verdictOfBytes(bytesWith(bytes, 'event_id'))).toBe(NO_KEY);
  });

  it.each([
    ['two bytes', [0xc3, 0xbc]],
    ['three bytes', [0xe2, 0x82, 0xac]],
    ['four bytes', [0xf0, 0x9f, 0x98, 0x80]],
    ['the last code point', [0xf4, 0x8f, 0xbf, 0xbf]],
    ['a noncharacter', [0xef, 0xbf, 0xbe]],
    ['U+FEFF inside a string', [0xef, 0xbb, 0xbf]],
  ])('a character of %s is accepted', (_, bytes) => {
    expect(verdictOfBytes(bytesWith(bytes))).toBe('accepted');
  });

  it('a byte order mark makes a payload no JSON', () => {
    expect(verdictOfBytes(`\ufeff${JSON.stringify(aBet())}`)).toBe(NO_KEY);
  });

  it('blanks around the object are JSON', () => {
    expect(verdictOfBytes(` \r\n${JSON.stringify(aBet())}\n\t`)).toBe('accepted');
  });
});

describe('more than a million values', () => {
  const arrays = (count: number) => `"x":[${'[],'.repeat(count - 1)}[]]`;

  it('are not read, at any place [V3]', () => {
    expect(verdictOfBytes(textWith(arrays(1_000_000)))).toBe(NO_KEY);
    expect(verdictOfBytes(textWith(`"x":[${'0,'.repeat(1_000_000)}0]`))).toBe(NO_KEY);
    expect(verdictOfBytes('['.repeat(1_000_001))).toBe(NO_KEY);
  });

  it('are counted without commas and brackets in texts [V3]', () => {
    expect(verdictOfBytes(textWith(`"x":${JSON.stringify(',[{"\\'.repeat(400_000))}`))).toBe('accepted');
    expect(verdictOfBytes(textWith(arrays(400_000)))).toBe('accepted');
  });
});

describe('an object with a usable event_id is judged', () => {
  it('of equal keys the last one wins [V3]', () => {
    const event = aBet();
    expect(verdictOfBytes(textWith('"event_id":7', event))).toBe('accepted');
    expect(verdictOfBytes(textWith('"kind":"bonus"', event))).toBe('accepted');
    expect(verdictOfBytes(JSON.stringify(event).replace(/}$/, ',"event_id":""}'))).toBe(NO_KEY);
    expect(verdictOfBytes(JSON.stringify(event).replace(/}$/, ',"kind":"bonus"}'))).toBe(
      'rejected/op_unknown',
    );
  });

  it('a key written with escapes is that key', () => {
    expect(verdictOfBytes(JSON.stringify(aBet()).replace('"kind"', '"\\u006bind"'))).toBe('accepted');
  });

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'reason', 'json', ''])(
    'the key "%s" is not listed [F1]',
    (key) => {
      expect(verdictOfBytes(textWith(`"${key}":{"kind":"bonus","id":"g9"}`))).toBe('accepted');
      expect(verdictOfBytes(textWith(`"${key}":null`))).toBe('accepted');
      const inGame = JSON.stringify(aBet()).replace('"game":{', `"game":{"${key}":{"id":7},`);
      expect(verdictOfBytes(inGame)).toBe('accepted');
    },
  );

  it('__proto__ supplies no field that is missing', () => {
    const event = aBet();
    const inherited = `{"__proto__":${JSON.stringify(event)}}`;
    expect(verdictOfBytes(inherited)).toBe(NO_KEY);
    const withId = `{"__proto__":${JSON.stringify(event)},"event_id":"e-1"}`;
    expect(verdictOfBytes(withId)).toBe('rejected/malformed');
  });

  it('an event with an unread value of any depth is judged', () => {
    const depth = 50_000;
    const nested = `${'['.repeat(depth)}${']'.repeat(depth)}`;
    expect(verdictOfBytes(textWith(`"more":${nested}`))).toBe('accepted');
    expect(verdictOfBytes(textWith(`"round_id":${nested}`, aLogin()))).toBe('accepted');
  });

  it.each(['spec', 'brand', 'player_ref', 'kind', 'round_id', 'game', 'currency', 'occurred_at'])(
    'an event with a wrong %s of any depth is malformed',
    (field) => {
      const depth = 50_000;
      const arrays = `${'['.repeat(depth)}${']'.repeat(depth)}`;
      const objects = `${'{"id":'.repeat(depth)}1${'}'.repeat(depth)}`;
      const event = without(aBet(), field);
      expect(verdictOfBytes(textWith(`"${field}":${arrays}`, event))).toBe('rejected/malformed');
      expect(verdictOfBytes(textWith(`"${field}":${objects}`, event))).toBe('rejected/malformed');
    },
  );

  it('any other event_id is usable, of any form and length [V3] [F2] [K5]', () => {
    for (const eventId of [' ', '0', 'null', '\u0001', 'é', '😀', '\ufffd', 'x'.repeat(1024 * 1024)])
      expect(verdictOf(aBet({ event_id: eventId }))).toBe('accepted');
  });

  it('a value that the transport decoded is judged like JSON [S2]', () => {
    expect(judge({ type: 'value', value: aBet() }, SEVERAL)).toMatchObject({ type: 'keyed', refusal: null });
    for (const value of [null, undefined, 7, 'text', [aBet()]])
      expect(judge({ type: 'value', value }, SEVERAL)).toMatchObject({ type: 'unkeyed' });
  });

  it('the id alone can be read, for an event whose processing fails [V9]', () => {
    const event = aBet({ kind: 'bonus' });
    expect(readEventId({ type: 'json', bytes: bytesOf(event) })).toMatchObject({ eventId: event.event_id });
    expect(Object.values(NO_FIELDS)).toEqual(Array(8).fill(null));
    expect(PANIC).toEqual({ verdict: 'rejected', reason: 'panic', code: 10 });
  });
});

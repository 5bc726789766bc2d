/** The descriptions of bytes that are no JSON: their actual format, or the byte at which they break. */
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { whyUnreadable } from '../../../../src/domain/event/unreadable';
import { aBet, bytesOf } from '../../../support/builders';
import { anyCharacter } from '../../../support/texts';
import { judgeBytes } from '../world';

const BET = JSON.stringify(aBet());

describe('the message for an unreadable payload [V3]', () => {
  it.each<[string | Buffer, RegExp]>([
    ['', /^is empty$/],
    ['  \n', /^holds only blanks$/],
    [`\uFEFF${BET}`, /^begins with a byte order mark/],
    [Buffer.from(BET, 'utf16le'), /^is UTF-16/],
    [Buffer.from(`\uFEFF${BET}`, 'utf16le'), /^is UTF-16/],
    [Buffer.from(BET, 'utf16le').swap16(), /^is UTF-16/],
    [Buffer.from(`[${BET}]`, 'utf16le'), /^is UTF-16/],
    [gzipSync(BET), /^is compressed with gzip/],
    [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0]), /^is compressed with zstd/],
    [Buffer.from('{"a":"é"}', 'latin1'), /^is not valid UTF-8 at byte 6 \(0xE9\)$/],
    [
      Buffer.concat([Buffer.from('é'.repeat(5_000)), Buffer.from([0xff])]),
      /^is not valid UTF-8 at byte 10000 \(0xFF\)$/,
    ],
    ['event_id;kind;amount\ne-1;bet;1.00', /^looks like CSV/],
    ['e-1,bet,1.00', /^looks like CSV/],
    ['1,bet,1.00', /^looks like CSV/],
    [
      `${BET}\n${BET}`,
      new RegExp(`^holds several JSON values like NDJSON, the second one at byte ${BET.length + 1}`),
    ],
    [BET.slice(0, 40), /^ends too early, at byte 40: it was cut off$/],
    [BET.slice(0, -1), new RegExp(`^ends too early, at byte ${BET.length - 1}: it was cut off$`)],
    ['<event/>', /^begins with "<"/],
    ["{'a':1}", /^is no JSON from byte 1 on: a text is written with ", not with '$/],
    ['{"a":1,}', /^is no JSON from byte 7 on: there is a comma before the closing bracket$/],
    ['{"a":"x\ny"}', /^is no JSON from byte 7 on: write a line feed, tab/],
    ['{"a":x}', /^is no JSON from byte 5 on: "x" is not allowed here$/],
  ])('%s', (bytes, why) => {
    expect(whyUnreadable(Buffer.from(bytes))).toMatch(why);
    expect(judgeBytes(Buffer.from(bytes)).faults[0]?.detail).toMatch(
      new RegExp(why.source.replace('^', '^the payload ')),
    );
  });

  it('has the first byte that belongs to no character, for bytes that are not UTF-8', () => {
    const invalid = fc.constantFrom(
      [0xff],
      [0xc3],
      [0xe2, 0x82],
      [0xed, 0xa0, 0x80],
      [0xf0, 0x9f, 0x98],
      [0xc0, 0xaf],
    );
    const text = fc.string({ unit: anyCharacter, maxLength: 300 });
    fc.assert(
      fc.property(text, invalid, text, (before, bytes, after) => {
        // The ASCII letter after it completes no character. The one before it rules out every other encoding.
        const begin = Buffer.from(`a${before}`);
        const all = Buffer.concat([begin, Buffer.from(bytes), Buffer.from(`a${after}`)]);
        expect(whyUnreadable(all)).toMatch(new RegExp(`^is not valid UTF-8 at byte ${begin.length} `));
      }),
    );
  });

  it('is found within one mebibyte, and holds at most one character of the payload', () => {
    const long = `{"a":"${'x'.repeat(3 * 1024 ** 2)}"`;
    expect(whyUnreadable(Buffer.from(long))).toBe('is no JSON, after byte 1048576');
    expect(whyUnreadable(Buffer.concat([Buffer.from(long), Buffer.from([0xff])]))).toBe(
      'is not valid UTF-8, after byte 1048576',
    );
    const player = bytesOf(aBet({ player_ref: 'p-secret' }))
      .toString()
      .replace('"kind"', 'kind');
    expect(whyUnreadable(Buffer.from(player))).not.toContain('secret');
  });
});

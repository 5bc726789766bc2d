/** The events of a batch as bytes (src/domain/event/request-body.ts), compared with JSON.parse. */
import fc from 'fast-check';
import { inRun } from '../../dev/long-run';
import { readBody } from '../../src/domain/event/request-body';
import { damaged } from '../support/event-texts';
import { anyCharacter } from '../support/texts';

const RUNS = inRun({ usual: 3_000, long: 10_000, variable: 'FUZZ_RUNS' });
jest.setTimeout(60_000 + RUNS * 5);

const blanks = fc.stringMatching(/^[ \n\r\t]{0,3}$/);
const value = fc.json({ maxDepth: 4, noUnicodeString: false });
const key = fc.oneof(
  fc.constantFrom('"events"', '"\\u0065vents"', '"event"', '"events "', '""', '"__proto__"'),
  fc.string({ unit: anyCharacter }).map((text) => JSON.stringify(text)),
);
const member = fc.tuple(
  key,
  fc.oneof(
    value,
    fc.array(value).map((list) => `[${list.join()}]`),
  ),
);

/** Members of an object with white space wherever it may stand. */
const objectText = fc
  .tuple(fc.array(member, { maxLength: 5 }), fc.infiniteStream(blanks))
  .map(([members, space]) => {
    const blank = () => space.next().value ?? '';
    const inner = members.map(([name, text]) => `${blank()}${name}${blank()}:${blank()}${text}${blank()}`);
    return `${blank()}{${inner.join()}${members.length === 0 ? blank() : ''}}${blank()}`;
  });

function expectAgreement(bytes: Buffer): void {
  const body = readBody(bytes, { maxEvents: 1_000, maxValues: 1_000_000 });
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    expect(body).toMatchObject({ type: 'malformed', isJson: false });
    return;
  }
  const events: unknown =
    typeof parsed === 'object' && parsed !== null && Object.hasOwn(parsed, 'events')
      ? Reflect.get(parsed, 'events')
      : undefined;
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    expect(body).toMatchObject({ type: 'malformed', isJson: true });
  } else if (events === undefined) {
    expect(body).toEqual({
      type: 'events',
      events: [{ type: 'json', bytes }],
      bytes: bytes.length,
      values: expect.any(Number),
    });
  } else if (!Array.isArray(events)) {
    expect(body).toMatchObject({ type: 'malformed', isJson: true });
  } else {
    if (body.type !== 'events') throw new Error(body.type);
    const texts = body.events.map(({ from, to }) => bytes.toString('utf8', from, to));
    expect(texts.map((text): unknown => JSON.parse(text))).toEqual(events);
    expect(texts.filter((text) => text.trim() !== text)).toEqual([]);
  }
}

test('the events of any body are those of JSON.parse [S1]', () => {
  fc.assert(
    fc.property(objectText, (text) => expectAgreement(Buffer.from(text))),
    { numRuns: RUNS },
  );
});

test('a damaged body is read as JSON.parse reads it, and never beyond its end [S1] [W6]', () => {
  fc.assert(
    fc.property(
      damaged(
        objectText.map((text) => Buffer.from(text)),
        3,
      ),
      expectAgreement,
    ),
    { numRuns: RUNS },
  );
});

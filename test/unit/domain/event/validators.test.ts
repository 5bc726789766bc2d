/** Any validator of JSON Schema refuses the events that our judge finds malformed. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import fc from 'fast-check';
import { EVENT_SCHEMA } from '../../../../src/domain/event/schema';
import { parseInstant } from '../../../../src/domain/event/timestamp';
import { anEvent, type EventJson, without } from '../../../support/builders';
import { isRefusedByContract } from '../world';

/** A validator that knows only our schema: patterns are regular expressions, and Date reads the dates. */
const independent = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, allErrors: true });
const DATE_TIME =
  /^(\d{4}-\d\d-\d\d)[Tt](([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60))(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/;
independent.addFormat('date-time', (text: string) => {
  const date = DATE_TIME.exec(text)?.[1];
  return date !== undefined && date.slice(0, 4) !== '0000' && isDate(date);
});
function isDate(date: string): boolean {
  const time = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(date);
}
const matchesSchema = independent.compile(EVENT_SCHEMA);

describe('any validator refuses the events that our judge finds malformed [V4]', () => {
  const VALUES: readonly unknown[] = [
    null,
    true,
    0,
    1.5,
    '',
    'x',
    'bet',
    'login',
    '10.50',
    '01',
    '1.',
    '1,5',
    'EUR',
    [],
    {},
    { id: 'g1' },
    { id: 7 },
    { id: null },
    'promo.event.v1',
    '2026-11-21T12:00:00Z',
    '2026-02-30T12:00:00Z',
    '2026-11-21 12:00:00Z',
    '2026-11-21t12:00:00.5+23:59',
  ];
  const FIELDS = [...Object.keys(EVENT_SCHEMA.properties), 'events', 'more'];
  const KINDS = EVENT_SCHEMA.properties.kind.enum;

  it.each(KINDS)('%s with any field of any value, or without it', (kind) => {
    const events = FIELDS.flatMap((field) => [
      without(anEvent(kind), field),
      ...VALUES.map((value) => anEvent(kind, { [field]: value })),
    ]);
    expect(events.filter((event) => isRefusedByContract(event) === matchesSchema(event))).toEqual([]);
  });

  it('any event with several fields at once', () => {
    const field = fc.tuple(fc.constantFrom(...FIELDS), fc.constantFrom(...VALUES));
    const changes = fc
      .array(field, { maxLength: 5 })
      .map((entries): EventJson => Object.fromEntries(entries));
    fc.assert(
      fc.property(
        fc.constantFrom(...KINDS),
        changes,
        fc.subarray(FIELDS, { maxLength: 2 }),
        (kind, changed, lacking) => {
          const event = without(anEvent(kind, changed), ...lacking);
          expect(!isRefusedByContract(event)).toBe(matchesSchema(event));
        },
      ),
      { numRuns: 500 },
    );
  });

  it('256 characters of a brand or player_ref are too many for both [F3] [F4]', () => {
    for (const name of ['brand', 'player_ref']) {
      const event = anEvent('bet', { [name]: 'a'.repeat(256) });
      expect(matchesSchema(event)).toBe(false);
      expect(isRefusedByContract(event)).toBe(true);
    }
  });

  it('the date-time of the schema is read in the same way', () => {
    const digit = (max: number) => fc.integer({ min: 0, max }).map((n) => String(n).padStart(2, '0'));
    const text = fc
      .tuple(
        fc.constantFrom('0001', '1900', '2000', '2026', '9999'),
        digit(13),
        digit(32),
        digit(24),
        digit(60),
        digit(59),
      )
      .map(
        ([year, month, day, hour, minute, second]) => `${year}-${month}-${day}T${hour}:${minute}:${second}Z`,
      );
    fc.assert(
      fc.property(text, (instant) => {
        expect(parseInstant(instant) !== undefined).toBe(
          matchesSchema(anEvent('login', { occurred_at: instant })),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe('the committed examples [V4]', () => {
  const EXAMPLES = join(__dirname, '../../../../schemas/examples');
  /**
   * Rules that JSON Schema cannot express: bytes, storable text, decimals and range of a currency, instants.
   */
  const BEYOND_THE_SCHEMA = [
    'no_idempotency_key-nul',
    'no_idempotency_key-latin-1',
    'malformed-brand-256-bytes',
    'malformed-player_ref-half-surrogate-pair',
    'malformed-occurred_at-second-60',
    'malformed-occurred_at-year-0000',
    'bad_amount-three-decimals',
    'bad_amount-zero-with-three-decimals',
    'bad_amount-decimals-of-yen',
    'bad_amount-beyond-64-bits',
    'bad_amount-ten-ether',
  ];
  const UNREADABLE = ['no_idempotency_key-not-json', 'no_idempotency_key-byte-order-mark'];
  /** These depend on the connection, not on the schema. */
  const REFUSED_FOR_ITS_BRAND = /^(no_brand|brand_unexpected|brand_unmapped|operator_inactive)-/;
  const events = ['valid', 'invalid', 'skipped', 'duplicate'].flatMap((folder) =>
    readdirSync(join(EXAMPLES, folder))
      .map((file) => ({ name: file.replace(/\.json$/, ''), path: join(folder, file) }))
      .filter(({ name }) => !UNREADABLE.includes(name)),
  );

  it.each(events.map(({ path, name }) => [path, name] as const))('%s', (path, name) => {
    const event: unknown = JSON.parse(readFileSync(join(EXAMPLES, path), 'utf8'));
    const isRefused = path.startsWith('invalid') && !REFUSED_FOR_ITS_BRAND.test(name);
    // An event without currency is skipped, and a duplicate may have any content. A schema calls neither
    // valid.
    const isOfTheSchema = name === 'currency_unknown-missing' || path === join('duplicate', 'rejected.json');
    expect(matchesSchema(event)).toBe(!(isRefused || isOfTheSchema) || BEYOND_THE_SCHEMA.includes(name));
  });
});

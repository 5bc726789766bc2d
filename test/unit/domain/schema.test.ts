/** The published contract: a valid schema of its draft, which any validator reads as our judge does. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import fc from 'fast-check';
import { EVENT_SCHEMA } from '../../../src/domain/contract';
import { parseInstant } from '../../../src/domain/instant';
import { judge } from '../../../src/domain/judge';
import { CURRENCIES } from '../../../src/domain/money';
import { anEvent, bytesOf, type EventJson, without } from '../../support/builders';

/** A validator that knows nothing of ours but the schema: patterns are regular expressions, dates are read by Date. */
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

/** Reasons that an event has because of the contract's schema. */
const OF_THE_SCHEMA = ['no_idempotency_key', 'malformed', 'op_unknown', 'no_player', 'bad_amount'];
const isRefusedByContract = (event: unknown) => {
  const { faults } = judge({ type: 'json', bytes: bytesOf(event) }, undefined);
  return faults.some(
    ({ reason, detail }) =>
      OF_THE_SCHEMA.includes(reason) || (reason === 'currency_unknown' && detail.endsWith('is missing')),
  );
};

describe('EVENT_SCHEMA [F1] [F2] [F5] [F7] [F8] [F9]', () => {
  it('is a JSON Schema of draft 2020-12', () => {
    expect(independent.validateSchema(EVENT_SCHEMA)).toBe(true);
    expect(independent.errors ?? []).toEqual([]);
  });

  it('its own examples match it and are accepted', () => {
    for (const example of EVENT_SCHEMA.examples) {
      expect(matchesSchema(example)).toBe(true);
      expect(judge({ type: 'json', bytes: bytesOf(example) }, undefined)).toMatchObject({ refusal: null });
    }
  });

  it('the examples of its fields are valid values', () => {
    for (const [field, { examples }] of Object.entries(EVENT_SCHEMA.properties).flatMap(([name, property]) =>
      'examples' in property ? [[name, property] as const] : [],
    ))
      for (const example of examples)
        expect(isRefusedByContract(anEvent('bet', { [field]: example }))).toBe(false);
  });

  it('explains every field, and lists every currency with its decimals [M4]', () => {
    for (const { title, description } of Object.values(EVENT_SCHEMA.properties)) {
      expect(title).toMatch(/^[A-Z]/);
      expect(description).toMatch(/\.$/);
    }
    const { description } = EVENT_SCHEMA.properties.currency;
    const table = /Decimals: (.*?)\. Required/.exec(description)?.[1] ?? '';
    const listed = table.split('; ').flatMap((part) => {
      const [scale, codes] = part.split(': ');
      return (codes ?? '').split(' ').map((code) => [code, Number(scale)]);
    });
    expect(listed).toEqual(CURRENCIES.map(({ code, scale }) => [code, scale]));
  });

  it('the file of it that is published is the same', () => {
    const path = join(__dirname, '../../../schemas/promo.event.v1.json');
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(JSON.parse(JSON.stringify(EVENT_SCHEMA)));
  });
});

describe('any validator finds malformed what our judge does [V4]', () => {
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
    for (const field of FIELDS) {
      const events = [
        without(anEvent(kind), field),
        ...VALUES.map((value) => anEvent(kind, { [field]: value })),
      ];
      for (const event of events)
        expect([event, !isRefusedByContract(event)]).toEqual([event, matchesSchema(event)]);
    }
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

  it('the date-time of the schema is read alike', () => {
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

describe('a committed example [7.1 malformed]', () => {
  const examples = join(__dirname, '../../../schemas/examples');
  it.each(readdirSync(join(examples, 'valid')))('valid/%s matches the schema', (file) => {
    const event: unknown = JSON.parse(readFileSync(join(examples, 'valid', file), 'utf8'));
    expect(matchesSchema(event)).toBe(true);
  });
});

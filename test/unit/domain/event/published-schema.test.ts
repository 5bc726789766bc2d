/** The published schema: valid in its draft, with complete texts and tables. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { CURRENCIES } from '../../../../src/domain/event/money';
import { EVENT_SCHEMA } from '../../../../src/domain/event/schema';
import { judge } from '../../../../src/domain/verdict/judge';
import { anEvent, bytesOf } from '../../../support/builders';
import { isRefusedByContract } from '../world';

describe('EVENT_SCHEMA [F1] [F2] [F5] [F7] [F8] [F9]', () => {
  it('is a JSON Schema of draft 2020-12', () => {
    const ajv = new Ajv2020();
    expect(ajv.validateSchema(EVENT_SCHEMA)).toBe(true);
    expect(ajv.errors ?? []).toEqual([]);
  });

  it('its own examples match it and are accepted', () => {
    for (const example of EVENT_SCHEMA.examples) {
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

  it('is equal to its published file', () => {
    const path = join(__dirname, '../../../../schemas/promo.event.v1.json');
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(JSON.parse(JSON.stringify(EVENT_SCHEMA)));
  });
});

/** The files of a sandbox: its own, and the profile of a wallet that `wallet-check` reads. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { parse } from 'yaml';
import { objectOf } from '../../../dev/compatibility/json-schema';
import { parseSandboxConfig } from '../../../src/sandbox/config-file';
import { callProfileOf } from '../../../src/sandbox/wallet-profile';
import { makeWalletClient } from '../../../src/wallet/client';
import { renderPayload } from '../../../src/wallet/profile';
import { parseProfile } from '../../../src/wallet-check/profile-file';

const EXAMPLES = join(__dirname, '../../../schemas/examples');
const example = (name: string) => readFileSync(join(EXAMPLES, name), 'utf8');

describe('the file of a sandbox', () => {
  test('of the examples has no fault', () => {
    const parsed = parseSandboxConfig(example('sandbox.yaml'), 'sandbox.yaml');
    if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
    const [acme, suspended] = parsed.config.operators;
    expect(acme?.keys.map(({ isReadOnly }) => isReadOnly)).toEqual([false, true]);
    expect([acme?.isActive, suspended?.isActive]).toEqual([true, false]);
    expect(
      parsed.config.games.map(({ isDemoSupported, isAvailable }) => [isDemoSupported, isAvailable]),
    ).toEqual([
      [true, true],
      [false, true],
      [true, false],
    ]);
  });

  test('has all its faults reported at once, with line and remedy', () => {
    const parsed = parseSandboxConfig(
      [
        'operators:',
        '  - id: a',
        '    keys: [{ id: k, secret_file: s, access: write_only }, { id: k, secret_file: "" }]',
        '    intake: { url: ftp://x, connection: c }',
        '    activ: true',
        'games: [{ id: g }, { id: g }]',
        'session_seconds: 0',
      ].join('\n'),
      'f.yaml',
    );
    const faults = 'faults' in parsed ? parsed.faults : [];
    expect(faults.map(({ line, path }) => `${line} ${path}`)).toEqual([
      '2 operators.k',
      '3 operators[0].keys[0].access',
      '3 operators[0].keys[1].secret_file',
      '4 operators[0].intake',
      '4 operators[0].intake.url',
      '5 operators[0].activ',
      '6 games.g',
      '7 session_seconds',
    ]);
    for (const { remedy } of faults) expect(remedy).not.toBe('');
  });
});

test('the schema has the keys that the reader takes, and no others', () => {
  const keysOf = (schema: unknown, path = ''): string[] => {
    const { properties, items } = objectOf(schema);
    return [
      ...(items === undefined ? [] : keysOf(items, path)),
      ...Object.entries(objectOf(properties)).flatMap(([key, value]) => [
        `${path}${key}`,
        ...keysOf(value, `${path}${key}.`),
      ]),
    ];
  };
  const schema: unknown = JSON.parse(readFileSync(join(EXAMPLES, '../sandbox.schema.json'), 'utf8'));
  const listed = (text: string) => {
    const parsed = parseSandboxConfig(text, 'f.yaml');
    const [fault] = 'faults' in parsed ? parsed.faults.filter(({ path }) => path.endsWith('none')) : [];
    return / are (.*)\.$/.exec(fault?.remedy ?? '')?.[1]?.split(', ') ?? [];
  };
  const lists: readonly (readonly [string, string])[] = [
    ['', 'none: 1'],
    ['operators.', 'operators: [{ none: 1 }]'],
    ['operators.keys.', 'operators: [{ keys: [{ none: 1 }] }]'],
    ['operators.intake.', 'operators: [{ intake: { none: 1 } }]'],
    ['games.', 'games: [{ none: 1 }]'],
  ];
  const read = lists.flatMap(([path, text]) => listed(text).map((key) => `${path}${key}`));
  expect(keysOf(schema).toSorted()).toEqual(read.toSorted());
});

test('the example fits the schema', () => {
  const validate = new Ajv2020({ strict: false }).compile(
    objectOf(JSON.parse(readFileSync(join(EXAMPLES, '../sandbox.schema.json'), 'utf8'))),
  );
  expect([validate(parse(example('sandbox.yaml'))), validate.errors]).toEqual([true, null]);
});

describe('the profile of a wallet', () => {
  const read = (text: string) => {
    const parsed = parseProfile(text, 'wallet.yaml');
    if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
    return callProfileOf(parsed.profile);
  };
  const values = {
    ...{ player: 'p', token: 't', currency: 'EUR', exponent: '2', round: 'r', game: 'g', amount: '100' },
  };

  test.each(['wallet.yaml', 'wallet-minimal.yaml'])('%s is usable by the caller of wallets', (name) => {
    const converted = read(example(name));
    if ('faults' in converted) throw new Error(converted.faults.join());
    const { profile } = converted;
    expect(() =>
      makeWalletClient(profile, {
        ...{ secret: () => Buffer.from('s'), monotonicNow: () => 0, wallNow: () => 0 },
      }),
    ).not.toThrow();
    for (const action of ['debit', 'credit', 'rollback'] as const) {
      const template = profile.actions[action];
      if (template === undefined) throw new Error(`the profile has no ${action}`);
      const more = { original: 'bet', original_op_id: 'bet' };
      expect(renderPayload(template, 'op', action === 'debit' ? values : { ...values, ...more }).type).toBe(
        'payload',
      );
    }
  });

  test('names the original of a rollback by the op_id, and writes numbers as numbers', () => {
    const converted = read(example('wallet.yaml'));
    if ('faults' in converted) throw new Error(converted.faults.join());
    const { rollback, debit } = converted.profile.actions;
    const rendered = rollback && renderPayload(rollback, 'op', { ...values, original_op_id: 'bet-1' });
    expect(rendered).toEqual({ type: 'payload', json: expect.stringContaining('"original":"bet-1"') });
    const bet = debit && renderPayload(debit, 'op', values);
    expect(bet).toEqual({ type: 'payload', json: expect.stringContaining('"exponent":2') });
  });

  test('with headers of its own, or two words for a success, is refused with both reasons', () => {
    const text = example('wallet.yaml')
      .replace('amounts: minor', 'headers: { X-A: b }\namounts: minor')
      .replace('values: [ok]', 'values: [ok, done]');
    const converted = read(text);
    expect('faults' in converted ? converted.faults : []).toHaveLength(2);
  });
});

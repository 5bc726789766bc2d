/** The files of a sandbox: its own, and the profile of a wallet that `wallet-check` reads. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { parse } from 'yaml';
import { objectOf } from '../../../dev/compatibility/json-schema';
import { parseSandboxConfig } from '../../../src/sandbox/config-file';
import { makeCall } from '../../../src/wallet/call-change';
import { parseProfile } from '../../../src/wallet/profile-file';

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

test.each(['wallet.yaml', 'wallet-minimal.yaml'])('rounds can be played by the profile %s', (name) => {
  const parsed = parseProfile(example(name), name);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  const values = {
    player: 'p',
    token: 't',
    currency: 'EUR',
    exponent: '2',
    round: 'r',
    game: 'g',
    amount: '100',
  };
  const payloadOf = (action: 'debit' | 'credit' | 'rollback', more: Record<string, string>) => {
    const made = makeCall(parsed.profile, { action, opId: 'op', values: { ...values, ...more } });
    if (made.type === 'malformed') throw new Error(made.faults.join());
    return made.call.payload;
  };
  expect(payloadOf('debit', {})).toContain('"100"');
  expect(payloadOf('credit', { original: 'bet-1' })).toContain('"100"');
  expect(payloadOf('rollback', { original: 'bet-1' })).toContain('"bet-1"');
});

/** Profiles of wallets: the examples are valid, and every fault has its place and a remedy. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { parseDocument } from 'yaml';
import { projectRoot } from '../../../dev/servers/download';
import { parseProfile } from '../../../src/wallet/profile-file';

const EXAMPLES = ['wallet.yaml', 'wallet-minimal.yaml'] as const;
const textOf = (file: string) => readFileSync(join(projectRoot, 'schemas/examples', file), 'utf8');
const SCHEMA: unknown = JSON.parse(
  readFileSync(join(projectRoot, 'schemas/wallet-profile.schema.json'), 'utf8'),
);
const isValid = (() => {
  if (typeof SCHEMA !== 'object' || SCHEMA === null) throw new Error('the schema is no object');
  return new Ajv2020({ strict: true, allowUnionTypes: true }).compile(SCHEMA);
})();

const faultsOf = (text: string) => {
  const parsed = parseProfile(text, 'wallet.yaml');
  return 'faults' in parsed
    ? parsed.faults.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`)
    : [];
};

describe.each(EXAMPLES)('schemas/examples/%s', (file) => {
  test('has no faults', () => {
    expect(parseProfile(textOf(file), file)).toHaveProperty('profile.players');
  });

  test('fits the schema', () => {
    isValid(parseDocument(textOf(file)).toJS());
    expect(isValid.errors).toBeNull();
  });
});

test('a profile that is no test environment is refused, by reader and schema [O7]', () => {
  for (const line of [
    'environment: production',
    '# no environment',
    'environment: Test',
    'environment: true',
  ]) {
    const text = textOf('wallet-minimal.yaml').replace('environment: test', line);
    expect(faultsOf(text).join('\n')).toMatch(/environment/);
    expect(isValid(parseDocument(text).toJS())).toBe(false);
  }
});

test('all faults come at once, each with its place [O7]', () => {
  const text = textOf('wallet-minimal.yaml')
    .replace('base_url: http://127.0.0.1:8787', 'base_url: ftp://wallet')
    .replace('"{{token}}"', '"{{tokn}}"')
    .replace('amounts: major', 'amounts: cents')
    .replace('key_id:', 'keyid:');
  expect(faultsOf(text)).toEqual([
    expect.stringMatching(/^\d+:1 : The key "key_id" is missing\./),
    expect.stringMatching(/^\d+:11 base_url: This is no address of HTTP\./),
    expect.stringMatching(/^\d+:1 keyid: The key "keyid" is unknown here\./),
    expect.stringMatching(/^\d+:10 amounts: The value "cents" is unknown here\./),
    expect.stringMatching(
      /^\d+:22 actions\.debit\.payload\.session_token: The place \{\{tokn\}\} is unknown\./,
    ),
    expect.stringMatching(/actions\.credit\.payload\.session_token: The place \{\{tokn\}\} is unknown\.$/),
  ]);
});

test.each([
  ['an action without its place', '"{{original}}"', 'x', 'The payload has no {{original}}.'],
  [
    'a payload without meta.op_id',
    'op_id: "{{op_id}}", round_id',
    'round_id',
    'The payload has no meta.op_id with a place.',
  ],
  ['an action that is missing', '  credit: {', '  notify: {', 'The key "credit" is missing.'],
  ['no usual player', 'usual:', 'poor:', 'The key "usual" is missing.'],
  ['a header that HTTP does not allow', 'X-Idempotency-Key', '"X Key"', 'HTTP allows no such header name.'],
])('%s is a fault', (_, was, is, message) => {
  const text = textOf('wallet-minimal.yaml').replace(was, is);
  expect(faultsOf(text).join('\n')).toContain(message);
});

test('every value that a request could not carry is a fault, without the value of a secret [O7]', () => {
  const text = textOf('wallet.yaml')
    .replace('base_url: http://127.0.0.1:8787', 'base_url: http://me:word@wallet.example/')
    .replace('key_id: wallet-key-1', 'key_id: "k\\r\\nx: y"')
    .replace('idempotency_header: Idempotency-Key', 'idempotency_header: X-Request-Id')
    .replace('header: X-Signature', 'header: "a b"')
    .replace(
      'timestamp_header: X-Timestamp\n  content: "',
      'timestamp_header: x-tenant\n  content: "{{other}}',
    )
    .replace('path: /v2/wallet/balance', 'path: v2?x')
    .replace('amounts: minor', 'amounts: minor\nconnections: 1\nheaders: { X-Tenant: a }');
  const faults = faultsOf(text);
  expect(faults.map((fault) => fault.replace(/^\d+:\d+ /, ''))).toEqual([
    'base_url: The URL holds credentials.',
    'key_id: HTTP allows no such id of a key.',
    'idempotency_header: This header has another use in wallet calls.',
    'connections: This is no number of the allowed range.',
    'signing.header: HTTP allows no such header name.',
    'signing.timestamp_header: This header has another use in wallet calls.',
    'signing.content: The place {{other}} is unknown.',
    'actions.balance.path: The path is no path of a URL.',
  ]);
  expect(faults.join()).not.toContain('word');
});

test('an empty file has a remedy of profiles', () => {
  expect(parseProfile('# nothing\n', 'wallet.yaml')).toMatchObject({
    faults: [{ remedy: 'Begin with "environment: test".' }],
  });
});

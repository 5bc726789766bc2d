/**
 * The schema of profiles against their reader, key by key. The schema was written by hand for editors; a key
 * that only one of them knows would mislead its writer.
 */
import { parseProfile } from '../../../src/wallet/profile-file';
import {
  ACTION,
  FULL,
  faultsOf,
  isValid,
  type Json,
  leaves,
  mappings,
  object,
  withValue,
} from '../../support/wallet-profile';

const profileOf = (profile: Json) => {
  const parsed = parseProfile(JSON.stringify(profile), 'wallet.json');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.profile;
};

/** A valid value of each key that differs from the one in FULL. Others take the text `other`. */
const OTHERS: Readonly<Record<string, unknown>> = {
  base_url: 'http://other',
  headers: { H: 'other' },
  ts: 'unix_s',
  amounts: 'major',
  method: 'POST',
  encoding: 'base64',
  content: '{{path}}{{body}}',
  path: '/other',
  exponent: 3,
  requests: 11,
  connections: 3,
  scheme: 'hmac-sha512',
  timestamp_header: 'T2',
  seconds: 11,
  url: 'http://other/e',
  body: { a: 2 },
  values: ['other'],
  changing: ['other'],
  payload: { ...ACTION.payload, more: 'other' },
};
/** It has one allowed value. */
const CONSTANT = ['environment'];

test('a profile with every key of the schema is valid for both', () => {
  expect(faultsOf(FULL)).toEqual([]);
  expect([isValid(FULL), isValid.errors]).toEqual([true, null]);
  expect(leaves.length).toBeGreaterThan(100);
});

test.each(leaves.map((path) => path.join('.')).filter((path) => !CONSTANT.includes(path)))(
  'a change of %s is read',
  (name) => {
    const path = name.split('.');
    const value = path[0] === 'unsupported' ? '/other' : (OTHERS[path.at(-1) ?? ''] ?? 'other');
    const changed = withValue(FULL, path, value);
    expect([isValid(changed), isValid.errors]).toEqual([true, null]);
    expect(profileOf(changed)).not.toEqual(profileOf(FULL));
  },
);

test.each(mappings.map(([path, keys]) => [path.join('.') || 'the profile', path, keys] as const))(
  'the keys of %s are those of the reader',
  (_, path, keys) => {
    const unknown = withValue(FULL, [...path, 'x-unknown-key-x'], 1);
    expect(isValid(unknown)).toBe(false);
    const [fault] = faultsOf(unknown);
    const known = /the keys here are (.*)\.$/.exec(fault?.remedy ?? '')?.[1] ?? '';
    expect(known.split(', ').sort()).toEqual([...keys].sort());
  },
);

test.each([
  'environment',
  'base_url',
  'operator_id',
  'key_id',
  'idempotency_header',
  'actions',
  'answers',
  'players',
  'actions.debit.payload',
  'actions.credit.path',
  'answers.balance',
  'answers.success.field',
  'players.usual',
  'players.poor.currency',
  'signing.header',
  'signing.secret_file',
  'catalogue.url',
  'catalogue.items',
  'token_endpoint.url',
])('without %s a profile is wrong for both', (name) => {
  // JSON.stringify leaves a key with undefined out.
  const changed = object(JSON.parse(JSON.stringify(withValue(FULL, name.split('.'), undefined))));
  expect(faultsOf(changed)).not.toEqual([]);
  expect(isValid(changed)).toBe(false);
});

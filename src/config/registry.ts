/** The settings of the connection to the schema registry and of our identity there. */
import { group } from './reading';
import { type Parsed, type Secret, secret, setting, text, url } from './setting';

export interface RegistrySettings {
  readonly registryUrl: string | undefined;
  /**
   * The value of the header `authorization`. Undefined: the user and password in the address are used, if
   * any.
   */
  readonly authorization: Secret | undefined;
}

const isAddress = url('http:', 'https:');

function registryAddress(text: string): Parsed<string> {
  // The user and the password are not examined, and the fault repeats no part of the text.
  if (/,/.test(text.replace(/^[^/]*\/\/[^/]*@/, '')))
    return {
      problem: 'names several addresses',
      remedy: 'Write one address, of a proxy or a service in front of them',
    };
  const parsed = isAddress(text);
  if ('problem' in parsed) return parsed;
  const { search, hash } = new URL(text);
  if (search !== '' || hash !== '')
    return {
      problem: `has a "${search === '' ? '#' : '?'}", and the text behind it would not be sent`,
      remedy:
        'Write the address without query and fragment; set a key or a token with SCHEMA_REGISTRY_TOKEN, or with SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD',
    };
  return parsed;
}

const SETTINGS = {
  SCHEMA_REGISTRY_URL: setting({
    describe:
      'Confluent-compatible schema registry. Absent: a value in the Confluent wire format is not JSON, so it has no event_id.',
    example: 'https://registry:8081',
    parse: registryAddress,
  }),
  SCHEMA_REGISTRY_USERNAME: setting({
    describe: 'User of the schema registry, if it requires one (HTTP Basic).',
    example: 'promo-intake',
    parse: text,
  }),
  SCHEMA_REGISTRY_PASSWORD: secret({ describe: 'Its password.', example: 'secret' }),
  SCHEMA_REGISTRY_TOKEN: secret({
    describe: 'Token for the schema registry, if it requires one (HTTP Bearer).',
    example: 'eyJhbGciOi...',
  }),
} as const;

const BASIC = ['SCHEMA_REGISTRY_USERNAME', 'SCHEMA_REGISTRY_PASSWORD'] as const;
const TOKEN = ['SCHEMA_REGISTRY_TOKEN'] as const;

export const registry = group(SETTINGS, (reading): RegistrySettings => {
  const registryUrl = reading.value('SCHEMA_REGISTRY_URL');
  if (!reading.isGiven('SCHEMA_REGISTRY_URL'))
    reading.refuse([...BASIC, ...TOKEN], 'without a schema registry', 'set SCHEMA_REGISTRY_URL');
  if (registryUrl !== undefined && new URL(registryUrl).username !== '')
    reading.refuse(
      [...BASIC, ...TOKEN],
      'beside a user in SCHEMA_REGISTRY_URL',
      'remove the user from SCHEMA_REGISTRY_URL',
    );
  const [username, password] = [
    reading.value('SCHEMA_REGISTRY_USERNAME'),
    reading.value('SCHEMA_REGISTRY_PASSWORD'),
  ];
  const token = reading.value('SCHEMA_REGISTRY_TOKEN');
  if (BASIC.some(reading.isGiven)) {
    reading.need(BASIC, 'but user and password need each other');
    reading.refuse(TOKEN, 'beside SCHEMA_REGISTRY_USERNAME', 'remove user and password');
  }
  const authorization =
    username && password
      ? () => `Basic ${Buffer.from(`${username}:${password()}`).toString('base64')}`
      : token && (() => `Bearer ${token()}`);
  return { registryUrl, authorization };
});

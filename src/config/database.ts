/** The settings of the connection to Postgres and of our identity there. */
import { group, type SettingsReading } from './reading';
import { oneOf, type Secret, secret, setting, url } from './setting';
import { caFile, certFile, keyFile, keyPassword, readTls, type Tls } from './tls';

export interface DatabaseSettings {
  /** The address without its password. */
  readonly databaseUrl: string;
  readonly password: Secret | undefined;
  /** Undefined for a connection without TLS. */
  readonly tls: Tls | undefined;
}

/**
 * The only two modes. Encryption without verification is not offered, since an attacker in between could read
 * everything.
 */
const MODES = ['disable', 'verify-full'] as const;
const sslMode = oneOf(MODES, 'a known mode');

/**
 * Parameters of the address that libpq and node-postgres know, each with the setting that replaces it here.
 */
const NOT_IN_URL = {
  ssl: 'DATABASE_SSL_MODE',
  sslrootcert: 'DATABASE_SSL_CA_FILE',
  sslcert: 'DATABASE_SSL_CERT_FILE',
  sslkey: 'DATABASE_SSL_KEY_FILE',
  sslpassword: 'DATABASE_SSL_KEY_PASSWORD',
  password: 'DATABASE_PASSWORD',
} as const;

/**
 * Parameters of the address that are passed on. Any other is refused, since it would be ignored. `host` is
 * the directory of a socket, where the address names no host. An address can then name its user by `user`
 * alone.
 */
const IN_URL: ReadonlySet<string> = new Set(['sslmode', 'application_name', 'options', 'host', 'user']);

/**
 * Variables of libpq that would be ignored, each with the setting that replaces it here. Null where there is
 * none.
 */
const NOT_READ: Readonly<Record<string, string | null>> = {
  PGSSLMODE: 'DATABASE_SSL_MODE',
  PGSSLROOTCERT: 'DATABASE_SSL_CA_FILE',
  PGSSLCERT: 'DATABASE_SSL_CERT_FILE',
  PGSSLKEY: 'DATABASE_SSL_KEY_FILE',
  PGSSLCRL: null,
  PGSSLCRLDIR: null,
  PGCHANNELBINDING: null,
  PGREQUIREAUTH: null,
  PGTARGETSESSIONATTRS: null,
};

const isAddress = url('postgres:', 'postgresql:');
/** Several hosts in the syntax of libpq. A comma in the user or the password does not count. */
const SEVERAL_HOSTS = /^postgres(ql)?:\/\/([^/?#]*@)?[^/?#@]*,/;

const SETTINGS = {
  DATABASE_URL: secret({
    describe: 'Postgres database.',
    required: true,
    example: 'postgres://promo:secret@db:5432/promo',
    check: (text) => {
      if (SEVERAL_HOSTS.test(text))
        return {
          problem: 'names several hosts',
          remedy:
            'Write one host: a name that follows the primary, such as a service, a DNS record or a proxy (pgbouncer, HAProxy)',
        };
      const parsed = isAddress(text);
      if ('problem' in parsed) return parsed;
      const { searchParams, username, password, hostname, pathname, hash } = new URL(text);
      if (![username, password, hostname, pathname].every(isDecodable))
        return { problem: 'has a "%" that does not begin an escape code', remedy: 'Write a "%" as %25' };
      // The text after a "#" would not be part of the password, and would be shown.
      if (hash !== '') return { problem: 'has a "#"', remedy: 'Write a "#" in user or password as %23' };
      if (![...searchParams.keys()].every((name) => /^\w+$/.test(name)))
        return {
          problem: 'has a "?" without parameters behind it',
          remedy: 'Write a "?" in user or password as %3F',
        };
      for (const [parameter, instead] of Object.entries(NOT_IN_URL)) {
        if (searchParams.has(parameter))
          return {
            problem: `has the parameter ${parameter}`,
            remedy: `Remove it from the address and set ${instead}`,
          };
      }
      // The parameter is not named, since it may be part of a password.
      if (![...searchParams.keys()].every((name) => IN_URL.has(name)))
        return {
          problem: 'has a parameter that is not supported',
          remedy: `Keep only ${[...IN_URL].join(', ')}, and write a "?" in user or password as %3F`,
        };
      if (hostname !== '' && searchParams.has('host'))
        return { problem: 'names a host twice', remedy: 'Remove the parameter host from the address' };
      if (username !== '' && searchParams.has('user'))
        return { problem: 'names a user twice', remedy: 'Remove the parameter user from the address' };
      return undefined;
    },
  }),
  DATABASE_PASSWORD: secret({
    describe: 'Password, if DATABASE_URL has none.',
    example: 'secret',
  }),
  DATABASE_SSL_MODE: setting({
    describe:
      'disable: without TLS. verify-full: with TLS, and the certificate must belong to the host of DATABASE_URL. Absent: sslmode of DATABASE_URL, else disable.',
    example: 'verify-full',
    parse: sslMode,
  }),
  DATABASE_SSL_CA_FILE: caFile('the server'),
  DATABASE_SSL_CERT_FILE: certFile('the server'),
  DATABASE_SSL_KEY_FILE: keyFile('DATABASE_SSL_CERT_FILE'),
  DATABASE_SSL_KEY_PASSWORD: keyPassword('DATABASE_SSL_KEY_FILE'),
} as const;

const TLS = {
  ca: 'DATABASE_SSL_CA_FILE',
  cert: 'DATABASE_SSL_CERT_FILE',
  key: 'DATABASE_SSL_KEY_FILE',
  password: 'DATABASE_SSL_KEY_PASSWORD',
} as const;

export const database = group(SETTINGS, (reading): DatabaseSettings | undefined => {
  for (const [variable, instead] of Object.entries(NOT_READ)) {
    if (reading.environment[variable])
      reading.faults.push({
        setting: variable,
        problem: instead === null ? 'is not supported' : 'is not read',
        remedy: instead === null ? 'Remove it' : `Remove it and set ${instead}`,
      });
  }
  const address = reading.value('DATABASE_URL');
  const mode = readMode(reading, address);
  if (mode === 'disable')
    reading.refuse(Object.values(TLS), 'without TLS', 'set DATABASE_SSL_MODE to verify-full');
  const tls = mode === 'verify-full' ? readTls(TLS, reading) : undefined;
  if (address === undefined) return undefined;
  const bare = new URL(address());
  bare.password = '';
  bare.searchParams.delete('sslmode');
  return { databaseUrl: bare.href, password: readPassword(reading, address), tls };
});

function readMode(reading: SettingsReading<typeof SETTINGS>, address: Secret | undefined) {
  if (reading.isGiven('DATABASE_SSL_MODE')) return reading.value('DATABASE_SSL_MODE');
  if (address === undefined) return undefined;
  const written = new URL(address()).searchParams.get('sslmode');
  if (written === null) return 'disable';
  const parsed = sslMode(written);
  if ('value' in parsed) return parsed.value;
  const remedy = 'Set DATABASE_SSL_MODE to verify-full, and DATABASE_SSL_CA_FILE';
  reading.fault('DATABASE_URL', `has sslmode=${written}, which does not verify the server`, remedy);
  return undefined;
}

/** Of an address in a file, only the password is read again. Another host or database needs a restart. */
function readPassword(reading: SettingsReading<typeof SETTINGS>, address: Secret): Secret | undefined {
  const inAddress = () => decodeURIComponent(new URL(address()).password);
  if (!reading.isGiven('DATABASE_PASSWORD')) return inAddress() === '' ? undefined : inAddress;
  if (inAddress() !== '')
    reading.fault(
      'DATABASE_PASSWORD',
      'is set, but DATABASE_URL has a password as well',
      'Remove one of the two',
    );
  return reading.value('DATABASE_PASSWORD');
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

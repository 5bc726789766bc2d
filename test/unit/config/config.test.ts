/**
 * The settings of connections: their values, and the faults of settings that are wrong or contradict each
 * other.
 */
import { createPrivateKey } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { makeAuthority } from '../../../dev/servers/certificates';
import { ConfigError, readConfig } from '../../../src/config/config';
import { readSecrets } from '../../../src/config/webhook';
import { clientConfig } from '../../../src/postgres/pool';

type Settings = Readonly<Record<string, string>>;

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'config-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

function faultsOf(read: () => unknown): string[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n');
    throw error;
  }
}

const authority = makeAuthority('An authority');
const { cert, key } = authority.sign('client');
const expired = authority.sign('client', { expired: true });
const encryptedKey = createPrivateKey(key).export({
  type: 'pkcs8',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase: 'XKEYX',
});

describe('Kafka', () => {
  const read = (settings: Settings) =>
    readConfig({ KAFKA_BROKERS: 'kafka-0:9092', ...settings }, ['KAFKA']).KAFKA;
  const faults = (settings: Settings) => faultsOf(() => read(settings));
  const SASL_SSL = { KAFKA_SECURITY_PROTOCOL: 'SASL_SSL' };
  const USER = { KAFKA_SASL_USERNAME: 'promo', KAFKA_SASL_PASSWORD: 'XSECRETX' };
  const TOKEN = {
    KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: 'https://login.test/token',
    KAFKA_SASL_OAUTHBEARER_CLIENT_ID: 'promo',
    KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET: 'XSECRETX',
  };

  test('uses plain text by default', () => {
    expect(read({})).toEqual({
      brokers: ['kafka-0:9092'],
      tls: undefined,
      sasl: undefined,
      sessionTimeoutMs: 10_000,
    });
  });

  test.each([
    ['kafka-0', '"kafka-0" is not host:port'],
    ['a:1, b:0', '"b:0" is not host:port'],
    ['[::1]:9092', '"[::1]:9092" is not host:port'],
    // A password is not repeated.
    ['a:1,promo:XSECRETX@kafka:9092', 'its entry 2 is not host:port'],
  ])('needs names and ports of brokers: not %s', (brokers, problem) => {
    expect(faults({ KAFKA_BROKERS: brokers })).toEqual([expect.stringContaining(problem)]);
  });

  test.each(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'])('gets a user and a password: %s', (mechanism) => {
    const { tls, sasl } = read({ ...SASL_SSL, KAFKA_SASL_MECHANISM: mechanism, ...USER });
    expect(tls).toEqual({ ca: undefined, cert: undefined, key: undefined, passphrase: undefined });
    expect(sasl).toEqual({ mechanism, username: 'promo', password: expect.any(Function) });
    expect(sasl && 'password' in sasl && sasl.password()).toBe('XSECRETX');
  });

  test('gets tokens', () => {
    const { tls, sasl } = read({
      KAFKA_SECURITY_PROTOCOL: 'SASL_PLAINTEXT',
      KAFKA_SASL_MECHANISM: 'OAUTHBEARER',
      ...TOKEN,
      KAFKA_SASL_OAUTHBEARER_SCOPE: 'events',
    });
    expect(tls).toBeUndefined();
    expect(sasl).toEqual({
      mechanism: 'OAUTHBEARER',
      tokens: {
        endpoint: 'https://login.test/token',
        clientId: 'promo',
        clientSecret: expect.any(Function),
        scope: 'events',
      },
    });
  });

  test('gets a certificate, whose files are read again each time', () => {
    const path = file('renewed.crt', cert);
    const { tls } = read({
      KAFKA_SECURITY_PROTOCOL: 'SSL',
      KAFKA_SSL_CA_FILE: file('ca.crt', authority.ca),
      KAFKA_SSL_CERT_FILE: path,
      KAFKA_SSL_KEY_FILE: file('encrypted.key', String(encryptedKey)),
      KAFKA_SSL_KEY_PASSWORD: 'XKEYX',
    });
    expect(tls?.ca).toBe(authority.ca.trimEnd());
    expect(tls?.cert).toBe(cert.trimEnd());
    expect(tls?.passphrase).toBe('XKEYX');
    writeFileSync(path, expired.cert);
    expect(tls?.cert).toBe(expired.cert.trimEnd());
    rmSync(path);
    expect(tls?.cert).toBe(expired.cert.trimEnd());
  });

  test.each<[string, Settings, RegExp[]]>([
    [
      'an unknown protocol',
      { KAFKA_SECURITY_PROTOCOL: 'TLS' },
      [/^KAFKA_SECURITY_PROTOCOL: "TLS" is not .* SASL_SSL\.$/],
    ],
    [
      'no mechanism',
      SASL_SSL,
      [/^KAFKA_SASL_MECHANISM: is not set, but is required with KAFKA_SECURITY_PROTOCOL=SASL_SSL\. Set it/],
    ],
    [
      'an unknown mechanism',
      { ...SASL_SSL, KAFKA_SASL_MECHANISM: 'GSSAPI' },
      [/^KAFKA_SASL_MECHANISM: "GSSAPI"/],
    ],
    [
      'a mechanism without user and password',
      { ...SASL_SSL, KAFKA_SASL_MECHANISM: 'PLAIN' },
      [/^KAFKA_SASL_USERNAME: is not set/, /^KAFKA_SASL_PASSWORD: .* or KAFKA_SASL_PASSWORD_FILE to a file/],
    ],
    [
      'OAUTHBEARER with a user',
      { ...SASL_SSL, KAFKA_SASL_MECHANISM: 'OAUTHBEARER', ...USER },
      [
        /^KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: is not set/,
        /^KAFKA_SASL_OAUTHBEARER_CLIENT_ID: is not set/,
        /^KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET: is not set/,
        /^KAFKA_SASL_USERNAME: is not used with KAFKA_SASL_MECHANISM=OAUTHBEARER/,
        /^KAFKA_SASL_PASSWORD: is not used/,
      ],
    ],
    [
      'PLAIN with settings of tokens',
      { ...SASL_SSL, KAFKA_SASL_MECHANISM: 'PLAIN', ...USER, KAFKA_SASL_OAUTHBEARER_SCOPE: 'x' },
      [/^KAFKA_SASL_OAUTHBEARER_SCOPE: is not used .* set KAFKA_SASL_MECHANISM to OAUTHBEARER\.$/],
    ],
    [
      'a user and a CA without a protocol that uses them',
      { KAFKA_SSL_CA_FILE: '/ca.crt', KAFKA_SASL_MECHANISM: 'PLAIN', ...USER },
      [
        // The file is missing too.
        /^KAFKA_SSL_CA_FILE: the file \/ca\.crt cannot be read \(ENOENT\)/,
        /^KAFKA_SSL_CA_FILE: is not used with KAFKA_SECURITY_PROTOCOL=PLAINTEXT\. Remove it, or set/,
        /^KAFKA_SASL_MECHANISM: is not used/,
        /^KAFKA_SASL_USERNAME: is not used/,
        /^KAFKA_SASL_PASSWORD: is not used/,
      ],
    ],
    [
      'a secret that is set twice',
      { ...SASL_SSL, KAFKA_SASL_MECHANISM: 'PLAIN', ...USER, KAFKA_SASL_PASSWORD_FILE: '/password' },
      [
        /^KAFKA_SASL_PASSWORD: is set, but KAFKA_SASL_PASSWORD_FILE is set as well\. Remove one of the two\.$/,
      ],
    ],
    [
      'a file for a setting that is no secret',
      { KAFKA_SASL_USERNAME_FILE: '/user' },
      [/^KAFKA_SASL_USERNAME_FILE: is not a setting/],
    ],
    [
      'a password in the address of the token endpoint',
      {
        ...SASL_SSL,
        KAFKA_SASL_MECHANISM: 'OAUTHBEARER',
        ...TOKEN,
        KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: 'https://promo:XSECRETX@login.test/token',
      },
      [
        /^KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: has a user or a password\. Remove it, and set KAFKA_SASL_OAUTHBEARER_CLIENT_ID and KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET\.$/,
      ],
    ],
  ])('refuses %s', (_, settings, expected) => {
    expect(faults(settings)).toEqual(expected.map((each) => expect.stringMatching(each)));
  });

  test.each<[string, () => Settings, RegExp]>([
    [
      'a CA file without a certificate',
      () => ({ CA: file('no.crt', 'XX') }),
      /^KAFKA_SSL_CA_FILE: the file .* holds no certificate\. .* PEM/,
    ],
    [
      'a CA file that is damaged',
      () => ({ CA: file('bad.crt', authority.ca.replace(/MII/, 'XXX')) }),
      /^KAFKA_SSL_CA_FILE: .* cannot be read\. /,
    ],
    ['an empty CA file', () => ({ CA: file('empty.crt', '') }), /^KAFKA_SSL_CA_FILE: the file .* is empty/],
    [
      'a certificate without its key',
      () => ({ CERT: file('c.crt', cert) }),
      /^KAFKA_SSL_KEY_FILE: is not set/,
    ],
    [
      'a key without its certificate',
      () => ({ KEY: file('c.key', key) }),
      /^KAFKA_SSL_CERT_FILE: is not set/,
    ],
    [
      'the key of another certificate',
      () => ({ CERT: file('c.crt', cert), KEY: file('o.key', expired.key) }),
      /^KAFKA_SSL_KEY_FILE: is not the key of the certificate/,
    ],
    [
      'a certificate that has expired',
      () => ({ CERT: file('e.crt', expired.cert), KEY: file('e.key', expired.key) }),
      /^KAFKA_SSL_CERT_FILE: the file .* holds a certificate that expired on .* Replace the certificate/,
    ],
    [
      'a key whose password is not set',
      () => ({ CERT: file('c.crt', cert), KEY: file('p.key', String(encryptedKey)) }),
      /^KAFKA_SSL_KEY_FILE: .* has a password\. .* KAFKA_SSL_KEY_PASSWORD/,
    ],
    [
      'a key with another password',
      () => ({ CERT: file('c.crt', cert), KEY: file('p.key', String(encryptedKey)), KEYPW: 'XSECRETX' }),
      /^KAFKA_SSL_KEY_FILE: cannot be read with KAFKA_SSL_KEY_PASSWORD/,
    ],
  ])('refuses %s', (_, files, expected) => {
    const names: Settings = {
      CA: 'KAFKA_SSL_CA_FILE',
      CERT: 'KAFKA_SSL_CERT_FILE',
      KEY: 'KAFKA_SSL_KEY_FILE',
      KEYPW: 'KAFKA_SSL_KEY_PASSWORD',
    };
    const settings = Object.entries(files()).map(([name, value]) => [names[name], value]);
    expect(faults({ KAFKA_SECURITY_PROTOCOL: 'SSL', ...Object.fromEntries(settings) })).toEqual([
      expect.stringMatching(expected),
    ]);
  });

  test('a secret in a file is read again each time, without the line break at its end', () => {
    const path = file('password', 'one\n');
    const { sasl } = read({
      ...SASL_SSL,
      KAFKA_SASL_MECHANISM: 'PLAIN',
      KAFKA_SASL_USERNAME: 'promo',
      KAFKA_SASL_PASSWORD_FILE: path,
    });
    const password = () => sasl && 'password' in sasl && sasl.password();
    expect(password()).toBe('one');
    writeFileSync(path, ' two\r\n');
    expect(password()).toBe(' two');
  });

  test('printed configurations and error texts hold no secret', () => {
    const settings = { ...SASL_SSL, KAFKA_SASL_MECHANISM: 'PLAIN', ...USER };
    const config = readConfig(
      { KAFKA_BROKERS: 'k:1', ...settings, DATABASE_URL: 'postgres://promo:XSECRETX@db/promo' },
      ['KAFKA', 'DATABASE'],
    );
    expect(inspect(config, { depth: null }) + JSON.stringify(config)).not.toContain('XSECRETX');
    for (const url of [
      'XSECRETX',
      'http://a:XSECRETX@db',
      'postgres://a:XSECRETX%@db',
      'postgres://a:XSECRETX@db?ssl=true',
      'postgres://a:12?XSECRETX=4@db/promo',
      'postgres://a:12#XSECRETX@db/promo',
      'postgres://a:12?XSECRETX@db/promo',
    ])
      expect(faultsOf(() => readConfig({ DATABASE_URL: url }, ['DATABASE'])).join()).toMatch(
        /^DATABASE_URL: (?!.*XSECRETX)/,
      );
  });
});

describe('Postgres', () => {
  const read = (settings: Settings) => readConfig(settings, ['DATABASE']).DATABASE;
  const faults = (settings: Settings) => faultsOf(() => read(settings));
  const DATABASE_URL = 'postgres://promo@db:5433/pro%20mo';

  test('uses its address, and keeps the password separate', () => {
    const { databaseUrl, password, tls } = read({
      DATABASE_URL: 'postgres://promo:p%40ss@db/promo?application_name=a',
    });
    expect([databaseUrl, password?.(), tls]).toEqual([
      'postgres://promo@db/promo?application_name=a',
      'p@ss',
      undefined,
    ]);
    expect(clientConfig({ databaseUrl, password, tls })).toEqual({
      host: 'db',
      user: 'promo',
      database: 'promo',
      password: expect.any(Function),
      ssl: false,
      connectionTimeoutMillis: 15_000,
      application_name: 'a',
    });
    expect(clientConfig({ databaseUrl: 'postgres://a%20b:p%40ss@[::1]:1/x' })).toEqual({
      host: '::1',
      port: 1,
      user: 'a b',
      database: 'x',
      password: 'p@ss',
      ssl: false,
      connectionTimeoutMillis: 15_000,
    });
  });

  test('needs no password: the variables of libpq may have it', () => {
    expect(clientConfig(read({ DATABASE_URL }))).toEqual({
      host: 'db',
      port: 5433,
      user: 'promo',
      database: 'pro mo',
      ssl: false,
      connectionTimeoutMillis: 15_000,
    });
  });

  test.each<[string, Settings, boolean]>([
    ['the setting', { DATABASE_URL, DATABASE_SSL_MODE: 'verify-full' }, true],
    ['the address', { DATABASE_URL: `${DATABASE_URL}?sslmode=verify-full` }, true],
    ['the address, without', { DATABASE_URL: `${DATABASE_URL}?sslmode=disable` }, false],
    [
      'the setting, which overrides an address without verification',
      { DATABASE_URL: `${DATABASE_URL}?sslmode=require`, DATABASE_SSL_MODE: 'verify-full' },
      true,
    ],
  ])('speaks TLS by %s', (_, settings, expected) => {
    const { databaseUrl, tls } = read(settings);
    expect([databaseUrl, tls !== undefined]).toEqual([DATABASE_URL, expected]);
  });

  test('a password in an address in a file is read again each time', () => {
    const path = file('url', 'postgres://promo:one@db/promo\n');
    const { password } = read({ DATABASE_URL_FILE: path });
    expect(password?.()).toBe('one');
    writeFileSync(path, 'postgres://promo:two@db/promo\n');
    expect(password?.()).toBe('two');
  });

  test.each<[string, Settings, RegExp[]]>([
    ['no address', {}, [/^DATABASE_URL: is not set\. .* DATABASE_URL_FILE/]],
    [
      'a parameter that is not supported',
      { DATABASE_URL: `${DATABASE_URL}?target_session_attrs=read-write`, PGCHANNELBINDING: 'require' },
      [
        /^DATABASE_URL: has a parameter that is not supported\. Keep only sslmode,/,
        /^PGCHANNELBINDING: is not supported/,
      ],
    ],
    ['two hosts', { DATABASE_URL: `${DATABASE_URL}?host=other` }, [/^DATABASE_URL: names a host twice/]],
    ['two users', { DATABASE_URL: `${DATABASE_URL}?user=other` }, [/^DATABASE_URL: names a user twice/]],
    [
      'a mode that verifies nothing',
      { DATABASE_URL: `${DATABASE_URL}?sslmode=require` },
      [/^DATABASE_URL: has sslmode=require, which does not verify .* DATABASE_SSL_MODE/],
    ],
    [
      'the same by the setting',
      { DATABASE_URL, DATABASE_SSL_MODE: 'require' },
      [/^DATABASE_SSL_MODE: "require" is not .* verify-full\.$/],
    ],
    [
      'an authority in the address',
      { DATABASE_URL: `${DATABASE_URL}?sslrootcert=/ca` },
      [/^DATABASE_URL: has the parameter sslrootcert\. .* set DATABASE_SSL_CA_FILE\.$/],
    ],
    [
      'a password in its query',
      { DATABASE_URL: `${DATABASE_URL}?password=x` },
      [/^DATABASE_URL: has the parameter password\. .* set DATABASE_PASSWORD\.$/],
    ],
    ...['postgres://u:p@h/100%', 'postgres://u:p@h%zz/x', 'postgres://u%4:1p@h/x'].map(
      (url): [string, Settings, RegExp[]] => [
        `a "%" that does not begin an escape code: ${url}`,
        { DATABASE_URL: url },
        [/^DATABASE_URL: has a "%" that does not begin an escape code\. Write a "%" as %25\.$/],
      ],
    ),
    [
      'several hosts',
      { DATABASE_URL: 'postgres://u:XSECRETX,@a:5432,b:5432/promo' },
      [/^DATABASE_URL: names several hosts\. Write one host: a name that follows the primary/],
    ],
    ['no host', { DATABASE_URL: 'postgres:promo' }, [/^DATABASE_URL: is not an address/]],
    [
      'libpq’s variables',
      { DATABASE_URL, PGSSLMODE: 'verify-full' },
      [/^PGSSLMODE: is not read\. .* DATABASE_SSL_MODE\.$/],
    ],
    [
      'two passwords',
      { DATABASE_URL: 'postgres://a:b@db/promo', DATABASE_PASSWORD: 'c' },
      [/^DATABASE_PASSWORD: is set, but DATABASE_URL has a password/],
    ],
    [
      'a key password without TLS',
      { DATABASE_URL, DATABASE_SSL_KEY_PASSWORD: 'c' },
      [/^DATABASE_SSL_KEY_PASSWORD: is not used without TLS/],
    ],
    [
      'a key password without a key',
      { DATABASE_URL, DATABASE_SSL_MODE: 'verify-full', DATABASE_SSL_KEY_PASSWORD: 'c' },
      [/^DATABASE_SSL_CERT_FILE: is not set/, /^DATABASE_SSL_KEY_FILE: is not set/],
    ],
  ])('refuses %s', (_, settings, expected) => {
    expect(faults(settings)).toEqual(expected.map((each) => expect.stringMatching(each)));
  });
});

describe('the schema registry', () => {
  const read = (settings: Settings) => readConfig(settings, ['SCHEMA_REGISTRY']).SCHEMA_REGISTRY;
  const SCHEMA_REGISTRY_URL = 'https://registry:8081';
  const BASIC = { SCHEMA_REGISTRY_USERNAME: 'a', SCHEMA_REGISTRY_PASSWORD: 'b' };

  test('may be absent, open, or require a user or a token', () => {
    expect(read({})).toEqual({ registryUrl: undefined, authorization: undefined });
    expect(read({ SCHEMA_REGISTRY_URL }).authorization).toBeUndefined();
    expect(read({ SCHEMA_REGISTRY_URL, ...BASIC }).authorization?.()).toBe('Basic YTpi');
    expect(read({ SCHEMA_REGISTRY_URL, SCHEMA_REGISTRY_TOKEN: 'xyz' }).authorization?.()).toBe('Bearer xyz');
  });

  test.each<[string, Settings, RegExp[]]>([
    [
      'a token without a registry',
      { SCHEMA_REGISTRY_TOKEN: 'x' },
      [/^SCHEMA_REGISTRY_TOKEN: is not used without/],
    ],
    [
      'a list of addresses',
      { SCHEMA_REGISTRY_URL: 'https://a:8081,https://b:8081' },
      [/^SCHEMA_REGISTRY_URL: names several addresses\. Write one address/],
    ],
    [
      'a list of hosts',
      { SCHEMA_REGISTRY_URL: 'https://a,b:8081/path' },
      [/^SCHEMA_REGISTRY_URL: names several addresses/],
    ],
    [
      'a query',
      { SCHEMA_REGISTRY_URL: 'https://a:8081/?apikey=XSECRETX' },
      [
        /^SCHEMA_REGISTRY_URL: has a "\?", and the text behind it would not be sent\. Write the address without query and fragment/,
      ],
    ],
    [
      'a user without password',
      { SCHEMA_REGISTRY_URL, SCHEMA_REGISTRY_USERNAME: 'a' },
      [/^SCHEMA_REGISTRY_PASSWORD: is not set/],
    ],
    [
      'a user and a token',
      { SCHEMA_REGISTRY_URL, ...BASIC, SCHEMA_REGISTRY_TOKEN: 'x' },
      [/^SCHEMA_REGISTRY_TOKEN: is not used beside/],
    ],
    [
      'a user in the address and a token',
      { SCHEMA_REGISTRY_URL: 'https://a:b@registry', SCHEMA_REGISTRY_TOKEN: 'x' },
      [/^SCHEMA_REGISTRY_TOKEN: is not used beside a user in SCHEMA_REGISTRY_URL/],
    ],
  ])('refuses %s', (_, settings, expected) => {
    expect(faultsOf(() => read(settings))).toEqual(expected.map((each) => expect.stringMatching(each)));
  });
});

describe('the webhook', () => {
  const secretOf = (bytes: number) => `whsec_${Buffer.alloc(bytes, 'x').toString('base64')}`;
  const secrets = (value: unknown) => ({ WEBHOOK_SECRETS: JSON.stringify(value) });
  const faults = (settings: Settings) => faultsOf(() => readConfig(settings, ['WEBHOOK']));

  test('needs secrets, and has defaults for all other settings', () => {
    expect(faults({})).toEqual([
      expect.stringMatching(/^WEBHOOK_SECRETS: is not set\. Set it, .* or WEBHOOK_SECRETS_FILE to a file/),
    ]);
    const { WEBHOOK } = readConfig(secrets({ hook: secretOf(24) }), ['WEBHOOK']);
    expect(WEBHOOK).toMatchObject({
      port: 8081,
      slots: 4,
      maxEvents: 500,
      maxBytes: 1024 ** 2,
      drainSeconds: 0,
    });
  });

  test('accepts one secret of a connection, or several during a rotation', () => {
    const { WEBHOOK } = readConfig(secrets({ a: secretOf(24), 'b/ä': [secretOf(64), secretOf(32)] }), [
      'WEBHOOK',
    ]);
    const read = readSecrets(WEBHOOK.secrets());
    if ('problem' in read) throw new Error(read.problem);
    expect([...read.value].map(([id, keys]) => [id, keys.map(({ length }) => length)])).toEqual([
      ['a', [24]],
      ['b/ä', [64, 32]],
    ]);
  });

  test.each<[string, unknown, string]>([
    ['no connection', {}, 'names no connection'],
    ['a list', [secretOf(24)], 'is not a JSON object'],
    ['no secret', { a: [] }, 'has no secret for "a"'],
    ['a short secret', { a: secretOf(23) }, 'has a wrong form in the secret of "a": it is not whsec_'],
    ['a long secret', { a: secretOf(65) }, 'has a wrong form in the secret of "a": it is not whsec_'],
    ['no prefix', { a: 'XSECRETX' }, 'has a wrong form in the secret of "a": it is not whsec_'],
    [
      'no base64',
      { a: 'whsec_XSECRETX-XSECRETX-XSECRETX-XSECRETX' },
      'has a wrong form in the secret of "a": it is',
    ],
    ['a number', { a: 5 }, 'has a wrong form in the secret of "a": it is'],
    ['one of two', { a: [secretOf(24), 'XSECRETX'] }, 'has a wrong form in secret 2 of "a": it is'],
    [
      'two faulty connections',
      { a: secretOf(23), b: secretOf(24), c: [] },
      'has a wrong form in the secret of "a": it is not whsec_ and 24 to 64 bytes in base64; has no secret for "c"',
    ],
    [
      'one of two connections',
      { a: secretOf(24), b: [secretOf(25), secretOf(24)] },
      'has the same secret for "a" and "b"',
    ],
  ])('refuses secrets with %s, and repeats none', (_, value, problem) => {
    const [fault = '', ...more] = faults(secrets(value));
    expect(more).toEqual([]);
    expect(fault).toContain(`WEBHOOK_SECRETS: ${problem}`);
    expect(fault).not.toContain('SECRETX');
    expect(fault).toContain('echo "whsec_$(openssl rand -base64 32)"');
  });

  const bare = Buffer.alloc(32, 'HIDDENX').toString('base64');
  test.each<[string, unknown, string]>([
    [
      'id and secret exchanged',
      { [secretOf(32)]: 'acme-hook' },
      'has a secret where an id belongs, at entry 1: exchange',
    ],
    [
      'the second pair exchanged',
      { a: secretOf(32), [secretOf(33)]: 'b' },
      'has a secret where an id belongs, at entry 2',
    ],
    ['without prefix', { [bare]: 'acme-hook' }, 'has a secret where an id belongs, at entry 1'],
    ['a list', { [secretOf(32)]: ['acme-hook'] }, 'has a secret where an id belongs, at entry 1'],
    ['a part of one', { whsec_HIDDENX: 'acme-hook' }, 'has a secret where an id belongs, at entry 1'],
    [
      'a secret in both places',
      { [secretOf(32)]: secretOf(33) },
      'has a secret where an id belongs, at entry 1',
    ],
    ['both bare', { [bare]: bare }, 'has a wrong form in the secret of entry 1: it is not whsec_'],
    [
      'one secret for two',
      { [bare]: secretOf(32), a: secretOf(32) },
      'has the same secret for entry 1 and "a"',
    ],
  ])('never repeats a secret in the place of an id: %s', (_, value, problem) => {
    const told = faults(secrets(value)).join('\n');
    expect(told).toContain(`WEBHOOK_SECRETS: ${problem}`);
    for (const secret of [secretOf(32), secretOf(33), bare, 'HIDDENX'])
      for (let at = 0; at + 6 <= secret.length; at++)
        if (secret.slice(at, at + 6) !== 'whsec_') expect(told).not.toContain(secret.slice(at, at + 6));
  });

  test('a secret alone asks for the id of its connection', () => {
    expect(readSecrets(secretOf(24))).toEqual({
      problem: 'is a secret without the id of its connection',
      remedy: 'Write {"acme-hook": "whsec_..."}, with the id of your connection',
    });
  });

  test('refuses text that is not JSON, and reports all faults together', () => {
    const wrong = { WEBHOOK_SECRETS: 'XSECRETX', WEBHOOK_PORT: '70000', WEBHOOK_MAX_EVENTS: '8001' };
    expect(faults(wrong)).toEqual([
      expect.stringMatching(/^WEBHOOK_PORT: "70000" is not a whole number from 0 to 65535/),
      expect.stringMatching(/^WEBHOOK_SECRETS: is not JSON\. /),
      expect.stringMatching(/^WEBHOOK_MAX_EVENTS: "8001" is not a whole number from 1 to 8000/),
    ]);
  });
});

describe('a variable that is no setting', () => {
  const faults = (settings: Settings) => faultsOf(() => readConfig(settings, []));

  test.each([
    ['KAFKA_PORT', '9093'],
    ['DATABASE_PORT', '6432'],
    ['KAFKA_PORT_9092_TCP', '9092'],
    ['BATCH_EVENT', '100'],
    ['FETCH_INTERVAL', '20'],
    ['PARTITIONS_AT_A_TIME', '2'],
    ['SHUTDOWN_SECS', '5'],
    ['WEBHOOK_PORTS', '8081'],
    ['KAFKA_SERVICE_HOSTS', 'kafka'],
  ])('is refused if it begins like a setting: %s=%s', (name, value) => {
    expect(faults({ [name]: value })).toEqual([expect.stringMatching(`^${name}: is not a setting\\. `)]);
  });

  test('is ignored if Kubernetes sets it for a service', () => {
    const address = 'tcp://10.0.0.1:9092';
    const own = { KAFKA_SERVICE_HOST: '10.0.0.1', KAFKA_SERVICE_PORT: '9092', KAFKA_SERVICE_PORT_HTTP: '1' };
    const linked = {
      KAFKA_PORT_9092_TCP: address,
      KAFKA_PORT_9092_TCP_PROTO: 'tcp',
      KAFKA_PORT_9092_TCP_PORT: '9092',
      KAFKA_PORT_9092_TCP_ADDR: '10.0.0.1',
    };
    expect(faults({ ...own, ...linked, KAFKA_PORT: address, WEBHOOK_PORT: address })).toEqual([]);
  });
});

test('verification of certificates cannot be turned off in Node', () => {
  expect(faultsOf(() => readConfig({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, []))).toEqual([
    expect.stringMatching(/^NODE_TLS_REJECT_UNAUTHORIZED: turns off the verification of certificates\. /),
  ]);
  expect(faultsOf(() => readConfig({ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, []))).toEqual([]);
});

test('the faults of all connections are reported together', () => {
  const settings = {
    KAFKA_SECURITY_PROTOCOL: 'SASL_SSL',
    DATABASE_SSL_MODE: 'prefer',
    SCHEMA_REGISTRY_TOKEN: 'x',
  };
  const faults = faultsOf(() =>
    readConfig(settings, ['KAFKA', 'DATABASE', 'SCHEMA_REGISTRY', 'KAFKA_GROUP_ID']),
  );
  expect(faults.map((fault) => fault.split(':')[0])).toEqual([
    'KAFKA_BROKERS',
    'KAFKA_SASL_MECHANISM',
    'DATABASE_URL',
    'DATABASE_SSL_MODE',
    'SCHEMA_REGISTRY_TOKEN',
  ]);
});

describe('topics', () => {
  const faults = (settings: Settings) =>
    faultsOf(() => readConfig(settings, ['KAFKA_TOPICS', 'VERDICT_TOPIC', 'DEAD_LETTER_TOPIC', 'HTTP_PORT']));

  test('that are written differ from those that are read, and from each other', () => {
    expect(faults({ KAFKA_TOPICS: 'a,b', VERDICT_TOPIC: 'c', DEAD_LETTER_TOPIC: 'd' })).toEqual([]);
    expect(faults({ VERDICT_TOPIC: 'promo.event.v1.dead-letter' })).toEqual([
      'VERDICT_TOPIC: is the same as DEAD_LETTER_TOPIC. Use a separate topic.',
    ]);
    const both = { KAFKA_TOPICS: 'a,b', VERDICT_TOPIC: 'b', DEAD_LETTER_TOPIC: 'b', HTTP_PORT: 'x' };
    expect(faults(both)).toEqual([
      expect.stringMatching(/^HTTP_PORT: /),
      'VERDICT_TOPIC: is the same as DEAD_LETTER_TOPIC. Use a separate topic.',
      'VERDICT_TOPIC: is one of KAFKA_TOPICS. Use a separate topic.',
      'DEAD_LETTER_TOPIC: is one of KAFKA_TOPICS. Use a separate topic.',
    ]);
  });
});

describe('a verdict topic for each operator', () => {
  const faults = (VERDICT_TOPIC: string) => faultsOf(() => readConfig({ VERDICT_TOPIC }, ['VERDICT_TOPIC']));

  test.each(['promo.verdict.v1.{operator}', '{operator}', 'a.{operator}.b', 'promo.verdict.v1'])(
    'accepts %s',
    (topic) => {
      expect(readConfig({ VERDICT_TOPIC: topic }, ['VERDICT_TOPIC'])).toEqual({ VERDICT_TOPIC: topic });
    },
  );

  test.each([
    'a.{operator}.{operator}',
    'a.{brand}',
    'a.{operator',
    'ä.{operator}',
    `${'a'.repeat(249)}{operator}`,
  ])('refuses %s', (topic) => {
    expect(faults(topic)).toEqual([
      `VERDICT_TOPIC: "${topic}" is neither a Kafka topic name nor one with {operator} in it, once. Name a topic, or a pattern such as promo.verdict.v1.{operator}.`,
    ]);
  });
});

test('the topic of completions has to be named, and may be one for each operator', () => {
  const read = (settings: Settings) => readConfig(settings, ['COMPLETION_TOPIC']).COMPLETION_TOPIC;
  expect(read({ COMPLETION_TOPIC: 'c.{operator}' })).toBe('c.{operator}');
  expect(faultsOf(() => read({}))).toEqual([
    'COMPLETION_TOPIC: is not set. Set it, for example to promo.completion.v1.{operator}.',
  ]);
  expect(faultsOf(() => read({ COMPLETION_TOPIC: 'c.{brand}' }))).toEqual([
    'COMPLETION_TOPIC: "c.{brand}" is neither a Kafka topic name nor one with {operator} in it, once. Name a topic, or a pattern such as promo.completion.v1.{operator}.',
  ]);
});

describe('a limit on rejected events', () => {
  const read = (settings: Settings) => readConfig(settings, ['REJECT_LIMIT']).REJECT_LIMIT;
  const faults = (settings: Settings) => faultsOf(() => read(settings));

  test('is off by default, and counts the last thousand events when it is set', () => {
    expect(read({})).toBeNull();
    expect(read({ REJECT_LIMIT_PERCENT: '50' })).toEqual({
      percent: 50,
      windowEvents: 1_000,
      minEvents: 100,
      pauseSeconds: 600,
    });
  });

  test('is refused out of range, above its window, or without the percentage', () => {
    for (const REJECT_LIMIT_PERCENT of ['0', '100', '0.5', 'half'])
      expect(faults({ REJECT_LIMIT_PERCENT })).toEqual([
        expect.stringMatching(/^REJECT_LIMIT_PERCENT: .* is not a whole number from 1 to 99/),
      ]);
    expect(faults({ REJECT_LIMIT_PERCENT: '50', REJECT_MIN_EVENTS: '1001' })).toEqual([
      'REJECT_MIN_EVENTS: is more than REJECT_WINDOW_EVENTS. Set it to at most REJECT_WINDOW_EVENTS.',
    ]);
    expect(faults({ REJECT_WINDOW_EVENTS: '10', REJECT_MIN_EVENTS: '5' })).toEqual([
      expect.stringMatching(/^REJECT_WINDOW_EVENTS: is not used without REJECT_LIMIT_PERCENT/),
      expect.stringMatching(/^REJECT_MIN_EVENTS: is not used without REJECT_LIMIT_PERCENT/),
    ]);
    expect(faults({ REJECT_LIMIT: '50' })).toEqual([
      expect.stringMatching(/^REJECT_LIMIT: is not a setting/),
    ]);
  });
});

describe('traces', () => {
  const read = (settings: Settings) => readConfig(settings, ['TRACES']).TRACES;
  const faults = (settings: Settings) => faultsOf(() => read(settings));
  const COLLECTOR = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

  test('are off without a collector, and when a setting of OpenTelemetry turns them off', () => {
    expect(read({ OTEL_SERVICE_NAME: 'promo', OTEL_RESOURCE_ATTRIBUTES: 'a=b' })).toBeNull();
    expect(read({ ...COLLECTOR, OTEL_SDK_DISABLED: 'true' })).toBeNull();
    expect(read({ ...COLLECTOR, OTEL_TRACES_EXPORTER: 'none' })).toBeNull();
    const notForUs = { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_TRACES_SAMPLER: 'xray' };
    expect(read({ ...COLLECTOR, ...notForUs, OTEL_TRACES_EXPORTER: 'none' })).toBeNull();
    expect(read(notForUs)).toBeNull();
    expect(read(COLLECTOR)).toEqual({ headers: undefined });
    const headers = file('headers', 'api-key=XSECRETX\n');
    const traced = read({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector/v1/traces',
      OTEL_EXPORTER_OTLP_HEADERS_FILE: headers,
    });
    expect(traced?.headers?.()).toBe('api-key=XSECRETX');
  });

  test('are refused if the SDK would not follow a setting', () => {
    expect(faults({ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' })).toEqual([
      expect.stringMatching(/^OTEL_EXPORTER_OTLP_ENDPOINT: is not an address/),
    ]);
    expect(faults({ ...COLLECTOR, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toEqual([
      expect.stringMatching(/^OTEL_EXPORTER_OTLP_PROTOCOL: is not http\/protobuf/),
    ]);
    expect(faults({ ...COLLECTOR, OTEL_TRACES_SAMPLER: 'ratio' })).toEqual([
      expect.stringMatching(/^OTEL_TRACES_SAMPLER: "ratio" is not a sampler/),
    ]);
    for (const OTEL_TRACES_SAMPLER of ['traceidratio', 'parentbased_traceidratio'])
      expect(faults({ ...COLLECTOR, OTEL_TRACES_SAMPLER })).toEqual([
        expect.stringMatching(/^OTEL_TRACES_SAMPLER_ARG: is not set/),
      ]);
    for (const OTEL_TRACES_SAMPLER_ARG of ['1.5', '-1', '10%', '.5'])
      expect(faults({ OTEL_TRACES_SAMPLER_ARG })).toEqual([
        expect.stringMatching(/^OTEL_TRACES_SAMPLER_ARG: .* is not a number from 0 to 1/),
      ]);
    expect(faults({ OTEL_EXPORTER_OTLP_ENDPONT: 'http://collector:4318' })).toEqual([
      expect.stringMatching(/^OTEL_EXPORTER_OTLP_ENDPONT: is not a setting/),
    ]);
  });

  test('leave settings of other programs in the same environment alone', () => {
    const others = [
      ...['METRICS_ENDPOINT', 'LOGS_HEADERS', 'TRACES_TIMEOUT', 'COMPRESSION', 'CLIENT_KEY'],
      ...['METRICS_TEMPORALITY_PREFERENCE', 'METRICS_DEFAULT_HISTOGRAM_AGGREGATION'],
    ];
    const set = Object.fromEntries(others.map((name) => [`OTEL_EXPORTER_OTLP_${name}`, 'x']));
    expect(read({ ...set, OTEL_PROPAGATORS: 'b3', OTEL_LOGS_EXPORTER: 'otlp' })).toBeNull();
  });
});

/** docs/configuration.md: every setting, and the commands that read it. */
import { COMMANDS } from '../../src/cli';
import { OWN_PREFIXES, SETTINGS, type SettingName, settingsOf } from '../../src/config/config';
import { code, codeBlock, codes, document, generatedFrom, paragraph, table } from './markdown';

export function renderConfiguration(command: string): string {
  const names = Object.keys(SETTINGS).filter(isSetting);
  return document([
    generatedFrom(
      'SETTINGS in src/config/config.ts and src/config/, and the tables of src/commands',
      command,
    ),
    '# Configuration',
    paragraph(
      'All settings are environment variables. An empty variable counts as absent. Each command reads the settings that list it',
      'in the last column, and no others.',
    ),
    table(
      ['name', 'required or default', 'meaning', 'example', 'read by'],
      names.map((name) => {
        const { describe, example, secret } = SETTINGS[name];
        return [
          secret ? `${code(name)} or ${code(`${name}_FILE`)}` : code(name),
          defaultOf(name),
          describe,
          code(example),
          codes(readersOf(name)),
        ];
      }),
    ),
    '## Secrets',
    paragraph(
      'Put a secret into its variable, or into a file whose path is in the variable with `_FILE` at its end. Do not set both. A line break at the end of',
      'the file is not part of the secret. Files of secrets, certificates and keys are read again for each connection. After Kubernetes or',
      'cert-manager replaces a file, the next connection uses its new content, and open connections stay open. While a file is missing,',
      'its last content is used.',
    ),
    table(
      ['change', 'takes effect'],
      [
        ['password, client secret, token for the schema registry', 'at the next connection or request'],
        [
          'the secrets of `WEBHOOK_SECRETS_FILE`',
          'at the next request; the last ones if they cannot be read',
        ],
        ['certificates and keys of `KAFKA_SSL_*` and `DATABASE_SSL_*`', 'at the next connection'],
        [
          'the address in the file of `DATABASE_URL_FILE`',
          'its password at the next connection; user, host and database after a restart',
        ],
        ['the file of `NODE_EXTRA_CA_CERTS`, which Node itself reads', 'after a restart'],
        ['any variable', 'after a restart'],
      ],
    ),
    paragraph(
      'No log line, error or list of settings has secrets. A password within an address is a secret too.',
    ),
    '## TLS',
    paragraph(
      'Certificates and host names are always verified; no setting turns that off. `KAFKA_SSL_CA_FILE` and `DATABASE_SSL_CA_FILE` have the authorities',
      'of one server each. For https (the schema registry and the token endpoint), the authorities of Node count, and those',
      "in the file of Node's own variable `NODE_EXTRA_CA_CERTS`. Files are in PEM, the text form that begins with `-----BEGIN`.",
      'Convert a Java key store with `openssl pkcs12 -in FILE -nodes`.',
    ),
    paragraph(
      'The parameters of libpq for TLS (`sslrootcert` in an address, `PGSSLMODE`) are refused. The error names the setting to use. Of `sslmode`,',
      'only `disable` and `verify-full` are accepted: without verification, an attacker between the two can read encrypted traffic.',
    ),
    codeBlock('sh', [
      '# Kafka with a user, Postgres with TLS, all secrets in files',
      'export KAFKA_BROKERS=kafka-0.example.com:9093 KAFKA_SECURITY_PROTOCOL=SASL_SSL KAFKA_SSL_CA_FILE=/certs/kafka-ca.crt',
      'export KAFKA_SASL_MECHANISM=SCRAM-SHA-512 KAFKA_SASL_USERNAME=promo-intake KAFKA_SASL_PASSWORD_FILE=/secrets/kafka-password',
      'export DATABASE_URL=postgres://promo@db.example.com/promo DATABASE_PASSWORD_FILE=/secrets/database-password',
      'export DATABASE_SSL_MODE=verify-full DATABASE_SSL_CA_FILE=/certs/database-ca.crt',
    ]),
    paragraph(
      'With OAUTHBEARER, the grant client_credentials (RFC 6749, 4.4) gives a token. It is replaced after four fifths of its time, at the latest 15 s before',
      'its end. Brokers that end sessions (`connections.max.reauth.ms`) get a token again in time. Do not set that to less than 12 s.',
    ),
    '## Mistakes',
    paragraph(
      'A command checks all of its settings before it connects to a server. If one cannot be used, it prints a line for every fault, with the',
      'remedy, and exits with 2. It also finds settings that contradict each other, unreadable files, expired',
      'certificates, and keys of other certificates.',
    ),
    paragraph(
      'A misspelt setting would be ignored silently. So an unknown variable that begins like a setting is refused: `KAFKA_BROKER`',
      `without its S stops the start. The prefixes are ${codes(OWN_PREFIXES)}.`,
      'Two kinds of variables are ignored. OpenTelemetry has its own. Kubernetes sets some in every pod for the services',
      'of its namespace. For a service named kafka, these are `KAFKA_SERVICE_HOST`, `KAFKA_PORT_9092_TCP_ADDR`, a `KAFKA_PORT` that begins with',
      '`tcp://`, and the like.',
    ),
    '## Traces',
    paragraph(
      'The SDK of OpenTelemetry reads more variables: `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_TIMEOUT` (10,000 ms),',
      '`OTEL_EXPORTER_OTLP_COMPRESSION`, `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CLIENT_KEY` and `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`. Each also exists with',
      'TRACES behind OTLP. It also reads `OTEL_BSP_MAX_QUEUE_SIZE` (2,048 spans; more spans are dropped), `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` (512) and',
      '`OTEL_BSP_SCHEDULE_DELAY` (5,000 ms). [traces](operations/traces.md) describes the content of a trace.',
    ),
  ]);
}

/**
 * The commands that read it.
 *
 * @throws if none does: the setting would have no effect
 */
function readersOf(name: SettingName): string[] {
  const readers = COMMANDS.filter(({ settings }) => settings.flatMap(settingsOf).includes(name));
  if (readers.length === 0) throw new Error(`no command of src/cli.ts reads ${name}`);
  return readers.map((reader) => reader.name);
}

function isSetting(name: string): name is SettingName {
  return name in SETTINGS;
}

function defaultOf(name: SettingName): string {
  const { fallback, required } = SETTINGS[name];
  if (required) return '**required**';
  return fallback === undefined ? 'absent' : code(fallback);
}

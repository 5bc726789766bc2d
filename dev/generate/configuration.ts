/** docs/configuration.md: every setting, and the commands that read it. */
import { COMMANDS } from '../../src/cli';
import { OWN_PREFIXES, SETTINGS, type SettingName, settingsOf } from '../../src/config/config';
import { code, codeBlock, codes, document, generatedFrom, paragraph, table } from './markdown';

export function renderConfiguration(command: string): string {
  const names = Object.keys(SETTINGS).filter(isSetting);
  return document([
    generatedFrom('SETTINGS in src/config/config.ts and src/config/, and COMMANDS in src/cli.ts', command),
    '# Configuration',
    paragraph(
      'All settings are environment variables, and a variable that is empty counts as absent. Each command reads the settings that name it',
      'in the last column and needs no others.',
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
      'A secret may stand in its variable, or in a file that the variable with `_FILE` at its end names; not in both. A line break at the end of',
      'the file is not part of it. The file is read anew for each connection, and so are the files of certificates and keys: what Kubernetes',
      'or cert-manager puts in their place is used from the next connection on, and connections that are open are left alone. Where a file is',
      'missing for a moment, what it held last is used.',
    ),
    table(
      ['what changes', 'is used'],
      [
        ['password, client secret, token for the schema registry', 'at the next connection or request'],
        [
          'the secrets of `WEBHOOK_SECRETS_FILE`',
          'at the next request; where they cannot be read, the last ones',
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
      'Secrets are in no log line, no error and no list of settings. A password within an address is as secret as one beside it.',
    ),
    '## TLS',
    paragraph(
      'Certificates are always verified, the host name too; nothing turns that off. `KAFKA_SSL_CA_FILE` and `DATABASE_SSL_CA_FILE` name the authorities',
      'of one server each. What is reached by https, the schema registry and the token endpoint, is verified by the authorities that Node knows and those',
      "of the file that Node's own variable `NODE_EXTRA_CA_CERTS` names. Files are in PEM, the text form that begins with `-----BEGIN`; a Java key store is",
      'converted by `openssl pkcs12 -in FILE -nodes`.',
    ),
    paragraph(
      'The parameters of libpq for TLS (`sslrootcert` in an address, `PGSSLMODE`) are refused with the name of the setting to use instead, and so is any `sslmode`',
      'but `disable` and `verify-full`: what is encrypted but not verified can be read by whoever stands in between.',
    ),
    codeBlock('sh', [
      '# Kafka with a user, Postgres with TLS, all secrets in files',
      'export KAFKA_BROKERS=kafka-0.example.com:9093 KAFKA_SECURITY_PROTOCOL=SASL_SSL KAFKA_SSL_CA_FILE=/certs/kafka-ca.crt',
      'export KAFKA_SASL_MECHANISM=SCRAM-SHA-512 KAFKA_SASL_USERNAME=promo-intake KAFKA_SASL_PASSWORD_FILE=/secrets/kafka-password',
      'export DATABASE_URL=postgres://promo@db.example.com/promo DATABASE_PASSWORD_FILE=/secrets/database-password',
      'export DATABASE_SSL_MODE=verify-full DATABASE_SSL_CA_FILE=/certs/database-ca.crt',
    ]),
    paragraph(
      'With OAUTHBEARER a token is asked for by the grant client_credentials (RFC 6749, 4.4), kept, and replaced when four fifths of its time have passed, 15 s before',
      'its end at the latest. Brokers that end sessions (`connections.max.reauth.ms`) are shown one again in time; let them not ask more often than every 12 s.',
    ),
    '## Mistakes',
    paragraph(
      'A command looks at all of its settings before it connects to anything. If any of them cannot be used it prints every fault, a line',
      'each with what to do, and exits with 2. That holds for settings that do not go together, too, and for files that cannot be read, certificates',
      'that have expired, and keys that are not those of their certificates.',
    ),
    paragraph(
      'A misspelt setting would be ignored in silence, so whatever begins like one of ours and is none is refused as well: `KAFKA_BROKER`',
      `for want of an S stops the start instead of leaving a default in force. That holds for the prefixes ${codes(OWN_PREFIXES)}.`,
      'The variables that Kubernetes sets in every pod for the services',
      'beside it (for a service named kafka: `KAFKA_SERVICE_HOST`, `KAFKA_PORT_9092_TCP_ADDR`, a `KAFKA_PORT` that begins with `tcp://`, and their like) are known and',
      'let be, and so are those of OpenTelemetry.',
    ),
    '## Traces',
    paragraph(
      'Beside the settings above, which are its own, the SDK of OpenTelemetry reads by itself: `OTEL_RESOURCE_ATTRIBUTES`; `OTEL_EXPORTER_OTLP_TIMEOUT` (10,000 ms),',
      '`OTEL_EXPORTER_OTLP_COMPRESSION`, `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CLIENT_KEY` and `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, each also with',
      'TRACES behind OTLP; `OTEL_BSP_MAX_QUEUE_SIZE` (2,048 spans wait at most, and what comes beyond is dropped), `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` (512) and',
      '`OTEL_BSP_SCHEDULE_DELAY` (5,000 ms). [traces](operations/traces.md) has what a trace tells.',
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

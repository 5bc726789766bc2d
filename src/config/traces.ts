/**
 * Traces, by the variables of OpenTelemetry. Its SDK reads the variables itself. Settings that it would
 * ignore silently are refused here.
 */
import { group } from './reading';
import { oneOf, type Parsed, type Secret, secret, setting, text, url } from './setting';

export interface Traces {
  /** The headers in the variable's syntax, `name=value,name=value`. */
  readonly headers: Secret | undefined;
}

const SAMPLERS = [
  ...(['always_on', 'always_off', 'traceidratio'] as const),
  ...(['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const),
] as const;

/** Parses a share. The SDK would treat an invalid share as 1. */
function share(text: string): Parsed<number> {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value <= 1) return { value };
  return { problem: `"${text}" is not a number from 0 to 1`, remedy: 'Write a share such as 0.1' };
}

const SETTINGS = {
  OTEL_EXPORTER_OTLP_ENDPOINT: setting({
    describe:
      'OpenTelemetry collector of traces, by OTLP over HTTP, at the path /v1/traces below this address. Without this setting and the next one there are no traces.',
    example: 'http://otel-collector:4318',
    parse: url('http:', 'https:'),
  }),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: setting({
    describe: 'The same as a complete address. It takes precedence.',
    example: 'http://otel-collector:4318/v1/traces',
    parse: url('http:', 'https:'),
  }),
  OTEL_EXPORTER_OTLP_HEADERS: secret({
    describe: 'Headers for the collector, as name=value, comma-separated and percent-encoded.',
    example: 'api-key=secret',
  }),
  OTEL_SERVICE_NAME: setting({
    describe:
      'Name of the service in traces. Absent: the name in OTEL_RESOURCE_ATTRIBUTES, else promo-intake.',
    example: 'promo-intake',
    parse: text,
  }),
  OTEL_TRACES_SAMPLER: setting({
    describe: `Which batches and requests are traced: ${SAMPLERS.join(', ')}. A batch has no parent; a request may have one from its sender.`,
    fallback: 'parentbased_always_on',
    example: 'parentbased_traceidratio',
    parse: oneOf(SAMPLERS, 'a sampler of OpenTelemetry'),
  }),
  OTEL_TRACES_SAMPLER_ARG: setting({
    describe: 'Share of the batches and requests, for traceidratio and parentbased_traceidratio.',
    example: '0.1',
    parse: share,
  }),
  OTEL_TRACES_EXPORTER: setting({
    describe: 'none: no traces, regardless of other settings.',
    fallback: 'otlp',
    example: 'none',
    parse: oneOf(['otlp', 'none'], 'a known exporter'),
  }),
  OTEL_SDK_DISABLED: setting({
    describe: 'true: the same.',
    fallback: 'false',
    example: 'true',
    parse: oneOf(['true', 'false'], 'true or false'),
  }),
} as const;

/**
 * Variables of OpenTelemetry that share our prefixes. Its SDK reads them, or other programs that send metrics
 * and logs do.
 */
export const OPENTELEMETRY =
  /^OTEL_EXPORTER_OTLP_((TRACES|METRICS|LOGS|PROFILES)_)?(ENDPOINT|HEADERS|PROTOCOL|TIMEOUT|COMPRESSION|INSECURE|CERTIFICATE|CLIENT_KEY|CLIENT_CERTIFICATE|TEMPORALITY_PREFERENCE|DEFAULT_HISTOGRAM_AGGREGATION)$/;
const PROTOCOLS = ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'];
const PROTOCOL = 'http/protobuf';

/** The traces; null where nothing is traced. Other settings for traces then belong to another program. */
export const traces = group(SETTINGS, (reading): Traces | null => {
  const isGiven =
    reading.isGiven('OTEL_EXPORTER_OTLP_ENDPOINT') || reading.isGiven('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  const isOff =
    reading.value('OTEL_SDK_DISABLED') === 'true' || reading.value('OTEL_TRACES_EXPORTER') === 'none';
  if (!isGiven || isOff) {
    reading.ignore('OTEL_TRACES_SAMPLER');
    return null;
  }
  for (const variable of PROTOCOLS) {
    if (![undefined, '', PROTOCOL].includes(reading.environment[variable]))
      reading.faults.push({
        setting: variable,
        problem: `is not ${PROTOCOL}, the only protocol of this process`,
        remedy: 'Remove it, and use the port of the collector for OTLP over HTTP, usually 4318',
      });
  }
  if (reading.value('OTEL_TRACES_SAMPLER')?.endsWith('traceidratio'))
    reading.need(['OTEL_TRACES_SAMPLER_ARG'], 'so the sampler would take everything');
  return { headers: reading.value('OTEL_EXPORTER_OTLP_HEADERS') };
});

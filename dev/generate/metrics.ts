/** docs/metrics.md: the product's own metrics, as the registry holds them. */
import { LABELS, OWN_PREFIX } from '../../src/telemetry/metric-makers';
import { makeMetrics } from '../../src/telemetry/metrics';
import { code, codes, document, generatedFrom, paragraph, table } from './markdown';

export function renderMetrics(command: string): string {
  const { registry, actions } = makeMetrics();
  const metrics = registry.getMetricsAsArray().filter(({ name }) => name.startsWith(OWN_PREFIX));
  return document([
    generatedFrom('the list in src/telemetry/metrics.ts', command),
    '# Metrics',
    paragraph(
      'A worker, or a webhook, serves them in the Prometheus text format at `/metrics` on `HTTP_PORT`. No label holds a player, an event or any other unbounded value.',
      'The series of a partition end once another worker has it. Times are in seconds. A name in brackets is the name of the same metric in the messaging',
      'conventions of OpenTelemetry. The process also serves the usual metrics of Node.js, whose names begin with `process_` and `nodejs_`.',
    ),
    table(
      ['name', 'type', 'labels', 'meaning', 'when it moves'],
      metrics.map((metric) => [
        code(metric.name),
        String(metric.type),
        codes(textsOf(metric, 'labelNames')) || 'none',
        metric.help,
        actions.get(metric.name) ?? '',
      ]),
    ),
    '## Labels',
    table(
      ['label', 'values'],
      Object.entries(LABELS).map(([label, values]) => [code(label), values]),
    ),
    '## Buckets',
    table(
      ['histogram', 'upper bounds'],
      metrics
        .filter(({ type }) => String(type) === 'histogram')
        .map((metric) => [code(metric.name), textsOf(metric, 'upperBounds').join(', ')]),
    ),
  ]);
}

/** A list that the client keeps with a metric but does not declare. */
function textsOf(metric: object, field: string): string[] {
  const list: unknown = Reflect.get(metric, field);
  if (!Array.isArray(list)) throw new Error(`prom-client keeps no ${field} with a metric any more`);
  return list.map(String);
}

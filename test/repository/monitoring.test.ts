/** Alerts, runbook, dashboards and documents have existing metrics, and fit together. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { makeMetrics } from '../../src/telemetry/metrics';
import { alertsOf, faster, panels, RULES } from '../support/alerts';

const MOST_ALERTS = 18;
const RUNBOOK = readFileSync(join(ROOT, 'docs', 'runbook.md'), 'utf8');
const alerts = alertsOf(RULES);
const known = makeMetrics().registry.getMetricsAsArray();
const ours = [...makeMetrics().actions.keys()];

/** Metrics in a text, without the suffixes that Prometheus adds to the name of a histogram. */
function namedIn(text: string): string[] {
  const histograms = new Set(
    known.filter(({ type }) => String(type) === 'histogram').map(({ name }) => name),
  );
  const names = text.match(/\b(promo_intake|process|nodejs)_\w+\b/g) ?? [];
  return [...new Set(names)].map((name) => {
    const stem = name.replace(/_(bucket|sum|count)$/, '');
    return histograms.has(stem) ? stem : name;
  });
}

function unknownIn(text: string): string[] {
  const names = new Set(known.map(({ name }) => name));
  return namedIn(text).filter((name) => !names.has(name));
}

test('an unknown name is noticed', () => {
  expect(unknownIn('rate(promo_intake_verdict_total[5m])')).toEqual(['promo_intake_verdict_total']);
  expect(unknownIn('promo_intake_batch_seconds_bucket + promo_intake_lag_records_sum')).toEqual([
    'promo_intake_lag_records_sum',
  ]);
});

describe('alerts', () => {
  test(`are ${MOST_ALERTS} at most, each of a severity, with a summary and a description`, () => {
    expect(alerts.length).toBeGreaterThan(0);
    expect(alerts.length).toBeLessThanOrEqual(MOST_ALERTS);
    for (const { name, severity, annotations } of alerts) {
      expect([name, severity]).toEqual([name, expect.stringMatching(/^(critical|warning)$/)]);
      expect(annotations).toEqual({
        summary: expect.any(String),
        description: expect.stringMatching(/\.$/),
        runbook_url: `docs/runbook.md#${name.toLowerCase()}`,
      });
    }
  });

  test('have one section of the runbook each, and each section has an alert', () => {
    const sections = RUNBOOK.split(/^## /m).slice(1);
    expect(sections.map((section) => section.split('\n', 1)[0])).toEqual(alerts.map(({ name }) => name));
    for (const section of sections)
      expect(section.match(/^\*\*[A-Z][a-z ]+\b/gm)).toEqual([
        '**Meaning',
        '**First look',
        '**Causes and remedies',
      ]);
  });

  test('name only existing metrics', () => {
    expect(alerts.flatMap(({ expression }) => unknownIn(expression))).toEqual([]);
  });

  test('select only the workers of one release', () => {
    for (const { name, expression } of alerts) {
      const metrics = expression.match(/\b(promo_intake|kube)_\w+(\{[^}]*\})?/g) ?? [];
      expect([name, metrics.length > 0]).toEqual([name, true]);
      for (const metric of metrics)
        expect([name, metric]).toEqual([
          name,
          expect.stringMatching(/^(kube_.*\{CRONJOB|promo.*\bSELECTOR)\}$/),
        ]);
    }
  });

  test('can be made faster for tests, in every duration and every limit in seconds', () => {
    const quick = faster(RULES, 100);
    expect(quick).toContain(
      '(promo_intake_fetch_age_seconds{SELECTOR} < 0.6 and promo_intake_assigned_partitions',
    );
    expect(quick).toContain('{state="deciding",SELECTOR}[3000ms])) > 6\n');
    expect(quick).toContain('[9000ms]');
    expect(quick).toContain('[36000ms] offset 18000ms');
    expect(quick).toContain('for: 3000ms');
    expect(quick).not.toMatch(/\d[smh]\b(?<!ms)/);
  });
});

describe('panels', () => {
  test('fit into one ConfigMap, which kubectl apply copies into an annotation of at most 256 KiB', () => {
    const directory = join(ROOT, 'helm', 'promo-intake', 'files', 'dashboards');
    const bytes = readdirSync(directory).map((file) => statSync(join(directory, file)).size);
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(200 * 1024);
  });

  test('each have a description, and only existing metrics', () => {
    expect(panels().length).toBeGreaterThan(0);
    for (const { title, description, expressions } of panels()) {
      expect([title, description]).toEqual([title, expect.stringMatching(/\.$/)]);
      expect([title, expressions.length > 0, expressions.flatMap(unknownIn)]).toEqual([title, true, []]);
    }
  });

  test('show every metric of ours', () => {
    const shown = new Set(panels().flatMap(({ expressions }) => expressions.flatMap(namedIn)));
    expect(ours.filter((name) => !shown.has(name))).toEqual([]);
  });

  test('show metrics of Node.js processes only for workers', () => {
    const ofProcesses = panels()
      .flatMap(({ expressions }) => expressions)
      .filter((expression) => /\b(process|nodejs)_/.test(expression));
    expect(ofProcesses).toHaveLength(3);
    for (const expression of ofProcesses)
      expect(expression).toMatch(/ and on \(namespace, pod\) promo_intake_build_info\)?$/);
  });

  test('show the partitions of each worker', () => {
    const found = panels().flatMap(({ expressions }) =>
      expressions.filter(
        (expression) =>
          expression.includes('assigned_partitions') && !expression.includes('fetch_age_seconds'),
      ),
    );
    expect(found).toEqual(['sum by (pod) (promo_intake_assigned_partitions{namespace=~"$namespace"})']);
  });

  test('do not count a worker without partitions as a reader', () => {
    const ages = panels()
      .flatMap(({ expressions }) => expressions)
      .filter((expression) => expression.includes('fetch_age_seconds'));
    expect(ages).toHaveLength(1);
    for (const age of ages)
      expect(age).toMatch(/ and on \(namespace, pod\) promo_intake_assigned_partitions\{[^}]*\} > 0\)$/);
  });

  test('with current values do not show values of workers that are gone', () => {
    const values = panels().filter(({ row, isNow }) => row === panels()[0]?.row && isNow);
    expect(values.map(({ title }) => title)).toEqual([
      'Kafka: last answer to a fetch',
      'Kafka: publishing is refused',
      'Postgres: partitions wait for it',
      'Us: partitions wait for a defect',
      'Us: CPU of the busiest pod',
    ]);
  });

  test('with rates have the scrape interval, so that they cover enough samples', () => {
    for (const { title, expressions, interval } of panels())
      expect([title, interval]).toEqual([
        title,
        expressions.some((expression) => expression.includes('$__rate_interval')) ? '30s' : undefined,
      ]);
  });

  test('of the first row name the cause of the trouble', () => {
    const first = panels().filter(({ row }) => row === panels()[0]?.row);
    expect(first[0]?.row).toBe('Us, Kafka or Postgres?');
    for (const whose of ['Us', 'Kafka', 'Postgres'])
      expect(first.filter(({ title }) => title.startsWith(`${whose}: `)).length).toBeGreaterThanOrEqual(2);
  });
});

test('documents name only existing metrics', () => {
  const files = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((file) => join('docs', file))];
  const wrong = files
    .filter((file) => file.endsWith('.md'))
    .flatMap((file) =>
      unknownIn(readFileSync(join(ROOT, file), 'utf8'))
        .filter((name) => name.startsWith('promo_intake_'))
        .map((name) => `${file}: ${name}`),
    );
  expect(wrong).toEqual([]);
});

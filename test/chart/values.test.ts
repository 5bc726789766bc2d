/** The values that the schema allows. These checks need no tool. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import { parse } from 'yaml';
import { KUBERNETES_VERSION } from '../../dev/chart/tools';
import { isUsualSetting, readValues } from '../../dev/generate/chart';
import { projectRoot } from '../../dev/servers/download';
import { SETTINGS } from '../../src/config/config';
import { isObject } from '../../src/lib/json';
import { at, CHART, EXAMPLES, example } from '../support/chart';

const schema: unknown = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8'));
const validate = new Ajv({ allErrors: true, strict: false }).compile(isObject(schema) ? schema : {});
const read = (path: string): unknown => parse(readFileSync(path, 'utf8'));

/** Merges values over the defaults, as Helm does. */
function merged(defaults: unknown, values: unknown): unknown {
  if (!isObject(defaults) || !isObject(values)) return values;
  const names = Object.entries(values).map(([name, value]) => [name, merged(defaults[name], value)]);
  return { ...defaults, ...Object.fromEntries(names) };
}

/** The places that the schema refuses. */
function refused(values: unknown): string[] {
  validate(values);
  return (validate.errors ?? []).map(({ instancePath, params }) => {
    const extra = 'additionalProperty' in params ? `/${params.additionalProperty}` : '';
    return `${instancePath}${extra}`;
  });
}

test.each(EXAMPLES)('%s is allowed', (name) => {
  expect(refused(merged(read(join(CHART, 'values.yaml')), read(example(name))))).toEqual([]);
});

test('the defaults are allowed, and so is a switch of a parent chart', () => {
  expect(refused({ enabled: false })).toEqual([]);
  expect(refused(read(join(CHART, 'values.yaml')))).toEqual([]);
});

test('each setting of the service has one place, and other names have none', () => {
  const places = ['settings', 'secrets', 'files'].flatMap((map) => {
    const properties = at(schema, `properties.${map}.properties`);
    return isObject(properties) ? Object.keys(properties) : [];
  });
  const settings = Object.keys(SETTINGS).filter(isUsualSetting);
  // The address may be plain text where it contains no password.
  expect(settings).not.toContain('PSEUDONYM_KEYS');
  expect(at(schema, 'properties.pseudonyms.properties.secrets.properties.PSEUDONYM_KEYS')).toBeDefined();
  expect(places.sort()).toEqual([...settings, 'DATABASE_URL', 'NODE_EXTRA_CA_CERTS'].sort());
});

test.each([
  ['an unknown value', { worker: { replica: 3 } }, '/worker/replica'],
  ['an unknown setting', { settings: { KAFKA_BROKER: 'k:9092' } }, '/settings/KAFKA_BROKER'],
  [
    'a secret among the settings',
    { settings: { KAFKA_SASL_PASSWORD: 'x' } },
    '/settings/KAFKA_SASL_PASSWORD',
  ],
  [
    'a password in an address',
    { settings: { DATABASE_URL: 'postgres://u:p@db/x' } },
    '/settings/DATABASE_URL',
  ],
  ['a secret as text', { secrets: { KAFKA_SASL_PASSWORD: 'x' } }, '/secrets/KAFKA_SASL_PASSWORD'],
  ['a secret without a key', { secrets: { DATABASE_URL: { secret: 's' } } }, '/secrets/DATABASE_URL'],
  ['a broker without a port', { settings: { KAFKA_BROKERS: 'kafka' } }, '/settings/KAFKA_BROKERS'],
  ['an unknown level', { settings: { LOG_LEVEL: 'verbose' } }, '/settings/LOG_LEVEL'],
  ['a number out of range', { settings: { SHUTDOWN_SECONDS: 601 } }, '/settings/SHUTDOWN_SECONDS'],
  ['a number as text', { settings: { BATCH_EVENTS: '100' } }, '/settings/BATCH_EVENTS'],
  ['a port that only root may open', { settings: { HTTP_PORT: 80 } }, '/settings/HTTP_PORT'],
  ['no port', { settings: { SHUTDOWN_SECONDS: 20 } }, '/settings'],
  ['no time to shut down', { settings: { HTTP_PORT: 8080 } }, '/settings'],
  ['a label of the pod selector', { commonLabels: { 'app.kubernetes.io/name': 'casino' } }, '/commonLabels'],
  ['a name with a dot', { fullnameOverride: 'promo.intake' }, '/fullnameOverride'],
  ['a name that begins with a digit', { fullnameOverride: '1promo' }, '/fullnameOverride'],
  ['a part of a name with a dot', { nameOverride: 'a.b' }, '/nameOverride'],
  ['scrapes too far apart for the alerts', { metrics: { intervalSeconds: 121 } }, '/metrics/intervalSeconds'],
  ['no workers', { worker: { replicas: 0 } }, '/worker/replicas'],
  ['scaling to zero', { autoscaling: { minReplicas: 0 } }, '/autoscaling/minReplicas'],
  ['an invalid digest', { image: { digest: 'latest' } }, '/image/digest'],
  [
    'Kafka settings for the migration',
    { migration: { settings: { KAFKA_BROKERS: 'k:1' } } },
    '/migration/settings/KAFKA_BROKERS',
  ],
  [
    'a role that looks like an option',
    { migration: { grant: { writer: '--print' } } },
    '/migration/grant/writer',
  ],
  ['an unknown monitor', { metrics: { monitor: 'pod' } }, '/metrics/monitor'],
  [
    'reference data from two sources',
    { reference: { existing: { secret: 'a', configMap: 'b', key: 'k' } } },
    '/reference/existing',
  ],
  [
    'reference data outside its volume',
    { reference: { existing: { volume: { emptyDir: {} }, key: '../etc/passwd' } } },
    '/reference/existing/key',
  ],
  [
    'reference data of a volume and a Secret',
    { reference: { existing: { volume: { emptyDir: {} }, secret: 'a', key: 'k' } } },
    '/reference/existing/secret',
  ],
])('%s is refused', (_, values, place) => {
  expect(refused(values)).toContain(place);
});

test('a value without a comment is refused in the README', () => {
  expect(() => readValues('# One.\na: 1\nb: 2\n')).toThrow('b has no comment');
  expect(readValues('# The file.\n\n# One.\na: 1\n# Two.\nb:\n  # Three.\n  c: [1]\n')).toEqual([
    { path: ['a'], comment: 'One.', fallback: '1' },
    { path: ['b'], comment: 'Two.', fallback: '' },
    { path: ['b', 'c'], comment: 'Three.', fallback: '[ 1 ]' },
  ]);
});

test('the tools have the stated version of Kubernetes', () => {
  const pins = readFileSync(join(projectRoot, 'dev/chart/cluster/go.mod'), 'utf8');
  expect(pins).toMatch(new RegExp(`\\tk8s.io/kubernetes v${KUBERNETES_VERSION}\\b`));
});

test('chart, image and package have the version of the newest release in CHANGELOG.md', () => {
  const textOf = (...path: string[]): string => readFileSync(join(projectRoot, ...path), 'utf8');
  const manifest: unknown = JSON.parse(textOf('package.json'));
  const version = String(at(manifest, 'version'));
  expect(read(join(CHART, 'Chart.yaml'))).toMatchObject({ version, appVersion: version });
  expect(/^## \[(\d[^\]]*)\]/m.exec(textOf('CHANGELOG.md'))?.[1]).toBe(version);
  const images = textOf('docs', 'kubernetes.md').match(/(?<=registry\.example\.com\/promo-intake:)[\w.]+/g);
  expect(new Set(images)).toEqual(new Set([version]));
});

/** The manifests that Helm renders from the chart. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { findSchemas, SCHEMA_FILE } from '../../dev/chart/schemas';
import { findTool, KUBERNETES_VERSION } from '../../dev/chart/tools';
import { isUsualSetting } from '../../dev/generate/chart';
import {
  COMPLETIONS_SETTINGS,
  CONSOLE_SETTINGS,
  PUBLISHING_WEBHOOK_SETTINGS,
} from '../../src/commands/shared/settings';
import { SETTINGS, settingsOf } from '../../src/config/config';
import type { Setting } from '../../src/config/setting';
import {
  at,
  CHART,
  commandPod,
  EXAMPLES,
  example,
  listAt,
  type Manifest,
  manifestsOf,
  runTool,
  template,
  testWith,
} from '../support/chart';

jest.setTimeout(120_000);

const withHelm = testWith(findTool('helm'));
const MINIMAL = ['--values', example('minimal.yaml')];

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'chart-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** The pods of a release, with the objects that contain them. */
function podsOf(manifests: readonly Manifest[]): { name: string; labels: unknown; spec: unknown }[] {
  return manifests.flatMap((manifest) => {
    const job = at(manifest, 'spec.jobTemplate') ?? manifest;
    const pod = at(manifest, 'kind') === 'Pod' ? manifest : at(job, 'spec.template');
    const name = `${at(manifest, 'kind')} ${at(manifest, 'metadata.name')}`;
    return pod === undefined ? [] : [{ name, labels: at(pod, 'metadata.labels'), spec: at(pod, 'spec') }];
  });
}

/** The pod for commands beside a release of this name. */
function commandOf(release: string): Manifest {
  const pod = commandPod();
  const labels = Object(at(pod, 'metadata.labels'));
  const metadata = { name: 'command', namespace: 'games' };
  return { ...pod, metadata: { ...metadata, labels: { ...labels, 'app.kubernetes.io/instance': release } } };
}

const containersOf = (spec: unknown): readonly unknown[] => [
  ...listAt(spec, 'initContainers'),
  ...listAt(spec, 'containers'),
];

const matches = (selector: unknown, labels: unknown): boolean =>
  typeof selector === 'object' &&
  selector !== null &&
  Object.entries(selector).every(
    ([name, value]) => at({ labels }, 'labels') !== undefined && Object(labels)[name] === value,
  );

const BYTES = { Mi: 2 ** 20, Gi: 2 ** 30 } as const;
function bytes(quantity: unknown): number {
  const [, number, unit] = /^(\d+)(Mi|Gi)$/.exec(String(quantity)) ?? [];
  if (number === undefined || (unit !== 'Mi' && unit !== 'Gi'))
    throw new Error(`${quantity} is not read here`);
  return Number(number) * BYTES[unit];
}

describe.each(EXAMPLES)('%s', (name) => {
  const values = ['--values', example(name)];

  withHelm('has no faults that helm lint finds', () => {
    const { status, output } = runTool('helm', [
      'lint',
      '--strict',
      '--kube-version',
      KUBERNETES_VERSION,
      CHART,
      ...values,
    ]);
    expect([status, output]).toEqual([0, expect.stringContaining('0 chart(s) failed')]);
  });

  withHelm('has selectors that find their pods, ports that exist, and limits above requests', () => {
    const manifests = manifestsOf(values);
    const pods = [...podsOf(manifests), ...podsOf([commandOf('here')])];
    expect(pods.length).toBeGreaterThanOrEqual(3);
    const selectors = manifests.flatMap((manifest) => {
      const what = `${at(manifest, 'kind')} ${at(manifest, 'metadata.name')}`;
      const selector =
        at(manifest, 'spec.podSelector.matchLabels') ??
        at(manifest, 'spec.selector.matchLabels') ??
        at(manifest, 'spec.selector');
      return selector === undefined ? [] : [{ what, selector }];
    });
    expect(selectors.length).toBeGreaterThanOrEqual(4);
    for (const { what, selector } of selectors)
      expect([what, pods.some(({ labels }) => matches(selector, labels))]).toEqual([what, true]);
    for (const { name: pod, spec } of pods) {
      const volumes = listAt(spec, 'volumes').map((volume) => at(volume, 'name'));
      for (const container of containersOf(spec)) {
        const ports = listAt(container, 'ports').map((port) => at(port, 'name'));
        for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
          expect([undefined, ...ports]).toContain(at(container, `${probe}.httpGet.port`));
        for (const mount of listAt(container, 'volumeMounts')) expect(volumes).toContain(at(mount, 'name'));
        const [request, limit] = ['requests', 'limits'].map((kind) =>
          bytes(at(container, `resources.${kind}.memory`) ?? '64Mi'),
        );
        expect([pod, request! <= limit!]).toEqual([pod, true]);
      }
    }
  });

  withHelm('has pods that a namespace with Pod Security "restricted" accepts', () => {
    for (const { name: pod, spec } of podsOf([...manifestsOf(values), commandPod()])) {
      expect([pod, spec]).toEqual([
        pod,
        expect.objectContaining({
          automountServiceAccountToken: false,
          securityContext: expect.objectContaining({
            runAsNonRoot: true,
            seccompProfile: { type: 'RuntimeDefault' },
          }),
        }),
      ]);
      for (const container of containersOf(spec))
        expect(at(container, 'securityContext')).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
    }
  });

  testWith(
    findTool('helm'),
    findTool('kubeconform'),
    findSchemas(),
  )('has only fields that Kubernetes 1.34 and the operators know, with their types', () => {
    const rendered = template(values).stdout;
    expect(conform(rendered)).toMatch(/ Valid: [1-9]\d*, Invalid: 0, Errors: 0, Skipped: 0$/);
  });

  // Exceptions: no CPU limit by choice, our tags do not move, and the only written data is the log, which the
  // node rotates.
  testWith(findTool('helm'), findTool('kube-score'))('has no faults for kube-score', () => {
    const ignored = 'container-ephemeral-storage-request-and-limit,container-image-pull-policy';
    const args = [
      'score',
      '--kubernetes-version',
      'v1.34',
      '--ignore-container-cpu-limit',
      '--ignore-test',
      ignored,
      '-',
    ];
    const all = `${template(values).stdout}---\n${stringify(commandOf('here'))}`;
    const { status, output } = runTool('kube-score', args, all);
    expect(output).not.toContain('[CRITICAL]');
    expect(status).toBe(0);
  });
});

function conform(manifests: string): string {
  const schemas = findSchemas();
  if ('problem' in schemas) throw new Error(schemas.problem);
  const location = join(schemas.path, SCHEMA_FILE);
  return runTool(
    'kubeconform',
    ['-strict', '-summary', '-schema-location', location],
    manifests,
  ).output.trim();
}

testWith(
  findTool('helm'),
  findTool('kubeconform'),
  findSchemas(),
)('an unknown field is noticed', () => {
  const rendered = template(MINIMAL).stdout;
  expect(conform(rendered.replace('minReadySeconds:', 'minReadySecs:'))).toContain(
    "'minReadySecs' not allowed",
  );
  expect(conform(rendered.replace('containerPort: 8080', 'containerPort: http'))).toContain('Invalid: 1');
});

testWith(findTool('helm-unittest'))('the suites of the chart pass', () => {
  const { status, output } = runTool('helm-unittest', ['--strict', CHART]);
  expect([status, output]).toEqual([0, expect.stringMatching(/Tests: +[1-9]\d* passed, \d+ total/)]);
});

withHelm(
  'every given setting reaches the worker, the webhook or the console, by its name or that of its file',
  () => {
    const values: Record<'settings' | 'secrets' | 'files', Record<string, unknown>> = {
      settings: {},
      secrets: {},
      files: {},
    };
    const expected: string[] = [];
    for (const [name, { secret, parse, fallback, example: text }] of Object.entries<Setting<unknown>>(
      SETTINGS,
    )) {
      if (!isUsualSetting(name)) continue;
      const { accepts } = parse;
      expected.push(secret ? `${name}_FILE` : name);
      if (secret) values.secrets[name] = { secret: 'some', key: name };
      else if (accepts !== undefined && 'file' in accepts)
        values.files[name] = { configMap: 'some', key: name };
      else
        values.settings[name] = accepts !== undefined && 'least' in accepts ? Number(fallback ?? text) : text;
    }
    const file = join(directory, 'values.yaml');
    writeFileSync(file, stringify(values));
    const manifests = manifestsOf([
      '--values',
      file,
      '--set',
      'webhook.enabled=true,console.enabled=true,completions.enabled=true',
      '--set',
      'console.secrets.DATABASE_URL.secret=some,console.secrets.DATABASE_URL.key=DATABASE_URL',
      '--set',
      'completions.secrets.DATABASE_URL.secret=some,completions.secrets.DATABASE_URL.key=DATABASE_URL',
    ]);
    const podOf = (component: string) => {
      const name = `here-promo-intake-${component}`;
      const found = manifests.find(
        (manifest) => at(manifest, 'kind') === 'Deployment' && at(manifest, 'metadata.name') === name,
      );
      const [container] = listAt(found, 'spec.template.spec.containers');
      const [volume] = listAt(found, 'spec.template.spec.volumes');
      return { env: listAt(container, 'env'), files: listAt(volume, 'projected.sources') };
    };
    const ofWebhook = PUBLISHING_WEBHOOK_SETTINGS.flatMap(settingsOf).flatMap((name) => [
      name,
      `${name}_FILE`,
    ]);
    const ofConsole = CONSOLE_SETTINGS.flatMap(settingsOf).flatMap((name) => [name, `${name}_FILE`]);
    const ofCompletions = COMPLETIONS_SETTINGS.flatMap(settingsOf).flatMap((name) => [name, `${name}_FILE`]);
    const wanted = {
      worker: expected.filter((name) => !/^(WEBHOOK|CONSOLE|COMPLETION)_/.test(name)),
      // The reader's own address may hold a password.
      console: expected.filter(
        (name) => ofConsole.some((each) => each === name) && name !== 'DATABASE_PASSWORD_FILE',
      ),
      completions: expected.filter(
        (name) => ofCompletions.some((each) => each === name) && name !== 'DATABASE_PASSWORD_FILE',
      ),
      webhook: expected.filter((name) => ofWebhook.some((each) => each === name)),
    };
    for (const [component, names] of Object.entries(wanted)) {
      const { env, files } = podOf(component);
      expect(env.map((each) => at(each, 'name')).sort()).toEqual(names.sort());
      expect(files).toHaveLength(names.filter((name) => name.endsWith('_FILE')).length);
    }
    // Helm parses numbers as floats, and would print some with an exponent.
    expect(podOf('worker').env).toContainEqual({ name: 'BATCH_EVENTS', value: '8000' });
    expect(podOf('webhook').env).toContainEqual({ name: 'WEBHOOK_MAX_BYTES', value: '1048576' });
  },
);

withHelm('invalid values are refused with their place', () => {
  const refusals: readonly [string, RegExp][] = [
    ['worker.replica=3', /at '\/worker': additional properties 'replica' not allowed/],
    ['settings.KAFKA_BROKER=k:9092', /at '\/settings': additional properties 'KAFKA_BROKER' not allowed/],
    ['settings.LOG_LEVEL=verbose', /at '\/settings\/LOG_LEVEL': value must be one of .*'debug'/],
    ['autoscaling.minReplicas=0', /at '\/autoscaling\/minReplicas': minimum: got 0, want 1/],
    ['retention.keepMonths=0', /at '\/retention\/keepMonths': minimum: got 0, want 1/],
    ['retention.schedule=daily', /at '\/retention\/schedule': 'daily' does not match pattern/],
    ['autoscaling.prometheus.authModes=bearer', /autoscaling\.authenticationRef is missing/],
    [
      'migration.settings.DATABASE_URL=postgres://o@db/promo,migration.secrets.DATABASE_URL.secret=a,migration.secrets.DATABASE_URL.key=b',
      /migration\.settings\.DATABASE_URL and migration\.secrets\.DATABASE_URL are both set/,
    ],
    ['settings.HTTP_PORT=null', /at '\/settings': missing property 'HTTP_PORT'/],
    ['settings.SHUTDOWN_SECONDS=null', /at '\/settings': missing property 'SHUTDOWN_SECONDS'/],
    ['fullnameOverride=promo.intake', /at '\/fullnameOverride': 'promo.intake' does not match pattern/],
    ['settings.KAFKA_BROKERS=', /settings\.KAFKA_BROKERS is missing: set it to the brokers/],
  ];
  for (const [values, message] of refusals) {
    const { status, output } = template([...MINIMAL, '--set', values]);
    expect([values, status, output]).toEqual([values, 1, expect.stringMatching(message)]);
  }
});

withHelm('the chart refuses the names of topics that the service refuses, and no others', () => {
  const names = [
    ...['promo.verdict.v1', '{operator}', 'v.{operator}', '{operator}-v', 'v'.repeat(249), '...'],
    ...['v.{op}', '{operator}.{operator}', '{{operator}}', 'a b', 'ü', '.', '..', 'v'.repeat(250)],
    `${'v'.repeat(249)}{operator}`,
  ];
  for (const setting of ['VERDICT_TOPIC', 'COMPLETION_TOPIC'] as const)
    for (const name of names) {
      const value = `settings.${setting}=${JSON.stringify(name)}`;
      const { status, output } = template([...MINIMAL, '--set-json', value]);
      const isRefused = 'problem' in SETTINGS[setting].parse(name);
      expect([name, status !== 0]).toEqual([name, isRefused]);
      const remedy = `name a topic, or a pattern such as ${SETTINGS[setting].example}`;
      if (isRefused) expect(output).toContain(remedy);
    }
});

withHelm('names that YAML could parse as other types are texts', () => {
  // Kubernetes reads YAML 1.1.
  const isText = (value: unknown): boolean => value === undefined || typeof value === 'string';
  const named = (release: string, namespace: string, own: readonly string[]) => {
    const { status, stdout, output } = runTool('helm', [
      ...['template', release, CHART, '--namespace', namespace, '--kube-version', KUBERNETES_VERSION],
      ...own,
    ]);
    expect([release, status === 0 ? 'rendered' : output]).toEqual([release, 'rendered']);
    return parseAllDocuments(stdout, { version: '1.1' }).map((each): unknown => each.toJS());
  };
  const all = ['--values', example('production.yaml'), '--set', 'autoscaling.enabled=true'];
  const names =
    'fullnameOverride=on,pod.priorityClassName=yes,autoscaling.authenticationRef=no,nameOverride=1';
  for (const [release, namespace, own] of [
    ['on', '1234', all],
    ['true', '8e12345', all],
    ['null', 'off', [...all, '--set-string', names]],
  ] as const) {
    const manifests = named(release, namespace, own);
    expect(manifests.length).toBeGreaterThan(10);
    for (const manifest of manifests) {
      const what = `${at(manifest, 'kind')} ${at(manifest, 'metadata.name')}`;
      expect([what, at(manifest, 'metadata.namespace')]).toEqual([what, namespace]);
      expect([what, typeof at(manifest, 'metadata.name')]).toEqual([what, 'string']);
      const texts = [
        ...Object.values(Object(at(manifest, 'metadata.labels'))),
        ...podsOf([Object(manifest)]).flatMap(({ labels, spec }) => [
          ...Object.values(Object(labels)),
          at(spec, 'serviceAccountName'),
          at(spec, 'priorityClassName'),
        ]),
      ];
      expect([what, texts.filter((text) => !isText(text))]).toEqual([what, []]);
    }
  }
});

withHelm('dashboards and alerts are those of files/', () => {
  const chart = join(directory, 'promo-intake');
  cpSync(CHART, chart, { recursive: true });
  const dashboard = '{"title": "{{ $labels.pod }}"}\n';
  writeFileSync(join(chart, 'files', 'dashboards', 'one.json'), dashboard);
  const args = [...MINIMAL, '--set', 'metrics.dashboards.enabled=true,metrics.rules.enabled=true'];
  const manifests = manifestsOf(args, chart);
  const found = manifests.find((manifest) => String(at(manifest, 'metadata.name')).endsWith('-dashboards'));
  expect(Object(at(found, 'data'))).toMatchObject({
    'one.json': dashboard,
    'promo-intake.json': readFileSync(join(CHART, 'files', 'dashboards', 'promo-intake.json'), 'utf8'),
  });
  const rules = manifests.find(({ kind }) => kind === 'PrometheusRule');
  expect(listAt(rules, 'spec.groups')).toHaveLength(1);
  expect(JSON.stringify(manifests)).not.toMatch(/SELECTOR|CRONJOB/);
});

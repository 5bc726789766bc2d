import { MAX_APPLIED_BYTES, manifestFiles, tooLargeForApply } from '../../../dev/chart/manifests';

const object = (kind: string, name: string, annotations = ''): string =>
  `---\n# Source: ${name}\nkind: ${kind}\nmetadata:\n  name: ${name}\n${annotations}`;
const hook = (weight: string, name = 'pre-install,pre-upgrade'): string =>
  `  annotations:\n    helm.sh/hook: ${name}\n    helm.sh/hook-weight: "${weight}"\n`;

test('manifests: a file for each weight of the hooks, in order, so that a job starts after the job before it', () => {
  const rendered = [
    object('Service', 'worker'),
    object('Job', 'reference', hook('10')),
    object('Pod', 'ready', '  annotations:\n    helm.sh/hook: test\n'),
    object('Job', 'grant', hook('2')),
    object('NetworkPolicy', 'of-migration', hook('-5')),
    object('NetworkPolicy', 'of-reference', hook('-5')),
    object('Job', 'migration', hook('0')),
    object('ConfigMap', 'data', hook('5')),
    object('Deployment', 'worker'),
  ].join('');
  const files = manifestFiles(rendered).map(({ name, text }) => [name, text.match(/(?<=^ {2}name: ).*/gm)]);
  expect(files).toEqual([
    ['1-before-networkpolicy.yaml', ['of-migration', 'of-reference']],
    ['2-before-job.yaml', ['migration']],
    ['3-before-job.yaml', ['grant']],
    ['4-before-configmap.yaml', ['data']],
    ['5-before-job.yaml', ['reference']],
    ['6-release.yaml', ['worker', 'worker']],
    ['7-test.yaml', ['ready']],
  ]);
});

test('manifests: without hooks, only the release and its test', () => {
  expect(manifestFiles(object('Service', 'worker')).map(({ name }) => name)).toEqual([
    '1-release.yaml',
    '2-test.yaml',
  ]);
});

test('an object that kubectl apply refuses is reported in one sentence, with the remedy', () => {
  const object = (bytes: number) =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: here-reference\ndata: {a: ${'x'.repeat(bytes)}}\n`;
  expect(tooLargeForApply(`---\n${object(10)}---\n${object(100)}`)).toBeUndefined();
  const problem = tooLargeForApply(`---\n${object(10)}---\n${object(MAX_APPLIED_BYTES)}`);
  expect(problem).toMatch(/^The ConfigMap here-reference has \d+ bytes.*reference\.existing[^\n]*\.$/);
});

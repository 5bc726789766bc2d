import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../../dev/servers/download';
import { nodeProblem } from '../../../src/cli/node-version';

test.each(['22.15.0', '22.22.1', '23.8.0', '23.11.1', '24.0.0', '26.1.0'])(
  'Node.js %s is new enough',
  (version) => {
    expect(nodeProblem(version)).toBeUndefined();
  },
);

test.each(['12.22.0', '20.20.2', '21.7.3', '22.14.0', '23.7.0'])('Node.js %s is too old', (version) => {
  expect(nodeProblem(version)).toBe(
    `this is Node.js ${version}, and promo-intake needs 22.15 or newer (of line 23, 23.8 or newer)`,
  );
});

test('package.json has the same versions', () => {
  const manifest: unknown = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect(manifest).toMatchObject({ engines: { node: '^22.15.0 || >=23.8.0' } });
});

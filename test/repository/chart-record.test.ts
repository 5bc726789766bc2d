/** Outside the layer of the chart, because that layer writes the record. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digestOfChart, record, recordedDigest } from '../../dev/chart/record';

test('the chart equals the last one that passed make chart', () => {
  expect(`${digestOfChart()}: else run make chart`).toBe(`${recordedDigest()}: else run make chart`);
});

test('only a complete run is recorded as passed', () => {
  const root = mkdtempSync(join(tmpdir(), 'record-'));
  try {
    mkdirSync(join(root, 'helm/promo-intake'), { recursive: true });
    mkdirSync(join(root, 'dev/chart/tools'), { recursive: true });
    const values = join(root, 'helm/promo-intake/values.yaml');
    writeFileSync(values, 'a: 1\n');
    const results = { success: true, numPassedTests: 60, numPendingTests: 0 };
    expect(record({ ...results, success: false }, root)).toBe('a check failed');
    expect(record({ ...results, numPendingTests: 2 }, root)).toMatch('2 checks were skipped');
    expect(recordedDigest(root)).toBeUndefined();
    expect(record(results, root)).toBeUndefined();
    expect(recordedDigest(root)).toBe(digestOfChart(root));
    for (const change of [
      () => writeFileSync(values, 'a: 2\n'),
      () => writeFileSync(join(root, 'dev/chart/tools/go.mod'), 'x'),
    ]) {
      const before = digestOfChart(root);
      change();
      expect(digestOfChart(root)).not.toBe(before);
    }
    const before = digestOfChart(root);
    mkdirSync(join(root, 'helm/promo-intake/files/dashboards'), { recursive: true });
    writeFileSync(join(root, 'helm/promo-intake/files/dashboards/own.json'), '{}');
    expect(digestOfChart(root)).toBe(before);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});

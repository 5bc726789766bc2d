/**
 * The file that shows Kubernetes that a process lives. The test checks it with the command of the chart's
 * probe.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startHeartbeat } from '../../../src/telemetry/heartbeat';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'heartbeat-'));
});
afterEach(() => {
  jest.useRealTimers();
  rmSync(directory, { recursive: true });
});

const probe = (file: string): number | null => spawnSync('/usr/bin/test', [file, '-nt', '/proc/self']).status;

test('the probe passes while the process lives, and fails 15 s after its last beat', () => {
  const file = join(directory, 'live');
  expect(probe(file)).toBe(1);
  let isLive = true;
  jest.useFakeTimers({ now: Date.now() - 16_000 });
  const end = startHeartbeat(file, () => isLive, fail);
  // The last beat was 16 s ago.
  expect(probe(file)).toBe(1);
  jest.setSystemTime(Date.now() + 16_000);
  jest.advanceTimersByTime(1_000);
  expect(probe(file)).toBe(0);
  isLive = false;
  jest.setSystemTime(Date.now() - 16_000);
  jest.advanceTimersByTime(5_000);
  expect(probe(file)).toBe(0);
  end();
  expect(existsSync(file)).toBe(false);
});

test('a process that is not live does not update the file', () => {
  const file = join(directory, 'live');
  const end = startHeartbeat(file, () => false, fail);
  expect(probe(file)).toBe(1);
  end();
});

test('a file that cannot be created is an error, and one that cannot be written later is reported', () => {
  expect(() => startHeartbeat(join(directory, 'none', 'live'), () => true, fail)).toThrow('ENOENT');
  jest.useFakeTimers();
  const file = join(directory, 'live');
  const faults: unknown[] = [];
  const end = startHeartbeat(
    file,
    () => true,
    (error) => faults.push(error),
  );
  rmSync(file);
  jest.advanceTimersByTime(1_000);
  expect(faults).toEqual([expect.objectContaining({ code: 'ENOENT' })]);
  end();
});

function fail(error: unknown): never {
  throw error;
}

/** Secrets of a running webhook: how often their file is read, and when a change takes effect. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeLiveSecrets } from '../../../../src/commands/services/live-secrets';
import { fileText } from '../../../../src/config/setting';
import { makeLogger } from '../../../../src/telemetry/logger';
import { aSecret } from '../../../support/webhook';

const logger = makeLogger('silent');

test('a flood of requests reads the file once a second, and a change takes effect after a second [W4] [W8]', () => {
  let reads = 0;
  let now = 0;
  let text = JSON.stringify({ hook: aSecret() });
  const secrets = makeLiveSecrets(
    () => {
      reads++;
      return text;
    },
    () => now,
    logger,
  );
  const names = new Set<string>();
  for (; now < 10_000; now += 1) for (const name of secrets().keys()) names.add(name);
  expect([...names]).toEqual(['hook']);
  expect(reads).toBe(10);

  now = 20_000;
  secrets();
  text = JSON.stringify({ other: aSecret() });
  now = 20_999;
  expect([...secrets().keys()]).toEqual(['hook']);
  now = 21_000;
  expect([...secrets().keys()]).toEqual(['other']);
  // Invalid secrets change nothing, and are not read again for each request.
  text = '{';
  now = 22_000;
  expect([...secrets().keys()]).toEqual(['other']);
  expect(reads).toBe(13);
});

test('a file that is missing for a moment changes nothing, and a new file takes effect', () => {
  const directory = mkdtempSync(join(tmpdir(), 'secrets-'));
  try {
    const file = join(directory, 'secrets.json');
    writeFileSync(file, JSON.stringify({ hook: aSecret() }));
    let now = 0;
    const secrets = makeLiveSecrets(fileText(file), () => now, logger);
    expect([...secrets().keys()]).toEqual(['hook']);
    rmSync(file);
    now = 1_000;
    expect([...secrets().keys()]).toEqual(['hook']);
    writeFileSync(file, JSON.stringify({ other: aSecret() }));
    now = 2_000;
    expect([...secrets().keys()]).toEqual(['other']);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

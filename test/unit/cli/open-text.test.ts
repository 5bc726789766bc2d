/** Files that no command takes for events. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { openText } from '../../../src/cli/open-text';
import { aBet } from '../../support/builders';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-open-text-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function read(content: string | Buffer): Promise<string> {
  const file = join(directory, 'file');
  writeFileSync(file, content);
  const chunks: Buffer[] = [];
  for await (const chunk of openText(file, 'send', new AbortController().signal)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const CORRECTION = { line: 8, event_id: 'e-8', state: 'rejected', action: 'correct', event: aBet() };

test.each([
  ['a compressed file', gzipSync('x'), 'FILE: is compressed. Run: gunzip -c FILE | promo-intake send -.'],
  [
    'a file of events to correct',
    `${JSON.stringify(CORRECTION)}\n${JSON.stringify(CORRECTION)}\n`,
    "FILE: has answers of reconcile, and no events. Take the events out, and correct them: jq -c '.event // empty' FILE > corrected.ndjson.",
  ],
])('%s is refused with its remedy', async (_, content, message) => {
  await expect(read(content)).rejects.toThrow(message);
});

test.each([
  ['an event with fields of these names', { line: 8, state: 'new', action: 'none', ...aBet() }],
  ['an event whose number of a line comes first', { line: 8, ...aBet() }],
  ['an event', aBet()],
])('%s is read as it is', async (_, event) => {
  expect(await read(JSON.stringify(event))).toBe(JSON.stringify(event));
});

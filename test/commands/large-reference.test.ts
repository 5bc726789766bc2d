/** Reference data of an operator with 50,000 games, within the memory of the chart's job. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parse } from 'yaml';
import { productCommand } from '../../dev/servers/product';
import { migratedDatabase } from '../support/ledger';
import { dropDatabase } from '../support/servers';
import { program, ROOT } from '../support/worker';

jest.setTimeout(180_000);

const GAMES = 50_000;
const values: unknown = parse(readFileSync(join(ROOT, 'helm/promo-intake/values.yaml'), 'utf8'));
const limit = Number(/^(\d+)Mi$/.exec(at('reference', 'resources', 'limits', 'memory'))?.[1]);

function at(...path: readonly string[]): string {
  let value: unknown = values;
  for (const key of path) value = Object(value)[key];
  return String(value);
}

const game = (n: number) => `provider-of-games-game-${n}`;
const JSON_TEXT = JSON.stringify({
  operators: [
    { id: 'acme', catalogue: Array.from({ length: GAMES }, (_, n) => ({ id: game(n), active: true })) },
  ],
});
const YAML_TEXT = `operators:\n  - id: acme\n    catalogue:\n${Array.from({ length: GAMES }, (_, n) => `      - { id: ${game(n)}, active: true }\n`).join('')}`;

let directory: string;
let database: string;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'large-'));
  database = await migratedDatabase();
});
afterEach(async () => {
  rmSync(directory, { recursive: true });
  await dropDatabase(database);
});

/** Applies a file. @returns the exit code, the output, and the peak memory in MiB */
async function apply(file: string): Promise<{ code: unknown; text: string; mib: number }> {
  const { file: node, args, environment } = productCommand(program(), ['reference', 'apply', file]);
  const { PATH, HOME } = process.env;
  const child = spawn(node, args, { env: { PATH, HOME, ...environment, DATABASE_URL: database } });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (more: string) => {
      text += more;
    });
  let mib = 0;
  const look = setInterval(() => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    mib = Math.max(mib, Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024);
  }, 50);
  const [code] = await once(child, 'close').finally(() => clearInterval(look));
  return { code, text, mib };
}

test.each([
  ['reference.json', Buffer.from(JSON_TEXT)],
  ['reference.json.gz', gzipSync(JSON_TEXT)],
  ['reference.yaml', Buffer.from(YAML_TEXT)],
])('%s with 50,000 games is applied twice within the memory of the job', async (name, bytes) => {
  const file = join(directory, name);
  writeFileSync(file, bytes);
  const first = await apply(file);
  expect([first.code, first.text]).toEqual([0, expect.stringContaining('version 1 is in force')]);
  const second = await apply(file);
  expect([second.code, second.text]).toEqual([0, expect.stringContaining('version 1 stays in force')]);
  for (const { mib } of [first, second]) {
    expect(mib).toBeGreaterThan(40);
    expect(mib).toBeLessThan(name.endsWith('.yaml') ? limit * 0.8 : limit * 0.5);
  }
  console.log(`${name}: ${Math.round(first.mib)} and ${Math.round(second.mib)} MiB of ${limit}`);
});

test('a gzipped file fits into a ConfigMap or a Secret', () => {
  expect(gzipSync(JSON_TEXT).length).toBeLessThan(1024 * 1024 * 0.5);
});

test('a truncated gzipped file, and a fault in one, are reported with their place', async () => {
  const file = join(directory, 'reference.json.gz');
  writeFileSync(file, gzipSync(JSON_TEXT).subarray(0, 1_000));
  expect(await apply(file)).toMatchObject({
    code: 1,
    text: expect.stringContaining(`${file}:1:1: The file begins like gzip`),
  });
  writeFileSync(file, gzipSync('operators:\n  - id: acme\n    aktive: true\n'));
  expect(await apply(file)).toMatchObject({ code: 1, text: expect.stringContaining(`${file}:3:5: `) });
});

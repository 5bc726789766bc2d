/** Reference data of an operator with 50,000 games, within the memory of the chart's job. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parse } from 'yaml';
import { findTool } from '../../dev/chart/tools';
import { productCommand } from '../../dev/servers/product';
import { at, example, listAt, manifestsOf, testWith } from '../support/chart';
import { GAME_IDS, GAMES, largeReference } from '../support/large-reference';
import { migratedDatabase, rowsOf, withClient } from '../support/ledger';
import { dropDatabase } from '../support/servers';
import { program, ROOT } from '../support/worker';

const values: unknown = parse(readFileSync(join(ROOT, 'helm/promo-intake/values.yaml'), 'utf8'));
const limit = Number(/^(\d+)Mi$/.exec(String(at(values, 'reference.resources.limits.memory')))?.[1]);

const JSON_TEXT = largeReference('counted');
const YAML_TEXT = `operators:\n  - id: acme\n    catalogue:\n${Array.from({ length: GAMES }, (_, n) => `      - { id: ${GAME_IDS.counted(n)}, active: true }\n`).join('')}`;

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

const apply = (file: string) => run(['reference', 'apply', file]);

/** Node gives half of the memory of a container to JavaScript. */
const NODE_OPTIONS = `--max-old-space-size=${limit / 2}`;

/** Runs a command as the job does. @returns the exit code, the output, and the peak memory in MiB */
async function run(command: readonly string[]): Promise<{ code: unknown; text: string; mib: number }> {
  const { file: node, args, environment } = productCommand(program(), command);
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, ...environment, NODE_OPTIONS, DATABASE_URL: database };
  const child = spawn(node, args, { env });
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

/** Puts a file where the kubelet mounts it. @returns the arguments of the job, in the test's directory */
function mounted(existing: string, bytes: Buffer): string[] {
  const job = manifestsOf(['--values', example('minimal.yaml'), '--set', existing]).find(
    (manifest) => manifest.kind === 'Job' && at(manifest, 'metadata.name') === 'here-promo-intake-reference',
  );
  const [container] = listAt(job, 'spec.template.spec.containers');
  const [volume] = listAt(job, 'spec.template.spec.volumes');
  const [mount] = listAt(container, 'volumeMounts');
  const [, key] = /key=([^,]+)/.exec(existing) ?? [];
  const [item] = ['configMap', 'secret'].flatMap((kind) => listAt(volume, `${kind}.items`));
  const path = join(directory, String(at(mount, 'mountPath')), String(at(item, 'path') ?? key));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
  return listAt(container, 'args')
    .map(String)
    .map((each) => (each.startsWith('/') ? join(directory, each) : each));
}

describe.each([
  ['a ConfigMap', 'counted', 'configMap=games,reference.existing.key=reference.json.gz'],
  ['a Secret', 'counted', 'secret=games,reference.existing.key=reference.json.gz'],
  [
    'a volume',
    'random',
    'volume.persistentVolumeClaim.claimName=games,reference.existing.key=acme/games.json.gz',
  ],
] as const)('in %s', (_, ids, existing) => {
  testWith(findTool('helm'))(
    '50,000 gzipped games are applied by the job of the chart within its memory',
    async () => {
      const { code, text, mib } = await run(
        mounted(`reference.existing.${existing}`, gzipSync(largeReference(ids))),
      );
      expect([code, text]).toEqual([0, expect.stringContaining('version 1 is in force')]);
      expect(mib).toBeGreaterThan(40);
      expect(mib).toBeLessThan(limit * 0.5);
      const games = `select jsonb_array_length(document #> '{operators,0,catalogue}') from promo_store.reference_versions where version = 1`;
      expect(await withClient(database, (client) => rowsOf(client, games))).toEqual([[String(GAMES)]]);
    },
  );
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

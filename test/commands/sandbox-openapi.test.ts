/** The running sandbox against its OpenAPI document. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { objectOf } from '../../dev/compatibility/json-schema';
import { findFuzzer, fuzz } from '../../dev/fuzzer';
import { testWhere } from '../support/needed';
import { type RunningSandbox, SANDBOX_SECRET, SandboxFiles, startSandbox } from '../support/sandbox';
import { type FreshDatabase, freshDatabase } from '../support/servers';
import { ROOT } from '../support/worker';

const DOCUMENT = join(ROOT, 'schemas/sandbox.openapi.json');
const FUZZ_DEADLINE_MS = 900_000;
/**
 * The hooks have checks of their own in place of these. Most operations answer 422 to valid calls. Headers
 * order server errors. The signature is added again where a call lacks it on purpose.
 */
const REPLACED = ['--exclude-checks', 'positive_data_acceptance,not_a_server_error,negative_data_rejection'];

const FILE = `operators:
  - id: acme
    keys: [{ id: acme-key, secret_file: sandbox.secret }]
games: [{ id: g1 }]
`;

let database: FreshDatabase;
let files: SandboxFiles;
let sandbox: RunningSandbox;
beforeAll(async () => {
  database = await freshDatabase();
  files = new SandboxFiles();
  sandbox = await startSandbox(files.write('sandbox.yaml', FILE), {
    DATABASE_URL: database.url,
    LOG_LEVEL: 'info',
  });
}, 120_000);
afterAll(async () => {
  sandbox.command.signal('SIGKILL');
  await sandbox.command.ending();
  files.remove();
  await database.drop();
});

testWhere(findFuzzer())(
  'random calls get the answers that the document has, and valid ones are taken',
  async (python) => {
    const launch = { token: 't-1', player: 'p-1', game: 'g1', currency: 'EUR' };
    const { body } = await sandbox.call('/v2/aggregator/launchGame', launch);
    const { findings, output } = await fuzz(python, {
      document: DOCUMENT,
      baseUrl: `http://127.0.0.1:${sandbox.port}`,
      hooks: join(__dirname, 'fuzzer', 'sandbox_hooks.py'),
      environment: {
        KEY: 'acme-key',
        SECRET: SANDBOX_SECRET,
        GAME: 'g1',
        SESSION: String(body.session_id),
      },
      options: REPLACED,
    });
    expect(findings.length === 0 ? '' : output).toBe('');
    expect(sandbox.command.logged('sandbox call failed')).toEqual([]);
  },
  FUZZ_DEADLINE_MS,
);

test('the document is served as it is published, without a signature', async () => {
  const response = await fetch(`http://127.0.0.1:${sandbox.port}/openapi.json`);
  expect(response.headers.get('x-sandbox')).toBe('promo-intake');
  expect(await response.json()).toEqual(JSON.parse(readFileSync(DOCUMENT, 'utf8')));
});

test('each example of a body fits its schema', () => {
  const { paths } = objectOf(JSON.parse(readFileSync(DOCUMENT, 'utf8')));
  const ajv = new Ajv2020({ strict: false });
  for (const item of Object.values(objectOf(paths))) {
    const { requestBody } = objectOf(objectOf(item).post);
    const { schema } = objectOf(objectOf(objectOf(requestBody).content)['application/json']);
    const { examples } = objectOf(schema);
    for (const example of Array.isArray(examples) ? examples : [])
      expect(ajv.validate(objectOf(schema), example)).toBe(true);
  }
});

/** A sandbox that cannot start says why, with all faults at once, and one that stops ends its calls. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { SandboxFiles } from '../support/sandbox';
import { SandboxWorld } from '../support/sandbox-world';
import { type FreshDatabase, freshDatabase } from '../support/servers';
import { ROOT, RunningCommand } from '../support/worker';

let database: FreshDatabase;
let files: SandboxFiles;
beforeAll(async () => {
  [database, files] = [await freshDatabase(), new SandboxFiles()];
});
afterAll(async () => {
  files.remove();
  await database.drop();
});

async function ending(text: string, url = database.url): Promise<{ code: number | null; output: string }> {
  const file = files.write('sandbox.yaml', text);
  const command = new RunningCommand(['sandbox', '--file', file, '--port', '0'], { DATABASE_URL: url });
  const { code } = await command.ending();
  return { code, output: command.output() };
}

const operator = (more: string) =>
  `operators: [{ id: acme, keys: [{ id: k, secret_file: sandbox.secret }], ${more} }]\ngames: [{ id: g }]\n`;
const profile = (was: string, is: string) =>
  readFileSync(join(ROOT, 'schemas/examples/wallet.yaml'), 'utf8').replace(was, is);

test('with faults in its file ends with 2, and names each with its line', async () => {
  const { code, output } = await ending('operators:\n  - { id: "", keys: [], more: 1 }\ngames: 7\n');
  expect(code).toBe(2);
  expect(output.match(/sandbox\.yaml:\d+:\d+: /g)).toHaveLength(3);
  expect(output).toContain('3 faults; nothing was started');
});

test('with faults in the files that it names ends with 2, and names each', async () => {
  files.write('production.yaml', profile('environment: test', 'environment: production'));
  const intake = 'intake: { url: "http://127.0.0.1:1", connection: c, secret_file: none.secret }';
  const { code, output } = await ending(operator(`wallet: production.yaml, ${intake}`));
  expect(code).toBe(2);
  expect(output).toMatch(/production\.yaml:\d+:\d+: environment/);
  expect(output).toContain('none.secret');
});

test('with a wallet of another operator ends with 2', async () => {
  files.write('wallet.secret', 's');
  files.write('other.yaml', profile('operator_id: acme', 'operator_id: globex'));
  const { code, output } = await ending(operator('wallet: other.yaml'));
  expect([code, output]).toEqual([2, expect.stringContaining('operator_id is not "acme"')]);
});

test('with a wallet over a database without migrations ends with 1, and names the remedy', async () => {
  files.write('wallet.secret', 's');
  files.write('wallet.yaml', profile('', ''));
  const { code, output } = await ending(operator('wallet: wallet.yaml'));
  expect([code, output]).toEqual([1, expect.stringContaining('Run: promo-intake migrate')]);
});

test('over tables of another version ends with 1, and names the remedy', async () => {
  const other = await freshDatabase();
  const client = new Client({ connectionString: other.url });
  await client.connect();
  await client.query('create schema promo_sandbox');
  await client.end();
  const { code, output } = await ending(operator('active: true'), other.url);
  expect([code, output]).toEqual([1, expect.stringContaining('drop schema promo_sandbox cascade')]);
  await other.drop();
});

test('that is stopped while it plays a round answers the call, and ends with 0', async () => {
  const world = await SandboxWorld.open();
  try {
    const sandbox = await world.startSandbox(null);
    const session = await world.launch(sandbox);
    world.delayMs = () => 1_500;
    const playing = sandbox.call('/sandbox/playRound', {
      session_id: session,
      round_id: 'r',
      bets: ['1.00'],
    });
    await sandbox.command.waitForLog((line) => line.msg === 'sandbox call answered');
    while (world.seen.size === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    sandbox.command.signal('SIGTERM');
    expect(await playing).toMatchObject({ body: { round_id: 'r', sandbox: true } });
    expect((await sandbox.command.ending()).code).toBe(0);
    world.delayMs = () => 0;
    const again = await world.startSandbox(null);
    let state: unknown;
    while (state !== 'settled') {
      state = (await again.call('/sandbox/getRound', { round_id: 'r' })).body.state;
      expect(['playing', 'settled']).toContain(state);
    }
  } finally {
    await world.close();
  }
});

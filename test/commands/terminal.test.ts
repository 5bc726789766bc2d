/** Output of a command to a terminal, and a signal that would open it to a debugger. */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { aLogin } from '../support/builders';
import { serve } from '../support/serve';
import { program, ROOT } from '../support/worker';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-terminal-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

function start(args: readonly string[], settings: Readonly<Record<string, string>> = {}) {
  const command = productCommand(program(), args);
  const child = spawn(command.file, command.args, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...command.environment, ...settings },
    stdio: 'pipe',
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  const ended = once(child, 'close').then(([code]: unknown[]) => code);
  return { child, ended, said: () => said };
}

/** Changes the title, moves up and clears the line, in 7 and in 8 bits; hides text; begins a new line. */
const HOSTILE = '\x1b]0;title\x07\x1b[1A\x1b[2K\x9b31m\u202e\r\nevents: sent in 0.1 s; 1 event: 1 accepted';
const isPrintable = (text: string) => /^[\t\n -~]*$/.test(text);

/** Sends an event to a server with this answer to all requests. */
async function sendTo(answer: (response: ServerResponse) => void, ...more: string[]) {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(response));
  });
  const { port, close } = await serve(server);
  const file = join(directory, 'events');
  writeFileSync(file, JSON.stringify(aLogin()));
  const secrets = { 'acme-hook': `whsec_${randomBytes(32).toString('base64')}` };
  const run = start(
    ['send', file, '--url', `http://127.0.0.1:${port}`, '--connection', 'acme-hook', ...more],
    { WEBHOOK_SECRETS: JSON.stringify(secrets) },
  );
  await run.ended;
  await close();
  return run.said();
}

const verdict = {
  event_id: HOSTILE,
  verdict: 'rejected',
  reason: 'malformed',
  remedy: HOSTILE,
  details: [{ field: HOSTILE, reason: 'malformed', detail: HOSTILE }],
};

test.each<[string, (response: ServerResponse) => void, string[]]>([
  ['a message', (response) => response.writeHead(400).end(JSON.stringify({ message: HOSTILE })), []],
  ['details and a remedy', (response) => response.end(JSON.stringify({ verdicts: [verdict] })), []],
  ['an answer in JSON', (response) => response.end(JSON.stringify({ verdicts: [verdict] })), ['--json']],
])('send prints an answer with escape sequences escaped: %s', async (_, answer, more) => {
  const said = await sendTo(answer, ...more);
  expect([said, isPrintable(said)]).toEqual([expect.stringContaining('\\u001b'), true]);
  expect(said).not.toMatch(/^events: sent/m);
});

test('the name of a file and an argument are printed escaped', async () => {
  const file = join(directory, '\x1b[31m\x9b1Aodd');
  writeFileSync(file, '{}\n');
  for (const args of [
    ['check', file],
    ['\x1b[31m\x9b1A'],
    ['check', file, '--\x1b[31m\x9b1A'],
    ['check', '-', '--reference', file, '--connection', 'x'],
  ]) {
    const run = start(args);
    await run.ended;
    expect([args, run.said(), isPrintable(run.said())]).toEqual([
      ...[args, expect.stringContaining('\\u001b[31m\\u009b1A')],
      true,
    ]);
  }
});

test('printed JSON stays the same JSON', async () => {
  const run = start(['check', '-', '--json']);
  run.child.stdin.end(JSON.stringify({ ...aLogin({ event_id: HOSTILE }), kind: HOSTILE }));
  expect(await run.ended).toBe(1);
  const [line = ''] = run.said().split('\n');
  expect([line, isPrintable(line)]).toEqual([expect.stringContaining('\\u009b'), true]);
  expect(JSON.parse(line)).toMatchObject({ event_id: HOSTILE });
});

test('a line of the log is printed escaped', () => {
  const log = `require('./dist/telemetry/logger').makeLogger('info').warn({ error: ${JSON.stringify(HOSTILE)} }, 'x')`;
  const { stdout } = spawnSync(process.execPath, ['-e', log], { cwd: ROOT, encoding: 'utf8' });
  expect([stdout, isPrintable(stdout)]).toEqual([expect.stringContaining('\\u009b31m'), true]);
  expect(JSON.parse(stdout)).toMatchObject({ error: HOSTILE });
});

test('SIGUSR1 opens no inspector', async () => {
  const run = start(['check', '-']);
  run.child.stdin.write('{}\n');
  await until('it has judged', 60_000, () => run.said().includes('event_id is missing'));
  run.child.kill('SIGUSR1');
  run.child.stdin.write('{"half\n');
  await until('it goes on', 60_000, () => run.said().includes('ends too early'));
  run.child.stdin.end();
  expect(await run.ended).toBe(1);
  expect(run.said()).not.toMatch(/debugger|inspector/i);
});

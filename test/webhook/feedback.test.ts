/** `sign` and `tail` as their users run them, beside a webhook. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { HOOK, secret, withWebhook } from '../stream/scene';
import { aBet } from '../support/ledger';
import { aSecret } from '../support/webhook';
import { killWorkers, program, ROOT, type Settings } from '../support/worker';

const LONG = 60_000;
afterEach(killWorkers);

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-feedback-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function start(args: readonly string[], settings: Settings) {
  const command = productCommand(program(), args);
  const env = { PATH: process.env.PATH, ...command.environment, ...settings };
  const child = spawn(command.file, command.args, { cwd: ROOT, env, stdio: 'pipe' });
  const said = { output: '', errors: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.errors += text;
  });
  const ended = once(child, 'close').then(([code]: unknown[]) => ({ code, ...said }));
  return { child, said, ended };
}

function write(name: string, content: string): string {
  const file = join(directory, name);
  writeFileSync(file, content);
  return file;
}

test('the curl command of sign is accepted, and --verify finds what was changed of the request [W4]', () =>
  withWebhook({}, async ({ webhook }) => {
    const file = write('event with space.json', `${JSON.stringify(aBet({ event_id: "it's signed" }))}\n`);
    const settings = { WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret, other: aSecret() }) };
    const url = `http://127.0.0.1:${webhook.port}`;
    const made = await start(['sign', file, '--connection', HOOK, '--url', url], settings).ended;
    expect([made.code, made.errors]).toEqual([0, '']);
    expect(made.output).not.toContain(secret.slice('whsec_'.length));
    const curl = made.output.slice(made.output.indexOf('curl '));
    const { stdout } = await promisify(execFile)('bash', ['-c', curl]);
    expect(JSON.parse(stdout)).toMatchObject({
      verdicts: [{ event_id: "it's signed", verdict: 'accepted' }],
    });

    const headers = write(
      'headers.txt',
      made.output
        .split('\n')
        .slice(0, 3)
        .map((line) => `> ${line}`)
        .join('\r\n'),
    );
    const verify = (body: string, connection = HOOK) =>
      start(['sign', body, '--connection', connection, '--verify', headers], settings).ended;
    expect(await verify(file)).toMatchObject({
      code: 0,
      output: expect.stringContaining('signature: right'),
    });
    expect(
      await verify(write('changed.json', JSON.stringify(aBet({ event_id: "it's signed" })))),
    ).toMatchObject({
      code: 1,
      output: expect.stringContaining('signed with a line break at its end'),
    });
    expect(await verify(file, 'other')).toMatchObject({
      code: 1,
      output: expect.stringContaining(`the secret is that of ${HOOK}`),
    });
  }));

test('tail warns where its conditions let no verdict come [T1]', () =>
  withWebhook({}, async ({ world }) => {
    const warningOf = async (...conditions: readonly string[]) => {
      const tail = start(['tail', ...conditions], { DATABASE_URL: world.databaseUrl });
      await until('tail follows', LONG, async () => tail.said.errors.includes('following the verdicts'));
      tail.child.kill('SIGINT');
      await tail.ended;
      return /^warning: (.*)$/m.exec(tail.said.errors)?.[1] ?? null;
    };
    expect(await warningOf('--connection', HOOK)).toBeNull();
    expect(await warningOf('--connection', 'none')).toMatch(
      /^no connection in force has these names, .* There is no connection none\. Use one of /,
    );
    expect(await warningOf('--operator', 'acne')).toMatch(
      / There is no operator acne\. Did you mean acme\?$/,
    );
    expect(await warningOf('--operator', 'acme', '--connection', `${HOOK}k`)).toMatch(
      / acme has no connection .*\. Did you mean /,
    );
    expect(await warningOf('--connection', HOOK, '--test')).toMatch(/leave out --test$/);
  }));

test('tail prints each verdict once with its remedy, survives a lost connection, and ends by Ctrl-C [T1]', () =>
  withWebhook({}, async ({ world, send }) => {
    await send(aBet({ event_id: 'before' }));
    const tail = start(['tail', '--connection', HOOK], { DATABASE_URL: world.databaseUrl });
    await until('tail follows', LONG, async () => tail.said.errors.includes('following the verdicts'));
    await send({ events: [aBet({ event_id: 'good' }), { ...aBet({ event_id: 'bad' }), amount: 5 }] });
    await until('both verdicts', LONG, async () => tail.said.output.includes('bet bad'));
    await world.rows(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'promo-intake-tail' and datname = current_database()`,
    );
    await send(aBet({ event_id: 'after' }));
    await until('the verdict after the loss', LONG, async () => tail.said.output.includes('bet after'));
    tail.child.kill('SIGINT');
    const { code, output } = await tail.ended;

    expect(code).toBe(0);
    expect(output.split('\n').map((line) => line.replace(/^\S+ /, ''))).toEqual([
      `${HOOK}: bet good of 10.50 EUR is accepted.`,
      `${HOOK}: bet bad is rejected/bad_amount at /amount. Send the exact amount as a decimal string, with a new event_id.`,
      `${HOOK}: bet after of 10.50 EUR is accepted.`,
      '',
    ]);
  }));

test('tail --since begins with the verdicts of the past, and refuses what is no time of the past [T1]', () =>
  withWebhook({}, async ({ world, send }) => {
    const settings = { DATABASE_URL: world.databaseUrl };
    await send(aBet({ event_id: 'before' }));
    const tail = start(['tail', '--connection', HOOK, '--since', '10m'], settings);
    await until('the verdict of the past', LONG, async () => tail.said.output.includes('bet before'));
    await send(aBet({ event_id: 'after' }));
    await until('the new verdict', LONG, async () => tail.said.output.includes('bet after'));
    tail.child.kill('SIGINT');
    const { code, output, errors } = await tail.ended;
    expect(code).toBe(0);
    expect(output.split('\n').map((line) => line.replace(/^\S+ /, ''))).toEqual([
      `${HOOK}: bet before of 10.50 EUR is accepted.`,
      `${HOOK}: bet after of 10.50 EUR is accepted.`,
      '',
    ]);
    expect(errors).toMatch(/^following the verdicts that were decided from \S+Z on; Ctrl-C ends it\n$/);
    for (const [since, problem] of [
      ['10 minutes', 'is neither a time with a zone nor a duration'],
      ['2999-01-01T00:00:00Z', 'is in the future'],
    ] as const)
      expect(await start(['tail', '--since', since], settings).ended).toMatchObject({
        code: 2,
        errors: expect.stringContaining(`"${since}" ${problem}`),
      });
  }));

/** Rehearsals by the webhook: the verdicts that events would get, and no trace of them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { until } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { isObject } from '../../src/lib/json';
import { ANSWER_SCHEMA } from '../../src/webhook/responses';
import { HOOK, secret, withWebhook } from '../stream/scene';
import type { World } from '../stream/world';
import { readTopic } from '../support/kafka';
import { aBet, aLogin, aRefund, aSettled, withClient } from '../support/ledger';
import { freshTopic, kafkaBrokers } from '../support/servers';
import { killWorkers, program, ROOT } from '../support/worker';

afterEach(killWorkers);

const dry = { path: `/v1/rehearse/${HOOK}` };
const byQuery = { path: `/v1/events/${HOOK}?dry_run=true` };

/** The number of rows of each table, and the last number of each sequence. */
async function tracesIn(world: Pick<World<'main'>, 'rows'>): Promise<string> {
  const tables = await world.rows(
    `select relname, (xpath('/row/c/text()', query_to_xml(format('select count(*) as c from promo_store.%I', relname), false, true, '')))[1]::text
     from pg_class where relnamespace = 'promo_store'::regnamespace and relkind in ('r', 'p') order by 1`,
  );
  const sequences = await world.rows(
    `select sequencename, last_value from pg_sequences where schemaname = 'promo_store' order by 1`,
  );
  return JSON.stringify([tables, sequences]);
}

const mixed = {
  events: [
    aBet({ event_id: 'bet', round_id: 'r' }),
    { ...aBet({ event_id: 'number' }), amount: 5 },
    'no event',
    aSettled({ event_id: 'zero', round_id: 'z', amount: '0' }),
    { ...aBet({ event_id: 'of-nobody' }), brand: 'nobody' },
    aRefund({ event_id: 'refund', round_id: 'r' }),
    aSettled({ event_id: 'late', round_id: 'r' }),
    aBet({ event_id: 'bet', round_id: 'other' }),
    aRefund({ event_id: 'refund-of-before', round_id: 'before' }),
    aBet({ event_id: 'decided', round_id: 'before' }),
  ],
};

test('a rehearsal answers as the request does when it is sent for real, and stores nothing [W9]', () =>
  withWebhook({}, async ({ world, webhook, send }) => {
    await send(aBet({ event_id: 'decided', round_id: 'before' }));
    const before = await tracesIn(world);

    const rehearsed = await send(mixed, dry);
    expect([rehearsed.status, rehearsed.verdicts.length]).toEqual([200, mixed.events.length]);
    expect(JSON.parse(rehearsed.text)).toMatchObject({ dry_run: true });
    const matches = new Ajv2020({ strict: false }).compile(ANSWER_SCHEMA);
    expect([matches(JSON.parse(rehearsed.text)), matches.errors]).toEqual([true, null]);
    // A second rehearsal sees nothing of the first.
    expect((await send(mixed, dry)).verdicts).toEqual(rehearsed.verdicts);
    expect(await tracesIn(world)).toBe(before);

    const real = await send(mixed);
    expect(real.verdicts).toEqual(rehearsed.verdicts);
    expect(JSON.parse(real.text)).not.toHaveProperty('dry_run');
    expect((await send(mixed, dry)).verdicts).toEqual((await send(mixed)).verdicts);

    expect(
      await webhook.command.metric('promo_intake_webhook_rehearsals_total{connection="acme-hook"}'),
    ).toBe(3);
    expect(
      await webhook.command.metric('promo_intake_webhook_rehearsed_events_total{connection="acme-hook"}'),
    ).toBe(30);
    expect(await webhook.command.metric('promo_intake_webhook_requests_total{status="200"}')).toBe(3);
    expect(await webhook.command.metric('promo_intake_batch_seconds_count')).toBe(3);
  }));

test('an event that a rehearsal rejects may keep its event_id, and no remedy asks for another one [W9]', () =>
  withWebhook({}, async ({ send }) => {
    const answer: unknown = JSON.parse((await send(mixed, dry)).text);
    if (!isObject(answer) || !Array.isArray(answer.verdicts)) throw new Error('no verdicts');
    const rejected = answer.verdicts.filter(
      (each) => isObject(each) && (each.verdict === 'rejected' || each.verdict === 'skipped'),
    );
    expect(rejected.length).toBeGreaterThan(3);
    for (const each of rejected) {
      expect(each).toMatchObject({ needs_new_event_id: false });
      expect(JSON.stringify(Reflect.get(Object(each), 'remedy'))).not.toContain('new event_id');
    }
    const [, corrected] = mixed.events;
    expect((await send({ ...Object(corrected), amount: '5.00' })).verdicts).toEqual(['accepted']);
  }));

test('a rehearsed duplicate keeps its event_id where its first was rehearsed, too, and not where it is decided [W9]', () =>
  withWebhook({}, async ({ send }) => {
    const bad = {
      ...aLogin(),
      event_id: 'twice',
      kind: 'bet',
      round_id: 'r',
      amount: '1,50',
      currency: 'EUR',
    };
    const other = { ...aLogin(), event_id: 'twice' };
    const rehearsed = async (...events: object[]): Promise<unknown[]> => {
      const answer: unknown = JSON.parse((await send({ events }, dry)).text);
      return isObject(answer) && Array.isArray(answer.verdicts) ? answer.verdicts : [];
    };
    expect((await rehearsed(bad, bad, other)).slice(1)).toEqual([
      expect.objectContaining({
        verdict: 'duplicate',
        first_reason: 'bad_amount',
        content_differs: false,
        remedy: 'It would be rejected under this id. Send the exact amount as a decimal string.',
        needs_new_event_id: false,
      }),
      expect.objectContaining({
        content_differs: true,
        remedy: 'Give each event its own event_id.',
        needs_new_event_id: true,
      }),
    ]);
    expect((await send(bad)).verdicts).toEqual(['rejected/bad_amount']);
    for (const event of await rehearsed(bad, bad))
      expect(event).toMatchObject({
        verdict: 'duplicate',
        needs_new_event_id: true,
        remedy:
          'It was rejected under this id. Send the exact amount as a decimal string, with a new event_id.',
      });
  }));

test('the query of the path of events rehearses as the path of rehearsals does [W9]', () =>
  withWebhook({}, async ({ world, send }) => {
    const before = await tracesIn(world);
    const rehearsed = await send(mixed, byQuery);
    expect([rehearsed.status, rehearsed.verdicts.length]).toEqual([200, mixed.events.length]);
    expect((await send(mixed, dry)).text).toBe(rehearsed.text);
    expect((await send(mixed, { path: `${dry.path}?dry_run=true` })).text).toBe(rehearsed.text);
    expect(await tracesIn(world)).toBe(before);
  }));

test('a rehearsal is never answered with the answer to the same signed bytes, nor the other way round [W9] [W7]', () =>
  withWebhook({}, async ({ world, send }) => {
    const id = 'msg_same';
    const at = new Date();
    const { Webhook } = await import('standardwebhooks');
    const body = JSON.stringify(aLogin({ event_id: 'twice' }));
    const headers = { 'webhook-id': id, 'webhook-signature': new Webhook(secret).sign(id, at, body) };
    const bySame = { at, headers };

    const rehearsed = await send(body, { ...dry, ...bySame });
    expect(JSON.parse(rehearsed.text)).toMatchObject({ dry_run: true });
    const real = await send(body, bySame);
    expect([real.verdicts, JSON.parse(real.text).dry_run]).toEqual([['accepted'], undefined]);
    expect(await world.verdicts()).toEqual({ twice: 'accepted' });
    const again = await send(body, { ...dry, ...bySame });
    expect([again.verdicts, JSON.parse(again.text).dry_run]).toEqual([['duplicate of accepted'], true]);
  }));

test('a mistyped rehearsal is refused and never decided [W9]', () =>
  withWebhook({}, async ({ world, send }) => {
    for (const query of ['dry-run=true', 'DRYRUN', 'dry_run=1', 'dry_run=true&dry_run=true']) {
      const refused = await send(aLogin(), { path: `/v1/events/${HOOK}?${query}` });
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('dry_run=true')]);
    }
    const unclear = await send(aLogin(), { path: `/v1/rehearse/${HOOK}?dry_run=false` });
    expect([unclear.status, unclear.text]).toEqual([
      400,
      expect.stringContaining('/v1/rehearse/{connection_id}'),
    ]);
    for (const path of [`/v1/rehearsals/${HOOK}`, `/v1/rehearse`, `/v1/rehearse/${HOOK}/`])
      expect((await send(aLogin(), { path })).status).toBe(404);
    expect(await world.verdicts()).toEqual({});
  }));

test('other queries, and dry_run=false, are decided [W9]', () =>
  withWebhook({}, async ({ world, send }) => {
    await send(aLogin({ event_id: 'a' }), { path: `/v1/events/${HOOK}?source=cron` });
    await send(aLogin({ event_id: 'b' }), { path: `/v1/events/${HOOK}?dry_run=false` });
    expect(await world.verdicts()).toEqual({ a: 'accepted', b: 'accepted' });
  }));

test('while a decision waits for the lock of its round, a rehearsal of the round answers at once [W10]', () =>
  withWebhook({}, async ({ world, send }) => {
    await send(aBet({ event_id: 'opened', round_id: 'r' }));
    await withClient(world.databaseUrl, async (client) => {
      await client.query('begin');
      await client.query('select from promo_store.rounds for update');
      const waiting = send(aBet({ event_id: 'waits', round_id: 'r' }));
      await until('the decision waits', 60_000, async () => {
        const { rowCount } = await client.query(
          `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return rowCount === 1;
      });
      const rehearsed = await send(
        { events: [aBet({ event_id: 'waits', round_id: 'r' }), aRefund({ round_id: 'r' })] },
        dry,
      );
      expect(rehearsed.verdicts).toEqual(['accepted', 'accepted']);
      await client.query('rollback');
      expect((await waiting).verdicts).toEqual(['accepted']);
    });
  }));

test('under a load of rehearsals of the same rounds no decision waits for a lock, or is refused [W10]', () =>
  withWebhook({}, async ({ world, send }) => {
    const rounds = Array.from({ length: 50 }, (_, index) => `r-${index}`);
    let stop = false;
    let rehearsals = 0;
    const load = Array.from({ length: 6 }, async () => {
      while (!stop) {
        const { status } = await send({ events: rounds.map((round_id) => aSettled({ round_id })) }, dry);
        if (status === 200) rehearsals++;
      }
    });
    const watcher = withClient(world.databaseUrl, async (client) => {
      let found = 0;
      while (!stop) {
        // A transaction that writes, or locks a row, has an id.
        const { rowCount } = await client.query(
          `select from pg_stat_activity where application_name = 'promo-intake-rehearsal' and backend_xid is not null`,
        );
        found += rowCount ?? 0;
      }
      return found;
    });
    const statuses = new Set<number>();
    for (let count = 0; count < 60; count++) {
      const events = rounds.map((round_id) => aBet({ event_id: `${round_id}-${count}`, round_id }));
      statuses.add((await send({ events })).status);
    }
    stop = true;
    await Promise.all(load);

    expect([...statuses]).toEqual([200]);
    expect(await watcher).toBe(0);
    expect(rehearsals).toBeGreaterThan(20);
    expect(await world.rows('select count(*) from promo.verdicts')).toEqual([['3000']]);
  }));

test('the verdicts of a rehearsal are not published [W9]', async () => {
  const verdictTopic = await freshTopic('rehearsed');
  await withWebhook(
    { VERDICT_TOPIC: verdictTopic, KAFKA_BROKERS: kafkaBrokers().join() },
    async ({ send }) => {
      await send(aLogin({ event_id: 'rehearsed' }), dry);
      await send(aLogin({ event_id: 'real' }));
      const messages = await readTopic(verdictTopic);
      expect(messages.map(({ value }) => JSON.parse(String(value)).event_id)).toEqual(['real']);
    },
  );
});

test('send --dry-run prints the verdicts of a rehearsal, and stores nothing [W9]', () =>
  withWebhook({}, async ({ world, webhook }) => {
    const url = `http://127.0.0.1:${webhook.port}`;
    const events = [aLogin({ event_id: 'good' }), { ...aBet({ event_id: 'bad' }), amount: 5 }];
    const { code, output } = await rehearseFile(url, events);
    expect(code).toBe(1);
    expect(output).toContain(':2: rejected/bad_amount  /amount: amount');
    expect(output).not.toContain('new event_id');
    expect(output).toMatch(/rehearsed, nothing stored, in .* 2 events: 1 accepted, 1 rejected/);
    expect(await world.verdicts()).toEqual({});
  }));

test('send --dry-run sends no event to a webhook that decides all requests [W9]', async () => {
  const { code, errors, requests } = await rehearseAgainst(() => 200);
  expect([code, requests]).toEqual([1, [['POST /v1/rehearse/acme-hook', '{"events":[]}']]]);
  expect(errors).toContain('its answer was no rehearsal');
});

test('send --dry-run asks a webhook without rehearsals for its upgrade, and has nothing decided by it [W9]', async () => {
  // The paths of a webhook without rehearsals.
  const { code, errors, requests } = await rehearseAgainst((path) =>
    /^POST \/v1\/events\/[^/?]+(\?|$)/.test(path) ? 200 : 404,
  );
  expect([code, requests.map(([path]) => path)]).toEqual([1, ['POST /v1/rehearse/acme-hook']]);
  expect(errors).toContain('it answered 404');
  expect(errors).toContain('an older version has no rehearsals, and no event was decided');
});

/** Rehearses a login against a webhook that decides each request with status 200. */
async function rehearseAgainst(statusOf: (path: string) => number) {
  const requests: [path: string, body: string][] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      const path = `${request.method} ${request.url}`;
      requests.push([path, body]);
      response.statusCode = statusOf(path);
      response.end(JSON.stringify({ spec: 'promo.answer.v1', connection_id: HOOK, verdicts: [] }));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const { code, errors } = await rehearseFile(`http://127.0.0.1:${port}`, [aLogin()]);
  server.close();
  server.closeAllConnections();
  return { code, errors, requests };
}

async function rehearseFile(url: string, events: readonly object[]) {
  const directory = mkdtempSync(join(tmpdir(), 'promo-rehearsal-'));
  const file = join(directory, 'events.ndjson');
  writeFileSync(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  const command = productCommand(program(), ['send', file, '--url', url, '--connection', HOOK, '--dry-run']);
  const settings = { WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: secret }) };
  const env = { PATH: process.env.PATH, ...command.environment, ...settings };
  const child = spawn(command.file, command.args, { cwd: ROOT, env, stdio: 'pipe' });
  let [output, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [code]: unknown[] = await once(child, 'close');
  rmSync(directory, { recursive: true });
  return { code, output, errors };
}

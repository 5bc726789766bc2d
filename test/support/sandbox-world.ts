/**
 * A sandbox with all that its rounds need. Its test wallet is behind a proxy that loses replies. A webhook
 * decides the events.
 */

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Client } from 'pg';
import { type RunningWallet, startExampleWallet } from '../../dev/example-wallet/server';
import { sleep, until } from '../../dev/servers/deadline';
import { isObject, parseJson } from '../../src/lib/json';
import { migratedDatabase } from './ledger';
import { type RunningSandbox, SandboxFiles, type SandboxReply, startSandbox } from './sandbox';
import { type Serving, serve } from './serve';
import { dropDatabase, type FreshDatabase, freshDatabase } from './servers';
import { aSecret, type RunningWebhook, startWebhook } from './webhook';
import { ONE_REQUEST, ROOT, RunningCommand } from './worker';

/**
 * `lost`: the call takes effect, and its reply is lost. `away`: it does not arrive. A text is a code that
 * refuses it.
 */
export type WalletFault = 'none' | 'lost' | 'away' | `ERROR_CODE_${string}`;

const SECRET = 'secret-of-the-test';
const ADDRESS = 'http://127.0.0.1:8787';
/** A call whose process was killed is taken over after 30 s. */
const END_DEADLINE_MS = 90_000;

const REFERENCE = `operators:
  - id: acme
    connections: [{ id: acme-hook, transport: webhook, brand: main, feed: live }]
    brands: [{ id: main }]
`;

export class SandboxWorld {
  private readonly files = new SandboxFiles();
  private readonly secret = aSecret();
  private sandboxes: RunningSandbox[] = [];
  private webhook: RunningWebhook | undefined;
  /** The fault of each call of the wallet, by the last part of its path and its op_id. */
  faultOf: (action: string, opId: string) => WalletFault = () => 'none';
  /** How long the wallet takes for a call. */
  delayMs: () => number = () => 0;
  /** How often each op_id came. */
  readonly seen = new Map<string, number>();
  /** The tenants that the calls named in a header of the profile. */
  readonly tenants = new Set<unknown>();

  private constructor(
    readonly databaseUrl: string,
    private readonly walletDatabase: FreshDatabase,
    private readonly wallet: RunningWallet,
    private proxy: Serving | undefined,
  ) {}

  static async open(): Promise<SandboxWorld> {
    const [databaseUrl, walletDatabase] = [await migratedDatabase(), await freshDatabase()];
    const wallet = await startExampleWallet({
      databaseUrl: walletDatabase.url,
      secret: SECRET,
      keyId: 'wallet-key-1',
      port: 0,
      bugs: new Set(),
    });
    const world = new SandboxWorld(databaseUrl, walletDatabase, wallet, undefined);
    world.proxy = await serve(createServer((request, response) => void world.pass(request, response)));
    const apply = new RunningCommand(['reference', 'apply', world.files.write('reference.yaml', REFERENCE)], {
      DATABASE_URL: databaseUrl,
    });
    expect((await apply.ending()).code).toBe(0);
    const profile = readFileSync(join(ROOT, 'schemas/examples/wallet.yaml'), 'utf8');
    world.files.write(
      'wallet.yaml',
      profile
        .replaceAll(ADDRESS, `http://127.0.0.1:${world.proxy.port}`)
        .replace('amounts: minor', 'amounts: minor\nheaders: { X-Tenant: tenant-7 }\nconnections: 20')
        .replace('values: [ok]', 'values: [done, ok]'),
    );
    world.files.write('wallet.secret', SECRET);
    world.files.write('hook.secret', world.secret);
    return world;
  }

  /** Starts the webhook that takes the events. @returns its port */
  async startIntake(port = 0): Promise<number> {
    this.webhook ??= await startWebhook(
      { DATABASE_URL: this.databaseUrl, WEBHOOK_PORT: String(port) },
      { 'acme-hook': this.secret },
    );
    return this.webhook.port;
  }

  async stopIntake(): Promise<void> {
    this.webhook?.command.signal('SIGKILL');
    await this.webhook?.command.ending();
    this.webhook = undefined;
  }

  async startSandbox(intakePort: number | null): Promise<RunningSandbox> {
    const intake = `{ url: "http://127.0.0.1:${intakePort}", connection: acme-hook, secret_file: hook.secret }`;
    const file = this.files.write(
      'sandbox.yaml',
      `operators:
  - id: acme
    keys: [{ id: acme-key, secret_file: sandbox.secret }]
    wallet: wallet.yaml
    ${intakePort === null ? '' : `intake: ${intake}`}
games: [{ id: g1 }]
`,
    );
    const started = await startSandbox(file, { DATABASE_URL: this.databaseUrl });
    this.sandboxes.push(started);
    return started;
  }

  /**
   * The session of a new token. Tokens of the wallet's player are all the same, so the player has one
   * session each.
   */
  async launch({ call }: RunningSandbox, more: object = {}): Promise<string> {
    const { body, status } = await call('/v2/aggregator/launchGame', {
      token: 't-usual',
      player: 'p-usual',
      game: 'g1',
      currency: 'EUR',
      ...more,
    });
    expect([status, body.session_id]).toEqual([200, expect.any(String)]);
    return String(body.session_id);
  }

  /** Waits until a round has its end, and all of its events a verdict. */
  async ended({ call }: RunningSandbox, roundId: unknown): Promise<SandboxReply> {
    let reply: SandboxReply | undefined;
    await until(`the round ${roundId} ends`, END_DEADLINE_MS, async () => {
      reply = await call('/sandbox/getRound', { round_id: roundId });
      const { body } = reply;
      const events = Array.isArray(body.events) ? body.events : [];
      return (
        body.state !== 'playing' &&
        body.attribution !== 'waiting' &&
        events.every((event: unknown) => isObject(event) && event.verdict !== null)
      );
    });
    if (reply === undefined) throw new Error('there was no reply');
    return reply;
  }

  async rows(text: string, url = this.databaseUrl): Promise<unknown[]> {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query({ text, rowMode: 'array' })).rows;
    } finally {
      await client.end();
    }
  }

  /** The minor units of the usual player. */
  async balance(): Promise<number> {
    const [row] = await this.rows(
      "select balance::int from example_wallet.players where id = 'p-usual'",
      this.walletDatabase.url,
    );
    return Array.isArray(row) ? Number(row[0]) : Number.NaN;
  }

  async close(): Promise<void> {
    for (const { command } of this.sandboxes) if (!command.hasEnded()) command.signal('SIGKILL');
    await Promise.all(this.sandboxes.map(({ command }) => command.ending()));
    await this.stopIntake();
    await this.proxy?.close();
    await this.wallet.close();
    this.files.remove();
    await this.walletDatabase.drop();
    await dropDatabase(this.databaseUrl);
  }

  private async pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    const body = Buffer.concat(chunks);
    const opId = opIdOf(body);
    this.seen.set(opId, (this.seen.get(opId) ?? 0) + 1);
    this.tenants.add(request.headers['x-tenant']);
    const fault = this.faultOf((request.url ?? '').split('/').at(-1) ?? '', opId);
    await sleep(this.delayMs());
    if (fault === 'away') {
      request.socket.destroy();
      return;
    }
    if (fault.startsWith('ERROR_CODE_')) {
      response.end(JSON.stringify({ status: 'error', error: { code: fault } }));
      return;
    }
    const headers = Object.entries(request.headers).flatMap(([name, value]): [string, string][] =>
      typeof value === 'string' && !/^(host|connection|content-length)$/.test(name) ? [[name, value]] : [],
    );
    const reply = await fetch(`${this.wallet.url}${request.url}`, {
      method: 'POST',
      body,
      headers: [...headers, ...Object.entries(ONE_REQUEST)],
    });
    const text = await reply.text();
    if (fault === 'lost') request.socket.destroy();
    else response.writeHead(reply.status, { 'content-type': 'application/json' }).end(text);
  }
}

function opIdOf(body: Buffer): string {
  const json = parseJson(body.toString());
  const payload = isObject(json) ? json.payload : undefined;
  const meta = isObject(payload) ? payload.meta : undefined;
  return isObject(meta) ? String(meta.op_id) : '';
}

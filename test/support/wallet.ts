/** A wallet for tests: it moves money in memory, keeps its answers, and fails on demand. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { WalletAction } from '../../src/contract/actions';
import { isObject, parseJson } from '../../src/lib/json';
import type { ActionProfile, CallProfile, Signing } from '../../src/wallet/profile';
import type { Template } from '../../src/wallet/template';

/** The ways in which one request fails. `lost`: it takes effect, and its reply does not arrive. */
export type Fault =
  | 'none'
  | 'reset'
  | 'lost_by_reset'
  | 'lost_by_silence'
  | 'lost_by_cut'
  | 'lost_by_size'
  | 'lost_by_garbage'
  | 'bare_500'
  | 'bare_404'
  | 'redirect'
  | 'internal'
  | 'maintenance'
  | 'refused';

export interface SeenRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly raw: string;
  readonly opId: string;
  readonly requestId: string;
}

export class TestWallet {
  balance = 1_000;
  readonly seen: SeenRequest[] = [];
  /** The faults of the next requests, the first one first. Empty: none. */
  faults: Fault[] = [];
  /** The fault of every request; of more weight than `faults`. */
  always: Fault = 'none';
  private readonly answers = new Map<string, unknown>();
  /** The change of the balance by each op_id that moved money. */
  private readonly moved = new Map<string, number>();
  private readonly rolledBack = new Set<string>();
  private readonly server = createServer((request, response) => void this.receive(request, response));

  async open(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  get url(): string {
    const address = this.server.address();
    if (address === null || typeof address === 'string') throw new Error('the wallet does not listen');
    return urlOf(address);
  }

  /** How often each op_id was sent. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { opId } of this.seen) counts.set(opId, (counts.get(opId) ?? 0) + 1);
    return counts;
  }

  hasMoved(opId: string): boolean {
    return this.moved.has(opId);
  }

  private async receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    const raw = Buffer.concat(chunks).toString();
    const body = parseJson(raw);
    if (!isObject(body) || !isObject(body.payload) || !isObject(body.payload.meta))
      throw new Error(`the test sent ${raw}`);
    const path = request.url ?? '';
    const opId = String(body.payload.meta.op_id);
    const { headers } = request;
    this.seen.push({ path, headers, raw, opId, requestId: String(body.request_id) });
    const next = this.faults.shift() ?? 'none';
    const fault = this.always === 'none' ? next : this.always;
    if (fault === 'reset') request.socket.destroy();
    else if (fault === 'bare_500' || fault === 'bare_404')
      response.writeHead(Number(fault.slice(5))).end('no');
    else if (fault === 'redirect') response.writeHead(302, { location: `${this.url}/elsewhere` }).end();
    else if (fault === 'internal') answer(response, failure('ERROR_CODE_INTERNAL'));
    else if (fault === 'maintenance') answer(response, failure('ERROR_CODE_MAINTENANCE'));
    else if (fault === 'refused') answer(response, failure('ERROR_CODE_INSUFFICIENT_FUNDS'));
    else {
      const reply = this.apply(path, opId, body.payload);
      if (fault === 'none') answer(response, reply);
      else this.lose(fault, response, request);
    }
  }

  private lose(fault: Fault, response: ServerResponse, request: IncomingMessage): void {
    if (fault === 'lost_by_reset') request.socket.destroy();
    else if (fault === 'lost_by_cut') {
      response.writeHead(200, { 'content-length': '500' });
      response.write('{"status":"ok"', () => request.socket.destroy());
    } else if (fault === 'lost_by_size') answer(response, { status: 'ok', more: 'x'.repeat(70_000) });
    else if (fault === 'lost_by_garbage') response.end('<html>');
    // Silence: the connection stays open.
  }

  private apply(path: string, opId: string, payload: Readonly<Record<string, unknown>>): unknown {
    const known = this.answers.get(opId);
    if (known !== undefined) return known;
    const reply = this.move(path, opId, payload);
    this.answers.set(opId, reply);
    return reply;
  }

  private move(path: string, opId: string, { amount, original }: Readonly<Record<string, unknown>>): unknown {
    if (path.endsWith('/rollback')) {
      this.balance -= this.moved.get(String(original)) ?? 0;
      this.moved.delete(String(original));
      this.rolledBack.add(String(original));
    }
    const sign = path.endsWith('/debit') ? -1 : path.endsWith('/credit') ? 1 : 0;
    if (sign !== 0) {
      if (this.rolledBack.has(opId)) return failure('ERROR_CODE_ALREADY_ROLLED_BACK');
      this.moved.set(opId, sign * Number(amount));
      this.balance += sign * Number(amount);
    }
    return { status: 'ok', data: { balance: String(this.balance) } };
  }
}

function urlOf({ port }: AddressInfo): string {
  return `http://127.0.0.1:${port}`;
}

const failure = (code: string) => ({ status: 'error', error: { code } });

function answer(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export const PLAYER = 'player-of-a-secret-name';
export const KEY_ID = 'key-id-7';
export const SECRET = 'the-secret-of-the-wallet';

/** A profile of a test wallet. */
export function aProfile(baseUrl: string, more: Partial<CallProfile> = {}): CallProfile {
  const meta = { op_id: '{{op_id}}' };
  const money = { meta, player: '{{player}}', amount: '{{amount|number}}' };
  const original = { original: '{{original}}' };
  const action = (name: WalletAction, payload: Template): [WalletAction, ActionProfile] => [
    name,
    { path: `/v2/wallet/${name}`, payload, enumField: null },
  ];
  return {
    operatorId: 'acme',
    baseUrl,
    keyId: KEY_ID,
    idempotencyHeader: 'Idempotency-Key',
    headers: new Map(),
    ts: 'rfc3339',
    amounts: 'minor',
    signing: null,
    actions: new Map([
      action('balance', { meta, player: '{{player}}' }),
      action('debit', money),
      action('credit', money),
      action('rollback', { ...original, player: '{{player}}', meta }),
      action('reconcile', { ...original, meta }),
    ]),
    answers: { balance: 'data.balance', success: { field: 'status', values: ['ok'] }, changing: [] },
    connections: 4,
    ...more,
  };
}

/** A signature of the body. */
export const A_SIGNING: Signing = {
  scheme: 'hmac-sha256',
  encoding: 'hex',
  header: 'X-Signature',
  prefix: '',
  timestampHeader: null,
  content: '{{body}}',
  secretFile: 'wallet.secret',
};

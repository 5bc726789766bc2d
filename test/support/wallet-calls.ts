/** Callers of test wallets over a store, and the passing of time for the stored calls. */
import { randomUUID } from 'node:crypto';
import pino, { type Logger } from 'pino';
import { NEVER, systemClock } from '../../src/lib/clock';
import { makePool, type PostgresPool } from '../../src/postgres/pool';
import { type CallStore, makeCallStore } from '../../src/wallet/call-store';
import { makeWalletCalls, type WalletCall, type WalletCalls } from '../../src/wallet/calls';
import { makeWalletClient, type WalletClient } from '../../src/wallet/client';
import type { PolicyTerms } from '../../src/wallet/policy';
import type { CallProfile } from '../../src/wallet/profile';
import { PLAYER, SECRET } from './wallet';

export interface CallerOptions {
  readonly profiles: readonly CallProfile[];
  readonly deadlineMs?: number;
  readonly leaseMs?: number;
  readonly terms?: PolicyTerms;
  readonly wallNow?: () => number;
  readonly maxConnections?: number;
  readonly wrapStore?: (store: CallStore) => CallStore;
  readonly wrapClient?: (client: WalletClient) => WalletClient;
}

export interface Caller {
  readonly calls: WalletCalls;
  readonly pool: PostgresPool;
  /** All that it logged, at any level. */
  readonly log: () => string;
}

/** A process that calls wallets. Its pool has to be ended. */
export function makeCaller(databaseUrl: string, options: CallerOptions): Caller {
  const { profiles, deadlineMs = 4_000, leaseMs, wallNow = () => Date.now(), maxConnections = 4 } = options;
  const lines: string[] = [];
  const logger: Logger = pino({ level: 'trace', base: null }, { write: (line: string) => lines.push(line) });
  const pool = makePool({ databaseUrl, maxConnections, applicationName: 'promo-test-wallet' }, logger);
  const store = makeCallStore(pool, logger);
  const clients = profiles.map((profile) =>
    makeWalletClient(profile, {
      secret: () => Buffer.from(SECRET),
      deadlineMs,
      wallNow,
      monotonicNow: () => performance.now(),
    }),
  );
  const calls = makeWalletCalls({
    store: options.wrapStore?.(store) ?? store,
    clients: clients.map((client) => options.wrapClient?.(client) ?? client),
    clock: systemClock,
    newId: randomUUID,
    logger,
    ...(leaseMs !== undefined && { leaseMs }),
    ...(options.terms !== undefined && { terms: options.terms }),
  });
  return { calls, pool, log: () => lines.join('') };
}

/** Times of the test with several processes: seconds in place of hours. */
export const CREW = {
  deadlineMs: 500,
  leaseMs: 4_500,
  terms: { firstWaitMs: 50, longestWaitMs: 400, briefMs: 2_000, resendMs: 6_000 },
} as const;

export function aCall(opId: string, more: Partial<WalletCall> = {}): WalletCall {
  return { operatorId: 'acme', action: 'debit', opId, values: { player: PLAYER, amount: '100' }, ...more };
}

/** Moves all stored times back, as if the clock of the store had jumped ahead. Negative: it was set back. */
export async function jump(pool: PostgresPool, seconds: number): Promise<void> {
  const columns = [
    'due_at',
    'sending_since',
    'first_sent_at',
    'last_sent_at',
    'last_ended_at',
    'created_at',
    'ended_at',
  ];
  const moved = columns.map((column) => `${column} = ${column} - make_interval(secs => $1)`).join(', ');
  await pool.query(`update promo_store.wallet_calls set ${moved}`, [seconds]);
}

/** Takes what is due, and waits for its end. */
export async function takeAndSettle({ takeDue, settle }: WalletCalls): Promise<number> {
  const taken = await takeDue();
  await settle();
  return taken;
}

const MOST_STEPS = 40;

/** Lets time pass, more than a lease each time, until no call is open. */
export async function finish({ calls, pool }: Caller): Promise<void> {
  for (let step = 0; step < MOST_STEPS; step++) {
    await jump(pool, 61);
    while ((await takeAndSettle(calls)) > 0) await systemClock.sleep(1, NEVER);
    const { rowCount } = await pool.query(
      `select from promo_store.wallet_calls where state = 'open' limit 1`,
    );
    if (rowCount === 0) return;
  }
  throw new Error(`calls are open after ${MOST_STEPS} steps`);
}

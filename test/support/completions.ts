/** Entries of the ledger of completions, written by SQL, and the publisher of a test. */
import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import type { TopicsProducer } from '../../src/kafka/producer';
import { type Clock, systemClock } from '../../src/lib/clock';
import type { Store } from '../../src/postgres/transaction';
import { makeOutbox } from '../../src/promotion-publishing/outbox';
import { makeCompletionPublisher } from '../../src/promotion-publishing/publisher';
import type { OnCompletions } from '../../src/promotion-publishing/send-completions';
import { makeOperatorTopics } from '../../src/publishing/operator-topics';
import { asRole } from './as-role';

/** Completions of two operators: acme has a target and a leaderboard, bravo a target. */
const PROMOTIONS = `
insert into promo_store.promotion_documents (document_version, document, applied_by) values (1, '{}', 'test');
insert into promo_store.promotions (operator_no, promotion_id)
select o.operator_no, p.id from promo_store.operators o
join (values ('acme', 'target'), ('acme', 'race'), ('bravo', 'target')) p (operator, id) on p.operator = o.operator_id;
insert into promo_store.promotion_versions (promotion_no, version, document_version, definition)
select promotion_no, 1, 1, jsonb_build_object('type', case promotion_id when 'race' then 'leaderboard' else 'deposit_target' end)
from promo_store.promotions;
insert into promo_store.promotion_windows (promotion_no, version, window_key, starts_at, ends_at)
select promotion_no, 1, '2026-11-20', '2026-11-20 00:00Z', case promotion_id when 'race' then timestamptz '2026-11-21 00:00Z' end
from promo_store.promotions;`;

export async function addPromotions(pool: Pool): Promise<void> {
  await pool.query(PROMOTIONS);
}

export interface EntryOptions {
  readonly operator?: 'acme' | 'bravo';
  readonly promotion?: 'target' | 'race';
  readonly player?: string;
  /** 0: completed. 1: revoked. 2: confirmed. */
  readonly change?: 0 | 1 | 2;
  readonly ordinal?: number;
}

export const idOf = ({
  operator = 'acme',
  promotion = 'target',
  player = 'p-1',
  ordinal = 1,
}: EntryOptions) =>
  createHash('sha256').update([operator, promotion, player, ordinal].join()).digest('hex').slice(0, 32);

/** The statement that adds an entry, with its values. */
export function entryStatement(options: EntryOptions = {}) {
  const { operator = 'acme', promotion = 'target', player = 'p-1', change = 0, ordinal = 1 } = options;
  return {
    text: `insert into promo_store.promotion_completions (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at)
select decode($1, 'hex'), $2::smallint, w.window_no, $3, $4, 1, case $2::smallint when 2 then null else 8192 end, '2026-11-20 09:00:00.00025Z'
from promo_store.promotion_windows w join promo_store.promotions p using (promotion_no) join promo_store.operators o using (operator_no)
where o.operator_id = $5 and p.promotion_id = $6`,
    values: [idOf(options), change, player, ordinal, operator, promotion],
  };
}

export async function addEntries(pool: Pool, ...entries: readonly EntryOptions[]): Promise<void> {
  for (const entry of entries) await pool.query(entryStatement(entry));
}

export interface TestPublisherOptions {
  readonly store: Store;
  readonly producer: TopicsProducer;
  /** COMPLETION_TOPIC */
  readonly pattern: string;
  readonly holder?: string;
  readonly leaseMs?: number;
  readonly onCompletions?: OnCompletions;
  readonly clock?: Clock;
}

export function aCompletionPublisher(options: TestPublisherOptions) {
  const {
    store,
    producer,
    pattern,
    holder = 'test',
    leaseMs = 10_000,
    onCompletions = () => undefined,
    clock = systemClock,
  } = options;
  return makeCompletionPublisher({
    outbox: makeOutbox(asRole(store, 'completions'), holder, leaseMs),
    producer,
    topics: makeOperatorTopics(pattern, pattern, () => []),
    clock,
    onCompletions,
  });
}

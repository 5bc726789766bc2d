/** Writes the state of a fold of a test into the tables of progress. */
import type { Pool } from 'pg';
import type { CompletionEntry } from '../../src/promotions/completion';
import type { PromotionFold } from '../../src/promotions/fold';

const CHANGES = ['completed', 'revoked', 'confirmed'] as const;
const time = (micros: bigint | null): string | null =>
  micros === null ? null : new Date(Number(micros / 1000n)).toISOString();

const GENERATION = `insert into promo_store.folds (fold, generation) values ('promotions', 1) on conflict (fold) do update set generation = 1`;
const WINDOW = `with named as (
  select p.promotion_no from promo_store.promotions p join promo_store.operators o using (operator_no) where o.operator_id = $1 and p.promotion_id = $2
), added as (
  insert into promo_store.promotion_windows (promotion_no, version, window_key, starts_at, ends_at)
  select promotion_no, $3::int, $4, $5::timestamptz, $6::timestamptz from named on conflict do nothing returning window_no
)
select window_no from added union all
select w.window_no from promo_store.promotion_windows w join named using (promotion_no) where w.version = $3::int and w.window_key = $4`;
const PROGRESS = `insert into promo_store.promotion_progress
  (generation, window_no, player_ref, items, currencies, amounts, attained, score, scored_no, changed_no, changed_at)
values (1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;
const ENTRY = `insert into promo_store.promotion_completions
  (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at)
select decode($1, 'hex'), $2, w.window_no, $3, $4, $5, $6, $7 from promo_store.promotion_windows w
join promo_store.promotions p using (promotion_no) join promo_store.operators o using (operator_no)
where o.operator_id = $8 and p.promotion_id = $9 and w.version = $10 and w.window_key = $11`;

/** @param entries of the ledger of completions */
export async function writeProgress(
  pool: Pool,
  fold: PromotionFold,
  entries: readonly CompletionEntry[],
): Promise<void> {
  await pool.query(GENERATION);
  for (const each of fold.progress()) {
    const { promotion, version, window, playerRef, lastStep } = each;
    const { operator, id } = promotion.definition;
    const { rows } = await pool.query<{ window_no: number }>(WINDOW, [
      ...[operator, id, version, window.key, time(window.startsAt), time(window.endsAt)],
    ]);
    const values = each.rows();
    await pool.query(PROGRESS, [
      ...[rows[0]?.window_no, playerRef, values.map(({ item }) => item)],
      ...[values.map(({ currency }) => currency), values.map(({ value }) => String(value))],
      ...[each.attained, String(each.score), each.scoredNo],
      ...[lastStep?.changeNo ?? 0, time(lastStep?.at ?? 0n)],
    ]);
  }
  for (const { completionId, change, playerRef, ordinal, attempt, changeNo, at, ...of } of entries)
    await pool.query(ENTRY, [
      ...[completionId, CHANGES.indexOf(change), playerRef, ordinal, attempt, changeNo, time(at)],
      ...[of.operatorId, of.promotionId, of.version, of.window],
    ]);
}

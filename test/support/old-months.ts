/** Months of before in a store, as if it had run for so long. */
import type { TestStore } from './ledger';

/** The begin of a month before this one, in SQL. */
export const monthBefore = (months: number) =>
  `date_trunc('month', now() at time zone 'utc' - interval '${months} months') at time zone 'utc'`;
/** Adds the tables of an earlier month. */
export async function makeMonth(store: TestStore, months: number): Promise<void> {
  await store.pool.query(`do $$
    declare first timestamptz := ${monthBefore(months)};
    declare parent text;
    begin
      foreach parent in array array['history', 'resends', 'unstored'] loop
        execute format('create table promo_store.%1$s_%2$s partition of promo_store.%1$s for values from (%3$L) to (%4$L)',
          parent, to_char(first at time zone 'utc', 'YYYY_MM'), first, first + interval '1 month');
        insert into promo_store.months (parent, month, made_at) values (parent, first at time zone 'utc', first);
      end loop;
    end $$`);
}
/** Moves the events into the month, with the opening of their rounds. */
export async function moveBack(
  store: TestStore,
  months: number,
  ...events: readonly string[]
): Promise<void> {
  await store.pool.query(
    `update promo_store.history set decided_at = ${monthBefore(months)} + interval '10 days' where event_id = any($1)`,
    [events],
  );
  await store.pool.query(
    `update promo_store.rounds set opened_at = least(opened_at, (select min(h.decided_at) from promo_store.history h where h.round_no = rounds.round_no))`,
  );
}

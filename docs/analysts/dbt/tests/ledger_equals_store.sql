-- The rows in which the copy and the store differ, among the newest numbers. None in a sound copy.
with newest as (
  select
    coalesce(max(change_no), -1) as up_to,
    greatest(coalesce(max(change_no), -1) - {{ var('compared_numbers') }}, -1) as after
  from {{ ref('copy_ledger') }}
),
dropped as (
  select month::timestamp at time zone 'UTC' as since, (month + interval '1 month')::timestamp at time zone 'UTC' as until
  from {{ source('promo', 'months') }} where view_name = 'verdicts' and not is_kept
),
store as (
  select s.entry_id, s.change_no, s.amount, s.reverses_entry_id, s.entered_at
  from promo.changes((select after from newest), (select up_to from newest), {{ copied_lineage() }}) s
),
copied as (
  select c.entry_id, c.change_no, c.amount, c.reverses_entry_id, c.entered_at
  from {{ ref('copy_ledger') }} c
  where c.change_no > (select after from newest) and not exists (select from dropped d where c.decided_at >= d.since and c.decided_at < d.until)
)
select entry_id, store.change_no, copied.change_no as copied_change_no
from store full join copied using (entry_id)
where (store.change_no, store.amount, store.reverses_entry_id, store.entered_at)
  is distinct from (copied.change_no, copied.amount, copied.reverses_entry_id, copied.entered_at)

-- Days of which the copy has new entries or reversals are computed again.
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='day') }}
select
  operator_id,
  {{ utc_day('decided_at') }} as day,
  brand,
  game_id,
  currency,
  count(*) filter (where kind = 'bet' and reverses_entry_id is null) as bets,
  coalesce(sum(amount) filter (where kind = 'bet' and reverses_entry_id is null), 0) as turnover,
  coalesce(-sum(amount) filter (where kind = 'bet' and reverses_entry_id is not null), 0) as refunded_turnover,
  coalesce(sum(amount) filter (where kind = 'bet'), 0) as net_turnover,
  coalesce(sum(amount) filter (where kind = 'win'), 0) as net_wins,
  coalesce(sum(case kind when 'bet' then amount when 'win' then -amount end), 0) as net_result,
  max(change_no) as last_change_no
from {{ ref('copy_ledger') }}
where kind in ('bet', 'win')
{% if is_incremental() %}
  and {{ utc_day('decided_at') }} in (
    select {{ utc_day('decided_at') }} from {{ ref('copy_ledger') }}
    where change_no > (select coalesce(max(last_change_no), -1) from {{ this }}) and kind in ('bet', 'win')
  )
{% endif %}
group by 1, 2, 3, 4, 5

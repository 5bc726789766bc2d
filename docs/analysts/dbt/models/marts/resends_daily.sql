-- Days of which the copy has new deliveries are computed again.
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='day') }}
select
  operator_id,
  connection_id,
  {{ utc_day('received_at') }} as day,
  count(*) as resends,
  count(*) filter (where content_differs) as with_other_content,
  max(change_no) as last_change_no
from {{ ref('copy_deliveries') }}
{% if is_incremental() %}
where {{ utc_day('received_at') }} in (
  select {{ utc_day('received_at') }} from {{ ref('copy_deliveries') }}
  where change_no > (select coalesce(max(last_change_no), -1) from {{ this }})
)
{% endif %}
group by 1, 2, 3

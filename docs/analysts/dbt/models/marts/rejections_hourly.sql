-- Hours of which the copy has new verdicts are computed again.
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='hour') }}
with counted as (
  select
    operator_id, connection_id, date_trunc('hour', decided_at, 'UTC') as hour, verdict, reason,
    count(*) as events,
    sum(count(*)) over (partition by operator_id, connection_id, date_trunc('hour', decided_at, 'UTC')) as events_of_hour,
    max(max(change_no)) over (partition by date_trunc('hour', decided_at, 'UTC')) as last_change_no,
    min(event_id) as sample_event_id
  from {{ ref('copy_verdicts') }}
  {% if is_incremental() %}
  where date_trunc('hour', decided_at, 'UTC') in (
    select date_trunc('hour', decided_at, 'UTC') from {{ ref('copy_verdicts') }}
    where change_no > (select coalesce(max(last_change_no), -1) from {{ this }})
  )
  {% endif %}
  group by 1, 2, 3, 4, 5
)
select
  operator_id, connection_id, hour, reason, events, events_of_hour,
  round(events / events_of_hour, 4) as share,
  sample_event_id, last_change_no
from counted
where verdict = 'rejected'

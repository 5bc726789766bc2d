-- depends_on: {{ source('promo', 'deliveries') }}
{{ config(
  materialized='incremental',
  incremental_strategy='append',
  indexes=[{'columns': ['change_no']}, {'columns': ['received_at']}],
  post_hook="{{ follow_months('deliveries', 'received_at') }}",
) }}
select *
from promo.new_deliveries({{ copied_up_to() }}, lineage => {{ copied_lineage() }})

-- depends_on: {{ source('promo', 'verdicts') }}
{{ config(
  materialized='incremental',
  incremental_strategy='append',
  indexes=[{'columns': ['change_no'], 'unique': true}, {'columns': ['decided_at']}],
  post_hook="{{ follow_months('verdicts', 'decided_at') }}",
) }}
select *
from promo.new_verdicts({{ copied_up_to() }}, lineage => {{ copied_lineage() }})

-- depends_on: {{ source('promo', 'ledger') }}
{{ config(
  materialized='incremental',
  incremental_strategy='append',
  indexes=[{'columns': ['entry_id'], 'unique': true}, {'columns': ['change_no']}, {'columns': ['decided_at']}, {'columns': ['verdict_id']}],
  post_hook="{{ follow_months('verdicts', 'decided_at') }}",
) }}
select
  change_no, entry_id, operator_id, feed_id, event_id, round_id, brand,
  {%- if var('with_players') %} player_ref,{% endif %}
  kind, currency, scale, amount_minor, amount, reverses_entry_id, entered_at, verdict_id, game_id, occurred_at, decided_at
from promo.{{ 'changes_with_players' if var('with_players') else 'changes' }}({{ copied_up_to() }}, lineage => {{ copied_lineage() }})

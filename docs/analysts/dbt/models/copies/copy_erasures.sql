-- depends_on: {{ ref('copy_ledger') }}
-- The erasures that the copy has followed. A row and its change of the copy are one transaction.
{{ config(
  enabled=var('with_players'),
  materialized='incremental',
  incremental_strategy='append',
  indexes=[{'columns': ['erasure_no'], 'unique': true}],
  post_hook="
    update {{ ref('copy_ledger') }} c set player_ref = e.erased_player
    from {{ this }} e cross join lateral promo.erased_verdicts(e.erasure_no) v
    where e.followed_at = now() and c.verdict_id = v.verdict_id",
) }}
select erasure_no, operator_id, erased_player, ended_at, now() as followed_at
from {{ source('promo', 'erasures') }}
where is_done
{% if is_incremental() %}and erasure_no not in (select erasure_no from {{ this }}){% endif %}

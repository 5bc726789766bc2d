-- The number behind which a copy reads on. A new copy begins after -1.
{% macro copied_up_to() -%}
{% if is_incremental() %}(select coalesce(max(change_no), -1) from {{ this }}){% else %}-1::bigint{% endif %}
{%- endmacro %}

-- The lineage that the copy has numbers of. The store refuses another one.
{% macro copied_lineage() -%}
(select lineage from {{ ref('copy_lineage') }})
{%- endmacro %}

-- One run after the other. Without the lock, two runs read behind the same number, and both insert.
{% macro lock_model() %}
{% if is_incremental() %}lock table {{ this }} in share row exclusive mode{% endif %}
{% endmacro %}

-- Deletes the rows of months that retention has dropped in the store.
{% macro follow_months(view_name, time_column) %}
{% if not var('keep_dropped_months') %}
delete from {{ this }} c using {{ source('promo', 'months') }} m
where m.view_name = '{{ view_name }}' and not m.is_kept
  and c.{{ time_column }} >= m.month::timestamp at time zone 'UTC'
  and c.{{ time_column }} < (m.month + interval '1 month')::timestamp at time zone 'UTC'
{% endif %}
{% endmacro %}

-- The day of a time, in UTC.
{% macro utc_day(time_column) -%}
({{ time_column }} at time zone 'UTC')::date
{%- endmacro %}

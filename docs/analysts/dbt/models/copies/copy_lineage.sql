-- The lineage of the store at the first run. A full refresh of all models takes the present one.
{{ config(materialized='incremental', incremental_strategy='append') }}
select promo.lineage() as lineage, now() as copied_since
{% if is_incremental() %}where not exists (select from {{ this }}){% endif %}

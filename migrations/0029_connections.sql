-- The connections of the reference data in force, as a view: a connection that sends nothing is in no view of
-- its events.
--
-- Locks: none that others wait for. Time: instant. Safe while older workers run.

create view promo.connections as
select o.value ->> 'id' as operator_id, c.value ->> 'id' as connection_id, c.value ->> 'transport' as transport,
  c.value ->> 'topic' as topic,
  (o.value ->> 'id') || case when c.value -> 'test' = 'true'::jsonb then '//test' else '' end || coalesce('/' || (c.value ->> 'feed'), '') as feed_id,
  coalesce(c.value -> 'test' = 'true'::jsonb, false) as is_test
from (select document from promo_store.reference_versions order by version desc limit 1) v
cross join lateral jsonb_array_elements(v.document -> 'operators') o
cross join lateral jsonb_array_elements(o.value -> 'connections') c;
comment on view promo.connections is 'The connections of the reference data in force.';
comment on column promo.connections.operator_id is 'Operator of the connection.';
comment on column promo.connections.connection_id is 'Id of the connection.';
comment on column promo.connections.transport is 'kafka or webhook.';
comment on column promo.connections.topic is 'Kafka topic of the connection; null for a webhook.';
comment on column promo.connections.feed_id is 'Feed into which its events are decided.';
comment on column promo.connections.is_test is 'Whether it is a connection for tests, whose events only promo.test_verdicts and promo.test_deliveries show.';

-- Creates the tables of the intake: reference data, keys and history of events, rounds, counters. Also
-- creates the views for analysts.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: there are none
-- before it.
--
-- Two schemas. People and tools read `promo`: views with names and texts. The worker writes `promo_store`:
-- numbers in place of names, and at most 20 bytes in place of an id. Keys (event_keys) and rounds last
-- forever. Retention drops history, resends and unstored by month.

create schema if not exists promo_store;
create schema if not exists promo;
comment on schema promo is 'Verdicts, ledger, deliveries, rounds and anomalies of promotion events, for reading.';
comment on schema promo_store is 'Storage behind the schema promo. Written by the worker only; its shape may change between versions.';

-- ---------------------------------------------------------------- names behind numbers

create table promo_store.operators (
  operator_no int generated always as identity primary key,
  operator_id text not null unique
);
comment on table promo_store.operators is 'Numbers of operators. A row stays when the operator leaves the reference data.';
comment on column promo_store.operators.operator_no is 'Number that stands for the operator in storage.';
comment on column promo_store.operators.operator_id is 'The operator''s id in the reference data.';

create table promo_store.feeds (
  feed_no int generated always as identity primary key,
  operator_no int not null references promo_store.operators,
  operator_id text not null,
  feed_id text not null unique
);
comment on table promo_store.feeds is 'Numbers of feeds. A feed is one space of event ids and round ids, and belongs to one operator.';
comment on column promo_store.feeds.feed_no is 'Number that stands for the feed in storage.';
comment on column promo_store.feeds.operator_no is 'The operator that the feed belongs to.';
comment on column promo_store.feeds.operator_id is 'Id of that operator, kept here so that reading a verdict needs one join.';
comment on column promo_store.feeds.feed_id is 'Name of the feed: the operator''s id, or operator/feed where another feed was agreed.';

create table promo_store.connections (
  connection_no int generated always as identity primary key,
  connection_id text not null unique
);
comment on table promo_store.connections is 'Numbers of connections. A row stays when the connection leaves the reference data.';
comment on column promo_store.connections.connection_no is 'Number that stands for the connection in storage.';
comment on column promo_store.connections.connection_id is 'The connection''s id in the reference data.';

create table promo_store.brands (
  brand_no int generated always as identity primary key,
  operator_no int not null references promo_store.operators,
  brand_id text not null,
  unique (operator_no, brand_id)
);
comment on table promo_store.brands is 'Numbers of brands. A row stays when the brand leaves the reference data.';
comment on column promo_store.brands.brand_no is 'Number that stands for the brand in storage.';
comment on column promo_store.brands.operator_no is 'The operator that owns the brand.';
comment on column promo_store.brands.brand_id is 'The brand''s id in the reference data.';

create table promo_store.reference_versions (
  version int primary key,
  applied_at timestamptz not null default now(),
  document jsonb not null
);
comment on table promo_store.reference_versions is 'Every version of the reference data; the highest is in force.';
comment on column promo_store.reference_versions.version is 'Number of the version, stored with each verdict that it gave.';
comment on column promo_store.reference_versions.applied_at is 'When it was applied.';
comment on column promo_store.reference_versions.document is 'The whole document: operators, connections, brands, rules, catalogues.';

create table promo_store.currencies (
  currency_no smallint primary key,
  code text not null unique,
  scale int not null,
  unit numeric not null
);
comment on table promo_store.currencies is 'The currencies that amounts may have.';
comment on column promo_store.currencies.currency_no is 'Number that stands for the currency in storage.';
comment on column promo_store.currencies.code is 'Code of the currency, upper case.';
comment on column promo_store.currencies.scale is 'Number of decimals.';
comment on column promo_store.currencies.unit is 'One minor unit in major units: minor units times this are major units, exactly.';

insert into promo_store.currencies (currency_no, code, scale, unit)
select first_no + position - 1, code, scale, ('1e-' || scale)::numeric
from (values
  (0, 1, 'JPY'),
  (2, 100, 'USD EUR GBP CHF CAD AUD NZD PLN CZK HUF RON BGN SEK NOK DKK TRY UAH RUB BRL MXN INR ZAR'),
  (6, 200, 'USDT USDC XRP ADA TRX'),
  (8, 300, 'BTC LTC DOGE'),
  (9, 400, 'SOL'),
  (18, 500, 'DAI ETH BNB MATIC')
) as scales (scale, first_no, codes),
string_to_table(codes, ' ') with ordinality as listed (code, position);

create function promo_store.verdict_name(outcome smallint) returns text language sql immutable parallel safe as $$
  select case when outcome = 0 then 'accepted' when outcome between 1 and 19 then 'rejected' when outcome between 20 and 39 then 'skipped' end
$$;
comment on function promo_store.verdict_name is 'The verdict behind a stored outcome.';

create function promo_store.reason_name(outcome smallint) returns text language sql immutable parallel safe as $$
  select case outcome
    when 2 then 'malformed' when 3 then 'op_unknown' when 4 then 'no_player' when 5 then 'bad_amount' when 6 then 'no_brand'
    when 7 then 'brand_unexpected' when 8 then 'brand_unmapped' when 9 then 'operator_inactive' when 10 then 'panic'
    when 20 then 'currency_unknown' when 21 then 'zero_amount' when 22 then 'game_denied' when 23 then 'game_not_allowed'
    when 24 then 'below_min_bet' when 25 then 'game_unknown' when 26 then 'round_refunded' end
$$;
comment on function promo_store.reason_name is 'The reason behind a stored outcome; null for accepted.';

create function promo_store.kind_name(kind smallint) returns text language sql immutable parallel safe as $$
  select case kind when 1 then 'bet' when 2 then 'win' when 3 then 'settled' when 4 then 'refund'
    when 5 then 'deposit' when 6 then 'withdrawal' when 7 then 'login' end
$$;
comment on function promo_store.kind_name is 'The kind behind a stored number.';

create function promo_store.id_key(id text) returns bytea language sql immutable parallel safe as $$
  select case
    when id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then decode(replace(id, '-', ''), 'hex')
    when octet_length(id) < 16 then convert_to(id, 'UTF8')
    else substr(sha256(convert_to(id, 'UTF8')), 1, 20)
  end
$$;
comment on function promo_store.id_key is 'The key that stands for an event id or round id: a short id itself, the 16 bytes of a UUID, else 160 bits of its SHA-256.';

-- ---------------------------------------------------------------- where records come from

create table promo_store.partitions (
  partition_no int generated always as identity primary key,
  topic text not null,
  partition int not null,
  next_offset bigint not null default 0,
  records_read bigint not null default 0,
  accepted bigint not null default 0,
  rejected bigint not null default 0,
  skipped bigint not null default 0,
  duplicates bigint not null default 0,
  redeliveries bigint not null default 0,
  dead_letters bigint not null default 0,
  without_key bigint not null default 0,
  updated_at timestamptz not null default now(),
  unique (topic, partition)
) with (fillfactor = 20);
comment on table promo_store.partitions is 'One row for each Kafka partition: what became of its records, counted in the transaction that decided them.';
comment on column promo_store.partitions.partition_no is 'Number that stands for topic and partition in storage.';
comment on column promo_store.partitions.topic is 'Kafka topic.';
comment on column promo_store.partitions.partition is 'Kafka partition of the topic.';
comment on column promo_store.partitions.next_offset is 'One past the highest offset ever decided. A record beyond it cannot have been seen before.';
comment on column promo_store.partitions.records_read is 'Records read and answered, each reading counted.';
comment on column promo_store.partitions.accepted is 'Records that gave an accepted event.';
comment on column promo_store.partitions.rejected is 'Records that gave a rejected event that is stored.';
comment on column promo_store.partitions.skipped is 'Records that gave a skipped event.';
comment on column promo_store.partitions.duplicates is 'Records whose event was decided already by another delivery.';
comment on column promo_store.partitions.redeliveries is 'Records that were read again, after a crash or a rewind, and answered as before.';
comment on column promo_store.partitions.dead_letters is 'Records that went to the dead-letter topic.';
comment on column promo_store.partitions.without_key is 'Records without a usable event_id.';
comment on column promo_store.partitions.updated_at is 'When the last batch of the partition was decided.';

-- ---------------------------------------------------------------- events: keys forever, history by month

create table promo_store.event_keys (
  verdict_id bigint not null,
  content_hash bigint not null,
  source_offset bigint,
  feed_no int not null,
  partition_no int,
  outcome smallint not null,
  event_key bytea not null,
  primary key (feed_no, event_key)
);
comment on table promo_store.event_keys is 'Every event ever decided, once: what makes an event_id unique forever. Never dropped.';
comment on column promo_store.event_keys.verdict_id is 'The verdict in history, as long as its month is kept.';
comment on column promo_store.event_keys.content_hash is 'Hash of 53 bits of what was read of the event.';
comment on column promo_store.event_keys.source_offset is 'Kafka offset of the deciding delivery; null for a webhook.';
comment on column promo_store.event_keys.feed_no is 'Feed of the event.';
comment on column promo_store.event_keys.partition_no is 'Kafka partition of the deciding delivery; null for a webhook.';
comment on column promo_store.event_keys.outcome is 'Verdict and reason.';
comment on column promo_store.event_keys.event_key is 'Key of the event_id (see id_key).';

create sequence promo_store.batch_numbers as bigint;
comment on sequence promo_store.batch_numbers is 'Numbers of deciding batches, taken while the rounds of the batch are locked; verdict ids are made of them.';

create table promo_store.history (
  verdict_id bigint not null,
  decided_at timestamptz not null,
  occurred_at timestamptz,
  amount_minor bigint,
  round_no bigint,
  source_offset bigint,
  feed_no int not null,
  connection_no int not null,
  partition_no int,
  brand_no int,
  reference_version int not null,
  outcome smallint not null,
  kind smallint,
  currency_no smallint,
  counted boolean not null,
  event_id text collate "C" not null,
  player_ref text collate "C",
  game_id text,
  unmapped_brand text
) partition by range (decided_at);
comment on table promo_store.history is 'One row for each decided event, append-only, one partition a month (UTC) of decided_at.';
comment on column promo_store.history.verdict_id is 'Number of the verdict, ascending in the order in which events of one round were decided.';
comment on column promo_store.history.decided_at is 'When it was decided: the time at which the batch had its locks.';
comment on column promo_store.history.occurred_at is 'The event''s own time, to the microsecond; null where it was not valid.';
comment on column promo_store.history.amount_minor is 'Amount in minor units; null where not read or not valid.';
comment on column promo_store.history.round_no is 'Round of the event; null for account kinds and where round_id was not valid.';
comment on column promo_store.history.source_offset is 'Kafka offset of the deciding delivery; null for a webhook.';
comment on column promo_store.history.feed_no is 'Feed of the event.';
comment on column promo_store.history.connection_no is 'Connection that delivered it first.';
comment on column promo_store.history.partition_no is 'Kafka partition of the deciding delivery; null for a webhook.';
comment on column promo_store.history.brand_no is 'Registered brand of the event; null where there is none.';
comment on column promo_store.history.reference_version is 'Version of the reference data that decided.';
comment on column promo_store.history.outcome is 'Verdict and reason.';
comment on column promo_store.history.kind is 'Kind of the event; null where it was not one of the seven.';
comment on column promo_store.history.currency_no is 'Currency; null where not read or not known.';
comment on column promo_store.history.counted is 'Whether the event is an entry of the ledger.';
comment on column promo_store.history.event_id is 'The event''s id.';
comment on column promo_store.history.player_ref is 'The player; null where it was not valid.';
comment on column promo_store.history.game_id is 'The game; null where none was named.';
comment on column promo_store.history.unmapped_brand is 'Brand text that is not registered for the operator.';
create index history_player on promo_store.history (player_ref);
-- Rows lie in the order in which they were decided. Verdicts and rounds are numbered in that order, so BRIN
-- is enough for these columns. A B-tree on each of them costs a tenth of the throughput.
create index history_order on promo_store.history using brin (verdict_id, decided_at, occurred_at timestamptz_minmax_multi_ops,
  round_no int8_minmax_multi_ops) with (pages_per_range = 32);

create table promo_store.resends (
  received_at timestamptz not null,
  source_offset bigint,
  feed_no int not null,
  connection_no int not null,
  partition_no int,
  first_outcome smallint not null,
  content_differs boolean not null,
  event_id text not null
) partition by range (received_at);
comment on table promo_store.resends is 'One row for each delivery of an event that was decided already, one partition a month (UTC) of received_at.';
comment on column promo_store.resends.received_at is 'When the delivery was answered.';
comment on column promo_store.resends.source_offset is 'Kafka offset of the delivery; null for a webhook.';
comment on column promo_store.resends.feed_no is 'Feed of the event.';
comment on column promo_store.resends.connection_no is 'Connection that delivered it.';
comment on column promo_store.resends.partition_no is 'Kafka partition of the delivery; null for a webhook.';
comment on column promo_store.resends.first_outcome is 'Verdict and reason that the event had already.';
comment on column promo_store.resends.content_differs is 'Whether what was read differs from the delivery that decided.';
comment on column promo_store.resends.event_id is 'The event''s id.';
create index resends_source on promo_store.resends (partition_no, source_offset);
create index resends_event on promo_store.resends using hash (event_id);

create table promo_store.unstored (
  received_at timestamptz not null,
  source_offset bigint not null,
  value_hash bigint not null,
  partition_no int not null,
  connection_no int,
  dead_letter smallint
) partition by range (received_at);
comment on table promo_store.unstored is 'One row for each record that has no verdict row: no usable event_id, or sent to the dead-letter topic. Where it stands, never what it holds.';
comment on column promo_store.unstored.received_at is 'When the record was answered.';
comment on column promo_store.unstored.source_offset is 'Kafka offset of the record.';
comment on column promo_store.unstored.value_hash is 'First 64 bits of the SHA-256 of the record''s value: tells a record read again from another one at the same offset of a topic made anew.';
comment on column promo_store.unstored.partition_no is 'Kafka partition of the record.';
comment on column promo_store.unstored.connection_no is 'Connection that the record belongs to; null where none claimed it.';
comment on column promo_store.unstored.dead_letter is 'Why it went to the dead-letter topic: 1 unclaimed, 2 schema_unknown, 3 undecodable. Null: no usable event_id.';
create index unstored_source on promo_store.unstored (partition_no, source_offset);

create table promo_store.panics (
  verdict_id bigint primary key,
  decided_at timestamptz not null default now(),
  error text not null,
  payload bytea
);
comment on table promo_store.panics is 'What failed and on which payload, for each verdict rejected/panic.';
comment on column promo_store.panics.verdict_id is 'The verdict.';
comment on column promo_store.panics.decided_at is 'When it was given.';
comment on column promo_store.panics.error is 'The error of the second try.';
comment on column promo_store.panics.payload is 'The delivery''s payload, byte for byte. May hold player data.';

-- ---------------------------------------------------------------- rounds, forever

-- A quarter of each page stays free for later events of its rounds. A row that has to leave its page gets a
-- new entry in each index.
create table promo_store.rounds (
  round_no bigint not null,
  opened_at timestamptz not null default now(),
  refunded_at timestamptz,
  player_hash bigint,
  feed_no int not null,
  brand_no int,
  currency_no smallint,
  settled boolean not null default false,
  second_settled boolean not null default false,
  player_mismatch boolean not null default false,
  brand_mismatch boolean not null default false,
  round_key bytea not null,
  round_id text not null,
  refunded_by text,
  bet_minor numeric not null default 0,
  win_minor numeric not null default 0,
  settled_minor numeric not null default 0,
  below_min_bet_minor numeric not null default 0,
  other_sums jsonb,
  primary key (feed_no, round_key)
) with (fillfactor = 75);
comment on table promo_store.rounds is 'The state of each round, forever: what was counted of it, and whether it is refunded. Locked while an event of it is decided.';
comment on column promo_store.rounds.round_no is 'Number that stands for the round in history.';
comment on column promo_store.rounds.opened_at is 'When the first event of the round was decided.';
comment on column promo_store.rounds.refunded_at is 'When the round was refunded; null while it stands.';
comment on column promo_store.rounds.player_hash is 'Hash of the round and its first event''s player, to notice another player. Names nobody.';
comment on column promo_store.rounds.feed_no is 'Feed of the round.';
comment on column promo_store.rounds.brand_no is 'Brand of its first event.';
comment on column promo_store.rounds.currency_no is 'Currency of its first event that had one; the sums beside are in it.';
comment on column promo_store.rounds.settled is 'Whether a settled was accepted.';
comment on column promo_store.rounds.second_settled is 'Whether a second settled was accepted; it counted nothing.';
comment on column promo_store.rounds.player_mismatch is 'Whether events of the round name different players.';
comment on column promo_store.rounds.brand_mismatch is 'Whether events of the round name different brands.';
comment on column promo_store.rounds.round_key is 'Key of the round_id (see id_key).';
comment on column promo_store.rounds.round_id is 'The round''s id.';
comment on column promo_store.rounds.refunded_by is 'event_id of the refund that removed the round; null while it stands.';
comment on column promo_store.rounds.bet_minor is 'Sum of its counted bets, before any refund.';
comment on column promo_store.rounds.win_minor is 'Sum of its counted wins, before any refund.';
comment on column promo_store.rounds.settled_minor is 'Its counted settled, before any refund.';
comment on column promo_store.rounds.below_min_bet_minor is 'Sum of its bets that were skipped as below the minimum.';
comment on column promo_store.rounds.other_sums is 'The same four sums for every further currency, by code. Null for a round in one currency.';
create unique index rounds_no on promo_store.rounds (round_no);
create index rounds_refunded_by on promo_store.rounds using hash (refunded_by) where refunded_by is not null;
create index rounds_id on promo_store.rounds using hash (round_id);

-- ---------------------------------------------------------------- months

create function promo_store.ensure_months(months_ahead int default 2) returns int language plpgsql as $$
declare
  month date := date_trunc('month', now() at time zone 'utc');
  created int := 0;
  parent text;
  name text;
begin
  for ahead in 0 .. months_ahead loop
    foreach parent in array array['history', 'resends', 'unstored'] loop
      name := parent || '_' || to_char(month, 'YYYY_MM');
      continue when to_regclass('promo_store.' || name) is not null;
      perform pg_advisory_xact_lock(4915023772); -- workers that start together make a month once
      -- Read the catalog table: to_regclass may answer from a cache that is older than the lock.
      continue when exists (select from pg_class where relnamespace = 'promo_store'::regnamespace and relname = name);
      -- Create the table alone and attach it: writers of the parent go on, which "partition of" would not
      -- allow.
      execute format('create table promo_store.%I (like promo_store.%I including defaults including comments)', name, parent);
      execute format('comment on table promo_store.%I is %L', name, 'One month of ' || parent || '.');
      -- A BRIN index finds only summarized blocks, and a vacuum summarizes them. By default a vacuum waits
      -- for a fifth of the table.
      execute format('alter table promo_store.%I set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000)', name);
      execute format('alter table promo_store.%I attach partition promo_store.%I for values from (%L) to (%L)',
        parent, name, month::timestamp at time zone 'utc', (month + interval '1 month')::timestamp at time zone 'utc');
      created := created + 1;
    end loop;
    month := month + interval '1 month';
  end loop;
  return created;
end
$$;
comment on function promo_store.ensure_months is 'Creates the partitions of this month and the given number of months ahead; returns how many were missing.';
select promo_store.ensure_months();

-- ---------------------------------------------------------------- what people read

create view promo.verdicts as
select
  f.operator_id,
  f.feed_id,
  h.event_id,
  promo_store.verdict_name(h.outcome) as verdict,
  promo_store.reason_name(h.outcome) as reason,
  c.connection_id,
  coalesce(b.brand_id, h.unmapped_brand) as brand,
  h.player_ref,
  promo_store.kind_name(h.kind) as kind,
  r.round_id,
  h.game_id,
  h.amount_minor,
  u.code as currency,
  u.scale,
  h.amount_minor * u.unit as amount,
  h.occurred_at,
  h.decided_at,
  h.counted,
  h.verdict_id,
  h.reference_version,
  p.topic as source_topic,
  p.partition as source_partition,
  h.source_offset
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
join promo_store.connections c on c.connection_no = h.connection_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
left join promo_store.partitions p on p.partition_no = h.partition_no;
comment on view promo.verdicts is 'One row for each decided event: accepted, rejected or skipped. Duplicates are in promo.deliveries. History is kept by month; dropped months are not shown.';
comment on column promo.verdicts.operator_id is 'Operator that the event belongs to.';
comment on column promo.verdicts.feed_id is 'Feed: the space in which event_id and round_id are unique.';
comment on column promo.verdicts.event_id is 'The event''s id, unique forever in its feed. To look one up use promo.verdict_of: no index leads from here.';
comment on column promo.verdicts.verdict is 'accepted, rejected or skipped.';
comment on column promo.verdicts.reason is 'Why it was rejected or skipped; null for accepted. schemas/VERDICTS.md explains each.';
comment on column promo.verdicts.connection_id is 'Connection that delivered the event first.';
comment on column promo.verdicts.brand is 'Brand of the event, or of the connection that carries only one.';
comment on column promo.verdicts.player_ref is 'The operator''s player.';
comment on column promo.verdicts.kind is 'bet, win, settled, refund, deposit, withdrawal or login; null where it was none of them.';
comment on column promo.verdicts.round_id is 'Round of a bet, win, settled or refund.';
comment on column promo.verdicts.game_id is 'Game of the round, where the event names one.';
comment on column promo.verdicts.amount_minor is 'Amount in minor units of the currency.';
comment on column promo.verdicts.currency is 'Currency code, upper case; null where missing, not read or not in the table.';
comment on column promo.verdicts.scale is 'Decimals of the currency.';
comment on column promo.verdicts.amount is 'Amount in major units, exact.';
comment on column promo.verdicts.occurred_at is 'When it happened, by the event.';
comment on column promo.verdicts.decided_at is 'When it was decided.';
comment on column promo.verdicts.counted is 'Whether it is an entry of promo.ledger.';
comment on column promo.verdicts.verdict_id is 'Number of the verdict.';
comment on column promo.verdicts.reference_version is 'Version of the reference data that decided.';
comment on column promo.verdicts.source_topic is 'Kafka topic of the deciding delivery; null for a webhook.';
comment on column promo.verdicts.source_partition is 'Kafka partition of the deciding delivery.';
comment on column promo.verdicts.source_offset is 'Kafka offset of the deciding delivery.';

create function promo.verdict_of(feed text, event text) returns setof promo.verdicts language sql stable parallel safe as $$
  -- Compare with a value, not by a join: the planner pushes a value, but no join, into the joined tables.
  select v.* from promo.verdicts v where v.verdict_id = (
    select k.verdict_id from promo_store.event_keys k
    where k.feed_no = (select f.feed_no from promo_store.feeds f where f.feed_id = feed) and k.event_key = promo_store.id_key(event))
$$;
comment on function promo.verdict_of is 'The verdict on one event, by feed_id and event_id. Nothing where the event was never decided, or its month was dropped (see promo.events).';

create view promo.events as
select
  f.operator_id,
  f.feed_id,
  k.event_key,
  promo_store.verdict_name(k.outcome) as verdict,
  promo_store.reason_name(k.outcome) as reason,
  k.verdict_id,
  p.topic as source_topic,
  p.partition as source_partition,
  k.source_offset
from promo_store.event_keys k
join promo_store.feeds f on f.feed_no = k.feed_no
left join promo_store.partitions p on p.partition_no = k.partition_no;
comment on view promo.events is 'One row for each event ever decided, also where the month of its verdict was dropped.';
comment on column promo.events.operator_id is 'Operator that the event belongs to.';
comment on column promo.events.feed_id is 'Feed of the event.';
comment on column promo.events.event_key is 'What stands for the event_id: promo_store.id_key(event_id). Look up by feed_id and event_key.';
comment on column promo.events.verdict is 'accepted, rejected or skipped.';
comment on column promo.events.reason is 'Why it was rejected or skipped; null for accepted.';
comment on column promo.events.verdict_id is 'Its row in promo.verdicts, as long as its month is kept.';
comment on column promo.events.source_topic is 'Kafka topic of the deciding record; null for a webhook.';
comment on column promo.events.source_partition is 'Kafka partition of the deciding record.';
comment on column promo.events.source_offset is 'Offset of the deciding record.';

create view promo.ledger as
select
  h.verdict_id * 2 as entry_id,
  f.operator_id,
  f.feed_id,
  h.event_id,
  r.round_id,
  b.brand_id as brand,
  h.player_ref,
  promo_store.kind_name(h.kind) as kind,
  u.code as currency,
  u.scale,
  coalesce(h.amount_minor, 0) as amount_minor,
  coalesce(h.amount_minor * u.unit, 0) as amount,
  null::bigint as reverses_entry_id,
  h.decided_at as entered_at,
  h.verdict_id
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
union all
select
  h.verdict_id * 2 + 1,
  f.operator_id,
  f.feed_id,
  r.refunded_by,
  r.round_id,
  b.brand_id,
  h.player_ref,
  promo_store.kind_name(h.kind),
  u.code,
  u.scale,
  -h.amount_minor,
  -h.amount_minor * u.unit,
  h.verdict_id * 2,
  r.refunded_at,
  h.verdict_id
from promo_store.history h
join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted and r.refunded_by is not null;
comment on view promo.ledger is 'What counts: one entry for each counted event, and for each entry of a refunded round one reversal that names it. Derived, so that a refund costs the same whatever the round holds.';
comment on column promo.ledger.entry_id is 'Number of the entry; the same for the same entry at any time.';
comment on column promo.ledger.operator_id is 'Operator of the entry.';
comment on column promo.ledger.feed_id is 'Feed of the entry.';
comment on column promo.ledger.event_id is 'The counted event; for a reversal, the refund that caused it.';
comment on column promo.ledger.round_id is 'Round of the entry; null for account kinds.';
comment on column promo.ledger.brand is 'Brand of the entry.';
comment on column promo.ledger.player_ref is 'The operator''s player.';
comment on column promo.ledger.kind is 'Kind of the counted event; a reversal has the kind of what it reverses.';
comment on column promo.ledger.currency is 'Currency code; null for login.';
comment on column promo.ledger.scale is 'Decimals of the currency.';
comment on column promo.ledger.amount_minor is 'Amount in minor units; negative for a reversal, 0 for login.';
comment on column promo.ledger.amount is 'Amount in major units, exact.';
comment on column promo.ledger.reverses_entry_id is 'The entry that a reversal reverses; null for other entries.';
comment on column promo.ledger.entered_at is 'When the event, or the refund, was decided.';
comment on column promo.ledger.verdict_id is 'Verdict of the event whose entry this is, or is reversed here. The entries of an event: where verdict_id = (select verdict_id from promo.verdict_of(feed, event)).';

create view promo.deliveries as
select
  f.operator_id,
  f.feed_id,
  d.event_id,
  c.connection_id,
  d.received_at,
  d.content_differs,
  promo_store.verdict_name(d.first_outcome) as first_verdict,
  promo_store.reason_name(d.first_outcome) as first_reason,
  p.topic as source_topic,
  p.partition as source_partition,
  d.source_offset
from promo_store.resends d
join promo_store.feeds f on f.feed_no = d.feed_no
join promo_store.connections c on c.connection_no = d.connection_no
left join promo_store.partitions p on p.partition_no = d.partition_no;
comment on view promo.deliveries is 'One row for each duplicate: a further delivery of an event that was decided already.';
comment on column promo.deliveries.operator_id is 'Operator that the event belongs to.';
comment on column promo.deliveries.feed_id is 'Feed of the event.';
comment on column promo.deliveries.event_id is 'The event''s id.';
comment on column promo.deliveries.connection_id is 'Connection of this delivery.';
comment on column promo.deliveries.received_at is 'When this delivery was answered.';
comment on column promo.deliveries.content_differs is 'True where it is not a true resend: what was read differs from the event that was decided.';
comment on column promo.deliveries.first_verdict is 'The verdict that the event had and keeps.';
comment on column promo.deliveries.first_reason is 'The reason of that verdict.';
comment on column promo.deliveries.source_topic is 'Kafka topic of this delivery; null for a webhook.';
comment on column promo.deliveries.source_partition is 'Kafka partition of this delivery.';
comment on column promo.deliveries.source_offset is 'Kafka offset of this delivery.';

create view promo.rounds as
select
  f.operator_id,
  f.feed_id,
  r.round_id,
  r.refunded_by is not null as refunded,
  r.refunded_by,
  r.refunded_at,
  r.settled,
  b.brand_id as brand,
  s.currency,
  s.bet_minor * u.unit as counted_bet,
  s.win_minor * u.unit as counted_win,
  s.settled_minor * u.unit as counted_settled,
  s.below_min_bet_minor * u.unit as below_min_bet,
  case when r.refunded_by is null then s.bet_minor else 0 end as net_bet_minor,
  case when r.refunded_by is null then s.win_minor else 0 end as net_win_minor,
  case when r.refunded_by is null then s.settled_minor else 0 end as net_settled_minor,
  r.opened_at
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no
left join promo_store.brands b on b.brand_no = r.brand_no
left join lateral (
  select (select code from promo_store.currencies c where c.currency_no = r.currency_no) as currency,
    r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor
  union all
  select key, (value ->> 'bet')::numeric, (value ->> 'win')::numeric, (value ->> 'settled')::numeric, (value ->> 'belowMinBet')::numeric
  from jsonb_each(r.other_sums)
) s on true
left join promo_store.currencies u on u.code = s.currency;
comment on view promo.rounds is 'One row for each round and currency: what was counted of it, and what stands after a refund. Kept forever.';
comment on column promo.rounds.operator_id is 'Operator of the round.';
comment on column promo.rounds.feed_id is 'Feed of the round.';
comment on column promo.rounds.round_id is 'The round''s id, unique forever in its feed.';
comment on column promo.rounds.refunded is 'Whether the round was refunded: nothing of it counts then.';
comment on column promo.rounds.refunded_by is 'event_id of the refund.';
comment on column promo.rounds.refunded_at is 'When the refund was decided.';
comment on column promo.rounds.settled is 'Whether a settled was accepted.';
comment on column promo.rounds.brand is 'Brand of the first event of the round.';
comment on column promo.rounds.currency is 'Currency of the sums beside.';
comment on column promo.rounds.counted_bet is 'Sum of the counted bets in major units, before any refund.';
comment on column promo.rounds.counted_win is 'Sum of the counted wins in major units, before any refund.';
comment on column promo.rounds.counted_settled is 'The counted settled in major units, before any refund.';
comment on column promo.rounds.below_min_bet is 'Sum of the bets below the minimum in major units; they are not counted.';
comment on column promo.rounds.net_bet_minor is 'Bets that count now, in minor units: 0 for a refunded round.';
comment on column promo.rounds.net_win_minor is 'Wins that count now, in minor units.';
comment on column promo.rounds.net_settled_minor is 'Settled that counts now, in minor units.';
comment on column promo.rounds.opened_at is 'When the first event of the round was decided.';

create view promo.anomalies as
select f.feed_id, r.round_id, a.anomaly, f.operator_id, r.opened_at
from promo_store.rounds r
join promo_store.feeds f on f.feed_no = r.feed_no
cross join lateral (values
  ('second_settled', r.second_settled),
  ('settled_mismatch', r.settled and r.refunded_by is null and (
    r.settled_minor <> r.bet_minor + r.below_min_bet_minor
    or exists (
      select from jsonb_each(r.other_sums) o
      where (o.value ->> 'settled')::numeric <> (o.value ->> 'bet')::numeric + (o.value ->> 'belowMinBet')::numeric))),
  ('player_mismatch', r.player_mismatch),
  ('brand_mismatch', r.brand_mismatch),
  ('currency_mismatch', r.other_sums is not null)
) as a (anomaly, present)
where a.present;
comment on view promo.anomalies is 'Rounds that contradict themselves. Nothing was refused for it; the operator''s side should look.';
comment on column promo.anomalies.feed_id is 'Feed of the round.';
comment on column promo.anomalies.round_id is 'The round''s id.';
comment on column promo.anomalies.anomaly is 'second_settled: a second settled was accepted and counted nothing. settled_mismatch: settled is not the sum of the bets of a round that stands. player_mismatch, brand_mismatch, currency_mismatch: its events disagree.';
comment on column promo.anomalies.operator_id is 'Operator of the round.';
comment on column promo.anomalies.opened_at is 'When the first event of the round was decided.';

create view promo.partitions as
select
  topic,
  partition,
  next_offset,
  records_read,
  accepted + rejected + skipped as verdicts,
  accepted,
  rejected,
  skipped,
  duplicates as duplicate_deliveries,
  redeliveries,
  dead_letters,
  without_key as events_without_key,
  updated_at
from promo_store.partitions;
comment on view promo.partitions is 'The balance of each Kafka partition: records_read = verdicts + duplicate_deliveries + redeliveries + dead_letters + events_without_key.';
comment on column promo.partitions.topic is 'Kafka topic.';
comment on column promo.partitions.partition is 'Kafka partition of the topic.';
comment on column promo.partitions.next_offset is 'One past the highest offset ever decided.';
comment on column promo.partitions.records_read is 'Records read and answered, each reading counted.';
comment on column promo.partitions.verdicts is 'Records that gave a verdict row.';
comment on column promo.partitions.accepted is 'Of these, accepted.';
comment on column promo.partitions.rejected is 'Of these, rejected.';
comment on column promo.partitions.skipped is 'Of these, skipped.';
comment on column promo.partitions.duplicate_deliveries is 'Records whose event was decided already by another delivery.';
comment on column promo.partitions.redeliveries is 'Records that were read again and answered as before.';
comment on column promo.partitions.dead_letters is 'Records that went to the dead-letter topic.';
comment on column promo.partitions.events_without_key is 'Records without a usable event_id.';
comment on column promo.partitions.updated_at is 'When the last batch of the partition was decided.';

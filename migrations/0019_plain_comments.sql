-- Plain words in the comments on tables, columns, views and functions that 0001 to 0010 stored, and in an
-- error of promo.begin_operation().
--
-- Locks: waits for a manual vacuum and for an index build of the tables; workers and readers wait for
-- nothing. Time: instant. Safe while older workers run: nothing else changes.

create or replace function promo.begin_operation(operation text, request jsonb) returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  number bigint;
begin
  -- verify trusts the notes of retention. Only retention and erasures may log themselves.
  if operation not in ('replay', 'dead_letter_replay', 'reference_rollback') then
    raise exception '% cannot be logged by this function: only replay, dead_letter_replay and reference_rollback can', operation
      using errcode = 'invalid_parameter_value';
  end if;
  insert into promo_store.operations (operation, request) values (operation, request) returning operation_no into number;
  return number;
end
$$;

comment on column promo_store.operators.operator_no is 'Number of the operator in storage.';
comment on column promo_store.feeds.feed_no is 'Number of the feed in storage.';
comment on column promo_store.connections.connection_no is 'Number of the connection in storage.';
comment on column promo_store.brands.brand_no is 'Number of the brand in storage.';
comment on column promo_store.currencies.currency_no is 'Number of the currency in storage.';
comment on column promo_store.currencies.unit is 'One minor unit in major units. Minor units times this number give major units, exactly.';
comment on column promo_store.rounds.round_no is 'Number of the round in history.';
comment on function promo_store.id_key is 'The key of an event id or round id: a short id itself, the 16 bytes of a UUID, or 160 bits of its SHA-256.';
comment on table promo_store.event_keys is 'Every event ever decided, once. Its primary key makes an event_id unique forever. Never dropped.';
comment on sequence promo_store.batch_numbers is 'Numbers of deciding batches, taken while the rounds of the batch are locked. Verdict ids are derived from them.';
comment on column promo_store.resends.content_differs is 'Whether the content differs from that of the deciding delivery.';
comment on table promo_store.unstored is 'One row for each record that has no verdict row: no usable event_id, or sent to the dead-letter topic. It has the position of the record, never its content.';
comment on column promo_store.unstored.value_hash is 'First 64 bits of the SHA-256 of the record''s value. It distinguishes a redelivered record from another record at the same offset of a recreated topic.';
comment on table promo_store.rounds is 'The state of each round, forever: its counted sums, and whether it is refunded. Locked while an event of the round is decided.';
comment on column promo_store.rounds.refunded_by is 'event_id of the refund that removed the round; null where the round is not refunded.';
comment on column promo_store.rounds.refunded_at is 'When the round was refunded; null where it is not.';
comment on column promo_store.rounds.currency_no is 'Currency of its first event that had one. The sums of this row are in it.';
comment on table promo_store.panics is 'The error and the payload of each verdict rejected/panic.';
comment on column promo.reference_versions.version is 'Number of the version, stored with each verdict that it gave.';
comment on column promo.events.event_key is 'Key of the event_id: promo_store.id_key(event_id). Look up by feed_id and event_key.';
comment on view promo.rounds is 'One row for each round and currency: its counted sums, and the sums that remain after a refund. Kept forever. A round that only rejected events named has a row, too, without a brand and with nothing counted.';
comment on column promo.rounds.settled is 'Whether a settled was accepted. False also where the settled was skipped, as one of zero is.';
comment on column promo.rounds.currency is 'Currency of the sums of this row; null where no event had one. A round of several currencies has a row for each: count (feed_id, round_id), each once.';
comment on view promo.anomalies is 'Rounds that contradict themselves. No event was refused for it; the operator should check them.';
comment on column promo.anomalies.anomaly is 'second_settled: a second settled was accepted and counted nothing. settled_mismatch: the settled is not the sum of the bets, and the round is not refunded. Where the settled came before a bet, this lasts until that bet comes. player_mismatch, brand_mismatch, currency_mismatch: events of the round disagree.';
comment on column promo.deliveries.content_differs is 'Whether the content differs from that of the decided event. If it does, this delivery is no true resend.';
comment on column promo.verdicts.occurred_at is 'Time of the event, as the event states it.';
comment on column promo.ledger.kind is 'Kind of the counted event; for a reversal, the kind of the reversed entry.';
comment on column promo.ledger.verdict_id is 'Verdict of the event of this entry; for a reversal, of the reversed event. The entries of an event: where verdict_id = (select promo.verdict_id_of(feed, event)).';
comment on column promo_store.operations.operation is 'Kind of the operation: retention, erasure, replay, dead_letter_replay or reference_rollback.';
comment on column promo.operations.operation is 'Kind of the operation: retention, erasure, replay, dead_letter_replay or reference_rollback.';
comment on column promo_store.operations.ended_at is 'When it ended; null while it runs, and where it was interrupted.';
comment on column promo.operations.ended_at is 'When it ended; null while it runs, and where it was interrupted.';
comment on column promo_store.operations.request is 'The request: a range, a month, an operator. Never a player.';
comment on column promo.operations.request is 'The request: a range, a month, an operator. Never a player.';
comment on column promo_store.operations.requested_by is 'Name that the caller gave: the setting promo.requested_by of the session.';
comment on column promo.operations.requested_by is 'Name that the caller gave.';
comment on column promo_store.operations.outcome is 'Counts of the result, by name.';
comment on column promo.operations.outcome is 'Counts of the result, by name.';
comment on function promo.begin_operation is 'Adds a replay, a dead_letter_replay or a reference_rollback to the log, and returns its number.';
comment on function promo.end_operation is 'Records the end and the result of an operation. Only the role that began it may call this, and once.';
comment on function promo.drop_months_before is 'Drops the history, resends and unstored records of all months before that of the given date, and returns the dropped tables. Keys, rounds and counters stay. It gives up where it would wait for more than 3 s.';
comment on function promo_store.kept_from is 'The time since which a table by month has all its rows (-infinity: always), and whether dropped_rows counts all older rows.';
comment on function promo_store.key_text is 'An id, as far as its key contains it: a short id (non-ASCII escaped), a UUID, or the hexadecimal digits of its digest.';
comment on function promo_store.month_tables is 'The tables of months that exist.';
comment on function promo_store.sample_little is 'Makes an analyze sample 900 rows of a table, instead of 30,000.';
comment on table promo_store.months is 'The tables of months. Rows that were decided before a month had a table are not in it.';
comment on column promo_store.months.made_at is 'When its table was last created.';
comment on column promo_store.months.dropped_at is 'When promo.drop_months_before dropped it; null where the table exists, or was dropped by other means.';
comment on function promo.erase_player is 'Replaces the player of an operator by erased:N in history, and removes all else by which the player could be found. A call changes at most the given number of rows. N is the number of the erasure: pass it again until is_done.';
comment on column promo_store.partitions.decided_up_to is 'One past the last decided offset of the current log, where it is less than next_offset: the topic was recreated, or its log was truncated. Null otherwise.';
comment on column promo.partitions.decided_up_to is 'One past the last decided offset of the current log. It differs from next_offset only where the topic was recreated or its log was truncated.';

-- promo.check_invariants() compares sums of hashes first, and searches for the damage itself only where they
-- differ. promo.check_month() checks one month. The comments of promo.verdicts and promo.ledger list the fast
-- form of each slow query. promo.newest_since() reads the newest rows once. Before, it read them up to 8
-- times.
--
-- Locks: replaces a function and comments, and waits for nobody. A check that runs meanwhile ends with the
-- old function. Time: instant. Safe while older workers run: they do not use these functions.
--
-- Not done: an index that makes order by decided_at or event_id = ... fast. A B-tree of decided_at costs 0.9
-- microseconds of CPU and 65 bytes of WAL an event. That is 5 % of all CPU of worker and Postgres, and 13 %
-- of the WAL. An index of event_id or round_no costs more.

create function promo_store.find_damages(of_month date)
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
-- Stable: every statement in it sees the snapshot of the calling statement, so workers may go on meanwhile.
language plpgsql stable set search_path = pg_catalog, pg_temp
-- Read everything once and join by hashes. Statistics of a growing table may be old, and a nested loop over
-- millions of rows would not end.
set enable_nestloop = off
set jit = off
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  most constant int := 100;
  kept_history constant timestamptz := (select since from promo_store.kept_from('history'));
  all_duplicates constant boolean := (select all_counted from promo_store.kept_from('resends'));
  all_unstored constant boolean := (select all_counted from promo_store.kept_from('unstored'));
  month_begins constant timestamptz := of_month::timestamp at time zone 'utc';
  month_ends constant timestamptz := (of_month + interval '1 month') at time zone 'utc';
  last_dropped bigint := 0;
  -- The range of numbers of the verdicts and rounds to check, and the range of time of these verdicts.
  first_id bigint := -9223372036854775808;
  last_id bigint := 9223372036854775807;
  from_time timestamptz := '-infinity';
  to_time timestamptz := 'infinity';
  first_round bigint;
  last_round bigint;
  -- Counts and sums of hashes. Equal sums mean equal sets of rows, but for a chance of one in billions.
  verdicts numeric[];
  keys jsonb;
  rounds numeric[];
  entries numeric[];
  has_doubled boolean;
  doubled int[] := '{}';
  -- A hash of the number divides rows into 256 buckets. Only buckets whose contents differ are joined.
  bad int[] := '{}';
  -- The sums of rounds take memory or disk. One pass for each 2 GB of history limits both.
  passes constant int := 1 + (select coalesce(sum(pg_relation_size(i.inhrelid)), 0) / 2147483648
    from pg_inherits i where i.inhparent = 'promo_store.history'::regclass);
  found promo_store.damaged_round[] := '{}';
  found_now promo_store.damaged_round[];
  found_in_all bigint := 0;
  damages_now bigint;
begin
  -- The highest verdict_id whose month may have been dropped. Keys have no time. A number and its time are
  -- taken at nearly the same moment, so they agree to the minute.
  if kept_history > '-infinity' then
    last_dropped := (select coalesce(max(verdict_id) filter (where decided_at < kept_history + interval '1 minute'), min(verdict_id) - 1, 9223372036854775807)
      from promo_store.history);
  end if;
  if of_month is not null then
    -- A future month has no verdicts. Where all months were dropped and history is empty, nothing is kept.
    if month_begins > now() or last_dropped = 9223372036854775807 then
      return;
    end if;
    from_time := month_begins - interval '1 day';
    to_time := month_ends + interval '1 day';
    -- The range reaches to the nearest numbers of other months, so that a lost first or last verdict of the
    -- month is noticed, too. The second query of each pair reads whole months. It runs where the day beside
    -- the month has no verdict.
    first_id := greatest(last_dropped + 1, coalesce(
      (select max(verdict_id) + 1 from promo_store.history where decided_at >= from_time and decided_at < month_begins),
      (select max(verdict_id) + 1 from promo_store.history where decided_at < month_begins)));
    last_id := coalesce(
      (select min(verdict_id) - 1 from promo_store.history where decided_at >= month_ends and decided_at < to_time),
      (select min(verdict_id) - 1 from promo_store.history where decided_at >= month_ends),
      last_id);
    -- Batches that commit around midnight have numbers out of order.
    first_id := least(first_id, (select min(verdict_id) from promo_store.history where decided_at >= month_begins and decided_at < month_begins + interval '1 day'));
    last_id := greatest(last_id, (select max(verdict_id) from promo_store.history where decided_at >= month_ends - interval '1 day' and decided_at < month_ends));
  end if;

  raise notice 'reading history and rounds (step 1 of 4)';
  -- Use execute: Postgres gives no parallel workers to an assignment or a select into.
  execute $sums$
    select array[
      count(*) filter (where in_ids),
      coalesce(sum(id_hash) filter (where in_ids), 0),
      count(*) filter (where round_no is not null and rounds_feed is distinct from feed_no
        or kind = 4 and outcome = 0 and refunded_by is null
        or counted and (outcome <> 0 or kind is null or kind = 4 or (kind <= 4) <> (round_no is not null) or (kind = 7) <> (amount_minor is null))),
      coalesce(sum(hashint8extended(round_no, 3)) filter (where kind = 3 and counted and in_rounds), 0),
      coalesce(sum(hashint8extended(round_no, 4)) filter (where kind = 4 and outcome = 0 and refunded_by = event_id and in_rounds), 0),
      -- Amounts of up to 31 bits are multiplied as integers, which is faster.
      coalesce(sum(amount_minor * weight) filter (where in_rounds and is_summed and amount_minor between -2147483647 and 2147483647), 0)
        + coalesce(sum(amount_minor::numeric * weight) filter (where in_rounds and is_summed and amount_minor not between -2147483647 and 2147483647), 0),
      count(*) filter (where is_entry) + count(*) filter (where is_entry and refunded_by is not null),
      coalesce(sum(hashint8extended(coalesce(amount_minor, 0), verdict_id)) filter (where is_entry), 0)
        + coalesce(sum(hashint8extended(-amount_minor, -2 * verdict_id)) filter (where is_entry and refunded_by is not null), 0)
    ]
    from (
      select h.verdict_id, h.round_no, h.feed_no, h.kind, h.outcome, h.counted, h.amount_minor, h.event_id, r.feed_no as rounds_feed, r.refunded_by collate "C" as refunded_by,
        h.verdict_id > $1 and h.verdict_id between $2 and $3 and h.decided_at < $5 as in_ids,
        h.counted and h.verdict_id between $2 and $3 and h.decided_at < $5 as is_entry,
        h.round_no > $1 and h.round_no between $2 and $3 as in_rounds,
        h.outcome = 24 or h.counted as is_summed,
        hashint8extended(h.round_no, (case when h.outcome = 24 then 5 else h.kind end::bigint << 16) # coalesce(h.currency_no, 0)) & 2147483647 as weight,
        hashtextextended(case
        when octet_length(h.event_id) = 36 and h.event_id like '________-____-____-____-____________' and h.event_id = lower(h.event_id)
          then replace(h.event_id, '-', '')
        when octet_length(h.event_id) < 16 then encode(convert_to(h.event_id, 'UTF8'), 'hex')
        else encode(substr(sha256(convert_to(h.event_id, 'UTF8')), 1, 20), 'hex')
      end, h.verdict_id # hashint8extended(coalesce(h.source_offset, -1), (h.feed_no::bigint << 32) # (h.outcome::bigint << 24) # coalesce(h.partition_no, -1))) as id_hash
      from promo_store.history h left join promo_store.rounds r on r.round_no = h.round_no
      where h.decided_at >= $4
    ) h
  $sums$ into verdicts using last_dropped, first_id, last_id, from_time, to_time;

  raise notice 'reading keys of events (step 2 of 4)';
  execute $sums$
    select coalesce(jsonb_agg(k), '[]') from (
      select partition_no, count(*) filter (where outcome = 0) as accepted, count(*) filter (where outcome between 1 and 19) as rejected,
        count(*) filter (where outcome >= 20) as skipped, max(source_offset) as last_offset,
        count(*) filter (where verdict_id > $1) as rows,
        coalesce(sum(hashtextextended(encode(event_key, 'hex'), verdict_id # hashint8extended(coalesce(source_offset, -1),
          (feed_no::bigint << 32) # (outcome::bigint << 24) # coalesce(partition_no, -1)))) filter (where verdict_id > $1), 0) as hashes
      from promo_store.event_keys where verdict_id between $2 and $3 group by partition_no
    ) k
  $sums$ into keys using last_dropped, first_id, last_id, from_time, to_time;
  -- Where two events share a number in all tables, no comparison of tables finds it. So 32 consecutive
  -- numbers set one bit each, and a bit that is set twice is a shared number.
  execute $sums$
    select exists (
      select from promo_store.history where verdict_id between $2 and $3
      group by verdict_id >> 5 having bit_count(bit_or(1::bigint << (verdict_id & 31)::int)::bit(64)) <> count(*)
    )
  $sums$ into has_doubled using last_dropped, first_id, last_id, from_time, to_time;
  if has_doubled then
    doubled := (select coalesce(array_agg(distinct hashint8(verdict_id) & 255), '{}')
      from (select verdict_id from promo_store.history where verdict_id between first_id and last_id group by verdict_id having count(*) > 1) d);
  end if;
  if doubled <> '{}' or kept_history > '-infinity' and of_month is null
    or verdicts[1:2] <> (select array[coalesce(sum(rows), 0), coalesce(sum(hashes), 0)] from jsonb_to_recordset(keys) as k (rows numeric, hashes numeric)) then
    -- I1. Two buckets have equal contents where their counts and sums of hashes are equal.
    select coalesce(array_agg(bucket), '{}') into bad from (
      select bucket from (
        select hashint8(verdict_id) & 255 as bucket, count(*) as rows, sum(hash_record_extended(row(verdict_id, feed_no, outcome, partition_no, source_offset,
          -- The same as promo_store.id_key without matching the pattern of a UUID, which takes longer than
          -- all the rest. An id that only looks like a UUID makes its bucket differ, and the bucket is
          -- joined.
          case
            when octet_length(event_id) < 16 then convert_to(event_id, 'UTF8')
            when event_id like '________-____-____-____-____________' and event_id = lower(event_id) then convert_to(replace(event_id, '-', ''), 'UTF8')
            else substr(sha256(convert_to(event_id, 'UTF8')), 1, 20)
          end), 0)) as hashes
        from promo_store.history where decided_at >= from_time and decided_at < to_time and verdict_id > last_dropped and verdict_id between first_id and last_id group by 1
        union all
        select hashint8(verdict_id) & 255, -count(*), -sum(hash_record_extended(row(verdict_id, feed_no, outcome, partition_no, source_offset,
          case when octet_length(event_key) = 16 then convert_to(encode(event_key, 'hex'), 'UTF8') else event_key end), 0))
        from promo_store.event_keys where verdict_id > last_dropped and verdict_id between first_id and last_id group by 1
      ) as sides group by bucket having sum(rows) <> 0 or sum(hashes) <> 0
    ) as different;
    bad := bad || doubled;

    return query
    with kept as (
      select coalesce(min(verdict_id), 0) as first from promo_store.history
    ),
    damages as (
      select *, count(*) over () as in_all
      from (
        select verdict_id, coalesce(h.feed_no, k.feed_no) as feed_no, h.event_id, k.event_key, 1 as verdicts
        from (
          select * from promo_store.history where decided_at >= from_time and decided_at < to_time and verdict_id between first_id and last_id
            and (hashint8(verdict_id) & 255 = any(bad) or verdict_id <= last_dropped)
        ) h
        full join (
          select * from promo_store.event_keys
          where verdict_id between first_id and last_id and case when verdict_id > last_dropped then hashint8(verdict_id) & 255 = any(bad) else verdict_id >= (select first from kept) end
        ) k using (verdict_id)
        where case
          when h.verdict_id is null then verdict_id > last_dropped
          when k.verdict_id is null then true
          else h.feed_no <> k.feed_no or h.outcome <> k.outcome
            or h.partition_no is distinct from k.partition_no or h.source_offset is distinct from k.source_offset
            -- The same as promo_store.id_key, computed from the key: matching the pattern of a UUID takes
            -- longer than all the rest.
            or not case octet_length(k.event_key)
              when 16 then h.event_id = encode(k.event_key, 'hex')::uuid::text
              when 20 then k.event_key = substr(sha256(convert_to(h.event_id, 'UTF8')), 1, 20)
              else k.event_key = convert_to(h.event_id, 'UTF8')
            end
        end
        union all
        select verdict_id, min(feed_no), min(event_id), null, count(*) from promo_store.history
        where verdict_id between first_id and last_id and hashint8(verdict_id) & 255 = any(doubled) group by verdict_id having count(*) > 1
      ) as d
      order by verdict_id limit most
    )
    select 'I1',
      case
        when verdicts > 1 then format('%s verdicts have the verdict_id %s', verdicts, verdict_id)
        when event_id is null then format('the event is decided (verdict_id %s) and has no verdict, though its month was not dropped', verdict_id)
        when event_key is not null then format('key and verdict (verdict_id %s) of the event disagree on id, outcome or source', verdict_id)
        when exists (select from promo_store.event_keys k where k.feed_no = d.feed_no and k.event_key = promo_store.id_key(d.event_id))
          then format('the event has a verdict (verdict_id %s) other than that of its key', verdict_id)
        else format('the event has a verdict (verdict_id %s) and no key: it could be decided again', verdict_id)
      end,
      f.feed_id, coalesce(event_id, promo_store.key_text(event_key)), null::text, null::text, in_all
    from damages d left join promo_store.feeds f using (feed_no);
  end if;

  if of_month is null then
    return query
    with counted_rows as materialized (
      select partition_no, sum(accepted) as accepted, sum(rejected) as rejected, sum(skipped) as skipped, sum(duplicates) as duplicates,
        sum(dead_letters) as dead_letters, sum(without_key) as without_key, max(last_offset) as last_offset
      from (
        select partition_no, accepted, rejected, skipped, 0, 0, 0, last_offset
        from jsonb_to_recordset(keys) as k (partition_no int, accepted bigint, rejected bigint, skipped bigint, last_offset bigint) where partition_no is not null
        union all
        select partition_no, 0, 0, 0, count(*), 0, 0, max(source_offset) from promo_store.resends where partition_no is not null group by partition_no
        union all
        select partition_no, 0, 0, 0, 0, count(dead_letter), count(*) - count(dead_letter), max(source_offset) from promo_store.unstored group by partition_no
        union all
        select partition_no, 0, 0, 0, duplicates, dead_letters, without_key, null from promo_store.dropped_rows
      ) as seen (partition_no, accepted, rejected, skipped, duplicates, dead_letters, without_key, last_offset)
      group by partition_no
    ),
    compared as (
      select p.topic || '/' || p.partition as source, p.partition_no, p.records_read, p.next_offset, coalesce(c.last_offset, -1) as last_offset,
        p.accepted + p.rejected + p.skipped + p.duplicates + p.redeliveries + p.dead_letters + p.without_key as became,
        n.name, n.counter, coalesce(n.found, 0) as found, n.all_there
      from promo_store.partitions p
      left join counted_rows c using (partition_no)
      cross join lateral (values
        ('accepted events', p.accepted, c.accepted, true),
        ('rejected events', p.rejected, c.rejected, true),
        ('skipped events', p.skipped, c.skipped, true),
        ('duplicate deliveries', p.duplicates, c.duplicates, all_duplicates),
        ('dead letters', p.dead_letters, c.dead_letters, all_unstored),
        ('events without key', p.without_key, c.without_key, all_unstored)
      ) as n (name, counter, found, all_there)
    ),
    damages as (
      select distinct 'I2' as invariant, format('next_offset is %s, but the record at offset %s is decided', next_offset, last_offset) as what, source
      from compared where last_offset >= next_offset
      union all
      select distinct 'I5', format('%s records were read, but the counters of their results add up to %s', records_read, became), source
      from compared where records_read <> became
      union all
      select 'I5', format('%s %s are counted, but there are rows of %s%s', counter, name, found, case when all_there then '' else ' and of dropped months' end), source
      from compared where counter <> found and (all_there or counter < found)
      union all
      select 'I5', format('%s rows have the partition number %s, but no partition has this number',
        accepted + rejected + skipped + duplicates + dead_letters + without_key, partition_no), null
      from counted_rows where partition_no not in (select partition_no from promo_store.partitions)
    )
    select invariant, what, null::text, null::text, null::text, source, count(*) over (partition by invariant)
    from damages order by invariant, source, what limit most;
  end if;

  raise notice 'reading rounds (step 3 of 4)';
  execute $sums$
    select array[
      count(*) filter (where (refunded_by is null) <> (refunded_at is null)),
      coalesce(sum(hashint8extended(round_no, 3)) filter (where settled and round_no > $1), 0),
      coalesce(sum(hashint8extended(round_no, 4)) filter (where refunded_by is not null and round_no > $1), 0),
      coalesce(sum(bet_minor * (hashint8extended(round_no, (1::bigint << 16) # currency_no) & 2147483647) + case when win_minor = 0 then 0 else win_minor * (hashint8extended(round_no, (2::bigint << 16) # currency_no) & 2147483647) end
        + case when settled_minor = 0 then 0 else settled_minor * (hashint8extended(round_no, (3::bigint << 16) # currency_no) & 2147483647) end
        + case when below_min_bet_minor = 0 then 0 else below_min_bet_minor * (hashint8extended(round_no, (5::bigint << 16) # currency_no) & 2147483647) end)
        filter (where currency_no is not null and round_no > $1), 0)
    ]
    from promo_store.rounds where round_no between $2 and $3
  $sums$ into rounds using last_dropped, first_id, last_id, from_time, to_time;
  rounds[4] := rounds[4] + (
    select coalesce(sum((o.value ->> 'bet')::numeric * (hashint8extended(round_no, (1::bigint << 16) # u.currency_no) & 2147483647) + (o.value ->> 'win')::numeric * (hashint8extended(round_no, (2::bigint << 16) # u.currency_no) & 2147483647)
      + (o.value ->> 'settled')::numeric * (hashint8extended(round_no, (3::bigint << 16) # u.currency_no) & 2147483647) + (o.value ->> 'belowMinBet')::numeric * (hashint8extended(round_no, (5::bigint << 16) # u.currency_no) & 2147483647)), 0)
    from promo_store.rounds r cross join lateral jsonb_each(r.other_sums) o join promo_store.currencies u on u.code = o.key
    where r.other_sums is not null and r.round_no > last_dropped and r.round_no between first_id and last_id
  );
  if verdicts[3] > 0 or rounds[1] > 0 or verdicts[4:6] <> rounds[2:4] then
    first_round := first_id;
    last_round := last_id;
  elsif kept_history > '-infinity' and of_month is null then
    -- Some events of these rounds may be dropped, so only an exact comparison decides.
    first_round := first_id;
    last_round := last_dropped;
  end if;
  if first_round is not null then
    for pass in 0 .. passes - 1 loop
    with history as (
      select round_no, coalesce(currency_no, 0::smallint) as currency_no,
        coalesce(sum(amount_minor) filter (where kind = 1 and counted), 0) as bet,
        coalesce(sum(amount_minor) filter (where kind = 2 and counted), 0) as win,
        coalesce(sum(amount_minor) filter (where kind = 3 and counted), 0) as settled,
        coalesce(sum(amount_minor) filter (where outcome = 24), 0) as below_min_bet,
        count(*) filter (where kind = 3 and counted) as counted_settled,
        count(*) filter (where kind = 4 and outcome = 0) as refunds,
        min(feed_no) as first_feed, max(feed_no) as last_feed
      from promo_store.history where decided_at >= from_time and round_no between first_round and last_round and (hashint8(round_no) & 2147483647) % passes = pass
      group by round_no, currency_no
    ),
    states as (
      select round_no, currency_no, bet_minor, win_minor, settled_minor, below_min_bet_minor from promo_store.rounds
      where currency_no is not null and round_no between first_round and last_round and (hashint8(round_no) & 2147483647) % passes = pass
      union all
      select r.round_no, u.currency_no, (o.value ->> 'bet')::numeric, (o.value ->> 'win')::numeric, (o.value ->> 'settled')::numeric,
        (o.value ->> 'belowMinBet')::numeric
      from promo_store.rounds r cross join lateral jsonb_each(r.other_sums) o join promo_store.currencies u on u.code = o.key
      where r.other_sums is not null and r.round_no between first_round and last_round and (hashint8(r.round_no) & 2147483647) % passes = pass
    ),
    sums as (
      select round_no, currency_no,
        sum(bet * sign) as bet, sum(win * sign) as win, sum(settled * sign) as settled, sum(below_min_bet * sign) as below_min_bet,
        sum(counted_settled) as counted_settled, sum(refunds) as refunds, min(first_feed) as first_feed, max(last_feed) as last_feed
      from (
        select 1 as sign, h.* from history h
        union all
        select -1, s.*, 0, 0, null, null from states s
      ) as both_sides
      group by round_no, currency_no
    ),
    rounds as (
      -- A round may be older than the kept history. Then events may be missing, and the round's sums may only
      -- be higher than those of its events.
      select round_no,
        sum(counted_settled) as counted_settled, sum(refunds) as refunds, min(first_feed) as first_feed, max(last_feed) as last_feed,
        bool_or(bet <> 0 or win <> 0 or settled <> 0 or below_min_bet <> 0) as differs,
        bool_or(bet > 0 or win > 0 or settled > 0 or below_min_bet > 0) as exceeds,
        min(format('bet %s, win %s, settled %s, below the minimum %s', bet, win, settled, below_min_bet))
          filter (where bet <> 0 or win <> 0 or settled <> 0 or below_min_bet <> 0) as difference
      from sums group by round_no
    ),
    refunds as (
      select r.round_no, k.event_key is not null as is_accepted
      from promo_store.rounds r
      left join promo_store.event_keys k on k.feed_no = r.feed_no and k.event_key = promo_store.id_key(r.refunded_by) and k.outcome = 0
      where r.refunded_by is not null and r.round_no between first_round and last_round and (hashint8(r.round_no) & 2147483647) % passes = pass
    ),
    damages as (
      select round_no, r.feed_no, r.round_id, unnest(array_remove(array[
        case when r.round_no is null then format('events of the round number %s are stored, but no such round', round_no) end,
        case when e.first_feed <> r.feed_no or e.last_feed <> r.feed_no then 'events of another feed are stored with the round' end,
        case when e.counted_settled > 1 then format('%s settled of the round are counted', e.counted_settled) end,
        case when e.counted_settled > 0 and not r.settled then 'a settled is counted, but the round is not marked as settled' end,
        case when e.refunds > 0 and r.refunded_by is null then 'a refund of the round is accepted, but the round is not refunded: its sum is not 0' end,
        case when not a.is_accepted or r.refunded_by is not null and r.opened_at >= kept_history and coalesce(e.refunds, 0) = 0
          then format('the round is refunded by %s, which is no accepted refund of it: its sum is 0', r.refunded_by) end,
        case when (r.refunded_by is null) <> (r.refunded_at is null) then 'the round has only one of refunded_by and refunded_at' end,
        case when r.round_no is not null and case when r.opened_at >= kept_history then e.differs else e.exceeds end
          then format('the sums of its counted events and of the round differ, in minor units of a currency, by %s', e.difference) end
      ], null)) as what
      from rounds e
      full join (select * from promo_store.rounds where round_no between first_round and last_round and (hashint8(round_no) & 2147483647) % passes = pass) r using (round_no) left join refunds a using (round_no)
    )
    select coalesce(array_agg(row(round_no, what, feed_no, round_id)::promo_store.damaged_round order by round_no, what) filter (where place <= most), '{}'), count(*)
    into found_now, damages_now
    from (select *, row_number() over (order by round_no, what) as place from damages) d;
    found := found || found_now;
    found_in_all := found_in_all + damages_now;
    end loop;
    return query select 'I3', d.what, f.feed_id, null::text, d.round_id, null::text, found_in_all
    from unnest(found) d left join promo_store.feeds f using (feed_no)
    order by d.round_no, d.what limit most;
  end if;

  raise notice 'reading promo.ledger (step 4 of 4)';
  execute $sums$
    select array[count(*), coalesce(sum(hashint8extended(amount_minor, coalesce(-reverses_entry_id, verdict_id))), 0)]
    from promo.ledger where decided_at >= $4 and decided_at < $5 and verdict_id between $2 and $3
  $sums$ into entries using last_dropped, first_id, last_id, from_time, to_time;
  if verdicts[3] > 0 or doubled <> '{}' or verdicts[7:8] <> entries then
    -- I4. The expected entries and the entries of the view, with the events that should have none.
    select coalesce(array_agg(bucket), '{}') into bad from (
      select bucket from (
        select hashint8(verdict_id) & 255 as bucket, count(*) as rows, sum(hash_record_extended(row(verdict_id, reverses_entry_id, amount_minor), 0)) as hashes
        from promo.ledger where decided_at >= from_time and decided_at < to_time and verdict_id between first_id and last_id group by 1
        union all
        select hashint8(verdict_id) & 255, -count(*), -sum(hash_record_extended(row(verdict_id, null::bigint, coalesce(amount_minor, 0)), 0))
        from promo_store.history where decided_at >= from_time and decided_at < to_time and verdict_id between first_id and last_id and counted group by 1
        union all
        select hashint8(h.verdict_id) & 255, -count(*), -sum(hash_record_extended(row(h.verdict_id, h.verdict_id * 2, -h.amount_minor), 0))
        from promo_store.history h join promo_store.rounds r using (round_no) where h.decided_at >= from_time and h.decided_at < to_time and h.verdict_id between first_id and last_id and h.counted and r.refunded_by is not null group by 1
      ) as sides group by bucket having sum(rows) <> 0 or sum(hashes) <> 0
      union
      select hashint8(h.verdict_id) & 255 from promo_store.history h
      where h.decided_at >= from_time and h.decided_at < to_time and h.verdict_id between first_id and last_id and h.counted and (h.outcome <> 0 or h.kind is null or h.kind = 4 or (h.kind <= 4) <> (h.round_no is not null) or (h.kind = 7) <> (h.amount_minor is null))
      union
      select hashint8(h.verdict_id) & 255 from promo_store.history h
      where h.decided_at >= from_time and h.decided_at < to_time and h.verdict_id between first_id and last_id and h.counted and h.round_no is not null and not exists (select from promo_store.rounds r where r.round_no = h.round_no)
    ) as different;
    bad := bad || doubled;

    return query
    with entries as (
      select verdict_id, count(*) filter (where reverses_entry_id is null) as entries, count(reverses_entry_id) as reversals,
        count(*) filter (where reverses_entry_id <> verdict_id * 2) as misnamed, sum(amount_minor) as amount_minor
      from promo.ledger where decided_at >= from_time and decided_at < to_time and verdict_id between first_id and last_id and hashint8(verdict_id) & 255 = any(bad) group by verdict_id
    ),
    verdicts as (
      select h.verdict_id, h.feed_no, h.event_id, h.counted, h.outcome, h.kind, h.amount_minor, r.round_id, r.refunded_by is not null as refunded
      from promo_store.history h left join promo_store.rounds r using (round_no)
      where h.decided_at >= from_time and h.decided_at < to_time and h.verdict_id between first_id and last_id and hashint8(h.verdict_id) & 255 = any(bad)
    ),
    damages as (
      select distinct verdict_id, v.feed_no, v.event_id, v.round_id, unnest(array_remove(array[
        case when v.verdict_id is null then format('an entry has no verdict (verdict_id %s)', verdict_id) end,
        case when v.counted and v.outcome <> 0 then 'the event has an entry, but is not accepted' end,
        case when v.counted and (v.kind is null or v.kind = 4) then 'the event has an entry, but is a refund or of no known kind' end,
        case when v.counted and (v.kind <= 4) <> (v.round_id is not null) then 'the entry has no round, or is of an account kind and has one' end,
        case when v.counted and (v.kind = 7) <> (v.amount_minor is null) then 'the entry has no amount, or is of a login and has one' end,
        case when coalesce(e.entries, 0) <> v.counted::int then format('the event has %s entries', coalesce(e.entries, 0)) end,
        case when coalesce(e.reversals, 0) <> (v.counted and v.refunded)::int or e.misnamed > 0
          then format('the entry has %s reversals, but should have %s', coalesce(e.reversals, 0), (v.counted and v.refunded)::int) end,
        case when v.refunded and e.reversals = 1 and e.amount_minor <> 0 then format('entry and reversal add up to %s, not to 0', e.amount_minor) end
      ], null)) as what
      from verdicts v full join entries e using (verdict_id)
    )
    select 'I4', what, f.feed_id, d.event_id, d.round_id, null::text, count(*) over ()
    from damages d left join promo_store.feeds f using (feed_no)
    order by verdict_id, what limit most;
  end if;
end
$$;
comment on function promo_store.find_damages is 'The damages of everything stored (null), or of the month of the given date. See promo.check_invariants and promo.check_month.';
revoke execute on function promo_store.find_damages from public;

create or replace function promo.check_invariants()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  return query select * from promo_store.find_damages(null);
end
$$;
comment on function promo.check_invariants is 'The damages of everything stored: a row for each, at most 100 of an invariant, and none where everything is sound. Reads everything, and raises a notice for each of its four steps. May run beside workers, and on a replica. For one month: promo.check_month.';

create function promo.check_month(month date)
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  of_month constant date := date_trunc('month', $1);
begin
  if not exists (select from promo_store.month_tables() t where t.parent = 'history' and t.month = of_month) then
    raise exception 'no history of the month % is stored', to_char(of_month, 'YYYY-MM')
      using errcode = 'invalid_parameter_value', hint = 'A month has history from its first day until it is dropped: see promo.retention_plan.';
  end if;
  return query select * from promo_store.find_damages(of_month);
end
$$;
comment on function promo.check_month is 'The damages of one month (UTC). It checks I1, I3 and I4 of promo.check_invariants for the events decided and the rounds opened in the month of the date. It reads the history of the month, later history of these rounds, all rounds and all keys. The counters (I2 and I5) belong to no month: only promo.check_invariants compares them.';
revoke execute on function promo.check_month from public;

-- ---------------------------------------------------------------- the newest verdicts

create or replace function promo.newest_since(newest int default 1) returns timestamptz language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  wanted constant int := greatest(newest, 1);
  month_table text;
  pages bigint;
  looked_back interval := '1 second';
  since timestamptz;
  found_rows int;
begin
  -- The last pages of a month hold the newest rows, nearly in order. Sort their rows, newest first, and take
  -- the time of the row at the wanted place. At least the wanted number of verdicts was decided since then.
  for month_table in select t.name from promo_store.month_tables() t where t.parent = 'history' order by t.month desc loop
    pages := pg_relation_size(format('promo_store.%I', month_table)::regclass) / current_setting('block_size')::bigint;
    continue when pages = 0;
    execute format('select decided_at from promo_store.%I where ctid >= $1 order by decided_at desc offset $2 limit 1', month_table)
      into since using format('(%s,0)', greatest(pages - 8 - wanted / 16, 0))::tid, wanted - 1;
    exit;
  end loop;
  if since is not null then
    return (select min(t.decided_at)
      from (select h.decided_at from promo_store.history h where h.decided_at >= since order by h.decided_at desc limit wanted) t);
  end if;
  -- These pages have too few rows: look back further and further. Each step reads the newest blocks, which no
  -- vacuum has summarized.
  loop
    since := now() - looked_back;
    select count(*), min(t.decided_at) into found_rows, since
    from (select h.decided_at from promo_store.history h where h.decided_at >= since order by h.decided_at desc limit wanted) t;
    if found_rows >= wanted or looked_back > interval '100 years' then
      return since;
    end if;
    looked_back := looked_back * 16;
  end loop;
end
$$;

-- Without this, a query that calls one of them gets no parallel workers.
alter function promo.newest_since(int) parallel safe;
alter function promo.entries_since(timestamptz, timestamptz) parallel safe;

-- ---------------------------------------------------------------- what people read

comment on view promo.verdicts is 'One row for each decided event: accepted, rejected or skipped. Duplicates are in promo.deliveries. History is kept by month; dropped months are not shown. Indexes find verdict_id, round_id, player_ref, and ranges of decided_at and occurred_at.';
comment on view promo.ledger is 'The entries that count: one for each counted event, and for each entry of a refunded round one reversal that names it. Derived, so that a refund costs the same whatever the round holds. History is kept by month: dropped months are not shown. A reversal is kept as long as the entry that it reverses, whatever month it was entered in. promo.rounds shows forever which rounds were refunded. Indexes find verdict_id, round_id, player_ref, and ranges of entered_at.';
comment on column promo.verdicts.event_id is 'The event''s id, unique forever in its feed. No index finds it, and a query with event_id = ... reads all of history. Look one up by where verdict_id = (select promo.verdict_id_of(feed, event)), or by promo.verdict_of(feed, event).';
comment on column promo.verdicts.round_id is 'Round of a bet, win, settled or refund, as in promo.rounds. An index finds one round, or a list of up to a hundred. A query with round_id in (select ...) reads all of history: the last query below finds such rounds one by one.';
comment on column promo.ledger.round_id is 'Round of the entry; null for account kinds. An index finds one round, or a list of up to a hundred. A query with round_id in (select ...) reads all of history: a query below finds such rounds one by one.';
comment on column promo.ledger.entered_at is 'When the event, or the refund, was decided. An entry may become visible after a later one: see docs/operations/ledger-copies.md before you copy by this column. The time of the newest verdict: promo.newest_since(1). The newest entries: see the first query below. Where many months are kept: see promo.entries_since.';
comment on column promo.rounds.refunded_by is 'event_id of the refund. No index finds it. The round of a refund: see the last query below.';

-- The entries of each round that promotions have read, by the number of the round. So a refund finds them at
-- once, however long ago they were decided. The filters of history would read a whole month for each refund.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this. Rounds from before are found in history, as before. A rebuild records them, too.

create table promo_store.promotion_rounds (
  generation int not null,
  round_no bigint not null,
  last_no bigint not null,
  newest_at timestamptz not null,
  entries int not null,
  verdict_ids bigint[] not null,
  places tid[] not null,
  primary key (generation, round_no, last_no)
);
comment on table promo_store.promotion_rounds is 'Where the entries of rounds are in history: one row for each round in each part of a slice. A refund reads the entries by it. It names no player.';
comment on column promo_store.promotion_rounds.generation is 'Generation of the fold.';
comment on column promo_store.promotion_rounds.round_no is 'The round.';
comment on column promo_store.promotion_rounds.last_no is 'The highest verdict_id of the row.';
comment on column promo_store.promotion_rounds.newest_at is 'The latest decided_at of the entries. The row is deleted once history has dropped the month.';
comment on column promo_store.promotion_rounds.entries is 'How many entries the row has.';
comment on column promo_store.promotion_rounds.verdict_ids is 'The verdicts of the entries.';
comment on column promo_store.promotion_rounds.places is 'Where each of them was in its table of history. An erasure and a restore of a dump move entries: then the verdict is found by its number.';
-- Rows come in the order of time, so a range of pages is deleted with its month.
create index promotion_rounds_newest on promo_store.promotion_rounds using brin (newest_at) with (pages_per_range = 32);

create table promo_store.promotion_recordings (
  generation int primary key,
  after bigint not null
);
comment on table promo_store.promotion_recordings is 'Since when a generation records rounds in promotion_rounds.';
comment on column promo_store.promotion_recordings.generation is 'Generation of the fold.';
comment on column promo_store.promotion_recordings.after is 'Rounds with higher numbers have all their entries in promotion_rounds. -1: all rounds have.';

-- The definitions of promotions: the applied documents, and the versions of each promotion. Versions are
-- compiled into terms, so that one statement can count all types.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this.

create table promo_store.promotion_documents (
  document_version int primary key,
  document text not null,
  applied_at timestamptz not null default clock_timestamp(),
  applied_by text not null,
  role text not null default session_user,
  reason text
);
comment on table promo_store.promotion_documents is 'Every document of promotions that was applied. The highest version is in force.';
comment on column promo_store.promotion_documents.document_version is 'Number of the document.';
comment on column promo_store.promotion_documents.document is 'The document as JSON, in the form that promotions export prints.';
comment on column promo_store.promotion_documents.applied_at is 'When it was applied. The windows that its changes concern follow from this time.';
comment on column promo_store.promotion_documents.applied_by is 'Who applied it, by their own word.';
comment on column promo_store.promotion_documents.role is 'The role of the database that applied it.';
comment on column promo_store.promotion_documents.reason is 'Why, by their own word; null where no reason was given.';

create table promo_store.promotions (
  promotion_no int generated always as identity primary key,
  operator_no int not null references promo_store.operators,
  promotion_id text collate "C" not null,
  unique (operator_no, promotion_id)
);
comment on table promo_store.promotions is 'Numbers of promotions. A row stays when the promotion is removed.';
comment on column promo_store.promotions.promotion_no is 'Number of the promotion in storage.';
comment on column promo_store.promotions.operator_no is 'The operator whose events count.';
comment on column promo_store.promotions.promotion_id is 'The promotion''s id in the document, unique within the operator.';

create table promo_store.promotion_versions (
  promotion_no int not null references promo_store.promotions,
  version int not null,
  document_version int not null references promo_store.promotion_documents,
  definition jsonb not null,
  since timestamptz,
  until timestamptz,
  removed_at timestamptz,
  primary key (promotion_no, version)
);
comment on table promo_store.promotion_versions is 'The versions of each promotion. A changed definition is a new version, which counts from the next window on.';
comment on column promo_store.promotion_versions.promotion_no is 'The promotion.';
comment on column promo_store.promotion_versions.version is 'Number of the version within the promotion, from 1. Ids of completions are made of it.';
comment on column promo_store.promotion_versions.document_version is 'The document that brought the version.';
comment on column promo_store.promotion_versions.definition is 'The definition, as an entry of the document.';
comment on column promo_store.promotion_versions.since is 'The version counts windows that begin at this time or later; null: all, also one without a begin.';
comment on column promo_store.promotion_versions.until is 'The version counts windows that begin before this time; null: all.';
comment on column promo_store.promotion_versions.removed_at is 'When the promotion was removed: events and refunds that are decided then or later change nothing. Null: it is not removed.';

create table promo_store.promotion_brands (
  promotion_no int not null,
  version int not null,
  brand_no int not null references promo_store.brands,
  primary key (promotion_no, version, brand_no),
  foreign key (promotion_no, version) references promo_store.promotion_versions
);
comment on table promo_store.promotion_brands is 'The brands of a version. A version without rows counts all brands of the operator.';
comment on column promo_store.promotion_brands.promotion_no is 'The promotion.';
comment on column promo_store.promotion_brands.version is 'The version.';
comment on column promo_store.promotion_brands.brand_no is 'A brand whose events count.';

create table promo_store.promotion_terms (
  promotion_no int not null,
  version int not null,
  term_no int not null,
  kind smallint not null,
  item text collate "C",
  adds_amount boolean not null,
  worth bigint not null,
  games text[] collate "C",
  primary key (promotion_no, version, term_no),
  foreign key (promotion_no, version) references promo_store.promotion_versions
);
comment on table promo_store.promotion_terms is 'The terms of each version. A term adds events of one kind to one row of progress.';
comment on column promo_store.promotion_terms.promotion_no is 'The promotion.';
comment on column promo_store.promotion_terms.version is 'The version.';
comment on column promo_store.promotion_terms.term_no is 'Number of the term within the version, from 1.';
comment on column promo_store.promotion_terms.kind is 'Kind of the events, as in history.';
comment on column promo_store.promotion_terms.item is 'The item of the row of progress; null: the local day of the event.';
comment on column promo_store.promotion_terms.adds_amount is 'Whether the row adds up amounts in each currency. Otherwise it counts events.';
comment on column promo_store.promotion_terms.worth is 'The points of a unit in a leaderboard; 1 for other types.';
comment on column promo_store.promotion_terms.games is 'Only events of these games count; null: every game, and events without a game.';

create table promo_store.promotion_term_currencies (
  promotion_no int not null,
  version int not null,
  term_no int not null,
  currency_no smallint not null,
  unit_minor numeric,
  min_minor numeric,
  primary key (promotion_no, version, term_no, currency_no),
  foreign key (promotion_no, version, term_no) references promo_store.promotion_terms
);
comment on table promo_store.promotion_term_currencies is 'Unit and minimum of a term by currency.';
comment on column promo_store.promotion_term_currencies.promotion_no is 'The promotion.';
comment on column promo_store.promotion_term_currencies.version is 'The version.';
comment on column promo_store.promotion_term_currencies.term_no is 'The term.';
comment on column promo_store.promotion_term_currencies.currency_no is 'The currency; 0 for the unit of a term that counts events.';
comment on column promo_store.promotion_term_currencies.unit_minor is 'How much makes one unit: minor units, or events for currency 0. Null: a term that adds amounts counts no event of this currency.';
comment on column promo_store.promotion_term_currencies.min_minor is 'Smaller amounts of this currency do not count; null: there is no minimum.';

-- Views of the documents of promotions, for every role: who applied which document, and the versions that
-- count.
--
-- Locks: only creates, and waits for nothing. Time: instant. Safe while older workers run: they need nothing
-- of this.

create view promo.promotion_documents as
select
  d.document_version,
  d.applied_at,
  d.applied_by,
  d.role,
  d.reason,
  json_array_length(d.document::json -> 'promotions') as promotions,
  d.document
from promo_store.promotion_documents d;
comment on view promo.promotion_documents is 'The documents of promotions that were applied. The highest version is in force.';
comment on column promo.promotion_documents.document_version is 'Number of the document.';
comment on column promo.promotion_documents.applied_at is 'When it was applied.';
comment on column promo.promotion_documents.applied_by is 'Who applied it, by their own word.';
comment on column promo.promotion_documents.role is 'The role of the database that applied it.';
comment on column promo.promotion_documents.reason is 'Why, by their own word; null where no reason was given.';
comment on column promo.promotion_documents.promotions is 'Number of promotions in it.';
comment on column promo.promotion_documents.document is 'The document as JSON, as promo-intake promotions export prints it.';
select promo_store.show_to_readers('promotion_documents');

create view promo.promotion_versions as
select
  o.operator_id,
  p.promotion_id,
  v.version,
  v.document_version,
  v.definition,
  v.since,
  v.until,
  v.removed_at
from promo_store.promotion_versions v
join promo_store.promotions p using (promotion_no)
join promo_store.operators o using (operator_no);
comment on view promo.promotion_versions is 'The versions of each promotion, also those that count no longer.';
comment on column promo.promotion_versions.operator_id is 'Operator of the promotion.';
comment on column promo.promotion_versions.promotion_id is 'The promotion.';
comment on column promo.promotion_versions.version is 'Number of the version within the promotion, from 1.';
comment on column promo.promotion_versions.document_version is 'The document that brought the version.';
comment on column promo.promotion_versions.definition is 'The definition, as an entry of the document.';
comment on column promo.promotion_versions.since is 'The version counts windows that begin at this time or later; null: all, also one without a begin.';
comment on column promo.promotion_versions.until is 'The version counts windows that begin before this time; null: all; -infinity: none, since another version was computed for all of them.';
comment on column promo.promotion_versions.removed_at is 'When the promotion was removed; null: it is not.';
select promo_store.show_to_readers('promotion_versions');

comment on column promo_store.promotion_versions.until is 'The version counts windows that begin before this time; null: all; -infinity: none, since another version was computed for all of them.';

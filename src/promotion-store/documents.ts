/**
 * Documents of promotions in the store. A document is applied as a whole, in one transaction, between two
 * slices of the fold (docs/rules.md, P17, P21).
 */
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { toPromotionsJson } from '../promotion-file/stored';
import { type PromotionChange, planChanges } from '../promotions/changes';
import type { PromotionDocument } from '../promotions/definition';
import type { Takeover } from '../promotions/timeline';
import { microsOf, readMicros, timestampText } from './times';
import {
  readPromotionVersions,
  readShownVersions,
  type ShownVersion,
  timelinesOf,
  writeTimelines,
} from './versions';

/**
 * A slice of the fold holds this lock, and so does another `promotions apply`. So no slice reads old and new
 * versions, and the time of the change is later than every time that was folded. The first slice of all finds
 * the row here, too.
 */
const NAME_FOLD = {
  name: 'name_promotions_fold',
  text: `insert into promo_store.folds (fold, generation) values ('promotions', 0) on conflict do nothing`,
};
const LOCK_FOLD = {
  name: 'lock_promotions_fold',
  text: `select from promo_store.folds where fold = 'promotions' for update`,
};
const IN_FORCE = {
  name: 'promotions_in_force',
  text: 'select coalesce(max(document_version), 0) from promo.promotion_documents',
};
const MOMENT = {
  name: 'moment_of_promotions',
  text: `select ${microsOf('clock_timestamp()')}, ${microsOf(`nullif(promo_store.complete_history_since(), '-infinity')`)}`,
};
const NOW = { name: 'time_of_promotions', text: `select ${microsOf('clock_timestamp()')}` };
const ADD_DOCUMENT = {
  name: 'add_promotion_document',
  text: `insert into promo_store.promotion_documents (document_version, document, applied_at, applied_by, reason)
values ($1, $2, $3::timestamptz, $4, $5)`,
};

/** Who applies a document, and how. */
export interface Application {
  readonly by: string;
  readonly reason: string | null;
  readonly takeover: Takeover;
}

export interface PromotionPlan {
  /** The document in force; 0 where there is none. */
  readonly version: number;
  readonly changes: readonly PromotionChange[];
}

/**
 * Applies a document as a whole: creates one new document and its versions, or none where nothing changes.
 *
 * @param approve receives the changes before anything is stored; false leaves the store unchanged
 * @returns the document in force afterwards, and the changes
 * @throws UnreadablePromotions
 */
export async function applyPromotions(
  store: Store,
  document: PromotionDocument,
  { by, reason, takeover }: Application,
  approve: (plan: PromotionPlan) => boolean,
): Promise<PromotionPlan> {
  return inTransaction(store, async (session) => {
    await session.query(NAME_FOLD);
    await session.query(LOCK_FOLD);
    const version = await versionInForce(session);
    const stored = timelinesOf(await readPromotionVersions(session));
    const [[at, since] = []] = await session.query(MOMENT);
    const moment = { at: readMicros(at) ?? 0n, completeSince: readMicros(since) };
    const changes = planChanges(stored, document, moment, takeover);
    if (!approve({ version, changes }) || changes.length === 0) return { version, changes };
    const text = JSON.stringify(toPromotionsJson(document), null, 2);
    await session.query(ADD_DOCUMENT, [version + 1, text, timestampText(moment.at), by, reason]);
    const timelines = changes.map(({ timeline }) => timeline);
    await writeTimelines(session, version + 1, stored, timelines);
    return { version: version + 1, changes };
  });
}

async function versionInForce(session: Session): Promise<number> {
  const [[version] = []] = await session.query(IN_FORCE);
  return Number(version);
}

const DOCUMENT = {
  name: 'promotion_document',
  text: `select document_version, document from promo.promotion_documents
where document_version = coalesce($1::int, (select max(document_version) from promo.promotion_documents))`,
};

/**
 * The text of a document, as a file that `promotions apply` takes.
 *
 * @param version undefined for the document in force
 * @returns undefined where there is no such document
 */
export async function readPromotionDocument(
  store: Store,
  version: number | undefined,
): Promise<{ version: number; text: string } | undefined> {
  const [row] = await inTransaction(store, (session) => session.query(DOCUMENT, [version ?? null]));
  return row && { version: Number(row[0]), text: row[1] ?? '' };
}

const HISTORY = {
  name: 'promotion_documents',
  text: `select document_version, to_char(applied_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
  promotions, applied_by, reason
from promo.promotion_documents order by document_version desc`,
};

export interface AppliedDocument {
  readonly version: number;
  readonly appliedAt: string;
  readonly promotions: number;
  readonly by: string;
  readonly reason: string | null;
}

/** All documents, the newest first. */
export async function readPromotionHistory(store: Store): Promise<AppliedDocument[]> {
  const rows = await inTransaction(store, (session) => session.query(HISTORY));
  return rows.map(([version, appliedAt, promotions, by, reason]) => ({
    version: Number(version),
    appliedAt: appliedAt ?? '',
    promotions: Number(promotions),
    by: by ?? '',
    reason: reason ?? null,
  }));
}

export interface StoredPromotions {
  /** The document in force; 0 where there is none. */
  readonly version: number;
  readonly versions: readonly ShownVersion[];
  /** The time of the store, in microseconds since 1970. */
  readonly at: bigint;
}

/** Reads as any role. @throws UnreadablePromotions */
export async function readStoredPromotions(store: Store): Promise<StoredPromotions> {
  return inTransaction(store, async (session) => {
    const [[at] = []] = await session.query(NOW);
    const version = await versionInForce(session);
    return { version, versions: await readShownVersions(session), at: readMicros(at) ?? 0n };
  });
}

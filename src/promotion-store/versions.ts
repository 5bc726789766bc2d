/** The stored versions of promotions: read as timelines, and written with their terms. */

import { kindCode } from '../domain/event/event';
import { currencyOf } from '../domain/event/money';
import type { Row } from '../postgres/pipeline';
import type { Reader, Session } from '../postgres/transaction';
import { fromPromotionsJson, toPromotionsJson, UnreadablePromotions } from '../promotion-file/stored';
import { promotionKey, type Timelines } from '../promotions/changes';
import type { PromotionDefinition } from '../promotions/definition';
import { compilePromotion, NO_CURRENCY, type Term } from '../promotions/terms';
import type { DefinedVersion, Timeline } from '../promotions/timeline';
import { microsOf, readMicros, timestampText } from './times';

/** A version as each role can read it. */
export interface ShownVersion extends DefinedVersion {
  /** The document that brought the version. */
  readonly documentVersion: number;
}

export interface StoredPromotionVersion extends ShownVersion {
  readonly promotionNo: number;
}

/** The columns that `versionOf` reads. */
const COLUMNS = `version, document_version, definition::text, ${microsOf('since')}, ${microsOf('until')}, ${microsOf('removed_at')}`;

const VERSIONS = {
  name: 'promotion_versions',
  text: `select ${COLUMNS}, promotion_no from promo_store.promotion_versions order by promotion_no, version`,
};
const SHOWN_VERSIONS = {
  name: 'shown_promotion_versions',
  text: `select ${COLUMNS} from promo.promotion_versions order by operator_id, promotion_id, version`,
};

/**
 * All versions of all promotions, by promotion and version.
 *
 * @throws UnreadablePromotions where a definition breaks the rules of this version of the program
 */
export async function readPromotionVersions(session: Reader): Promise<StoredPromotionVersion[]> {
  const rows = await session.query(VERSIONS);
  return rows.map((row) => ({ ...versionOf(row), promotionNo: Number(row[6]) }));
}

/** The same without numbers of the store. @throws UnreadablePromotions */
export async function readShownVersions(session: Reader): Promise<ShownVersion[]> {
  return (await session.query(SHOWN_VERSIONS)).map(versionOf);
}

function versionOf([version, documentVersion, definition, since, until, removedAt]: Row): ShownVersion {
  return {
    version: Number(version),
    documentVersion: Number(documentVersion),
    definition: definitionIn(definition ?? ''),
    since: readMicros(since),
    until: readMicros(until),
    removedAt: readMicros(removedAt),
  };
}

function definitionIn(json: string): PromotionDefinition {
  const [only] = fromPromotionsJson({ promotions: [JSON.parse(json)] }).promotions;
  if (only === undefined) throw new UnreadablePromotions('a stored version of a promotion is empty');
  return only;
}

/** The versions of each promotion, by its `promotionKey`. */
export function timelinesOf<T extends DefinedVersion>(versions: readonly T[]): Map<string, [T, ...T[]]> {
  const timelines = new Map<string, [T, ...T[]]>();
  for (const version of versions) {
    const key = promotionKey(version.definition);
    const found = timelines.get(key);
    if (found === undefined) timelines.set(key, [version]);
    else found.push(version);
  }
  return timelines;
}

const NAME_PROMOTIONS = {
  name: 'name_promotions',
  text: `insert into promo_store.promotions (operator_no, promotion_id)
select o.operator_no, n.promotion_id from unnest($1::text[], $2::text[]) n (operator_id, promotion_id)
join promo_store.operators o using (operator_id) on conflict do nothing`,
};
const PROMOTION_NUMBERS = {
  name: 'promotion_numbers',
  text: 'select o.operator_id, p.promotion_id, p.promotion_no from promo_store.promotions p join promo_store.operators o using (operator_no)',
};

/** Bounds of older versions change; their definitions never do. */
const PUT_VERSIONS = {
  name: 'put_promotion_versions',
  text: `insert into promo_store.promotion_versions (promotion_no, version, document_version, definition, since, until, removed_at)
select promotion_no, version, $1, definition, since, until, removed_at
from jsonb_to_recordset($2::jsonb) v (promotion_no int, version int, definition jsonb, since timestamptz, until timestamptz, removed_at timestamptz)
on conflict (promotion_no, version) do update set since = excluded.since, until = excluded.until, removed_at = excluded.removed_at`,
};
const PUT_BRANDS = {
  name: 'put_promotion_brands',
  text: `insert into promo_store.promotion_brands (promotion_no, version, brand_no)
select v.promotion_no, v.version, b.brand_no
from jsonb_to_recordset($1::jsonb) v (promotion_no int, version int, brand text)
join promo_store.promotions p using (promotion_no)
join promo_store.brands b on b.operator_no = p.operator_no and b.brand_id = v.brand
returning 1`,
};
const PUT_TERMS = {
  name: 'put_promotion_terms',
  text: `insert into promo_store.promotion_terms (promotion_no, version, term_no, kind, item, adds_amount, worth, games)
select promotion_no, version, term_no, kind, item, adds_amount, worth, games
from jsonb_to_recordset($1::jsonb) t (promotion_no int, version int, term_no int, kind smallint, item text, adds_amount boolean, worth bigint, games text[])`,
};
const PUT_CURRENCIES = {
  name: 'put_promotion_currencies',
  text: `insert into promo_store.promotion_term_currencies (promotion_no, version, term_no, currency_no, unit_minor, min_minor)
select promotion_no, version, term_no, currency_no, unit_minor, min_minor
from jsonb_to_recordset($1::jsonb) c (promotion_no int, version int, term_no int, currency_no smallint, unit_minor numeric, min_minor numeric)`,
};

/** Writes the versions that differ from the stored ones. The operators of all of them have to be named. */
export async function writeTimelines(
  session: Session,
  documentVersion: number,
  stored: Timelines,
  changed: readonly Timeline[],
): Promise<void> {
  const definitions = changed.map(([{ definition }]) => definition);
  await session.query(NAME_PROMOTIONS, [
    definitions.map(({ operator }) => operator),
    definitions.map(({ id }) => id),
  ]);
  const numbers = new Map(
    (await session.query(PROMOTION_NUMBERS)).map(([operator, id, no]) => [
      promotionKey({ operator: operator ?? '', id: id ?? '' }),
      Number(no),
    ]),
  );
  const rows = changed.flatMap((timeline) => {
    const key = promotionKey(timeline[0].definition);
    const promotion_no = numbers.get(key);
    if (promotion_no === undefined) throw new Error(`the store has no number for the operator of ${key}`);
    const count = stored.get(key)?.length ?? 0;
    return timeline.map((each) => ({ promotion_no, ...each, isNew: each.version > count }));
  });
  await session.query(PUT_VERSIONS, [documentVersion, JSON.stringify(rows.map(versionJson))]);
  const added = rows.filter(({ isNew }) => isNew);
  const brands = added.flatMap(({ promotion_no, version, definition }) =>
    [...new Set(definition.brands)].map((brand) => ({ promotion_no, version, brand })),
  );
  const written = await session.query(PUT_BRANDS, [JSON.stringify(brands)]);
  // A version without rows would count all brands.
  if (written.length < brands.length) throw new Error('the store has no number for a brand of a promotion');
  const terms = added.flatMap(({ promotion_no, version, definition }) =>
    compilePromotion(definition).terms.map((term, index) => ({
      key: { promotion_no, version, term_no: index + 1 },
      term,
    })),
  );
  await session.query(PUT_TERMS, [
    JSON.stringify(terms.map(({ key, term }) => ({ ...key, ...termJson(term) }))),
  ]);
  await session.query(PUT_CURRENCIES, [
    JSON.stringify(
      terms.flatMap(({ key, term }) => currenciesJson(term).map((each) => ({ ...key, ...each }))),
    ),
  ]);
}

function versionJson({
  promotion_no,
  version,
  definition,
  since,
  until,
  removedAt,
}: DefinedVersion & { readonly promotion_no: number }): object {
  return {
    promotion_no,
    version,
    definition: definitionJson(definition),
    since: timestampText(since),
    until: timestampText(until),
    removed_at: timestampText(removedAt),
  };
}

/** An entry of a document. */
function definitionJson(definition: PromotionDefinition): unknown {
  return toPromotionsJson({ promotions: [definition] }).promotions[0];
}

function termJson({ kind, item, games, adds, worth }: Term): object {
  const listed = games === null ? null : [...games];
  return { kind: kindCode(kind), item, adds_amount: adds === 'amount', worth: String(worth), games: listed };
}

function currenciesJson({ unit, minAmount }: Term): object[] {
  return [...new Set([...unit.keys(), ...minAmount.keys()])].map((code) => ({
    currency_no: code === NO_CURRENCY ? 0 : currencyOf(code)?.no,
    unit_minor: unit.get(code)?.toString() ?? null,
    min_minor: minAmount.get(code)?.toString() ?? null,
  }));
}

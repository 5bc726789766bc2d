/** The versions that a generation of the fold counts (docs/rules.md, P17). */
import { shownId } from '../domain/event/id-key';
import type { Reader, Session, Statement } from '../postgres/transaction';
import { BEFORE_ALL, later } from '../promotions/calendar';
import type { PromotionVersion } from '../promotions/counting';
import { type CompiledPromotion, compilePromotion } from '../promotions/terms';
import { microsOf, readMicros, timestampText } from './times';
import { readPromotionVersions, type StoredPromotionVersion } from './versions';

export interface CountedVersion extends PromotionVersion {
  readonly promotionNo: number;
}

export interface CountedVersions {
  readonly versions: readonly CountedVersion[];
  /** Why the generation cannot count some version from here on; null: it counts all of them. */
  readonly rebuild: string | null;
}

const COUNTED: Statement = {
  name: 'promotions_counted',
  text: `select promotion_no, version, ${microsOf('removed_at')} from promo_store.promotion_generations where generation = $1`,
};
const COUNT: Statement = {
  name: 'promotions_count',
  text: `insert into promo_store.promotion_generations (generation, promotion_no, version, removed_at)
select $1, * from unnest($2::int[], $3::int[], $4::timestamptz[])
on conflict (generation, promotion_no, version) do update set removed_at = excluded.removed_at`,
};

/** The compiled versions of the last slice: most slices find the same ones. */
export class VersionCache {
  private readonly compiled = new Map<string, { readonly text: string; readonly version: CountedVersion }>();

  compile(stored: StoredPromotionVersion): CountedVersion {
    const { promotionNo, version, since, until, removedAt, definition } = stored;
    const key = keyOfVersion(stored);
    const text = [since, until, removedAt].join();
    const known = this.compiled.get(key);
    if (known?.text === text) return known.version;
    // A definition never changes, and its windows are computed once.
    const promotion = known?.version.promotion ?? withShownGames(compilePromotion(definition));
    const compiled = { promotionNo, version, promotion, since, until, removedAt };
    this.compiled.set(key, { text, version: compiled });
    return compiled;
  }
}

/** Shortens the games of its lists as those of entries: see ledger-columns.ts. */
function withShownGames({ terms, ...rest }: CompiledPromotion): CompiledPromotion {
  const shown = ({ games, ...term }: CompiledPromotion['terms'][number]) => ({
    ...term,
    games: games === null ? null : new Set([...games].map(shownId)),
  });
  return { ...rest, terms: terms.map(shown) };
}

type VersionNumbers = Pick<CountedVersion, 'promotionNo' | 'version'>;
const keyOfVersion = ({ promotionNo, version }: VersionNumbers): string => `${promotionNo} ${version}`;

/** The versions that a generation counts by their keys, each with the time of its removal. */
async function readCounted(session: Reader, generation: number): Promise<Map<string, bigint | null>> {
  const rows = await session.query(COUNTED, [generation]);
  return new Map(
    rows.map(([promotionNo, version, removedAt]) => [
      keyOfVersion({ promotionNo: Number(promotionNo), version: Number(version) }),
      readMicros(removedAt),
    ]),
  );
}

/**
 * The stored versions, where a generation counts all of them as they are now. Null where a document was
 * applied that the generation has not seen.
 */
export async function seenVersions(reader: Reader, generation: number): Promise<CountedVersion[] | null> {
  const counted = await readCounted(reader, generation);
  const stored = await readPromotionVersions(reader);
  if (stored.some((each) => counted.get(keyOfVersion(each)) !== each.removedAt)) return null;
  const cache = new VersionCache();
  return stored.map((each) => cache.compile(each));
}

/**
 * Finds the versions that a generation counts, and adds those that count only what comes.
 *
 * @param newestAt the latest decision that the generation has folded; null: it has folded none
 */
export async function countVersions(
  session: Session,
  generation: number,
  newestAt: bigint | null,
  cache: VersionCache,
): Promise<CountedVersions> {
  const stored = await readPromotionVersions(session);
  const counted = await readCounted(session, generation);
  const versions: CountedVersion[] = [];
  const changed: CountedVersion[] = [];
  const late: string[] = [];
  for (const each of stored) {
    const version = cache.compile(each);
    const known = counted.get(keyOfVersion(each));
    const missesRows =
      known === undefined ? beginsBefore(version, newestAt) : isBroughtBack(known, version, newestAt);
    if (missesRows) late.push(`${each.definition.operator}/${each.definition.id}`);
    // A further generation counts it from its begin on.
    if (known === undefined && missesRows) continue;
    versions.push(version);
    if (known !== each.removedAt) changed.push(version);
  }
  if (changed.length > 0)
    await session.query(COUNT, [
      generation,
      changed.map(({ promotionNo }) => promotionNo),
      changed.map(({ version }) => version),
      changed.map(({ removedAt }) => timestampText(removedAt)),
    ]);
  const [first] = late;
  const rebuild =
    first === undefined
      ? null
      : `${first} counts what was folded without it${late.length > 1 ? ', and others do' : ''}`;
  return { versions, rebuild };
}

/** Whether a window of the version may contain an event that was folded already. */
function beginsBefore({ promotion, since, until }: CountedVersion, newestAt: bigint | null): boolean {
  if (newestAt === null) return false;
  const first = later(since, promotion.calendar.from);
  const countsNone = until !== null && until <= (first ?? BEFORE_ALL);
  return !countsNone && (first === null || first <= newestAt);
}

/** Whether events that were left out after a removal count again. */
function isBroughtBack(removedAt: bigint | null, version: CountedVersion, newestAt: bigint | null): boolean {
  if (removedAt === null || newestAt === null || removedAt > newestAt) return false;
  return version.removedAt === null || version.removedAt > removedAt;
}

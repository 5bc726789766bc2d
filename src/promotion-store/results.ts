/** Promotions as results of a fold (docs/rules.md, P1-P17). */
import type { Results } from '../fold/fold';
import type { Session, Statement } from '../postgres/transaction';
import { BEFORE_ALL, later } from '../promotions/calendar';
import { enterDifference } from './completions';
import { type CountedVersion, countVersions, VersionCache } from './counted-versions';
import { forgetErasedCredits, readCountedPages } from './credits';
import type { CountedScope } from './ledger-rows';
import { beginRecords, OldRecords } from './round-records';
import { CountedSlice } from './slice';
import { countParts, readParts, SLICE_LIMITS, type SlicePart } from './slice-parts';
import { SliceRows } from './slice-rows';
import { finiteMicrosOf } from './times';

/**
 * So long after a time, every verdict from before it is known. The time of a decision lies some seconds
 * before or after that of the next number, at most.
 */
const CERTAIN_AFTER_MICROS = 60_000_000n;

/** The latest time of the slices before. */
const FOLDED_TO: Statement = {
  name: 'promotions_folded_to',
  text: `select ${finiteMicrosOf('newest_at')} from promo_store.fold_generations where fold = 'promotions' and generation = $1`,
};

const TABLES = ['promotion_progress', 'promotion_attempts', 'promotion_boards', 'promotion_joins'] as const;
const COLUMNS: Readonly<Record<(typeof TABLES)[number], string>> = {
  promotion_progress:
    'player_ref, items, currencies, amounts, attained, has_attempts, score, scored_no, changed_no, changed_at',
  promotion_attempts: 'player_ref, ordinal, attempt, is_held, decided_no, decided_at, confirms_at',
  promotion_boards: 'closed_at',
  promotion_joins: 'player_ref',
};
/** Windows that began when history was whole no longer: the older generation has counted all of them. */
const OLDER = `select window_no from promo_store.promotion_windows where coalesce(starts_at, '-infinity') < $3::timestamptz`;
const KEEPS: readonly Statement[] = TABLES.flatMap((table) => [
  {
    name: `promotions_clear_${table}`,
    text: `delete from promo_store.${table} where generation = $2 and window_no in (${OLDER}) and $1::int is not null`,
  },
  {
    name: `promotions_keep_${table}`,
    text: `insert into promo_store.${table} (generation, window_no, ${COLUMNS[table]})
select $2, window_no, ${COLUMNS[table]} from promo_store.${table} where generation = $1 and window_no in (${OLDER})`,
  },
]);

/** Leaderboards that the time alone has closed in one generation, and not yet in another. */
const CLOSED_BY_TIME: Statement = {
  name: 'promotions_closed_by_time',
  text: `select ${finiteMicrosOf('max(w.closes_at)')} from promo_store.promotion_boards b join promo_store.promotion_windows w using (window_no)
where b.generation = $1 and not exists (select from promo_store.promotion_boards o where o.generation = $2 and o.window_no = b.window_no)`,
};

const SWEEP_ROWS = 20_000;
const SWEEPS: readonly Statement[] = [
  ...TABLES,
  'promotion_rounds',
  'promotion_recordings',
  'promotion_generations',
].map((table) => ({
  name: `promotions_sweep_${table}`,
  text: `with gone as (delete from promo_store.${table} where ctid = any(array(
  select ctid from promo_store.${table} where generation = $1 limit ${SWEEP_ROWS})) returning 1) select count(*) from gone`,
}));

/** @returns results that one process keeps: it remembers compiled versions */
export function makePromotionResults(limits = SLICE_LIMITS): Results {
  const cache = new VersionCache();
  const oldRecords = new OldRecords();

  /**
   * The generation `to` was counted up to its last row, and the time may have closed leaderboards since then.
   * Otherwise their ranks would be revoked, and come again as further attempts.
   */
  async function closeByTime(session: Session, from: number, to: number): Promise<void> {
    const [[closedTo] = []] = await session.query(CLOSED_BY_TIME, [from, to]);
    if (closedTo == null) return;
    const foldedTo = await readFoldedTo(session, to);
    const { versions } = await countVersions(session, to, foldedTo, cache);
    const rowsOfSlice = new SliceRows(versions);
    await new CountedSlice(session, {
      ...{ generation: to, isShown: false, rowsOfSlice, isEmpty: false },
    }).end(BigInt(closedTo));
  }

  return {
    name: 'promotions',
    async fold(session, slice) {
      const { generation, isShown, after } = slice;
      const parts = await readParts(session, slice, limits);
      const foldedTo = await readFoldedTo(session, generation);
      const { versions, rebuild } = await countVersions(session, generation, foldedTo, cache);
      const counted = versions.length > 0 ? await countSlice(versions, foldedTo) : parts;
      const upTo = counted.at(-1)?.upTo ?? slice.upTo;
      await forgetErasedCredits(session, generation, upTo);
      const { newestAt = null } = latestOf(counted) ?? {};
      return { upTo, rows: counted.reduce((sum, { rows }) => sum + rows, 0), newestAt, rebuild };

      async function countSlice(versions: readonly CountedVersion[], foldedTo: bigint | null) {
        const rowsOfSlice = new SliceRows(versions);
        const scope = countedScopeOf(versions);
        const records = await beginRecords(session, generation, after);
        // Nothing is stored of a generation that begins.
        const countedSlice = new CountedSlice(session, {
          generation,
          isShown,
          rowsOfSlice,
          isEmpty: after < 0,
        });
        await countedSlice.countJoined();
        const counted = await countParts(countedSlice, rowsOfSlice, parts, limits, (part) =>
          readCountedPages(session, part, scope, records),
        );
        const latest = later(foldedTo, latestOf(counted)?.latest ?? null);
        await countedSlice.end((latest ?? 0n) - CERTAIN_AFTER_MICROS);
        await oldRecords.drop(session, generation);
        return counted;
      }
    },
    async updateByTime(session, generation, now) {
      const foldedTo = await readFoldedTo(session, generation);
      const { versions, rebuild } = await countVersions(session, generation, foldedTo, cache);
      const asOf = now - CERTAIN_AFTER_MICROS;
      const rowsOfSlice = new SliceRows(versions);
      const counted = new CountedSlice(session, { generation, isShown: true, rowsOfSlice, isEmpty: false });
      await counted.countJoined();
      await counted.end(asOf);
      return rebuild;
    },
    async keepOlder(session, from, to, since) {
      for (const statement of KEEPS) await session.query(statement, [from, to, since]);
      await closeByTime(session, from, to);
      await enterDifference(session, to);
    },
    async sweep(session, generation) {
      await forgetErasedCredits(session, generation, null);
      let deleted = 0;
      for (const statement of SWEEPS) {
        const [[count] = []] = await session.query(statement, [generation]);
        deleted += Number(count);
      }
      return deleted === 0;
    },
  };
}

async function readFoldedTo(session: Session, generation: number): Promise<bigint | null> {
  const [[foldedTo] = []] = await session.query(FOLDED_TO, [generation]);
  return foldedTo == null ? null : BigInt(foldedTo);
}

export function countedScopeOf(versions: readonly CountedVersion[]): CountedScope {
  return {
    operatorIds: [...new Set(versions.map(({ promotion }) => promotion.definition.operator))],
    kinds: [...new Set(versions.flatMap(({ promotion }) => promotion.terms.map(({ kind }) => kind)))],
  };
}

function latestOf(parts: readonly SlicePart[]): SlicePart | undefined {
  return parts.reduce<SlicePart | undefined>(
    (found, part) => ((part.latest ?? BEFORE_ALL) > (found?.latest ?? BEFORE_ALL) ? part : found),
    undefined,
  );
}

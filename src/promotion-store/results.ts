/** Promotions as results of a fold (docs/rules.md, P1-P17). */
import { readBeside } from '../fold/beside';
import type { Results } from '../fold/fold';
import { deleteSome, deletionOf, PLANNER_SETTINGS } from '../fold/statements';
import type { Reader, Session, Statement, Store } from '../postgres/transaction';
import { later } from '../promotions/calendar';
import { forgetErasedCredits } from './attributions';
import { enterCompletions, enterDifference } from './completions';
import { type CountedVersion, countVersions, VersionCache } from './counted-versions';
import { countJoined } from './joins';
import type { CountedScope } from './ledger-rows';
import { beginRecords, OldRecords } from './round-records';
import { countSlice } from './slice';
import { cutSlice, SLICE_LIMITS } from './slice-end';
import { countRanks, HeldRankChanges } from './slice-ranks';
import { finiteMicrosOf } from './times';

/**
 * This long after a time, all verdicts that were decided before it are counted. Verdicts with neighbouring
 * numbers are decided within some seconds of each other.
 */
const CERTAIN_AFTER_MICROS = 60_000_000n;

const TIMES: Statement = {
  name: 'promotions_times',
  text: `select ${finiteMicrosOf('newest_at')}, (select ${finiteMicrosOf('max(b.closed_at)')} from promo_store.promotion_boards b where b.generation = $1)
from promo_store.fold_generations where fold = 'promotions' and generation = $1`,
};

const TABLES = ['promotion_progress', 'promotion_attempts', 'promotion_boards', 'promotion_joins'] as const;
const COLUMNS: Readonly<Record<(typeof TABLES)[number], string>> = {
  promotion_progress:
    'player_ref, items, currencies, amounts, attained, has_attempts, score, scored_no, changed_no, changed_at',
  promotion_attempts: 'player_ref, ordinal, attempt, is_held, decided_no, decided_at, confirms_at',
  promotion_boards: 'closed_at',
  promotion_joins: 'player_ref',
};
/**
 * Windows that began in dropped months. A rebuild cannot count them, so they are copied from the older
 * generation, which has counted all of their events. Left out are versions that the older generation does not
 * count, and windows that a later version has taken over.
 */
const OLDER = `select w.window_no from promo_store.promotion_windows w
join promo_store.promotion_generations c on c.generation = $1 and c.promotion_no = w.promotion_no and c.version = w.version
join promo_store.promotion_versions v on v.promotion_no = w.promotion_no and v.version = w.version
where coalesce(w.starts_at, '-infinity') < $3::timestamptz and coalesce(v.until, 'infinity') > coalesce(w.starts_at, '-infinity')`;
const KEEPS: readonly Statement[] = TABLES.flatMap((table) => [
  {
    name: `promotions_clear_${table}`,
    text: `delete from promo_store.${table} where generation = $2 and window_no in (${OLDER})`,
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

const sweepOf = (table: string) => deletionOf(`promotions_sweep_${table}`, table, 'generation = $1');
const SWEEPS = [...TABLES, 'promotion_rounds', 'promotion_round_sums', 'promotion_recordings'].map(sweepOf);
/** An erasure finds the progress of a player by these versions, so they go last. */
const SWEEP_VERSIONS = sweepOf('promotion_generations');

/**
 * @param beside connections for a second process of Postgres, which reads the entries of slices: for those of
 * a rebuild, and for those that are behind
 * @returns results that one process keeps: it remembers compiled versions
 */
export function makePromotionResults(beside: Store | null, limits = SLICE_LIMITS): Results {
  const cache = new VersionCache();
  const oldRecords = new OldRecords();

  /**
   * The generation `to` was counted up to its last row, and the time may have closed leaderboards since then.
   * Otherwise their ranks would be revoked, and come again as further attempts.
   */
  async function closeByTime(session: Session, from: number, to: number): Promise<void> {
    const [[closedTo] = []] = await session.query(CLOSED_BY_TIME, [from, to]);
    if (closedTo == null) return;
    const { foldedTo } = await readTimes(session, to);
    const { versions } = await countVersions(session, to, foldedTo, cache);
    const ranked = new HeldRankChanges(versions, null);
    await countRanks(session, { generation: to }, ranked, BigInt(closedTo));
  }

  return {
    name: 'promotions',
    async fold(session, slice) {
      const { generation, isShown, after } = slice;
      const { foldedTo, closedTo } = await readTimes(session, generation);
      const { versions, rebuild } = await countVersions(session, generation, foldedTo, cache);
      const cut = await cutSlice(session, slice, versions, foldedTo, limits);
      if (versions.length > 0) {
        const latest = later(foldedTo, cut.latest);
        const records = await beginRecords(session, generation, after, limits.largeRound);
        const count = (reader?: Reader) =>
          countSlice(session, {
            generation,
            isShown,
            versions,
            slice: cut,
            // Nothing is stored of a generation that begins.
            isEmpty: after < 0,
            reading: { scope: countedScopeOf(versions), records, pageRows: limits.pageRows, beside: reader },
            latest: later(latest, closedTo),
            asOf: (latest ?? 0n) - CERTAIN_AFTER_MICROS,
          });
        const completions =
          beside !== null && slice.mayTakeCores
            ? await readBeside(beside, slice.lineage, async (own) => {
                await own.query(PLANNER_SETTINGS);
                return count(own);
              })
            : await count();
        if (isShown) await enterCompletions(session, completions);
        await oldRecords.drop(session, generation);
      }
      await forgetErasedCredits(session, generation, cut.upTo);
      return { upTo: cut.upTo, rows: cut.rows, newestAt: cut.newestAt, rebuild };
    },
    async updateByTime(session, generation, now) {
      const { foldedTo, closedTo } = await readTimes(session, generation);
      const { versions, rebuild } = await countVersions(session, generation, foldedTo, cache);
      const asOf = now - CERTAIN_AFTER_MICROS;
      const ranked = new HeldRankChanges(versions, later(later(foldedTo, closedTo), asOf));
      const options = { generation, isEmpty: false, versions, asOf };
      const completions = await countJoined(session, options, ranked);
      completions.push(...(await countRanks(session, options, ranked, asOf)));
      await enterCompletions(session, completions);
      return rebuild;
    },
    async keepOlder(session, from, to, since) {
      for (const statement of KEEPS) await session.query(statement, [from, to, since]);
      await closeByTime(session, from, to);
      await enterDifference(session, to);
    },
    async sweep(session, generation) {
      await forgetErasedCredits(session, generation, null);
      if ((await deleteSome(session, SWEEPS, [generation])) > 0) return false;
      return (await deleteSome(session, [SWEEP_VERSIONS], [generation])) === 0;
    },
  };
}

/** Microseconds since 1970; null: never. */
interface FoldedTimes {
  /** The latest time of the verdicts that are counted. */
  readonly foldedTo: bigint | null;
  /** The latest close of a leaderboard that is closed. */
  readonly closedTo: bigint | null;
}

async function readTimes(session: Session, generation: number): Promise<FoldedTimes> {
  const [[foldedTo, closedTo] = []] = await session.query(TIMES, [generation]);
  return {
    foldedTo: foldedTo == null ? null : BigInt(foldedTo),
    closedTo: closedTo == null ? null : BigInt(closedTo),
  };
}

export function countedScopeOf(versions: readonly CountedVersion[]): CountedScope {
  return {
    operatorIds: [...new Set(versions.map(({ promotion }) => promotion.definition.operator))],
    kinds: [...new Set(versions.flatMap(({ promotion }) => promotion.terms.map(({ kind }) => kind)))],
  };
}

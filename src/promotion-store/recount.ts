/**
 * Counts the ledger again from its first entry, in memory, by the code of the fold. Then it compares the
 * result with the stored progress and completions, and changes nothing (docs/rules.md, P16).
 */
import { crc32 } from 'node:zlib';
import { hasArrivals } from '../fold/lineage';
import { FIRST_SPAN, nextSpan } from '../fold/span';
import { BATCH_NUMBERS, PLANNER_SETTINGS } from '../fold/statements';
import type { Reader, Statement } from '../postgres/transaction';
import type { ProgressRow } from '../promotions/attainment';
import { BEFORE_ALL, later } from '../promotions/calendar';
import type { Counting } from '../promotions/counting';
import { heldBy } from '../promotions/judging';
import type { PlayerProgress } from '../promotions/player-progress';
import { readCountedRows } from './counted-rows';
import { type CountedVersion, seenVersions } from './counted-versions';
import { RecountedSums } from './recounted-sums';
import { countedScopeOf } from './results';
import { ProgressChanges, SliceCounting } from './slice-counting';
import {
  DamageList,
  ERASED,
  type RecountDamage,
  type StoredRow,
  storedProgress,
  valuesText,
} from './stored-progress';
import { DAY_MICROS, finiteMicrosOf, microsOf, readMicros, timestampText } from './times';

/** The verdicts of a range, and the latest time of them. */
const MEASURE: Statement = {
  name: 'promotions_measure',
  text: `select count(*), ${finiteMicrosOf('max(decided_at)')}
from promo_store.history where verdict_id > $1::bigint and verdict_id <= $2::bigint and decided_at >= $3::timestamptz`,
};

const GOAL = { rows: 200_000, ms: 2_000 };

export interface Recounted {
  /** All verdicts up to this number were counted again. */
  readonly upTo: number;
  readonly verdicts: number;
  /** Rows of progress that were compared. */
  readonly compared: number;
  /** Rows that were not, since history no longer has all of their events. */
  readonly skipped: number;
  readonly damages: readonly RecountDamage[];
  readonly inAll: number;
}

/**
 * An erasure takes rounds from players (B6). Of two players with equal points, the one whose points changed
 * first has the better rank. An erasure changes points in the fold, and leaves no trace for a recount. Joined
 * progress gets its rank by the next slice.
 */
const UNSURE_RANKS: Statement = {
  name: 'promotions_unsure_ranks',
  text: `select f.operator_id from promo_store.attribution_changes c join promo_store.feeds f using (feed_no) where c.change = 2
union select o.operator_id from promo_store.promotion_joins j join promo_store.promotion_windows w using (window_no)
join promo_store.promotions p using (promotion_no) join promo_store.operators o using (operator_no)`,
};
/**
 * An erasure of several calls gives all progress to `erased:N` at its first one, and the events one by one.
 * Where it was broken off, it stays so.
 */
const ERASING: Statement = {
  name: 'promotions_erasing',
  text: `select distinct request ->> 'operator' from promo.operations where operation = 'erasure' and ended_at is null`,
};

export type Recount =
  | { readonly type: 'counted'; readonly recounted: Recounted }
  /** Nothing can be compared now, and nothing is wrong. */
  | { readonly type: 'not now'; readonly reason: string };

const SHOWN: Statement = {
  name: 'promotions_shown',
  text: `select g.generation, g.after, g.lineage, ${microsOf('greatest(g.complete_since, promo_store.complete_history_since())')}, (promo_store.last_batch() + 1) * ${BATCH_NUMBERS} - 1,
  exists (select from promo_store.fold_generations o where o.fold = f.fold and o.state = 'filling')
from promo_store.folds f join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation where f.fold = 'promotions'`,
};
const CLOSED_UP_TO: Statement = {
  name: 'promotions_closed_up_to',
  text: `select b.window_no, ${finiteMicrosOf('w.closes_at')} from promo_store.promotion_boards b
join promo_store.promotion_windows w using (window_no) where b.generation = $1`,
};

/** The generation that readers see. */
interface Shown {
  readonly generation: number;
  /** All verdicts up to this number are counted. */
  readonly upTo: number;
  readonly lineage: string;
  /** It has all verdicts from this time on, in microseconds since 1970. */
  readonly since: bigint;
  /** The highest number that the store has given. */
  readonly last: number;
  /** Another generation is filled beside it. */
  readonly isFilling: boolean;
}

async function readShown(reader: Reader): Promise<Shown | undefined> {
  const [row] = await reader.query(SHOWN);
  if (row === undefined) return undefined;
  const [generation, after, lineage, since, last, isFilling] = row;
  return {
    generation: Number(generation),
    upTo: Number(after),
    lineage: lineage ?? '',
    since: readMicros(since) ?? BEFORE_ALL,
    last: Number(last),
    isFilling: isFilling === 't',
  };
}

/** @param oneOf counts one of so many players; 1: all of them */
export async function recountPromotions(reader: Reader, oneOf: number): Promise<Recount> {
  await reader.query(PLANNER_SETTINGS);
  const shown = await readShown(reader);
  if (shown === undefined) return { type: 'not now', reason: 'promotions were never counted' };
  if (shown.isFilling) return { type: 'not now', reason: 'promotions are being counted again' };
  const { generation, upTo, last, since } = shown;
  const damages = new DamageList();
  if (upTo > last) {
    const what = `verdicts up to ${upTo} are counted, and this store has given numbers up to ${last} only`;
    damages.add({ source: 'promotions', what });
    return {
      type: 'counted',
      recounted: { upTo, verdicts: 0, compared: 0, skipped: 0, ...damages.listed() },
    };
  }
  const versions = await seenVersions(reader, generation);
  if (versions === null)
    return { type: 'not now', reason: 'promotions were applied that are not counted yet' };
  const recount = new SliceCounting(versions);
  const isWhole = oneOf === 1;
  // Erased players are compared together, so a sample has none of them.
  const isCounted = (player: string) => isWhole || (crc32(player) % oneOf === 0 && !ERASED.test(player));
  const sums = await RecountedSums.begin(reader, generation, versions);
  const verdicts = await countAgain(reader, recount, versions, { shown, isCounted, sums });
  const closed = await reader.query(CLOSED_UP_TO, [generation]);
  let asOf: bigint | null = null;
  for (const [, closesAt] of closed) asOf = later(asOf, BigInt(closesAt ?? 0));
  recount.endSlice(asOf ?? BEFORE_ALL);
  const known = new Set(
    versions.map(({ promotion: { definition }, version }) =>
      keyOfVersion(definition.operator, definition.id, version),
    ),
  );
  const operatorsOf = async (statement: Statement) =>
    new Set((await reader.query(statement)).map(([operator]) => operator ?? ''));
  const erasing = await operatorsOf(ERASING);
  const unsure = new Set([...erasing, ...(await operatorsOf(UNSURE_RANKS))]);
  // Ranks of a sample are not those of all players.
  const boards = new Set(isWhole ? closed.map(([windowNo]) => Number(windowNo)) : []);
  const rules = { known, since, unsure, erasing, boards, isCounted, isWhole };
  const { compared, skipped } = await compareAll(reader, generation, recount, rules, damages);
  const isCompared = (operator: string, promotion: string, version: number) =>
    known.has(keyOfVersion(operator, promotion, version)) && !erasing.has(operator);
  await sums.compare(reader, { generation, isCompared }, damages);
  return { type: 'counted', recounted: { upTo, verdicts, compared, skipped, ...damages.listed() } };
}

interface CountedAgain {
  readonly shown: Shown;
  readonly isCounted: (player: string) => boolean;
  readonly sums: RecountedSums;
}

/** Adds all rows of the ledger, in their order. @returns how many verdicts there were */
async function countAgain(
  reader: Reader,
  recount: SliceCounting,
  versions: readonly CountedVersion[],
  { shown: { generation, upTo, lineage }, isCounted, sums }: CountedAgain,
): Promise<number> {
  const isInOrder = !hasArrivals(lineage);
  let verdicts = 0;
  let batches = FIRST_SPAN;
  let newest: bigint | null = null;
  for (let after = -1; after < upTo; ) {
    const began = performance.now();
    const end = Math.min(upTo, after + batches * BATCH_NUMBERS);
    const since = isInOrder && newest !== null ? (timestampText(newest - DAY_MICROS) ?? '') : '-infinity';
    const [[count, latest] = []] = await reader.query(MEASURE, [after, end, since]);
    const slice = {
      generation,
      after,
      upTo: end,
      since,
      rows: Number(count),
      lineage,
      isInOrder,
      isShown: false,
      mayTakeCores: true,
    };
    // Attributions have numbers, too, so a slice without verdicts may move rounds.
    const reading = { scope: countedScopeOf(versions), records: null, sums };
    const { reversals, entries } = await readCountedRows(reader, slice, reading);
    const changes = new ProgressChanges();
    for (const pages of [reversals, entries])
      for await (const page of pages)
        for (const row of page) if (isCounted(row.playerRef)) changes.addRow(row, recount.matchRow(row));
    recount.count(changes.inOrder());
    if (latest != null) newest = later(newest, BigInt(latest));
    verdicts += Number(count);
    batches = nextSpan({ batches, rows: Number(count), ms: performance.now() - began }, GOAL);
    after = end;
  }
  return verdicts;
}

/** The rules of the comparison. */
interface ComparisonRules {
  /** The versions that are counted again. */
  readonly known: ReadonlySet<string>;
  /** Windows that began before this time are not compared. */
  readonly since: bigint;
  /** Operators with an erasure that may explain other ranks of players with equal points. */
  readonly unsure: ReadonlySet<string>;
  /** Operators with an erasure that has not ended. */
  readonly erasing: ReadonlySet<string>;
  /** The leaderboards that are closed, by the number of the window. */
  readonly boards: ReadonlySet<number>;
  readonly isCounted: (player: string) => boolean;
  /** All players are counted. */
  readonly isWhole: boolean;
}

/**
 * The values of all erased players of a window, stored ones less those of the ledger. An erasure that was
 * interrupted and begun again has two names, and progress got the first one as a whole.
 */
class ErasedSums {
  private readonly sums = new Map<string, Map<string, ProgressRow>>();

  add(source: string, rows: readonly ProgressRow[], sign: 1n | -1n): void {
    const sums = this.sums.get(source) ?? new Map<string, ProgressRow>();
    this.sums.set(source, sums);
    for (const { item, currency, value } of rows) {
      const key = `${item}\0${currency}`;
      sums.set(key, { item, currency, value: (sums.get(key)?.value ?? 0n) + sign * value });
    }
  }

  *damages(): Generator<RecountDamage> {
    for (const [source, sums] of this.sums) {
      const values = valuesText([...sums.values()], 0n);
      if (values !== 'nothing')
        yield { source, what: `the progress of erased players differs from the ledger by ${values}` };
    }
  }
}

async function compareAll(
  reader: Reader,
  generation: number,
  counting: Counting,
  { known, since, unsure, erasing, boards, isCounted, isWhole }: ComparisonRules,
  damages: DamageList,
): Promise<{ compared: number; skipped: number }> {
  const expected = new Map<string, PlayerProgress>();
  for (const progress of counting.progress()) expected.set(keyOf(progress), progress);
  let compared = 0;
  let skipped = 0;
  const erased = new ErasedSums();
  for await (const row of storedProgress(reader, generation)) {
    const { operator, promotion, version, window, playerRef, startsAt } = row;
    if (!isCounted(playerRef)) continue;
    const source = `${operator}/${promotion}/${window}`;
    const key = `${keyOfVersion(operator, promotion, version)}\0${window}\0${playerRef}`;
    const progress = expected.get(key);
    expected.delete(key);
    const isOlder = (startsAt ?? BEFORE_ALL) < since;
    if (isOlder || !known.has(keyOfVersion(operator, promotion, version))) {
      skipped++;
      continue;
    }
    compared++;
    const isBeingErased = erasing.has(operator) && row.values !== valuesOf(progress);
    if (ERASED.test(playerRef) || isBeingErased) {
      erased.add(source, row.rows, 1n);
      erased.add(source, progress?.rows() ?? [], -1n);
      continue;
    }
    const hasRanks = boards.has(row.windowNo) && !unsure.has(operator);
    for (const what of differencesOf(row, progress, !row.isBoard || hasRanks)) damages.add({ source, what });
  }
  for (const progress of expected.values()) {
    const { promotion, window, playerRef } = progress;
    const { operator, id } = promotion.definition;
    const values = valuesText(progress.rows(), progress.score);
    if (values === 'nothing' || (window.startsAt ?? BEFORE_ALL) < since) continue;
    const source = `${operator}/${id}/${window.key}`;
    if (ERASED.test(playerRef) || erasing.has(operator)) {
      erased.add(source, progress.rows(), -1n);
      continue;
    }
    const what = `a player has no progress, and the ledger gives ${values}, by the change ${progress.lastStep?.changeNo}`;
    damages.add({ source, what });
  }
  // A sample has no erased players, so it lacks what a player who is being erased has lost.
  if (isWhole) for (const damage of erased.damages()) damages.add(damage);
  return { compared, skipped };
}

/** Sentences that name no player. */
function differencesOf(row: StoredRow, progress: PlayerProgress | undefined, hasRanks: boolean): string[] {
  const found: string[] = [];
  const subject = `the progress that the change ${row.changedNo} changed last`;
  const values = valuesOf(progress);
  if (row.values !== values) found.push(`${subject} is ${row.values}, and the ledger gives ${values}`);
  const ordinals = progress === undefined ? [] : [...heldBy(progress).keys()];
  const held = ordinals.sort((a, b) => a - b).join();
  if (hasRanks && row.held !== held)
    found.push(
      `${subject} holds the completions ${row.held || 'none'}, and the ledger gives ${held || 'none'}`,
    );
  return found;
}

const valuesOf = (progress: PlayerProgress | undefined): string =>
  progress === undefined ? 'nothing' : valuesText(progress.rows(), progress.score);

const keyOfVersion = (operator: string, promotion: string, version: number): string =>
  `${operator}\0${promotion}\0${version}`;

function keyOf({ promotion: { definition }, version, window, playerRef }: PlayerProgress): string {
  return `${keyOfVersion(definition.operator, definition.id, version)}\0${window.key}\0${playerRef}`;
}

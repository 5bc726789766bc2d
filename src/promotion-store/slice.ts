/**
 * One slice of promotions (docs/rules.md, P1-P16), part by part. A part has all rows of some players. So
 * their progress is looked up once, changed in memory, and written once, and memory holds few players.
 */
import type { Session } from '../postgres/transaction';
import { later } from '../promotions/calendar';
import type { CountedVersion } from './counted-versions';
import { type CountedReading, type CountedRow, readCountedRows } from './credits';
import { takeJoined } from './joins';
import type { MeasuredSlice } from './ledger-rows';
import { WindowNumbers } from './progress-rows';
import { type SliceOptions, SlicePart } from './slice-part';
import { countRanks, RankedRows } from './slice-ranks';
import { MatchedRows, SliceRows } from './slice-rows';

/** Parts in memory: the store looks one up or writes it, while this process counts another one. */
const PARTS_AT_ONCE = 3;

export interface CountedSlice extends SliceOptions {
  readonly slice: MeasuredSlice;
  readonly versions: readonly CountedVersion[];
  readonly reading: CountedReading;
  /** No verdict of the slice and no closed leaderboard has a later time. Microseconds since 1970. */
  readonly latest: bigint | null;
  /** All rows from before this time are counted with the slice, in microseconds since 1970. */
  readonly asOf: bigint;
}

export async function countSlice(session: Session, counted: CountedSlice): Promise<void> {
  const { slice, versions, reading, latest, asOf } = counted;
  const { newestChange, pages } = await readCountedRows(session, slice, reading);
  const ranked = new RankedRows(versions, later(latest, newestChange));
  await countJoined(session, counted, ranked);
  const numbers = new WindowNumbers();
  const running: Promise<void>[] = [];
  let open: SlicePart | null = null;
  for await (const { rows, isWhole } of playersOf(pages)) {
    // The part of a player with many rows goes on.
    if (open !== null) await Promise.all(running.splice(0));
    const part: SlicePart = open ?? new SlicePart(session, counted, new SliceRows(versions), numbers);
    const counting = countPart(part, rows, isWhole);
    // Its failure is met below.
    counting.catch(() => {});
    running.push(counting);
    if (running.length >= PARTS_AT_ONCE) await running.shift();
    open = isWhole ? null : part;
  }
  await Promise.all(running);
  await countRanks(session, counted, ranked, asOf);

  async function countPart(part: SlicePart, rows: readonly CountedRow[], isWhole: boolean): Promise<void> {
    const matched = new MatchedRows();
    for (const row of rows) {
      const credited = ranked.take(row, part.rows.match(row));
      if (credited.length > 0) matched.add(row, credited);
    }
    await part.restore();
    part.count(matched.inOrder());
    if (isWhole) await part.save(asOf);
  }
}

/**
 * Judges progress that an erasure has joined, before rows change it: it may be worth other completions than
 * those that hold, and another rank.
 */
export async function countJoined(
  session: Session,
  { versions, asOf, ...options }: SliceOptions & Pick<CountedSlice, 'versions' | 'asOf'>,
  ranked: RankedRows,
): Promise<void> {
  const joined = await takeJoined(session, options.generation);
  if (joined.length === 0) return;
  const part = new SlicePart(session, options, new SliceRows(versions));
  const matched = new MatchedRows();
  for (const each of joined) {
    const version = part.rows.versionOf(each);
    if (version === undefined || ranked.takeStep(each, { version, window: each.window }, each.playerRef))
      continue;
    matched.addStep(each, part.rows.counting.progressOf(version, each.window, each.playerRef));
  }
  await part.restore();
  part.count(matched.inOrder());
  await part.save(asOf);
}

/** Rows of some players. */
interface PlayerRows<R> {
  readonly rows: readonly R[];
  /** Whether they are all rows of their players, with those before. */
  readonly isWhole: boolean;
}

/** Cuts pages of rows where a player ends and the next one begins. A player may have more than a page. */
export async function* playersOf<R extends Pick<CountedRow, 'playerRef'>>(
  pages: AsyncIterable<readonly R[]>,
): AsyncGenerator<PlayerRows<R>> {
  let held: readonly R[] = [];
  for await (const page of pages) {
    const rows = held.length === 0 ? page : [...held, ...page];
    const last = rows.at(-1)?.playerRef;
    const end = rows.findLastIndex(({ playerRef }) => playerRef !== last) + 1;
    if (end === 0) yield { rows, isWhole: false };
    else yield { rows: rows.slice(0, end), isWhole: true };
    held = end === 0 ? [] : rows.slice(end);
  }
  yield { rows: held, isWhole: true };
}

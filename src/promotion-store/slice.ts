/**
 * One slice of promotions (docs/rules.md, P1-P16). It restores progress, and counts rows by the code that
 * counts files. Then it saves progress, attempts and completions.
 */
import type { Session } from '../postgres/transaction';
import type { PromotionWindow } from '../promotions/calendar';
import { Counting, type Hit, hitsOf } from '../promotions/counting';
import type { PlayerProgress } from '../promotions/player-progress';
import { enterCompletions } from './completions';
import type { CountedVersion } from './counted-versions';
import type { CountedRow } from './credits';
import * as stored from './progress-rows';

export interface CountedSlice {
  readonly generation: number;
  /** Whether readers see the generation: only this one changes the ledger of completions. */
  readonly isShown: boolean;
  readonly versions: readonly CountedVersion[];
  /** In the order of their numbers. */
  readonly rows: readonly CountedRow[];
  /** All rows from before this time are counted, in microseconds since 1970. */
  readonly asOf: bigint;
}

/** Players whose completions are confirmed in one slice. The others follow in the next one. */
const CONFIRMED_AT_ONCE = 2_000;

type Matched = readonly [row: CountedRow, hits: readonly Hit<CountedVersion>[]];
/** A leaderboard that is closed, or closes in the slice. */
interface StoredBoard extends stored.StoredWindow {
  readonly wasClosed: boolean;
  readonly players: readonly PlayerProgress[];
}

export async function countSlice(session: Session, slice: CountedSlice): Promise<void> {
  const { generation, isShown, versions, rows, asOf } = slice;
  const matched = rows.map((row): Matched => [row, hitsOf(versions, row.entry, row.at)]);
  const places = new Places(versions);
  places.number(await stored.numberWindows(session, windowsOf(matched)));
  for (const [{ playerRef }, hits] of matched)
    for (const { version, window } of hits) places.progressOf(version, window, playerRef);
  const boards = await findBoards(session, slice, matched, places);
  for (const due of await stored.dueConfirmations(session, generation, asOf, CONFIRMED_AT_ONCE)) {
    const version = places.versionOf(due);
    if (version === undefined) continue;
    places.number([{ ...due, version }]);
    places.progressOf(version, due.window, due.playerRef);
  }
  const rowPlaces = await stored.loadProgress(session, generation, [...places.all()]);

  const { counting } = places;
  for (const { version, window, wasClosed, players } of boards) {
    const board = counting.judge.boardOf({ promotion: version.promotion, version: version.version, window });
    for (const progress of players) board.players.add(progress);
    if (wasClosed) board.restoreClosed();
  }
  for (const [, progress] of places.all()) if (progress.hasAttempts) counting.judge.await(progress);
  for (const [{ playerRef, sign, changeNo, at }, hits] of matched)
    counting.addHits(hits, playerRef, sign, { changeNo, at });
  const { entries, changed } = counting.endSlice(asOf);

  await stored.saveProgress(
    session,
    generation,
    [...places.all()].filter(([, { lastStep }]) => lastStep !== null),
    rowPlaces,
  );
  await stored.saveAttempts(
    session,
    generation,
    [...changed].map(([progress, ordinals]) => [places.windowNoOf(progress), progress, ordinals]),
  );
  const closing = boards.filter(({ wasClosed }) => !wasClosed).map(({ windowNo }) => windowNo);
  await stored.closeBoards(session, generation, closing);
  if (!isShown) return;
  await enterCompletions(
    session,
    entries.map(([progress, entry]) => [places.windowNoOf(progress), entry]),
  );
}

function windowsOf(matched: readonly Matched[]): Omit<stored.StoredWindow, 'windowNo'>[] {
  const windows = new Map<CountedVersion, Map<string, PromotionWindow>>();
  for (const [, hits] of matched)
    for (const { version, window } of hits) {
      const byKey = windows.get(version) ?? new Map<string, PromotionWindow>();
      windows.set(version, byKey);
      if (!byKey.has(window.key)) byKey.set(window.key, window);
    }
  return [...windows].flatMap(([version, byKey]) =>
    [...byKey.values()].map((window) => ({ version, window })),
  );
}

/** The progress that a slice needs, with the numbers of its windows. */
class Places {
  readonly counting: Counting;
  private readonly windows = new Map<CountedVersion, Map<string, number>>();
  private readonly placed = new Map<PlayerProgress, number>();

  constructor(private readonly versions: readonly CountedVersion[]) {
    this.counting = new Counting(versions);
  }

  versionOf({
    promotionNo,
    version,
  }: Pick<stored.DueWindow, 'promotionNo' | 'version'>): CountedVersion | undefined {
    return this.versions.find((each) => each.promotionNo === promotionNo && each.version === version);
  }

  number(windows: readonly stored.StoredWindow[]): void {
    for (const { windowNo, version, window } of windows) {
      const byKey = this.windows.get(version) ?? new Map<string, number>();
      this.windows.set(version, byKey);
      byKey.set(window.key, windowNo);
    }
  }

  progressOf(version: CountedVersion, window: PromotionWindow, playerRef: string): PlayerProgress {
    const windowNo = this.windowNoIn(version, window);
    const progress = this.counting.progressOf(version, window, playerRef);
    this.placed.set(progress, windowNo);
    return progress;
  }

  windowNoIn(version: CountedVersion, window: PromotionWindow): number {
    const windowNo = this.windows.get(version)?.get(window.key);
    if (windowNo === undefined) throw new RangeError('a window of the slice has no number');
    return windowNo;
  }

  windowNoOf(progress: PlayerProgress): number {
    const windowNo = this.placed.get(progress);
    if (windowNo === undefined) throw new RangeError('progress of the slice has no place');
    return windowNo;
  }

  *all(): Generator<stored.Placed> {
    for (const [progress, windowNo] of this.placed) yield [windowNo, progress];
  }
}

/** The leaderboards that are closed or close in the slice, each with the players that it may rank. */
async function findBoards(
  session: Session,
  { generation, versions, asOf }: CountedSlice,
  matched: readonly Matched[],
  places: Places,
): Promise<StoredBoard[]> {
  if (!versions.some(({ promotion }) => promotion.goal.rule === 'rank')) return [];
  /** Windows with rows of the slice: their latest row, and how many there are. */
  const touched = new Map<
    number,
    { readonly version: CountedVersion; readonly window: PromotionWindow; latest: bigint; rows: number }
  >();
  for (const [{ at }, hits] of matched)
    for (const { version, window } of hits) {
      if (version.promotion.goal.rule !== 'rank') continue;
      const windowNo = places.windowNoIn(version, window);
      const found = touched.get(windowNo) ?? { version, window, latest: at, rows: 0 };
      touched.set(windowNo, found);
      found.rows++;
      if (at > found.latest) found.latest = at;
    }
  for (const due of await stored.dueBoards(session, generation, asOf)) {
    const version = places.versionOf(due);
    if (version === undefined || touched.has(due.windowNo)) continue;
    places.number([{ ...due, version }]);
    touched.set(due.windowNo, { version, window: due.window, latest: asOf, rows: 0 });
  }
  const closed = await stored.closedBoards(session, generation, [...touched.keys()]);
  const boards: StoredBoard[] = [];
  for (const [windowNo, { version, window, latest, rows }] of touched) {
    const wasClosed = closed.has(windowNo);
    const closesAt = stored.closeOf(version, window);
    const closes = closesAt !== null && (latest >= closesAt || asOf >= closesAt);
    if (!wasClosed && !closes) continue;
    const { goal } = version.promotion;
    const most = (goal.rule === 'rank' ? goal.keepRanks : 0) + rows;
    const refs = await stored.rankedPlayers(session, generation, windowNo, most);
    const players = refs.map((playerRef) => places.progressOf(version, window, playerRef));
    boards.push({ windowNo, version, window, wasClosed, players });
  }
  return boards;
}

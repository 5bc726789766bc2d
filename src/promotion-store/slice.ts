/**
 * One slice of promotions (docs/rules.md, P1-P16). It restores progress, and counts rows by the code that
 * counts files. Then it saves progress, attempts and completions.
 */
import type { Session } from '../postgres/transaction';
import type { PlayerProgress } from '../promotions/player-progress';
import * as boardRows from './board-rows';
import { enterCompletions } from './completions';
import * as stored from './progress-rows';
import type { SliceRows } from './slice-rows';

export interface CountedSlice {
  readonly generation: number;
  /** Whether readers see the generation: only this one changes the ledger of completions. */
  readonly isShown: boolean;
  /** The rows of the slice, and the progress that they change. */
  readonly rowsOfSlice: SliceRows;
  /** All rows from before this time are counted, in microseconds since 1970. */
  readonly asOf: bigint;
}

/** Players whose completions are confirmed in one slice. The others follow in the next one. */
const CONFIRMED_AT_ONCE = 2_000;

/** A leaderboard that is closed, or closes in the slice. */
interface StoredBoard extends stored.StoredWindow {
  readonly wasClosed: boolean;
  readonly players: readonly PlayerProgress[];
}

export async function countSlice(session: Session, slice: CountedSlice): Promise<void> {
  const { generation, isShown, rowsOfSlice, asOf } = slice;
  rowsOfSlice.number(await stored.numberWindows(session, rowsOfSlice.windowsToNumber()));
  const boards = await findBoards(session, slice);
  for (const due of await boardRows.dueConfirmations(session, generation, asOf, CONFIRMED_AT_ONCE)) {
    const version = rowsOfSlice.versionOf(due);
    if (version === undefined) continue;
    rowsOfSlice.number([{ ...due, version }]);
    rowsOfSlice.progressOf(version, due.window, due.playerRef);
  }
  const all = rowsOfSlice.all();
  const rowPlaces = await stored.loadProgress(session, generation, all);

  const { counting } = rowsOfSlice;
  for (const { version, window, wasClosed, players } of boards) {
    const board = counting.judge.boardOf({ promotion: version.promotion, version: version.version, window });
    for (const progress of players) board.players.add(progress);
    if (wasClosed) board.restoreClosed();
  }
  for (const [, progress] of all) if (progress.hasAttempts) counting.judge.await(progress);
  for (const { credited, sign, changeNo, at } of rowsOfSlice.rows)
    counting.addCredits(credited, sign, { changeNo, at });
  const { entries, changed } = counting.endSlice(asOf);

  const windowNoOf = (progress: PlayerProgress) => rowsOfSlice.placeOf(progress).windowNo;
  await stored.saveProgress(
    session,
    generation,
    all.filter(([, { lastStep }]) => lastStep !== null),
    rowPlaces,
  );
  await stored.saveAttempts(
    session,
    generation,
    [...changed].map(([progress, ordinals]) => [windowNoOf(progress), progress, ordinals]),
  );
  const closing = boards.filter(({ wasClosed }) => !wasClosed).map(({ windowNo }) => windowNo);
  await boardRows.closeBoards(session, generation, closing);
  if (!isShown) return;
  await enterCompletions(
    session,
    entries.map(([progress, entry]) => [windowNoOf(progress), entry]),
  );
}

/** The leaderboards that are closed or close in the slice, each with the players that it may rank. */
async function findBoards(
  session: Session,
  { generation, rowsOfSlice, asOf }: CountedSlice,
): Promise<StoredBoard[]> {
  if (!rowsOfSlice.hasBoards) return [];
  /** Windows with rows of the slice: their latest row, and how many there are. */
  const touched = new Map<number, stored.StoredWindow & { latest: bigint; rows: number }>();
  for (const { at, credited } of rowsOfSlice.rows)
    for (const { progress } of credited) {
      if (progress.promotion.goal.rule !== 'rank') continue;
      const place = rowsOfSlice.placeOf(progress);
      const found = touched.get(place.windowNo);
      if (found === undefined) touched.set(place.windowNo, { ...place, latest: at, rows: 1 });
      else {
        found.rows++;
        if (at > found.latest) found.latest = at;
      }
    }
  for (const due of await boardRows.dueBoards(session, generation, asOf)) {
    const version = rowsOfSlice.versionOf(due);
    if (version === undefined || touched.has(due.windowNo)) continue;
    rowsOfSlice.number([{ ...due, version }]);
    touched.set(due.windowNo, { ...due, version, latest: asOf, rows: 0 });
  }
  const closed = await boardRows.closedBoards(session, generation, [...touched.keys()]);
  const boards: StoredBoard[] = [];
  for (const [windowNo, { version, window, latest, rows }] of touched) {
    const wasClosed = closed.has(windowNo);
    const closesAt = stored.closeOf(version, window);
    const closes = closesAt !== null && (latest >= closesAt || asOf >= closesAt);
    if (!wasClosed && !closes) continue;
    const { goal } = version.promotion;
    const most = (goal.rule === 'rank' ? goal.keepRanks : 0) + rows;
    const refs = await boardRows.rankedPlayers(session, generation, windowNo, most);
    const players = refs.map((playerRef) => rowsOfSlice.progressOf(version, window, playerRef));
    boards.push({ windowNo, version, window, wasClosed, players });
  }
  return boards;
}

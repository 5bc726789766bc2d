/**
 * One slice of promotions (docs/rules.md, P1-P16). It restores progress, and counts rows by the code that
 * counts files. Then it saves progress, attempts and completions.
 *
 * Rows are counted part by part, so that memory holds the progress that they change, and few of them.
 */
import type { Session } from '../postgres/transaction';
import type { ProgressWindow } from '../promotions/player-progress';
import * as boardRows from './board-rows';
import { enterCompletions } from './completions';
import { takeJoined } from './joins';
import * as stored from './progress-rows';
import type { MatchedRow, SliceRows } from './slice-rows';

export interface SliceOptions {
  readonly generation: number;
  /** Whether readers see the generation: only this one changes the ledger of completions. */
  readonly isShown: boolean;
  /** The progress that the rows of the slice change. */
  readonly rowsOfSlice: SliceRows;
  /** The generation has no progress yet. */
  readonly isEmpty: boolean;
}

/** Players whose completions are confirmed in one slice. The others follow in the next one. */
const CONFIRMED_AT_ONCE = 2_000;

/** The leaderboard of a window with rows of the slice, or of one that is due. */
interface SliceBoard extends stored.StoredWindow {
  /** Whether a slice before has closed it. */
  readonly wasClosed: boolean;
  /** The time of the latest row, in microseconds since 1970. */
  latest: bigint;
  /** Rows so far: each may take a player from the ranks. */
  rows: number;
  /** Whether its players are in memory: those who may be ranked. */
  isOpen: boolean;
}

export class CountedSlice {
  private readonly boards = new Map<number, SliceBoard>();

  constructor(
    private readonly session: Session,
    private readonly options: SliceOptions,
  ) {}

  /**
   * Judges progress that an erasure has joined, before rows change it: it may be worth other completions than
   * those that hold, and another rank.
   */
  async countJoined(): Promise<void> {
    const { generation, rowsOfSlice } = this.options;
    const rows: MatchedRow[] = [];
    for (const each of await takeJoined(this.session, generation)) {
      const version = rowsOfSlice.versionOf(each);
      if (version === undefined) continue;
      rowsOfSlice.number([{ ...each, version }]);
      const progress = rowsOfSlice.counting.progressOf(version, each.window, each.playerRef);
      const { changeNo, at } = each;
      // Without credits, the row is only a step at which progress is judged.
      rows.push({ changeNo, at, sign: 1n, credited: [{ progress, credits: [] }] });
    }
    if (rows.length > 0) {
      const count = await this.prepareRows(rows);
      count();
    }
  }

  /**
   * Restores the progress that the rows of a part change. Parts follow one another.
   *
   * @returns counts the rows, in the order of their numbers
   */
  async prepareRows(rows: readonly MatchedRow[]): Promise<() => void> {
    const { rowsOfSlice } = this.options;
    const unnumbered = rowsOfSlice.windowsToNumber();
    if (unnumbered.length > 0) rowsOfSlice.number(await stored.numberWindows(this.session, unnumbered));
    await this.prepare(await this.touchBoards(rows), null);
    return () => {
      for (const { credited, sign, changeNo, at } of rows)
        rowsOfSlice.counting.addCredits(credited, sign, { changeNo, at });
    };
  }

  /**
   * Judges what was counted, and saves it.
   *
   * @param asOf all rows from before this time are counted, in microseconds since 1970
   */
  async end(asOf: bigint): Promise<void> {
    const { session } = this;
    const { generation, isShown, rowsOfSlice } = this.options;
    const due = [...this.boards.values()].filter(({ isOpen }) => !isOpen);
    for (const each of rowsOfSlice.hasBoards ? await boardRows.dueBoards(session, generation, asOf) : []) {
      const version = rowsOfSlice.versionOf(each);
      if (version === undefined || this.boards.has(each.windowNo)) continue;
      rowsOfSlice.number([{ ...each, version }]);
      const board = { ...each, version, wasClosed: false, latest: asOf, rows: 0, isOpen: false };
      this.boards.set(each.windowNo, board);
      due.push(board);
    }
    for (const each of await boardRows.dueConfirmations(session, generation, asOf, CONFIRMED_AT_ONCE)) {
      const version = rowsOfSlice.versionOf(each);
      if (version === undefined) continue;
      rowsOfSlice.number([{ ...each, version }]);
      rowsOfSlice.counting.progressOf(version, each.window, each.playerRef);
    }
    await this.prepare(due, asOf);
    const { entries, changed } = rowsOfSlice.counting.endSlice(asOf);
    await stored.saveProgress(
      session,
      generation,
      rowsOfSlice.counting.found.filter(({ lastStep }) => lastStep !== null),
    );
    await stored.saveAttempts(session, generation, changed);
    const closing = [...this.boards.values()].filter(({ isOpen, wasClosed }) => isOpen && !wasClosed);
    await boardRows.closeBoards(
      session,
      generation,
      closing.map(({ windowNo }) => windowNo),
    );
    if (!isShown) return;
    await enterCompletions(
      session,
      entries.map(([progress, entry]) => [stored.windowNoOf(progress), entry]),
    );
  }

  /** @returns the leaderboards that the rows touch, with their rows so far */
  private async touchBoards(rows: readonly MatchedRow[]): Promise<SliceBoard[]> {
    const { generation, rowsOfSlice } = this.options;
    if (!rowsOfSlice.hasBoards) return [];
    const touched = new Map<ProgressWindow, { latest: bigint; rows: number }>();
    for (const { at, credited } of rows)
      for (const { progress } of credited) {
        const { place } = progress;
        if (place.version.promotion.goal.rule !== 'rank') continue;
        const found = touched.get(place);
        if (found === undefined) touched.set(place, { latest: at, rows: 1 });
        else {
          found.rows++;
          if (at > found.latest) found.latest = at;
        }
      }
    const windows = [...rowsOfSlice.counting.windows()].flatMap((place) => {
      const { version, window, windowNo } = place;
      const found = touched.get(place);
      return found === undefined || windowNo === null ? [] : [{ version, window, windowNo, ...found }];
    });
    const unknown = windows.map(({ windowNo }) => windowNo).filter((windowNo) => !this.boards.has(windowNo));
    const closed = await boardRows.closedBoards(this.session, generation, unknown);
    return windows.map((each) => {
      const board = this.boards.get(each.windowNo);
      if (board === undefined) {
        const made = { ...each, wasClosed: closed.has(each.windowNo), isOpen: false };
        this.boards.set(each.windowNo, made);
        return made;
      }
      board.rows += each.rows;
      if (each.latest > board.latest) board.latest = each.latest;
      return board;
    });
  }

  /**
   * Restores the progress that is not in memory yet, and with it the players of leaderboards that are closed,
   * or close by now.
   *
   * @param asOf see end; null: more rows follow
   */
  private async prepare(boards: readonly SliceBoard[], asOf: bigint | null): Promise<void> {
    const { generation, rowsOfSlice, isEmpty } = this.options;
    const { counting } = rowsOfSlice;
    const { judge } = counting;
    const opened: [SliceBoard, players: readonly string[], isNew: boolean][] = [];
    for (const board of boards) {
      const { windowNo, version, window, wasClosed, latest, rows, isOpen } = board;
      const closesAt = stored.closeOf(version, window);
      const closes = closesAt !== null && (latest >= closesAt || (asOf !== null && asOf >= closesAt));
      if (!wasClosed && !closes) continue;
      const { goal } = version.promotion;
      const most = (goal.rule === 'rank' ? goal.keepRanks : 0) + rows;
      const players = await boardRows.rankedPlayers(this.session, generation, windowNo, most);
      for (const playerRef of players) counting.progressOf(version, window, playerRef);
      opened.push([board, players, !isOpen]);
      board.isOpen = true;
    }
    const fresh = rowsOfSlice.takeFresh();
    if (!isEmpty) await stored.loadProgress(this.session, generation, fresh);
    for (const progress of fresh) judge.await(progress);
    for (const [{ version, window, wasClosed }, players, isNew] of opened) {
      const board = judge.boardOf({ promotion: version.promotion, window });
      for (const playerRef of players) board.players.add(counting.progressOf(version, window, playerRef));
      if (isNew && wasClosed) board.restoreClosed();
    }
  }
}

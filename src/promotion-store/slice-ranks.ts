/**
 * The leaderboards of a slice that are closed, or close in it (docs/rules.md, P10, P15). A row then changes
 * the ranks of several players, so the rows of all players are counted together, in the order of their
 * numbers.
 */
import type { Session } from '../postgres/transaction';
import { closeOf } from '../promotions/board';
import type { CreditedProgress } from '../promotions/counting';
import type { PlayerProgress, ProgressWindow } from '../promotions/player-progress';
import { keptRanks } from '../promotions/ranking';
import * as boardRows from './board-rows';
import type { PlacedEntry } from './completions';
import type { CountedVersion } from './counted-versions';
import type * as stored from './progress-rows';
import { type ProgressChange, ProgressChanges, SliceCounting } from './slice-counting';
import { type SliceOptions, SlicePart } from './slice-part';

/** Players whose completions are confirmed in one slice. The others follow in the next one. */
const CONFIRMED_AT_ONCE = 2_000;

/** The leaderboard of a window with rows of the slice, or of one that is due. */
interface TouchedBoard extends stored.StoredWindow {
  /** The time of the latest row, in microseconds since 1970. */
  readonly latest: bigint;
  /** Rows of the slice: each may take a player from the ranks. */
  readonly rows: number;
}

/** A leaderboard that is closed, or closes by now. */
interface OpenBoard extends stored.StoredWindow {
  /** Whether a slice before has closed it. */
  readonly wasClosed: boolean;
  /** The best players of before the slice. */
  readonly players: readonly PlayerProgress[];
}

/** The changes of progress that change ranks, until the rows of all players are read. */
export class HeldRankChanges {
  readonly counting: SliceCounting;
  private readonly changes = new ProgressChanges();

  /** @param until the last close of a leaderboard with ranks, in microseconds since 1970; null: none */
  constructor(
    versions: readonly CountedVersion[],
    private readonly until: bigint | null,
  ) {
    this.counting = new SliceCounting(versions);
  }

  /** Keeps the progress that has ranks. @returns the change of the other progress */
  take(change: ProgressChange): ProgressChange {
    const { credited } = change;
    if (!credited.some(({ progress }) => this.hasRanks(progress.place))) return change;
    const ranked: CreditedProgress[] = [];
    const others: CreditedProgress[] = [];
    for (const each of credited)
      if (this.hasRanks(each.progress.place))
        ranked.push({ ...each, progress: this.counting.progressLike(each.progress) });
      else others.push(each);
    this.changes.addChange({ ...change, credited: ranked });
    return { ...change, credited: others };
  }

  /** Adds a step at which progress is judged. @returns false where it changes no ranks */
  takeStep(
    step: Pick<ProgressChange, 'changeNo' | 'at'>,
    { version, window }: Pick<ProgressWindow<CountedVersion>, 'version' | 'window'>,
    playerRef: string,
  ): boolean {
    if (!this.hasRanks({ version, window })) return false;
    this.changes.addStep(step, this.counting.progressOf(version, window, playerRef));
    return true;
  }

  inOrder(): readonly ProgressChange[] {
    return this.changes.inOrder();
  }

  private hasRanks(place: Pick<ProgressWindow, 'version' | 'window'>): boolean {
    const closesAt = closeOf(place.version, place.window);
    return closesAt !== null && this.until !== null && closesAt <= this.until;
  }
}

/**
 * Counts the rows that change ranks, closes the leaderboards that are due, and confirms completions.
 *
 * @param asOf all rows from before this time are counted, in microseconds since 1970
 * @returns the entries of the ledger of completions, which are not written yet
 */
export async function countRanks(
  session: Session,
  { generation }: Pick<SliceOptions, 'generation'>,
  ranked: HeldRankChanges,
  asOf: bigint,
): Promise<PlacedEntry[]> {
  const { counting } = ranked;
  const part = new SlicePart(session, { generation, isEmpty: false }, counting);
  const changes = ranked.inOrder();
  await part.numberWindows();
  const boards = counting.hasBoards ? await openBoards(session, generation, counting, changes, asOf) : [];
  for (const each of await boardRows.dueConfirmations(session, generation, asOf, CONFIRMED_AT_ONCE)) {
    const version = counting.versionOf(each);
    if (version === undefined) continue;
    counting.number([{ ...each, version }]);
    counting.progressOf(version, each.window, each.playerRef);
  }
  await part.restore();
  for (const { version, window, wasClosed, players } of boards) {
    const board = counting.judge.boardOf(counting.windowOf(version, window));
    for (const progress of players) board.players.add(progress);
    if (wasClosed) board.restoreClosed();
  }
  part.count(changes);
  const entries = await part.save(asOf);
  const closed = boards.filter(({ wasClosed }) => !wasClosed).map(({ windowNo }) => windowNo);
  await boardRows.closeBoards(session, generation, closed);
  return entries;
}

/** @returns the leaderboards that are closed, or close by now, with the players who may be ranked */
async function openBoards(
  session: Session,
  generation: number,
  counting: SliceCounting,
  changes: readonly ProgressChange[],
  asOf: bigint,
): Promise<OpenBoard[]> {
  const touched = touchedBoards(counting, changes);
  const wasClosed = await boardRows.closedBoards(
    session,
    generation,
    touched.map(({ windowNo }) => windowNo),
  );
  const isTouched = new Set(touched.map(({ windowNo }) => windowNo));
  const due: TouchedBoard[] = [];
  for (const each of await boardRows.dueBoards(session, generation, asOf)) {
    const version = counting.versionOf(each);
    if (version === undefined || isTouched.has(each.windowNo)) continue;
    counting.number([{ ...each, version }]);
    due.push({ ...each, version, latest: asOf, rows: 0 });
  }
  const opened: OpenBoard[] = [];
  for (const board of [...touched, ...due]) {
    const { version, window, windowNo, latest } = board;
    const closesAt = closeOf(version, window);
    const closes = closesAt !== null && (latest >= closesAt || asOf >= closesAt);
    if (!wasClosed.has(windowNo) && !closes) continue;
    const most = keptRanks(version.promotion) + board.rows;
    const refs = await boardRows.rankedPlayers(session, generation, windowNo, most);
    const players = refs.map((playerRef) => counting.progressOf(version, window, playerRef));
    opened.push({ windowNo, version, window, wasClosed: wasClosed.has(windowNo), players });
  }
  return opened;
}

function touchedBoards(counting: SliceCounting, changes: readonly ProgressChange[]): TouchedBoard[] {
  const touched = new Map<ProgressWindow, { latest: bigint; rows: number }>();
  for (const { at, credited } of changes)
    for (const { progress } of credited) {
      const found = touched.get(progress.place);
      if (found === undefined) touched.set(progress.place, { latest: at, rows: 1 });
      else {
        found.rows++;
        if (at > found.latest) found.latest = at;
      }
    }
  return [...counting.windows()].flatMap((place) => {
    const { version, window, windowNo } = place;
    const found = touched.get(place);
    return found === undefined || windowNo === null ? [] : [{ version, window, windowNo, ...found }];
  });
}

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
import { type ProgressChange, ProgressChanges, SliceCounting } from './slice-counting';
import { type SliceOptions, SlicePart } from './slice-part';
import { WindowNumbers, windowNoOf } from './windows';

/** Players whose completions are confirmed in one slice. The others follow in the next one. */
const CONFIRMED_AT_ONCE = 2_000;

/** The rows of a slice in a leaderboard, or of one that is due. */
interface BoardRows {
  /** The time of the latest one, in microseconds since 1970. */
  latest: bigint;
  /** Each may take a player from the ranks. */
  rows: number;
}

/** A leaderboard that is closed, or closes by now. */
interface OpenBoard {
  readonly place: ProgressWindow<CountedVersion>;
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
    place: ProgressWindow<CountedVersion>,
    playerRef: string,
  ): boolean {
    if (!this.hasRanks(place)) return false;
    this.changes.addStep(step, this.counting.progressOf(place.version, place.window, playerRef));
    return true;
  }

  inOrder(): readonly ProgressChange[] {
    return this.changes.inOrder();
  }

  private hasRanks({ version, window }: ProgressWindow): boolean {
    const closesAt = closeOf(version, window);
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
  const numbers = new WindowNumbers();
  const part = new SlicePart(session, { generation, isEmpty: false }, counting, numbers);
  const changes = ranked.inOrder();
  await numbers.number(session, counting.windows());
  const boards = counting.hasBoards ? await openBoards(session, generation, counting, changes, asOf) : [];
  for (const each of await boardRows.dueConfirmations(session, generation, asOf, CONFIRMED_AT_ONCE)) {
    const place = counting.placeOf(each);
    if (place !== undefined) counting.progressOf(place.version, place.window, each.playerRef);
  }
  await part.restore();
  for (const { place, wasClosed, players } of boards) {
    const board = counting.judge.boardOf(place);
    for (const progress of players) board.players.add(progress);
    if (wasClosed) board.restoreClosed();
  }
  counting.count(changes);
  const entries = await part.save(asOf);
  const closed = boards.filter(({ wasClosed }) => !wasClosed).map(({ place }) => windowNoOf(place));
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
  const wasClosed = await boardRows.closedBoards(session, generation, [...touched.keys()].map(windowNoOf));
  for (const row of await boardRows.dueBoards(session, generation, asOf)) {
    const place = counting.placeOf(row);
    if (place !== undefined && !touched.has(place)) touched.set(place, { latest: asOf, rows: 0 });
  }
  const opened: OpenBoard[] = [];
  for (const [place, { latest, rows }] of touched) {
    const { version, window } = place;
    const windowNo = windowNoOf(place);
    const closesAt = closeOf(version, window);
    const closes = closesAt !== null && (latest >= closesAt || asOf >= closesAt);
    if (!wasClosed.has(windowNo) && !closes) continue;
    const most = keptRanks(version.promotion) + rows;
    const refs = await boardRows.rankedPlayers(session, generation, windowNo, most);
    const players = refs.map((playerRef) => counting.progressOf(version, window, playerRef));
    opened.push({ place, wasClosed: wasClosed.has(windowNo), players });
  }
  return opened;
}

function touchedBoards(
  counting: SliceCounting,
  changes: readonly ProgressChange[],
): Map<ProgressWindow<CountedVersion>, BoardRows> {
  const found = new Map<ProgressWindow, BoardRows>();
  for (const { at, credited } of changes)
    for (const { progress } of credited) {
      const known = found.get(progress.place);
      if (known === undefined) found.set(progress.place, { latest: at, rows: 1 });
      else {
        known.rows++;
        if (at > known.latest) known.latest = at;
      }
    }
  const touched = new Map<ProgressWindow<CountedVersion>, BoardRows>();
  for (const place of counting.windows()) {
    const rows = found.get(place);
    if (rows !== undefined) touched.set(place, rows);
  }
  return touched;
}

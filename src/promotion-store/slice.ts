/**
 * One slice of promotions (docs/rules.md, P1-P16), part by part. A part has all rows of some players. So
 * their progress is looked up once, changed in memory, and written once, and memory holds few players.
 */
import type { Session } from '../postgres/transaction';
import { later } from '../promotions/calendar';
import { enterCompletions, type PlacedEntry } from './completions';
import { type CountedReading, readCountedRows } from './counted-rows';
import type { CountedVersion } from './counted-versions';
import { countJoined } from './joins';
import type { CountedRow } from './ledger-columns';
import type { MeasuredSlice } from './ledger-rows';
import { withKeptPlans } from './plans';
import { RoundSums } from './round-sums';
import { ChangesByPlayer, HeldReversals, SliceCounting } from './slice-counting';
import { type SliceOptions, SlicePart } from './slice-part';
import { countRanks, HeldRankChanges } from './slice-ranks';
import { WindowNumbers } from './windows';

/** Parts in memory: the store looks one up or writes it, while this process counts another one. */
const PARTS_AT_ONCE = 3;
/** Players of a part that has reversals alone. */
const PLAYERS_OF_PART = 500;

export interface CountedSlice extends SliceOptions {
  /** Whether readers see the generation. Otherwise there are no entries: a rebuild enters its difference. */
  readonly isShown: boolean;
  readonly slice: MeasuredSlice;
  readonly versions: readonly CountedVersion[];
  readonly reading: Omit<CountedReading, 'sums'>;
  /** No verdict of the slice and no closed leaderboard has a later time. Microseconds since 1970. */
  readonly latest: bigint | null;
  /** All rows from before this time are counted with the slice, in microseconds since 1970. */
  readonly asOf: bigint;
}

/**
 * Counts a slice, and saves progress and attempts.
 *
 * @returns the entries of the ledger of completions that are not written yet: none of joined progress
 */
export async function countSlice(session: Session, counted: CountedSlice): Promise<PlacedEntry[]> {
  const { generation, slice, versions, reading, latest, asOf, isShown } = counted;
  const numbers = new WindowNumbers();
  const sums = new RoundSums(session, generation, versions, numbers);
  const { newestChange, reversedSums, reversals, entries } = await readCountedRows(session, slice, {
    ...reading,
    sums,
  });
  const ranked = new HeldRankChanges(versions, later(latest, newestChange));
  const joined = await countJoined(session, counted, ranked);
  // Rows of the slice may revoke what joined progress completes. Its entries come before theirs.
  if (isShown) await enterCompletions(session, joined);
  const reversed = new HeldReversals(versions);
  for await (const page of reversedSums) for (const sum of page) reversed.addSum(sum);
  for await (const page of reversals) for (const row of page) reversed.add(row);
  const parts = new SliceParts(session, counted, numbers, reversed, ranked);
  for await (const rows of playersOf(withKeptPlans(session, entries))) await parts.add(rows);
  await parts.addOtherReversed();
  const completions = await parts.end();
  completions.push(...(await countRanks(session, counted, ranked, asOf)));
  return completions;
}

/** Counts the parts of a slice, a few at once. */
class SliceParts {
  private readonly running: Promise<void>[] = [];
  private readonly completions: PlacedEntry[] = [];
  /** The part of a player whose rows go on in the next ones. It has no other players from then on. */
  private open: { readonly part: SlicePart; readonly playerRef: string | null } | null = null;

  /**
   * @param reversed the reversals of the slice, which are counted with the other rows of their players
   * @param ranked takes the changes that change ranks
   */
  constructor(
    private readonly session: Session,
    private readonly counted: CountedSlice,
    private readonly numbers: WindowNumbers,
    private readonly reversed: HeldReversals,
    private readonly ranked: HeldRankChanges,
  ) {}

  async add({ rows, isWhole }: PlayerRows<CountedRow>): Promise<void> {
    if (this.open !== null) await Promise.all(this.running.splice(0));
    const part = this.open?.part ?? this.newPart();
    const before = this.open?.playerRef ?? null;
    await this.begin(part, this.changesOf(part, before, rows, isWhole), isWhole);
    this.open = isWhole ? null : { part, playerRef: rows.at(-1)?.playerRef ?? before };
  }

  /** Counts the reversals of players who have no other rows in the slice. */
  async addOtherReversed(): Promise<void> {
    const others = this.reversed.players();
    for (let first = 0; first < others.length; first += PLAYERS_OF_PART) {
      const part = this.newPart();
      const changes = new ChangesByPlayer();
      for (const playerRef of others.slice(first, first + PLAYERS_OF_PART))
        this.addReversed(changes, part, playerRef, Number.POSITIVE_INFINITY);
      await this.begin(part, changes, true);
    }
  }

  /** @returns the entries of the ledger of completions, which are not written yet */
  async end(): Promise<PlacedEntry[]> {
    await Promise.all(this.running);
    return this.completions;
  }

  private newPart(): SlicePart {
    const { session, counted, numbers } = this;
    return new SlicePart(session, counted, new SliceCounting(counted.versions), numbers);
  }

  /** Begins to count rows, once few parts are in memory. */
  private async begin(part: SlicePart, changes: ChangesByPlayer, isWhole: boolean): Promise<void> {
    const counting = this.count(part, changes, isWhole).then((made) => {
      if (this.counted.isShown) this.completions.push(...made);
    });
    // Its failure is met in add() or end().
    counting.catch(() => {});
    this.running.push(counting);
    if (this.running.length >= PARTS_AT_ONCE) await this.running.shift();
  }

  /** Ends before the part is saved, so that memory holds its progress no longer. */
  private async count(part: SlicePart, changes: ChangesByPlayer, isWhole: boolean): Promise<PlacedEntry[]> {
    await part.restore();
    part.counting.count(changes.take());
    return isWhole ? part.save(this.counted.asOf) : [];
  }

  /** @param before the player of the rows before that belong to the part */
  private changesOf(
    part: SlicePart,
    before: string | null,
    rows: readonly CountedRow[],
    isWhole: boolean,
  ): ChangesByPlayer {
    const changes = new ChangesByPlayer();
    let player = before;
    for (const row of rows) {
      if (player !== null && player !== row.playerRef)
        this.addReversed(changes, part, player, Number.POSITIVE_INFINITY);
      player = row.playerRef;
      const { changeNo, at, sign } = row;
      changes.add(this.ranked.take({ changeNo, at, sign, credited: part.counting.matchRow(row) }));
    }
    const upTo = isWhole ? Number.POSITIVE_INFINITY : (rows.at(-1)?.changeNo ?? 0);
    if (player !== null) this.addReversed(changes, part, player, upTo);
    return changes;
  }

  /** Adds the reversals of a player up to a number. */
  private addReversed(changes: ChangesByPlayer, part: SlicePart, playerRef: string, upTo: number): void {
    for (const { credited, ...row } of this.reversed.take(playerRef, upTo)) {
      const own = credited.map((each) => ({ ...each, progress: part.counting.progressLike(each.progress) }));
      changes.add(this.ranked.take({ ...row, credited: own }));
    }
    changes.endPlayer();
  }
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
    if (page.length === 0) continue;
    const rows = held.length === 0 ? page : [...held, ...page];
    const last = rows.at(-1)?.playerRef;
    const end = rows.findLastIndex(({ playerRef }) => playerRef !== last) + 1;
    if (end === 0) yield { rows, isWhole: false };
    else yield { rows: rows.slice(0, end), isWhole: true };
    held = end === 0 ? [] : rows.slice(end);
  }
  yield { rows: held, isWhole: true };
}

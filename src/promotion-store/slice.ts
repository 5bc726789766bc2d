/**
 * One slice of promotions (docs/rules.md, P1-P16), part by part. A part has all rows of some players. So
 * their progress is looked up once, changed in memory, and written once, and memory holds few players.
 */
import type { Session } from '../postgres/transaction';
import { later } from '../promotions/calendar';
import { enterCompletions, type PlacedEntry } from './completions';
import type { CountedVersion } from './counted-versions';
import { type CountedReading, type CountedRow, readCountedRows } from './credits';
import { countJoined } from './joins';
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
  const completions: PlacedEntry[] = [];
  const reversed = new HeldReversals(versions);
  for await (const page of reversedSums) for (const sum of page) reversed.addSum(sum);
  for await (const page of reversals) for (const row of page) reversed.add(row);
  const running: Promise<void>[] = [];
  let part: SlicePart | null = null;
  /** The player whose rows go on in the next ones. Their part has no other players. */
  let goesOn: string | null = null;
  for await (const { rows, isWhole } of playersOf(withKeptPlans(session, entries))) {
    if (part !== null) await Promise.all(running.splice(0));
    const current: SlicePart = part ?? new SlicePart(session, counted, new SliceCounting(versions), numbers);
    await begin(current, changesOf(current, goesOn, rows, isWhole), isWhole);
    part = isWhole ? null : current;
    goesOn = isWhole ? null : (rows.at(-1)?.playerRef ?? goesOn);
  }
  // These players have no other rows in the slice.
  const others = reversed.players();
  for (let first = 0; first < others.length; first += PLAYERS_OF_PART) {
    const reversedPart = new SlicePart(session, counted, new SliceCounting(versions), numbers);
    const changes = new ChangesByPlayer();
    for (const playerRef of others.slice(first, first + PLAYERS_OF_PART))
      addReversed(changes, reversedPart, playerRef, Number.POSITIVE_INFINITY);
    await begin(reversedPart, changes, true);
  }
  await Promise.all(running);
  completions.push(...(await countRanks(session, counted, ranked, asOf)));
  return completions;

  /** Begins to count rows, once few parts are in memory. */
  async function begin(part: SlicePart, changes: ChangesByPlayer, isWhole: boolean): Promise<void> {
    const counting = countPart(part, changes, isWhole).then((made) => {
      if (isShown) completions.push(...made);
    });
    // Its failure is met below.
    counting.catch(() => {});
    running.push(counting);
    if (running.length >= PARTS_AT_ONCE) await running.shift();
  }

  /** Ends before the part is saved, so that memory holds its progress no longer. */
  async function countPart(
    part: SlicePart,
    changes: ChangesByPlayer,
    isWhole: boolean,
  ): Promise<PlacedEntry[]> {
    await part.restore();
    part.count(changes.take());
    return isWhole ? part.save(asOf) : [];
  }

  /** @param goesOn the player of the rows before that belong to the part */
  function changesOf(
    part: SlicePart,
    goesOn: string | null,
    rows: readonly CountedRow[],
    isWhole: boolean,
  ): ChangesByPlayer {
    const changes = new ChangesByPlayer();
    let player = goesOn;
    for (const row of rows) {
      if (player !== null && player !== row.playerRef)
        addReversed(changes, part, player, Number.POSITIVE_INFINITY);
      player = row.playerRef;
      const { changeNo, at, sign } = row;
      changes.add(ranked.take({ changeNo, at, sign, credited: part.counting.matchRow(row) }));
    }
    const upTo = isWhole ? Number.POSITIVE_INFINITY : (rows.at(-1)?.changeNo ?? 0);
    if (player !== null) addReversed(changes, part, player, upTo);
    return changes;
  }

  function addReversed(changes: ChangesByPlayer, part: SlicePart, playerRef: string, upTo: number): void {
    for (const { credited, ...row } of reversed.take(playerRef, upTo)) {
      const own = credited.map((each) => ({ ...each, progress: part.counting.progressLike(each.progress) }));
      changes.add(ranked.take({ ...row, credited: own }));
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

/** The players to whom attributed rounds are credited, as of each number (docs/rules.md, B4, B9, B10). */
import type { Slice } from '../fold/fold';
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';
import type { LedgerEntry } from '../promotions/ledger-entry';
import { type CountedScope, readEntriesOfRounds, readLedgerPages } from './ledger-rows';
import type { RoundRecords } from './round-records';
import { finiteMicrosOf } from './times';

/** An entry that is added to the progress of a player, or taken from it. */
export interface CountedRow {
  /** The number of the verdict, or of the change of an attribution. */
  readonly changeNo: number;
  /** When it was made, in microseconds since 1970. */
  readonly at: bigint;
  readonly entry: LedgerEntry;
  /** The player that is credited. */
  readonly playerRef: string;
  readonly sign: 1n | -1n;
}

/** From its number on, entries of the round count for the player. */
interface Credit {
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
  /** Entries of this brand alone; null: of any brand. */
  readonly brand: string | null;
  readonly playerRef: string;
}

const HAS_ATTRIBUTIONS: Statement = {
  name: 'promotions_has_attributions',
  text: `select exists (select from promo_store.attributions a join promo_store.feeds f using (feed_no) where f.operator_id = any($1::text[]))`,
};
const CREDITS: Statement = {
  name: 'promotions_credits',
  text: `select r.round_no, c.change_no, ${finiteMicrosOf('c.attributed_at')}, b.brand_id, c.player_ref
from unnest($1::bigint[]) w (round_no)
join promo_store.rounds r on r.round_no = w.round_no
join promo_store.attribution_changes c on c.feed_no = r.feed_no and c.round_key = r.round_key
left join promo_store.brands b on b.brand_no = c.brand_no
where c.change_no <= $2::bigint order by r.round_no, c.change_no`,
};
/** An erasure changes the name of a player, and moves nothing. */
const MOVED_ROUNDS: Statement = {
  name: 'promotions_moved_rounds',
  text: `select distinct r.round_no from promo_store.attribution_changes c
join promo_store.feeds f on f.feed_no = c.feed_no and f.operator_id = any($3::text[])
join promo_store.rounds r on r.feed_no = c.feed_no and r.round_key = c.round_key
where c.change_no > $1::bigint and c.change_no <= $2::bigint and c.change < 2`,
};
const REFUNDS: Statement = {
  name: 'promotions_refunds_of_rounds',
  text: `select h.round_no, h.verdict_id from unnest($1::bigint[]) w (round_no)
join promo_store.refunds x on x.round_no = w.round_no
cross join lateral (select h.round_no, h.verdict_id, h.kind, h.outcome, h.event_id from promo_store.history h where h.round_no = x.round_no
  and h.decided_at >= x.opened_at - interval '1 day' offset 0) h
where h.kind = 4 and h.outcome = 0 and h.event_id = x.refunded_by`,
};

/** The rows of a slice that may change progress, in no order. Memory holds one page of them at a time. */
export async function* readCountedPages(
  session: Reader,
  slice: Slice,
  scope: CountedScope,
  records: RoundRecords | null = null,
): AsyncGenerator<CountedRow[]> {
  // The answer comes with that of the first page.
  const attributed = session.query(HAS_ATTRIBUTIONS, [scope.operatorIds]);
  attributed.catch(() => {});
  for await (const ledger of readLedgerPages(session, slice, scope, records)) {
    if (ledger.length === 0) continue;
    const credits = new Credits(slice.upTo);
    if (isTrue(await attributed))
      await credits.read(
        session,
        ledger.flatMap(({ roundNo }) => (roundNo === null ? [] : [roundNo])),
      );
    yield ledger.map(({ roundNo, entry }): CountedRow => {
      const { changeNo, enteredAt: at } = entry;
      return { changeNo, at, entry, playerRef: credits.playerAt(roundNo, entry, changeNo), sign: 1n };
    });
  }
  if (isTrue(await attributed)) yield new Credits(slice.upTo).readMoves(session, slice, scope);
}

const isTrue = ([row]: readonly Row[]): boolean => row?.[0] === 't';

/** The same rows, in the order of their numbers. */
export async function readCountedRows(
  session: Reader,
  slice: Slice,
  scope: CountedScope,
): Promise<CountedRow[]> {
  const pages: CountedRow[][] = [];
  for await (const page of readCountedPages(session, slice, scope)) pages.push(page);
  return pages.flat().sort((a, b) => a.changeNo - b.changeNo || a.entry.entryId - b.entry.entryId);
}

class Credits {
  private readonly byRound = new Map<string, Credit[]>();

  constructor(private readonly upTo: number) {}

  /** Reads the credits of rounds up to the end of the slice. */
  async read(session: Reader, rounds: readonly string[]): Promise<void> {
    const missing = [...new Set(rounds)].filter((round) => !this.byRound.has(round));
    if (missing.length === 0) return;
    for (const round of missing) this.byRound.set(round, []);
    for (const [round, changeNo, at, brand, playerRef] of await session.query(CREDITS, [missing, this.upTo]))
      this.byRound.get(round ?? '')?.push({
        ...{ changeNo: Number(changeNo), at: BigInt(at ?? 0) },
        ...{ brand: brand ?? null, playerRef: playerRef ?? '' },
      });
  }

  /** The player to whom an entry of a round is credited, as of a number. */
  playerAt(round: string | null, { brand, playerRef }: LedgerEntry, changeNo: number): string {
    const credit =
      round === null ? undefined : this.byRound.get(round)?.findLast((each) => each.changeNo <= changeNo);
    if (credit === undefined || (credit.brand !== null && credit.brand !== brand)) return playerRef;
    return credit.playerRef;
  }

  /** The earlier entries of rounds that the slice attributes: each changes from player to player. */
  async readMoves(session: Reader, { after, upTo }: Slice, scope: CountedScope): Promise<CountedRow[]> {
    const rounds = (await session.query(MOVED_ROUNDS, [after, upTo, scope.operatorIds])).map(
      ([round]) => round ?? '',
    );
    if (rounds.length === 0) return [];
    await this.read(session, rounds);
    const refunds = new Map(
      (await session.query(REFUNDS, [rounds])).map(([round, changeNo]) => [round ?? '', Number(changeNo)]),
    );
    const moves: CountedRow[] = [];
    for (const { roundNo, entry } of await readEntriesOfRounds(session, rounds, scope, upTo)) {
      const changes = this.byRound.get(roundNo ?? '')?.filter((each) => each.changeNo > after) ?? [];
      for (const { changeNo, at } of changes) {
        // A round that was refunded before counts for nobody.
        const isOver = (refunds.get(roundNo ?? '') ?? Number.POSITIVE_INFINITY) < changeNo;
        if (isOver || entry.changeNo > changeNo) continue;
        const [from, to] = [changeNo - 1, changeNo].map((no) => this.playerAt(roundNo, entry, no));
        if (from === undefined || to === undefined || from === to) continue;
        moves.push(
          { changeNo, at, entry, playerRef: from, sign: -1n },
          { changeNo, at, entry, playerRef: to, sign: 1n },
        );
      }
    }
    return moves;
  }
}

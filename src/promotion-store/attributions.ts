/** The players to whom attributed rounds are credited, as of each number (docs/rules.md, B4, B9, B10). */
import type { Slice } from '../fold/fold';
import type { Reader, Session, Statement } from '../postgres/transaction';
import type { CountedEntry } from '../promotions/ledger-entry';
import type { CountedRow } from './ledger-columns';
import { type CountedScope, readEntriesOfRounds } from './ledger-rows';
import { finiteMicrosOf } from './times';

/** Entries of the round with higher numbers count for this player. */
interface AttributionChange {
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
  /** Entries of this brand alone; null: of any brand. */
  readonly brand: string | null;
  /** The two differ after an erasure of a player of the round, until every generation has counted it. */
  readonly players: Readonly<Record<Naming, string>>;
}

/** The player whose progress has the round, or the one to whom a rebuild credits it after an erasure. */
type Naming = 'counted' | 'erased';

/** The erasure of a player of a round. It takes the round from the players who have been credited with it. */
interface Erasure {
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
}

const CREDITS: Statement = {
  name: 'promotions_credits',
  text: `select r.round_no, c.change_no, ${finiteMicrosOf('c.attributed_at')}, b.brand_id, c.player_ref, e.player_ref, e.erased_no, ${finiteMicrosOf('e.erased_at')}
from unnest($1::bigint[]) w (round_no)
join promo_store.rounds r on r.round_no = w.round_no
join promo_store.attribution_changes c on c.feed_no = r.feed_no and c.round_key = r.round_key
left join promo_store.erased_credits e on e.feed_no = c.feed_no and e.round_key = c.round_key and e.change_no = c.change_no
left join promo_store.brands b on b.brand_no = c.brand_no
where c.change_no <= $2::bigint order by r.round_no, c.change_no`,
};
/** An erasure moves only what a generation has counted for others than the erased player. */
const MOVED_ROUNDS: Statement = {
  name: 'promotions_moved_rounds',
  text: `select distinct r.round_no from (
  select c.feed_no, c.round_key from promo_store.attribution_changes c where c.change_no > $1::bigint and c.change_no <= $2::bigint and c.change < 2
  union all
  select e.feed_no, e.round_key from promo_store.erased_credits e where e.erased_no > $1::bigint and e.erased_no <= $2::bigint
) c
join promo_store.feeds f on f.feed_no = c.feed_no and f.operator_id = any($3::text[])
join promo_store.rounds r on r.feed_no = c.feed_no and r.round_key = c.round_key`,
};
/** Keeps a credit until every generation has passed its erasure: each may have to move the credit. */
const FORGET: Statement = {
  name: 'promotions_forget_credits',
  text: `delete from promo_store.erased_credits e where e.erased_no <= least($2::bigint, (
  select min(g.after) from promo_store.fold_generations g where g.fold = 'promotions' and g.state <> 'retired' and g.generation <> $1))`,
};
const REFUNDS: Statement = {
  name: 'promotions_refunds_of_rounds',
  text: `select h.round_no, h.verdict_id, ${finiteMicrosOf('coalesce(x.refunded_at, x.opened_at)')} from unnest($1::bigint[]) w (round_no)
join promo_store.refunds x on x.round_no = w.round_no
cross join lateral (select h.round_no, h.verdict_id, h.kind, h.outcome, h.event_id from promo_store.history h where h.round_no = x.round_no
  and h.decided_at >= x.opened_at - interval '1 day' offset 0) h
where h.kind = 4 and h.outcome = 0 and h.event_id = x.refunded_by`,
};

/**
 * Deletes the players of before erasures that all generations have counted.
 *
 * @param upTo the cursor of the generation after the slice that runs; null: the generation counts no more
 */
export async function forgetErasedCredits(
  session: Session,
  generation: number,
  upTo: number | null,
): Promise<void> {
  await session.query(FORGET, [generation, upTo]);
}

interface RoundRefund {
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
}

export class Attributions {
  private readonly byRound = new Map<string, AttributionChange[]>();
  private readonly erasures = new Map<string, Erasure>();

  constructor(private readonly upTo: number) {}

  /** Reads the attributions of rounds up to the end of the slice. */
  async read(session: Reader, rounds: readonly string[]): Promise<void> {
    const missing = [...new Set(rounds)].filter((round) => !this.byRound.has(round));
    if (missing.length === 0) return;
    for (const round of missing) this.byRound.set(round, []);
    for (const [round, changeNo, at, brand, erased, ...former] of await session.query(CREDITS, [
      missing,
      this.upTo,
    ])) {
      const [counted, erasedNo, erasedAt] = former;
      this.byRound.get(round ?? '')?.push({
        changeNo: Number(changeNo),
        at: BigInt(at ?? 0),
        brand: brand ?? null,
        players: { counted: counted ?? erased ?? '', erased: erased ?? '' },
      });
      if (erasedNo != null)
        this.erasures.set(round ?? '', { changeNo: Number(erasedNo), at: BigInt(erasedAt ?? 0) });
    }
  }

  /** The player to whom an entry of a round is credited, as of a number. */
  playerAt(
    round: string | null,
    { brand, playerRef }: CountedEntry,
    changeNo: number,
    naming: Naming = 'counted',
  ): string {
    const last =
      round === null ? undefined : this.byRound.get(round)?.findLast((each) => each.changeNo <= changeNo);
    if (last === undefined || (last.brand !== null && last.brand !== brand)) return playerRef;
    return last.players[naming];
  }

  /** The earlier entries of rounds that the slice attributes: each changes from player to player. */
  async readMoves(session: Reader, { after, upTo }: Slice, scope: CountedScope): Promise<CountedRow[]> {
    const rounds = (await session.query(MOVED_ROUNDS, [after, upTo, scope.operatorIds])).map(
      ([round]) => round ?? '',
    );
    if (rounds.length === 0) return [];
    await this.read(session, rounds);
    const refunds = new Map<string, RoundRefund>();
    for (const [round, changeNo, at] of await session.query(REFUNDS, [rounds]))
      refunds.set(round ?? '', { changeNo: Number(changeNo), at: BigInt(at ?? 0) });
    const moves: CountedRow[] = [];
    for (const { roundNo, entry } of await readEntriesOfRounds(session, rounds, scope, upTo)) {
      const refund = refunds.get(roundNo ?? '');
      const erasure = this.erasures.get(roundNo ?? '');
      const changes = this.byRound.get(roundNo ?? '')?.filter((each) => each.changeNo > after) ?? [];
      for (const { changeNo, at } of changes) {
        // A round that was refunded before counts for nobody.
        const isOver = refund !== undefined && refund.changeNo < changeNo;
        if (isOver || entry.changeNo > changeNo || changeNo === erasure?.changeNo) continue;
        const [from, to] = [changeNo - 1, changeNo].map((no) => this.playerAt(roundNo, entry, no));
        if (from === undefined || to === undefined || from === to) continue;
        moves.push(
          { changeNo, at, matchedAt: at, entry, playerRef: from, sign: -1n },
          { changeNo, at, matchedAt: at, entry, playerRef: to, sign: 1n },
        );
      }
      if (erasure !== undefined && erasure.changeNo > after && erasure.changeNo <= upTo)
        moves.push(...this.creditErased(roundNo, entry, erasure, refund));
    }
    return moves;
  }

  /**
   * Takes back how an entry was counted before an erasure, and counts it as a rebuild does. Each step is
   * matched at its own time: a promotion that was removed in between has counted the steps before.
   */
  private creditErased(
    round: string | null,
    entry: CountedEntry,
    { changeNo, at }: Erasure,
    refund: RoundRefund | undefined,
  ): CountedRow[] {
    if (entry.changeNo > changeNo) return [];
    const end = Math.min(changeNo, refund?.changeNo ?? changeNo);
    const moves = (this.byRound.get(round ?? '') ?? []).filter(
      (each) => each.changeNo > entry.changeNo && each.changeNo < end,
    );
    const steps: { at: bigint; as: number; sign: 1n | -1n }[] = [
      { at: entry.enteredAt, as: entry.changeNo, sign: 1n },
    ];
    for (const move of moves)
      steps.push(
        { at: move.at, as: move.changeNo - 1, sign: -1n },
        { at: move.at, as: move.changeNo, sign: 1n },
      );
    if (refund !== undefined && refund.changeNo < changeNo)
      steps.push({ at: refund.at, as: refund.changeNo, sign: -1n });
    return steps.flatMap(({ at: matchedAt, as, sign }): CountedRow[] => {
      const counted = this.playerAt(round, entry, as);
      const erased = this.playerAt(round, entry, as, 'erased');
      if (counted === erased) return [];
      const row = { changeNo, at, matchedAt, entry };
      return [
        { ...row, playerRef: counted, sign: sign === 1n ? -1n : 1n },
        { ...row, playerRef: erased, sign },
      ];
    });
  }
}

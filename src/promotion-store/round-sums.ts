/**
 * Sums of the progress that the entries of large rounds make. A refund takes the sums back, and reads none of
 * these entries again: a round may have a million of them (docs/rules.md, P11).
 *
 * Sums depend on nothing that changes later. They are of the player whom the events name, so an attribution
 * leaves them as they are. The refund decides which player and which versions it takes them from
 * (reversed-sums.ts).
 */
import { arrays } from '../postgres/binary-format';
import type { Session, Statement } from '../postgres/transaction';
import type { CountedEntry } from '../promotions/ledger-entry';
import type { Credit } from '../promotions/matching';
import type { PlayerProgress } from '../promotions/player-progress';
import type { EntrySums } from './counted-rows';
import type { CountedVersion } from './counted-versions';
import type { LedgerRow } from './ledger-columns';
import { CreditSums, SliceCounting } from './slice-counting';
import { DAY_MICROS } from './times';
import { type WindowNumbers, windowNoOf } from './windows';

/** Sums are saved once they are of so many rows of progress: a round may have as many players as entries. */
const MOST_SUMS = 5_000;

const ADD_SUMS: Statement = {
  name: 'promotions_add_sums',
  text: `insert into promo_store.promotion_round_sums as s (generation, round_no, month, window_no, player_ref, brand_id, item, currency, amount)
select $1, w.* from (select unnest($2::bigint[]) as round_no, unnest($3::text[])::date as month, unnest($4::int[]) as window_no, unnest($5::text[]) as player_ref,
  unnest($6::text[]) as brand_id, unnest($7::text[]) as item, unnest($8::text[]) as currency, unnest($9::numeric[]) as amount) w
on conflict on constraint promotion_round_sums_pkey do update set amount = s.amount + excluded.amount`,
};

/** A sum of entries of a round in the progress of a player. */
export interface RoundSum {
  readonly roundNo: string;
  /** The first day of the month in which the entries were decided. */
  readonly month: string;
  /** Empty: the entries have no brand. */
  readonly brand: string;
  readonly progress: PlayerProgress;
  readonly credit: Credit;
}

/** Sums entries by their round, month and brand. */
export class SumsOfRounds {
  readonly counting: SliceCounting;
  private readonly parts = new Map<string, Omit<RoundSum, 'progress' | 'credit'> & { sums: CreditSums }>();

  constructor(versions: readonly CountedVersion[]) {
    this.counting = new SliceCounting(versions);
  }

  add(roundNo: string, entry: CountedEntry): void {
    // Its refund may be decided up to a day earlier, when a promotion was not removed yet.
    const credited = this.counting.match(entry, entry.playerRef, entry.enteredAt - DAY_MICROS);
    if (credited.length === 0) return;
    const month = `${new Date(Number(entry.decidedAt / 1_000n)).toISOString().slice(0, 7)}-01`;
    const brand = entry.brand ?? '';
    const key = `${roundNo} ${month} ${brand}`;
    const part = this.parts.get(key) ?? { roundNo, month, brand, sums: new CreditSums() };
    this.parts.set(key, part);
    for (const each of credited) part.sums.add(each);
  }

  list(): RoundSum[] {
    return [...this.parts.values()].flatMap(({ sums, ...part }) =>
      sums.credited.flatMap(({ progress, credits }) =>
        credits.map((credit) => ({ ...part, progress, credit })),
      ),
    );
  }
}

/** The sums of a slice. */
export class RoundSums implements EntrySums {
  private sums: SumsOfRounds;

  constructor(
    private readonly session: Session,
    private readonly generation: number,
    private readonly versions: readonly CountedVersion[],
    private readonly numbers: WindowNumbers,
  ) {
    this.sums = new SumsOfRounds(versions);
  }

  /** Sums the entries of large rounds as they pass by. */
  passing(pages: AsyncIterable<LedgerRow[]>, large: ReadonlySet<string>): AsyncIterable<LedgerRow[]> {
    return large.size === 0 ? pages : this.summing(pages, large);
  }

  private async *summing(
    pages: AsyncIterable<LedgerRow[]>,
    large: ReadonlySet<string>,
  ): AsyncGenerator<LedgerRow[]> {
    for await (const page of pages) {
      for (const { roundNo, entry } of page)
        if (roundNo !== null && large.has(roundNo)) this.sums.add(roundNo, entry);
      if (this.sums.counting.found.length > MOST_SUMS) await this.save();
      yield page;
    }
    await this.save();
  }

  private async save(): Promise<void> {
    const { session, generation, numbers } = this;
    const sums = this.sums.list();
    if (sums.length === 0) return;
    await numbers.number(session, this.sums.counting.windows());
    await session.query(ADD_SUMS, [
      generation,
      arrays.int8(sums.map(({ roundNo }) => Number(roundNo))),
      sums.map(({ month }) => month),
      arrays.int4(sums.map(({ progress }) => windowNoOf(progress.place))),
      arrays.text(sums.map(({ progress }) => progress.playerRef)),
      arrays.text(sums.map(({ brand }) => brand)),
      arrays.text(sums.map(({ credit }) => credit.item)),
      arrays.text(sums.map(({ credit }) => credit.currency)),
      arrays.numeric(sums.map(({ credit }) => credit.amount)),
    ]);
    this.sums = new SumsOfRounds(this.versions);
  }
}

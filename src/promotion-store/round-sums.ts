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
import type { CountedVersion } from './counted-versions';
import type { EntrySums } from './credits';
import type { LedgerRow } from './ledger-columns';
import { type WindowNumbers, windowNoOf } from './progress-rows';
import { SlicePart } from './slice-part';
import { CreditSums, SliceRows } from './slice-rows';
import { DAY_MICROS } from './times';

/** Sums are saved once they are of so many rows of progress: a round may have as many players as entries. */
const MOST_SUMS = 5_000;

const ADD_SUMS: Statement = {
  name: 'promotions_add_sums',
  text: `insert into promo_store.promotion_round_sums as s (generation, round_no, month, window_no, player_ref, brand_id, item, currency, amount)
select $1, w.* from (select unnest($2::bigint[]) as round_no, unnest($3::text[])::date as month, unnest($4::int[]) as window_no, unnest($5::text[]) as player_ref,
  unnest($6::text[]) as brand_id, unnest($7::text[]) as item, unnest($8::text[]) as currency, unnest($9::numeric[]) as amount) w
on conflict on constraint promotion_round_sums_pkey do update set amount = s.amount + excluded.amount`,
};

/** The sums of a part of a round: its entries of one month and one brand. */
interface PartOfRound {
  readonly roundNo: string;
  readonly month: string;
  readonly brand: string;
  readonly sums: CreditSums;
}

/** The sums of a slice. */
export class RoundSums implements EntrySums {
  private rows: SliceRows;
  private parts = new Map<string, PartOfRound>();

  constructor(
    private readonly session: Session,
    private readonly generation: number,
    private readonly versions: readonly CountedVersion[],
    private readonly numbers: WindowNumbers,
  ) {
    this.rows = new SliceRows(versions);
  }

  /** Sums the entries of rounds as they pass by. @param rounds the numbers of the large rounds */
  async *passing(
    pages: AsyncIterable<LedgerRow[]>,
    rounds: ReadonlySet<string>,
  ): AsyncGenerator<LedgerRow[]> {
    for await (const page of pages) {
      for (const { roundNo, entry } of page)
        if (roundNo !== null && rounds.has(roundNo)) this.add(roundNo, entry);
      if (this.rows.counting.found.length > MOST_SUMS) await this.save();
      yield page;
    }
    await this.save();
  }

  private add(roundNo: string, entry: CountedEntry): void {
    // Its refund may be decided up to a day earlier, when a promotion was not removed yet.
    const credited = this.rows.counting.match(entry, entry.playerRef, entry.enteredAt - DAY_MICROS);
    if (credited.length === 0) return;
    const month = `${new Date(Number(entry.decidedAt / 1_000n)).toISOString().slice(0, 7)}-01`;
    const brand = entry.brand ?? '';
    const key = `${roundNo} ${month} ${brand}`;
    const part = this.parts.get(key) ?? { roundNo, month, brand, sums: new CreditSums() };
    this.parts.set(key, part);
    for (const each of credited) part.sums.add(each);
  }

  private async save(): Promise<void> {
    const { session, generation, rows, parts } = this;
    if (parts.size === 0) return;
    await new SlicePart(session, { generation, isEmpty: false }, rows, this.numbers).numberWindows();
    const sums = [...parts.values()].flatMap(({ sums, ...part }) =>
      sums.credited.flatMap(({ progress, credits }) =>
        credits.map((credit) => ({ ...part, ...credit, progress })),
      ),
    );
    await session.query(ADD_SUMS, [
      generation,
      arrays.int8(sums.map(({ roundNo }) => Number(roundNo))),
      sums.map(({ month }) => month),
      arrays.int4(sums.map(({ progress }) => windowNoOf(progress))),
      arrays.text(sums.map(({ progress }) => progress.playerRef)),
      arrays.text(sums.map(({ brand }) => brand)),
      arrays.text(sums.map(({ item }) => item)),
      arrays.text(sums.map(({ currency }) => currency)),
      arrays.numeric(sums.map(({ amount }) => amount)),
    ]);
    this.rows = new SliceRows(this.versions);
    this.parts = new Map();
  }
}

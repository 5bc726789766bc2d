/**
 * Counts the sums of large rounds again, and compares them with the stored ones (round-sums.ts). A refund
 * takes the stored ones back, so a wrong sum would make wrong progress later.
 */
import { declared, pagesOf } from '../postgres/pages';
import type { Reader } from '../postgres/transaction';
import type { ProgressRow } from '../promotions/attainment';
import type { EntrySums } from './counted-rows';
import type { CountedVersion } from './counted-versions';
import type { LedgerRow } from './ledger-columns';
import { type RoundSum, SumsOfRounds } from './round-sums';
import { type DamageList, valuesText } from './stored-progress';

/** The sums of a round for one player: those that the fold has stored, and those of the entries. */
interface Pair extends Named {
  readonly stored: ProgressRow[];
  readonly counted: ProgressRow[];
}
type Named = Pick<RoundSum, 'roundNo' | 'month' | 'brand'> & {
  /** The window: operator/promotion/window. */
  readonly source: string;
  readonly version: number;
};

/** The entries of a round between these numbers are summed. */
interface SummedRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Rows of a round that follow one another are one range: a round of a million entries has thousands of rows.
 * A row of an older process between them has entries without sums. Rounds with sums are few. A join with them
 * would compare all rows with all where the statistics lack a new generation.
 */
const SUMMED = declared({
  name: 'promotions_summed',
  text: `select r.round_no, min((select min(v) from unnest(r.verdict_ids) v)), max(r.last_no)
from (
  select r.*, count(*) filter (where not r.is_summed) over (partition by r.round_no order by r.last_no) as rows_without_sums
  from promo_store.promotion_rounds r
  where r.generation = $1 and r.round_no = any(array(
    select distinct s.round_no from promo_store.promotion_rounds s where s.generation = $1 and s.is_summed))
) r where r.is_summed group by r.round_no, r.rows_without_sums`,
});
/** The sums of dropped months are never taken back, and their entries are gone. */
const STORED_SUMS = declared({
  name: 'promotions_stored_sums',
  text: `select s.round_no, s.month, o.operator_id, n.promotion_id, w.version, w.window_key, s.player_ref, s.brand_id, s.item, s.currency, s.amount
from promo_store.promotion_round_sums s
join promo_store.promotion_windows w using (window_no)
join promo_store.promotions n using (promotion_no)
join promo_store.operators o using (operator_no)
where s.generation = $1
  and s.month <> all(array(select m.month from promo_store.months m where m.parent = 'history' and m.dropped_at is not null))`,
});

/** Which sums are compared. */
export interface ComparedSums {
  readonly generation: number;
  readonly isCompared: (operator: string, promotion: string, version: number) => boolean;
}

/** Sums the entries that the fold has summed, as they pass by. */
export class RecountedSums implements EntrySums {
  private constructor(
    private readonly sums: SumsOfRounds,
    /** By the number of the round. */
    private readonly summed: ReadonlyMap<string, readonly SummedRange[]>,
  ) {}

  static async begin(
    reader: Reader,
    generation: number,
    versions: readonly CountedVersion[],
  ): Promise<RecountedSums> {
    const summed = new Map<string, SummedRange[]>();
    for await (const page of pagesOf(reader, reader.query(SUMMED, [generation])))
      for (const [roundNo, first, last] of page) {
        const ranges = summed.get(roundNo ?? '') ?? [];
        summed.set(roundNo ?? '', ranges);
        ranges.push({ first: Number(first), last: Number(last) });
      }
    return new RecountedSums(new SumsOfRounds(versions), summed);
  }

  async *passing(pages: AsyncIterable<LedgerRow[]>): AsyncGenerator<LedgerRow[]> {
    for await (const page of pages) {
      for (const { roundNo, entry } of page)
        if (roundNo !== null && this.isSummed(roundNo, entry.changeNo)) this.sums.add(roundNo, entry);
      yield page;
    }
  }

  private isSummed(roundNo: string, verdictId: number): boolean {
    const ranges = this.summed.get(roundNo) ?? [];
    return ranges.some(({ first, last }) => first <= verdictId && verdictId <= last);
  }

  /** Names the stored sums that differ from those of the entries. */
  async compare(
    reader: Reader,
    { generation, isCompared }: ComparedSums,
    damages: DamageList,
  ): Promise<void> {
    const pairs = new Map<string, Pair>();
    const add = (of: 'stored' | 'counted', player: string, pair: Named, row: ProgressRow) => {
      const { source, roundNo, month, version, brand } = pair;
      const key = [source, version, roundNo, month, brand, player].join('\0');
      const found = pairs.get(key) ?? { ...pair, stored: [], counted: [] };
      pairs.set(key, found);
      found[of].push(row);
    };
    for (const { progress, credit, ...part } of this.sums.list()) {
      const { promotion, version, window, playerRef } = progress;
      const { operator, id } = promotion.definition;
      if (!isCompared(operator, id, version)) continue;
      const { item, currency, amount: value } = credit;
      const pair = { ...part, version, source: `${operator}/${id}/${window.key}` };
      add('counted', playerRef, pair, { item, currency, value });
    }
    for await (const page of pagesOf(reader, reader.query(STORED_SUMS, [generation])))
      for (const row of page) {
        const [roundNo = '', month = '', operator = '', promotion = '', ...rest] = row.map(textOf);
        const [versionNo, window, player = '', brand = '', item = '', currency = '', amount = '0'] = rest;
        const version = Number(versionNo);
        if (!isCompared(operator, promotion, version)) continue;
        const pair = { roundNo, month, brand, version, source: `${operator}/${promotion}/${window}` };
        add('stored', player, pair, { item, currency, value: BigInt(amount) });
      }
    for (const { source, roundNo, month, stored, counted } of pairs.values()) {
      const [is, gives] = [valuesText(stored, 0n), valuesText(counted, 0n)];
      if (is === gives) continue;
      const what = `the sum of the round number ${roundNo} in ${month.slice(0, 7)} is ${is}, and its entries give ${gives}`;
      damages.add({ source, what });
    }
  }
}

const textOf = (value: string | null): string => value ?? '';

/** The sums of large rounds that refunds take back in place of entries (docs/rules.md, P11). */
import { declared, pagesOf } from '../postgres/pages';
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';
import type { Credit } from '../promotions/matching';
import { CREDITED, columnsOf, REFUNDS, type Refund } from './ledger-columns';
import { WINDOW, type WindowRow, windowRowOf } from './windows';

/** A sum that a refund takes back from a player in a window. */
export interface ReversedSum extends WindowRow {
  readonly changeNo: number;
  /** When the round was refunded, in microseconds since 1970. */
  readonly at: bigint;
  /** The player to whom the round is credited. */
  readonly playerRef: string;
  /** Its amount is the negative sum. */
  readonly credit: Credit;
}

/**
 * Entries of dropped months are gone, so their sums are not taken back either. Few rounds have sums: their
 * rows are looked up by key, since a join could read all rounds in each slice.
 */
const readOf = (name: string, creditedTo: string): Statement =>
  declared({
    name,
    text: `select ${WINDOW}, h.change_no, h.entered_at, coalesce(${creditedTo}, h.player_ref), h.item, h.currency, -h.amount
from (
  select w.change_no, w.entered_at, null::bigint as verdict_id, s.*, b.brand_no from ${REFUNDS}
  cross join lateral (select * from promo_store.promotion_round_sums s where s.generation = $4 and s.round_no = w.round_no
    and s.month <> all(array(select m.month from promo_store.months m where m.parent = 'history' and m.dropped_at is not null)) offset 0) s
  cross join lateral (select r.feed_no from promo_store.rounds r where r.round_no = s.round_no offset 0) r
  join promo_store.feeds f on f.feed_no = r.feed_no
  join promo_store.operators o on o.operator_id = f.operator_id
  left join promo_store.brands b on b.operator_no = o.operator_no and b.brand_id = s.brand_id
) h
cross join lateral (select * from promo_store.promotion_windows w where w.window_no = h.window_no offset 0) w`,
  });
const READ_SUMS = {
  plain: readOf('promotions_read_sums', 'null::text'),
  credited: readOf('promotions_read_sums_credited', `(${CREDITED})`),
};

/**
 * The sums of entries that slices before have summed and refunds take back, in no order.
 *
 * @param isAttributed whether rounds may be credited to other players
 */
export async function* reversedSums(
  reader: Reader,
  generation: number,
  refunds: readonly Refund[],
  isAttributed: boolean,
): AsyncGenerator<ReversedSum[]> {
  if (refunds.length === 0) return;
  const statement = isAttributed ? READ_SUMS.credited : READ_SUMS.plain;
  const begun = reader.query(statement, [...columnsOf(refunds), generation]);
  for await (const page of pagesOf(reader, begun)) yield page.map(reversedSumOf);
}

function reversedSumOf(row: Row): ReversedSum {
  const [window, [changeNo, at, playerRef, item, currency, amount]] = windowRowOf(row);
  return {
    ...window,
    changeNo: Number(changeNo),
    at: BigInt(at ?? 0),
    playerRef: playerRef ?? '',
    credit: { item: item ?? '', currency: currency ?? '', amount: BigInt(amount ?? 0) },
  };
}

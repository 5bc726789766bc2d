/** The rows of a report's queries, as objects. */
import type { TextRow } from '../postgres/texts';

/** Amounts are exact decimals in major units. They count what is not refunded. */
export interface ReportAmounts {
  readonly currency: string;
  readonly turnover: string;
  readonly wins: string;
  readonly bets_less_wins: string;
  /** Bets that counted, refunded ones included. */
  readonly bets: number;
  readonly refunded_bets: number;
  readonly refunded_amount: string;
}

/** Null in the rows of all buckets. */
function bucketOf(text: string | null | undefined): number | null {
  return text == null ? null : Number(text);
}

/** Verdicts of one connection and reason. */
export interface OutcomeRow {
  readonly bucket: number | null;
  readonly operator: string;
  readonly connection: string;
  readonly verdict: string;
  readonly reason: string | null;
  readonly events: number;
  readonly newest: string | null;
  readonly timed: number;
  readonly early: number;
  readonly within: readonly number[];
}

export function outcomeOfRow(row: TextRow): OutcomeRow {
  const [bucket, operator, connection, verdict, reason, events, newest, timed, early, ...within] = row;
  return {
    bucket: bucketOf(bucket),
    operator: operator ?? '',
    connection: connection ?? '',
    verdict: verdict ?? '',
    reason: reason ?? null,
    events: Number(events),
    newest: newest ?? null,
    timed: Number(timed),
    early: Number(early),
    within: within.map(Number),
  };
}

/** Further deliveries of one connection. */
export interface ResendRow {
  readonly bucket: number | null;
  readonly operator: string;
  readonly connection: string;
  readonly resent: number;
  readonly differing: number;
}

export function resendOfRow([bucket, operator, connection, resent, differing]: TextRow): ResendRow {
  return {
    bucket: bucketOf(bucket),
    operator: operator ?? '',
    connection: connection ?? '',
    resent: Number(resent),
    differing: Number(differing),
  };
}

export type AmountSet = 'day' | 'brand' | 'currency' | 'game';
/** By grouping(bucket, brand, game_id): a column whose values are summed over has a bit of 1. */
const AMOUNT_SETS: Readonly<Record<string, AmountSet>> = { 1: 'day', 5: 'brand', 7: 'currency', 6: 'game' };

/** Amounts of one grouping set. */
export interface AmountsRow extends ReportAmounts {
  readonly set: AmountSet | undefined;
  readonly bucket: number | null;
  readonly operator: string;
  readonly brand: string | null;
  readonly game: string | null;
}

export function amountsOfRow(row: TextRow): AmountsRow {
  const [bits, bucket, operator, brand, game, currency, ...sums] = row;
  const [turnover, wins, difference, bets, refunded, refundedAmount] = sums.map((sum) => sum ?? '0');
  return {
    set: AMOUNT_SETS[bits ?? ''],
    bucket: bucketOf(bucket),
    operator: operator ?? '',
    brand: brand ?? null,
    game: game ?? null,
    currency: currency ?? '',
    turnover: turnover ?? '0',
    wins: wins ?? '0',
    bets_less_wins: difference ?? '0',
    bets: Number(bets),
    refunded_bets: Number(refunded),
    refunded_amount: refundedAmount ?? '0',
  };
}

export function publicAmounts(from: ReportAmounts): ReportAmounts {
  const { currency, turnover, wins, bets_less_wins, bets, refunded_bets, refunded_amount } = from;
  return { currency, turnover, wins, bets_less_wins, bets, refunded_bets, refunded_amount };
}

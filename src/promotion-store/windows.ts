/** The windows of promotions in the store: their rows, and their numbers. */
import type { Row } from '../postgres/pipeline';
import type { Session, Statement } from '../postgres/transaction';
import { closeOf } from '../promotions/board';
import type { PromotionWindow } from '../promotions/calendar';
import type { ProgressWindow } from '../promotions/player-progress';
import type { CountedVersion } from './counted-versions';
import { finiteMicrosOf, readMicros, timestampText } from './times';

/** A window by its number, and by the numbers of its version. */
export interface WindowRow {
  readonly windowNo: number;
  readonly promotionNo: number;
  readonly version: number;
  readonly window: PromotionWindow;
}

/** The columns of `windowRowOf`. */
export const WINDOW = `w.window_no, w.promotion_no, w.version, ${finiteMicrosOf('w.starts_at')}, ${finiteMicrosOf('w.ends_at')}, w.window_key`;

/** @returns the window of a row that begins with the columns WINDOW, and its other columns */
export function windowRowOf(row: Row): readonly [window: WindowRow, others: Row] {
  const [windowNo, promotionNo, version, startsAt, endsAt, key, ...others] = row;
  const window = { key: key ?? '', startsAt: readMicros(startsAt), endsAt: readMicros(endsAt) };
  return [
    { windowNo: Number(windowNo), promotionNo: Number(promotionNo), version: Number(version), window },
    others,
  ];
}

const NUMBER_WINDOWS: Statement = {
  name: 'promotions_number_windows',
  text: `with wanted as (
  select * from unnest($1::int[], $2::int[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[])
    w (promotion_no, version, window_key, starts_at, ends_at, closes_at)
), added as (
  insert into promo_store.promotion_windows (promotion_no, version, window_key, starts_at, ends_at, closes_at)
  select * from wanted on conflict do nothing returning window_no, promotion_no, version, window_key
)
select window_no, promotion_no, version, window_key from added
union all select s.window_no, s.promotion_no, s.version, s.window_key from promo_store.promotion_windows s join wanted using (promotion_no, version, window_key)`,
};

/** The numbers of the windows that a slice has met. */
export class WindowNumbers {
  private readonly known = new Map<string, number>();

  /** Gives numbers to the windows without one, and adds windows to the store. */
  async number(session: Session, places: Iterable<ProgressWindow<CountedVersion>>): Promise<void> {
    const unknown: ProgressWindow<CountedVersion>[] = [];
    for (const place of places) {
      place.windowNo ??= this.known.get(keyOf(place)) ?? null;
      if (place.windowNo === null) unknown.push(place);
    }
    if (unknown.length === 0) return;
    const rows = await session.query(NUMBER_WINDOWS, [
      unknown.map(({ version }) => version.promotionNo),
      unknown.map(({ version }) => version.version),
      unknown.map(({ window }) => window.key),
      unknown.map(({ window }) => timestampText(window.startsAt)),
      unknown.map(({ window }) => timestampText(window.endsAt)),
      unknown.map(({ version, window }) => timestampText(closeOf(version, window))),
    ]);
    for (const [windowNo, ...key] of rows) this.known.set(key.join(' '), Number(windowNo));
    for (const place of unknown) {
      place.windowNo = this.known.get(keyOf(place)) ?? null;
      if (place.windowNo === null) throw new RangeError('a window has no number');
    }
  }
}

/** The columns by which NUMBER_WINDOWS returns the window, as one text. */
function keyOf({ version: { promotionNo, version }, window }: ProgressWindow<CountedVersion>): string {
  return `${promotionNo} ${version} ${window.key}`;
}

/** The number of a window that has one already. */
export function windowNoOf({ windowNo }: ProgressWindow): number {
  if (windowNo === null) throw new RangeError('progress of the slice has no window with a number');
  return windowNo;
}

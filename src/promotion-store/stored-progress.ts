/** The stored progress of all players, in parts, and the damages that a recount finds in it. */
import { declared, pagesOf } from '../postgres/pages';
import type { Reader } from '../postgres/transaction';
import type { ProgressRow } from '../promotions/attainment';
import { severalValuesOf } from './progress-rows';
import { finiteMicrosOf, readMicros } from './times';

export interface RecountDamage {
  /** The window: operator/promotion/window. */
  readonly source: string;
  /** A sentence that names no player. */
  readonly what: string;
}

/** The name that an erasure gives to a player. */
export const ERASED = /^erased:\d+$/;

const MOST_LISTED = 100;

export class DamageList {
  private readonly damages: RecountDamage[] = [];
  private inAll = 0;

  add(damage: RecountDamage): void {
    this.inAll++;
    if (this.damages.length < MOST_LISTED) this.damages.push(damage);
  }

  listed(): { damages: readonly RecountDamage[]; inAll: number } {
    return { damages: this.damages, inAll: this.inAll };
  }
}

export interface StoredRow {
  readonly windowNo: number;
  readonly operator: string;
  readonly promotion: string;
  readonly version: number;
  readonly window: string;
  /** Microseconds since 1970; null: no bound. */
  readonly startsAt: bigint | null;
  readonly isBoard: boolean;
  readonly playerRef: string;
  readonly rows: readonly ProgressRow[];
  readonly values: string;
  /** The numbers of the completions that hold, joined by commas. */
  readonly held: string;
  readonly changedNo: string;
}

/** The values of a player as a text: `3`, `EUR 500 and USD 20`, `ruby 2`, and the points of a leaderboard. */
export function valuesText(rows: readonly ProgressRow[], score: bigint): string {
  const values = rows
    .filter(({ value }) => value !== 0n)
    .map(({ item, currency, value }) => [item, currency, value].filter((part) => part !== '').join(' '))
    .sort();
  const points = score === 0n ? [] : [`${score} points`];
  return [...values, ...points].join(' and ') || 'nothing';
}

const STORED = declared({
  name: 'promotions_stored',
  text: `select p.window_no, o.operator_id, n.promotion_id, w.version, w.window_key, ${finiteMicrosOf('w.starts_at')},
  v.definition ->> 'type' = 'leaderboard', p.player_ref, json_build_array(p.items, p.currencies, p.amounts::text[]), p.score, a.held, p.changed_no
from promo_store.promotion_progress p
join promo_store.promotion_windows w using (window_no)
join promo_store.promotion_versions v using (promotion_no, version)
join promo_store.promotions n using (promotion_no)
join promo_store.operators o using (operator_no)
left join (
  select window_no, player_ref, string_agg(ordinal::text, ',' order by ordinal) as held from promo_store.promotion_attempts
  where generation = $1 and is_held group by 1, 2
) a on a.window_no = p.window_no and a.player_ref = p.player_ref
where p.generation = $1`,
});

/** The stored progress of all players. */
export async function* storedProgress(reader: Reader, generation: number): AsyncGenerator<StoredRow> {
  for await (const page of pagesOf(reader, reader.query(STORED, [generation])))
    for (const row of page) yield storedRowOf(row);
}

function storedRowOf(row: readonly (string | null)[]): StoredRow {
  const [windowNo, operator, promotion, version, window, startsAt, isBoard, playerRef, ...rest] = row;
  const [several, score, held, changedNo] = rest;
  const rows = severalValuesOf(several ?? '[]');
  return {
    windowNo: Number(windowNo),
    operator: operator ?? '',
    promotion: promotion ?? '',
    version: Number(version),
    window: window ?? '',
    playerRef: playerRef ?? '',
    startsAt: readMicros(startsAt),
    isBoard: isBoard === 't',
    rows,
    values: valuesText(rows, BigInt(score ?? 0)),
    held: held ?? '',
    changedNo: changedNo ?? '',
  };
}

/** The statements by which the fold of promotions keeps its results, over the model of the tables. */
import { BEFORE_ALL } from '../../src/promotions/calendar';
import { completionIdOf } from '../../src/promotions/completion';
import { compareBytes } from '../../src/promotions/ranking';
import { type CompiledPromotion, compilePromotion } from '../../src/promotions/terms';
import type { FoldSession, FoldStatement } from './fold-statements';
import {
  type AttemptState,
  arrayOf,
  type CompletionRow,
  type FoldTables,
  flag,
  instantOf,
  keyOfRow,
  listOf,
  numbersOf,
  numberText,
  textsOf,
  type WindowRow,
} from './fold-tables';
import { StoreFailure } from './store-model';
import type { Text } from './wire';

const numberOf = (text: Text | undefined): number | null => (text == null ? null : Number(text));

export function windowOf({ windows }: FoldTables, windowNo: number): WindowRow {
  const window = windows.get(windowNo);
  if (window === undefined) throw new Error(`there is no window ${windowNo}`);
  return window;
}

type Found = Pick<FoldSession, 'ledger' | 'seen'>;

export function promotionOf({ ledger, seen }: Found, windowNo: number): CompiledPromotion {
  const { promotionNo, version } = windowOf(seen, windowNo);
  const found = ledger.versions.find((each) => each.promotionNo === promotionNo && each.version === version);
  if (found === undefined) throw new Error(`there is no version ${version} of promotion ${promotionNo}`);
  return compilePromotion(found.definition);
}

export const describedWindow = ({
  windowNo,
  promotionNo,
  version,
  startsAt,
  endsAt,
  key,
}: WindowRow): Text[] => [
  ...[String(windowNo), String(promotionNo), String(version), numberText(startsAt), numberText(endsAt), key],
];

/** The completion id of an attempt, as promo_store.completion_id computes it. */
export function idOf(
  session: Found,
  { windowNo, player, ordinal, attempt }: Pick<AttemptState, 'windowNo' | 'player' | 'ordinal' | 'attempt'>,
): string {
  const { version, key } = windowOf(session.seen, windowNo);
  const { operator, id } = promotionOf(session, windowNo).definition;
  return completionIdOf({
    operatorId: operator,
    promotionId: id,
    version,
    window: key,
    playerRef: player,
    ordinal,
    attempt,
  });
}

export const latestOf = (a: bigint, b: bigint): bigint => (a > b ? a : b);

const isOfAttempt = (entry: CompletionRow, { windowNo, player, ordinal }: AttemptState): boolean =>
  entry.windowNo === windowNo && entry.player === player && entry.ordinal === ordinal;

const heldIn = ({ seen }: FoldSession, generation: number): AttemptState[] =>
  [...seen.attempts.values()].filter((row) => row.generation === generation && row.isHeld);

function putAttempt(session: FoldSession, row: AttemptState): void {
  const { generation, windowNo, player, ordinal } = row;
  session.changed().attempts.set(keyOfRow(generation, windowNo, player, ordinal), row);
}

function enter(session: FoldSession, entries: readonly CompletionRow[]): void {
  if (entries.length === 0) return;
  const { completions } = session.changed();
  for (const entry of entries) {
    if (completions.some(({ id, change }) => id === entry.id && change === entry.change))
      throw new StoreFailure('23505', 'duplicate key value violates promotion_completions_changes');
    completions.push(entry);
  }
}

/** The rows of parameters that are lists, one for each column. */
function rowsOf(columns: readonly unknown[]): (readonly Text[])[] {
  const lists = columns.map(listOf);
  return (lists[0] ?? []).map((_, place) => lists.map((list) => list[place] ?? null));
}

const entryRow = (
  id: string,
  change: number,
  { windowNo, player, ordinal, attempt }: Omit<CompletionRow, 'id' | 'change' | 'changedAt'>,
  changedAt: bigint,
): CompletionRow => ({ id, change, windowNo, player, ordinal, attempt, changedAt });

function sweep<K, T extends { readonly generation: number }>(rows: Map<K, T>, no: unknown): Text[][] {
  let count = 0;
  for (const [key, { generation }] of [...rows]) if (generation === Number(no) && rows.delete(key)) count++;
  return [[String(count)]];
}

/** Windows that began before history was whole, of one generation or another. */
function isOlder(session: FoldSession, windowNo: number, since: unknown): boolean {
  return (windowOf(session.seen, windowNo).startsAt ?? BEFORE_ALL) < (instantOf(since) ?? BEFORE_ALL);
}

/** The statements that copy a table. The generation is the first part of its primary keys. */
function keepsOf<T extends { readonly generation: number; readonly windowNo: number }>(
  table: string,
  rowsIn: (tables: FoldTables) => Map<string, T>,
): [string, FoldStatement][] {
  return [
    [
      `promotions_clear_promotion_${table}`,
      (session, [, to, since]) => {
        const rows = rowsIn(session.changed());
        for (const [key, { generation, windowNo }] of [...rows])
          if (generation === Number(to) && isOlder(session, windowNo, since)) rows.delete(key);
        return [];
      },
    ],
    [
      `promotions_keep_promotion_${table}`,
      (session, [from, to, since]) => {
        const rows = rowsIn(session.changed());
        for (const [key, row] of [...rows]) {
          if (row.generation !== Number(from) || !isOlder(session, row.windowNo, since)) continue;
          const [, ...place] = key.split('\0');
          rows.set(keyOfRow(Number(to), ...place), { ...row, generation: Number(to) });
        }
        return [];
      },
    ],
  ];
}

/** The values of a row of progress, as the fold writes them. */
function progressOf(values: readonly Text[]) {
  const [item, currency, amount, items, currencies, amounts, attained, hasAttempts, ...last] = values;
  const [score, scoredNo, changedNo, changedAt] = last;
  return {
    items: item == null ? arrayOf(items ?? '') : [item],
    currencies: item == null ? arrayOf(currencies ?? '') : [currency ?? ''],
    amounts: item == null ? arrayOf(amounts ?? '') : [amount ?? ''],
    attained: attained ?? '',
    hasAttempts: hasAttempts ?? '',
    score: BigInt(score ?? 0),
    scoredNo: numberOf(scoredNo),
    changedNo: Number(changedNo),
    changedAt: instantOf(changedAt) ?? BEFORE_ALL,
  };
}

export const RESULT_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  promotions_number_windows(session, [...columns]) {
    const { windows } = session.changed();
    return rowsOf(columns).map(([promotion, ofVersion, key, startsAt, endsAt, closesAt]) => {
      const [promotionNo, version] = [Number(promotion), Number(ofVersion)];
      let row = [...windows.values()].find(
        (each) => each.promotionNo === promotionNo && each.version === version && each.key === key,
      );
      if (row === undefined) {
        row = {
          windowNo: session.nextWindowNo(keyOfRow(promotionNo, version, key ?? '')),
          promotionNo,
          version,
          key: key ?? '',
          startsAt: instantOf(startsAt),
          endsAt: instantOf(endsAt),
          closesAt: instantOf(closesAt),
        };
        windows.set(row.windowNo, row);
      }
      return [String(row.windowNo), String(promotionNo), String(version), row.key];
    });
  },
  promotions_load({ seen }, [generation, windows, players, first, last]) {
    const ofAll = listOf(players);
    const keys = rowsOf([windows, first, last]).flatMap(([windowNo, from, to]) =>
      ofAll.slice(Number(from) - 1, Number(to)).map((player) => [windowNo, player]),
    );
    return keys.flatMap(([windowNo, player]) => {
      const row = seen.progress.get(keyOfRow(Number(generation), Number(windowNo), player ?? ''));
      if (row === undefined) return [];
      const { hasAttempts, items, currencies, amounts, attained, score, scoredNo } = row;
      const several = items.length === 1 ? null : JSON.stringify([items, currencies, amounts]);
      const isClosed = seen.boards.has(keyOfRow(row.generation, row.windowNo));
      return [
        [
          ...[String(row.windowNo), row.player, keyOfRow(row.generation, row.windowNo, row.player)],
          ...[hasAttempts === 't' || isClosed ? 't' : null, attained === '0' ? null : attained],
          ...[score === 0n ? null : String(score), numberText(scoredNo)],
          ...[items[0] === '' ? null : (items[0] ?? null), currencies[0] ?? null, amounts[0] ?? null],
          several,
        ],
      ];
    });
  },
  promotions_load_attempts({ seen }, [generation, windows, players]) {
    return rowsOf([windows, players]).flatMap(([windowNo, player], place) =>
      [...seen.attempts.values()]
        .filter(
          (row) =>
            row.generation === Number(generation) &&
            row.windowNo === Number(windowNo) &&
            row.player === player,
        )
        .map(({ ordinal, attempt, isHeld, decidedNo, decidedAt, confirmsAt }) => [
          ...[String(place + 1), String(ordinal), String(attempt), flag(isHeld)],
          ...[numberText(decidedNo), String(decidedAt), numberText(confirmsAt)],
        ]),
    );
  },
  promotions_add(session, [no, ...columns]) {
    const generation = Number(no);
    const { progress } = session.changed();
    for (const [windowNo, player, ...values] of rowsOf(columns)) {
      const key = keyOfRow(generation, Number(windowNo), player ?? '');
      if (progress.has(key))
        throw new StoreFailure('23505', 'duplicate key value violates promotion_progress_pkey');
      const place = { generation, windowNo: Number(windowNo), player: player ?? '' };
      progress.set(key, { ...place, ...progressOf(values) });
    }
    return [];
  },
  promotions_change(session, columns) {
    const { progress } = session.changed();
    let count = 0;
    for (const [place, ...values] of rowsOf(columns)) {
      const row = progress.get(place ?? '');
      if (row === undefined) continue;
      count++;
      progress.set(place ?? '', { ...row, ...progressOf(values) });
    }
    return [[String(count)]];
  },
  promotions_save_attempts(session, [generation, ...columns]) {
    for (const row of rowsOf(columns)) {
      const [windowNo, player, ordinal, attempt, isHeld, decidedNo, decidedAt, confirmsAt] = row;
      putAttempt(session, {
        generation: Number(generation),
        windowNo: Number(windowNo),
        player: player ?? '',
        ordinal: Number(ordinal),
        attempt: Number(attempt),
        isHeld: isHeld === 't',
        decidedNo: numberOf(decidedNo),
        decidedAt: BigInt(decidedAt ?? 0),
        confirmsAt: instantOf(confirmsAt),
      });
    }
    return [];
  },
  promotions_pool: ({ seen }, [generation, windowNo, most]) =>
    [...seen.progress.values()]
      .filter(
        (row) => row.generation === Number(generation) && row.windowNo === Number(windowNo) && row.score > 0n,
      )
      .sort(
        (a, b) =>
          (a.score === b.score ? 0 : a.score > b.score ? -1 : 1) ||
          (a.scoredNo ?? Number.POSITIVE_INFINITY) - (b.scoredNo ?? Number.POSITIVE_INFINITY) ||
          compareBytes(a.player, b.player),
      )
      .slice(0, Number(most))
      .map(({ player }) => [player]),
  promotions_ranked: (session, [generation, windowNo]) =>
    heldIn(session, Number(generation)).flatMap((row) =>
      row.windowNo === Number(windowNo) ? [[row.player]] : [],
    ),
  promotions_due_boards: ({ seen }, [generation, asOf]) =>
    [...seen.windows.values()]
      .filter(
        ({ windowNo, closesAt }) =>
          closesAt !== null &&
          closesAt <= BigInt(String(asOf)) &&
          !seen.boards.has(keyOfRow(Number(generation), windowNo)) &&
          [...seen.progress.values()].some(
            (row) => row.generation === Number(generation) && row.windowNo === windowNo,
          ),
      )
      .map(describedWindow),
  promotions_due_confirmations({ seen }, [generation, asOf, most]) {
    const due = [...seen.attempts.values()]
      .filter(
        (row) =>
          row.generation === Number(generation) &&
          row.confirmsAt !== null &&
          row.confirmsAt <= BigInt(String(asOf)),
      )
      .sort((a, b) => Number((a.confirmsAt ?? 0n) - (b.confirmsAt ?? 0n)))
      .slice(0, Number(most));
    const places = new Map(due.map((row) => [keyOfRow(row.windowNo, row.player), row]));
    return [...places.values()].map(({ windowNo, player }) => [
      ...describedWindow(windowOf(seen, windowNo)),
      player,
    ]);
  },
  promotions_closed: ({ seen }, [generation, windows]) =>
    numbersOf(windows)
      .filter((windowNo) => seen.boards.has(keyOfRow(Number(generation), windowNo)))
      .map((windowNo) => [String(windowNo)]),
  promotions_closed_by_time({ seen }, [from, to]) {
    const closed = [...seen.boards.values()].filter(
      ({ generation, windowNo }) =>
        generation === Number(from) && !seen.boards.has(keyOfRow(Number(to), windowNo)),
    );
    const times = closed.flatMap(({ windowNo }) => windowOf(seen, windowNo).closesAt ?? []);
    return [[numberText(times.reduce<bigint | null>((a, b) => (a === null ? b : latestOf(a, b)), null))]];
  },
  promotions_close(session, [no, windows]) {
    const generation = Number(no);
    for (const windowNo of numbersOf(windows))
      session.changed().boards.set(keyOfRow(generation, windowNo), { generation, windowNo });
    return [];
  },
  promotions_enter(session, [ids, changes, windows, players, ordinals, attempts, , times]) {
    const texts = textsOf(ids);
    enter(
      session,
      rowsOf([changes, windows, players, ordinals, attempts, times]).map(
        ([change, windowNo, player, ordinal, attempt, at], place) => {
          const key = { windowNo: Number(windowNo), player: player ?? '' };
          const row = { ...key, ordinal: Number(ordinal), attempt: Number(attempt) };
          return entryRow(texts[place] ?? '', Number(change), row, BigInt(at ?? 0));
        },
      ),
    );
    return [];
  },
  promotions_keep_numbers(session, [generation]) {
    for (const row of heldIn(session, Number(generation))) {
      const entries = session.seen.completions.filter((entry) => isOfAttempt(entry, row));
      if (entries.length === 0) continue;
      const last = Math.max(...entries.map(({ attempt }) => attempt));
      const isOver = entries.some(({ attempt, change }) => change === 1 && attempt === last);
      const next = isOver ? last + 1 : last;
      if (row.attempt < next || (!isOver && row.attempt > last))
        putAttempt(session, { ...row, attempt: next });
    }
    return [];
  },
  promotions_go_on_numbering(session, [no]) {
    const generation = Number(no);
    const last = new Map<string, CompletionRow>();
    for (const entry of session.seen.completions) {
      const key = keyOfRow(generation, entry.windowNo, entry.player, entry.ordinal);
      const { attempt, changedAt } = last.get(key) ?? entry;
      last.set(key, {
        ...entry,
        attempt: Math.max(attempt, entry.attempt),
        changedAt: latestOf(changedAt, entry.changedAt),
      });
    }
    for (const [key, { windowNo, player, ordinal, attempt, changedAt }] of last) {
      const found = session.seen.attempts.get(key);
      // Versions of the model have no bounds, so each window counts.
      if ((found?.attempt ?? 0) >= attempt) continue;
      const none = { isHeld: false, decidedNo: null, decidedAt: changedAt, confirmsAt: null };
      putAttempt(session, { ...none, ...found, generation, windowNo, player, ordinal, attempt });
      const { progress } = session.changed();
      const ofPlayer = keyOfRow(generation, windowNo, player);
      const empty = {
        generation,
        windowNo,
        player,
        items: [],
        currencies: [],
        amounts: [],
        attained: '0',
        score: 0n,
        scoredNo: null,
        changedNo: 0,
        changedAt,
      };
      progress.set(ofPlayer, { ...empty, ...progress.get(ofPlayer), hasAttempts: 't' });
    }
    return [];
  },
  promotions_keep_confirmed(session, [generation]) {
    const { completions } = session.seen;
    for (const row of heldIn(session, Number(generation)))
      if (
        row.confirmsAt !== null &&
        completions.some(
          (entry) => entry.change === 2 && isOfAttempt(entry, row) && entry.attempt === row.attempt,
        )
      )
        putAttempt(session, { ...row, confirmsAt: null });
    return [];
  },
  promotions_enter_difference(session, [generation]) {
    const { completions } = session.seen;
    const held = new Map(heldIn(session, Number(generation)).map((row) => [idOf(session, row), row]));
    const has = (wanted: string, of: number) =>
      completions.some(({ id, change }) => id === wanted && change === of);
    const present = new Map(
      completions.flatMap((entry) =>
        entry.change === 0 && !has(entry.id, 1) ? [[entry.id, entry] as const] : [],
      ),
    );
    const newestAt = session.seen.generations.get(Number(generation))?.newestAt ?? session.now();
    const revoked = [...present]
      .filter(([id]) => !held.has(id))
      .map(([id, row]) => entryRow(id, 1, row, newestAt));
    const completed = [...held]
      .filter(([id]) => !present.has(id))
      .map(([id, row]) => entryRow(id, 0, row, row.decidedAt));
    const confirmed = [...held]
      .filter(
        ([id, { windowNo, confirmsAt }]) =>
          promotionOf(session, windowNo).confirmAfter !== null &&
          confirmsAt === null &&
          !(present.has(id) && has(id, 2)),
      )
      .map(([id, row]) =>
        entryRow(id, 2, row, row.decidedAt + (promotionOf(session, row.windowNo).confirmAfter ?? 0n)),
      );
    enter(session, [...revoked, ...completed, ...confirmed]);
    return [];
  },
  ...Object.fromEntries([
    ...keepsOf('progress', ({ progress }) => progress),
    ...keepsOf('attempts', ({ attempts }) => attempts),
    ...keepsOf('boards', ({ boards }) => boards),
    ...keepsOf('joins', ({ joins }) => joins),
  ]),
  promotions_take_joined(session, [no]) {
    const generation = Number(no);
    const taken = [...session.seen.joins].filter(([, row]) => row.generation === generation);
    if (taken.length === 0) return [];
    const { joins, progress } = session.changed();
    for (const [key] of taken) joins.delete(key);
    return taken
      .flatMap(([key, { windowNo }]) => {
        const row = progress.get(key);
        return row === undefined ? [] : [{ ...row, window: windowOf(session.seen, windowNo) }];
      })
      .sort((a, b) => a.changedNo - b.changedNo)
      .map(({ window, player, changedNo, changedAt }) => [
        ...describedWindow(window),
        ...[player, String(changedNo), String(changedAt)],
      ]);
  },
  promotions_sweep_promotion_joins: (session, [no]) => sweep(session.changed().joins, no),
  promotions_sweep_promotion_progress: (session, [no]) => sweep(session.changed().progress, no),
  promotions_sweep_promotion_attempts: (session, [no]) => sweep(session.changed().attempts, no),
  promotions_sweep_promotion_boards: (session, [no]) => sweep(session.changed().boards, no),
  promotions_sweep_promotion_rounds: (session, [no]) => sweep(session.changed().records, no),
  promotions_sweep_promotion_round_sums: (session, [no]) => sweep(session.changed().sums, no),
  promotions_sweep_promotion_recordings: (session, [no]) => sweep(session.changed().recordings, no),
  promotions_sweep_promotion_generations: (session, [no]) => sweep(session.changed().counted, no),
};

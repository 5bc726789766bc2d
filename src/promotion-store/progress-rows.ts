/** Progress, attempts and leaderboards between slices: how they are read and written. */
import { arrays } from '../postgres/binary-format';
import type { Session, Statement } from '../postgres/transaction';
import type { ProgressRow } from '../promotions/attainment';
import { Attempts, type OrdinalAttempt } from '../promotions/attempts';
import type { PlayerProgress, ProgressWindow } from '../promotions/player-progress';
import { finiteMicrosOf } from './times';
import { windowNoOf } from './windows';

/**
 * Most players have one value in a window, so arrays are read for the others alone. All players of a window
 * are looked up at once: one look-up for each takes twice the time. A null costs less than a value that means
 * nothing.
 *
 * Ranks change by the events of others, which save no progress of the player. So a closed leaderboard may
 * have attempts of each player.
 */
const LOAD: Statement = {
  name: 'promotions_load',
  text: `select w.window_no, p.player_ref, p.ctid, nullif(p.has_attempts or w.is_closed, false), nullif(p.attained, 0), nullif(p.score, 0), p.scored_no,
  nullif(p.items[1], ''), p.currencies[1], p.amounts[1],
  case when cardinality(p.items) <> 1 then json_build_array(p.items, p.currencies, p.amounts::text[]) end
from (select w.*, exists (select from promo_store.promotion_boards b where b.generation = $1 and b.window_no = w.window_no) as is_closed
  from unnest($2::int[], $4::int[], $5::int[]) w (window_no, first_place, last_place) offset 0) w
cross join lateral (select p.ctid, p.* from promo_store.promotion_progress p
  where p.generation = $1 and p.window_no = w.window_no and p.player_ref = any(($3::text[])[w.first_place:w.last_place]) offset 0) p`,
};
/** The arrays of `keysOf`, and the place of each element. */
const KEYS = `(select unnest($2::int[]) as window_no, unnest($3::text[]) as player_ref, generate_series(1, cardinality($2::int[])) as no)`;
const LOAD_ATTEMPTS: Statement = {
  name: 'promotions_load_attempts',
  text: `select w.no, a.ordinal, a.attempt, a.is_held, a.decided_no, ${finiteMicrosOf('a.decided_at')}, ${finiteMicrosOf('a.confirms_at')}
from ${KEYS} w
cross join lateral (select * from promo_store.promotion_attempts a
  where a.generation = $1 and a.window_no = w.window_no and a.player_ref = w.player_ref offset 0) a`,
};

/** Restores progress as the last slice left it. */
export async function loadProgress(
  session: Session,
  generation: number,
  all: readonly PlayerProgress[],
): Promise<void> {
  const attempted: PlayerProgress[] = [];
  await inParts(all, async (part) => {
    const { values, find } = byWindow(generation, part);
    for (const row of await session.query(LOAD, values)) {
      const [
        windowNo,
        playerRef,
        place,
        hasAttempts,
        attained,
        score,
        scoredNo,
        item,
        currency,
        amount,
        several,
      ] = row;
      const progress = find(Number(windowNo), playerRef ?? '');
      if (progress === undefined || place == null)
        throw new RangeError(`nobody looked for a player of the window ${windowNo}`);
      progress.rowPlace = place;
      progress.restore({
        rows:
          several == null
            ? [{ item: item ?? '', currency: currency ?? '', value: BigInt(amount ?? 0) }]
            : severalValuesOf(several),
        attained: Number(attained ?? 0),
        score: BigInt(score ?? 0),
        scoredNo: scoredNo == null ? null : Number(scoredNo),
      });
      if (hasAttempts === 't') attempted.push(progress);
    }
  });
  await inParts(attempted, (part) => loadAttempts(session, generation, part));
}

/** Some progress by window. @returns the values of LOAD, and the progress of one of its rows */
function byWindow(generation: number, part: readonly PlayerProgress[]) {
  const windows = new Map<number, { place: ProgressWindow; players: string[] }>();
  for (const progress of part) {
    const windowNo = windowNoOf(progress.place);
    const ofWindow = windows.get(windowNo);
    if (ofWindow === undefined)
      windows.set(windowNo, { place: progress.place, players: [progress.playerRef] });
    else ofWindow.players.push(progress.playerRef);
  }
  const players: string[] = [];
  const last: number[] = [];
  for (const ofWindow of windows.values()) {
    for (const playerRef of ofWindow.players) players.push(playerRef);
    last.push(players.length);
  }
  const first = [1, ...last.map((place) => place + 1)].slice(0, last.length);
  return {
    values: [generation, [...windows.keys()], arrays.text(players), first, last],
    find: (windowNo: number, playerRef: string) => windows.get(windowNo)?.place.players.get(playerRef),
  };
}

/** Rows of one statement. */
const PART_ROWS = 2_000;
/** Statements that are sent before the first of them is answered: memory holds their values until then. */
const SENT_AT_ONCE = 4;

/**
 * Runs work on parts, and sends the statements of each before those of the part before it are answered. So
 * the store works while this process does.
 */
function inParts<T>(all: readonly T[], work: (part: readonly T[]) => Promise<unknown>): Promise<unknown> {
  if (all.length === 0) return Promise.resolve();
  return all.length <= PART_ROWS ? work(all) : inSeveralParts(all, work);
}

async function inSeveralParts<T>(
  all: readonly T[],
  work: (part: readonly T[]) => Promise<unknown>,
): Promise<void> {
  const running: Promise<unknown>[] = [];
  for (let first = 0; first < all.length; first += PART_ROWS) {
    const part = work(all.slice(first, first + PART_ROWS));
    // Its failure is met below.
    part.catch(() => {});
    running.push(part);
    if (running.length >= SENT_AT_ONCE) await running.shift();
    await new Promise<void>((sent) => process.nextTick(sent));
  }
  await Promise.all(running);
}

async function loadAttempts(
  session: Session,
  generation: number,
  part: readonly PlayerProgress[],
): Promise<void> {
  const found = new Map<PlayerProgress, [number, OrdinalAttempt][]>();
  const rows = await session.query(LOAD_ATTEMPTS, keysOf(generation, part));
  for (const [no, ordinal, attempt, isHeld, decidedNo, decidedAt, confirmsAt] of rows) {
    const progress = part[Number(no) - 1];
    if (progress === undefined) throw new RangeError(`there is no place ${no}`);
    const at = BigInt(decidedAt ?? 0);
    const isAttained = isHeld === 't';
    const held = { attempt: Number(attempt), at, confirmsAt: confirmsAt == null ? null : BigInt(confirmsAt) };
    const attempts = found.get(progress) ?? [];
    found.set(progress, attempts);
    attempts.push([
      Number(ordinal),
      {
        attempt: Number(attempt),
        isAttained,
        held: isAttained ? held : null,
        step: { changeNo: decidedNo == null ? null : Number(decidedNo), at },
      },
    ]);
  }
  for (const [progress, attempts] of found) progress.restoreAttempts(new Attempts(attempts));
}

function keysOf(generation: number, part: readonly PlayerProgress[]): unknown[] {
  return [
    generation,
    arrays.int4(part.map(({ place }) => windowNoOf(place))),
    arrays.text(part.map(({ playerRef }) => playerRef)),
  ];
}

/** @param json an array of the items, the currencies and the amounts */
export function severalValuesOf(json: string): ProgressRow[] {
  const value: unknown = JSON.parse(json);
  const [items, currencies, amounts] =
    textsOf(value).length === 3 && Array.isArray(value) ? value.map(textsOf) : [];
  return (items ?? []).map((item, index) => ({
    item,
    currency: currencies?.[index] ?? '',
    value: BigInt(amounts?.[index] ?? 0),
  }));
}

function textsOf(value: unknown): string[] {
  if (!Array.isArray(value)) throw new TypeError('the store answered no array');
  return value.map(String);
}

const listIn = (single: string, several: string) =>
  `case when w.items is null then array[${single}] else ${several} end`;
const VALUES = [
  listIn('w.item', 'w.items::text[]'),
  listIn('w.currency', 'w.currencies::text[]'),
  listIn('w.amount', 'w.amounts::numeric[]'),
  ...['w.attained', 'w.has_attempts', 'w.score', 'w.scored_no', 'w.changed_no', 'w.changed_at'],
].join(', ');
const VALUE_COLUMNS =
  'items, currencies, amounts, attained, has_attempts, score, scored_no, changed_no, changed_at';
/** The columns of `valuesOf`. */
const WRITTEN = [
  ...['item text', 'currency text', 'amount numeric', 'items text', 'currencies text', 'amounts text'],
  ...['attained int', 'has_attempts boolean', 'score numeric', 'scored_no bigint', 'changed_no bigint'],
  'changed_at timestamptz',
];
/** Postgres takes a list of results apart one by one, and would first keep a table as rows. */
const written = (first: number) =>
  WRITTEN.map((column, index) => {
    const [name, type] = column.split(' ');
    return `unnest($${first + index}::${type}[]) as ${name}`;
  }).join(', ');

const ADD: Statement = {
  name: 'promotions_add',
  text: `insert into promo_store.promotion_progress (generation, window_no, player_ref, ${VALUE_COLUMNS})
select $1, w.window_no, w.player_ref, ${VALUES}
from (select unnest($2::int[]) as window_no, unnest($3::text[]) as player_ref, ${written(4)}) w
order by w.window_no, w.player_ref collate "C"`,
};
/** A row is found by its place, which takes a third of the time of an upsert by its key. */
const CHANGE: Statement = {
  name: 'promotions_change',
  text: `with changed as (
  update promo_store.promotion_progress p set (${VALUE_COLUMNS}) = row(${VALUES})
  from (select unnest($1::text[])::tid as place, ${written(2)}) w where p.ctid = w.place returning 1
) select count(*) from changed`,
};

/** Writes the progress that the slice changed. Its rows are at their places since loadProgress. */
export function saveProgress(
  session: Session,
  generation: number,
  all: readonly PlayerProgress[],
): Promise<unknown> {
  const added = all.filter(({ rowPlace }) => rowPlace === null);
  const changed = all.filter(({ rowPlace }) => rowPlace !== null);
  return Promise.all([
    inParts(added, (part) => addRows(session, generation, part)),
    inParts(changed, (part) => changeRows(session, part)),
  ]);
}

/** Does not refer to the progress until the answer, so that memory holds it no longer. */
function addRows(session: Session, generation: number, part: readonly PlayerProgress[]): Promise<unknown> {
  return session.query(ADD, [...keysOf(generation, part), ...valuesOf(part)]);
}

/** The same. */
function changeRows(session: Session, part: readonly PlayerProgress[]): Promise<void> {
  const { length } = part;
  const places = arrays.text(part.map(({ rowPlace }) => rowPlace));
  return session.query(CHANGE, [places, ...valuesOf(part)]).then(([row]) => {
    const count = Number(row?.[0]);
    if (count !== length)
      throw new RangeError(`${length} rows of progress change, and the store found ${count}`);
  });
}

/** Postgres fills shorter lists with nulls: no list of several values is sent where none has them. */
function valuesOf(part: readonly PlayerProgress[]): unknown[] {
  const single = part.map((progress) => (progress.rows().length === 1 ? progress.rows()[0] : undefined));
  const several = single.includes(undefined)
    ? part.map((progress, index) => (single[index] === undefined ? progress.rows() : undefined))
    : [];
  const texts = (of: (row: ProgressRow) => string) =>
    arrays.text(several.map((each) => (each === undefined ? null : arrayText(each.map(of)))));
  return [
    arrays.text(single.map((row) => row?.item ?? null)),
    arrays.text(single.map((row) => row?.currency ?? null)),
    arrays.numeric(single.map((row) => row?.value ?? null)),
    texts(({ item }) => item),
    texts(({ currency }) => currency),
    texts(({ value }) => value.toString()),
    arrays.int4(part.map(({ attained }) => attained)),
    arrays.bool(part.map(({ hasAttempts }) => hasAttempts)),
    arrays.numeric(part.map(({ score }) => score)),
    arrays.int8(part.map(({ scoredNo }) => scoredNo)),
    arrays.int8(part.map(({ lastStep }) => lastStep?.changeNo ?? 0)),
    arrays.timestamptz(part.map(({ lastStep }) => lastStep?.at ?? 0n)),
  ];
}

/** A text of an array that Postgres reads. */
function arrayText(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, '\\$&')}"`).join()}}`;
}

const SAVE_ATTEMPTS: Statement = {
  name: 'promotions_save_attempts',
  text: `insert into promo_store.promotion_attempts (generation, window_no, player_ref, ordinal, attempt, is_held, decided_no, decided_at, confirms_at)
select $1, window_no, player_ref, ordinal, attempt, is_held, decided_no, 'epoch'::timestamptz + decided_at * interval '1 microsecond',
  'epoch'::timestamptz + confirms_at * interval '1 microsecond'
from (select unnest($2::int[]) as window_no, unnest($3::text[]) as player_ref, unnest($4::int[]) as ordinal, unnest($5::int[]) as attempt,
  unnest($6::boolean[]) as is_held, unnest($7::bigint[]) as decided_no, unnest($8::bigint[]) as decided_at, unnest($9::bigint[]) as confirms_at) w
on conflict (generation, window_no, player_ref, ordinal) do update set attempt = excluded.attempt, is_held = excluded.is_held,
  decided_no = excluded.decided_no, decided_at = excluded.decided_at, confirms_at = excluded.confirms_at`,
};

/** Writes the attempts that the slice changed. */
export function saveAttempts(
  session: Session,
  generation: number,
  changed: ReadonlyMap<PlayerProgress, readonly number[]>,
): Promise<unknown> {
  const rows = [...changed].flatMap(([progress, ordinals]) =>
    [...new Set(ordinals)].flatMap((ordinal) => {
      const attempt = progress.attempts.get(ordinal);
      return attempt === undefined ? [] : [{ progress, ordinal, attempt }];
    }),
  );
  if (rows.length === 0) return Promise.resolve();
  return session.query(SAVE_ATTEMPTS, [
    generation,
    arrays.int4(rows.map(({ progress }) => windowNoOf(progress.place))),
    arrays.text(rows.map(({ progress }) => progress.playerRef)),
    arrays.int4(rows.map(({ ordinal }) => ordinal)),
    arrays.int4(rows.map(({ attempt }) => attempt.attempt)),
    arrays.bool(rows.map(({ attempt }) => attempt.held !== null)),
    arrays.int8(rows.map(({ attempt }) => attempt.step.changeNo)),
    arrays.int8(rows.map(({ attempt }) => attempt.step.at)),
    arrays.int8(rows.map(({ attempt }) => attempt.held?.confirmsAt ?? null)),
  ]);
}

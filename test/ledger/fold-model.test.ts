/**
 * The simulator's model of the store of a fold answers each statement as Postgres does. The fold of
 * promotions runs on Postgres, and the model runs each of its statements with the same values.
 */
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { type Fold, makeFold } from '../../src/fold/fold';
import type { Row } from '../../src/postgres/pipeline';
import type { Store, StoreConnection } from '../../src/postgres/transaction';
import { inTransaction } from '../../src/postgres/transaction';
import { makePromotionResults } from '../../src/promotion-store/results';
import { readPromotionVersions } from '../../src/promotion-store/versions';
import { forgetProgress } from '../simulation/fold-erasure';
import { type FoldBackend, FoldStoreModel } from '../simulation/fold-store';
import {
  type CreditRow,
  copyTables,
  keyOfRow,
  type LedgerTables,
  listOf,
  type RefundedRound,
  type Verdict,
} from '../simulation/fold-tables';
import { Scheduler } from '../simulation/scheduler';
import { asRole } from '../support/as-role';
import { creditRound } from '../support/attributions';
import { freshStore, type TestStore } from '../support/ledger';
import { DAILY_RACE, eventBytes, FLOWS, feedOf, LATE_CONFIRMED } from '../support/promotion-feeds';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

const SEEDS = inRun({ usual: 1, long: 3, variable: 'PROMOTION_SEEDS' });

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const micros = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;
const HISTORY = `select h.verdict_id, h.event_id, f.operator_id, h.kind, h.round_no, b.brand_id, h.player_ref, u.code, coalesce(h.amount_minor, 0), h.game_id,
  coalesce(${micros('h.occurred_at')}, ${micros('h.decided_at')}), ${micros('h.decided_at')}, h.counted
from promo_store.history h join promo_store.feeds f using (feed_no) left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no order by h.verdict_id`;
const REFUNDS = `select round_no, ${micros('opened_at')}, ${micros('coalesce(refunded_at, opened_at)')}, refunded_by from promo_store.refunds`;

const CREDITS = `select c.change_no, r.round_no, b.brand_id, c.player_ref, ${micros('c.attributed_at')}, c.change = 2
from promo_store.attribution_changes c join promo_store.rounds r using (feed_no, round_key) left join promo_store.brands b on b.brand_no = c.brand_no order by c.change_no`;

/** The ledger and the definitions of Postgres, as the model has them. */
async function readLedger(recordedAfter = -1): Promise<LedgerTables> {
  const history = (await store.rows(HISTORY)).map(
    ([verdictId, eventId, operatorId, kind, ...row]): Verdict => {
      const [roundNo, brand, player, currency, amount, game, occurredAt, decidedAt, isCounted] = row;
      return {
        verdictId: Number(verdictId),
        eventId: eventId ?? '',
        operatorId: operatorId ?? '',
        kind: Number(kind),
        round: roundNo ?? null,
        roundNo: roundNo == null ? null : Number(roundNo),
        brand: brand ?? '',
        player: player ?? '',
        currency: currency ?? null,
        game: game ?? null,
        amount: BigInt(amount ?? 0),
        occurredAt: BigInt(occurredAt ?? 0),
        decidedAt: BigInt(decidedAt ?? 0),
        isCounted: isCounted === 't',
      };
    },
  );
  const refunds = (await store.rows(REFUNDS)).map(
    ([no, openedAt, refundedAt, by]): [number, RefundedRound] => [
      Number(no),
      {
        roundNo: Number(no),
        openedAt: BigInt(openedAt ?? 0),
        refundedAt: BigInt(refundedAt ?? 0),
        refundedBy: by ?? '',
      },
    ],
  );
  const credits = (await store.rows(CREDITS)).map(
    ([no, round, brand, player, at, erases]): CreditRow => ({
      changeNo: Number(no),
      round: round ?? '',
      brand: brand ?? null,
      player: player ?? '',
      at: BigInt(at ?? 0),
      ...(erases === 't' && { erases: true }),
    }),
  );
  const versions = await inTransaction(store.pool, readPromotionVersions);
  return {
    history,
    dropped: null,
    erasure: null,
    refunds: new Map(refunds),
    credits,
    versions,
    recordedAfter,
  };
}

const ERASED_CREDITS = `select r.round_no, e.change_no, e.erased_no, ${micros('e.erased_at')}, e.player_ref
from promo_store.erased_credits e join promo_store.rounds r using (feed_no, round_key)`;

/** One call of an erasure, in Postgres and in the model. @returns its number, and whether it is done */
async function erase(
  model: FoldStoreModel,
  readNow: () => Promise<LedgerTables>,
  player: string,
  { most, erasure }: { most: number; erasure: number | null },
): Promise<{ erasure: number; isDone: boolean }> {
  const [[no, isDone] = []] = await store.rows(
    'select erasure_no, is_done from promo.erase_player($1, $2, $3, $4)',
    ['acme', player, most, erasure],
  );
  const ledger = await readNow();
  const tables = copyTables(model.committed.tables);
  tables.erasedCredits.clear();
  for (const [round, changeNo, erasedNo, erasedAt, credited] of await store.rows(ERASED_CREDITS))
    tables.erasedCredits.set(keyOfRow(round ?? '', changeNo ?? ''), {
      round: round ?? '',
      changeNo: Number(changeNo),
      erasedNo: Number(erasedNo),
      erasedAt: BigInt(erasedAt ?? 0),
      player: credited ?? '',
    });
  forgetProgress({ ledger, seen: tables }, player, `erased:${no}`);
  model.write(ledger, tables);
  return { erasure: Number(no), isDone: isDone === 't' };
}

/** The model with the clock, the lineage and the numbers of Postgres. */
class ModelOfPostgres extends FoldStoreModel {
  lineageText = '';
  readonly windowNos = new Map<string, number>();

  override now(): bigint {
    return BigInt(Date.now()) * 1_000n;
  }
  override lineage(): string {
    return this.lineageText;
  }
  override nextWindowNo(key: string): number {
    return this.windowNos.get(key) ?? super.nextWindowNo(key);
  }
}

/** A time of Postgres as the number that the model has. */
function plain(value: string | null): string | null {
  const [, seconds, fraction = '', zone] =
    /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d+))?([+-]\d\d)$/.exec(value ?? '') ?? [];
  if (seconds === undefined) return value;
  return String(BigInt(Date.parse(`${seconds}${zone}:00`)) * 1_000n + BigInt(fraction.padEnd(6, '0') || 0));
}

/** JSON is the same with its keys in another order, and with other blanks. */
const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;
const isJson = (value: string | null): value is string => value !== null && /^[[{]/.test(value);
const comparable = (rows: readonly Row[]): string[] =>
  rows
    .map((row) =>
      JSON.stringify(
        row.map((value) => (isJson(value) ? JSON.stringify(JSON.parse(value), sorted) : plain(value))),
      ),
    )
    .sort();

/** Their answers are settings and times. */
const NOT_COMPARED = ['fold_settings', 'promotions_loops', 'fold_lag', 'fold_still_idle'];

/** A store that also asks the model. */
class Compared implements Store {
  readonly compared = new Map<string, number>();
  private readonly places = new Map<string, string>();
  /** The statement that began the last scan in pages. */
  private scan = '';
  constructor(private readonly model: ModelOfPostgres) {}

  async acquire(): Promise<StoreConnection> {
    const connection = await asRole(store.pool, 'promotions').acquire();
    const backend = this.model.open();
    return {
      begin: async () => {
        await backend.run('begin', []);
        await connection.begin();
      },
      query: async (statement, values = []) => {
        const rows = await connection.query(statement, values);
        await this.compare(backend, statement.name, values, rows);
        return rows;
      },
      write: async (writes) => {
        await connection.write(writes);
        for (const { name } of writes) await backend.run(name, []);
      },
      release: (isClean) => {
        backend.end();
        connection.release(isClean);
      },
    };
  }

  private async compare(
    backend: FoldBackend,
    name: string,
    values: readonly unknown[],
    rows: readonly Row[],
  ): Promise<void> {
    if (name === 'promotions_number_windows')
      for (const [no, promotionNo = '', version = '', key = ''] of rows)
        this.model.windowNos.set(keyOfRow(promotionNo ?? '', version ?? '', key ?? ''), Number(no));
    const given = values.map((value) => (typeof value === 'string' ? plain(value) : value));
    if (name === 'promotions_change')
      given[0] = listOf(given[0]).map((place) => this.places.get(place ?? ''));
    const answer = await backend.run(name, given);
    if (name === 'promotions_load') this.follow(rows, answer);
    if (NOT_COMPARED.includes(name)) return;
    if (/^promotions_read(_(near|far|recorded|sums))?(_credited)?$/.test(name)) this.scan = name;
    const asked = name.startsWith('next_page') ? this.scan : name;
    this.compared.set(asked, (this.compared.get(asked) ?? 0) + rows.length);
    const withoutPlaces = (each: readonly Row[]) =>
      name === 'promotions_load'
        ? each.map(([windowNo = null, player = null, , ...row]) => [windowNo, player, ...row])
        : each;
    expect([name, comparable(withoutPlaces(answer))]).toEqual([name, comparable(withoutPlaces(rows))]);
  }

  /** A row of progress has a place in Postgres, and its key in the model. */
  private follow(rows: readonly Row[], answer: readonly Row[]): void {
    const keys = new Map(answer.map(([windowNo, player, key]) => [`${windowNo} ${player}`, key ?? '']));
    for (const [windowNo, player, place] of rows)
      this.places.set(place ?? '', keys.get(`${windowNo} ${player}`) ?? '');
  }
}

async function apply(...flows: readonly string[]): Promise<void> {
  await applyDefinitions(store.pool, definitionsOf(...flows));
}

const FOLDED_TO = 'select max(after) from promo_store.fold_generations';
/** Statements of which at least one answer has a row, in some seed. */
const WITH_ROWS = [
  ...['fold_generations', 'fold_horizon', 'fold_lineage', 'fold_lock', 'fold_peek', 'promotion_versions'],
  ...['promotions_counted', 'promotions_load', 'promotions_load_attempts'],
  ...['promotions_number_windows', 'promotions_steps', 'promotions_times', 'promotions_pool'],
  ...['promotions_ranked', 'promotions_begin_records', 'promotions_read_refunds'],
  ...['promotions_read', 'promotions_read_recorded', 'promotions_read_sums'],
  ...['promotions_read_credited', 'promotions_read_recorded_credited', 'promotions_read_near_credited'],
  ...['promotions_credits', 'promotions_moved_rounds', 'promotions_refunds_of_rounds'],
  ...['promotions_read_rounds', 'promotions_read_sums_credited', 'promotions_take_joined'],
  'promotions_sweep_promotion_progress',
];
/** The statements of the seeds so far. The feed of one seed alone may have no rows for some of them. */
const withRows = new Set<string>();

test.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'each statement of the fold of promotions gets the same answer from the model of the simulator: seed %i [P16] [L5]',
  async (seed) => {
    const random = makeRandom(seed);
    store.damaged = true;
    await apply(...Object.values<string>(FLOWS).slice(1), DAILY_RACE, LATE_CONFIRMED);
    const scheduler = new Scheduler(random, false);
    const model = new ModelOfPostgres(scheduler, 0, await readLedger(), () => undefined);
    model.lineageText = (await store.value('select promo.lineage()')) ?? '';
    const compared = new Compared(model);
    let time = 0;
    const goal = { rows: 40, ms: 500 };
    const fold: Fold = makeFold(
      compared,
      makePromotionResults(null, { pageRows: 4, stepRows: 9, largeRound: 1 }),
      {
        holder: 'test',
        leaseMs: 60_000,
        now: () => (time += 20_000),
        slice: goal,
        fill: goal,
      },
    );
    let recordedAfter = -1;
    const follow = async () => {
      model.write(await readLedger(recordedAfter));
      model.lastBatchNo = Number(await store.value('select promo_store.last_batch()'));
    };
    const record = async (after: number) => {
      await store.rows('update promo_store.promotion_recordings set after = $1', [after]);
      recordedAfter = after;
    };
    const foldAll = async () => {
      await follow();
      for (let idle = 0; idle < 3; ) if ((await fold.step()).kind === 'idle') idle++;
    };
    await foldAll();
    const acme = store.partition('acme');
    const feed = feedOf(random);
    const events = random.shuffled(feed.events);
    for (let from = 0; from < events.length; from += 15) {
      await acme.read(...events.slice(from, from + 15).map(eventBytes));
      await follow();
      await fold.step();
    }
    await foldAll();
    // From here on, scans look up the players to whom rounds are credited.
    for (const credit of feed.credits) await creditRound(store, credit);
    await foldAll();
    const bet = events.find(
      ({ kind, amount, currency }) => kind === 'bet' && amount > 0 && currency === 'EUR',
    );
    if (bet === undefined) throw new Error('the feed has no bet');
    await acme.read(eventBytes({ ...bet, id: 'near', round: 'near' }));
    await foldAll();
    // As if an older version of the process had counted all of that.
    await record(Number(await store.value(FOLDED_TO)));
    await acme.read(eventBytes({ ...bet, id: 'refund', round: 'near', kind: 'refund' }));
    await foldAll();
    // A rebuild records all rounds.
    await record(-1);
    await foldAll();
    await apply(...Object.values<string>(FLOWS), DAILY_RACE, LATE_CONFIRMED);
    await foldAll();
    await store.pool.query(
      `update promo_store.history set counted = false where kind in (1, 3, 5) and verdict_id % 3 = 0 and counted`,
    );
    await follow();
    expect(await fold.rebuild('entries were taken away by hand')).toBe(true);
    await foldAll();
    await acme.read(
      ...events.map((event) =>
        eventBytes({ ...event, id: `again-${event.id}`, round: event.round && `again-${event.round}` }),
      ),
    );
    await foldAll();
    // Refunds of large rounds: without an attribution, and with one of a brand or of all brands, before the
    // refund or after it.
    const attribute = (roundId: string, playerRef: string, brand: string | null) =>
      creditRound(store, { roundId, playerRef, brand });
    const large = ['large-own', 'large-brand', 'large-all', 'large-later'];
    const playLarge = (part: string) =>
      acme.read(
        ...large.flatMap((round) =>
          ['main', 'second'].map((brand) =>
            eventBytes({ ...bet, id: `${round}-${part}-${brand}`, round, brand, game: 'g1' }),
          ),
        ),
      );
    await playLarge('first');
    await foldAll();
    await attribute('large-brand', 'p-brand', 'main');
    await attribute('large-all', 'p-all', null);
    await playLarge('second');
    await foldAll();
    await acme.read(...large.map((round) => eventBytes({ ...bet, id: `${round}-x`, round, kind: 'refund' })));
    await foldAll();
    await attribute('large-later', 'p-later', null);
    await foldAll();
    // A slice between two calls counts an event of the player, whom the next call joins with erased:N.
    await playLarge('third');
    await foldAll();
    const eraseMore = (most: number, erasure?: number) =>
      erase(model, () => readLedger(recordedAfter), bet.player, { most, erasure: erasure ?? null });
    let called = await eraseMore(10);
    await foldAll();
    await acme.read(
      ...[1, 2, 3].map((n) => eventBytes({ ...bet, id: `between-${n}`, round: `between-${n}` })),
    );
    await foldAll();
    while (!called.isDone) called = await eraseMore(1_000, called.erasure);
    await foldAll();
    await fold.release();
    for (const [name, rows] of compared.compared) if (rows > 0) withRows.add(name);
    if (seed === SEEDS) expect(WITH_ROWS.filter((name) => !withRows.has(name))).toEqual([]);
  },
);

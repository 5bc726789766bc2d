/** Rollups beside writers: equal to a count of all history, whatever happens to their process. */
import { setTimeout as sleep } from 'node:timers/promises';
import { inRun } from '../../dev/long-run';
import { makeRandom, type Random } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { aRollupFold, foldAll, leadingFirstTo } from '../support/folds';
import { heldFor } from '../support/held-writer';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aWin,
  freshStore,
  type Json,
  type TestStore,
  type TextRow,
} from '../support/ledger';

const SEEDS = inRun({ usual: 2, long: 6, variable: 'ROLLUP_SEEDS' });
const WITHIN_MS = 60_000;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

let holders = 0;
const aFold = (slice = { rows: 200_000, ms: 500 }, leaseMs = 10_000) =>
  aRollupFold(store.pool, { holder: `test ${holders++}`, slice, leaseMs });

const HOURS = `select hour, operator_id, brand, connection_id, kind, verdict, reason, currency, verdicts, amount_minor, timed, early, within_1s, within_1d
from promo.verdicts_hourly order by 1, 2, 3, 4, 5, 6, 7, 8`;
const COUNTED_HOURS = `select date_trunc('hour', decided_at), operator_id, case when brand in (select brand_id from promo_store.brands) then brand end, connection_id, kind, verdict, reason, currency,
  count(*), coalesce(sum(amount_minor), 0), count(occurred_at), count(*) filter (where occurred_at > decided_at),
  count(*) filter (where decided_at - occurred_at <= interval '1 second'), count(*) filter (where decided_at - occurred_at <= interval '1 day')
from promo.verdicts group by 1, 2, 3, 4, 5, 6, 7, 8 order by 1, 2, 3, 4, 5, 6, 7, 8`;
const DAYS = `select day, operator_id, brand, game_id, kind, currency, sum(entries), sum(amount_minor), sum(reversals), sum(reversed_minor)
from promo.ledger_daily group by 1, 2, 3, 4, 5, 6 having sum(entries) + sum(reversals) > 0 order by 1, 2, 3, 4, 5, 6`;
const COUNTED_DAYS = `select (entered_at at time zone 'utc')::date, operator_id, brand, game_id, kind, currency,
  count(*) filter (where reverses_entry_id is null), coalesce(sum(amount_minor) filter (where reverses_entry_id is null), 0),
  count(reverses_entry_id), coalesce(-sum(amount_minor) filter (where reverses_entry_id is not null), 0)
from promo.ledger group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6`;
const STANDING = `select day, operator_id, brand, game_id, kind, currency, sum(entries - refunded), sum(amount_minor - refunded_minor)
from promo.ledger_daily group by 1, 2, 3, 4, 5, 6 having sum(entries - refunded) > 0 order by 1, 2, 3, 4, 5, 6`;
const COUNTED_STANDING = `select (decided_at at time zone 'utc')::date, operator_id, brand, game_id, kind, currency, count(*), coalesce(sum(amount_minor), 0)
from promo.verdicts where counts_now group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6`;

async function expectRecount(): Promise<void> {
  const read = (query: string): Promise<TextRow[]> => store.rows(query);
  expect(await read(HOURS)).toEqual(await read(COUNTED_HOURS));
  expect(await read(DAYS)).toEqual(await read(COUNTED_DAYS));
  expect(await read(STANDING)).toEqual(await read(COUNTED_STANDING));
}

function anyEvent(random: Random, name: string): Json {
  const fields = {
    event_id: name,
    round_id: `r-${random.below(12)}`,
    ...(random.chance(0.8) && { game_id: random.pick(['g1', 'g2']) }),
  };
  const make = random.pick([aBet, aBet, aBet, aWin, aRefund, aDeposit, aLogin]);
  const isAccount = make === aDeposit || make === aLogin;
  if (random.chance(0.05)) return { ...make({ event_id: name }), occurred_at: 'now' };
  return make(isAccount ? { event_id: name } : fields);
}

/** Four writers whose batches collide, until each has decided its batches. */
async function write(seed: number, batches: number, prefix = ''): Promise<void> {
  await Promise.all(
    Array.from({ length: 4 }, async (_, partition) => {
      const own = makeRandom(seed * 100 + partition);
      const part = store.writer({ wrap: heldFor(() => own.below(30)) }).partition('acme', partition);
      let offset = Number(
        (
          await store.rows('select next_offset from promo.partitions where topic = $1 and partition = $2', [
            'acme',
            partition,
          ])
        )[0]?.[0] ?? 0,
      );
      for (let batch = 0; batch < batches; batch++) {
        const events = Array.from({ length: own.between(1, 8) }, (_, event) =>
          anyEvent(own, `${prefix}${partition}-${batch}-${event}`),
        );
        await until('the batch is decided', WITHIN_MS, async () => {
          const { undecided } = await part.attempt(offset, events);
          return undecided === null;
        });
        offset += events.length;
      }
    }),
  );
}

test('an hour and a day are counted, with the refund of an earlier slice [L5]', async () => {
  const partition = store.partition('acme');
  const fold = aFold();
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', game_id: 'g1', amount: '2.00' }),
    aBet({ event_id: 'b2', round_id: 'r2', game_id: 'g1', amount: '3.00' }),
    aLogin({ event_id: 'l1' }),
  );
  await foldAll(fold);
  expect(
    await store.rows('select kind, entries, amount, net_amount, refunded from promo.ledger_daily order by 1'),
  ).toEqual([
    ['bet', '2', '5.00', '5.00', '0'],
    ['login', '1', null, null, '0'],
  ]);
  await partition.read(aRefund({ event_id: 'x', round_id: 'r1' }));
  await foldAll(fold);
  expect(
    await store.rows(
      'select kind, entries, amount, net_amount, refunded, reversals, reversal_amount from promo.ledger_daily order by 1',
    ),
  ).toEqual([
    ['bet', '2', '5.00', '3.00', '1', '1', '-2.00'],
    ['login', '1', null, null, '0', '0', null],
  ]);
  expect(
    await store.rows('select kind, verdict, verdicts, amount from promo.verdicts_hourly order by 1'),
  ).toEqual([
    ['bet', 'accepted', '2', '5.00'],
    ['login', 'accepted', '1', null],
    ['refund', 'accepted', '1', '10.50'],
  ]);
  expect(
    await store.rows('select complete_since, is_running, rebuilt_because from promo.rollup_coverage'),
  ).toEqual([[null, 't', null]]);
  await expectRecount();
});

/** Moves the openings of refunded rounds to days before, where no slice scans history for their entries. */
const openEarlier = () =>
  store.rows(`update promo_store.refunds set opened_at = opened_at - interval '3 days'`);

test('a refund of a round that opened days before is counted [L5]', async () => {
  const fold = aFold();
  const partition = store.partition('acme');
  await partition.read(
    aBet({ event_id: 'b1', round_id: 'r1', game_id: 'g1', amount: '2.00' }),
    aWin({ event_id: 'w1', round_id: 'r1', game_id: 'g1', amount: '1.00' }),
    aBet({ event_id: 'b2', round_id: 'r2', game_id: 'g1', amount: '3.00' }),
  );
  await foldAll(fold);
  await partition.read(
    aRefund({ event_id: 'x', round_id: 'r1' }),
    aRefund({ event_id: 'y', round_id: 'r1' }),
  );
  await openEarlier();
  await foldAll(fold);
  expect(
    await store.rows(
      `select kind, net_amount, refunded, reversal_amount from promo.ledger_daily where kind <> 'login' order by 1`,
    ),
  ).toEqual([
    ['bet', '3.00', '1', '-2.00'],
    ['win', '0.00', '1', '-1.00'],
  ]);
  await expectRecount();
});

test('a refund of an old round reads the months from its opening to its refund, and no others [L5]', async () => {
  await store.rows(`select promo_store.create_month('history', '2020-01-01')`);
  const fold = aFold();
  const partition = store.partition('acme');
  await partition.read(aBet({ event_id: 'b1', round_id: 'r1', amount: '2.00' }));
  await foldAll(fold);
  /** How often the months were read: that of 2020, and the present one. */
  const reads = async () => {
    const [row = []] = await store.rows(`
      select sum(seq_scan + coalesce(idx_scan, 0)) filter (where relname = 'history_2020_01'),
        sum(seq_scan + coalesce(idx_scan, 0)) filter (where relname = 'history_' || to_char(now() at time zone 'utc', 'YYYY_MM'))
      from pg_stat_user_tables where relname like 'history_2%'`);
    return row.map(Number);
  };
  const flush = () => store.rows('select pg_stat_force_next_flush()');
  await partition.read(aRefund({ event_id: 'x', round_id: 'r1' }));
  await openEarlier();
  await flush();
  const [old, present = 0] = await reads();
  await foldAll(fold);
  await until('the reads are in the statistics', WITHIN_MS, async () => {
    await flush();
    await foldAll(fold);
    return ((await reads())[1] ?? 0) > present;
  });
  expect((await reads())[0]).toBe(old);
  await expectRecount();
  store.damaged = true; // Coverage knows of no month of 2020.
});

test.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
  'random writers with refunds, slices of every size: rollups equal a recount (seed %i) [L5]',
  async (seed) => {
    const random = makeRandom(seed);
    const fold = aFold({ rows: random.pick([1, 5, 200_000]), ms: 500 });
    let isDone = false;
    const folding = (async () => {
      while (!isDone) {
        await fold.step();
        await sleep(random.below(10));
      }
    })();
    try {
      await write(seed, 10);
    } finally {
      isDone = true;
      await folding;
    }
    await foldAll(fold);
    await expectRecount();
  },
);

test('two processes at once: one folds, and the other follows where it ends [L5]', async () => {
  const [first, second] = [aFold(undefined, 1_000), aFold(undefined, 1_000)];
  await store.partition('acme').read(aBet({ event_id: 'b1' }));
  await foldAll(first);
  expect((await second.step()).kind).toBe('standby');
  await first.release();
  await store.partition('acme').read(aBet({ event_id: 'b2' }));
  await foldAll(second);
  expect((await first.step()).kind).toBe('standby');
  await until('the lease is over', WITHIN_MS, async () => (await first.step()).kind !== 'standby');
  await expectRecount();
});

test('a lease that was written while the clock of Postgres was an hour ahead is over [L5]', async () => {
  const [crashed, next] = [aFold(), aFold()];
  await store.partition('acme').read(aBet({ event_id: 'b1' }));
  await foldAll(crashed);
  await store.rows(
    `update promo_store.folds set held_until = held_until + interval '1 hour';
    update promo_store.fold_generations set caught_up_at = caught_up_at + interval '1 hour'`,
  );
  const isRunning = () => store.value('select is_running from promo.rollup_coverage');
  expect(await isRunning()).toBe('f');
  await store.partition('acme').read(aBet({ event_id: 'b2' }));
  await foldAll(next);
  expect(await isRunning()).toBe('t');
  expect(await crashed.step()).toMatchObject({ kind: 'standby', isLeased: true });
  expect(await store.value('select lag_seconds between 0 and 60 from promo.rollup_coverage')).toBe('t');
  await expectRecount();
});

test('a rebuild beside writers shows its result at once, and keeps what history no longer has [L5]', async () => {
  const fold = aFold();
  await write(7, 6);
  await foldAll(fold);
  // As months ago: an hour whose month is dropped.
  await store.rows(
    `insert into promo_store.rollup_verdicts select generation, '2020-01-01 00:00:00+00', operator_no, brand_no, connection_no, kind, outcome, currency_no,
      verdicts, amount_minor, timed, early, within_100ms, within_1s, within_10s, within_1m, within_10m, within_1h, within_1d
    from promo_store.rollup_verdicts limit 1`,
  );
  await store.rows(
    `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2020-01-01', '-infinity', now())`,
  );
  await store.rows(`update promo_store.reference_versions set applied_at = '2020-01-15'`);
  const before = await store.rows(HOURS);
  // Damage, which the rebuild has to repair, and which is shown until then.
  await store.rows(
    `update promo_store.rollup_ledger set entries = entries + 1; update promo_store.rollup_verdicts set verdicts = verdicts + 1 where hour > '2021-01-01'`,
  );
  expect(await fold.rebuild('wrong by one')).toBe(true);
  expect(await fold.rebuild('again')).toBe(false);
  expect(await store.rows('select generation, rebuilt_because from promo.rollup_coverage')).toEqual([
    ['1', 'wrong by one'],
  ]);
  const writing = write(8, 6, 'during-');
  for (let steps = 0; steps < 5; steps++) await fold.step();
  await writing;
  await foldAll(fold);
  expect(await store.rows('select generation, rebuilt_because from promo.rollup_coverage')).toEqual([
    ['2', null],
  ]);
  expect((await store.rows(HOURS))[0]).toEqual(before[0]);
  await store.rows(`delete from promo_store.rollup_verdicts where hour < '2021-01-01'`);
  await expectRecount();
  expect(await store.value('select count(*) from promo_store.rollup_verdicts where generation = 1')).toBe(
    '0',
  );
});

test('a slice whose second connection leads to another store adds nothing, and the next one counts all [L5]', async () => {
  await write(9, 4);
  const before = aFold();
  await foldAll(before);
  await before.release();
  const other = await freshStore();
  try {
    // The stores of a test share a server, and so all of the lineage but this.
    await other.rows(
      `insert into promo_store.arrivals (operator_id, from_cell, numbers_up_to, kept, numbers) values ('x', 'b', 0, '{}', '{}')`,
    );
    const { address, released } = leadingFirstTo(other.pool, store.pool);
    const fold = aRollupFold(store.pool, {}, address);
    await fold.rebuild('test');
    await expect(fold.step()).rejects.toThrow(/was to be counted in the store/);
    expect(released).toEqual([false]);
    expect(await store.value('select after from promo_store.fold_generations where generation = 2')).toBe(
      '-1',
    );
    expect(await store.value('select count(*) from promo_store.rollup_verdicts where generation = 2')).toBe(
      '0',
    );
    await foldAll(fold);
    expect(released.every((isClean, attempt) => isClean === attempt > 0)).toBe(true);
    expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
    await expectRecount();
  } finally {
    await other.close();
  }
});

test('verdicts that arrived with lower numbers are counted by a rebuild of its own accord [L5]', async () => {
  const fold = aFold();
  await write(9, 4);
  await foldAll(fold);
  await store.rows(
    `insert into promo_store.arrivals (operator_id, from_cell, numbers_up_to, kept, numbers) values ('x', 'b', 0, '{}', '{}')`,
  );
  await store.rows(
    `with old as (select * from promo_store.history order by verdict_id limit 1), arrived as (
      insert into promo_store.history select verdict_id + 4000, decided_at, occurred_at, amount_minor, round_no, null, feed_no, connection_no, null, brand_no,
        reference_version, 4, kind, currency_no, false, 'arrived', player_ref, game_id, unmapped_brand from old returning *)
    insert into promo_store.event_keys (verdict_id, content_hash, feed_no, outcome, event_key)
    select verdict_id, 1, feed_no, outcome, promo_store.id_key(event_id) from arrived`,
  );
  await foldAll(fold);
  expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
  await expectRecount();
});

test('a month that was dropped before it was counted is missing, and coverage says so [L5]', async () => {
  const fold = aFold();
  const partition = store.partition('acme');
  await partition.read(aBet({ event_id: 'b1' }));
  await foldAll(fold);
  const drop = `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', $1, '-infinity', now())
    on conflict on constraint months_pkey do update set dropped_at = now()`;
  const since = () => store.value('select complete_since from promo.rollup_coverage');
  await store.rows(drop, ['2020-01-01']);
  await partition.read(aBet({ event_id: 'b2' }));
  await foldAll(fold);
  expect(await since()).toBeNull();
  await store.rows(drop, ['2099-01-01']);
  await partition.read(aBet({ event_id: 'b3' }));
  await foldAll(fold);
  expect(await since()).toMatch(/^2099-02-01/);
  store.damaged = true;
});

test('hours of a month that is dropped before the last slice of a rebuild are kept [L5]', async () => {
  const fold = aFold();
  await store.partition('acme').read(aBet({ event_id: 'b1' }));
  await foldAll(fold);
  expect(await fold.rebuild('a check')).toBe(true);
  // As retention does, for a month that ends after the bet.
  await store.rows('delete from promo_store.history');
  await store.rows(
    `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2099-01-01', '-infinity', now())`,
  );
  await foldAll(fold);
  expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
  expect(await store.value('select sum(entries) from promo_store.rollup_ledger')).toBe('1');
  store.damaged = true;
});

test('a cursor beyond the numbers of the store is refused [L5]', async () => {
  const fold = aFold();
  await store.partition('acme').read(aBet({ event_id: 'b1' }));
  await foldAll(fold);
  await store.rows('update promo_store.fold_generations set after = after + 8192');
  await expect(fold.step()).rejects.toThrow('and this store has given numbers up to');
});

test('one table of the rollups can hold a player [L6]', async () => {
  const columns = await store.rows(
    `select table_name || '.' || column_name from information_schema.columns where table_schema = 'promo_store'
      and table_name like 'rollup%' and data_type in ('text', 'bytea', 'jsonb') order by 1`,
  );
  // Game ids are those of the operator's catalogue or of its events, as in promo.verdicts.
  expect(columns.flat()).toEqual(['rollup_ledger.game_id', 'rollup_players.player_ref']);
});

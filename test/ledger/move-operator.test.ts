/** The move of an operator between two stores: its events keep their verdicts, and count once. */

import { until } from '../../dev/servers/deadline';
import { explain } from '../../src/cli/explain-error';
import type { ReferenceDocument } from '../../src/domain/reference';
import { erasePlayer } from '../../src/ledger/erasure';
import { cancelMove, moveOperator, planMove } from '../../src/ledger/move-operator';
import type { MoveRequest } from '../../src/ledger/move-states';
import { isOfReceivingStore } from '../../src/ledger/move-stores';
import { copySteps } from '../../src/ledger/moved-rows';
import { applyPromotions } from '../../src/promotion-store/documents';
import { attributeAll } from '../support/attributions';
import { aRollupFold, foldAll } from '../support/folds';
import {
  aBet,
  aDeposit,
  aRefund,
  aSettled,
  aWin,
  freshStore,
  REFERENCE,
  type TestStore,
  type TextRow,
} from '../support/ledger';
import { foldPromotions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

let a: TestStore;
let b: TestStore;
beforeEach(async () => {
  [a, b] = await Promise.all([
    freshStore({ own: true }),
    freshStore({ own: true, reference: only('bravo') }),
  ]);
  // A clone of one template has the keys of another. Stores of their own do not.
  await b.rows('update promo_store.player_keys set key = promo_store.new_player_key()');
  const first = await a.value(`select promo.number_cell('a', 0, 4)`);
  await b.rows(`select promo.number_cell('b', 1, 4, $1)`, [first]);
});
afterEach(() => Promise.all([a.close(), b.close()]));

function only(...ids: string[]): ReferenceDocument {
  return { operators: REFERENCE.operators.filter(({ id }) => ids.includes(id)) };
}
const NO_JSON = Buffer.from('{');
const request = (): MoveRequest => ({ operator: 'acme', from: a.url, to: b.url, requestedBy: 'test' });

const round = { round_id: 'r-1' };
const bet = aBet({ event_id: 'e-1', ...round });
const settled = aSettled({ event_id: 'e-2', ...round });
const lost = aBet({ event_id: 'e-3', round_id: 'r-2' });
const refund = aRefund({ event_id: 'e-4', round_id: 'r-2' });
const deposit = aDeposit({ event_id: 'e-5' });
const apart = aBet({ event_id: 'e-1', round_id: 'r-9' });

async function decideInA(): Promise<void> {
  const acme = a.partition('acme');
  await acme.read(bet, settled, lost, refund, deposit, bet, NO_JSON);
  await a.partition('acme.apart').read(apart);
  await a.partition('bravo').read(aBet({ event_id: 'e-1' }));
  await a.rows(`select promo.attribute_round('acme', 'r-1', 'wrong-player')`);
  await a.rows(`select promo.correct_attribution('acme', 'r-1', 'wrong-player', 'normal-player', 'a test')`);
}

async function leaveA(): Promise<void> {
  await a.apply(only('bravo'));
}
async function arriveInB(): Promise<void> {
  await b.apply(only('bravo', 'acme'));
}

const VIEWS = ['verdicts', 'ledger', 'rounds', 'deliveries', 'anomalies', 'attributions'];
/** What readers see of an operator, without the version of the reference data. */
async function shown(store: TestStore, operator: string): Promise<Record<string, unknown>> {
  const all: Record<string, unknown> = {};
  for (const view of VIEWS)
    all[view] = await store.rows(
      `select to_jsonb(v) - 'reference_version' from promo.${view} v where operator_id = $1 order by 1`,
      [operator],
    );
  return all;
}

test('a copy of a cell has to read an arrived operator again, and then has each row once [L4]', async () => {
  const bravo = b.partition('bravo');
  await bravo.read(aDeposit({ event_id: 'b-1' }), aDeposit({ event_id: 'b-1' }));
  const copied = await b.value('select promo.safe_up_to()');
  const lineage = await b.value('select promo.lineage()');
  const read = (range: string, ...values: (string | null)[]) => b.rows(`select * from ${range}`, values);
  const own = {
    changes: await read('promo.changes(-1, $1, $2)', copied, lineage),
    new_deliveries: await read('promo.new_deliveries(-1, $1, $2)', copied, lineage),
  };
  await decideInA();
  await leaveA();
  await moveOperator(request());
  await arriveInB();
  await bravo.read(aDeposit({ event_id: 'b-2' }), aDeposit({ event_id: 'b-1' }));

  await expect(read('promo.changes($1, null, $2)', copied, lineage)).rejects.toThrow('of the lineage');
  await expect(read('promo.changes($1)', copied)).rejects.toThrow('an operator has arrived');
  const present = await b.value('select promo.lineage()');
  for (const [range, view] of [
    ['changes', 'ledger'],
    ['new_deliveries', 'deliveries'],
  ] as const) {
    const rows = [
      ...own[range],
      ...(await read(`promo.${range}(-1, $1, $2) where operator_id = 'acme'`, copied, present)),
      ...(await read(`promo.${range}($1, null, $2)`, copied, present)),
    ];
    expect(rows).toHaveLength(Number(await b.value(`select count(*) from promo.${view}`)));
    expect(new Set(rows.map((row) => row.join())).size).toBe(rows.length);
  }
});

test('a moved operator looks as before, and is gone from its old cell [K1]', async () => {
  await decideInA();
  const before = await shown(a, 'acme');
  await leaveA();
  const { rows } = await moveOperator(request());
  expect(Object.fromEntries(rows)).toEqual({
    rounds: 3,
    attributions: 1,
    attribution_versions: 1,
    erased_rounds: 0,
    faults: 0,
    event_keys: 6,
    history: 6,
    resends: 1,
    unstored: 1,
    panics: 0,
  });
  await arriveInB();

  expect(await shown(b, 'acme')).toEqual(before);
  expect(await shown(a, 'acme')).toEqual(Object.fromEntries(VIEWS.map((view) => [view, []])));
  expect(await a.value('select count(*) from promo.verdicts')).toBe('1');
  expect(await a.rows('select topic from promo.partitions')).toEqual([['bravo']]);
  expect(await b.balance('acme')).toEqual({
    records_read: 7,
    accepted: 5,
    duplicate_deliveries: 1,
    events_without_key: 1,
  });
});

test('rollups and pseudonyms of the old cell keep no player of a moved operator, and counts stay [L6]', async () => {
  await decideInA();
  const fold = aRollupFold(a.pool);
  await foldAll(fold);
  await fold.release();
  await a.rows(`insert into promo_store.pseudonyms (key_no, operator_id, player_ref, player_id)
    select 1, operator_id, 'p-1', md5(operator_id) from promo_store.operators`);
  const operators = (view: string) =>
    a.rows(`select distinct operator_id from promo.${view} order by operator_id`);
  const both = [['acme'], ['bravo']];
  expect(await operators('player_ledger_daily')).toEqual(both);
  await leaveA();
  await moveOperator(request());
  expect(await operators('player_ledger_daily')).toEqual([['bravo']]);
  expect(await operators('players_daily')).toEqual(both);
  expect(await a.rows('select operator_id from promo_store.pseudonyms')).toEqual([['bravo']]);
});

test('an event decided in the old cell is a duplicate in the new one, and a record read again gets its old answer [K1] [K3]', async () => {
  await decideInA();
  await leaveA();
  await moveOperator(request());
  await arriveInB();

  const acme = b.partition('acme');
  expect(await acme.readAt(0, bet, settled, lost, refund, deposit, bet, NO_JSON)).toEqual([
    'accepted, again',
    'accepted, again',
    'accepted, again',
    'accepted, again',
    'accepted, again',
    'duplicate of accepted, again',
    'without key, again',
  ]);
  expect(await acme.readAt(7, bet, aBet({ event_id: 'e-6', round_id: 'r-2' }))).toEqual([
    'duplicate of accepted',
    'skipped/round_refunded',
  ]);
});

test('a round of an erased player takes no attribution in the new cell either [B6]', async () => {
  await decideInA();
  const player = `${bet.player_ref}`;
  const erasure = { operator: 'acme', player, batch: 100 };
  await erasePlayer(a.url, { requestedBy: 'test' }, erasure, () => undefined);
  await leaveA();
  await moveOperator(request());
  await arriveInB();
  expect(await attributeAll(b, ['r-1', 'r-2', 'r-new'])).toEqual(['erased', 'erased', 'set']);
  expect(await a.value('select count(*) from promo_store.erased_rounds')).toBe('0');
});

test('the new cell compares players by the keys of the old one [K6]', async () => {
  await decideInA();
  await leaveA();
  await moveOperator(request());
  await arriveInB();

  const other = { player_ref: 'somebody-else' };
  expect(
    await b.partition('acme').readAt(7, bet, { ...bet, ...other }, aWin({ event_id: 'e-7', ...round })),
  ).toEqual(['duplicate of accepted', 'duplicate of accepted, differs', 'accepted']);
  expect(await b.value(`select count(*) from promo.anomalies where anomaly = 'player_mismatch'`)).toBe('0');
  await b.partition('acme').readAt(10, aWin({ event_id: 'e-8', ...round, ...other }));
  expect(await b.value(`select count(*) from promo.anomalies where anomaly = 'player_mismatch'`)).toBe('1');
});

test('the old cell refuses the operator for good, also by a rollback [C6]', async () => {
  await decideInA();
  await leaveA();
  await moveOperator(request());
  await expect(a.apply(REFERENCE)).rejects.toThrow(`the operator 'acme' has moved to cell b`);
  expect((await planMove(request())).state).toBe('done');
});

test('an operator that may still be decided cannot leave', async () => {
  await decideInA();
  await expect(moveOperator(request())).rejects.toThrow(/names acme, so events of it may be decided/);
});

test('the plan names everything that prevents the move, and nothing is changed by a move that is refused', async () => {
  await expect(planMove({ ...request(), operator: 'nobody' })).rejects.toThrow(
    'there is no operator nobody in the leaving cell',
  );
  await decideInA();
  await b.apply(only('bravo', 'acme'));
  await b.partition('acme').read(bet);
  expect((await planMove(request())).obstacles).toEqual([
    expect.stringMatching(/^the reference data in force in the leaving cell names acme, .* Stop the workers/),
    expect.stringMatching(/^the reference data in force in the receiving cell names acme already/),
    expect.stringMatching(/^the receiving cell has decided events of the feed acme, /),
  ]);
  await leaveA();
  await b.apply(only('bravo'));
  await expect(moveOperator(request())).rejects.toThrow(/^the receiving cell has decided events of the feed/);
  expect(await a.rows('select * from promo.moves')).toEqual([]);
  b.damaged = true;
});

test('events that both cells have decided leave the receiving one by a move to a cell that is thrown away', async () => {
  await decideInA();
  await b.apply(only('bravo', 'acme'));
  await b.partition('acme').read(bet, deposit);
  await leaveA();
  await b.apply(only('bravo'));
  await expect(moveOperator(request())).rejects.toThrow(/A move cannot join two histories/);
  const c = await freshStore({ own: true, reference: only('bravo') });
  try {
    await c.rows(`select promo.number_cell('c', 2, 4, $1)`, [
      await b.value('select first_batch from promo.cell'),
    ]);
    await moveOperator({ ...request(), from: b.url, to: c.url });
  } finally {
    await c.close();
  }
  const before = await shown(a, 'acme');
  await moveOperator(request());
  await arriveInB();
  expect(await shown(b, 'acme')).toEqual(before);
});

test('an error names the store', async () => {
  const away = 'postgres://nobody@127.0.0.1:1/away';
  const isOfReceiver = (change: Partial<MoveRequest>) =>
    planMove({ ...request(), ...change }).then(() => null, isOfReceivingStore);
  expect(await isOfReceiver({ to: away })).toBe(true);
  expect(await isOfReceiver({ from: away })).toBe(false);
  await b.rows('alter table promo_store.moves rename to away');
  expect(await isOfReceiver({})).toBe(true);
  await a.rows('alter table promo_store.moves rename to away');
  expect(await isOfReceiver({})).toBe(false);
  for (const store of [a, b]) await store.rows('alter table promo_store.away rename to moves');
});

test('a session that ends during the copy is an unreachable store, and the next run goes on', async () => {
  await decideInA();
  const before = await shown(a, 'acme');
  await leaveA();
  await b.rows(
    `create function wait() returns trigger language plpgsql as 'begin perform pg_sleep(0.5); return new; end'`,
  );
  await b.rows(
    'create trigger wait before insert on promo_store.history for each row execute function wait()',
  );
  const failure = moveOperator(request()).then(
    () => null,
    (error: unknown) => explain(error).message,
  );
  await until('history is copied', 60_000, async () => {
    const copying = await b.rows(
      `select from pg_stat_activity where datname = current_database() and query like 'insert into promo_store.history%' and state = 'active'`,
    );
    return copying.length > 0;
  });
  await a.rows(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'promo-intake-move'`,
  );
  expect(await failure).toMatch(/^Postgres (cannot be reached|answered): .*\. [A-Z]/);
  await b.rows('drop trigger wait on promo_store.history');
  await moveOperator(request());
  await arriveInB();
  expect(await shown(b, 'acme')).toEqual(before);
});

test('an operator that shares a topic cannot leave, and a topic without its records stays', async () => {
  await decideInA();
  const shared = a.partition('shared');
  await shared.attempt(0, [aBet({ event_id: 's-1' })], ['bravo-shared']);
  await leaveA();
  expect((await planMove(request())).topics).toEqual(['acme', 'acme.apart']);
  await a.apply(REFERENCE);
  await shared.attempt(1, [aBet({ event_id: 's-2' })], ['acme-shared']);
  await leaveA();
  await expect(moveOperator(request())).rejects.toThrow(/other operators have sent records to shared, too/);
});

test('an operator comes back by the same command', async () => {
  await decideInA();
  const before = await shown(a, 'acme');
  await leaveA();
  await moveOperator(request());
  await arriveInB();
  await b.partition('acme').readAt(7, bet);
  await b.apply(only('bravo'));
  await moveOperator({ ...request(), from: b.url, to: a.url });
  await a.apply(REFERENCE);

  const after = await shown(a, 'acme');
  expect({ ...after, deliveries: null }).toEqual({ ...before, deliveries: null });
  // A worker starts again for new offsets, and so reads the new numbers of partitions.
  expect(
    await a
      .writer()
      .partition('acme')
      .readAt(8, bet, { ...bet, player_ref: 'x' }),
  ).toEqual(['duplicate of accepted', 'duplicate of accepted, differs']);
});

test('history arrives in the order of its verdicts, so that its ranges of blocks stay narrow', async () => {
  await decideInA();
  // Postgres writes a changed row behind the others.
  await a.rows(`update promo_store.history set game_id = game_id where event_id = 'e-2'`);
  await leaveA();
  await moveOperator(request());
  const ids = (await b.rows('select verdict_id from promo_store.history order by ctid')).flat().map(Number);
  expect(ids).toHaveLength(6);
  expect(ids).toEqual([...ids].sort((left, right) => left - right));
});

test('a cancelled move leaves the operator as it was', async () => {
  await decideInA();
  const before = await shown(a, 'acme');
  await leaveA();
  // The copy is not what it should be: the comparison notices it.
  await b.rows(
    `create function lose() returns trigger language plpgsql as 'begin if new.event_id = ''e-3'' then return null; end if; return new; end'`,
  );
  await b.rows(
    'create trigger lose before insert on promo_store.history for each row execute function lose()',
  );
  await expect(moveOperator(request())).rejects.toThrow(/the copy of history .* differs: 6 rows/);
  await expect(a.rows('select * from promo.check_invariants()')).rejects.toThrow(/is being moved/);
  await cancelMove(request());
  await b.rows('drop trigger lose on promo_store.history');

  await a.apply(REFERENCE);
  expect(await shown(a, 'acme')).toEqual(before);
  expect(await b.value('select count(*) from promo_store.event_keys')).toBe('0');
  await leaveA();
  await moveOperator(request());
  expect(await shown(b, 'acme')).toEqual(before);
});

test('every table that names feeds is moved', async () => {
  const named = await a.rows(
    `select distinct c.relname from pg_attribute t join pg_class c on c.oid = t.attrelid
    where c.relnamespace = 'promo_store'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and t.attname in ('feed_no', 'partition_no') and not t.attisdropped order by 1`,
  );
  const moved = copySteps({ feeds: [[1, 2]], connections: [], brands: [], partitions: [], months: [] }, [
    { parent: 'history', month: '2026-11-01' },
    { parent: 'resends', month: '2026-11-01' },
    { parent: 'unstored', month: '2026-11-01' },
    { parent: 'faults', month: '2026-11-01' },
  ]).map(({ table }) => table);
  // The switch moves these.
  const switched = ['feeds', 'partitions', 'dropped_rows'];
  // The receiving store counts promotions again. The rows go with the attributions of the leaving one.
  const left = ['erased_credits'];
  expect(named.flat()).toEqual([...moved.filter((table) => table !== 'panics'), ...switched, ...left].sort());
});

test('a move is refused while a wallet call of the operator is not over, before and behind the fence [X7]', async () => {
  await decideInA();
  await leaveA();
  const call = (state: string) =>
    a.rows(
      `insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, state, due_at)
      values ('acme', $1, 'credit', '', '{}', '{}', $1, now())`,
      [state],
    );
  const close = () => a.rows('delete from promo_store.wallet_calls');
  await call('open');
  await expect(moveOperator(request())).rejects.toThrow('1 open, 0 unresolved');
  expect(await a.rows('select * from promo.moves')).toEqual([]);
  await close();
  await call('unresolved');
  await expect(moveOperator(request())).rejects.toThrow('promo.close_wallet_call');
  await close();
  // A call that began before the fence, and became visible behind it.
  const reports: string[] = [];
  await a.rows(
    `create function late() returns trigger language plpgsql as $$ begin
      insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, due_at)
      values ('acme', 'late', 'credit', '', '{}', '{}', now()); return new; end $$`,
  );
  await a.rows('create trigger late after insert on promo_store.moves for each row execute function late()');
  await expect(moveOperator(request(), (line) => reports.push(line))).rejects.toThrow('1 open');
  expect(reports).toEqual([]);
  await a.rows('drop trigger late on promo_store.moves');
  await close();
  await moveOperator(request());
  expect(await a.rows('select state from promo.moves')).toEqual([['done']]);
});

test('a move is refused while promotions of the operator count, and not for those of others [P23]', async () => {
  await decideInA();
  const ofBravo = definitionsOf('id: z, type: bet_count, target: 1').map((each) => ({
    ...each,
    operator: 'bravo',
  }));
  const byAnna = { by: 'anna', reason: null, takeover: 'next_window' } as const;
  const apply = (...flows: readonly string[]) =>
    applyPromotions(a.pool, { promotions: [...definitionsOf(...flows), ...ofBravo] }, byAnna, () => true);
  await apply('id: x, type: bet_count, target: 1', 'id: y, type: bet_count, target: 1');
  await leaveA();
  await expect(moveOperator(request())).rejects.toThrow('their progress does not move: x, y. Remove them');
  expect(await a.rows('select * from promo.moves')).toEqual([]);
  await apply();
  await moveOperator(request());
  expect(await a.rows('select state from promo.moves')).toEqual([['done']]);
});

/** Completions without the numbers of the store, in the order of their ids. */
const completionsOf = (store: TestStore, operator: string) =>
  store.rows(
    `select encode(c.completion_id, 'hex'), c.change, p.promotion_id, w.window_key, c.player_ref, c.ordinal, c.attempt, c.change_no
from promo_store.promotion_completions c join promo_store.promotion_windows w using (window_no)
join promo_store.promotions p using (promotion_no) join promo_store.operators o using (operator_no)
where o.operator_id = $1 order by 1, 2`,
    [operator],
  );

/** An idle process first notices that a promotion was applied, and then counts it. */
async function countAll({ pool }: TestStore): Promise<void> {
  for (let times = 0; times < 2; times++) await foldPromotions(pool);
}

test('promotions are counted again in the new cell, with equal ids where the version is equal; those of others stay as they are [P12] [P23]', async () => {
  const byAnna = { by: 'anna', reason: null, takeover: 'recompute' } as const;
  const BETS = 'id: bets, type: bet_count, target: 1, completes: each';
  const CHANGED = 'id: changed, type: bet_count, target: 2';
  const ofBravo = definitionsOf(BETS).map((each) => ({ ...each, operator: 'bravo' }));
  const apply = (store: TestStore, flows: readonly string[], others = ofBravo) =>
    applyPromotions(store.pool, { promotions: [...definitionsOf(...flows), ...others] }, byAnna, () => true);
  await apply(a, [BETS, CHANGED], []);
  await decideInA();
  await countAll(a);
  await apply(a, [BETS, CHANGED.replace('2', '1')], []);
  await countAll(a);
  await apply(b, []);
  await b.partition('bravo').read(aBet({ event_id: 'b-1' }), aBet({ event_id: 'b-2', round_id: 'r-b' }));
  await countAll(b);
  const before = await completionsOf(b, 'bravo');
  expect(before).toHaveLength(2);

  await leaveA();
  await apply(a, [], []);
  await countAll(a);
  const there = await completionsOf(a, 'acme');
  await moveOperator(request());
  expect(await completionsOf(a, 'acme')).toEqual(there);
  await arriveInB();
  await countAll(b);
  expect(await completionsOf(b, 'bravo')).toEqual(before);
  await apply(b, [BETS, CHANGED.replace('2', '1')]);
  await countAll(b);
  const of = (rows: readonly TextRow[], id: string) =>
    rows.filter(([, change, promotion]) => change === '0' && promotion === id);
  const here = await completionsOf(b, 'acme');
  // The refunded bet was completed and revoked in a. In b the ledger never showed it.
  const held = of(there, 'bets').filter(([id]) => !there.some(([of, change]) => of === id && change === '1'));
  expect(held.length).toBeGreaterThan(0);
  expect(of(here, 'bets')).toEqual(held);
  // The second version of a is the first one of b.
  expect(of(here, 'changed')).toHaveLength(2);

  // A player of whom the old cell keeps completions is erased there, too.
  const kept = there.map(([, , , , player]) => player ?? '');
  expect(kept.length).toBeGreaterThan(0);
  for (const player of new Set(kept))
    await erasePlayer(
      a.url,
      { requestedBy: 'test' },
      { operator: 'acme', player, batch: 1_000 },
      () => undefined,
    );
  const players = (await completionsOf(a, 'acme')).map(([, , , , player]) => player);
  expect(players).toEqual(kept.map(() => expect.stringMatching(/^erased:/)));
  const ids = new Set(of(there, 'changed').map(([id]) => id));
  expect(of(here, 'changed').filter(([id]) => ids.has(id ?? null))).toEqual([]);
});

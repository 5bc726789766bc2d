/** Documents of promotions in a real store: the rows that applying writes, and its waits for locks. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../dev/servers/download';
import { toMinor } from '../../src/domain/event/money';
import { parsePromotions } from '../../src/promotion-file/promotion-file';
import {
  applyPromotions,
  type PromotionPlan,
  readPromotionDocument,
  readPromotionHistory,
  readStoredPromotions,
} from '../../src/promotion-store/documents';
import { timestampText } from '../../src/promotion-store/times';
import { timelinesOf } from '../../src/promotion-store/versions';
import { BEFORE_ALL } from '../../src/promotions/calendar';
import { printPromotionChanges, promotionKey } from '../../src/promotions/changes';
import { compilePromotion } from '../../src/promotions/terms';
import { type Takeover, windowIn } from '../../src/promotions/timeline';
import { freshStore, type TestStore, withClient } from '../support/ledger';
import { definitionsOf, micros } from '../support/promotions';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const WEEKLY = 'window: { every: week, starts: monday }, time_zone: Europe/Warsaw';
const bets = (more: string, id = 'x') => `id: ${id}, type: bet_count, ${more}`;

const byAnna = (takeover: Takeover = 'next_window') => ({ by: 'anna', reason: null, takeover });

/** Applies definitions of acme, each in the flow style of YAML. */
async function apply(
  flows: readonly string[],
  takeover?: Takeover,
  approve: (plan: PromotionPlan) => boolean = () => true,
): Promise<PromotionPlan> {
  return applyPromotions(store.pool, { promotions: definitionsOf(...flows) }, byAnna(takeover), approve);
}

const timelineOf = async (id: string) => {
  const found = timelinesOf((await readStoredPromotions(store.pool)).versions).get(`acme/${id}`);
  if (found === undefined) throw new Error(`no promotion ${id}`);
  return found;
};

test('a changed definition is a version of its own, and the window in progress ends by the old one [P17] [P21]', async () => {
  expect((await apply([bets(`target: 5, ${WEEKLY}`)])).version).toBe(1);
  const plan = await apply([bets(`target: 6, ${WEEKLY}`)]);
  expect(plan.version).toBe(2);
  const [first, second] = await timelineOf('x');
  const { at } = await readStoredPromotions(store.pool);
  const week = windowIn([first], at - 1_000_000n)?.window;
  expect([first.since, first.until, first.removedAt]).toEqual([null, week?.endsAt, null]);
  expect([second?.since, second?.until, second?.documentVersion]).toEqual([week?.endsAt, null, 2]);
  expect(first.documentVersion).toBe(1);
  expect(windowIn(await timelineOf('x'), at)?.version.version).toBe(1);
  expect(windowIn(await timelineOf('x'), week?.endsAt ?? 0n)?.version.version).toBe(2);
});

test('a document without changes is not stored again, whatever the order of its lists [P17] [P21]', async () => {
  const one = bets('target: 5, brands: [main, second], games: [g1, g2]');
  await apply([one, bets('target: 1', 'y')]);
  const turned = bets('target: 5, games: [g2, g1], brands: [second, main]');
  expect(await apply([bets('target: 1', 'y'), turned])).toEqual({ version: 1, changes: [] });
  expect(await apply([])).toMatchObject({ version: 2 });
  expect(await apply([])).toEqual({ version: 2, changes: [] });
});

test('a removed promotion counts no longer, and comes back whole where nothing else changed [P17]', async () => {
  await apply([bets('target: 5')]);
  await apply([]);
  const [removed] = await timelineOf('x');
  const appliedAt = await store.value(
    'select (extract(epoch from applied_at) * 1000000)::bigint from promo_store.promotion_documents where document_version = 2',
  );
  expect(removed.removedAt).toBe(BigInt(appliedAt ?? 0));
  await apply([bets('target: 5')]);
  const [back, ...more] = await timelineOf('x');
  expect([back.removedAt, back.version, more]).toEqual([null, 1, []]);
});

test('without approval nothing is stored, and approval sees the changes [P21]', async () => {
  const seen: string[] = [];
  const plan = await apply([bets('target: 5')], 'next_window', ({ changes }) => {
    seen.push(...printPromotionChanges(changes));
    return false;
  });
  expect(plan).toMatchObject({ version: 0, changes: [{ id: 'x', change: 'added' }] });
  expect(seen).toEqual([
    'added promotion acme/x: type: bet_count; completes: once; target: 5 (counts from its first window on, with the events that came before)',
  ]);
  expect(await store.rows('select * from promo_store.promotions')).toEqual([]);
  expect(await readPromotionHistory(store.pool)).toEqual([]);
});

test('a store that lost months of history refuses definitions that need them, all at once [P21]', async () => {
  await apply([bets(`target: 5, ${WEEKLY}`)]);
  const lost = `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2026-01-01', now(), null)
    on conflict on constraint months_pkey do update set made_at = excluded.made_at`;
  await store.rows(lost.replace(`'2026-01-01'`, `date_trunc('month', now() at time zone 'utc')`));
  const flows = [
    bets('target: 1, from: 2020-01-01T00:00Z', 'a'),
    bets('target: 1', 'b'),
    bets(`target: 5, ${WEEKLY}`),
    bets(`target: 1, ${WEEKLY}`, 'c'),
  ];
  const { changes } = await apply(flows, 'next_window', () => false);
  const monday = await store.value(
    `select (extract(epoch from min(m at time zone 'Europe/Warsaw')) * 1000000)::bigint
     from promo_store.complete_history_since() s (since), generate_series(0, 1) n,
       lateral (select date_trunc('week', s.since at time zone 'Europe/Warsaw') + n * interval '1 week') w (m)
     where m at time zone 'Europe/Warsaw' >= s.since`,
  );
  expect(changes.map(({ id, objection }) => [id, objection?.message.replace(/\d{4}-.*?Z/g, 'TIME')])).toEqual(
    [
      ['a', 'It begins at TIME, and history has no events from before TIME: its months were dropped.'],
      [
        'b',
        'It counts events of all times, and history has no events from before TIME: its months were dropped.',
      ],
      ['c', undefined],
    ],
  );
  expect(changes[2]?.effect).toEqual({ from: 'time', at: BigInt(monday ?? 0), pausedSince: null });
  store.damaged = true; // The present month was not made just now.
});

test('with recompute the new version has all windows from its own first one on [P21]', async () => {
  await apply([
    bets(`target: 5, ${WEEKLY}`),
    bets('target: 5', 'once'),
    bets(`target: 5, ${WEEKLY}`, 'late'),
  ]);
  const plan = await apply(
    [
      bets(`target: 6, ${WEEKLY}`),
      bets('target: 6', 'once'),
      bets(`target: 6, ${WEEKLY}, from: 2026-11-11T00:00`, 'late'),
    ],
    'recompute',
  );
  expect(plan.changes.map(({ id, effect, objection }) => [id, effect, objection])).toEqual([
    ['late', { from: 'recompute', at: micros('2026-11-08T23:00:00Z') }, undefined],
    ['once', { from: 'recompute', at: null }, undefined],
    ['x', { from: 'recompute', at: null }, undefined],
  ]);
  for (const id of ['x', 'once']) {
    const timeline = await timelineOf(id);
    expect(timeline.map(({ since, until }) => [since, until])).toEqual([
      [null, BEFORE_ALL],
      [null, null],
    ]);
    for (const at of ['2020-01-01T00:00:00Z', '2026-11-27T00:00:00Z', '2030-01-01T00:00:00Z'])
      expect(windowIn(timeline, micros(at))?.version.version).toBe(2);
  }
  // The week in which the new one begins is its own; the weeks before keep their version.
  const late = await timelineOf('late');
  expect(windowIn(late, micros('2026-11-08T22:59:59Z'))?.version.version).toBe(1);
  expect(windowIn(late, micros('2026-11-09T12:00:00Z'))).toBeUndefined();
  expect(windowIn(late, micros('2026-11-11T12:00:00Z'))?.version.version).toBe(2);
});

test('an exported document is the one that was applied, and an earlier one comes back [P21]', async () => {
  const text = readFileSync(join(projectRoot, 'schemas/examples/promotions.yaml'), 'utf8');
  const parsed = parsePromotions(text, 'promotions.yaml');
  if ('faults' in parsed) throw new Error('the example has faults');
  await applyPromotions(store.pool, parsed.document, byAnna(), () => true);
  await apply([bets('target: 5')]);
  const exported = parsePromotions((await readPromotionDocument(store.pool, 1))?.text ?? '', 'document 1');
  expect('faults' in exported ? exported.faults : exported.document).toEqual(parsed.document);
  if ('faults' in exported) return;
  const rollback = { ...byAnna(), reason: 'rollback to document 1' };
  expect((await applyPromotions(store.pool, exported.document, rollback, () => true)).version).toBe(3);
  expect((await readPromotionDocument(store.pool, undefined))?.text).toBe(
    (await readPromotionDocument(store.pool, 1))?.text,
  );
  // Nothing changed for the promotions of the first document: they count as if they had not been removed.
  const { versions } = await readStoredPromotions(store.pool);
  expect(
    versions
      .filter(({ definition }) => definition.id !== 'x')
      .map(({ version, removedAt }) => [version, removedAt]),
  ).toEqual(parsed.document.promotions.map(() => [1, null]));
  expect(
    (await readPromotionHistory(store.pool)).map(({ version, by, reason, promotions }) => [
      version,
      by,
      reason,
      promotions,
    ]),
  ).toEqual([
    [3, 'anna', 'rollback to document 1', 8],
    [2, 'anna', null, 1],
    [1, 'anna', null, 8],
  ]);
  expect(await readPromotionDocument(store.pool, 9)).toBeUndefined();
});

test('the tables have the terms, brands and currencies of each version, as its definition compiles [P21]', async () => {
  const text = readFileSync(join(projectRoot, 'schemas/examples/promotions.yaml'), 'utf8');
  const parsed = parsePromotions(text, 'promotions.yaml');
  if ('faults' in parsed) throw new Error('the example has faults');
  await applyPromotions(store.pool, parsed.document, byAnna(), () => true);
  const stored =
    await store.rows(`select p.promotion_id, t.term_no::text, promo_store.kind_name(t.kind), t.item, t.adds_amount::text, t.worth::text, t.games::text,
      (select string_agg(concat(u.code, ' ', c.unit_minor, ' ', c.min_minor), ', ' order by u.code nulls first)
       from promo_store.promotion_term_currencies c left join promo_store.currencies u using (currency_no)
       where (c.promotion_no, c.version, c.term_no) = (t.promotion_no, t.version, t.term_no))
    from promo_store.promotion_terms t join promo_store.promotions p using (promotion_no) order by 1, 2`);
  const expected = parsed.document.promotions.flatMap((definition) =>
    compilePromotion(definition).terms.map((term, index) => {
      const codes = [...new Set([...term.unit.keys(), ...term.minAmount.keys()])].sort();
      const currencies = codes.map(
        (code) => `${code} ${term.unit.get(code) ?? ''} ${term.minAmount.get(code) ?? ''}`,
      );
      return [
        ...[
          definition.id,
          String(index + 1),
          term.kind,
          term.item,
          String(term.adds === 'amount'),
          String(term.worth),
        ],
        term.games === null ? null : `{${[...term.games].join(',')}}`,
        currencies.join(', '),
      ];
    }),
  );
  const byId = (a: readonly unknown[], b: readonly unknown[]) =>
    `${a[0]} ${a[1]}` < `${b[0]} ${b[1]}` ? -1 : 1;
  expect(stored).toEqual(expected.sort(byId));
  expect(stored.find(([id]) => id === 'deposit-week')?.[7]).toBe(
    `BTC ${toMinor('0.008', 8)} , EUR ${toMinor('500', 2)} `,
  );
  expect(
    await store.rows(`select p.promotion_id, b.brand_id from promo_store.promotion_brands join promo_store.promotions p using (promotion_no)
      join promo_store.brands b using (brand_no)`),
  ).toEqual([['withdraw-100', 'main']]);
});

test('a brand without a number in the store is never left out: the version would count all brands [P21]', async () => {
  await expect(apply([bets('target: 5, brands: [main, nobody]')])).rejects.toThrow('no number for a brand');
  expect(await readPromotionHistory(store.pool)).toEqual([]);
});

test('two that apply at once run one after the other, and the second sees the changes of the first [P21]', async () => {
  const { pool } = store.writer({ maxConnections: 4 });
  const plans = await Promise.all(
    ['a', 'b', 'c', 'd'].map((id) =>
      applyPromotions(pool, { promotions: definitionsOf(bets('target: 5', id)) }, byAnna(), () => true),
    ),
  );
  expect(plans.map(({ version }) => version).sort()).toEqual([1, 2, 3, 4]);
  for (const { version, changes } of plans)
    expect(changes.map(({ change }) => change).sort()).toEqual(
      version === 1 ? ['added'] : ['added', 'removed'],
    );
  const { versions } = await readStoredPromotions(store.pool);
  expect(versions.filter(({ removedAt }) => removedAt === null)).toHaveLength(1);
});

test('applying waits for a slice of the fold, and takes its time after it [P21]', async () => {
  await store.rows(
    `insert into promo_store.folds (fold, generation) values ('promotions', 0) on conflict do nothing`,
  );
  await withClient(store.url, async (client) => {
    await client.query(
      `begin; select from promo_store.folds where fold = 'promotions' for update skip locked`,
    );
    const applied = apply([bets('target: 5')]);
    await store.untilOneWaits();
    const { rows } = await client.query<{ at: string }>('select clock_timestamp()::text as at');
    await client.query('commit');
    await applied;
    const isLater = 'select applied_at > $1::timestamptz from promo_store.promotion_documents';
    expect(await store.value(isLater, [rows[0]?.at])).toBe('t');
  });
});

test('the first slice of all waits for applying, too [P21]', async () => {
  await withClient(store.url, async (client) => {
    await client.query('begin; lock table promo_store.promotion_versions in access exclusive mode');
    const applied = apply([bets('target: 5')]);
    await store.untilOneWaits();
    // As the fold begins: see the statement fold_create.
    const begins = withClient(store.url, async (fold) => {
      await fold.query(`set lock_timeout = '200ms'`);
      await fold.query(
        `insert into promo_store.folds (fold, generation) values ('promotions', 0) on conflict do nothing`,
      );
    });
    await expect(begins).rejects.toThrow('lock timeout');
    await client.query('commit');
    await applied;
  });
});

test.each([
  '2026-11-27T14:00:00.123456Z',
  '1969-12-31T23:59:59.999999Z',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999Z',
])('the time %s is stored to the microsecond [P21]', async (text) => {
  const [[exact = ''] = []] = await store.rows(
    `select (extract(epoch from $1::timestamptz) * 1000000)::bigint`,
    [text],
  );
  expect(
    await store.value('select $1::timestamptz = $2::timestamptz', [timestampText(BigInt(exact ?? 0)), text]),
  ).toBe('t');
});

test('two operators may have promotions of one id [P21]', async () => {
  const document = {
    promotions: [
      ...definitionsOf(bets('target: 5')),
      ...definitionsOf(bets('target: 6')).map((each) => ({ ...each, operator: 'bravo' })),
    ],
  };
  await applyPromotions(store.pool, document, byAnna(), () => true);
  const { versions } = await readStoredPromotions(store.pool);
  expect(versions.map(({ definition }) => promotionKey(definition)).sort()).toEqual(['acme/x', 'bravo/x']);
});

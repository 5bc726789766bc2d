/**
 * Properties of a store after a plan was carried out, independent of which writer decided which record in
 * which order.
 */

import { makeRandom } from '../../dev/random';
import { monthOf, PlayerTags } from '../../src/domain/event/player-tag';
import { decide, type Item } from '../../src/domain/verdict/decide';
import type { Sums } from '../../src/domain/verdict/round';
import { nothingKnown } from '../support/builders';
import { playerKeysIn } from '../support/guessing';
import type { TestStore, TextRow } from '../support/ledger';
import { type Plan, type PlannedRecord, REFERENCE } from './plan';
import { type Delivery, type Net, ReferenceModel } from './reference-model';

export interface Carried {
  readonly store: TestStore;
  readonly plan: Plan;
  /** The judged items, by topic, partition and offset. */
  readonly items: ReadonlyMap<string, Item>;
  /** The answers that readers got, by topic, partition and offset. */
  readonly answers: ReadonlyMap<string, readonly string[]>;
}

export function placeOf(topic: string, partition: number | string, offset: number | string): string {
  return `${topic}/${partition}/${offset}`;
}

/** A verdict of the store with the record that decided it. */
interface Stored {
  readonly place: string;
  readonly record: PlannedRecord;
  readonly feed: string;
  readonly eventId: string;
  readonly name: string;
  readonly counted: boolean;
}

export async function verify(carried: Carried): Promise<void> {
  const { store, plan } = carried;
  const records = new Map(
    plan.partitions.flatMap(({ topic, partition, records }) =>
      records.map((record, offset) => [placeOf(topic, partition, offset), record] as const),
    ),
  );
  const stored = (
    await store.rows(
      `select source_topic, source_partition, source_offset, feed_id, event_id, concat_ws('/', verdict, reason), counted
       from promo.verdicts order by verdict_id`,
    )
  ).map(([topic, partition, offset, feed, eventId, name, counted]): Stored => {
    const place = placeOf(`${topic}`, `${partition}`, `${offset}`);
    const record = records.get(place);
    if (record === undefined) throw new Error(`a verdict of a record that was never sent: ${place}`);
    return {
      place,
      record,
      feed: `${feed}`,
      eventId: `${eventId}`,
      name: `${name}`,
      counted: counted === 't',
    };
  });

  const model = foldByModel(stored);
  const expected = await expectEachRecordOnce(carried, records, stored, model);
  expectAnswers(carried, expected);
  await expectOrderOfPartitions(store);
  await expectBalance(carried, expected);
  const net = await expectRounds(store, model);
  await expectFoldOfCode(carried, stored);
  await expectLedger(store, stored, net);
  await expectAnomalies(store, model);
  expectAnyOrder(plan, stored, model);
}

function deliveryOf(place: string, { connection, content }: PlannedRecord): Delivery {
  if (connection === null) throw new Error(`nobody claims ${place}`);
  return { connection, source: place, event: content === null || Buffer.isBuffer(content) ? null : content };
}

/** The verdicts of the store equal those of the model, taken in the order in which the store decided. */
function foldByModel(stored: readonly Stored[]): ReferenceModel {
  const model = new ReferenceModel(REFERENCE);
  for (const { place, record, feed, eventId, name, counted } of stored) {
    expect({ place, name: model.take(deliveryOf(place, record)) }).toEqual({ place, name });
    expect({ place, counted: model.verdictOf(feed, eventId)?.counted }).toEqual({ place, counted });
  }
  return model;
}

/**
 * Each record is one verdict, one delivery or one unstored row.
 * @returns the first answer that each record should have had
 */
async function expectEachRecordOnce(
  { store }: Carried,
  records: ReadonlyMap<string, PlannedRecord>,
  stored: readonly Stored[],
  model: ReferenceModel,
): Promise<Map<string, string>> {
  const expected = new Map(stored.map(({ place, name }) => [place, name]));
  expect(expected.size).toBe(stored.length);
  for (const [place, record] of records) {
    if (expected.has(place)) continue;
    expected.set(
      place,
      record.connection === null ? 'dead letter unclaimed' : model.take(deliveryOf(place, record)),
    );
  }
  const found = await store.rows(
    `select source_topic, source_partition, source_offset,
       'duplicate of ' || concat_ws('/', first_verdict, first_reason) || case when content_differs then ', differs' else '' end from promo.deliveries
     union all select topic, partition, source_offset, case dead_letter when 1 then 'dead letter unclaimed' else 'without key' end
     from promo_store.unstored join promo_store.partitions using (partition_no)`,
  );
  const rows = found.map(([topic, partition, offset, name]) => [
    placeOf(`${topic}`, `${partition}`, `${offset}`),
    name,
  ]);
  const verdicts = new Set(stored.map(({ place }) => place));
  expect(rows.sort()).toEqual([...expected].filter(([place]) => !verdicts.has(place)).sort());
  return expected;
}

/** All readers of a record got the same answer, and at most one of them as a new event. */
function expectAnswers({ answers }: Carried, expected: ReadonlyMap<string, string>): void {
  for (const [place, given] of answers) {
    const fresh = given.filter((answer) => !answer.endsWith(', again'));
    expect({ place, fresh: fresh.length <= 1 }).toEqual({ place, fresh: true });
    expect({ place, answers: new Set(given.map((answer) => answer.replace(/, again$/, ''))) }).toEqual({
      place,
      answers: new Set([expected.get(place)]),
    });
  }
}

/** D2: within a partition events are decided in the order of arrival. */
async function expectOrderOfPartitions(store: TestStore): Promise<void> {
  expect(
    await store.rows(
      `select * from (select source_topic, source_partition, source_offset,
         lag(source_offset) over (partition by source_topic, source_partition order by verdict_id) as before from promo.verdicts) v
       where before > source_offset`,
    ),
  ).toEqual([]);
}

/** D3: the counts of the partitions add up. */
async function expectBalance(
  { store, plan, answers }: Carried,
  expected: ReadonlyMap<string, string>,
): Promise<void> {
  for (const { topic, partition, records } of plan.partitions) {
    const names = records.map((_, offset) => `${expected.get(placeOf(topic, partition, offset))}`);
    const count = (pattern: RegExp) => names.filter((name) => pattern.test(name)).length;
    const counted = await store.balance(topic, partition);
    const read = counted.records_read ?? 0;
    const heard = records.flatMap((_, offset) => answers.get(placeOf(topic, partition, offset)) ?? []).length;
    expect(read).toBeGreaterThanOrEqual(Math.max(heard, records.length));
    expect({ topic, partition, ...counted }).toEqual(
      withoutZeros({
        topic,
        partition,
        records_read: read,
        redeliveries: read - records.length,
        accepted: count(/^accepted/),
        rejected: count(/^rejected/),
        skipped: count(/^skipped/),
        duplicate_deliveries: count(/^duplicate/),
        dead_letters: count(/^dead letter/),
        events_without_key: count(/^without key/),
      }),
    );
  }
}

function withoutZeros(counts: Record<string, number | string>): Record<string, number | string> {
  return Object.fromEntries(
    Object.entries(counts).filter(([name, count]) => name === 'partition' || count !== 0),
  );
}

type Nets = Map<string, { refundedBy: string | null; net: Map<string, Net> }>;

function netsOf(model: ReferenceModel): Nets {
  return new Map(
    model
      .rounds()
      .map(([feed, round]) => [
        `${feed} ${round}`,
        { refundedBy: model.refundedBy(feed, round), net: model.net(feed, round) },
      ]),
  );
}

/** The rounds that the store shows equal those of the model. */
async function expectRounds(store: TestStore, model: ReferenceModel): Promise<Nets> {
  const nets: Nets = new Map();
  for (const [feed, round, refundedBy = null, currency, bet, win, settled] of await store.rows(
    'select feed_id, round_id, refunded_by, currency, net_bet_minor, net_win_minor, net_settled_minor from promo.rounds',
  )) {
    const key = `${feed} ${round}`;
    const found = nets.get(key) ?? { refundedBy, net: new Map<string, Net>() };
    nets.set(key, found);
    if (currency == null) continue;
    found.net.set(currency, { bet: BigInt(bet ?? 0), win: BigInt(win ?? 0), settled: BigInt(settled ?? 0) });
  }
  const expected = netsOf(model);
  expect([...nets.keys()].sort()).toEqual([...expected.keys()].sort());
  for (const [key, value] of expected) expect([key, nets.get(key)]).toEqual([key, value]);
  return expected;
}

/**
 * The store's verdicts and rounds equal the result of src/domain/verdict/decide.ts, run over one event after
 * another.
 */
async function expectFoldOfCode({ store, items }: Carried, stored: readonly Stored[]): Promise<void> {
  // All events were decided in this month.
  const month = monthOf(BigInt(Date.now()) * 1000n);
  const known = nothingKnown({ tags: new PlayerTags(await playerKeysIn(store.pool), month) });
  const feedNumbers = new Map<string, number>();
  for (const { place, feed, name, counted } of stored) {
    const item = items.get(place);
    if (item?.type !== 'keyed') throw new Error(`${place} was never judged`);
    const [decision] = decide([item], known).decisions;
    if (decision?.type !== 'decided') throw new Error(`${place} is a duplicate in the fold`);
    const { verdict, reason } = decision.outcome;
    expect({
      place,
      name: reason === null ? verdict : `${verdict}/${reason}`,
      counted: decision.counted,
    }).toEqual({
      place,
      name,
      counted,
    });
    feedNumbers.set(feed, item.feedNo);
  }
  const rows = await store.rows(
    `select f.feed_id, r.round_id, r.refunded_by, r.settled, r.second_settled, r.player_mismatch, r.brand_mismatch, r.player_hash, r.player_tag, r.brand_no,
       u.code, r.bet_minor, r.win_minor, r.settled_minor, r.below_min_bet_minor, r.other_sums
     from promo_store.rounds r join promo_store.feeds f using (feed_no) left join promo_store.currencies u using (currency_no)`,
  );
  for (const [feed, roundId, ...state] of rows) {
    const name = `${feed} ${roundId}`;
    const round = known.rounds.get(feedNumbers.get(`${feed}`) ?? 0, `${roundId}`);
    const flag = (value: boolean | undefined) => (value ? 't' : 'f');
    const [first, ...others] = round ? [...round.sums] : [];
    const texts = (sums: Sums | undefined) =>
      [sums?.bet, sums?.win, sums?.settled, sums?.belowMinBet].map((sum) => (sum ?? 0n).toString());
    expect([name, ...state.slice(0, -1)]).toEqual([
      name,
      round?.refundedBy ?? null,
      ...[round?.settled, round?.secondSettled, round?.playerMismatch, round?.brandMismatch].map(flag),
      round?.playerHash?.toString() ?? null,
      round?.playerTag?.toString() ?? null,
      round?.brandNo?.toString() ?? null,
      first?.[0].code ?? null,
      ...texts(first?.[1]),
    ]);
    expect([name, otherSums(state.at(-1))]).toEqual([
      name,
      Object.fromEntries(others.map(([currency, sums]) => [currency.code, texts(sums)])),
    ]);
  }
}

function otherSums(json: string | null | undefined): Record<string, unknown[]> {
  const parsed: unknown = JSON.parse(json ?? '{}');
  return Object.fromEntries(
    Object.entries(parsed ?? {}).map(([code, sums]) => [
      code,
      ['bet', 'win', 'settled', 'belowMinBet'].map((name): unknown => Reflect.get(Object(sums), name)),
    ]),
  );
}

/** L1, L3, R7: entries are the counted events; a refunded round sums up to zero. */
async function expectLedger(store: TestStore, stored: readonly Stored[], nets: Nets): Promise<void> {
  const entries = await store.rows(
    `select feed_id || ' ' || event_id from promo.ledger where reverses_entry_id is null`,
  );
  expect(entries.flat().sort()).toEqual(
    stored
      .filter(({ counted }) => counted)
      .map(({ feed, eventId }) => `${feed} ${eventId}`)
      .sort(),
  );
  expect(
    await store.rows(
      `select r.entry_id from promo.ledger r left join promo.ledger e on e.entry_id = r.reverses_entry_id and e.reverses_entry_id is null
       and e.kind = r.kind and e.currency = r.currency and e.amount_minor = -r.amount_minor and e.round_id = r.round_id and e.feed_id = r.feed_id
       where r.reverses_entry_id is not null and e.entry_id is null
       union all select min(entry_id) from promo.ledger where reverses_entry_id is not null group by reverses_entry_id having count(*) > 1`,
    ),
  ).toEqual([]);
  const sums = new Map(
    (
      await store.rows(
        `select concat_ws(' ', feed_id, round_id, kind, currency), sum(amount_minor) from promo.ledger where round_id is not null group by 1`,
      )
    ).map((row: TextRow) => [row[0], BigInt(row[1] ?? 0)] as const),
  );
  for (const [key, { net }] of nets) {
    for (const [currency, { bet, win, settled }] of net) {
      for (const [kind, sum] of Object.entries({ bet, win, settled })) {
        const name = `${key} ${kind} ${currency}`;
        expect([name, sums.get(name) ?? 0n]).toEqual([name, sum]);
        sums.delete(name);
      }
    }
  }
  expect([...sums]).toEqual([]);
}

async function expectAnomalies(store: TestStore, model: ReferenceModel): Promise<void> {
  const found = await store.rows('select feed_id, round_id, anomaly from promo.anomalies order by 1, 2, 3');
  const expected = model
    .rounds()
    .flatMap(([feed, round]) => model.anomalies(feed, round).map((anomaly) => [feed, round, anomaly]));
  expect(found.sort()).toEqual(expected.sort());
}

/** R1: in any other order, the deciding events sum up to the same, with the exceptions of R8. */
function expectAnyOrder(plan: Plan, stored: readonly Stored[], model: ReferenceModel): void {
  const random = makeRandom(plan.seed + 1);
  const before = netsOf(model);
  for (let order = 0; order < 3; order++) {
    const other = new ReferenceModel(REFERENCE);
    for (const { place, record } of random.shuffled(stored)) other.take(deliveryOf(place, record));
    const after = netsOf(other);
    expect(after.size).toBe(before.size);
    for (const [feed, round] of model.rounds()) {
      const key = `${feed} ${round}`;
      const [mine, theirs] = [before.get(key), after.get(key)];
      const isTwiceSettled = [model, other].some((of) =>
        of.anomalies(feed, round).includes('second_settled'),
      );
      const comparable = (value: typeof mine) => ({
        refunded: value?.refundedBy != null,
        net: [...(value?.net ?? [])]
          .map(([currency, net]) => [currency, net.bet, net.win, isTwiceSettled ? 0n : net.settled])
          .sort((a, b) => (`${a[0]}` < `${b[0]}` ? -1 : 1)),
      });
      expect([key, comparable(theirs)]).toEqual([key, comparable(mine)]);
      const mismatches = (of: ReferenceModel) =>
        of.anomalies(feed, round).filter((anomaly) => !isTwiceSettled || !anomaly.includes('settled'));
      expect([key, mismatches(other)]).toEqual([key, mismatches(model)]);
    }
  }
}

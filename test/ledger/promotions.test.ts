/** The fold of promotions over a real ledger, and windows by the time zones of Postgres. */
import { makeRandom } from '../../dev/random';
import { compileReference } from '../../src/domain/reference';
import { judge } from '../../src/domain/verdict/judge';
import { TimeZone } from '../../src/lib/time-zone';
import { FileLedger } from '../../src/promotions/file-ledger';
import { PromotionFold } from '../../src/promotions/fold';
import { freshStore, REFERENCE, type TestStore } from '../support/ledger';
import { ledgerEntries } from '../support/ledger-entries';
import { eventBytes, feedOf, stateOf, VERSIONS } from '../support/promotion-feeds';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const MICROS = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;

test.each([1, 2, 3, 4])(
  'rows of promo.changes give the state that the events of a file give: seed %i [P11] [P16] [P20]',
  async (seed) => {
    const random = makeRandom(seed);
    const events = random.shuffled(feedOf(random).events);
    const acme = store.partition('acme');
    const fold = new PromotionFold(VERSIONS);
    let last = -1;
    for (let from = 0; from < events.length; ) {
      const to = from + random.between(1, 40);
      await acme.read(...events.slice(from, to).map(eventBytes));
      from = to;
      // A slice of some batches.
      if (from < events.length && random.chance(0.5)) continue;
      for (const row of await ledgerEntries(store, last)) {
        fold.take(row);
        last = row.changeNo;
      }
      fold.endSlice(0n);
    }

    const verdicts = await store.rows(`select event_id, ${MICROS('decided_at')} from promo.verdicts`);
    const decidedAt = new Map(verdicts.map(([id, time]) => [id, BigInt(time ?? 0)]));
    const no = () => 1;
    const reference = compileReference(
      REFERENCE,
      { version: 1, appliedAt: '' },
      { feed: no, connection: no, brand: no },
    );
    const ledger = new FileLedger({ operatorId: 'acme', feedId: 'acme' });
    const expected = new PromotionFold(VERSIONS);
    for (const event of events) {
      const judged = judge(
        { type: 'json', bytes: eventBytes(event) },
        reference.connections.get('acme-stream'),
      );
      if (judged.type !== 'keyed') throw new Error('an event without key');
      for (const row of ledger.decide(judged, decidedAt.get(event.id) ?? 0n).rows) expected.take(row);
    }
    expected.endSlice(0n);
    expect(stateOf(fold)).toEqual(stateOf(expected));
    expect(stateOf(fold).length).toBeGreaterThan(10);
  },
);

test.each([
  'Europe/Warsaw',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Santiago',
  'Asia/Beirut',
  'Asia/Kathmandu',
])('days of %s begin as in Postgres, in 2025 to 2027 [P3]', async (name) => {
  const zone = new TimeZone(name);
  const days = await store.rows(
    `select d::date::text, (extract(epoch from d at time zone $1) * 1000)::bigint
    from generate_series(timestamp '2025-01-01', '2027-12-31', '1 day') d`,
    [name],
  );
  expect(days.length).toBe(1_095);
  const ours = days.map(([day]) => [day, String(zone.firstInstantOf(Date.parse(day ?? '')))]);
  expect(ours).toEqual(days);
});

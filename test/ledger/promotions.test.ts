/** The fold of promotions over a real ledger, and windows by the time zones of Postgres. */
import { makeRandom } from '../../dev/random';
import { isKind } from '../../src/domain/event/event';
import { compileReference } from '../../src/domain/reference';
import { judge } from '../../src/domain/verdict/judge';
import { TimeZone } from '../../src/lib/time-zone';
import { FileLedger } from '../../src/promotions/file-ledger';
import { PromotionFold } from '../../src/promotions/fold';
import type { LedgerEntry } from '../../src/promotions/ledger-entry';
import { freshStore, REFERENCE, type TestStore, type TextRow } from '../support/ledger';
import { eventBytes, feedOf, stateOf, VERSIONS } from '../support/promotion-feeds';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const MICROS = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;
/** The columns of a row of the ledger, in the order of `entryOf`. */
const ROWS = `select change_no, entry_id, reverses_entry_id, operator_id, feed_id, round_id, brand, player_ref, kind, currency, amount_minor, game_id,
  ${MICROS('occurred_at')}, ${MICROS('decided_at')}, ${MICROS('entered_at')}
from promo.changes_with_players($1)`;

function entryOf([changeNo, entryId, reverses, ...row]: TextRow): LedgerEntry {
  const [operatorId, feedId, roundId, brand, playerRef, kind, currency, amount, gameId, ...times] = row;
  if (!operatorId || !feedId || !playerRef || !kind || !isKind(kind)) throw new Error('a row lacks a column');
  const [occurredAt = 0n, decidedAt = 0n, enteredAt = 0n] = times.map((time) => BigInt(time ?? 0));
  return {
    ...{ changeNo: Number(changeNo), entryId: Number(entryId) },
    reversesEntryId: reverses ? Number(reverses) : null,
    ...{ operatorId, feedId, roundId: roundId ?? null, brand: brand ?? null, playerRef, kind },
    ...{ currency: currency ?? null, amountMinor: BigInt(amount ?? 0), gameId: gameId ?? null },
    ...{ occurredAt, decidedAt, enteredAt },
  };
}

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
      for (const row of (await store.rows(ROWS, [last])).map(entryOf)) {
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

/**
 * A worker of this version on data of a newer version, as docs/operations/mixed-versions.md describes it. The
 * worker decides nothing that it cannot read, and names the reason. It continues once it can read the data.
 */
import { undecidedCause } from '../../src/intake/undecided';
import { pendingMigrations } from '../../src/ledger/migrate';
import { readReferenceVersion } from '../../src/ledger/reference-store';
import { UnreadableDocument } from '../../src/reference-file/stored';
import { aBet, aLogin, aSettled, freshStore, type TestStore } from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const verdicts = () => store.value('select count(*) from promo.verdicts');

test('a reason that only a newer version knows leaves its duplicate undecided, and other partitions continue [V1] [U2]', async () => {
  const acme = store.partition('acme');
  const bet = aBet({ event_id: 'newer' });
  await acme.read(bet);
  const setOutcome = (code: number) =>
    store.rows(
      `update promo_store.event_keys set outcome = ${code} where event_key = promo_store.id_key('newer')`,
    );
  await setOutcome(199);
  const { answers, undecided } = await acme.attempt(1, [bet, aBet()]);
  expect([answers, undecidedCause(undecided)]).toEqual([[], 'store']);
  expect(undecided?.message).toContain('unreadable answer: outcome 199');
  expect(await store.partition('acme', 1).read(aBet())).toEqual(['accepted']);
  await setOutcome(0);
  expect(await acme.readAt(1, bet, aBet())).toEqual(['duplicate of accepted', 'accepted']);
});

test('a currency that only a newer version knows leaves events of its round undecided [M4] [U2]', async () => {
  const acme = store.partition('acme');
  await acme.read(aBet({ round_id: 'newer' }));
  await store.rows(
    "insert into promo_store.currencies (currency_no, code, scale, unit) values (999, 'XAU', 2, 0.01)",
  );
  const setCurrency = (no: number) =>
    store.rows(`update promo_store.rounds set currency_no = ${no} where round_id = 'newer'`);
  await setCurrency(999);
  const settled = aSettled({ round_id: 'newer' });
  const { answers, undecided } = await acme.attempt(1, [settled]);
  expect([answers, undecidedCause(undecided)]).toEqual([[], 'store']);
  expect(undecided?.message).toContain('unreadable answer: currency 999');
  await setCurrency(101);
  await store.rows('delete from promo_store.currencies where currency_no = 999');
  expect(await acme.readAt(1, settled)).toEqual(['accepted']);
});

test('an event in a currency that only a newer version knows is skipped for good: senders wait for the last worker [M4]', async () => {
  expect(await store.partition('acme').read(aBet({ currency: 'XAU' }))).toEqual(['skipped/currency_unknown']);
});

test('a reference key that only a newer version knows leaves everything undecided until this version can read the data [C6] [V8]', async () => {
  await store.partition('acme').read(aLogin());
  const before = await verdicts();
  await store.rows(
    `update promo_store.reference_versions set document = jsonb_set(document::jsonb, '{operators,0,quota}', '7')`,
  );
  // A worker that starts now. One that has read the data before keeps it: a version never changes in truth.
  const started = store.writer().partition('acme', 1);
  const { answers, undecided } = await started.attempt(0, [aBet()]);
  expect([answers, undecidedCause(undecided)]).toEqual([[], 'reference']);
  expect(undecided?.message).toMatch(
    /^the reference data in force cannot be read: .* operators\[0\]\.quota: The key "quota" is unknown here/,
  );
  expect(await verdicts()).toBe(before);
  await expect(readReferenceVersion(store.pool, undefined)).rejects.toThrow(UnreadableDocument);
  await store.rows(
    `update promo_store.reference_versions set document = document::jsonb #- '{operators,0,quota}'`,
  );
  expect(await started.readAt(0, aBet())).toEqual(['accepted']);
});

test('migrations that only a newer version has keep no worker from starting [D1]', async () => {
  await store.rows(
    "insert into promo_store.migrations (name, batch, migration_time) values ('9999_newer.sql', 99, now())",
  );
  expect(await pendingMigrations(store.url)).toEqual([]);
  expect(await store.partition('acme').read(aBet())).toEqual(['accepted']);
});

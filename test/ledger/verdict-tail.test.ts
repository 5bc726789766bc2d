/** `tail` follows the verdicts: each one once, and none is passed over. */
import type { Client } from 'pg';
import { grantRoles } from '../../src/ledger/roles';
import { type FollowedFault, type FollowedVerdict, followVerdicts } from '../../src/ledger/verdict-tail';
import { makePool, type PostgresPool } from '../../src/postgres/pool';
import { makeLogger } from '../../src/telemetry/logger';
import { aBet, aDeposit, aLogin, aSettled, freshStore, type TestStore, withClient } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

let store: TestStore;
let reader: { name: string; url: string };
let pool: PostgresPool;
beforeEach(async () => {
  store = await freshStore({ own: true });
  reader = await makeRole(store.url, 'reader');
  await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
  const options = { databaseUrl: reader.url, maxConnections: 1, applicationName: 'promo-test-tail' };
  pool = makePool(options, makeLogger('silent'));
});
afterEach(async () => {
  await pool.end();
  await dropRoles(store.url, [reader.name]);
  await store.close();
});

async function following(filters = {}, sinceMs?: number) {
  const tail = await followVerdicts(pool, filters, sinceMs);
  return async () => {
    const ids: string[] = [];
    await tail.poll(async (found) => {
      ids.push(...found.map(({ event_id }) => event_id));
    });
    return ids;
  };
}

test('each verdict from its start on comes once, to the role of a reader [T1]', async () => {
  const partition = store.partition('acme');
  await partition.read(aBet({ event_id: 'before' }));
  const poll = await following();

  expect(await poll()).toEqual([]);
  await partition.read(aBet({ event_id: 'a' }), aBet({ event_id: 'a' }), aLogin({ event_id: 'b' }));
  expect(await poll()).toEqual(['a', 'b']);
  expect(await poll()).toEqual([]);
  await partition.read(aDeposit({ event_id: 'c' }));
  expect(await poll()).toEqual(['c']);
  expect(await poll()).toEqual([]);
});

/** Begins a transaction that takes the number of a batch. @returns the number */
async function beginBatch(client: Client): Promise<number> {
  await client.query('begin');
  const { rows } = await client.query<{ no: string }>(`select nextval('promo_store.batch_numbers') as no`);
  return Number(rows[0]?.no);
}

/** Inserts the first verdict of a batch, of the event `slow`. */
async function insertSlow(client: Client, batch: number): Promise<void> {
  await client.query(
    `insert into promo_store.history (verdict_id, decided_at, feed_no, connection_no, reference_version, outcome, counted, event_id)
     select $1, now(), feed_no, connection_no, reference_version, outcome, false, 'slow' from promo_store.history limit 1`,
    [batch * 8192],
  );
}

test('a batch that commits after batches with higher numbers is not passed over, and none comes twice [T1]', async () => {
  const poll = await following();
  await withClient(store.url, async (client) => {
    const batch = await beginBatch(client);
    const partition = store.partition('acme');
    await partition.read(aBet({ event_id: 'later' }));
    expect(await poll()).toEqual(['later']);
    expect(await poll()).toEqual([]);
    await partition.read(aBet({ event_id: 'later-still' }));
    expect(await poll()).toEqual(['later-still']);
    await insertSlow(client, batch);
    expect(await poll()).toEqual([]);
    await client.query('commit');
  });

  expect(await poll()).toEqual(['slow']);
  for (let polls = 0; polls < 3; polls++) expect(await poll()).toEqual([]);
  store.damaged = true;
});

test('a batch that rolls back does not stop the position [T1]', async () => {
  const poll = await following();
  await withClient(store.url, async (client) => {
    await client.query('begin');
    await client.query(`select nextval('promo_store.batch_numbers')`);
    await client.query('rollback');
  });
  await store.partition('acme').read(aBet({ event_id: 'a' }));

  expect(await poll()).toEqual(['a']);
  expect(await poll()).toEqual([]);
});

test('the conditions choose operator, connection, verdict and reason [T1]', async () => {
  const polls = {
    bravo: await following({ operator: 'bravo' }),
    solo: await following({ connection: 'acme-solo' }),
    skipped: await following({ verdict: 'skipped' }),
    malformed: await following({ reason: 'malformed' }),
  };
  await store
    .partition('acme')
    .read(aBet({ event_id: 'bad', occurred_at: 'now' }), aBet({ event_id: 'good' }));
  await store.partition('acme.solo').read(aSettled({ event_id: 'zero', amount: '0', brand: undefined }));
  await store.partition('bravo').read(aLogin({ event_id: 'other' }));

  expect(await polls.bravo()).toEqual(['other']);
  expect(await polls.solo()).toEqual(['zero']);
  expect(await polls.skipped()).toEqual(['zero']);
  expect(await polls.malformed()).toEqual(['bad']);
});

test('an event that does not count comes with the field of each of its faults [T1]', async () => {
  const tail = await followVerdicts(pool, {});
  await store
    .partition('acme')
    .read(
      aBet({ event_id: 'good' }),
      aBet({ event_id: 'time', occurred_at: 'now' }),
      aBet({ event_id: 'two', amount: '1,50', player_ref: undefined }),
      aSettled({ event_id: 'zero', amount: '0' }),
    );
  const faults = new Map<string, readonly FollowedFault[]>();
  await tail.poll(async (found) => {
    for (const each of found) faults.set(each.event_id, each.faults);
  });
  expect(Object.fromEntries(faults)).toEqual({
    good: [],
    time: [{ reason: 'malformed', field: '/occurred_at' }],
    two: [
      { reason: 'no_player', field: '/player_ref' },
      { reason: 'bad_amount', field: '/amount' },
    ],
    zero: [{ reason: 'zero_amount', field: '/amount' }],
  });
});

/** Moves the decision of an event into the past. @returns the time, in ms since 1970 */
async function setDecided(eventId: string, secondsAgo: number): Promise<number> {
  // In the first days of a month, the time is in a month that a new store lacks.
  await store.rows(
    `select promo_store.create_month('history', date_trunc('month', now() at time zone 'utc' - interval '2 days')::date)`,
  );
  const [row] = await store.rows(
    `update promo_store.history set decided_at = date_trunc('second', now()) - make_interval(secs => ${secondsAgo})
     where event_id = '${eventId}' returning (extract(epoch from decided_at) * 1000)::bigint`,
  );
  return Number(row?.[0]);
}

test('from a time of the past on, each verdict comes once, and then those that are decided [T1]', async () => {
  const partition = store.partition('acme');
  const ages = { day: 90_000, hours: 20_000, hour: 4_000, minute: 70, seconds: 3 };
  const times: Record<string, number> = {};
  for (const [id, secondsAgo] of Object.entries(ages)) {
    await partition.read(aLogin({ event_id: id }), aLogin({ event_id: `beside ${id}` }));
    for (const each of [id, `beside ${id}`]) times[id] = await setDecided(each, secondsAgo);
  }
  const ids = Object.keys(ages);
  const both = (names: readonly string[]) => names.flatMap((id) => [id, `beside ${id}`]);
  for (const [index, id] of ids.entries()) {
    const at = await following({}, times[id]);
    expect(await at()).toEqual(both(ids.slice(index)));
    expect(await at()).toEqual([]);
    const behind = await following({}, Number(times[id]) + 1);
    expect(await behind()).toEqual(both(ids.slice(index + 1)));
  }
  const all = await following({}, 0);
  expect(await all()).toEqual(both(ids));
  const none = await following({}, Date.now());
  expect(await none()).toEqual([]);
  await partition.read(aBet({ event_id: 'new' }));
  expect(await all()).toEqual(['new']);
  expect(await none()).toEqual(['new']);
  store.damaged = true;
});

test('verdicts of the past come also where their numbers do not follow their times [T1]', async () => {
  const partition = store.partition('acme');
  const ages = { high: 10, old: 90_000, low: 5 };
  for (const [id, secondsAgo] of Object.entries(ages)) {
    await partition.read(aLogin({ event_id: id }));
    await setDecided(id, secondsAgo);
  }
  const poll = await following({}, Date.now() - 60_000);
  expect(await poll()).toEqual(['high', 'low']);
  store.damaged = true;
});

test('verdicts of the past come once the batches in flight at the start have ended, and none is passed over [T1]', async () => {
  const partition = store.partition('acme');
  await partition.read(aBet({ event_id: 'first' }));
  await withClient(store.url, async (client) => {
    const batch = await beginBatch(client);
    await partition.read(aBet({ event_id: 'later' }));
    const poll = await following({}, Date.now() - 60_000);
    expect(await poll()).toEqual([]);
    await insertSlow(client, batch);
    expect(await poll()).toEqual([]);
    await client.query('commit');
    expect(await poll()).toEqual(['first', 'slow', 'later']);
    for (let polls = 0; polls < 3; polls++) expect(await poll()).toEqual([]);
  });
  store.damaged = true;
});

test('a long id is shortened, so that a page of such events takes little memory [T1]', async () => {
  const tail = await followVerdicts(pool, {});
  const long = (letter: string) => letter.repeat(2_000_000);
  await store
    .partition('acme')
    .read(
      aBet({ event_id: long('e'), round_id: long('r') }),
      aBet({ event_id: long('f'), brand: 'b'.repeat(255) }),
      aBet({ event_id: 'g'.repeat(1_000), brand: long('c') }),
    );
  const shown: FollowedVerdict[] = [];
  await tail.poll(async (found) => void shown.push(...found));
  const shortened = (letter: string) => new RegExp(`^${letter}{200}\\.\\.\\. sha256:[0-9a-f]{64}$`);
  expect(shown).toMatchObject([
    { event_id: expect.stringMatching(shortened('e')), round_id: expect.stringMatching(shortened('r')) },
    { event_id: expect.stringMatching(shortened('f')), reason: 'brand_unmapped' },
    { event_id: 'g'.repeat(1_000), reason: 'malformed' },
  ]);
  const longest = shown.flatMap((each) => Object.values(each)).map((text) => String(text).length);
  expect(Math.max(...longest)).toBe(1_000);
});

test('writers side by side: every verdict comes once [T1]', async () => {
  const poll = await following();
  const seen: string[] = [];
  const ids: string[] = [];
  let isDone = false;
  const writers = [0, 1, 2, 3].map(async (partition) => {
    const part = store.partition('acme', partition);
    for (let batch = 0; batch < 25; batch++) {
      const batchIds = [0, 1, 2].map((event) => `${partition}-${batch}-${event}`);
      ids.push(...batchIds);
      await part.read(...batchIds.map((id) => aLogin({ event_id: id })));
    }
  });
  const follower = (async () => {
    while (!isDone) seen.push(...(await poll()));
  })();
  await Promise.all(writers);
  isDone = true;
  await follower;
  seen.push(...(await poll()));

  expect(seen.toSorted()).toEqual(ids.toSorted());
});

/**
 * After an erasure, no stored value confirms a guess of the player. Duplicates and rounds still have all that
 * they need.
 */
import { join } from 'node:path';
import { inRun } from '../../dev/long-run';
import { until } from '../../dev/servers/deadline';
import { erasePlayer } from '../../src/ledger/erasure';
import { migrationNames, runMigrations } from '../../src/ledger/migrate';
import { dropMonthsBefore, forgetDroppedPlayers } from '../../src/ledger/retention';
import { grantRoles } from '../../src/ledger/roles';
import {
  candidatesAround,
  type KnownOfEvent,
  knownOfEvents,
  playersOfEvents,
  playersOfRounds,
} from '../support/guessing';
import {
  aBet,
  aDeposit,
  aLogin,
  aSettled,
  aWin,
  damagesOf,
  freshStore,
  type Json,
  REFERENCE,
  rowsOf,
  TestStore,
  withClient,
} from '../support/ledger';
import { startProgram } from '../support/program';
import { dropRoles, makeRole } from '../support/roles';
import { freshDatabase } from '../support/servers';

const BY = { requestedBy: 'ops@desk' };
const PLAYER = 'player-of-acme';
const CANDIDATES = candidatesAround(PLAYER, 10_000);
const MANY = Array.from({ length: inRun({ usual: 100_000, long: 1_000_000 }) }, (_, n) => `player-${n}`);
/** Three of them: the first, one in the middle, and the last. */
const GUESSED = ['player-0', 'player-47110', `player-${MANY.length - 1}`];
const mine = { player_ref: PLAYER };

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const erase = (batch = 1_000) =>
  erasePlayer(store.url, BY, { operator: 'acme', player: PLAYER, batch }, () => undefined);
/** Turns the store into one whose older workers may still run: its hashes are from before tags. */
const withoutTags = () => store.pool.query('update promo_store.player_keys set key = null');
const withTags = () =>
  store.pool.query('update promo_store.player_keys set key = promo_store.new_player_key()');
const anotherWriter = (topic: string) => store.writer().partition(topic);

const EVENTS: readonly Json[] = [
  aBet({ ...mine, event_id: 'a', game: { id: 'g1' } }),
  aBet({ ...mine, event_id: 'b', round_id: 'r-2', amount: '7.00' }),
  aSettled({ ...mine, event_id: 'c' }),
  aDeposit({ ...mine, event_id: 'd' }),
  aLogin({ ...mine, event_id: 'e' }),
];

async function guessed(client = store.pool): Promise<{ events: string[]; rounds: string[] }> {
  return {
    events: await playersOfEvents(client, await knownOfEvents(client), CANDIDATES),
    rounds: await playersOfRounds(client, CANDIDATES),
  };
}
const NOTHING = { events: [], rounds: [] };
/** A tag has 24 bits, so among many candidates another one may fit by chance. */
const EVERYTHING = {
  events: expect.arrayContaining(['a', 'b', 'c', 'd', 'e'].map((id) => `${id}: ${PLAYER}`)),
  rounds: expect.arrayContaining(['r-1', 'r-2'].map((id) => `${id}: ${PLAYER}`)),
};

describe.each([
  ['with tags', async () => {}],
  ['with the hashes of before tags', withoutTags],
])('a store %s', (_, prepare) => {
  test('reveals no erased player to a search of all candidates [K6]', async () => {
    await prepare();
    await store.partition('acme').read(...EVENTS);
    expect(await guessed()).toEqual(EVERYTHING);
    await erase(2);
    expect(await guessed()).toEqual(NOTHING);
    expect(await damagesOf(store.pool)).toEqual([]);
  });

  test('reveals none of three erased players among many candidates [K6]', async () => {
    await prepare();
    await store
      .partition('acme')
      .read(...GUESSED.map((player_ref) => aBet({ player_ref, event_id: player_ref, round_id: player_ref })));
    const search = async (candidates: readonly string[]) => ({
      events: await playersOfEvents(store.pool, await knownOfEvents(store.pool), candidates),
      rounds: await playersOfRounds(store.pool, candidates),
    });
    const all = GUESSED.map((player) => `${player}: ${player}`);
    expect(await search(GUESSED)).toEqual({ events: all, rounds: all });
    for (const player of GUESSED) {
      const request = { operator: 'acme', player, batch: 1_000 };
      await erasePlayer(store.url, BY, request, () => undefined);
    }
    expect(await search(MANY)).toEqual(NOTHING);
  });

  test('reveals none to the role of workers, which knows the rest of each event [K6]', async () => {
    await prepare();
    const writer = await makeRole(store.url, 'writer');
    try {
      await grantRoles(store.url, [{ role: 'writer', name: writer.name }]);
      await store.partition('acme').read(...EVENTS);
      const rest = await knownOfEvents(store.pool);
      const asWriter = () =>
        withClient(writer.url, async (client) => {
          const hashes = await rowsOf(
            client,
            'select convert_from(event_key, $1), content_hash from promo_store.event_keys',
            ['UTF8'],
          );
          const byId = new Map(hashes.map(([id, hash]) => [id, BigInt(hash ?? 0)]));
          const known: KnownOfEvent[] = rest.map((event) => ({
            ...event,
            contentHash: byId.get(event.eventId) ?? 0n,
          }));
          return {
            events: await playersOfEvents(client, known, CANDIDATES),
            rounds: await playersOfRounds(client, CANDIDATES),
          };
        });
      expect(await asWriter()).toEqual(EVERYTHING);
      await erase();
      expect(await asWriter()).toEqual(NOTHING);
    } finally {
      await dropRoles(store.url, [writer.name]);
    }
  });

  test('a resend after an erasure is a duplicate, and stores the player nowhere [K6] [V1]', async () => {
    await prepare();
    await store.partition('acme').read(...EVENTS);
    await erase();
    const again = await anotherWriter('acme.second').read(...EVENTS);
    expect(again).toEqual(EVENTS.map(() => 'duplicate of accepted'));
    expect(await anotherWriter('acme').readAt(0, ...EVENTS)).toEqual(EVENTS.map(() => 'accepted, again'));
    expect(await guessed()).toEqual(NOTHING);
    // The player is in no column of any table.
    for (const [table, rows] of Object.entries(await store.contents()))
      expect([table, JSON.stringify(rows).includes(PLAYER)]).toEqual([table, false]);
  });

  test('erases the event of a panic, although history does not name its player [V9] [K6]', async () => {
    await prepare();
    const [login] = [aLogin({ ...mine, event_id: 'p' })];
    await store.partition('acme').read(login);
    // A stored panic has only the event's id and the payload.
    await store.pool.query(
      `update promo_store.history set outcome = 10, player_ref = null, kind = null, brand_no = null, counted = false;
       update promo_store.event_keys set outcome = 10;
       update promo_store.partitions set accepted = 0, rejected = 1`,
    );
    await store.pool.query(
      `insert into promo_store.panics (verdict_id, error, payload) select verdict_id, 'no', $1 from promo.verdicts`,
      [Buffer.from(JSON.stringify(login))],
    );
    const before = await knownOfEvents(store.pool);
    const asSent = before.map((event) => ({
      ...event,
      fields: { ...event.fields, kind: 'login' as const, brand: 'main' },
    }));
    expect(await playersOfEvents(store.pool, asSent, CANDIDATES)).toEqual([`p: ${PLAYER}`]);
    expect((await erase()).payloads).toBe(1);
    const hash = BigInt((await store.value('select content_hash from promo_store.event_keys')) ?? 0);
    const after = asSent.map((event) => ({ ...event, contentHash: hash }));
    expect(await playersOfEvents(store.pool, after, CANDIDATES)).toEqual([]);
  });
});

test('a duplicate of an erased event is compared by its content, except the player [K4] [K6]', async () => {
  const acme = store.partition('acme');
  await acme.read(...EVENTS);
  const second = store.partition('acme.second');
  const other = { ...EVENTS[0], player_ref: 'another' };
  expect(await second.read(other)).toEqual(['duplicate of accepted, differs']);
  await erase();
  const changes = [
    ...[{ amount: '10.51' }, { currency: 'USD' }, { round_id: 'r-9' }, { game: { id: 'g2' } }],
    ...[{ brand: 'second' }, { kind: 'win' }, { occurred_at: '2026-11-21T12:00:00.000001Z' }],
    ...[{ player_ref: 7 }, { spec: 'promo.event.v2' }],
  ];
  for (const change of changes)
    expect([change, await second.read({ ...EVENTS[0], ...change })]).toEqual([
      change,
      ['duplicate of accepted, differs'],
    ]);
  expect(await second.read(other, EVENTS[0] ?? {})).toEqual([
    'duplicate of accepted',
    'duplicate of accepted',
  ]);
});

test('an event without tags is not compared after its erasure [K4] [K6]', async () => {
  await withoutTags();
  await store.partition('acme').read(...EVENTS);
  await withTags();
  const writer = anotherWriter('acme.second');
  expect(await writer.read({ ...EVENTS[1], amount: '8.00' })).toEqual(['duplicate of accepted, differs']);
  expect(await writer.read(EVENTS[1] ?? {})).toEqual(['duplicate of accepted']);
  await erase();
  expect(await writer.read({ ...EVENTS[1], amount: '8.00' })).toEqual(['duplicate of accepted']);
});

test('another player of a round is noticed by tag and by old hash, and an erased player no more [A3] [K6]', async () => {
  await withoutTags();
  await anotherWriter('acme').read(aBet({ ...mine, round_id: 'old' }), aBet({ ...mine, round_id: 'old-2' }));
  await withTags();
  const writer = anotherWriter('acme.second');
  await writer.read(aBet({ ...mine, round_id: 'new' }), aBet({ ...mine, round_id: 'new-2' }));
  const mismatches = async () =>
    (
      await store.rows(
        `select round_id from promo.anomalies where anomaly = 'player_mismatch' order by round_id`,
      )
    ).flat();
  await writer.read(...['old', 'new'].map((round_id) => aWin({ ...mine, round_id })));
  expect(await mismatches()).toEqual([]);
  await writer.read(...['old', 'new'].map((round_id) => aWin({ round_id, player_ref: 'another' })));
  expect(await mismatches()).toEqual(['new', 'old']);
  await erase();
  await writer.read(...['old-2', 'new-2'].map((round_id) => aWin({ round_id, player_ref: 'another' })));
  expect(await mismatches()).toEqual(['new', 'old']);
  await writer.read(...['old-2', 'new-2'].map((round_id) => aWin({ round_id, player_ref: 'a third' })));
  expect(await mismatches()).toEqual(['new', 'new-2', 'old', 'old-2']);
});

test('a round that an older worker continues is compared by the hash beside the tag [A3] [K6]', async () => {
  await store.partition('acme').read(aBet({ ...mine, round_id: 'r' }));
  // The older worker finds no hash, and stores its own.
  await withoutTags();
  await store.pool.query('update promo_store.rounds set player_tag = null');
  await anotherWriter('acme.second').read(aWin({ ...mine, round_id: 'r' }));
  const hash = await store.value('select player_hash from promo_store.rounds');
  expect(Number(hash)).toBeGreaterThan(0);
  expect(await store.rows('select * from promo.anomalies')).toEqual([]);
  await anotherWriter('acme.second').read(aWin({ round_id: 'r', player_ref: 'another' }));
  expect(await store.rows('select anomaly from promo.anomalies')).toEqual([['player_mismatch']]);
});

test('an unregistered brand is erased with the player, and so is all of the content hash [K6]', async () => {
  await store.partition('acme').read(aLogin({ ...mine, brand: PLAYER, event_id: 'u' }));
  await erase();
  expect(await store.rows('select verdict, brand, player_ref from promo.verdicts')).toEqual([
    ['rejected', 'erased:1', 'erased:1'],
  ]);
  expect(await store.value('select content_hash from promo_store.event_keys')).toBe(String(-(2n ** 63n)));
});

test('an invalid player_ref is hashed only by its type, since no erasure would find it [K6]', async () => {
  const acme = store.partition('acme');
  await acme.read(aBet({ player_ref: 4711, event_id: 'n' }), aBet({ player_ref: 4712, event_id: 'm' }));
  const [[one] = [], [other] = []] = await store.rows('select content_hash from promo_store.event_keys');
  expect(one).toBe(other);
});

describe('a publication of all tables', () => {
  test('does not prevent an erasure, in existing and in future months [K6]', async () => {
    await store.partition('acme').read(...EVENTS, aLogin({ ...mine, brand: 'unknown' }));
    await store.pool.query(
      `insert into promo_store.panics (verdict_id, error, payload) select verdict_id, 'no', 'x' from promo.verdicts limit 1`,
    );
    await store.pool.query('create publication everything for all tables');
    await store.pool.query('select promo_store.ensure_months(5)');
    const months = await store.rows(
      `select relreplident from pg_class where relname ~ '^history_' and relkind = 'r' order by relname`,
    );
    expect(months).toEqual(Array.from({ length: 6 }, () => ['f']));
    expect(await erase(2)).toMatchObject({ verdicts: 6, rounds: 2, payloads: 1 });
    // A future month with the tables of the current one.
    const later = await store.value(
      `select max(relname::text) from pg_class where relname ~ '^history_20' and relkind = 'r'`,
    );
    await store.pool.query(
      `insert into promo_store.history select (jsonb_populate_record(h, jsonb_build_object('decided_at', to_date(right($1, 7), 'YYYY_MM') + 1, 'player_ref', $2::text, 'verdict_id', 1))).*
       from promo_store.history h limit 1`,
      [later, PLAYER],
    );
    expect(await erase()).toMatchObject({ verdicts: 1 });
    store.damaged = true;
    await dropMonthsBefore(store.url, BY, new Date().toISOString().slice(0, 8).concat('01'));
    await forgetDroppedPlayers(store.url);
  });
});

describe('retention', () => {
  /** Moves all stored rows to an old month, with the key of that month. */
  async function moveToOldMonth(): Promise<void> {
    await store.pool.query(`
      create table promo_store.history_2020_02 partition of promo_store.history for values from ('2020-02-01 00:00:00+00') to ('2020-03-01 00:00:00+00');
      update promo_store.history set decided_at = '2020-02-05';
      update promo_store.rounds set opened_at = '2020-02-05';
      update promo_store.reference_versions set applied_at = '2020-02-01'`);
  }
  const dropOld = () => dropMonthsBefore(store.url, BY, '2020-04-01');

  test('drops the key of a month with the month, so its tags confirm no guess [K6]', async () => {
    await store.partition('acme').read(...EVENTS);
    const rest = await knownOfEvents(store.pool);
    const players = () => playersOfEvents(store.pool, rest, CANDIDATES);
    expect(await players()).toEqual(EVERYTHING.events);
    await moveToOldMonth();
    await store.pool.query(
      `update promo_store.player_keys set month = '2020-02-01' where month = date_trunc('month', now() at time zone 'utc')`,
    );
    await dropOld();
    expect(await players()).toEqual([]);
    expect(await playersOfRounds(store.pool, CANDIDATES)).toEqual([]);
    // Events still differ from other content, and a round takes the next player as its first.
    const writer = anotherWriter('acme.second');
    expect(
      await writer.read(EVENTS[1] ?? {}, { ...EVENTS[1], player_ref: 'x' }, { ...EVENTS[1], amount: '9.00' }),
    ).toEqual(['duplicate of accepted', 'duplicate of accepted', 'duplicate of accepted, differs']);
    await writer.read(aWin({ round_id: 'r-2', player_ref: 'another' }));
    expect(await store.rows('select * from promo.anomalies')).toEqual([]);
    await writer.read(aWin({ round_id: 'r-2', player_ref: 'a third' }));
    expect(await store.rows('select anomaly from promo.anomalies')).toEqual([['player_mismatch']]);
  });

  test('forgets the hashes from before tags of dropped months, in steps that can be interrupted [K6]', async () => {
    await withoutTags();
    await store.pool.query(`update promo_store.untagged set until = '2020-06-01'`);
    await store.partition('acme').read(...EVENTS);
    const rest = await knownOfEvents(store.pool);
    const guess = async () => ({
      events: await playersOfEvents(
        store.pool,
        (
          await store.rows('select convert_from(event_key, $1), content_hash from promo_store.event_keys', [
            'UTF8',
          ])
        ).flatMap(([id, hash]) =>
          rest
            .filter(({ eventId }) => eventId === id)
            .map((event) => ({ ...event, contentHash: BigInt(hash ?? 0) })),
        ),
        CANDIDATES,
      ),
      rounds: await playersOfRounds(store.pool, CANDIDATES),
    });
    await moveToOldMonth();
    // Kept months keep their hashes.
    expect(await forgetDroppedPlayers(store.url)).toEqual({ events: 0, rounds: 0 });
    expect(await guess()).toEqual(EVERYTHING);
    await dropOld();
    const kept = aLogin({ ...mine, event_id: 'kept' });
    await anotherWriter('acme').readAt(5, kept);

    const step = async () => (await store.rows('select * from promo.forget_dropped_players(1)'))[0];
    expect(await step()).toEqual(['5', '0', 'f']);
    // Interrupt the steps, and continue.
    expect(await forgetDroppedPlayers(store.url)).toEqual({ events: 0, rounds: 2 });
    expect(await guess()).toEqual(NOTHING);
    expect(await step()).toEqual(['0', '0', 't']);
    expect(
      Number(await store.value(`select content_hash from promo_store.event_keys where event_key = 'kept'`)),
    ).toBeGreaterThan(0);
    expect(await anotherWriter('acme.second').read(EVENTS[1] ?? {}, kept)).toEqual([
      'duplicate of accepted',
      'duplicate of accepted',
    ]);
    expect(await damagesOf(store.pool)).toEqual([]);
  });
});

describe('the migration to tags', () => {
  const BEFORE = async () => (await migrationNames()).filter((name) => name < '0013').at(-1) ?? '';
  /** Two erased players, with the hashes that erasures left then, and one that is not erased. */
  const HELD = `
insert into promo_store.operators (operator_id) values ('held');
insert into promo_store.feeds (operator_no, operator_id, feed_id) values (1, 'held', 'held');
insert into promo_store.connections (connection_id) values ('held-stream');
insert into promo_store.event_keys (verdict_id, content_hash, feed_no, outcome, event_key)
select n, 4711, 1, 8, promo_store.id_key('h-' || n) from generate_series(1, 3000) n;
insert into promo_store.history (verdict_id, decided_at, feed_no, connection_no, reference_version, outcome, counted, event_id, player_ref, unmapped_brand)
select n, now(), 1, 1, 1, 8, false, 'h-' || n, case when n % 3 = 0 then 'p-3' else 'erased:' || n % 3 end, 'brand of p-' || n % 3 from generate_series(1, 3000) n`;
  const found = (url: string) =>
    withClient(url, (client) =>
      rowsOf(
        client,
        `select player_ref, unmapped_brand, content_hash, count(*) from promo_store.history h join promo_store.event_keys k using (verdict_id)
         group by 1, 2, 3 order by 1`,
      ),
    );
  const FORGOTTEN = String(-(2n ** 63n));
  const DONE = [
    ['erased:1', 'erased:1', FORGOTTEN, '1000'],
    ['erased:2', 'erased:2', FORGOTTEN, '1000'],
    ['p-3', 'brand of p-0', '4711', '1000'],
  ];

  test('forgets the hashes of players erased before, also where it is killed in the middle [K6]', async () => {
    const { url, drop } = await freshDatabase();
    try {
      await runMigrations(url, { upTo: await BEFORE() });
      await withClient(url, async (holder) => {
        await holder.query(HELD);
        await holder.query('create publication everything for all tables');
        // The migration waits at an event of the second player.
        await holder.query('begin');
        await holder.query(`select from promo_store.event_keys where verdict_id = 2 for update`);
        const program = startProgram(join(__dirname, '../support/migrate-program.ts'), { DATABASE_URL: url });
        await until('it waits', 60_000, async () => {
          const waiting =
            'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
          return (await holder.query(waiting)).rowCount === 1;
        });
        expect(await program.kill()).toEqual({ code: null, signal: 'SIGKILL' });
        expect((await found(url)).map(([player, , hash]) => [player, hash])).toEqual([
          ['erased:1', FORGOTTEN],
          ['erased:2', '4711'],
          ['p-3', '4711'],
        ]);
        await holder.query('rollback');
      });
      expect(await runMigrations(url)).toEqual([]);
      expect(await found(url)).toEqual(DONE);
      expect(await runMigrations(url)).toEqual([]);
      expect(await found(url)).toEqual(DONE);
    } finally {
      await drop();
    }
  });

  test('keeps the hash of older workers for a week and until the next month, where events are stored [K6]', async () => {
    const { url, drop } = await freshDatabase();
    try {
      await runMigrations(url, { upTo: await BEFORE() });
      await withClient(url, (client) => client.query(HELD));
      await runMigrations(url);
      const keys = await withClient(url, (client) =>
        rowsOf(
          client,
          `select key is not null from promo_store.player_keys where (month >= now() + interval '7 days') <> (key is not null)
           union all select count(*) >= 2 from promo_store.player_keys`,
        ),
      );
      expect(keys).toEqual([['t']]);
      const held = new TestStore(url, { own: true });
      try {
        await held.apply(REFERENCE);
        await held.partition('acme').read(...EVENTS);
        expect(
          await held.value(
            `select bool_and(content_hash >= 0) from promo_store.event_keys where feed_no <> 1`,
          ),
        ).toBe('t');
        expect(await held.value('select count(player_tag) from promo_store.rounds')).toBe('0');
        expect(await held.value('select count(player_hash) from promo_store.rounds')).toBe('2');
      } finally {
        await held.disconnect();
      }
    } finally {
      await drop();
    }
  });

  test('has tags from the first event on in a new store [K6]', async () => {
    await store.partition('acme').read(...EVENTS);
    expect(await store.value('select bool_and(content_hash < 0) from promo_store.event_keys')).toBe('t');
    expect(
      await store.value('select count(*) - count(player_tag) + count(player_hash) from promo_store.rounds'),
    ).toBe('0');
  });
});

test('another store has other keys, and a worker notices them by its reference data [C9] [K6]', async () => {
  const partition = store.partition('acme');
  await partition.read(EVENTS[0] ?? {});
  await withTags();
  // Like another store: the same version of other reference data.
  await store.pool.query(
    `update promo_store.reference_versions set applied_at = applied_at + interval '1 second'`,
  );
  await partition.read(EVENTS[1] ?? {});
  expect(await anotherWriter('acme.second').read(EVENTS[1] ?? {})).toEqual(['duplicate of accepted']);
  const { events } = await guessed();
  expect(events.filter((guess) => guess.endsWith(`: ${PLAYER}`))).toEqual([`b: ${PLAYER}`]);
});

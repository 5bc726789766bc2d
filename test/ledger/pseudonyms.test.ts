/** Pseudonyms beside writers, and the views of readers, by the granted roles. */
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { type Fold, makeFold, type Results } from '../../src/fold/fold';
import { erasePlayer } from '../../src/ledger/erasure';
import { dropMonthsBefore, forgetDroppedPseudonyms } from '../../src/ledger/retention';
import { grantRoles } from '../../src/ledger/roles';
import { asPseudonymKey, type PseudonymKey, pseudonymOf } from '../../src/pseudonyms/pseudonym';
import { makePseudonymResults } from '../../src/pseudonyms/pseudonyms';
import { MissingKey, makeRotation, type Rotation } from '../../src/pseudonyms/rotation';
import { asRole } from '../support/as-role';
import { HeldWriter, heldFor } from '../support/held-writer';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  freshStore,
  rowsOf,
  type TestStore,
  withClient,
} from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

const aKey = (): PseudonymKey => asPseudonymKey(randomBytes(32));

let store: TestStore;
let key: PseudonymKey;
const roles: { name: string; url: string }[] = [];
beforeEach(async () => {
  store = await freshStore();
  key = aKey();
});
afterEach(async () => {
  await dropRoles(
    store.url,
    roles.splice(0).map(({ name }) => name),
  );
  await store.close();
});

async function aRole(role: 'reader' | 'pseudonyms' | 'maintainer' | 'janitor'): Promise<string> {
  const made = await makeRole(store.url, role);
  roles.push(made);
  await grantRoles(store.url, [{ role, name: made.name }]);
  return made.url;
}

let holders = 0;
interface Process {
  readonly fold: Fold;
  readonly rotation: Rotation;
}
interface ProcessOptions {
  readonly former?: PseudonymKey;
  readonly replacesLostKey?: boolean;
  readonly wrap?: (results: Results) => Results;
}
function aProcess(
  of: PseudonymKey = key,
  { former, replacesLostKey = false, wrap = (results) => results }: ProcessOptions = {},
): Process {
  const lease = { holder: `test ${holders++}`, leaseMs: 10_000 };
  const slice = { rows: 200_000, ms: 500 };
  const results = wrap(makePseudonymResults(of, () => undefined));
  return {
    rotation: makeRotation(asRole(store.pool, 'pseudonyms'), {
      ...lease,
      keys: [of, former],
      replacesLostKey,
      most: 2,
    }),
    fold: makeFold(asRole(store.pool, 'pseudonyms'), results, {
      ...lease,
      slice,
      fill: slice,
      now: () => performance.now(),
    }),
  };
}

/** Repeats a step until it is of the kind. */
async function stepUntil(kind: string, step: () => Promise<{ readonly kind: string }>): Promise<void> {
  for (;;) {
    const done = await step();
    if (done.kind === kind) return;
    if (done.kind === 'standby') throw new Error('another process folds');
  }
}

/** Rotates and folds until nothing is left to do. */
async function settle({ rotation, fold }: Process): Promise<void> {
  await stepUntil('settled', rotation.step);
  await stepUntil('idle', fold.step);
  await fold.release();
}

const read = (url: string, query: string, values: unknown[] = []) =>
  withClient(url, (client) => rowsOf(client, query, values));
const pseudonym = (player: string, of = key, operator = 'acme') => pseudonymOf(of, operator, player);
const BY = { requestedBy: 'ops@desk' };
const erase = (player: string) =>
  erasePlayer(store.url, BY, { operator: 'acme', player, batch: 1_000 }, () => undefined);
const stored = () =>
  store.rows('select player_ref, player_id from promo_store.pseudonyms order by key_no, player_ref');

test('a reader sees pseudonyms in place of players, and the same one in each view [Y1 Y2]', async () => {
  await store
    .partition('acme')
    .read(
      aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
      aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'ben' }),
      aLogin({ event_id: 'l1', player_ref: 'ann' }),
      aRefund({ event_id: 'x2', round_id: 'r2', player_ref: 'ben' }),
    );
  await store.partition('acme.second').read(aLogin({ event_id: 'l2', player_ref: 'ann' }));
  await store.partition('bravo').read(aLogin({ event_id: 'l3', player_ref: 'ann' }));
  await store.value(`select promo.attribute_round('acme', 'r1', 'cid')`);
  const reader = await aRole('reader');
  const verdicts = 'select event_id, player_id from promo_reader.verdicts order by 1';
  expect((await read(reader, verdicts)).map(([, player]) => player)).toEqual(Array(6).fill(null));
  await settle(aProcess());
  const [ann, ben, cid] = ['ann', 'ben', 'cid'].map((player) => pseudonym(player));
  expect(await read(reader, verdicts)).toEqual([
    ['b1', ann],
    ['b2', ben],
    ['l1', ann],
    ['l2', ann],
    ['l3', pseudonym('ann', key, 'bravo')],
    ['x2', ben],
  ]);
  expect(
    await read(
      reader,
      `select event_id, player_id, credited_player_id from promo_reader.ledger where operator_id = 'acme' order by 1`,
    ),
  ).toEqual([
    ['b1', ann, cid],
    ['b2', ben, ben],
    ['l1', ann, ann],
    ['l2', ann, ann],
    ['x2', ben, ben],
  ]);
  expect(await read(reader, 'select credited_player_id from promo_reader.attributions')).toEqual([[cid]]);
  expect(new Set([ann, ben, cid, pseudonym('ann', key, 'bravo'), pseudonym('ann', aKey())]).size).toBe(5);
});

test('each view of promo has a view in promo_reader with its columns and rows, and a reader selects it whole [Y6]', async () => {
  await store
    .partition('acme')
    .read(
      aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
      aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'ann' }),
      aRefund({ event_id: 'x1', round_id: 'r1', player_ref: 'ben' }),
      aBet({ event_id: 'b2', player_ref: 7 }),
    );
  await store.value(`select promo.attribute_round('acme', 'r1', 'cid')`);
  await settle(aProcess());
  const reader = await aRole('reader');
  const columnsOf = (schema: string) =>
    store.rows(
      `select table_name, string_agg(column_name || ' ' || data_type, ', ' order by ordinal_position) from information_schema.columns
       where table_schema = $1 group by 1 order by 1`,
      [schema],
    );
  const views = await columnsOf('promo');
  expect(await columnsOf('promo_reader')).toEqual(
    views.map(([view, columns]) => [
      view,
      columns?.replace(/\bplayer_ref\b/, 'player_id').replace(/\bcredited_player\b/, 'credited_player_id'),
    ]),
  );
  for (const [view] of views) {
    // The clock makes these differ.
    if (view?.endsWith('_coverage')) continue;
    const [whole, seen] = [
      await store.rows(`select to_jsonb(v) from promo.${view} v order by 1`),
      await read(reader, `select to_jsonb(v) from promo_reader.${view} v order by 1`),
    ].map((rows) => rows.map(([row]) => Object.entries(JSON.parse(row ?? '{}'))));
    const withoutPlayers = (rows: readonly [string, unknown][][] = []) =>
      rows
        .map((row) =>
          JSON.stringify(row.filter(([column]) => !/player_(ref|id)$|^credited_player$/.test(column)).sort()),
        )
        .sort();
    expect({ view, rows: withoutPlayers(seen) }).toEqual({ view, rows: withoutPlayers(whole) });
  }
  expect(
    await store.rows(
      `select c.relname || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
       where c.relnamespace = 'promo_reader'::regnamespace and a.attnum > 0 and (not has_column_privilege($1, c.oid, a.attnum, 'select')
         or col_description(c.oid, a.attnum) is null)`,
      [new URL(reader).username],
    ),
  ).toEqual([]);
});

test('nothing that a reader can read has a player, a hash of one, or a way to the pseudonyms [Y1]', async () => {
  const player = 'ann-of-a-rare-name';
  await store.partition('acme').read(aBet({ event_id: 'b1', round_id: 'r1', player_ref: player }));
  await store.value(`select promo.attribute_round('acme', 'r1', $1)`, [player]);
  await settle(aProcess());
  await store.pool.query('analyze');
  const reader = await aRole('reader');
  const relations = await read(
    reader,
    `select format('%I.%I', n.nspname, c.relname), string_agg(quote_ident(a.attname), ', ')
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where (n.nspname like 'promo%' or c.relname in ('pg_stats', 'pg_stats_ext', 'pg_stat_activity')) and c.relkind in ('r', 'p', 'v')
       and has_schema_privilege(n.oid, 'usage') and has_column_privilege(c.oid, a.attnum, 'select') group by 1`,
  );
  expect(relations.length).toBeGreaterThan(30);
  const hashes = ['sha256', 'sha1', 'md5'].map((hash) => createHash(hash).update(player).digest('hex'));
  for (const [relation, columns] of relations) {
    const text = JSON.stringify(
      await read(reader, `select to_jsonb(v)::text from (select ${columns} from ${relation}) v`),
    );
    for (const secret of [
      player,
      ...hashes,
      key.key.export().toString('hex'),
      key.key.export().toString('base64'),
    ])
      expect({ relation, has: text.includes(secret) }).toEqual({ relation, has: false });
  }
  await expect(read(reader, 'select * from promo_store.pseudonyms')).rejects.toThrow('permission denied');
  await expect(read(reader, `select promo.verdict_of('acme', 'b1')`)).rejects.toThrow('permission denied');
});

test('an error names the column to use in place of a player [Y1]', async () => {
  const reader = await aRole('reader');
  const hintOf = (query: string) =>
    read(reader, query).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? Reflect.get(error, 'hint') : undefined),
    );
  expect(await hintOf('select player_ref from promo_reader.verdicts')).toContain('"verdicts.player_id"');
  expect(await hintOf('select l.player_ref from promo_reader.ledger l')).toContain('"l.player_id"');
  expect(await hintOf('select credited_player from promo_reader.ledger')).toContain(
    '"ledger.credited_player_id"',
  );
});

const UNCOVERED = `select v.event_id from promo.verdicts v join promo_reader.verdicts r using (verdict_id)
where v.verdict_id <= (select up_to_verdict_id from promo.pseudonym_coverage) and v.player_ref is not null and r.player_id is null`;

test('a verdict whose batch commits late has its pseudonym, since the coverage waits for it [Y3]', async () => {
  await store.partition('acme').read(aBet({ event_id: 'b1', player_ref: 'ann' }));
  const process = aProcess();
  await settle(process);
  store.damaged = true; // The held row has no key.
  const held = await HeldWriter.begin(store.url);
  await store.partition('acme').read(aBet({ event_id: 'b2', player_ref: 'ben' }));
  const step = process.fold.step();
  await sleep(300);
  await held.write('late');
  await held.client.query(`update promo_store.history set player_ref = 'cid' where event_id = 'late'`);
  await held.end('commit');
  await step;
  expect(await store.rows(UNCOVERED)).toEqual([]);
  await settle(process);
  expect((await stored()).map(([player]) => player)).toEqual(['ann', 'ben', 'cid']);
});

test.each(
  Array.from({ length: inRun({ usual: 2, long: 4, variable: 'PSEUDONYM_SEEDS' }) }, (_, seed) => seed),
)(
  'seed %i: beside writers, each verdict up to the coverage has a pseudonym, and a count of players is exact [Y3]',
  async (seed) => {
    let isDone = false;
    const writing = Promise.all(
      Array.from({ length: 3 }, async (_, partition) => {
        const random = makeRandom(seed * 10 + partition);
        const part = store.writer({ wrap: heldFor(() => random.below(30)) }).partition('acme', partition);
        let offset = 0;
        for (let batch = 0; batch < 25; batch++) {
          const events = Array.from({ length: random.between(1, 6) }, (_, event) =>
            random.pick([aBet, aDeposit, aLogin])({
              event_id: `${partition}-${batch}-${event}`,
              player_ref: `p-${random.below(5 + batch)}`,
            }),
          );
          await until(
            'the batch is decided',
            60_000,
            async () => (await part.attempt(offset, events)).undecided === null,
          );
          offset += events.length;
        }
      }),
    ).then(() => {
      isDone = true;
    });
    const random = makeRandom(seed);
    let process = aProcess();
    for (const end = Date.now() + 100_000; !isDone && Date.now() < end; ) {
      // A new process takes over in the middle, as after a crash.
      if (random.chance(0.2)) {
        await process.fold.release();
        process = aProcess();
      }
      await process.rotation.step();
      await process.fold.step();
      expect(await store.rows(UNCOVERED)).toEqual([]);
    }
    await writing;
    await process.fold.release();
    await settle(aProcess());
    expect(
      await store.rows('select count(distinct player_id), count(player_id) from promo_reader.verdicts'),
    ).toEqual(await store.rows('select count(distinct player_ref), count(player_ref) from promo.verdicts'));
  },
);

test('an erasure deletes the pseudonym under every key, and readers see erased:N [Y4]', async () => {
  await store
    .partition('acme')
    .read(aBet({ event_id: 'b1', player_ref: 'ann' }), aLogin({ event_id: 'l1', player_ref: 'ben' }));
  await store.partition('bravo').read(aLogin({ event_id: 'l2', player_ref: 'ann' }));
  await settle(aProcess());
  const newer = aKey();
  await settle(aProcess(newer, { former: key }));
  const { erasure } = await erase('ann');
  const reader = await aRole('reader');
  expect(await read(reader, 'select event_id, player_id from promo_reader.verdicts order by 1')).toEqual([
    ['b1', `erased:${erasure}`],
    ['l1', pseudonym('ben', newer)],
    ['l2', pseudonym('ann', newer, 'bravo')],
  ]);
  expect((await stored()).flat()).not.toContain(pseudonym('ann', newer));
  expect((await stored()).flat()).not.toContain(pseudonym('ann'));
  expect(
    await read(reader, `select player_id from promo.player_ids where operator_id = 'acme' order by 1`),
  ).toEqual([[pseudonym('ben', newer)], [`erased:${erasure}`]].sort());
});

/** Lets a test act between the reading of a slice and its writing. */
const heldAtWrite =
  (between: () => Promise<void>) =>
  (results: Results): Results => ({
    ...results,
    fold: (session, slice) =>
      results.fold(
        {
          ...session,
          write: (writes) => session.write(writes),
          writeAndCommit: (writes) => session.writeAndCommit(writes),
          async query(statement, values) {
            if (statement.name === 'pseudonyms_add') await between();
            return session.query(statement, values);
          },
        },
        slice,
      ),
  });

test('an erasure beside a slice that has read its player leaves no pseudonym [Y4]', async () => {
  await store.partition('acme').read(aBet({ event_id: 'b1', player_ref: 'ann' }));
  let erasing: Promise<unknown> = Promise.resolve();
  const process = aProcess(key, {
    wrap: heldAtWrite(async () => {
      erasing = erase('ann');
      await until('the erasure waits', 60_000, async () => {
        const waits = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return (await store.value(waits)) !== '0' || (await isSettled(erasing));
      });
    }),
  });
  await settle(process);
  await erasing;
  expect((await stored()).map(([player]) => player)).toEqual([expect.stringMatching(/^erased:/)]);
});

const isSettled = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => true), sleep(50).then(() => false)]);

test('a new key is shown in one step, and leads from the former one as long as both are there [Y5]', async () => {
  const players = ['ann', 'ben', 'cid', 'dan', 'eve'];
  await store
    .partition('acme')
    .read(...players.map((player) => aLogin({ event_id: `of ${player}`, player_ref: player })));
  await settle(aProcess());
  const shown = async () =>
    (await store.rows('select player_id from promo_reader.verdicts order by event_id')).flat();
  const former = players.map((player) => pseudonym(player));
  const newer = aKey();
  const process = aProcess(newer, { former: key });
  for (let step = ''; step !== 'shown'; ) {
    expect(await shown()).toEqual(former);
    if (step === 'part')
      expect(await store.value('select next_key_id from promo.pseudonym_coverage')).toBe(newer.id);
    step = (await process.rotation.step()).kind;
  }
  expect(await shown()).toEqual(players.map((player) => pseudonym(player, newer)));
  expect(
    await store.rows('select former_player_id, player_id from promo.former_player_ids order by 1'),
  ).toEqual(players.map((player) => [pseudonym(player), pseudonym(player, newer)]).sort());
  await settle(process);
  expect(await store.rows('select key_id, former_key_id from promo.pseudonym_coverage')).toEqual([
    [newer.id, key.id],
  ]);
  await settle(aProcess(newer));
  expect((await stored()).flat()).not.toContain(pseudonym('ann'));
  expect(await store.value('select count(*) from promo.former_player_ids')).toBe('0');
  // The former key again: the same pseudonyms.
  await settle(aProcess(key, { former: newer }));
  expect(await shown()).toEqual(former);
});

test('an erasure during a new key leaves its player out, and another process goes on after a crash [Y4 Y5]', async () => {
  const players = ['ann', 'ben', 'cid', 'dan', 'eve'];
  await store
    .partition('acme')
    .read(...players.map((player) => aLogin({ event_id: `of ${player}`, player_ref: player })));
  await settle(aProcess());
  const newer = aKey();
  const first = aProcess(newer, { former: key });
  await stepUntil('part', first.rotation.step);
  await erase('ann');
  await erase('eve');
  await first.fold.release();
  await settle(aProcess(newer, { former: key }));
  expect(
    (await stored()).map(([player]) => player).filter((player) => !player?.startsWith('erased:')),
  ).toEqual([...['ben', 'cid', 'dan'], ...['ben', 'cid', 'dan']]);
  expect(await store.rows(UNCOVERED)).toEqual([]);
});

test('a process without the present key changes nothing, unless it replaces a lost key [Y5]', async () => {
  await store.partition('acme').read(aLogin({ event_id: 'l1', player_ref: 'ann' }));
  await settle(aProcess());
  const other = aKey();
  const wrong = aProcess(other);
  expect(await wrong.rotation.problem()).toBeInstanceOf(MissingKey);
  await expect(wrong.rotation.step()).rejects.toThrow(`the pseudonyms in use are of the key ${key.id}`);
  expect(await stored()).toEqual([['ann', pseudonym('ann')]]);
  await settle(aProcess(other, { replacesLostKey: true }));
  expect(await stored()).toEqual([['ann', pseudonym('ann', other)]]);
  expect(await store.value('select count(*) from promo.former_player_ids')).toBe('0');
});

test('retention deletes the pseudonym of a player without a kept event, and a player who comes back has the same one [Y7]', async () => {
  await store.pool.query(`create table promo_store.history_2020_01 partition of promo_store.history
    for values from ('2020-01-01 00:00:00+00') to ('2020-02-01 00:00:00+00')`);
  await store
    .partition('acme')
    .read(aLogin({ event_id: 'l1', player_ref: 'ann' }), aLogin({ event_id: 'l2', player_ref: 'ben' }));
  await store.value(`select promo.attribute_round('acme', 'r1', 'cid')`);
  await settle(aProcess());
  await store.pool.query(`update promo_store.history set decided_at = '2020-01-05' where event_id = 'l1'`);
  await dropMonthsBefore(store.url, BY, '2020-02-01');
  expect(await forgetDroppedPseudonyms(store.url)).toBe(1);
  expect((await stored()).map(([player]) => player)).toEqual(['ben', 'cid']);
  await store.partition('acme').read(aLogin({ event_id: 'l3', player_ref: 'ann' }));
  await settle(aProcess());
  expect(await stored()).toContainEqual(['ann', pseudonym('ann')]);
  store.damaged = true; // A row was moved to another month by hand.
});

/** Numbers of attributions: each change is read once, in order, beside writers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { inRun } from '../../dev/long-run';
import { makeRandom, type Random } from '../../dev/random';
import { runMigrations } from '../../src/ledger/migrate';
import { grantRoles } from '../../src/ledger/roles';
import { attribute, attributeAll, BONUS, NORMAL } from '../support/attributions';
import { HeldWriter } from '../support/held-writer';
import {
  aBet,
  damagesOf,
  freshStore,
  REFERENCE,
  rowsOf,
  TestStore,
  type TextRow,
  withClient,
} from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';
import { freshDatabase } from '../support/servers';

const SEEDS = inRun({ usual: 2, long: 12, variable: 'INCREMENT_SEEDS' });

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const set = (round: string, player?: string) => attribute(store, round, player);
const correct = (round: string, was: string, player: string) =>
  store.value(`select promo.correct_attribution('acme', $1, $2, $3, 'a test')`, [round, was, player]);
const erase = (player: string) => store.rows(`select promo.erase_player('acme', $1)`, [player]);

const CHANGES = 'change, round_id, credited_player, replaced_player';
/** Changes in their order. Erasures have the numbers of operations, which are left out. */
const changes = async (range = '-1'): Promise<TextRow[]> => {
  const rows = await store.rows(`select ${CHANGES} from promo.attribution_changes_with_players(${range})`);
  return rows.map((row) => row.map((text) => text?.replace(/^erased:\d+$/, 'erased:N') ?? null));
};
const horizon = () => store.value('select promo.safe_up_to()');

describe('a change', () => {
  test('is read once, in order: set, corrected, erased [B10] [B9] [B6]', async () => {
    await set('r-1');
    await set('r-2');
    const first = await horizon();
    await correct('r-1', NORMAL, 'right-p');
    const second = await horizon();
    await erase('right-p');
    expect(await changes(`-1, ${first}`)).toEqual([
      ['set', 'r-1', 'erased:N', null],
      ['set', 'r-2', NORMAL, null],
    ]);
    expect(await changes(`${first}, ${second}`)).toEqual([['corrected', 'r-1', 'erased:N', 'erased:N']]);
    expect(await changes(`${second}`)).toEqual([['erased', 'r-1', 'erased:N', 'erased:N']]);
    expect(await changes(`${await horizon()}`)).toEqual([]);
    expect(await damagesOf(store.pool)).toEqual([]);
  });

  test('of a correction names the player of before, until one of them is erased [B10] [B6]', async () => {
    await set('r-1');
    await correct('r-1', NORMAL, 'second-p');
    await correct('r-1', 'second-p', 'third-p');
    expect(await changes()).toEqual([
      ['set', 'r-1', NORMAL, null],
      ['corrected', 'r-1', 'second-p', NORMAL],
      ['corrected', 'r-1', 'third-p', 'second-p'],
    ]);
    // The round is not credited to this player any more.
    await erase('second-p');
    expect(await changes()).toEqual([
      ['set', 'r-1', NORMAL, null],
      ['corrected', 'r-1', 'erased:N', NORMAL],
      ['corrected', 'r-1', 'third-p', 'erased:N'],
    ]);
    expect(
      JSON.stringify(await store.rows('select v::text from promo_store.attribution_versions v')),
    ).not.toContain('second-p');
    expect(await damagesOf(store.pool)).toEqual([]);
  });

  test('by an erasure of the player of the round leaves no name in any version [B10] [B6]', async () => {
    await store.partition('acme').read(aBet({ player_ref: BONUS, event_id: 'b' }));
    await set('r-1');
    await correct('r-1', NORMAL, 'right-p');
    await erase(BONUS);
    expect(await changes()).toEqual([
      ['set', 'r-1', 'erased:N', null],
      ['corrected', 'r-1', 'erased:N', 'erased:N'],
      ['erased', 'r-1', 'erased:N', 'erased:N'],
    ]);
    expect(
      JSON.stringify(
        await store.rows(
          'select v::text, a::text from promo_store.attribution_versions v, promo_store.attributions a',
        ),
      ),
    ).not.toMatch(`${NORMAL}|right-p|${BONUS}`);
  });

  test('has a number of its own, also where one call sets more rounds than a batch has numbers [B10]', async () => {
    const rounds = Array.from({ length: 9_000 }, (_, n) => `r-${n}`);
    await attributeAll(store, rounds);
    await set('r-last');
    const [numbers] = await store.rows(
      `select count(*), count(distinct change_no), count(*) filter (where round_id = 'r-last' and change_no = (select max(change_no) from promo_store.attributions))
       from promo.attribution_changes(-1)`,
    );
    expect(numbers).toEqual(['9001', '9001', '1']);
    expect(await damagesOf(store.pool)).toEqual([]);
  });

  test('that changes nothing takes no number, so a fold stays idle [B10]', async () => {
    await set('r-1');
    const before = await horizon();
    expect([await set('r-1'), await set('r-1', 'another'), await correct('r-1', NORMAL, NORMAL)]).toEqual([
      'unchanged',
      'conflict',
      'unchanged',
    ]);
    expect(await horizon()).toBe(before);
  });

  test('from before the migration has the number 0, and a new copy reads it first [B10]', async () => {
    await set('r-1');
    await set('r-2');
    await store.pool.query('update promo_store.attributions set change_no = 0');
    expect(await changes()).toEqual([
      ['set', 'r-1', NORMAL, null],
      ['set', 'r-2', NORMAL, null],
    ]);
    expect(await changes('0')).toEqual([]);
    await correct('r-1', NORMAL, 'right-p');
    expect(await changes('0')).toEqual([['corrected', 'r-1', 'right-p', NORMAL]]);
    expect(await changes()).toHaveLength(3);
  });

  test('from before the migration keeps what it was: set, corrected or erased [B10]', async () => {
    const { url, drop } = await freshDatabase();
    const old = new TestStore(url, { own: true });
    try {
      await runMigrations(url, { upTo: '0029_connections.sql' });
      await old.apply(REFERENCE);
      for (const round of ['set', 'corrected', 'erased'])
        await old.value(`select promo.attribute_round('acme', $1, $1 || '-p')`, [round]);
      await old.value(
        `select promo.correct_attribution('acme', 'corrected', 'corrected-p', 'right-p', 'a test')`,
      );
      await old.rows(`select promo.erase_player('acme', 'erased-p')`);
      await runMigrations(url);
      expect(
        await old.rows(
          'select change_no, change, round_id, replaced_player from promo.attribution_changes_with_players(-1) order by round_id',
        ),
      ).toEqual(['corrected', 'erased', 'set'].map((change) => ['0', change, change, null]));
    } finally {
      await old.disconnect();
      await drop();
    }
  });

  test('by an insert of the owner has a number, too [B10]', async () => {
    const before = await horizon();
    await store.pool.query(
      `insert into promo_store.attributions (feed_no, round_key, round_id, player_ref)
       select feed_no, promo_store.id_key('r-1'), 'r-1', 'p' from promo_store.feeds where feed_id = 'acme'`,
    );
    expect(await changes(`${before}`)).toEqual([['set', 'r-1', 'p', null]]);
  });
});

describe('beside writers', () => {
  const begun: Client[] = [];
  // Those of a test that fails. An open transaction delays the end of the store.
  afterEach(() => Promise.all(begun.splice(0).map((client) => client.end())));
  const begin = async () => {
    const client = new Client({ connectionString: store.url });
    begun.push(client);
    await client.connect();
    await client.query('begin');
    return client;
  };
  const end = async (client: Client, how: string) => {
    await client.query(how);
    await client.end();
  };

  test.each([
    ['an attribution', `select promo.attribute_round('acme', 'r-slow', 'p')`, ['set', 'r-slow', 'p', null]],
    [
      'a correction',
      `select promo.correct_attribution('acme', 'r-0', '${NORMAL}', 'p', 'a test')`,
      ['corrected', 'r-0', 'p', NORMAL],
    ],
    [
      'an erasure',
      `select promo.erase_player('acme', '${NORMAL}')`,
      ['erased', 'r-0', 'erased:N', 'erased:N'],
    ],
  ])(
    '%s is held open: a range waits for it, and has it before later ones [B10] [L4]',
    async (_, call, row) => {
      await set('r-0');
      const before = await horizon();
      const slow = await begin();
      await slow.query(call);
      // Erasures and attributions wait for each other, and a batch waits for neither.
      await store.partition('acme').read(aBet({ event_id: 'later', round_id: 'r-later' }));
      const reading = changes(`${before}`);
      const verdicts = store.rows(`select event_id from promo.new_verdicts(${before})`);
      let isRead = false;
      void reading.then(() => {
        isRead = true;
      });
      await sleep(150);
      expect(isRead).toBe(false);
      await end(slow, 'commit');
      expect(await reading).toEqual([row]);
      expect(await verdicts).toEqual([['later']]);
    },
  );

  test('a batch that is held open holds the range of attributions back, too [B10] [L4]', async () => {
    await store.partition('acme').read(aBet({ event_id: 'first' }));
    const held = await HeldWriter.begin(store.url);
    await set('r-1');
    await expect(store.value(`select promo.safe_up_to('50 milliseconds')`)).rejects.toThrow(
      'has held the number',
    );
    await held.end('rollback');
    expect(await changes()).toEqual([['set', 'r-1', NORMAL, null]]);
  });

  test('Postgres ends a transaction of a call that is idle for 15 s, or sooner where it is set so [B10] [L4]', async () => {
    for (const [before, within] of [
      ['0', '15s'],
      ['1h', '15s'],
      ['7s', '7s'],
    ]) {
      const client = await begin();
      await client.query(
        `set local idle_in_transaction_session_timeout = '${before}'; set local synchronous_commit = off`,
      );
      try {
        await client.query(`select promo.attribute_round('acme', 'r-${before}', 'p')`);
        expect(
          await rowsOf(
            client,
            `select current_setting('idle_in_transaction_session_timeout'), current_setting('synchronous_commit')`,
          ),
        ).toEqual([[within, 'on']]);
      } finally {
        await end(client, 'commit');
      }
    }
  });

  /** A copy of the attributions: it applies each change to the rounds that it has. */
  class Copy {
    private after = -1;
    readonly rounds = new Map<string, string>();
    readonly numbers: number[] = [];
    readonly faults: string[] = [];

    async read(random: Random | null): Promise<void> {
      await withClient(store.url, async (client) => {
        let upTo: number | null = null;
        if (random?.chance(0.5)) {
          const [[safe] = []] = await rowsOf(client, 'select promo.safe_up_to()');
          upTo = random.chance(0.5) ? Number(safe) : random.between(this.after, Number(safe));
        }
        const found = await rowsOf(
          client,
          `select change_no, ${CHANGES} from promo.attribution_changes_with_players($1, $2)`,
          [this.after, upTo],
        );
        for (const row of found) this.apply(row);
        this.after = upTo ?? this.numbers.at(-1) ?? -1;
      });
    }

    private apply([number, change, round = '', player, replaced]: TextRow): void {
      this.numbers.push(Number(number));
      const known = this.rounds.get(`${round}`);
      const isErased = /^erased:/;
      // An erasure replaces names in versions of before as well, which the copy has read already.
      const follows =
        change === 'set' ? known === undefined : known === replaced || isErased.test(`${replaced}`);
      if (!follows)
        this.faults.push(`${change} of ${round}: ${known} became ${player}, and ${replaced} was replaced`);
      if (
        (change === 'erased') !==
        (isErased.test(`${player}`) && change !== 'set' && change !== 'corrected')
      )
        this.faults.push(`${change} of ${round}: ${player}`);
      this.rounds.set(`${round}`, `${player}`);
    }
  }

  test.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
    'random attributions, corrections and erasures, held open and rolled back: a copy equals the store (seed %i) [B10] [L4]',
    async (seed) => {
      const random = makeRandom(seed);
      const player = (own: Random) => `p-${own.below(12)}`;
      let isDone = false;
      const writers = Array.from({ length: 4 }, async (_, index) => {
        const own = makeRandom(seed * 100 + index);
        for (let turn = 0; turn < 15; turn++) {
          const client = await begin();
          try {
            const round = `r-${own.below(10)}`;
            const kind = own.below(10);
            if (kind < 5)
              await client.query(`select promo.attribute_rounds('acme', $1, $2)`, [
                [round, `r-${own.below(10)}`],
                [player(own), player(own)],
              ]);
            else if (kind < 9) {
              const [[was] = []] = await rowsOf(
                client,
                'select credited_player from promo.attributions where round_id = $1',
                [round],
              );
              if (was != null)
                await client.query(`select promo.correct_attribution('acme', $1, $2, $3, 'a test')`, [
                  round,
                  was,
                  player(own),
                ]);
            } else await client.query(`select promo.erase_player('acme', $1)`, [player(own)]);
            await sleep(own.below(20));
            await end(client, own.chance(0.2) ? 'rollback' : 'commit');
          } catch (error) {
            // Somebody else has corrected the round meanwhile.
            if (!/is not credited to the player/.test(String(error))) throw error;
            await client.end();
          }
        }
      });
      const acme = store.partition('acme');
      const batches = (async () => {
        for (let batch = 0; !isDone; batch++) {
          await acme.read(
            aBet({ event_id: `${batch}`, round_id: `r-${batch % 10}`, player_ref: `p-${batch % 3}` }),
          );
          await sleep(random.below(20));
        }
      })();
      const copy = new Copy();
      const copying = (async () => {
        const own = makeRandom(seed * 100 + 50);
        while (!isDone) {
          await copy.read(own);
          await sleep(own.below(10));
        }
      })();
      try {
        await Promise.all(writers);
      } finally {
        isDone = true;
        await Promise.all([batches, copying]);
      }
      await copy.read(null);

      expect(copy.numbers).toEqual([...new Set(copy.numbers)].sort((a, b) => a - b));
      expect(copy.faults).toEqual([]);
      expect([...copy.rounds].sort()).toEqual(
        await store.rows(
          `select round_id, credited_player from promo.attributions order by round_id collate "C"`,
        ),
      );
      expect(await store.rows('select count(*) from promo_store.attribution_changes')).toEqual([
        [String(copy.numbers.length)],
      ]);
      expect(await damagesOf(store.pool)).toEqual([]);
      expect(await store.deadlocks()).toBe(0);
    },
  );
});

test('readers see changes without players, and no change of a round of tests [B10] [B8] [C11]', async () => {
  await set('r-1');
  await store.pool.query(
    `insert into promo_store.feeds (operator_no, operator_id, feed_id) select operator_no, operator_id, 'acme//test' from promo_store.operators where operator_id = 'acme'`,
  );
  await store.value(`select promo.attribute_round('acme', 'r-1', 'p', 'acme//test')`);
  const reader = await makeRole(store.url, 'reader');
  await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
  await withClient(reader.url, async (client) => {
    const { rows } = await client.query<Record<string, unknown>>(
      'select * from promo.attribution_changes(-1)',
    );
    expect(rows.map((row) => [row.change, row.feed_id, row.round_id])).toEqual([['set', 'acme', 'r-1']]);
    expect(Object.keys(rows[0] ?? {}).filter((column) => column.includes('player'))).toEqual([]);
    await expect(client.query('select promo.attribution_changes_with_players(-1)')).rejects.toThrow(
      'permission denied',
    );
  });
  await dropRoles(store.url, [reader.name]);
});

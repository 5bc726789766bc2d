/**
 * promo.check_invariants() is silent on every sound store, and names each damage made by hand. Each test of
 * this layer and of the model ends with the check (see TestStore.close).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client, Pool } from 'pg';
import { ensureMonths } from '../../src/ledger/partition-state';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettled,
  aWin,
  damagesOf,
  freshStore,
  rowsOf,
  type TestStore,
  type TextRow,
  withClient,
} from '../support/ledger';

const MIGRATION = readFileSync(join(__dirname, '../../migrations/0020_attributions.sql'), 'utf8');

/** Every kind of row: verdicts of each outcome, open and refunded rounds, each result of a record. */
async function play(store: TestStore): Promise<void> {
  const acme = store.partition('acme');
  const records = [
    aBet({ event_id: 'bet', round_id: 'valid' }),
    aBet({ event_id: 'small', round_id: 'valid', amount: '0.05' }),
    aBet({ event_id: 'dollars', round_id: 'valid', amount: '3', currency: 'USD' }),
    aWin({ event_id: 'win', round_id: 'valid', amount: '2' }),
    aSettled({ event_id: 'settled', round_id: 'valid' }),
    aSettled({ event_id: 'settled-again', round_id: 'valid' }),
    aBet({ event_id: 'gone', round_id: 'refunded' }),
    aRefund({ event_id: 'refund', round_id: 'refunded' }),
    aRefund({ event_id: 'refund-again', round_id: 'refunded' }),
    aBet({
      event_id: '018f2f3e-0000-7000-8000-000000000001',
      round_id: '018f2f3e-0000-7000-8000-00000000000a',
    }),
    aDeposit({ event_id: 'a deposit with an id that is longer than any key' }),
    aLogin({ event_id: 'lögin' }),
    aBet({ event_id: 'rejected', amount: '-1' }),
  ];
  await acme.read(...records, aBet({ event_id: 'bet', round_id: 'valid' }), null);
  await acme.readAt(3, ...records.slice(3));
  await store
    .partition('acme.second', 2)
    .read(aBet({ event_id: 'bet', amount: '7' }), Buffer.from('7'), null);
  // No connection claims it.
  await store.partition('shared').read(aBet());
}

/** Without empty columns, in an order that does not depend on numbers. */
const inOrder = (damages: readonly TextRow[]): TextRow[] =>
  damages.map((row) => row.filter((value) => value !== null)).sort((a, b) => (a.join() < b.join() ? -1 : 1));

const found = async (client: Pool | Client): Promise<TextRow[]> => inOrder(await damagesOf(client));

/** The damages of the current month, or of a future one. */
const foundInMonth = async (client: Pool | Client, later = '0 months'): Promise<TextRow[]> =>
  inOrder(
    await rowsOf(
      client,
      `select invariant, what, feed_id, event_id, round_id, source, in_all
       from promo.check_month((date_trunc('month', now() at time zone 'utc') + interval '${later}')::date)`,
    ),
  );

describe('a damage is named', () => {
  const history = (event: string) =>
    `(select verdict_id from promo_store.history where event_id = '${event}')`;
  const round = (id: string) => `(select round_no from promo_store.rounds where round_id = '${id}')`;
  const partition = (topic: string) =>
    `(select partition_no from promo_store.partitions where topic = '${topic}')`;
  const copyOf = (event: string, changes: Readonly<Record<string, string>>) => {
    const columns =
      `verdict_id decided_at occurred_at amount_minor round_no source_offset feed_no connection_no partition_no brand_no
      reference_version outcome kind currency_no counted event_id player_ref game_id unmapped_brand`.split(
        /\s+/,
      );
    return `insert into promo_store.history (${columns.join(', ')})
      select ${columns.map((column) => changes[column] ?? column).join(', ')} from promo_store.history where event_id = '${event}'`;
  };
  /** The view of migrations/0015_ledger_by_refunds.sql, up to its union. */
  const ledgerWithoutReversals =
    MIGRATION.match(/create or replace view promo\.ledger as\n(.+?)\nunion all/s)?.[1] ?? '';
  const sentence = (text: RegExp): unknown => expect.stringMatching(text);

  test.each<[invariant: string, name: string, damage: string, expected: unknown[][]]>([
    [
      'I1',
      'a missing verdict',
      `delete from promo_store.history where event_id = 'rejected'`,
      [
        [
          'I1',
          sentence(/^the event is decided \(verdict_id \d+\) and has no verdict, though/),
          'acme',
          'rejected',
          '1',
        ],
      ],
    ],
    [
      'I1',
      'a missing verdict on a long id, named by its digest',
      `delete from promo_store.history where event_id like 'a deposit%'`,
      [['I1', sentence(/ has no verdict, though/), 'acme', sentence(/^[0-9a-f]{40}$/), '1']],
    ],
    [
      'I1',
      'a missing key',
      `delete from promo_store.event_keys where event_key = promo_store.id_key('rejected')`,
      [
        [
          'I1',
          sentence(/^the event has a verdict \(verdict_id \d+\) and no key: it could be decided again$/),
          'acme',
          'rejected',
          '1',
        ],
        ['I5', '1 rejected events are counted, but there are rows of 0', 'acme/0', '1'],
      ],
    ],
    [
      'I1',
      'a second verdict on an event',
      copyOf('rejected', { verdict_id: '7' }),
      [['I1', 'the event has a verdict (verdict_id 7) other than that of its key', 'acme', 'rejected', '1']],
    ],
    [
      'I1',
      'a doubled verdict',
      copyOf('rejected', {}),
      [['I1', sentence(/^2 verdicts have the verdict_id \d+$/), 'acme', 'rejected', '1']],
    ],
    [
      'I1',
      'a changed verdict',
      `update promo_store.history set outcome = 21 where event_id = 'rejected'`,
      [
        [
          'I1',
          sentence(/^key and verdict \(verdict_id \d+\) of the event disagree on id, outcome or source$/),
          'acme',
          'rejected',
          '1',
        ],
      ],
    ],
    ...[
      'rejected',
      '018f2f3e-0000-7000-8000-000000000001',
      'lögin',
      'a deposit with an id that is longer than any key',
    ].map((id): [string, string, string, unknown[][]] => [
      'I1',
      `a changed event_id: ${id}`,
      `update promo_store.history set event_id = translate(event_id, 'd0ö', 'e1e') where event_id = '${id}'`,
      [
        [
          'I1',
          sentence(/^key and verdict .* disagree/),
          'acme',
          id.replaceAll('d', 'e').replaceAll('0', '1').replace('ö', 'e'),
          '1',
        ],
      ],
    ]),
    [
      'I1',
      'a changed source of a key',
      `update promo_store.event_keys set source_offset = 0 where event_key = promo_store.id_key('rejected')`,
      [['I1', sentence(/disagree on id, outcome or source$/), 'acme', 'rejected', '1']],
    ],
    [
      'I2',
      'a next_offset before a decided record',
      `update promo_store.partitions set next_offset = 14 where topic = 'acme'`,
      [['I2', 'next_offset is 14, but the record at offset 14 is decided', 'acme/0', '1']],
    ],
    [
      'I3',
      'a round that lost its refund',
      `update promo_store.rounds set refunded_by = null, refunded_at = null where round_id = 'refunded'`,
      [
        [
          'I3',
          'a refund of the round is accepted, but the round is not refunded: its sum is not 0',
          'acme',
          'refunded',
          '1',
        ],
      ],
    ],
    [
      'I3',
      'a round that is refunded by a missing event',
      `update promo_store.rounds set refunded_by = 'nobody', refunded_at = now() where round_id = 'valid'`,
      [
        [
          'I3',
          'the round is refunded by nobody, which is no accepted refund of it: its sum is 0',
          'acme',
          'valid',
          '1',
        ],
      ],
    ],
    [
      'I3',
      'a round that is refunded by an event of another kind',
      `update promo_store.rounds set refunded_by = 'win', refunded_at = now() where round_id = 'valid'`,
      [
        [
          'I3',
          'the round is refunded by win, which is no accepted refund of it: its sum is 0',
          'acme',
          'valid',
          '1',
        ],
      ],
    ],
    [
      'I3',
      'a refund without its time',
      `update promo_store.rounds set refunded_at = null where round_id = 'refunded'`,
      [['I3', 'the round has only one of refunded_by and refunded_at', 'acme', 'refunded', '1']],
    ],
    [
      'I3',
      'a changed sum of a round',
      `update promo_store.rounds set bet_minor = bet_minor + 1 where round_id = 'valid'`,
      [
        [
          'I3',
          sentence(/ differ, in minor units of a currency, by bet -1, win 0, settled 0, /),
          'acme',
          'valid',
          '1',
        ],
      ],
    ],
    [
      'I3',
      'a changed sum of a round in its second currency',
      `update promo_store.rounds set other_sums = jsonb_set(other_sums, '{USD,bet}', '"301"') where round_id = 'valid'`,
      [['I3', sentence(/ by bet -1, win 0, settled 0, /), 'acme', 'valid', '1']],
    ],
    [
      'I3',
      'a changed sum of bets below the minimum',
      `update promo_store.rounds set below_min_bet_minor = 0 where round_id = 'valid'`,
      [['I3', sentence(/, below the minimum 5$/), 'acme', 'valid', '1']],
    ],
    [
      'I3',
      'a changed amount of a counted event',
      `update promo_store.history set amount_minor = 201 where event_id = 'win'`,
      [['I3', sentence(/ by bet 0, win 1, settled 0, /), 'acme', 'valid', '1']],
    ],
    [
      'I3',
      'a counted event that no longer counts',
      `update promo_store.history set counted = false where event_id = 'win'`,
      [['I3', sentence(/ by bet 0, win -200, settled 0, /), 'acme', 'valid', '1']],
    ],
    [
      'I3',
      'a second settled that counts',
      `update promo_store.history set counted = true where event_id = 'settled-again'`,
      [
        ['I3', '2 settled of the round are counted', 'acme', 'valid', '2'],
        ['I3', sentence(/ by bet 0, win 0, settled 1050, /), 'acme', 'valid', '2'],
      ],
    ],
    [
      'I3',
      'a round that is no longer marked as settled',
      `update promo_store.rounds set settled = false where round_id = 'valid'`,
      [['I3', 'a settled is counted, but the round is not marked as settled', 'acme', 'valid', '1']],
    ],
    [
      'I3',
      'a missing round, with its damage of the ledger',
      `delete from promo_store.rounds where round_id = '018f2f3e-0000-7000-8000-00000000000a'`,
      [
        ['I3', sentence(/^events of the round number \d+ are stored, but no such round$/), '1'],
        [
          'I4',
          'the entry has no round, or is of an account kind and has one',
          'acme',
          sentence(/^018f/),
          '1',
        ],
      ],
    ],
    [
      'I4',
      'an entry of an event that is not accepted',
      `with k as (update promo_store.event_keys set outcome = 20 where event_key = promo_store.id_key('lögin')),
         p as (update promo_store.partitions set accepted = accepted - 1, skipped = skipped + 1 where topic = 'acme')
       update promo_store.history set outcome = 20 where event_id = 'lögin'`,
      [['I4', 'the event has an entry, but is not accepted', 'acme', 'lögin', '1']],
    ],
    [
      'I4',
      'an entry of a refund, with its reversal',
      `update promo_store.history set counted = true where event_id = 'refund-again'`,
      [
        [
          'I4',
          'the event has an entry, but is a refund or of no known kind',
          'acme',
          'refund-again',
          'refunded',
          '1',
        ],
      ],
    ],
    [
      'I4',
      'an entry without an amount',
      `update promo_store.history set amount_minor = null where event_id like 'a deposit%'`,
      [['I4', 'the entry has no amount, or is of a login and has one', 'acme', sentence(/^a deposit/), '1']],
    ],
    [
      'I4',
      'two entries with one number',
      `with k as (update promo_store.event_keys set verdict_id = ${history('win')} where event_key = promo_store.id_key('lögin'))
       update promo_store.history set verdict_id = ${history('win')} where event_id = 'lögin'`,
      [
        ['I1', sentence(/^2 verdicts have the verdict_id/), 'acme', 'lögin', '3'],
        ['I1', sentence(/^key and verdict /), 'acme', 'lögin', '3'],
        ['I1', sentence(/^key and verdict /), 'acme', 'win', '3'],
        ['I4', 'the event has 2 entries', 'acme', 'lögin', '2'],
        ['I4', 'the event has 2 entries', 'acme', 'win', 'valid', '2'],
      ],
    ],
    [
      'I4',
      'a ledger that lost the reversals of a round',
      `create or replace view promo_store.all_entries as ${ledgerWithoutReversals}`,
      [['I4', 'the entry has 0 reversals, but should have 1', 'acme', 'gone', 'refunded', '1']],
    ],
    [
      'I5',
      'a record that was read and has no result',
      `update promo_store.partitions set records_read = records_read + 1 where topic = 'acme'`,
      [['I5', '26 records were read, but the counters of their results add up to 25', 'acme/0', '1']],
    ],
    [
      'I5',
      'a verdict that was counted as another one',
      `update promo_store.partitions set accepted = accepted - 1, skipped = skipped + 1 where topic = 'acme'`,
      [
        ['I5', '10 accepted events are counted, but there are rows of 11', 'acme/0', '2'],
        ['I5', '2 skipped events are counted, but there are rows of 1', 'acme/0', '2'],
      ],
    ],
    [
      'I5',
      'a missing delivery',
      `delete from promo_store.resends where partition_no = ${partition('acme')}`,
      [['I5', '1 duplicate deliveries are counted, but there are rows of 0', 'acme/0', '1']],
    ],
    [
      'I5',
      'a missing dead letter',
      `delete from promo_store.unstored where dead_letter is not null`,
      [['I5', '1 dead letters are counted, but there are rows of 0', 'shared/0', '1']],
    ],
    [
      'I5',
      'a doubled record without key',
      `insert into promo_store.unstored select * from promo_store.unstored where partition_no = ${partition('acme')}`,
      [['I5', '1 events without key are counted, but there are rows of 2', 'acme/0', '1']],
    ],
    [
      'I5',
      'a missing partition',
      `delete from promo_store.partitions where topic = 'shared'`,
      [['I5', sentence(/^1 rows have the partition number \d+, but no partition has this number$/), '1']],
    ],
    [
      'I3',
      'events that were moved to a round of another feed',
      `with f as (select feed_no from promo_store.feeds where feed_id = 'acme/apart')
       update promo_store.rounds set feed_no = f.feed_no from f where round_no = ${round('valid')}`,
      [['I3', 'events of another feed are stored with the round', 'acme/apart', 'valid', '1']],
    ],
  ])('%s: %s [D3] [L1] [L3] [R6] [K1]', async (invariant, _, damage, expected) => {
    const store = await freshStore({ own: damage.includes('view') });
    store.damaged = true;
    try {
      await play(store);
      expect(await found(store.pool)).toEqual([]);
      await store.pool.query(damage);
      const damages = await found(store.pool);
      expect(damages).toEqual(expected);
      expect(damages.map(([name]) => name)).toContain(invariant);
      const ofEvents = damages.filter(([name]) => name !== 'I2' && name !== 'I5');
      expect(await foundInMonth(store.pool)).toEqual(ofEvents);
      expect(await foundInMonth(store.pool, '1 month')).toEqual([]);
    } finally {
      await store.close();
    }
  });

  test('at most a hundred times for each invariant, with the number of all [D3]', async () => {
    const store = await freshStore();
    store.damaged = true;
    try {
      await store.partition('acme').read(...Array.from({ length: 250 }, () => aLogin()));
      await store.pool.query('delete from promo_store.event_keys');
      const damages = await damagesOf(store.pool);
      expect(damages.filter(([invariant]) => invariant === 'I1')).toHaveLength(100);
      expect(new Set(damages.map(([invariant, , , , , , inAll]) => `${invariant} ${inAll}`))).toEqual(
        new Set(['I1 250', 'I5 1']),
      );
    } finally {
      await store.close();
    }
  });
});

describe('a sound store has no damages', () => {
  let store: TestStore;
  beforeEach(async () => {
    store = await freshStore({ own: true });
  });
  afterEach(() => store.close());

  /** Makes all stored rows three months old, and creates the tables of all months since. */
  async function age(): Promise<void> {
    await store.pool.query(`
      do $$
      declare
        parent text;
        month timestamp;
        long_ago timestamp := date_trunc('month', now() at time zone 'utc') - interval '3 months';
      begin
        for month in select generate_series(long_ago, now() at time zone 'utc' - interval '1 month', interval '1 month') loop
          foreach parent in array array['history', 'resends', 'unstored'] loop
            execute format('create table promo_store.%I partition of promo_store.%I for values from (%L) to (%L)', parent || to_char(month, '_YYYY_MM'),
              parent, month at time zone 'utc', (month + interval '1 month') at time zone 'utc');
          end loop;
        end loop;
        update promo_store.reference_versions set applied_at = long_ago at time zone 'utc';
        update promo_store.history set decided_at = long_ago at time zone 'utc';
        update promo_store.resends set received_at = long_ago at time zone 'utc';
        update promo_store.unstored set received_at = long_ago at time zone 'utc';
        update promo_store.rounds set opened_at = long_ago at time zone 'utc';
        insert into promo_store.panics (verdict_id, decided_at, error) values (1, long_ago at time zone 'utc', 'old');
      end $$`);
  }

  const drop = async (interval: string) =>
    (
      await store.rows(
        `select promo.drop_months_before((now() at time zone 'utc' - interval '${interval}')::date)`,
      )
    ).flat();

  test('while workers write [D2] [D3]', async () => {
    const writing = Promise.all(
      [0, 1, 2].map(async (partition) => {
        const { partition: of } = store.writer();
        const read = of('acme', partition);
        for (let i = 0; i < 60; i++) {
          const round_id = `r-${i % 7}`;
          await read.read(
            aBet({ round_id }),
            aBet({ round_id, event_id: `both-${i}` }),
            aRefund({ round_id }),
            null,
          );
        }
      }),
    );
    let checks = 0;
    for (let over = false; !over; checks++) {
      over = await Promise.race([
        writing.then(() => true),
        new Promise<false>((resolve) => setTimeout(resolve, 20, false)),
      ]);
      expect(await damagesOf(store.pool)).toEqual([]);
      expect(await foundInMonth(store.pool)).toEqual([]);
    }
    expect(checks).toBeGreaterThan(2);
    await writing;
  });

  test('after months were dropped, and the rest is still compared [L3] [K1] [D3]', async () => {
    await play(store);
    await age();
    expect(await damagesOf(store.pool)).toEqual([]);
    await store
      .partition('acme', 1)
      .read(aWin({ round_id: 'valid' }), aBet({ round_id: 'new' }), aBet({ event_id: 'bet' }));
    expect(await damagesOf(store.pool)).toEqual([]);

    const dropped = ['history', 'resends', 'unstored'];
    expect((await drop('1 month')).map((name) => name?.replace(/_.*/, ''))).toEqual([...dropped, ...dropped]);
    expect(await store.value('select count(*) from promo_store.panics')).toBe('0');
    expect(await store.rows('select event_id from promo.verdicts order by 1')).toHaveLength(2);
    expect(await damagesOf(store.pool)).toEqual([]);
    expect(await drop('1 month')).toEqual([]);

    await store.partition('acme', 1).readAt(3, aRefund({ round_id: 'valid' }), null);
    await store.partition('acme').readAt(13, aBet({ event_id: 'bet', round_id: 'valid' }), null);
    expect(await damagesOf(store.pool)).toEqual([]);
  });

  test('and a damage after months were dropped is named, too [L3] [K1] [D3]', async () => {
    await play(store);
    await age();
    await drop('1 month');
    const second = store.partition('acme', 1);
    for (const event_id of ['kept', 'later', 'last'])
      await second.read(aBet({ event_id, round_id: event_id }));
    await withClient(store.url, async (client) => {
      await client.query('begin');
      await client.query(`delete from promo_store.history where event_id = 'later';
        update promo_store.history set amount_minor = 1051 where event_id = 'last';
        update promo_store.rounds set refunded_by = 'small' where round_id = 'refunded';
        update promo_store.partitions set duplicates = 0, redeliveries = redeliveries + 1 where topic = 'acme' and partition = 0`);
      expect(await found(client)).toEqual([
        [
          'I1',
          expect.stringMatching(/ has no verdict, though its month was not dropped$/),
          'acme',
          'later',
          '1',
        ],
        [
          'I3',
          expect.stringMatching(/^the round is refunded by small, which is no /),
          'acme',
          'refunded',
          '3',
        ],
        ['I3', expect.stringMatching(/ by bet -1050, /), 'acme', 'later', '3'],
        ['I3', expect.stringMatching(/ by bet 1, /), 'acme', 'last', '3'],
        ['I5', '0 duplicate deliveries are counted, but there are rows of 1', 'acme/0', '1'],
      ]);
      // Only the whole check notices the refund of a round of a dropped month.
      expect(await foundInMonth(client)).toEqual([
        [
          'I1',
          expect.stringMatching(/ has no verdict, though its month was not dropped$/),
          'acme',
          'later',
          '1',
        ],
        ['I3', expect.stringMatching(/ by bet -1050, /), 'acme', 'later', '2'],
        ['I3', expect.stringMatching(/ by bet 1, /), 'acme', 'last', '2'],
      ]);
      await client.query('rollback');
    });
  });

  test('after months were dropped by hand, or created again [D3]', async () => {
    await play(store);
    for (const parent of ['history', 'resends', 'unstored']) {
      await store.pool.query(
        `do $$ begin execute 'drop table promo_store.${parent}_' || to_char(now() at time zone 'utc', 'YYYY_MM'); end $$`,
      );
    }
    expect(await damagesOf(store.pool)).toEqual([]);
    await ensureMonths(store.pool);
    await play(store);
    expect(await damagesOf(store.pool)).toEqual([]);
  });

  test('and a dropped month cannot be checked alone [D3]', async () => {
    await play(store);
    await age();
    await drop('1 month');
    await expect(foundInMonth(store.pool, '-3 months')).rejects.toThrow(
      /^no history of the month \d{4}-\d{2} is stored$/,
    );
    expect(await foundInMonth(store.pool)).toEqual([]);
  });

  test('and a check reports its current step [D3]', async () => {
    await play(store);
    const steps = await withClient(store.url, async (client) => {
      const notices: (string | undefined)[] = [];
      client.on('notice', ({ message }) => notices.push(message));
      await damagesOf(client);
      return notices;
    });
    expect(steps).toEqual([
      'reading history and rounds (step 1 of 4)',
      'reading keys of events (step 2 of 4)',
      'reading rounds (step 3 of 4)',
      'reading promo.ledger (step 4 of 4)',
    ]);
  });

  test('and the current month cannot be dropped [D2]', async () => {
    await expect(drop('-1 month')).rejects.toThrow('only months that are over can be dropped');
    await expect(store.rows('select promo.drop_months_before(null)')).rejects.toThrow(
      'only months that are over',
    );
    expect(await drop('0 months')).toEqual([]);
  });
});

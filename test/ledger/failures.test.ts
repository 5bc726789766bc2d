/** The effect of a failing store on events: undecided without a trace, decided again, or one panic. */
import { randomBytes } from 'node:crypto';
import { connect, createServer, type Socket } from 'node:net';
import { MAX_PANICS_PER_MINUTE } from '../../src/intake/intake';
import { lostFrom } from '../../src/intake/undecided';
import { classify, LostRace } from '../../src/ledger/failures';
import { StoreError } from '../../src/postgres/errors';
import {
  aBet,
  aDeposit,
  anEnvelope,
  aRefund,
  aSettled,
  brief,
  decidePart,
  freshStore,
  TestStore,
  withClient,
} from '../support/ledger';

jest.setTimeout(300_000);

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(async () => {
  await withClient(store.url, (client) =>
    client.query('drop function if exists fail, never, slow cascade; drop sequence if exists tries'),
  );
  await store.close();
});

const verdicts = () => store.rows('select event_id, verdict, reason from promo.verdicts order by verdict_id');

/**
 * Makes each insert of an event whose id begins with "poison" into history fail, unless it is stored as a
 * panic.
 */
const failOnPoison = (body = `raise exception 'poisoned'`) =>
  store.pool.query(`
    create function fail() returns trigger language plpgsql as $$
    begin
      if new.event_id like 'poison%' and new.outcome <> 10 then ${body}; end if;
      return new;
    end $$;
    create trigger fail before insert on promo_store.history for each row execute function fail()`);

const healed = () => store.pool.query('drop function fail cascade');

describe('an event that fails twice alone', () => {
  test('is stored as rejected/panic with its payload, and the rest of the batch is decided in order [V9]', async () => {
    await failOnPoison();
    const events = [
      aBet({ event_id: 'a' }),
      aBet({ event_id: 'b', amount: '0' }),
      aBet({ event_id: 'poison', player_ref: 'p-secret' }),
      aRefund({ event_id: 'c' }),
      aBet({ event_id: 'd' }),
    ];

    expect(await store.partition('acme').read(...events)).toEqual([
      'accepted',
      'skipped/zero_amount',
      'rejected/panic',
      'accepted',
      'skipped/round_refunded',
    ]);

    expect(await verdicts()).toEqual([
      ['a', 'accepted', null],
      ['b', 'skipped', 'zero_amount'],
      ['poison', 'rejected', 'panic'],
      ['c', 'accepted', null],
      ['d', 'skipped', 'round_refunded'],
    ]);
    expect(
      await store.rows(
        `select v.event_id, p.error, convert_from(p.payload, 'UTF8'), v.player_ref, v.round_id, v.kind
         from promo_store.panics p join promo.verdicts v using (verdict_id)`,
      ),
    ).toEqual([['poison', expect.stringContaining('poisoned'), JSON.stringify(events[2]), null, null, null]]);
    expect(await store.balance('acme')).toEqual({ records_read: 5, accepted: 2, rejected: 1, skipped: 2 });
  });

  test('uses its event_id up: after the repair the event is a duplicate [V9] [K2] [V1]', async () => {
    await failOnPoison();
    const partition = store.partition('acme');
    const bet = aBet({ event_id: 'poison' });
    await partition.readAt(0, bet);
    await healed();

    expect(await partition.readAt(0, bet)).toEqual(['rejected/panic, again']);
    expect(await partition.readAt(1, bet)).toEqual(['duplicate of rejected/panic']);
    expect(await store.value('select count(*) from promo.ledger')).toBe('0');
    expect(await store.value('select count(*) from promo.rounds')).toBe('0');
  });

  test.each([
    ['a value that does not fit', `perform 9223372036854775807 + length(new.event_id)`],
    ['a division by zero', `perform 1 / (new.outcome - new.outcome)`],
    ['a broken constraint', `raise exclusion_violation`],
    ['a row too large for its page', `raise program_limit_exceeded`],
  ])('%s is a panic [V9]', async (_, body) => {
    await failOnPoison(body);
    expect(await store.partition('acme').read(aBet({ event_id: 'poison' }), aBet())).toEqual([
      'rejected/panic',
      'accepted',
    ]);
  });

  test('stays undecided where a number from the store is already taken [V9] [U1]', async () => {
    await failOnPoison('raise unique_violation');
    const result = await store.partition('acme').attempt(0, [aBet({ event_id: 'poison' }), aBet()]);
    expect([result.answers, result.undecided]).toEqual([[], expect.any(StoreError)]);
    expect(await verdicts()).toEqual([]);
  });

  test('an error of our own code is a panic of the event that meets it [V9]', async () => {
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        decideBatch: (batch) => {
          const meets = batch.items.some((item) => item.type === 'keyed' && item.fields.gameId === 'bug');
          if (meets) throw new TypeError('cannot read properties of undefined');
          return ledger.decideBatch(batch);
        },
      }),
    });
    expect(
      await worker.partition('acme').read(aBet(), aBet({ game: { id: 'bug' } }), aBet(), aDeposit()),
    ).toEqual(['accepted', 'rejected/panic', 'accepted', 'accepted']);
  });

  test('leaves no change of its batch where its row cannot be encoded [V9] [R1]', async () => {
    const worker = store.writer({
      fewEvents: 0,
      wrap: (ledger) => ({
        ...ledger,
        decideBatch: (batch) => {
          const item = batch.items.find((each) => each.type === 'keyed' && each.eventId === 'bug');
          if (item !== undefined && batch.panic === undefined)
            Object.defineProperty(item, 'connectionNo', {
              get: () => {
                throw new TypeError('the row cannot be encoded');
              },
            });
          return ledger.decideBatch(batch);
        },
      }),
    });
    const acme = worker.partition('acme');
    await acme.read(aBet({ amount: '1' }));
    expect(
      await acme.read(aBet({ amount: '2' }), aBet({ event_id: 'bug', amount: '4' }), aBet({ amount: '8' })),
    ).toEqual(['accepted', 'rejected/panic', 'accepted']);
    expect(await store.rows('select round_id, counted_bet::float from promo.rounds')).toEqual([
      ['r-1', '11'],
    ]);
    expect(await store.balance('acme')).toEqual({ records_read: 4, accepted: 3, rejected: 1 });
  });

  test('that fails only once is decided normally [V9]', async () => {
    let failures = 1;
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        decideBatch: (batch) => {
          if (failures-- > 0) throw new TypeError('once');
          return ledger.decideBatch(batch);
        },
      }),
    });
    expect(await worker.partition('acme').read(aBet())).toEqual(['accepted']);
    expect(await store.value('select count(*) from promo_store.panics')).toBe('0');
  });

  test('that meets another writer in one of its tries is retried at once [V9] [U4]', async () => {
    const failures = [
      new TypeError('once'),
      new LostRace('first'),
      new TypeError('again'),
      new LostRace('second'),
    ];
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        decideBatch: (batch) => {
          const failure = failures.shift();
          if (failure !== undefined) throw failure;
          return ledger.decideBatch(batch);
        },
      }),
    });
    expect(await worker.partition('acme').read(aBet())).toEqual(['accepted']);
    expect(failures).toEqual([]);
  });

  test('stays undecided where even the panic cannot be stored [V9] [U1]', async () => {
    await failOnPoison();
    await store.pool.query(`
      create function never() returns trigger language plpgsql as $$ begin raise exception 'never'; end $$;
      create trigger never before insert on promo_store.panics for each row execute function never()`);
    const result = await store
      .partition('acme')
      .attempt(0, [aBet({ event_id: 'a' }), aBet({ event_id: 'poison' })]);

    expect(result.answers).toHaveLength(1);
    expect(result.undecided?.message).toMatch(/never/);
    expect(await verdicts()).toEqual([['a', 'accepted', null]]);
  });

  test('stays undecided beyond ten panics a minute, and is decided once the minute is over [V9]', async () => {
    await failOnPoison();
    let now = 1_000_000;
    const partition = store.writer({ now: () => now }).partition('acme');
    const events = Array.from({ length: MAX_PANICS_PER_MINUTE + 3 }, (_, i) =>
      aBet({ event_id: `poison-${i}` }),
    );

    const first = await partition.attempt(0, events);
    expect(first.answers).toHaveLength(MAX_PANICS_PER_MINUTE);
    expect(first.undecided?.message).toMatch(/poisoned/);
    expect(await store.value('select count(*) from promo_store.event_keys')).toBe('10');

    now += 59_000;
    expect((await partition.attempt(10, events.slice(10))).answers).toEqual([]);
    // Events that do not fail are decided meanwhile.
    expect(await partition.readAt(100, aBet({ event_id: 'sound' }))).toEqual(['accepted']);
    now += 1_001;
    expect((await partition.attempt(10, events.slice(10))).answers).toHaveLength(3);
  });

  test('stays undecided beyond ten panics a minute, however many partitions meet them at once', async () => {
    await failOnPoison();
    const writer = store.writer({ now: () => 1_000_000 });
    const results = await Promise.all(
      Array.from({ length: MAX_PANICS_PER_MINUTE + 3 }, (_, i) =>
        writer.partition('acme', i).attempt(0, [aBet({ event_id: `poison-${i}` })]),
      ),
    );
    expect(results.filter(({ answers }) => answers.length === 1)).toHaveLength(MAX_PANICS_PER_MINUTE);
    expect(await store.value('select count(*) from promo_store.panics')).toBe(String(MAX_PANICS_PER_MINUTE));
  });

  test('the answer to a resend says whether its content is equal [V9] [K4]', async () => {
    await failOnPoison();
    const bet = aBet({ event_id: 'poison' });
    await store.partition('acme').read(bet);
    expect(await store.partition('acme', 1).read(bet)).toEqual(['duplicate of rejected/panic']);
  });
});

/** A column of a view keeps its type. */
const DROP_VIEWS = `do $$ declare view text; begin
  foreach view in array (select array_agg(distinct r.ev_class::regclass::text) from pg_depend d join pg_rewrite r on r.oid = d.objid
    where d.refobjid = 'promo_store.history'::regclass) loop execute format('drop view if exists %s cascade', view); end loop;
end $$`;

describe('a store that cannot decide', () => {
  const seed = aBet({ event_id: 'first', round_id: 'known' });
  /** A batch that touches every table of a decision, in a store that already holds rows. */
  const batch = [
    aBet({ event_id: 'a', round_id: 'known' }),
    aSettled({ event_id: 'b', round_id: 'new' }),
    aRefund({ event_id: 'c', round_id: 'known' }),
    seed,
    aDeposit({ event_id: 'd' }),
    null,
  ];
  const answers = ['accepted', 'accepted', 'accepted', 'duplicate of accepted', 'accepted', 'without key'];

  async function expectUndecided(message: RegExp, worker = store.writer()) {
    const before = await store.contents();
    const result = await worker.partition('acme').attempt(1, batch);
    expect(result.answers.map(brief)).toEqual([]);
    expect(result.undecided?.message).toMatch(message);
    expect(await store.contents()).toEqual(before);
  }

  const expectDecidedNow = async () =>
    expect(
      await store
        .writer()
        .partition('acme')
        .readAt(1, ...batch),
    ).toEqual(answers);

  beforeEach(() => store.partition('acme').readAt(0, seed));

  test.each([
    ...['event_keys', 'history', 'resends', 'unstored'].map((table) => [table, 'insert'] as const),
    ['rounds', 'insert'] as const,
    ['rounds', 'update'] as const,
    ['partitions', 'update'] as const,
  ])(
    'a missing permission on %s (%s) leaves all events undecided, without a trace [V9] [U1]',
    async (table, right) => {
      const role = `promo_test_${randomBytes(6).toString('hex')}`;
      const url = new URL(store.url);
      url.username = role;
      url.password = 'secret';
      await store.pool.query(`
      create role ${role} login password 'secret';
      grant usage on schema promo_store to ${role};
      grant select, insert, update on all tables in schema promo_store to ${role};
      grant usage on all sequences in schema promo_store to ${role};
      revoke ${right} on promo_store.${table} from ${role}`);
      const limited = new TestStore(url.href, { own: true });
      try {
        await expectUndecided(/permission denied/, limited.writer());
        await store.pool.query(`grant ${right} on promo_store.${table} to ${role}`);
        await expectDecidedNow();
      } finally {
        await limited.disconnect();
        await store.pool.query(`drop owned by ${role}; drop role ${role}`);
      }
    },
  );

  test.each([
    ['a missing column', 'alter table promo_store.history rename player_ref to player'],
    ['a missing table', 'alter table promo_store.event_keys rename to keys'],
    ['a missing sequence', 'drop sequence promo_store.batch_numbers cascade'],
    [
      'a new column that is not null',
      'alter table promo_store.rounds add column shard int not null default 1; alter table promo_store.rounds alter column shard drop default',
    ],
    [
      'a column of another type',
      `${DROP_VIEWS}; alter table promo_store.history alter column brand_no type bigint`,
    ],
    [
      'a column of a narrower type',
      `${DROP_VIEWS}; alter table promo_store.history alter column source_offset type int`,
    ],
    [
      'a missing month',
      `do $$ begin execute 'drop table promo_store.history_' || to_char(now() at time zone 'utc', 'YYYY_MM'); end $$`,
    ],
  ])('%s leaves all events undecided, without a trace and without a panic [V9] [U1]', async (_, change) => {
    const changed = await freshStore({ own: true });
    changed.damaged = true;
    try {
      await changed.partition('acme').readAt(0, seed);
      await changed.pool.query(change);
      const result = await changed.writer().partition('acme').attempt(1, batch);
      expect(result.undecided).toBeInstanceOf(StoreError);
      expect(result.answers.map(brief)).toEqual([]);
      expect(await changed.value('select count(*) from promo_store.panics')).toBe('0');
      expect(await changed.value('select records_read from promo_store.partitions')).toBe('1');
    } finally {
      await changed.close();
    }
  });

  test('a read-only store leaves all events undecided, and decides once it accepts writes again [V9] [U1]', async () => {
    const name = new URL(store.url).pathname.slice(1);
    await store.pool.query(`alter database ${name} set default_transaction_read_only = on`);
    const worker = store.writer({ maxConnections: 1 });
    await expectUndecided(/read-only transaction/, worker);
    await withClient(store.url, (client) =>
      client.query(`begin read write; alter database ${name} reset default_transaction_read_only; commit`),
    );
    // A new connection decides: the old one stays read-only.
    expect(await worker.partition('acme').readAt(1, ...batch)).toEqual(answers);
  });

  test('a lock held too long and a statement that runs too long leave all events undecided [V9] [U1]', async () => {
    const slow = await freshStore({ own: true });
    try {
      await slow.pool.query(`
        create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$;
        create trigger slow before insert on promo_store.event_keys for each row execute function slow()`);
      await Promise.all([
        withClient(store.url, async (blocker) => {
          await blocker.query('begin');
          await blocker.query('select from promo_store.rounds for update');
          await expectUndecided(/lock_rounds: canceling statement due to lock timeout/);
          await blocker.query('rollback');
          await expectDecidedNow();
        }),
        (async () => {
          const result = await slow.writer().partition('acme').attempt(0, [aBet()]);
          expect(result.undecided?.message).toMatch(
            /copy_keys: canceling statement due to statement timeout/,
          );
          expect(await slow.value('select count(*) from promo_store.event_keys')).toBe('0');
        })(),
      ]);
    } finally {
      await slow.close();
    }
  });

  /** A healthy server does not report these errors, so a trigger reports them by name. */
  test.each<[string, string, string?]>([
    ['disk full', '53100'],
    ['out of memory', '53200'],
    ['too many connections', '53300'],
    ['shutting down', '57P01'],
    ['starting up', '57P03'],
    ['input or output', '58030'],
    ['damaged data', 'XX001'],
    ['an internal error', 'XX000'],
    ['a syntax error', '42601'],
    ['an unknown code', 'ZZ999'],
    // No statement on events reports it: the first statement that needs a transaction id does.
    ['exhausted transaction ids', '54000', 'update on promo_store.partitions'],
  ])(
    '%s leaves all events undecided, without a trace [V9] [U1]',
    async (_, code, by = 'insert on promo_store.history') => {
      // The error lasts for as many tries as the search for an event takes. If it counted against the event,
      // the event would become a panic.
      await store.pool.query(`
      create sequence tries;
      grant usage on sequence tries to public;
      create function fail() returns trigger language plpgsql as $$ begin
        if nextval('tries') <= 5 then raise exception 'no' using errcode = '${code}'; end if;
        return new;
      end $$;
      create trigger fail before ${by} for each row execute function fail()`);
      await expectUndecided(/no$/);
      await healed();
      await expectDecidedNow();
    },
  );

  test.each([
    ['a serialization failure', '40001'],
    ['a deadlock', '40P01'],
  ])('%s is decided again at once, and is undecided after five tries [U4]', async (_, code) => {
    await store.pool.query(`
      create sequence tries;
      grant usage on sequence tries to public;
      create function fail() returns trigger language plpgsql as $$ begin
        if nextval('tries') <= 2 then raise exception 'no' using errcode = '${code}'; end if;
        return new;
      end $$;
      create trigger fail before update on promo_store.partitions for each row execute function fail()`);
    await expectDecidedNow();

    await store.pool.query(`alter sequence tries minvalue -1000 restart with -1000`);
    const result = await store.writer().partition('acme').attempt(20, [aBet(), aBet()]);
    expect(result.answers.map(brief)).toEqual([]);
    expect(classify(result.undecided)).toBe('again');
    // The whole batch fails once, and its first half four times.
    expect(await store.value(`select last_value from tries`)).toBe('-996');
  });

  test('a store that loses the first half of a batch is noticed when the second half is decided [U1] [U4]', async () => {
    let tries = 0;
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        async decideBatch(batch) {
          tries++;
          if (tries === 1) throw new LostRace('another writer was first');
          const decisions = await ledger.decideBatch(batch);
          // Like a standby that received everything but this transaction.
          if (tries === 2) await store.pool.query('update promo_store.partitions set decided_up_to = 10');
          return decisions;
        },
      }),
    });
    await worker.partition('acme').readAt(8, aBet(), aBet());
    tries = 0;

    const envelopes = [aBet(), aBet(), aBet(), aBet()].map((bet, index) => anEnvelope(bet, 10 + index));
    const result = await decidePart(worker.intake, { topic: 'acme', partition: 0 }, envelopes, 10);

    expect([result.answers.map(brief), lostFrom(result.undecided)]).toEqual([['accepted', 'accepted'], 10]);
    expect(tries).toBe(3);
  });

  test('a divided batch counts as sent once its last part is sent', async () => {
    const told: string[] = [];
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        async decideBatch(batch) {
          if (told.push(`${batch.items.length}`) === 1) throw new LostRace('another writer was first');
          return ledger.decideBatch(batch);
        },
      }),
    });
    const envelopes = [aBet(), aBet(), aBet()].map((bet, index) => anEnvelope(bet, index));
    await decidePart(worker.intake, { topic: 'acme', partition: 0 }, envelopes, 0, () => told.push('sent'));
    expect(told).toEqual(['3', '2', '1', 'sent']);
  });

  test('a batch that meets a real deadlock with a foreign writer is retried, and decided as a whole [U4]', async () => {
    const rounds = ['x', 'y'];
    // A session checks for a deadlock once, some time after it began to wait. Both wait by then, and only the
    // worker checks.
    const worker = store.writer({ maxConnections: 1 });
    await worker.pool.query(`set deadlock_timeout = '3s'`);
    const partition = worker.partition('acme');
    await partition.readAt(10, ...rounds.map((round_id) => aBet({ round_id })));
    await withClient(store.url, async (foreign) => {
      await foreign.query(`set deadlock_timeout = '1min'`);
      const lock = (round: string | undefined) =>
        foreign.query('select from promo_store.rounds where round_id = $1 for update', [round]);
      await foreign.query('begin');
      await lock(rounds[1]);
      const decided = partition.readAt(12, ...rounds.map((round_id) => aRefund({ round_id })));
      // The worker holds x and waits for y.
      await store.untilOneWaits();
      await lock(rounds[0]);
      await foreign.query('commit');
      expect(await decided).toEqual(['accepted', 'accepted']);
    });
    expect(
      await store.value('select deadlocks from pg_stat_database where datname = current_database()'),
    ).toBe('1');
    expect(await store.value(`select count(*) from promo.rounds where refunded`)).toBe('2');
  });

  test.each(['active', 'idle in transaction'])(
    'a connection that the store ends while it is %s leaves all events undecided, and the worker continues [V9] [U1]',
    async (state) => {
      const worker = store.writer({
        name: 'promo-test-victim',
        sendDeadLetters: async () => {
          if (state === 'idle in transaction') await kill();
        },
      });
      const kill = () =>
        store.rows(
          `select pg_terminate_backend(pid, 1000) from pg_stat_activity where application_name = 'promo-test-victim' and state <> 'idle'`,
        );
      const before = await store.contents();
      if (state === 'active') {
        await store.pool.query(`
          create function fail() returns trigger language plpgsql as $$ begin
            perform pg_terminate_backend(pg_backend_pid());
            perform pg_sleep(1);
            return new;
          end $$;
          create trigger fail before update on promo_store.partitions for each row execute function fail()`);
      }
      const result = await decidePart(worker.intake, { topic: 'nobody', partition: 0 }, [
        anEnvelope(aBet(), 0),
      ]);
      expect(result.answers.map(brief)).toEqual([]);
      expect(result.undecided).not.toBeNull();
      if (result.undecided instanceof Error) expect(classify(result.undecided)).toBe('undecided');
      const after = await store.contents();
      expect({ ...after, partitions: null }).toEqual({ ...before, partitions: null });
      // A client of pg that emits an error without a listener would end a worker. Here it would fail the
      // test.
      await new Promise((resolve) => setTimeout(resolve, 200));

      if (state === 'active') await healed();
      expect(await worker.partition('acme').readAt(1, ...batch)).toEqual(answers);
    },
  );

  test('a store that falls silent in the middle of a batch leaves all events undecided, and its connection is discarded [V9] [U1]', async () => {
    const way = await aWay(new URL(store.url));
    const silenced = new TestStore(way.url, { own: true });
    const worker = silenced.writer({ maxConnections: 1, sendDeadLetters: async () => way.fallSilent() });
    try {
      const began = performance.now();
      const result = await decidePart(worker.intake, { topic: 'nobody', partition: 0 }, [
        anEnvelope(aBet(), 0),
      ]);
      expect(result.undecided?.message).toMatch(/^commit: no answer within/);
      expect(performance.now() - began).toBeLessThan(40_000);
      way.speakAgain();
      // On another connection: the pool discarded its only one.
      expect(await worker.partition('acme').readAt(1, ...batch)).toEqual(answers);
    } finally {
      await silenced.disconnect();
      await way.close();
    }
  });

  test('a store that does not answer leaves all events undecided [V9] [U1]', async () => {
    const url = new URL(store.url);
    url.port = '1';
    const gone = new TestStore(url.href, { own: true });
    const result = await gone.partition('acme').attempt(0, [aBet()]);
    expect(result.undecided).toBeInstanceOf(StoreError);
    expect(result.answers.map(brief)).toEqual([]);
    await gone.disconnect();
  });
});

/** A proxy to a server that can fall silent: its connections stay open, and no byte passes any more. */
async function aWay(url: URL) {
  const sockets: Socket[] = [];
  let speaks = true;
  const server = createServer((near) => {
    const far = connect(Number(url.port), url.hostname);
    sockets.push(near, far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      let isHeard = true;
      from.on('data', (bytes) => {
        isHeard &&= speaks;
        if (isHeard) to.write(bytes);
      });
      // The end of a connection is not passed on, either.
      from.on('close', () => speaks && to.destroy());
      from.on('error', () => speaks && to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  const through = new URL(url);
  through.host = `127.0.0.1:${address.port}`;
  return {
    url: through.href,
    fallSilent: () => {
      speaks = false;
    },
    speakAgain: () => {
      speaks = true;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

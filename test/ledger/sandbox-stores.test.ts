/** The sandbox's own tables on a real Postgres: what happens at once, and after a process is gone. */

import pino from 'pino';
import { until } from '../../dev/servers/deadline';
import { makePool, type PostgresPool } from '../../src/postgres/pool';
import { makeRoundStore } from '../../src/sandbox/round-store';
import { makeSessionStore } from '../../src/sandbox/session-store';
import { prepareSandboxTables } from '../../src/sandbox/tables';
import { withClient } from '../support/ledger';
import { aRoundPlan } from '../support/round-plan';
import { type FreshDatabase, freshDatabase } from '../support/servers';

const AT_ONCE = 12;
/** Below the longest wait for a lock, after which a transaction fails. */
const LOCK_WAITS_BEGIN_WITHIN_MS = 4_000;
const WAITING =
  "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

let database: FreshDatabase;
let pool: PostgresPool;
beforeAll(async () => {
  database = await freshDatabase();
  const options = {
    databaseUrl: database.url,
    maxConnections: AT_ONCE,
    applicationName: 'promo-test-sandbox',
  };
  pool = makePool(options, pino({ level: 'silent' }));
  // Several sandboxes start at once.
  const made = await Promise.all(Array.from({ length: 4 }, () => prepareSandboxTables(pool)));
  expect(made).toEqual([undefined, undefined, undefined, undefined]);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const launch = { token: 't', player: 'p', game: 'g', currency: 'EUR' };
const many = <T>(work: (place: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: AT_ONCE }, (_, place) => work(place)));
const letLaunchesExpire = () =>
  pool.query("update promo_sandbox.sessions set until = now() - interval '1 s' where state = 'launching'");

/** Holds a session until all that works at once waits for its lock: only so do all meet on a slow machine. */
const whileHeld = <T>(sessionId: string, work: () => Promise<T>): Promise<T> =>
  withClient(database.url, (holder) =>
    withClient(database.url, async (observer) => {
      // Connections that begin meanwhile would come too late on a busy machine.
      await many(() => pool.query('select pg_sleep(0.2)'));
      await holder.query('begin');
      await holder.query('select from promo_sandbox.sessions where session_id = $1 for update', [sessionId]);
      const working = work();
      await until('all wait for the session', LOCK_WAITS_BEGIN_WITHIN_MS, async () => {
        const { rows } = await observer.query(WAITING);
        return rows.length === AT_ONCE;
      });
      await holder.query('commit');
      return await working;
    }),
  );

describe('launches of one token at once', () => {
  test('begin one session [O13]', async () => {
    const { beginLaunch } = makeSessionStore(pool);
    const begun = await many((place) => beginLaunch('acme', { ...launch, token: 'once' }, `once-${place}`));
    expect(begun.filter(({ type }) => type === 'begun')).toHaveLength(1);
    const others = begun.flatMap((each) => (each.type === 'answer' ? [each.answer.status] : []));
    expect(new Set(others)).toEqual(new Set([503]));
  });

  test('take one launch over whose process is gone, which opens nothing any more [O13]', async () => {
    const { beginLaunch, openSession } = makeSessionStore(pool);
    const first = await beginLaunch('acme', { ...launch, token: 'gone' }, 'gone-1');
    if (first.type !== 'begun') throw new Error('the first launch did not begin');
    await letLaunchesExpire();
    const again = await whileHeld('gone-1', () =>
      many((place) => beginLaunch('acme', { ...launch, token: 'gone' }, `gone-2-${place}`)),
    );
    const begun = again.flatMap((each) => (each.type === 'begun' ? [each.session] : []));
    expect(begun.map(({ sessionId, launchNo }) => [sessionId, launchNo])).toEqual([['gone-1', 2]]);
    expect(await openSession(first.session, 60)).toBeNull();
    const [second] = begun;
    expect(second && (await openSession(second, 60))?.state).toBe('open');
  });

  test('of several operators begin a session each', async () => {
    const { beginLaunch } = makeSessionStore(pool);
    const begun = await many((place) => beginLaunch(`op-${place}`, launch, `each-${place}`));
    expect(begun.every(({ type }) => type === 'begun')).toBe(true);
  });
});

test('a session past its end is expired, and stays as it ended', async () => {
  const { openDemo, findSession, endSession } = makeSessionStore(pool);
  await openDemo('acme', { game: 'g', currency: 'EUR' }, 'demo-1', 60);
  await pool.query("update promo_sandbox.sessions set until = now() where session_id = 'demo-1'");
  expect((await findSession('acme', 'demo-1'))?.state).toBe('expired');
  await openDemo('acme', { game: 'g', currency: 'EUR' }, 'demo-2', 60);
  await endSession('acme', 'demo-2', 'closed');
  expect((await endSession('acme', 'demo-2', 'expired'))?.state).toBe('closed');
  expect(await endSession('globex', 'demo-2', 'closed')).toBeNull();
});

test('grants of one key at once are one grant of one body [O13]', async () => {
  const { grant } = makeSessionStore(pool);
  const granted = await many((place) =>
    grant('acme', 'k', { grantId: `g-${place}`, bodyHash: `b-${place % 3}` }),
  );
  expect(new Set(granted.map(({ grantId }) => grantId)).size).toBe(1);
  expect(granted.filter(({ isSame }) => isSame)).toHaveLength(AT_ONCE / 3);
});

test('faults of one call are counted once each', async () => {
  const { countFault } = makeSessionStore(pool);
  const counts = await many(() => countFault('acme', 'h'));
  expect(counts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: AT_ONCE }, (_, place) => place + 1));
});

describe('rounds', () => {
  const store = () => makeRoundStore(pool);
  const begin = async (roundId: string, bodyHash = 'b') => {
    await makeSessionStore(pool).openDemo('acme', { game: 'g', currency: 'EUR' }, `of-${roundId}`, 60);
    const round = {
      operatorId: 'acme',
      sessionId: `of-${roundId}`,
      plan: aRoundPlan({ roundId, wins: [], isClosed: false }),
      attribution: 'none',
    };
    return store().beginRound(round, bodyHash);
  };

  test('are taken by one process at a time, and not before their lease ends [O14]', async () => {
    const { round } = await begin('taken');
    expect(await store().takeRounds(10)).toEqual([]);
    await store().returnRound(round, 0);
    const taken = await many(() => store().takeRounds(10));
    expect(taken.flat().map(({ plan: { roundId } }) => roundId)).toEqual(['taken']);
  });

  test('keep an event once, and their end for good [O14]', async () => {
    const { round } = await begin('kept');
    const event = { eventId: 'kept-bet-1', kind: 'bet', amount: '1.00' } as const;
    await many(() => store().keepRound(round, [event], 'playing'));
    await store().keepRound(round, [event], 'settled');
    await store().keepRound(round, [], 'refunded');
    expect((await store().findRound('acme', 'kept'))?.state).toBe('settled');
    expect(await store().eventsOf(round)).toEqual([{ ...event, verdict: null, reason: null }]);
  });

  test('have events that one process sends at a time, until they have a verdict', async () => {
    const { round } = await begin('sent');
    const events = [1, 2, 3].map((n) => ({ eventId: `sent-${n}`, kind: 'bet', amount: '1.00' }) as const);
    await pool.query('delete from promo_sandbox.events');
    await store().keepRound(round, events, 'playing');
    const taken = (await many(() => store().takeEvents('acme', 10, 60_000))).flat();
    expect(taken.map(({ body }) => JSON.parse(body).event_id)).toEqual(['sent-1', 'sent-2', 'sent-3']);
    await store().returnEvents(taken, 0);
    const again = await store().takeEvents('acme', 10, 0);
    expect(again.map(({ failures }) => failures)).toEqual([1, 1, 1]);
    await store().keepVerdicts(again.map(({ eventNo }) => ({ eventNo, verdict: 'accepted', reason: null })));
    expect(await store().takeEvents('acme', 10, 0)).toEqual([]);
  });
});

test('tables of another version are not used', async () => {
  await pool.query("comment on schema promo_sandbox is 'promo-intake sandbox, version 0'");
  expect(await prepareSandboxTables(pool)).toBe('promo-intake sandbox, version 0');
});

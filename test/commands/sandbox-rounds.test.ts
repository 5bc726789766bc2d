/** Rounds of the sandbox against a real wallet, and their events in a real intake. */
import { isObject } from '../../src/lib/json';
import type { RunningSandbox, SandboxReply } from '../support/sandbox';
import { SandboxWorld } from '../support/sandbox-world';

const PLAY = '/sandbox/playRound';

let world: SandboxWorld;
let sandbox: RunningSandbox;
let session: string;
beforeAll(async () => {
  world = await SandboxWorld.open();
  sandbox = await world.startSandbox(await world.startIntake());
  session = await world.launch(sandbox);
});
afterAll(() => world.close());
afterEach(() => {
  world.faultOf = () => 'none';
});

/** Kinds, amounts and verdicts of the events. */
const eventsOf = ({ body }: SandboxReply): string[] =>
  (Array.isArray(body.events) ? body.events : []).map((event: unknown) =>
    isObject(event) ? `${event.kind} ${event.amount} ${event.verdict}` : '',
  );

const actionsOf = ({ body }: SandboxReply): unknown[] =>
  (Array.isArray(body.calls) ? body.calls : []).map((call: unknown) => isObject(call) && call.action);

/** Plays a round, and waits for its end and its verdicts. */
async function play(more: object): Promise<{ reply: SandboxReply; moved: number }> {
  const before = await world.balance();
  const { status, body } = await sandbox.call(PLAY, { session_id: session, ...more });
  expect([200, 202]).toContain(status);
  const reply = await world.ended(sandbox, body.round_id);
  return { reply, moved: (await world.balance()) - before };
}

describe('a round', () => {
  test('is settled: the wallet moves, and its events are accepted', async () => {
    const { reply, moved } = await play({ bets: ['1.00', '0.50'], wins: ['2.50'] });
    expect(reply.body).toMatchObject({ state: 'settled', attribution: 'none' });
    expect(moved).toBe(100);
    expect(world.tenants).toEqual(new Set(['tenant-7']));
    expect(eventsOf(reply)).toEqual([
      'bet 1.00 accepted',
      'bet 0.50 accepted',
      'win 2.50 accepted',
      'settled 1.50 accepted',
    ]);
    expect(await world.rows('select count(*)::int from promo.anomalies')).toEqual([[0]]);
  });

  test('is credited to the promo_player_ref of its launch', async () => {
    const bonus = await world.launch(sandbox, {
      token: 't-limited',
      player: 'p-limited',
      attributes: { promo_player_ref: 'p-normal' },
    });
    const { body } = await sandbox.call(PLAY, { session_id: bonus, bets: ['1.00'] });
    expect(body).toMatchObject({ state: 'refused' });
    const usual = await world.launch(sandbox, {
      token: 't-poor',
      player: 'p-poor',
      attributes: { promo_player_ref: 'p-normal' },
    });
    const played = await sandbox.call(PLAY, { session_id: usual, bets: ['1.00'] });
    const reply = await world.ended(sandbox, played.body.round_id);
    expect(reply.body).toMatchObject({ state: 'settled', attribution: 'set' });
    const credited = await world.rows(
      `select player_ref, credited_player from promo.ledger where round_id = '${played.body.round_id}'`,
    );
    expect(credited).toEqual([
      ['p-poor', 'p-normal'],
      ['p-poor', 'p-normal'],
    ]);
  });

  test('that the game gives up is refunded, and counts nothing', async () => {
    const { reply, moved } = await play({ bets: ['1.00', '2.00'], ending: 'void' });
    expect([reply.body.state, moved]).toEqual(['refunded', 0]);
    expect(eventsOf(reply)).toEqual(['bet 1.00 accepted', 'bet 2.00 accepted', 'refund 3.00 accepted']);
    const sums = await world.rows(
      `select kind, sum(amount_minor)::int from promo.ledger where round_id = '${reply.body.round_id}' group by kind`,
    );
    expect(sums).toEqual([['bet', 0]]);
  });

  test.each(['lost', 'away'] as const)(
    'whose bet has no answer (%s) is rolled back and refunded',
    async (fault) => {
      world.faultOf = (action) => (action === 'debit' ? fault : 'none');
      const { reply, moved } = await play({ bets: ['1.00'], wins: ['5.00'] });
      expect([reply.body.state, moved]).toEqual(['refunded', 0]);
      expect(eventsOf(reply)).toEqual(['refund 1.00 accepted']);
    },
  );

  test('whose second bet has no answer gives the first stake back too', async () => {
    world.faultOf = (_, opId) => (opId.endsWith('-bet-2') ? 'lost' : 'none');
    const { reply, moved } = await play({ bets: ['1.00', '2.00', '4.00'], wins: ['5.00'] });
    expect([reply.body.state, moved]).toEqual(['refunded', 0]);
    expect(eventsOf(reply)).toEqual(['bet 1.00 accepted', 'refund 3.00 accepted']);
  });

  test('whose first bet is refused has no events', async () => {
    const { reply, moved } = await play({ bets: ['99999999.00'], wins: ['1.00'] });
    expect([reply.body.state, moved, eventsOf(reply)]).toEqual(['refused', 0, []]);
  });

  test('whose second bet is refused is settled with the first one', async () => {
    const { reply, moved } = await play({ bets: ['1.00', '99999999.00', '3.00'], wins: ['2.00'] });
    expect([reply.body.state, moved]).toEqual(['settled', 100]);
    expect(eventsOf(reply)).toEqual(['bet 1.00 accepted', 'win 2.00 accepted', 'settled 1.00 accepted']);
  });

  test('whose win is refused is given back as a whole', async () => {
    world.faultOf = (_, opId) => (opId.endsWith('-win-2') ? 'ERROR_CODE_PLAYER_NOT_FOUND' : 'none');
    const { reply, moved } = await play({ bets: ['1.00'], wins: ['2.00', '3.00'] });
    expect([reply.body.state, moved]).toEqual(['refunded', 0]);
    expect(eventsOf(reply)).toEqual(['bet 1.00 accepted', 'win 2.00 accepted', 'refund 1.00 accepted']);
  });

  test('whose win loses its first reply pays once', async () => {
    world.faultOf = (_, opId) => (opId.endsWith('-win-1') && world.seen.get(opId) === 1 ? 'lost' : 'none');
    const { reply, moved } = await play({ bets: ['1.00'], wins: ['4.00'] });
    expect([reply.body.state, moved]).toEqual(['settled', 300]);
    const [winId] = [...world.seen.keys()].filter(
      (opId) => opId.startsWith(String(reply.body.round_id)) && opId.endsWith('-win-1'),
    );
    expect(world.seen.get(winId ?? '')).toBe(2);
  });

  test('that is atomic moves the difference in one call', async () => {
    const { reply, moved } = await play({ bets: ['1.00'], wins: ['2.50'], atomic: true });
    expect([reply.body.state, moved]).toEqual(['settled', 150]);
    expect(actionsOf(reply)).toEqual(['authenticate', 'debit_and_credit', 'close_round']);
    expect(eventsOf(reply)).toEqual(['bet 1.00 accepted', 'win 2.50 accepted', 'settled 1.00 accepted']);
  });

  test('that is atomic, and whose reply is lost, is rolled back as a whole', async () => {
    world.faultOf = (action) => (action === 'debit-and-credit' ? 'lost' : 'none');
    const { reply, moved } = await play({ bets: ['1.00'], wins: ['2.50'], atomic: true });
    expect([reply.body.state, moved]).toEqual(['refunded', 0]);
    expect(actionsOf(reply)).toEqual(['authenticate', 'debit_and_credit', 'rollback']);
    expect(eventsOf(reply)).toEqual(['refund 1.00 accepted']);
  });

  test('of a session that the wallet refuses takes no stake', async () => {
    world.faultOf = (action) => (action === 'authenticate' ? 'ERROR_CODE_SESSION_EXPIRED' : 'none');
    const { reply, moved } = await play({ bets: ['1.00'], wins: ['1.00'] });
    expect([reply.body.state, moved, eventsOf(reply)]).toEqual(['refused', 0, []]);
    expect(actionsOf(reply)).toEqual(['authenticate']);
  });

  test('whose rollback is refused needs people', async () => {
    world.faultOf = (action) => (action === 'rollback' ? 'ERROR_CODE_BUSINESS_REJECTED' : 'none');
    const { reply } = await play({ bets: ['1.00'], ending: 'void' });
    expect([reply.body.state, eventsOf(reply)]).toEqual(['unresolved', ['bet 1.00 accepted']]);
  });

  test('of one round_id from twenty clients at once is played once; another body gives 409', async () => {
    const before = await world.balance();
    const round = { session_id: session, round_id: 'once', bets: ['1.00'], wins: ['3.00'] };
    const replies = await Promise.all(Array.from({ length: 20 }, () => sandbox.call(PLAY, round)));
    expect(replies.filter(({ status }) => status !== 200 && status !== 202)).toEqual([]);
    await world.ended(sandbox, 'once');
    expect((await world.balance()) - before).toBe(200);
    expect((await sandbox.call(PLAY, { ...round, bets: ['2.00'] })).status).toBe(409);
  });

  test.each([
    ['a zero amount', { bets: ['0.00'] }, 400],
    ['too many decimals', { bets: ['1.001'] }, 400],
    ['a sum that is too large', { bets: ['90000000000000000.00', '90000000000000000.00'] }, 400],
    ['no bet', { bets: [] }, 400],
    ['wins although it is void', { bets: ['1.00'], wins: ['1.00'], ending: 'void' }, 400],
    ['two bets in one atomic call', { bets: ['1.00', '1.00'], wins: ['1.00'], atomic: true }, 400],
    ['an unknown session', { bets: ['1.00'], session_id: 's-none' }, 404],
  ])('with %s is refused', async (_, more, status) => {
    expect((await sandbox.call(PLAY, { session_id: session, ...more })).status).toBe(status);
  });

  test('of a session that has ended is refused', async () => {
    const ending = await world.launch(sandbox, { token: 't-blocked', player: 'p-blocked' });
    await sandbox.call('/sandbox/endSession', { session_id: ending });
    expect((await sandbox.call(PLAY, { session_id: ending, bets: ['1.00'] })).status).toBe(409);
  });
});

test('no player, token or secret is in the log', () => {
  expect(sandbox.command.output()).not.toMatch(/p-usual|t-usual|p-normal|secret-of|whsec_/);
});

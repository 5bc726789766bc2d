/** A sandbox that is killed while it plays rounds, and an intake that is away. */
import { inRun } from '../../dev/long-run';
import { sleep, until } from '../../dev/servers/deadline';
import { isObject } from '../../src/lib/json';
import type { RunningSandbox } from '../support/sandbox';
import { SandboxWorld } from '../support/sandbox-world';

const PLAY = '/sandbox/playRound';
const GET = '/sandbox/getRound';
const KILLS = inRun({ usual: 2, long: 4 });
const ROUNDS_A_LIFE = 6;
/** So many rounds are stored before the sandbox is killed: a slow machine takes long to begin. */
const LEAST_STORED = 2;
const STORED_MS = 60_000;

let world: SandboxWorld;
beforeEach(async () => {
  world = await SandboxWorld.open();
});
afterEach(() => world.close());

const kindsOf = (events: unknown): string[] =>
  (Array.isArray(events) ? events : []).flatMap((event: unknown) =>
    isObject(event) ? `${event.kind}/${event.verdict}` : [],
  );

test('that is killed with -9 ends each round settled, refunded or without a bet, never half [O14]', async () => {
  const intake = await world.startIntake();
  const before = await world.balance();
  world.delayMs = () => Math.random() * 120;
  world.faultOf = (action, opId) =>
    action !== 'rollback' && world.seen.get(opId) === 1 && Math.random() < 0.1 ? 'lost' : 'none';
  const ids: string[] = [];
  let sandbox: RunningSandbox;
  let session: string;
  for (let life = 0; life < KILLS; life++) {
    sandbox = await world.startSandbox(intake);
    session = await world.launch(sandbox);
    const idsOfLife = Array.from({ length: ROUNDS_A_LIFE }, (_, place) => `k${life}-${place}`);
    ids.push(...idsOfLife);
    const playing = idsOfLife.map((id, place) => {
      const round = { session_id: session, round_id: id, bets: ['1.00', '2.00'], wins: ['5.00'] };
      return sandbox.call(PLAY, { ...round, ...(place === 0 && { wins: [], ending: 'void' }) });
    });
    const broken = Promise.allSettled(playing);
    await until('rounds are stored', STORED_MS, async () => {
      const found = await Promise.all(idsOfLife.map((id) => sandbox.call(GET, { round_id: id })));
      return found.filter(({ status }) => status !== 404).length >= LEAST_STORED;
    });
    await sleep(Math.random() * 700);
    sandbox.command.signal('SIGKILL');
    await sandbox.command.ending();
    await broken;
  }
  const last = await world.startSandbox(intake);
  let [expected, ended] = [0, 0];
  for (const id of ids) {
    const { status } = await last.call(GET, { round_id: id });
    if (status === 404) continue;
    const { body } = await world.ended(last, id);
    ended++;
    const kinds = kindsOf(body.events);
    // The time of a stored bet was over before it was sent: no money moved, so there is no event.
    if (body.state === 'refused') {
      expect([id, kinds]).toEqual([id, []]);
      continue;
    }
    const isSettled = body.state === 'settled';
    expect([id, body.state]).toEqual([id, isSettled ? 'settled' : 'refunded']);
    expect(kinds.filter((kind) => /^(settled|refund)/.test(kind))).toEqual([
      isSettled ? 'settled/accepted' : 'refund/accepted',
    ]);
    if (isSettled) {
      expect(kinds).toEqual(['bet/accepted', 'bet/accepted', 'win/accepted', 'settled/accepted']);
      expected += 200;
    }
  }
  expect(ended).toBeGreaterThanOrEqual(LEAST_STORED * KILLS);
  expect((await world.balance()) - before).toBe(expected);
  const counted = await world.rows(
    "select coalesce(sum(case kind when 'win' then amount_minor when 'bet' then -amount_minor else 0 end), 0)::int from promo.ledger",
  );
  expect(counted).toEqual([[expected]]);
  expect(await world.rows('select * from promo.anomalies')).toEqual([]);
});

test('whose intake is away keeps the events, and sends them once it is back', async () => {
  const port = await world.startIntake();
  await world.stopIntake();
  const sandbox = await world.startSandbox(port);
  const session = await world.launch(sandbox);
  const { body } = await sandbox.call(PLAY, { session_id: session, round_id: 'kept', bets: ['1.00'] });
  expect([body.state, kindsOf(body.events)]).toEqual(['settled', ['bet/null', 'settled/null']]);
  await sandbox.command.waitForLog('cannot publish events of the sandbox, retrying');
  await world.startIntake(port);
  expect(kindsOf((await world.ended(sandbox, 'kept')).body.events)).toEqual([
    'bet/accepted',
    'settled/accepted',
  ]);
});

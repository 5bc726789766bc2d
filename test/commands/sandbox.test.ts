/** The sandbox as a process, on a real Postgres: the behaviours that the contract shows of operator calls. */
import { connect } from 'node:net';
import { Client } from 'pg';
import { until } from '../../dev/servers/deadline';
import { OPERATOR_OPERATION_NAMES } from '../../src/contract/operations';
import { SERVICE_ERROR_NAMES, serviceError } from '../../src/contract/service-errors';
import { withClient } from '../support/ledger';
import { clientOf, type RunningSandbox, SandboxFiles, startSandbox } from '../support/sandbox';
import { type FreshDatabase, freshDatabase } from '../support/servers';

const FILE = `operators:
  - id: acme
    keys:
      - { id: acme-key, secret_file: sandbox.secret }
      - { id: acme-reader, secret_file: sandbox.secret, access: read_only }
    players: [p-1, p-2]
  - id: closed-club
    active: false
    keys: [{ id: closed-key, secret_file: sandbox.secret }]
  - id: globex
    keys: [{ id: globex-key, secret_file: sandbox.secret }]
    brands: [red, blue]
games:
  - { id: g1 }
  - { id: g2, demo_supported: false }
  - { id: g3, available: false }
`;
const LAUNCH = '/v2/aggregator/launchGame';
const DEMO = '/v2/aggregator/launchDemo';
const GRANT = '/v2/aggregator/issueGrant';
const END = '/sandbox/endSession';

let database: FreshDatabase;
let files: SandboxFiles;
let sandbox: RunningSandbox;
beforeAll(async () => {
  database = await freshDatabase();
  files = new SandboxFiles();
  sandbox = await startSandbox(files.write('sandbox.yaml', FILE), { DATABASE_URL: database.url });
});
afterAll(async () => {
  sandbox.command.signal('SIGTERM');
  expect((await sandbox.command.ending()).code).toBe(0);
  files.remove();
  await database.drop();
});

let tokens = 0;
const aLaunch = (more: object = {}) => ({
  token: `t-${++tokens}`,
  player: 'p-1',
  game: 'g1',
  currency: 'EUR',
  ...more,
});
const seconds = (offset: number) => String(Math.floor(Date.now() / 1_000) + offset);

describe('each answer says sandbox', () => {
  test('in its header and its body [O15]', async () => {
    const launched = await sandbox.call(LAUNCH, aLaunch());
    const refused = await sandbox.call(LAUNCH, {});
    expect(launched).toMatchObject({ status: 200, body: { sandbox: true } });
    expect(refused).toMatchObject({ status: 400, message: expect.stringMatching(/\(sandbox\)$/) });
    for (const { headers } of [launched, refused]) expect(headers.get('x-sandbox')).toBe('promo-intake');
  });
});

describe('the signature', () => {
  test.each<[string, object, number, string]>([
    ['of no key', { headers: { 'x-api-key-id': undefined } }, 401, 'unauthorized'],
    ['of an unknown key', { key: 'nobody' }, 401, 'unauthorized'],
    ['is missing', { headers: { 'x-signature': undefined } }, 401, 'signature_missing'],
    ['has no time', { headers: { 'x-timestamp': undefined } }, 401, 'signature_missing'],
    ['of another secret', { secret: 'another' }, 401, 'signature_invalid'],
    ['of another time', { headers: { 'x-timestamp': seconds(-1) } }, 401, 'signature_invalid'],
    ['with a time that is none', { timestamp: 'today' }, 401, 'signature_stale'],
    ['of a suspended operator', { key: 'closed-key' }, 403, 'operator_suspended'],
    ['of a read-only key', { key: 'acme-reader' }, 403, 'forbidden'],
  ])('%s gives %s', async (_, options, status, token) => {
    const reply = await sandbox.call(LAUNCH, aLaunch(), options);
    expect([reply.status, reply.message.split(':')[0]]).toEqual([status, token]);
  });

  test.each([
    [-310, 401],
    [-290, 200],
    [290, 200],
    [310, 401],
  ])('whose time is %i s off gives %i', async (offset, status) => {
    expect((await sandbox.call(LAUNCH, aLaunch(), { timestamp: seconds(offset) })).status).toBe(status);
  });

  test('covers method, path and body', async () => {
    const call = clientOf(sandbox.port);
    const signed = { 'x-signature': 'f'.repeat(64) };
    expect((await call(LAUNCH, aLaunch(), { headers: signed })).message).toMatch(/^signature_invalid/);
    expect((await call(`${LAUNCH}?a=1`, aLaunch())).status).toBe(200);
  });
});

describe('a launch', () => {
  test('again with the same token returns the same session', async () => {
    const launch = aLaunch();
    const [first, second] = [await sandbox.call(LAUNCH, launch), await sandbox.call(LAUNCH, launch)];
    expect(second.body).toEqual(first.body);
  });

  test.each([
    ['player', 'p-2'],
    ['game', 'g2'],
    ['currency', 'USD'],
  ])('with the token of another %s gives 409', async (field, value) => {
    const launch = aLaunch();
    await sandbox.call(LAUNCH, launch);
    expect(await sandbox.call(LAUNCH, { ...launch, [field]: value })).toMatchObject({
      status: 409,
      body: { code: 'ERROR_CODE_IDEMPOTENCY_CONFLICT' },
      message: expect.stringMatching(/^session_token_conflict/),
    });
  });

  test.each(['closed', 'expired'])('with the token of a session that is %s gives 409', async (as) => {
    const launch = aLaunch();
    const { body } = await sandbox.call(LAUNCH, launch);
    expect((await sandbox.call(END, { session_id: body.session_id, as })).status).toBe(200);
    expect(await sandbox.call(LAUNCH, launch)).toMatchObject({
      status: 409,
      message: expect.stringMatching(/^session_token_conflict/),
    });
  });

  test('while the first one runs gives 503, and the session afterwards', async () => {
    const launch = aLaunch();
    const first = sandbox.call(LAUNCH, launch, { headers: { 'x-sandbox-delay-ms': '6000' } });
    await withClient(database.url, (client) =>
      until('the first one runs', 30_000, async () => {
        const { rowCount } = await client.query(
          `select from promo_sandbox.sessions where token = $1 and state = 'launching'`,
          [launch.token],
        );
        return rowCount === 1;
      }),
    );
    const meanwhile = await sandbox.call(LAUNCH, launch);
    expect(meanwhile).toMatchObject({
      status: 503,
      body: { code: 'ERROR_CODE_INTERNAL', retryable: true },
      message: expect.stringMatching(/^launch_in_progress/),
    });
    expect(meanwhile.headers.get('retry-after')).toBe('1');
    const conflict = await sandbox.call(LAUNCH, { ...launch, game: 'g2' });
    expect(conflict.status).toBe(409);
    const session = (await first).body;
    expect((await sandbox.call(LAUNCH, launch)).body).toEqual(session);
  });

  test('at once from twenty clients with one token begins one session [O13]', async () => {
    const launch = aLaunch();
    const replies = await Promise.all(
      Array.from({ length: 20 }, () =>
        sandbox.call(LAUNCH, launch, { headers: { 'x-sandbox-delay-ms': '1000' } }),
      ),
    );
    const sessions = new Set(replies.flatMap(({ body }) => body.session_id ?? []));
    expect(sessions.size).toBe(1);
    expect(replies.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
    expect(replies.filter(({ status }) => status === 503).length).toBeGreaterThan(0);
  });

  test('keeps promo_player_ref', async () => {
    const launch = aLaunch({ attributes: { promo_player_ref: 'p-2' } });
    expect((await sandbox.call(LAUNCH, launch)).body.promo_player_ref).toBe('p-2');
  });

  test.each([
    ['empty', ''],
    ['with a space', 'p 2'],
    ['with a no-break space', 'p\u00a02'],
    ['with U+0085', 'p\u00852'],
    ['of 256 characters', 'p'.repeat(256)],
    ['of no player of the operator', 'p-3'],
    ['that is a number', 7],
  ])('with a promo_player_ref %s is an InvalidArgument', async (_, ref) => {
    const reply = await sandbox.call(LAUNCH, aLaunch({ attributes: { promo_player_ref: ref } }));
    expect([reply.status, reply.message]).toEqual([400, expect.stringContaining('InvalidArgument: ')]);
  });

  test.each([
    ['an unknown game', { game: 'g9' }, 404, 'game not found'],
    ['a game that is not available', { game: 'g3' }, 403, 'game_unavailable'],
    ['an unknown player', { player: 'p-9' }, 404, 'player_not_found'],
    ['a brand where there is one', { brand: 'red' }, 400, 'invalid_request'],
    ['an unknown currency', { currency: 'XXX' }, 400, 'invalid_request'],
    ['U+0000 in its token', { token: 'a\u0000' }, 400, 'invalid_request'],
    ['half of a surrogate pair in its player', { player: 'a\ud800' }, 400, 'invalid_request'],
  ])('with %s is refused', async (_, more, status, token) => {
    const reply = await sandbox.call(LAUNCH, aLaunch(more));
    expect([reply.status, reply.message.split(':')[0]]).toEqual([status, token]);
  });

  test('names a brand where the operator has several', async () => {
    const key = { key: 'globex-key' };
    expect((await sandbox.call(LAUNCH, aLaunch({ brand: 'red' }), key)).status).toBe(200);
    for (const [brand, fault] of [
      [undefined, 'brand is missing'],
      ['green', 'brand is none of the operator'],
    ] as const)
      expect(await sandbox.call(LAUNCH, aLaunch({ brand }), key)).toMatchObject({
        status: 400,
        message: expect.stringContaining(`${fault}; its brands: red, blue`),
      });
  });

  test('with a token of another operator is another session', async () => {
    const launch = aLaunch();
    const ours = await sandbox.call(LAUNCH, launch);
    const theirs = await sandbox.call(LAUNCH, { ...launch, brand: 'red', game: 'g2' }, { key: 'globex-key' });
    expect(theirs.status).toBe(200);
    expect(theirs.body.session_id).not.toBe(ours.body.session_id);
    expect(
      (await sandbox.call(END, { session_id: ours.body.session_id }, { key: 'globex-key' })).status,
    ).toBe(404);
  });
});

describe('a demo', () => {
  test('of a game that has none gives 412', async () => {
    expect((await sandbox.call(DEMO, { game: 'g1' })).body).toMatchObject({ is_demo: true, player: null });
    expect(await sandbox.call(DEMO, { game: 'g2' })).toMatchObject({
      status: 412,
      message: expect.stringMatching(/^DEMO_NOT_SUPPORTED/),
    });
  });
});

describe('a grant', () => {
  const grant = { idempotency_key: 'k-1', player: 'p-1', game: 'g1', rounds: 10 };

  test('of one key from twenty clients at once is one grant; another body gives 409', async () => {
    const replies = await Promise.all(Array.from({ length: 20 }, () => sandbox.call(GRANT, grant)));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(replies.map(({ body }) => body.grant_id)).size).toBe(1);
    const reordered = Object.fromEntries(Object.entries(grant).toReversed());
    expect((await sandbox.call(GRANT, reordered)).body).toEqual(replies[0]?.body);
    expect(await sandbox.call(GRANT, { ...grant, rounds: 11 })).toMatchObject({
      status: 409,
      body: { code: 'ERROR_CODE_IDEMPOTENCY_CONFLICT' },
    });
  });

  test('with different bodies from twenty clients at once succeeds for one body', async () => {
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        sandbox.call(GRANT, { ...grant, idempotency_key: 'k-2', rounds: 1 + (i % 4) }),
      ),
    );
    const granted = replies.filter(({ status }) => status === 200);
    expect(new Set(granted.map(({ body }) => body.rounds)).size).toBe(1);
    expect([granted.length, replies.filter(({ status }) => status === 409).length]).toEqual([5, 15]);
  });
});

describe('an ordered fault', () => {
  test.each(SERVICE_ERROR_NAMES)('%s has the status, code and token of the contract', async (name) => {
    const { status, codes, isRetryable, tokens } = serviceError(name);
    const reply = await sandbox.call(LAUNCH, aLaunch(), { headers: { 'x-sandbox-fault': name } });
    expect(reply).toMatchObject({ status, body: { code: codes[0] } });
    expect(reply.body.retryable).toBe(isRetryable ? true : undefined);
    expect(reply.message.startsWith(tokens[0] ?? '')).toBe(true);
  });

  test('may be a token of the contract', async () => {
    const headers = { 'x-sandbox-fault': 'PLAYER_COOL_OFF' };
    expect(await sandbox.call(LAUNCH, aLaunch(), { headers })).toMatchObject({
      status: 403,
      message: expect.stringMatching(/^PLAYER_COOL_OFF/),
    });
  });

  test('with times=2 lets the third attempt of the same call succeed', async () => {
    const launch = aLaunch();
    const headers = { 'x-sandbox-fault': 'provider_timeout; times=2' };
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) statuses.push((await sandbox.call(LAUNCH, launch, { headers })).status);
    expect(statuses).toEqual([504, 504, 200]);
  });

  test('with after loses the answer of a launch that took place', async () => {
    const launch = aLaunch();
    const headers = { 'x-sandbox-fault': 'provider_timeout; after' };
    expect((await sandbox.call(LAUNCH, launch, { headers })).status).toBe(504);
    expect((await sandbox.call(LAUNCH, { ...launch, game: 'g2' })).status).toBe(409);
    expect((await sandbox.call(LAUNCH, launch)).status).toBe(200);
  });

  test('is counted by its token, too', async () => {
    const body = aLaunch();
    for (const token of ['game_unavailable', 'PLAYER_COOL_OFF']) {
      const headers = { 'x-sandbox-fault': `${token}; times=1` };
      const { status, message } = await sandbox.call(LAUNCH, body, { headers });
      expect([status, String(message).split(':')[0]]).toEqual([403, token]);
    }
  });

  test.each(['nonsense', 'provider_timeout; times=0', 'provider_timeout; later'])(
    '%s is refused',
    async (order) => {
      const reply = await sandbox.call(LAUNCH, aLaunch(), { headers: { 'x-sandbox-fault': order } });
      expect([reply.status, reply.message.split(':')[0]]).toEqual([400, 'invalid_request']);
    },
  );

  test('of a caller without a signature is not given', async () => {
    const headers = { 'x-sandbox-fault': 'provider_timeout', 'x-signature': undefined };
    expect((await sandbox.call(LAUNCH, aLaunch(), { headers })).status).toBe(401);
  });
});

describe('the other operations', () => {
  test.each(OPERATOR_OPERATION_NAMES.filter((name) => !/^(launch(Game|Demo)|issueGrant)$/.test(name)))(
    '%s gives 422',
    async (name) => {
      const document = await (await fetch(`http://127.0.0.1:${sandbox.port}/openapi.json`)).text();
      const path = new RegExp(`"(/v2/(?:aggregator|features)/${name})"`).exec(document)?.[1] ?? '';
      expect(await sandbox.call(path, {})).toMatchObject({
        status: 422,
        body: { code: 'ERROR_CODE_INVALID_REQUEST' },
        message: expect.stringMatching(/^unsupported action/),
      });
    },
  );

  test('a read-only key may read, and not write', async () => {
    const options = { key: 'acme-reader' };
    expect((await sandbox.call('/v2/aggregator/listGames', {}, options)).status).toBe(422);
    expect((await sandbox.call('/v2/aggregator/closeSession', {}, options)).status).toBe(403);
  });
});

describe('a request that HTTP refuses', () => {
  test.each<[string, string, string, object, number]>([
    ['to another path', '/v2/aggregator/none', '{}', {}, 404],
    ['by GET', LAUNCH, '', { method: 'GET' }, 405],
    ['that is no JSON', LAUNCH, '{', {}, 400],
    ['of another type', LAUNCH, '{}', { headers: { 'content-type': 'text/plain' } }, 415],
    ['that is too large', LAUNCH, JSON.stringify({ token: 'x'.repeat(70_000) }), {}, 413],
  ])('%s has the error body', async (_, path, body, options, status) => {
    const reply = await sandbox.call(path, body, options);
    expect(reply).toMatchObject({ status, body: { code: 'ERROR_CODE_INVALID_REQUEST' } });
  });
});

test('bytes that are no request get an answer that says sandbox [O15]', async () => {
  const socket = connect(sandbox.port, '127.0.0.1');
  socket.end('no request\r\n\r\n');
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) text += chunk;
  expect(text).toMatch(
    /^HTTP\/1\.1 400 .*x-sandbox: promo-intake\r\n.*"message":"invalid request: [^"]*\(sandbox\)"/s,
  );
});

describe('the state', () => {
  test('survives a restart, and stays out of the schemas of production [O15]', async () => {
    const launch = aLaunch();
    const { body } = await sandbox.call(LAUNCH, launch);
    const other = await startSandbox(files.write('again.yaml', FILE), { DATABASE_URL: database.url });
    expect((await other.call(LAUNCH, launch)).body).toEqual(body);
    other.command.signal('SIGKILL');
    await other.command.ending();
    const client = new Client({ connectionString: database.url });
    await client.connect();
    const { rows } = await client.query(
      "select distinct table_schema from information_schema.tables where table_schema !~ '^(pg_|information)'",
    );
    await client.end();
    expect(rows).toEqual([{ table_schema: 'promo_sandbox' }]);
  });
});

test('no secret and no player is in its log', () => {
  expect(sandbox.command.output()).not.toMatch(/the-secret|p-1|"t-\d/);
});

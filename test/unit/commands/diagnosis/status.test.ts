/** The report of `status` from the facts of Kafka and of the store, and its settings. */
import { lookAgain } from '../../../../src/commands/diagnosis/status';
import { assess, type Facts } from '../../../../src/commands/diagnosis/status-assessment';
import { describeReport } from '../../../../src/commands/diagnosis/status-report';
import { describeConfig } from '../../../../src/config/config';
import { onCluster } from '../../../../src/ledger/stored-state';

const value = <T>(value: T) => ({ value });
const at = { topic: 't', partition: 0 };
const facts = (more: Partial<Facts> = {}): Facts => ({
  migrations: ['0001'],
  versions: value({ migrations: ['0001'], referenceVersion: 3, referenceAppliedAt: 'then', topics: ['t'] }),
  balance: value([
    { ...at, cluster: null, decidedUpTo: 9, recordsRead: 9, became: 9, deadLetters: 1, idleSeconds: 70 },
  ]),
  positions: value([{ ...at, low: 0, high: 12, committed: 10 }]),
  members: value(1),
  walletCalls: value({ open: 2, unresolved: 0, oldestDueSeconds: 0 }),
  oldestSeconds: new Map([['t/0', 5]]),
  oldestUnknown: null,
  wanted: ['t'],
  damages: value(null),
  configuration: [],
  ...more,
});
const needs = (more: Partial<Facts>) => assess(facts(more)).needs_a_person;

test('lag that workers reduce needs no person [U1]', () => {
  expect(assess(facts())).toMatchObject({
    needs_a_person: [],
    schema: { newest: '0001', missing: [] },
    reference: { version: 3 },
    lag: { records: 2, seconds: 5, undecided_partitions: 0 },
    balance: { records_read: 9, became: 9, dead_letters: 1 },
    wallet_calls: { open: 2, unresolved: 0, oldest_due_seconds: 0 },
    partitions: [{ ...at, lag_records: 2, lag_seconds: 5, idle_seconds: 70, undecided: false }],
  });
});

test('rollups: late ones are a problem, a process that stopped days ago is a note, and none is neither [L5]', () => {
  const late = assess(
    facts({ rollups: value({ lagSeconds: 61.4, isRunning: true, heldByPid: null, isFilling: true }) }),
  );
  expect(late.needs_a_person).toEqual(['the rollups are 61 s behind: the log of their process says why']);
  expect(describeReport(late)).toContain('rollups     61 s behind; being counted again');
  const stopped = assess(
    facts({ rollups: value({ lagSeconds: 90_000, isRunning: false, heldByPid: null, isFilling: false }) }),
  );
  expect(stopped.needs_a_person).toEqual([]);
  expect(stopped.notes).toContainEqual(
    expect.stringMatching(/^no process keeps the rollups, .*: run promo-intake rollups$/),
  );
  expect(assess(facts({ rollups: value(null) }))).toMatchObject({ needs_a_person: [], rollups: null });
});

test('pseudonyms: late ones are a problem, but not during a new key, and a process that stopped days ago is a note [Y2]', () => {
  const state = { lagSeconds: 61.4, isRunning: true, heldByPid: null, isFilling: false };
  const late = assess(facts({ pseudonyms: value(state) }));
  expect(late.needs_a_person).toEqual(['the pseudonyms are 61 s behind: the log of their process says why']);
  expect(describeReport(late)).toContain('pseudonyms  61 s behind');
  const rotated = assess(facts({ pseudonyms: value({ ...state, isFilling: true }) }));
  expect(rotated.needs_a_person).toEqual([]);
  expect(describeReport(rotated)).toContain('pseudonyms  61 s behind; a new key is introduced');
  const stopped = assess(facts({ pseudonyms: value({ ...state, isRunning: false, lagSeconds: 90_000 }) }));
  expect(stopped.needs_a_person).toEqual([]);
  expect(stopped.notes).toContain(
    'no process computes pseudonyms, which are 25 h behind: run promo-intake pseudonyms',
  );
  expect(assess(facts({ pseudonyms: value(null) }))).toMatchObject({ needs_a_person: [], pseudonyms: null });
});

test('promotions: late ones are a problem, a process that stopped days ago is a note, and none is neither [P16]', () => {
  const state = { lagSeconds: 61.4, isRunning: true, heldByPid: null, isFilling: true };
  const late = assess(facts({ promotions: value(state) }));
  expect(late.needs_a_person).toEqual(['the promotions are 61 s behind: the log of their process says why']);
  expect(describeReport(late)).toContain('promotions  61 s behind; being counted again');
  expect(needs({ promotions: value({ ...state, heldByPid: 4711 }) })).toEqual([
    'the promotions are 61 s behind: process 4711 of Postgres holds them in an open transaction, see pg_stat_activity',
  ]);
  const stopped = assess(
    facts({ promotions: value({ lagSeconds: 90_000, isRunning: false, heldByPid: null, isFilling: false }) }),
  );
  expect(stopped.needs_a_person).toEqual([]);
  expect(stopped.notes).toContain(
    'no process counts promotions, which are 25 h behind: run promo-intake promotions',
  );
  expect(describeReport(stopped)).toContain('promotions  no process counts them');
  expect(assess(facts({ promotions: value(null) }))).toMatchObject({ needs_a_person: [], promotions: null });
});

test('completions: late ones and refusing topics are problems, a process that stopped days ago is a note [S10]', () => {
  const state = { lagSeconds: 0, isRunning: true, heldBack: [] };
  expect(describeReport(assess(facts({ completions: value(state) })))).toContain(
    'completions published, 0 s behind',
  );
  expect(needs({ completions: value({ ...state, lagSeconds: 90 }) })).toEqual([
    'completions wait for 90 s to be published: the log of their process says why',
  ]);
  const heldBack = [
    { operatorId: 'acme', reason: null, seconds: 5 },
    { operatorId: 'bravo', reason: 'no such topic', seconds: 90 },
  ];
  const refused = assess(facts({ completions: value({ ...state, lagSeconds: 90, heldBack }) }));
  expect(refused.needs_a_person).toEqual(['the completions of bravo are held back for 90 s: no such topic']);
  expect(describeReport(refused)).toContain('completions published, 90 s behind; held back: acme, bravo');
  const stopped = assess(facts({ completions: value({ ...state, isRunning: false, lagSeconds: 90_000 }) }));
  expect(stopped.needs_a_person).toEqual([]);
  expect(stopped.notes).toContainEqual(
    'no process publishes completions, which wait for 25 h: run promo-intake completions',
  );
  expect(assess(facts({ completions: value(null) }))).toMatchObject({
    needs_a_person: [],
    completions: null,
  });
});

test.each([
  [30, 0],
  [61, 4],
  [86_400, 4],
  [86_401, 0],
])('processes that ended %i s ago are %i problems, and notes otherwise', (lagSeconds, problems) => {
  const state = {
    lagSeconds,
    isRunning: false,
    heldByPid: null,
    isFilling: false,
    heldBack: [],
  };
  const of = value(state);
  const report = assess(facts({ rollups: of, pseudonyms: of, promotions: of, completions: of }));
  expect(report.needs_a_person.filter((each) => each.startsWith('no process'))).toHaveLength(problems);
  expect(report.notes.filter((each) => each.startsWith('no process'))).toHaveLength(4 - problems);
});

test('a partition that waits for over a minute with nothing decided is undecided [U2]', () => {
  const oldestSeconds = new Map([['t/0', 90]]);
  expect(needs({ oldestSeconds })).toEqual([
    't/0 is undecided: 2 records wait, the oldest for 90 s, and none was decided for 70 s; /readyz of its worker says why',
  ]);
  const moves = value([
    { ...at, cluster: null, decidedUpTo: 9, recordsRead: 9, became: 9, deadLetters: 0, idleSeconds: 3 },
  ]);
  expect(needs({ oldestSeconds, balance: moves })).toEqual([]);
  expect(needs({ oldestSeconds, balance: value([]) })).toEqual([
    expect.stringContaining('and none was ever decided'),
  ]);
});

test('a partition whose oldest record has an impossible time is judged by its last decision [U2]', () => {
  const oldestSeconds = new Map([['t/0', null]]);
  expect(assess(facts({ oldestSeconds })).partitions).toMatchObject([{ lag_seconds: 70, undecided: true }]);
  const never = value([]);
  expect(needs({ oldestSeconds, balance: never })).toEqual([
    'the age of the waiting records of t/0 is unknown',
  ]);
});

test('a partition that decides during the report is not undecided, for any age of its records', async () => {
  const old = facts({ oldestSeconds: new Map([['t/0', 7_200]]), balance: value([]) });
  expect(assess(old).partitions).toMatchObject([{ undecided: true }]);
  const asked = async (idleSeconds: number, committed = 10) => {
    const balance = [
      { ...at, cluster: null, decidedUpTo: 12, recordsRead: 9, became: 9, deadLetters: 0, idleSeconds },
    ];
    const positions = [{ ...at, low: 0, high: 12, committed }];
    return assess(await lookAgain(old, async () => value({ balance, positions })));
  };
  expect((await asked(2)).needs_a_person).toEqual([]);
  expect(await asked(2, 12)).toMatchObject({ needs_a_person: [], lag: { records: 0 } });
  expect((await asked(3_600)).partitions).toMatchObject([{ undecided: true }]);
  expect(await lookAgain(old, async () => ({ unknown: 'away' }))).toEqual(old);
  // Without a problem there is no second look.
  await expect(lookAgain(facts(), () => Promise.reject(new Error('asked again')))).resolves.toEqual(facts());
});

test('a topic that is no longer read is listed, and needs no person', () => {
  const old = { topic: 'old', partition: 0, low: 0, high: 20, committed: null };
  const balance = value([
    { ...at, cluster: null, decidedUpTo: 9, recordsRead: 9, became: 9, deadLetters: 1, idleSeconds: 70 },
    ...[0, 1].map((partition) => {
      return {
        ...old,
        partition,
        cluster: null,
        decidedUpTo: 15,
        recordsRead: 15,
        became: 15,
        deadLetters: 0,
        idleSeconds: 9e5,
      };
    }),
  ]);
  const positions = value([
    { ...at, low: 0, high: 12, committed: 10 },
    old,
    { ...old, partition: 1, low: 18, committed: 16 },
  ]);
  const report = assess(facts({ balance, positions }));
  expect(report).toMatchObject({
    needs_a_person: [],
    notes: ['no worker reads old any more, and 7 records of it are not decided'],
    lag: { records: 2, seconds: 5 },
    partitions: [at],
  });
  expect(describeReport(report)).toContain(
    'no worker reads old any more, and 7 records of it are not decided',
  );
  expect(assess(facts({ balance, positions: value([{ ...old, low: 15, high: 15 }]) })).notes).toEqual([]);
});

const UNCOMMITTED = { ...at, low: 0, high: 9, committed: null };

test('when Kafka has dropped the committed offset of a group without members, the store has the position', () => {
  const lagOf = (low: number, high: number) =>
    assess(facts({ members: value(0), positions: value([{ ...UNCOMMITTED, low, high }]) })).lag;
  expect(lagOf(0, 12)).toMatchObject({ records: 3 });
  expect(lagOf(10, 12)).toMatchObject({ records: 2 });
  // A topic that was created again.
  expect(lagOf(0, 5)).toMatchObject({ records: 5 });
});

test('records whose verdicts were never published wait, although the store has decided them [S9] [U2]', () => {
  const report = assess(facts({ positions: value([UNCOMMITTED]), oldestSeconds: new Map([['t/0', 4_530]]) }));
  expect(report.lag).toEqual({ records: 9, seconds: 4_530, undecided_partitions: 1 });
  expect(report.needs_a_person).toEqual([
    't/0 is undecided: 9 records wait, the oldest for 75.5 min, and none was decided for 70 s; /readyz of its worker says why',
  ]);
});

test.each<[string, Partial<Facts>, RegExp]>([
  [
    'migrations are missing',
    { migrations: ['0001', '0002'] },
    /lacks the migrations 0002\. Run: promo-intake migrate/,
  ],
  [
    'there is no reference data',
    {
      versions: value({ migrations: ['0001'], referenceVersion: 0, referenceAppliedAt: null, topics: [] }),
    },
    /no reference data/,
  ],
  ['no worker is in the group', { members: value(0) }, /2 records wait, and no worker is in the group/],
  ['a topic is missing', { wanted: ['t', 'other'] }, /Kafka has no topic other/],
  [
    'records were deleted before they were read',
    { positions: value([{ ...at, low: 11, high: 12, committed: 10 }]) },
    /t\/0: offsets 10 to 10 were deleted/,
  ],
  [
    'counters do not balance',
    {
      balance: value([
        { ...at, cluster: null, decidedUpTo: 9, recordsRead: 9, became: 8, deadLetters: 0, idleSeconds: 1 },
      ]),
    },
    /9 records were read, but 8 have a counted result/,
  ],
  ['invariants are damaged', { damages: value(4) }, /4 damages/],
  [
    'wallet calls are unresolved',
    { walletCalls: value({ open: 0, unresolved: 1, oldestDueSeconds: 0 }) },
    /^1 wallet call is unresolved: .* promo\.close_wallet_call/,
  ],
  [
    'a wallet call is due for long',
    { walletCalls: value({ open: 1, unresolved: 0, oldestDueSeconds: 301 }) },
    /^the oldest due wallet call has waited for 301 s: start a process/,
  ],
])('reports: %s', (_, more, expected) => {
  expect(needs(more)).toEqual([expect.stringMatching(expected)]);
});

test('an unreachable server is reported once, and the report has all other parts', () => {
  const gone = { unknown: 'Kafka is away' };
  const report = assess(facts({ positions: gone, members: gone }));
  expect(report).toMatchObject({
    needs_a_person: ['unknown: lag, members of the group: Kafka is away'],
    lag: gone,
    balance: { records_read: 9 },
  });
  const noStore = { unknown: 'no answer within 15 s' };
  const withoutStore = assess(facts({ versions: noStore, balance: noStore }));
  expect(withoutStore.lag).toMatchObject({ records: 2, undecided_partitions: null });
  expect(describeReport(withoutStore)).toContain('lag         2 records, 5 s; undecided partitions unknown');
});

test('a partition whose lag in seconds is unknown is reported, also when others are known', () => {
  const other = { ...at, partition: 1, low: 0, high: 9, committed: 4 };
  const idle = { ...at, partition: 2, low: 0, high: 4, committed: 4 };
  const positions = value([{ ...at, low: 0, high: 12, committed: 10 }, other, idle]);
  const report = assess(
    facts({ positions, oldestUnknown: 'Kafka returned no more records within 15000 ms' }),
  );
  expect(report).toMatchObject({
    needs_a_person: [
      'the age of the waiting records of t/1 is unknown: Kafka returned no more records within 15000 ms',
    ],
    lag: { records: 7, seconds: null },
    partitions: [{ lag_seconds: 5 }, { lag_seconds: null }, { lag_seconds: 0 }],
  });
  // A read that failed late, after all partitions had answered.
  expect(needs({ oldestUnknown: 'no answer within 20 s' })).toEqual([]);
});

test('a topic that ends before its committed offset has no lag, and is reported', () => {
  const report = assess(facts({ positions: value([{ ...at, low: 0, high: 3, committed: 10 }]) }));
  expect(report).toMatchObject({
    needs_a_person: [expect.stringMatching(/^t\/0: offset 10 is committed, but Kafka ends at 3: /)],
    lag: { records: 0, seconds: 0 },
  });
});

test('settings are shown with their effective values, and without secrets', () => {
  const secret = 's3cret';
  const shown = describeConfig(
    {
      DATABASE_URL: `postgres://promo:${secret}@db:5432/promo?options=${secret}`,
      KAFKA_SASL_PASSWORD: `http://${secret}@x`,
      SCHEMA_REGISTRY_URL: ` https://${secret}:${secret}@registry`,
      SCHEMA_REGISTRY_TOKEN_FILE: '/run/token',
    },
    ['DATABASE', 'KAFKA', 'SCHEMA_REGISTRY', 'KAFKA_GROUP_ID'],
  );
  expect(JSON.stringify(shown)).not.toContain(secret);
  expect(shown).toEqual(
    expect.arrayContaining([
      { name: 'DATABASE_URL', value: 'postgres://promo:***@db:5432/promo?options=***', from: 'environment' },
      { name: 'KAFKA_SASL_PASSWORD', value: '***', from: 'environment' },
      { name: 'SCHEMA_REGISTRY_URL', value: 'https://***:***@registry/', from: 'environment' },
      { name: 'SCHEMA_REGISTRY_TOKEN', value: 'in /run/token', from: 'file' },
      { name: 'KAFKA_GROUP_ID', value: 'promo-intake', from: 'default' },
      { name: 'KAFKA_BROKERS', value: null, from: 'absent' },
    ]),
  );
});

it('compares Kafka only with partitions of its own cluster [U9]', () => {
  const of = (cluster: string | null) => ({
    ...at,
    decidedUpTo: 9,
    recordsRead: 9,
    became: 9,
    deadLetters: 0,
    idleSeconds: 1,
    cluster,
  });
  const all = [of('A'), of('B'), of(null)];
  expect(onCluster(all, 'B').map(({ cluster }) => cluster)).toEqual(['B', null]);
  expect(onCluster(all, null)).toEqual(all);
});

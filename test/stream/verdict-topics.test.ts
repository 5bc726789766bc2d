/** Verdicts on a topic of each operator: which message goes where, and a topic that refuses. */
import Ajv2020 from 'ajv/dist/2020';
import { until } from '../../dev/servers/deadline';
import { idKey } from '../../src/domain/event/id-key';
import { grantRoles } from '../../src/ledger/roles';
import { VERDICT_SCHEMA } from '../../src/publishing/verdict-schema';
import {
  aBet,
  aBrand,
  aDeposit,
  aLogin,
  anOperator,
  aRefund,
  aSettled,
  aWin,
  bytesOf,
} from '../support/builders';
import { alterTopic, type Outgoing, produce, readTopic } from '../support/kafka';
import { dropRoles, makeRole } from '../support/roles';
import { withAdmin } from '../support/servers';
import { RunningCommand } from '../support/worker';
import type { World } from './world';
import { connectionOf, inWorld } from './world';

const bet = (event_id: string, connection?: string): Outgoing => ({
  value: bytesOf(aBet({ event_id, brand: 'main' })),
  ...(connection !== undefined && { headers: { 'connection-id': connection } }),
});

const OPERATORS = ['acme', 'beta'] as const;
const brands = [aBrand({ id: 'main' })];

/** Each operator has a topic, and both have connections of the topic `shared`. */
const twoOperators = ({ acme, beta, shared }: Record<'acme' | 'beta' | 'shared', string>) =>
  OPERATORS.map((id) =>
    anOperator({
      id,
      brands,
      connections: [connectionOf({ acme, beta }[id], { id }), connectionOf(shared, { id: `${id}-shared` })],
    }),
  );
const TOPICS = { acme: 1, beta: 1, shared: 1 } as const;

/** VERDICT_TOPIC of a world, and the topic of one operator. */
const patternOf = ({ groupId }: World<string>) => `verdicts.${groupId}.{operator}`;
const topicOf = (world: World<string>, operator: string) => patternOf(world).replace('{operator}', operator);

async function idsIn(topic: string): Promise<string[]> {
  const messages = await readTopic(topic);
  return messages.map(({ value }) => {
    const { event_id, event_key } = JSON.parse(String(value));
    return event_id ?? IDS_BY_KEY.get(event_key);
  });
}

/**
 * A message that was refused is sent again with a key in place of its id. The topic may take messages again
 * between the two.
 */
const IDS_BY_KEY = new Map(['b-1', 's-2'].map((id) => [idKey(id).toString('hex'), id]));

const withoutTopics = async (world: World<string>) => {
  const ours = OPERATORS.map((operator) => topicOf(world, operator));
  await withAdmin(async (admin) => {
    const existing = await admin.listTopics();
    await admin.deleteTopics({ topics: ours.filter((topic) => existing.includes(topic)) });
  });
};

test('a verdict goes to the topic of its operator, which the worker creates [S9]', () =>
  inWorld({ topics: TOPICS, operators: twoOperators }, async (world) => {
    const { acme, beta, shared } = world.topics;
    await produce(acme, [bet('a-1'), bet('a-2')]);
    await produce(beta, [bet('b-1')]);
    await produce(shared, [
      bet('s-1', 'acme-shared'),
      bet('s-2', 'beta-shared'),
      bet('nobody', 'unknown'),
      bet('s-3', 'acme-shared'),
    ]);
    const worker = await world.drain({ VERDICT_TOPIC: patternOf(world) });
    expect((await idsIn(topicOf(world, 'acme'))).sort()).toEqual(['a-1', 'a-2', 's-1', 's-3']);
    expect((await idsIn(topicOf(world, 'beta'))).sort()).toEqual(['b-1', 's-2']);
    expect(worker.logged('topic created').map(({ topic }) => topic)).toEqual([
      world.deadLetterTopic,
      ...OPERATORS.map((operator) => topicOf(world, operator)),
    ]);
    await withoutTopics(world);
  }));

test('a topic that refuses leaves the partitions of its operator undecided, and no others [S9 U2]', () =>
  inWorld({ topics: TOPICS, operators: twoOperators }, async (world) => {
    const { acme, beta, shared } = world.topics;
    await produce(beta, [bet('b-0')]);
    const worker = await world.started({ VERDICT_TOPIC: patternOf(world) });
    await until('the first record is committed', 60_000, async () => (await world.committed(beta))[0] === 1);
    const refusing = topicOf(world, 'beta');
    await alterTopic(refusing, { 'max.message.bytes': '20' });
    await produce(beta, [bet('b-1')]);
    await produce(shared, [bet('s-1', 'acme-shared'), bet('s-2', 'beta-shared'), bet('s-3', 'acme-shared')]);
    await until('both partitions with records of beta wait', 60_000, () =>
      [beta, shared].every((of) => worker.logged('partition is undecided').some(({ topic }) => topic === of)),
    );
    await produce(
      acme,
      Array.from({ length: 500 }, (_, index) => bet(`a-${index}`)),
    );
    await until(
      'the partition of acme is committed',
      60_000,
      async () => (await world.committed(acme))[0] === 500,
    );
    expect((await idsIn(topicOf(world, 'acme'))).length).toBe(502);
    expect(await world.committed(shared)).toEqual([-1]);
    expect(await world.committed(beta)).toEqual([1]);

    await alterTopic(refusing, { 'max.message.bytes': '1000000' });
    await until('all is committed', 60_000, async () => (await world.committed(shared))[0] === 3);
    await until('all is committed', 60_000, async () => (await world.committed(beta))[0] === 2);
    // The messages to acme's topic were not sent again with those to beta's.
    expect((await idsIn(topicOf(world, 'acme'))).filter((id) => id.startsWith('s'))).toEqual(['s-1', 's-3']);
    expect((await idsIn(refusing)).sort()).toEqual(['b-0', 'b-1', 's-2']);
    await withoutTopics(world);
  }));

test('an operator that can have no topic is undecided, and workers and replays go on for the others [S9]', () =>
  inWorld(
    {
      topics: { acme: 1, odd: 1 },
      operators: ({ acme, odd }) => [
        anOperator({ id: 'acme', brands, connections: [connectionOf(acme, { id: 'acme' })] }),
        anOperator({ id: 'odd+one', brands, connections: [connectionOf(odd, { id: 'odd' })] }),
      ],
    },
    async (world) => {
      const { acme, odd } = world.topics;
      await produce(odd, [bet('o-1')]);
      await produce(acme, [bet('a-1')]);
      const worker = await world.started({ VERDICT_TOPIC: patternOf(world) });
      await until('acme is committed', 60_000, async () => (await world.committed(acme))[0] === 1);
      await until('the other one waits', 60_000, () =>
        worker.logged('partition is undecided').some(({ topic }) => topic === odd),
      );
      expect(await world.committed(odd)).toEqual([-1]);
      expect(worker.logged('operator can have no verdict topic').map(({ error }) => error)).toEqual([
        expect.stringContaining('operator "odd+one" makes'),
      ]);
      const settings = { ...world.settings, VERDICT_TOPIC: patternOf(world) };
      // The store has decided the record: it waits for its verdict.
      const status = new RunningCommand(['status', '--json'], settings);
      await status.ending();
      const { partitions } = JSON.parse(status.output());
      expect(partitions).toContainEqual(expect.objectContaining({ topic: odd, lag_records: 1 }));
      const replay = new RunningCommand(['replay', '--topic', acme, '--since', SINCE, '--confirm'], settings);
      expect(await replay.ending()).toEqual({ code: 0, signal: null });
      await withoutTopics(world);
    },
  ));

test('topics that become compacted are named by the log, the metric and status, and are sent to once they are not [S9]', () =>
  inWorld({ topics: TOPICS, operators: twoOperators }, async (world) => {
    const { acme } = world.topics;
    const settings = { ...world.settings, VERDICT_TOPIC: patternOf(world) };
    const worker = await world.started({ VERDICT_TOPIC: patternOf(world) });
    await produce(acme, [bet('a-1')]);
    await until('its topic is there', 60_000, async () => (await world.committed(acme))[0] === 1);
    const [topic, another] = [topicOf(world, 'acme'), topicOf(world, 'beta')];
    for (const each of [topic, another]) await alterTopic(each, { 'cleanup.policy': 'compact' });
    await produce(acme, [{ value: 'no event, so its message has no key' }]);
    await until('the record waits', 60_000, () => worker.logged('partition is undecided').length >= 2);
    const remedy = /compacted.* refuses messages without a key: set its cleanup.policy to delete$/;
    expect(worker.logged('partition is undecided').at(-1)?.error).toMatch(remedy);
    expect(await worker.metric(`promo_intake_verdict_topic_refuses{topic="${topic}"}`)).toBe(1);
    const status = new RunningCommand(['status', '--json'], settings);
    expect(await status.ending()).toEqual({ code: 1, signal: null });
    const problems: string[] = JSON.parse(status.output()).needs_a_person;
    expect(problems.filter((problem) => remedy.test(problem))).toEqual(
      [topic, another].map((each) => expect.stringContaining(`VERDICT_TOPIC: Topic ${each} is compacted.`)),
    );
    await alterTopic(topic, { 'cleanup.policy': 'delete' });
    await until('it is published', 60_000, async () => (await world.committed(acme))[0] === 2);
  }));

test('status says to a reader which roles see the topics of operators [S9]', () =>
  inWorld({ topics: TOPICS, operators: twoOperators }, async (world) => {
    const url = String(world.settings.DATABASE_URL);
    const reader = await makeRole(url, 'reader');
    try {
      await grantRoles(url, [{ role: 'reader', name: reader.name }]);
      const settings = { ...world.settings, DATABASE_URL: reader.url, VERDICT_TOPIC: patternOf(world) };
      const status = new RunningCommand(['status', '--json'], settings);
      await status.ending();
      const { verdict_topics: topics, needs_a_person: problems } = JSON.parse(status.output());
      expect(topics.unknown).toMatch(/^the user of DATABASE_URL may not read .* Run status as a writer/);
      expect(problems).not.toContainEqual(expect.stringContaining('permission'));
    } finally {
      await dropRoles(url, [reader.name]);
    }
  }));

test('workers refuse to start where no operator can have a topic [S9]', () =>
  inWorld(
    {
      topics: { odd: 1 },
      operators: ({ odd }) => [anOperator({ id: 'odd+one', brands, connections: [connectionOf(odd)] })],
    },
    async (world) => {
      const worker = world.start({ VERDICT_TOPIC: patternOf(world) });
      expect(await worker.ending()).toEqual({ code: 1, signal: null });
      expect(worker.output()).toContain('which is not a Kafka topic name');
    },
  ));

const SINCE = '2020-01-01T00:00:00Z';
const ROUND = { round_id: 'r-1', player_ref: 'p-1' };
/** Every verdict, a refund with its repetition, and records of which no event can be read. */
const ALL_KINDS: readonly Outgoing[] = [
  { key: 'p-1', value: bytesOf(aBet({ event_id: 'bet', ...ROUND, amount: '10.50' })) },
  { key: Buffer.from([0xff, 1]), value: bytesOf(aWin({ event_id: 'win', ...ROUND, amount: '3' })) },
  { key: 'k'.repeat(2_000), value: bytesOf(aSettled({ event_id: 'settled', ...ROUND, amount: '10.5' })) },
  { key: 'ü', value: bytesOf(aBet({ event_id: 'ümlaut', round_id: 'r'.repeat(1_001) })) },
  { value: bytesOf(aBet({ event_id: 'rejected', amount: 'ten' })) },
  { value: bytesOf(aBet({ event_id: 'skipped', amount: '0' })) },
  { value: bytesOf(aBet({ event_id: 'bet', ...ROUND, amount: '10.50' })) },
  { value: bytesOf(aBet({ event_id: 'bet', ...ROUND, amount: '11' })) },
  { value: bytesOf(aRefund(aBet(ROUND), { event_id: 'refund' })) },
  { value: bytesOf(aRefund(aBet(ROUND), { event_id: 'second refund' })) },
  { value: bytesOf(aRefund(aBet(ROUND), { event_id: 'refund' })) },
  { value: bytesOf(aWin({ event_id: 'late win', ...ROUND, amount: '1' })) },
  { value: bytesOf(aDeposit({ event_id: 'deposit', amount: '0.01' })) },
  { value: bytesOf(aLogin({ event_id: 'login' })) },
  { value: 'no event' },
];

const valuesIn = async (topic: string) => (await readTopic(topic)).map(({ value }) => String(value));

test('a message has what its event was about, and each reading of a record gives the same message [S7]', () =>
  inWorld({ topics: { main: 1, verdicts: 1 } }, async (world) => {
    const { main, verdicts } = world.topics;
    await produce(main, ALL_KINDS);
    await world.drain({ VERDICT_TOPIC: verdicts });
    const first = await valuesIn(verdicts);
    expect(first).toHaveLength(ALL_KINDS.length);
    const validate = new Ajv2020({ strict: true, allErrors: true }).compile(VERDICT_SCHEMA);
    const messages = first.map((value) => JSON.parse(value));
    expect(messages.filter((message) => !validate(message))).toEqual([]);
    const about = (index: number) => messages.find(({ source }) => source.offset === String(index));
    const decided = await world.rows(
      `select event_id, to_char(decided_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') from promo.verdicts`,
    );
    for (const [eventId, decidedAt] of decided)
      expect(messages.find((each) => each.event_id === eventId)?.decided_at).toBe(decidedAt);
    const EUR = { brand: 'main', currency: 'EUR', round_id: 'r-1' };
    expect(about(0)).toMatchObject({ ...EUR, kind: 'bet', amount: '10.50', source: { key: 'p-1' } });
    expect(about(1)).toMatchObject({ ...EUR, amount: '3.00', source: { key: null, key_base64: '/wE=' } });
    expect(about(2)).toMatchObject({ ...EUR, kind: 'settled', source: { key: null, key_bytes: 2_000 } });
    expect(about(3)).toMatchObject({ round_id: null, round_key: expect.any(String), source: { key: 'ü' } });
    expect(about(4)).toMatchObject({ verdict: 'rejected', kind: 'bet', amount: null, currency: 'EUR' });
    expect(about(7)).toMatchObject({ verdict: 'duplicate', content_differs: true, amount: '11.00' });
    expect(about(8).reversed).toEqual([{ currency: 'EUR', bet: '10.50', win: '3.00', settled: '10.50' }]);
    expect(about(9).reversed).toEqual([]);
    expect(about(10)).not.toHaveProperty('reversed');
    expect(about(13)).toMatchObject({ kind: 'login', amount: null, currency: null, round_id: null });
    expect(about(14)).toMatchObject({ event_id: null, kind: null, decided_at: expect.any(String) });

    await world.drain({ VERDICT_TOPIC: verdicts, KAFKA_GROUP_ID: `${world.groupId}-again` });
    const replay = new RunningCommand(['replay', '--topic', main, '--since', SINCE, '--confirm'], {
      ...world.settings,
      VERDICT_TOPIC: verdicts,
    });
    expect(await replay.ending()).toEqual({ code: 0, signal: null });
    expect((await valuesIn(verdicts)).sort()).toEqual([...first, ...first, ...first].sort());
  }));

/** Verdicts on a topic of each operator: which message goes where, and a topic that refuses. */
import { until } from '../../dev/servers/deadline';
import { aBet, aBrand, anOperator, bytesOf } from '../support/builders';
import { alterTopic, type Outgoing, produce, readTopic } from '../support/kafka';
import { withAdmin } from '../support/servers';
import type { World } from './world';
import { connectionOf, inWorld } from './world';

jest.setTimeout(120_000);

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
  return messages.map(({ value }) => JSON.parse(String(value)).event_id);
}

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
    await world.untilDecided(1);
    const refusing = topicOf(world, 'beta');
    await alterTopic(refusing, { 'max.message.bytes': '20' });
    await produce(beta, [bet('b-1')]);
    await produce(shared, [bet('s-1', 'acme-shared'), bet('s-2', 'beta-shared'), bet('s-3', 'acme-shared')]);
    await until('both partitions with records of beta wait', 30_000, () =>
      [beta, shared].every((of) => worker.logged('partition is undecided').some(({ topic }) => topic === of)),
    );
    await produce(
      acme,
      Array.from({ length: 500 }, (_, index) => bet(`a-${index}`)),
    );
    await until(
      'the partition of acme is committed',
      30_000,
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

/** Completions out: from the ledger of completions to topics, over a real Kafka and a real Postgres. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import pino from 'pino';
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { installProduceEncoder } from '../../src/kafka/client/patches/produce';
import { makeTopicsProducer, type TopicsProducer } from '../../src/kafka/producer';
import { systemClock } from '../../src/lib/clock';
import { COMPLETION_SCHEMA } from '../../src/promotion-publishing/completion-schema';
import { BATCH_ENTRIES } from '../../src/promotion-publishing/outbox';
import { runPublishing } from '../../src/promotion-publishing/run';
import { aCompletionPublisher, addEntries, addPromotions, idOf } from '../support/completions';
import { alterTopic, type Incoming, readTopic } from '../support/kafka';
import { freshStore, type TestStore } from '../support/ledger';
import { startProgram } from '../support/program';
import { kafkaBrokers, kafkaClient, withAdmin } from '../support/servers';

let producer: TopicsProducer;
const created: string[] = [];
beforeAll(async () => {
  // This patch alone: the readers of this process are plain kafkajs.
  installProduceEncoder();
  producer = await makeTopicsProducer(kafkaClient(), (topic) => created.push(topic));
});
afterAll(async () => {
  await producer.stop();
  await withAdmin((admin) => deleteTopics(admin, created));
});

let store: TestStore;
let pattern: string;
beforeEach(async () => {
  store = await freshStore();
  await addPromotions(store.pool);
  // Entries are written by SQL, and no progress is worth them.
  store.damaged = true;
  pattern = `completions.${randomBytes(6).toString('hex')}.{operator}`;
});
afterEach(() => store.close());

const topicOf = (operator: string) => pattern.replace('{operator}', operator);
const bodiesOf = (records: readonly Incoming[]) => records.map(({ value }) => JSON.parse(String(value)));
const bodiesIn = async (topic: string) => bodiesOf(await readTopic(topic));
const entriesIn = async (topic: string) => (await bodiesIn(topic)).map(({ entry_no }) => entry_no);
const publisher = (options: Partial<Parameters<typeof aCompletionPublisher>[0]> = {}) =>
  aCompletionPublisher({ store: store.pool, producer, pattern, ...options });
const cursors = () =>
  store.rows(
    'select after, (select string_agg(operator_id, $1) from promo.held_back_completions) from promo_store.completion_outbox',
    [','],
  );

test('each entry is a message of its operator, with the id as its key, and fits the schema [S10]', async () => {
  await addEntries(
    store.pool,
    {},
    { change: 2 },
    { promotion: 'race', player: 'p-2', ordinal: 3 },
    { operator: 'bravo' },
    { change: 1 },
  );
  const step = await publisher().step();
  expect(step).toMatchObject({ kind: 'published', messages: 5, heldBack: [] });
  const records = [...(await readTopic(topicOf('acme'))), ...(await readTopic(topicOf('bravo')))];
  const bodies = bodiesOf(records).sort((a, b) => a.entry_no - b.entry_no);
  const validate = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true }).compile(
    COMPLETION_SCHEMA,
  );
  expect(bodies.filter((body) => !validate(body))).toEqual([]);
  expect(records.map(({ key, value }) => key === JSON.parse(String(value)).completion_id)).toEqual(
    Array(5).fill(true),
  );
  expect(bodies.map(({ change, operator_id }) => `${operator_id} ${change}`)).toEqual([
    'acme completed',
    'acme confirmed',
    'acme completed',
    'bravo completed',
    'acme revoked',
  ]);
  expect(bodies[0]).toEqual({
    spec: 'promo.completion.v1',
    completion_id: idOf({}),
    change: 'completed',
    operator_id: 'acme',
    promotion_id: 'target',
    version: 1,
    type: 'deposit_target',
    window: { key: '2026-11-20', starts_at: '2026-11-20T00:00:00.000000Z', ends_at: null },
    player_ref: 'p-1',
    ordinal: 1,
    attempt: 1,
    rank: null,
    decided_by: 8192,
    at: '2026-11-20T09:00:00.000250Z',
    entry_no: 1,
  });
  expect(bodies[1].decided_by).toBeNull();
  expect(bodies[2]).toMatchObject({ type: 'leaderboard', ordinal: 3, rank: 3 });
  expect(await publisher().step()).toMatchObject({ messages: 0, hasAdvanced: false });
});

test('entries of a batch and of the next one come in their order, none left out [S10]', async () => {
  const count = BATCH_ENTRIES + 500;
  await store.rows(
    `insert into promo_store.promotion_completions (completion_id, change, window_no, player_ref, ordinal, attempt, changed_at)
    select decode(md5((n / 2)::text), 'hex'), n % 2, 1, 'p', 1, 1, now() from generate_series(0, $1 - 1) n`,
    [count],
  );
  const steps = publisher();
  expect(await steps.step()).toMatchObject({ messages: BATCH_ENTRIES });
  expect(await steps.step()).toMatchObject({ messages: 500 });
  const [[operator = null] = []] = await store.rows(
    'select o.operator_id from promo_store.promotion_windows join promo_store.promotions using (promotion_no) join promo_store.operators o using (operator_no) where window_no = 1',
  );
  const bodies = await bodiesIn(topicOf(operator ?? ''));
  expect(bodies.map(({ entry_no }) => entry_no).sort((a, b) => a - b)).toEqual(
    Array.from({ length: count }, (_, index) => index + 1),
  );
  const changes = Map.groupBy(bodies, ({ completion_id }) => completion_id);
  expect([...changes.values()].every(([first]) => first.change === 'completed')).toBe(true);
});

test('a publisher that is killed after Kafka has the messages repeats them, with equal ids [S10]', async () => {
  await addEntries(store.pool, {}, { change: 1 }, { operator: 'bravo' });
  const killed = startProgram(join(__dirname, 'killed-publisher-program.ts'), {
    DATABASE_URL: store.url,
    BROKERS: kafkaBrokers().join(','),
    PATTERN: pattern,
  });
  await killed.waitForLine('sent');
  expect((await killed.kill()).signal).toBe('SIGKILL');
  expect(await cursors()).toEqual([['0', null]]);
  const next = publisher({ holder: 'next' });
  expect(await next.step()).toMatchObject({ kind: 'standby' });
  await until('the lease is over', 60_000, async () => {
    const step = await next.step();
    return step.kind === 'published' && step.messages === 3;
  });
  const first = await bodiesIn(topicOf('acme'));
  expect(first.map(({ entry_no }) => entry_no)).toEqual([1, 2, 1, 2]);
  expect(first.slice(0, 2)).toEqual(first.slice(2));
  expect(await entriesIn(topicOf('bravo'))).toEqual([3, 3]);
});

test('of two publishers one works, and the cursor moves once for each entry [S10]', async () => {
  const sent: string[] = [];
  const onCompletions = (topic: string, messages: number) => sent.push(`${topic} ${messages}`);
  const [one, two] = ['one', 'two'].map((holder) => publisher({ holder, onCompletions }));
  await addEntries(store.pool, {}, { operator: 'bravo' });
  const kinds = await Promise.all([one?.step(), two?.step()]);
  expect(kinds.map((step) => step?.kind).sort()).toEqual(['published', 'standby']);
  expect(sent.sort()).toEqual([`${topicOf('acme')} 1`, `${topicOf('bravo')} 1`]);
  // The lease of the first one ends while it sends: the second one repeats, and the first moves nothing.
  await addEntries(store.pool, { player: 'p-2' });
  const holder = kinds[0]?.kind === 'published' ? 'one' : 'two';
  const slow: TopicsProducer = {
    ...producer,
    async send(...values) {
      await store.rows('update promo_store.completion_outbox set held_until = now()');
      expect(await publisher({ holder: 'third' }).step()).toMatchObject({ messages: 1 });
      await producer.send(...values);
    },
  };
  expect(await publisher({ holder, producer: slow }).step()).toMatchObject({ kind: 'standby' });
  expect(await entriesIn(topicOf('acme'))).toEqual([1, 3, 3]);
  expect(await cursors()).toEqual([['3', null]]);
});

test('a lease that was written while the clock of Postgres was an hour ahead is over [S10]', async () => {
  await publisher({ holder: 'crashed' }).step();
  await store.rows(`update promo_store.completion_outbox set held_until = held_until + interval '1 hour'`);
  const isRunning = () => store.value('select is_running from promo.completion_publishing');
  expect(await isRunning()).toBe('f');
  await addEntries(store.pool, {});
  expect(await publisher({ holder: 'next' }).step()).toMatchObject({ kind: 'published', messages: 1 });
  expect(await isRunning()).toBe('t');
});

test('a topic that refuses holds back its operator alone, which then catches up in order [S10]', async () => {
  await addEntries(store.pool, {}, { operator: 'bravo' });
  const lines: string[] = [];
  const steps = publisher({ onCompletions: (topic, n, isStored) => lines.push(`${topic} ${n} ${isStored}`) });
  await steps.step();
  await alterTopic(topicOf('bravo'), { 'max.message.bytes': '20' });
  await addEntries(
    store.pool,
    { player: 'p-2' },
    { operator: 'bravo', player: 'p-2' },
    { operator: 'bravo', player: 'p-2', change: 1 },
    { player: 'p-3' },
  );
  expect(await steps.step()).toMatchObject({ messages: 2, heldBack: [{ operatorId: 'bravo', failures: 1 }] });
  await addEntries(store.pool, { operator: 'bravo', player: 'p-3' }, { player: 'p-4' });
  expect(await steps.step()).toMatchObject({ messages: 1, heldBack: [] });
  expect(await entriesIn(topicOf('acme'))).toEqual([1, 3, 6, 8]);
  expect(await cursors()).toEqual([['8', 'bravo']]);
  const [[from, reason] = []] = await store.rows(
    'select published_up_to, reason from promo.held_back_completions',
  );
  expect(from).toBe('3');
  expect(reason).toMatch(/too large|larger/i);

  const end = new AbortController();
  const log: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => log.push(line) });
  const running = runPublishing(
    { publisher: steps, clock: systemClock, logger, intervalMs: 50, observe: () => undefined },
    end.signal,
  );
  await until('the topic has refused again', 60_000, () =>
    log.some((line) => line.includes('are held back')),
  );
  await addEntries(store.pool, { player: 'p-5' }, { operator: 'bravo', player: 'p-5' });
  await until('the other operator goes on', 60_000, async () => (await cursors())[0]?.[0] === '10');
  await alterTopic(topicOf('bravo'), { 'max.message.bytes': '1000000' });
  await until('it has caught up', 60_000, async () => (await cursors())[0]?.[1] === null);
  await addEntries(store.pool, { operator: 'bravo', player: 'p-6' });
  await until('it is published as before', 60_000, async () => (await cursors())[0]?.[0] === '11');
  end.abort();
  await running;
  expect(await entriesIn(topicOf('bravo'))).toEqual([2, 4, 5, 7, 10, 11]);
  expect(await entriesIn(topicOf('acme'))).toEqual([1, 3, 6, 8, 9]);
  expect(log.some((line) => line.includes('no longer held back'))).toBe(true);
});

test('an operator that can have no topic is held back, and the others go on [S10]', async () => {
  pattern = pattern.replace('{operator}', `${'x'.repeat(219)}.{operator}`);
  await addEntries(store.pool, {}, { operator: 'bravo' });
  const step = await publisher().step();
  expect(step).toMatchObject({ messages: 1, heldBack: [{ operatorId: 'bravo' }] });
});

test('with one topic for all operators, nothing moves while it refuses [S10]', async () => {
  pattern = pattern.replace('.{operator}', '');
  await addEntries(store.pool, {});
  await publisher().step();
  await alterTopic(pattern, { 'max.message.bytes': '20' });
  await addEntries(store.pool, { operator: 'bravo' }, { change: 1 });
  await expect(publisher().step()).rejects.toThrow(/large/i);
  expect(await cursors()).toEqual([['1', null]]);
  await alterTopic(pattern, { 'max.message.bytes': '1000000' });
  expect(await publisher().step()).toMatchObject({ messages: 2 });
  expect((await entriesIn(pattern)).sort()).toEqual([1, 2, 3]);
});

test('entries of an erased player that are not published yet do not name the player [S10]', async () => {
  await addEntries(store.pool, { player: 'p-1' });
  await publisher().step();
  await addEntries(store.pool, { player: 'p-1', change: 1 });
  await store.rows(
    `update promo_store.promotion_completions set player_ref = 'erased:1' where player_ref = 'p-1'`,
  );
  await publisher().step();
  expect(
    (await bodiesIn(topicOf('acme'))).map(({ player_ref, change }) => `${player_ref} ${change}`),
  ).toEqual(['p-1 completed', 'erased:1 revoked']);
});

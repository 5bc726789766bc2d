/** `promo-intake completions` as a process, by its role: killed, two at once, and on a Kafka with ACLs. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AclOperationTypes, AclResourceTypes } from 'kafkajs';
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { PUBLISHED_KAFKAJS } from '../../dev/servers/guest';
import { answerNow, deleteTopics } from '../../dev/servers/topics';
import { readCompletionState } from '../../src/ledger/completion-state';
import { grantRoles } from '../../src/ledger/roles';
import { applyPromotions } from '../../src/promotion-store/documents';
import { allowing, createAcls } from '../support/acls';
import { addEntries, addPromotions, type EntryOptions } from '../support/completions';
import { committedOffsets, endOffsets, readTopic } from '../support/kafka';
import { aBet, aRefund, freshStore, type TestStore } from '../support/ledger';
import { definitionsOf } from '../support/promotions';
import { dropRoles, makeRole } from '../support/roles';
import { kafkaBrokers, withAdmin } from '../support/servers';
import { blocksOf } from '../support/terminal';
import { killWorkers, RunningCommand, type Settings } from '../support/worker';
import { startSecured, OPERATOR as USER } from './secured';

const WITHIN_MS = 60_000;
const KILLS = inRun({ usual: 1, long: 2 });
jest.setTimeout(4 * WITHIN_MS);

const PAGE = 'docs/operators/completions.md';
const OPERATORS = ['acme', 'bravo'] as const;

let store: TestStore;
let role: { name: string; url: string };
let pattern: string;
beforeEach(async () => {
  store = await freshStore({ own: true });
  await addPromotions(store.pool);
  // Entries are written by SQL, and no progress is worth them.
  store.damaged = true;
  role = await makeRole(store.url, 'completions');
  await grantRoles(store.url, [{ role: 'completions', name: role.name }]);
  pattern = `completions.${randomBytes(6).toString('hex')}.{operator}`;
});
afterEach(async () => {
  await killWorkers();
  await dropRoles(store.url, [role.name]);
  await store.close();
});

const topicOf = (operator: string) => pattern.replace('{operator}', operator);
const start = (more: Settings = {}) =>
  new RunningCommand(['completions'], {
    KAFKA_BROKERS: kafkaBrokers().join(','),
    DATABASE_URL: role.url,
    COMPLETION_TOPIC: pattern,
    HTTP_PORT: '0',
    ...more,
  });
const messagesIn = async (operator: string, brokers?: string[]) =>
  (await readTopic(topicOf(operator), undefined, brokers)).map(({ value }) => JSON.parse(String(value)));
const untilPublished = () =>
  until('all entries are published', WITHIN_MS, async () => {
    const after = await store.value('select max(after) from promo_store.completion_outbox');
    return after === (await store.value('select max(entry_no) from promo_store.promotion_completions'));
  });

test('of two processes the one that works is killed: another goes on, nothing is missing, and repetitions are equal [S10]', async () => {
  let isDone = false;
  const random = makeRandom(7);
  const writing = (async () => {
    for (let player = 0; !isDone; player++) {
      const entry: EntryOptions = { operator: random.pick(OPERATORS), player: `p-${player}` };
      await addEntries(store.pool, entry, ...(random.chance(0.5) ? [{ ...entry, change: 1 as const }] : []));
    }
  })();
  let processes = [start(), start()];
  const isPublishing = (each: RunningCommand) => each.metric('promo_intake_completions_publishing');
  try {
    for (let kills = 0; kills < KILLS; kills++) {
      let worker: RunningCommand | undefined;
      await until('one process publishes', WITHIN_MS, async () => {
        const states = await Promise.all(processes.map((each) => isPublishing(each).catch(() => 0)));
        worker = processes[states.indexOf(1)];
        return worker !== undefined;
      });
      await worker?.kill();
      processes = [...processes.filter((each) => each !== worker), start()];
    }
    isDone = true;
    await writing;
    await untilPublished();
    for (const each of processes) {
      await until('its next look finds no lag', WITHIN_MS, async () => {
        const lag = await each.metric('promo_intake_completions_lag_seconds').catch(() => Number.NaN);
        return lag < 5;
      });
      expect(each.logged('topic created').length).toBeLessThanOrEqual(2);
      expect(await each.stop()).toEqual({ code: 0, signal: null });
    }
  } finally {
    isDone = true;
    await writing;
  }
  const messages = (await Promise.all(OPERATORS.map((operator) => messagesIn(operator)))).flat();
  const byEntry = Map.groupBy(messages, ({ entry_no }) => entry_no);
  const [[entries = null] = []] = await store.rows('select count(*) from promo_store.promotion_completions');
  expect(byEntry.size).toBe(Number(entries));
  expect(byEntry.size).toBeGreaterThan(100);
  for (const same of byEntry.values())
    expect(new Set(same.map((message) => JSON.stringify(message))).size).toBe(1);
  for (const [first] of Map.groupBy(messages, ({ completion_id }) => completion_id).values())
    expect(first.change).toBe('completed');
  await withAdmin((admin) => deleteTopics(admin, OPERATORS.map(topicOf)));
});

test('a topic that may not be created, and then not be written, holds back its operator until it may be [S10]', async () => {
  const secured = await startSecured();
  try {
    const brokers = secured.servers.kafkaBrokers.split(',');
    const { WRITE, DESCRIBE, CREATE } = AclOperationTypes;
    const { TOPIC } = AclResourceTypes;
    const allow = allowing(USER);
    await createAcls(brokers, allow(TOPIC, topicOf('acme'), WRITE, DESCRIBE, CREATE));
    const running = start({
      ...secured.kafkaAt('SASL_OPEN'),
      KAFKA_SECURITY_PROTOCOL: 'SASL_PLAINTEXT',
      KAFKA_SASL_MECHANISM: 'PLAIN',
      KAFKA_SASL_USERNAME: USER,
      KAFKA_SASL_PASSWORD: secured.operatorPassword,
    });
    await addEntries(store.pool, {}, { operator: 'bravo' }, { operator: 'bravo', change: 1 });
    const line = await running.waitForLog('completions are held back');
    expect(line).toMatchObject({
      operator: 'bravo',
      topic: topicOf('bravo'),
      error: expect.stringMatching(/ACL Create on the topic/),
    });
    await addEntries(store.pool, { player: 'p-2' });
    await untilPublished();
    expect((await messagesIn('acme', brokers)).map(({ entry_no }) => entry_no)).toEqual([1, 4]);
    expect(await store.rows('select operator_id, published_up_to from promo.held_back_completions')).toEqual([
      ['bravo', '1'],
    ]);
    const state = await readCompletionState(role.url);
    expect(state).toMatchObject({ isRunning: true, heldBack: [{ operatorId: 'bravo', reason: line.error }] });
    const refuses = `promo_intake_completion_topic_refuses{topic="${topicOf('bravo')}"}`;
    expect((await running.get('/metrics')).text).toContain(`${refuses} 1`);
    await createAcls(brokers, allow(TOPIC, topicOf('bravo'), DESCRIBE, CREATE));
    const created = await running.waitForLog(({ error }) => String(error).includes('ACL Write'));
    expect(created).toMatchObject({
      msg: 'completions are held back',
      operator: 'bravo',
      error: expect.stringContaining(`${topicOf('bravo')} cannot be written: Not authorized`),
    });
    await createAcls(brokers, allow(TOPIC, topicOf('bravo'), WRITE));
    await running.waitForLog('completions are no longer held back');
    expect((await messagesIn('bravo', brokers)).map(({ entry_no }) => entry_no)).toEqual([2, 3]);
    expect(await running.stop()).toEqual({ code: 0, signal: null });
  } finally {
    await killWorkers();
    await secured.stop();
  }
});

test('a process without a topic, or with the topic of events as one, does not publish [S10]', async () => {
  const without = start({ COMPLETION_TOPIC: undefined });
  expect(await without.ending()).toEqual({ code: 2, signal: null });
  expect(without.output()).toContain('COMPLETION_TOPIC: is not set');
  pattern = '{operator}';
  await addEntries(store.pool, {});
  const running = start();
  const line = await running.waitForLog('completions are held back');
  expect(line.error).toContain('"acme", which is a topic that is read');
  expect(line).not.toHaveProperty('topic');
  expect(await running.stop()).toEqual({ code: 0, signal: null });
});

test('the program of the page credits once for each id, and takes back what is revoked [S10]', async () => {
  const page = readFileSync(join(ROOT, PAGE), 'utf8');
  const blocks = blocksOf(page);
  const example = readFileSync(join(ROOT, 'schemas', 'examples', 'completions', 'completed.json'), 'utf8');
  expect(blocks.map(({ language }) => language)).toEqual(['json', 'js']);
  expect(blocks[0]?.lines.join('\n')).toBe(example.trimEnd());
  // Inside the project, where Node finds the packages.
  const directory = join(ROOT, 'build', `rewards-${randomBytes(6).toString('hex')}`);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'rewards.mjs'), blocks[1]?.lines.join('\n') ?? '');
  const publishing = start();
  await addEntries(
    store.pool,
    ...[{ player: 'p-1' }, { player: 'p-2' }, { player: 'p-2', change: 1 as const }, { player: 'p-3' }],
    { player: 'p-3', change: 2 },
  );
  await untilPublished();
  // All messages come again: a completed comes behind its revoked.
  await store.rows('update promo_store.completion_outbox set after = 0');
  await untilPublished();
  const group = `rewards-${randomBytes(6).toString('hex')}`;
  const program = spawn(process.execPath, [...PUBLISHED_KAFKAJS, 'rewards.mjs'], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      KAFKA_BROKERS: kafkaBrokers().join(','),
      TOPIC: topicOf('acme'),
      GROUP: group,
      REWARDS_URL: store.url,
    },
  });
  try {
    await until('the program has read all', WITHIN_MS, async () => {
      const ends = await endOffsets(topicOf('acme'));
      // A new group has no coordinator at first.
      const read = (await answerNow(() => committedOffsets(group, topicOf('acme')))) ?? [];
      return (
        ends.join() === read.map((offset, index) => (offset < 0 && ends[index] === 0 ? 0 : offset)).join()
      );
    });
  } finally {
    program.kill('SIGKILL');
    rmSync(directory, { recursive: true });
  }
  expect((await endOffsets(topicOf('acme'))).reduce((sum, end) => sum + end, 0)).toBe(10);
  expect(await store.rows('select player_ref, state from rewards order by 1')).toEqual([
    ['p-1', 'credited'],
    ['p-2', 'taken back'],
    ['p-3', 'credited'],
  ]);
  expect(await publishing.stop()).toEqual({ code: 0, signal: null });
});

test('a completion of the fold is published, and so is the refund that revokes it, with the same id [S10 P11 P12]', async () => {
  const promotions = await makeRole(store.url, 'promotions');
  try {
    await grantRoles(store.url, [{ role: 'promotions', name: promotions.name }]);
    const definitions = definitionsOf('id: two-bets, type: bet_count, target: 2');
    const by = { by: 'anna', reason: null, takeover: 'next_window' } as const;
    await store.rows('truncate promo_store.promotion_documents cascade');
    await applyPromotions(store.pool, { promotions: definitions }, by, () => true);
    const publishing = start();
    const folding = new RunningCommand(['promotions'], { DATABASE_URL: promotions.url, HTTP_PORT: '0' });
    const acme = store.partition('acme');
    const round = (id: string) => ({ event_id: `bet-${id}`, round_id: id, player_ref: 'p-1' });
    await acme.read(aBet(round('r-1')), aBet(round('r-2')));
    await publishing.waitForLog(({ msg, topic }) => msg === 'topic created' && topic === topicOf('acme'));
    const untilChanges = (...changes: readonly string[]) =>
      until(changes.join(), WITHIN_MS, async () => {
        const messages = await messagesIn('acme');
        return messages.map(({ change }) => change).join() === changes.join();
      });
    await untilChanges('completed');
    await acme.read(aRefund({ event_id: 'back', round_id: 'r-2', player_ref: 'p-1' }));
    await untilChanges('completed', 'revoked');
    const [completed, revoked] = await messagesIn('acme');
    expect(completed).toMatchObject({ promotion_id: 'two-bets', player_ref: 'p-1', ordinal: 1, attempt: 1 });
    expect(revoked.completion_id).toBe(completed.completion_id);
    const decided = (await store.rows('select verdict_id from promo.verdicts order by 1')).flat();
    expect([completed, revoked].map(({ decided_by }) => String(decided_by))).toEqual([
      decided[1],
      decided[2],
    ]);
    for (const each of [publishing, folding]) expect(await each.stop()).toEqual({ code: 0, signal: null });
  } finally {
    await killWorkers();
    await dropRoles(store.url, [promotions.name]);
  }
});

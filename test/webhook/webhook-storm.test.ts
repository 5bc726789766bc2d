/**
 * Senders race for the same events and rounds over several webhooks, which are killed in the middle. A worker
 * reads the same events from Kafka. A sender without an answer sends again. At the end each event has one
 * verdict, and all answers and the topic of verdicts have the same one.
 *
 * A seed repeats the sent events and the times of the kills. Postgres and the operating system decide which
 * delivery is first.
 */
import { makeRandom, type Random } from '../../dev/random';
import { sleep, until } from '../../dev/servers/deadline';
import { makeEvents } from '../model/plan';
import { connectionOf, inWorld, type World } from '../stream/world';
import { anOperator } from '../support/builders';
import { produce, readTopic } from '../support/kafka';
import { aSecret, senderTo, startWebhook, verdictOf } from '../support/webhook';
import { killWorkers } from '../support/worker';

afterEach(killWorkers);

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const HOOK = 'acme-hook';
const secret = aSecret();
const WEBHOOKS = 2;
const SENDERS = 6;
const REQUESTS = 25;
const KILLS = 3;
const IDS = { eventIds: 900, roundIds: 40 };

/** The answer of a sender on one event. */
interface Told {
  readonly eventId: string;
  readonly answer: string;
}

test(`an event has one verdict, and all answers have that one, however senders race and webhooks die [D1] [R1] [R9] [V1] [W5] [S7]`, async () => {
  try {
    await inWorld(
      {
        topics: { main: 3, verdicts: 1 },
        operators: ({ main }) => [
          anOperator({
            connections: [connectionOf(main), { id: HOOK, transport: 'webhook' }],
            brands: ['main', 'second'].map((id) => ({
              id,
              active: true,
              games: { deny: ['g9'] },
              minBet: { EUR: '0.10' },
            })),
          }),
        ],
      },
      storm,
    );
  } catch (error) {
    throw new Error(
      `seed ${seed} failed; again: SEED=${seed} npx jest --selectProjects webhook -- webhook-storm`,
      {
        cause: error,
      },
    );
  }
});

async function storm(world: World<'main' | 'verdicts'>): Promise<void> {
  const random = makeRandom(seed);
  const event = makeEvents(random, IDS);
  /** Of few events, so that senders meet, and without malformed JSON. */
  const events = (count: number) =>
    Array.from({ length: count }, (): unknown => event(false)).filter(isEvent);
  const { KAFKA_BROKERS } = world.settings;
  const VERDICT_TOPIC = world.topics.verdicts;
  const startOne = () =>
    startWebhook({ DATABASE_URL: world.writerUrl, KAFKA_BROKERS, VERDICT_TOPIC }, { [HOOK]: secret });
  const webhooks = await Promise.all(Array.from({ length: WEBHOOKS }, startOne));
  const plans = Array.from({ length: SENDERS }, () =>
    Array.from({ length: REQUESTS }, () => events(1 + random.below(40))),
  );
  const records = events(300);
  await produce(
    world.topics.main,
    records.map((each, index) => ({ value: JSON.stringify(each), partition: index % 3 })),
  );
  const worker = world.start({ VERDICT_TOPIC }, { drain: true });

  const told: Told[] = [];
  let unanswered = 0;
  /** Sends to any webhook until one answers. */
  async function send(batch: readonly EventJson[], own: Random): Promise<void> {
    for (;;) {
      const { port } = own.pick(webhooks);
      try {
        const { status, verdicts } = await senderTo(port, HOOK, secret)({ events: batch });
        if (status === 200) {
          expect(verdicts).toHaveLength(batch.length);
          for (const [index, { event_id }] of batch.entries())
            told.push({ eventId: event_id, answer: verdicts[index] ?? '' });
          return;
        }
        expect(status).toBe(503);
      } catch (error) {
        // Its webhook was killed.
        if (!/fetch failed|terminated/.test(String(error))) throw error;
      }
      unanswered++;
      await sleep(20 + own.below(100));
    }
  }

  async function kill(): Promise<void> {
    for (let killed = 0; killed < KILLS; killed++) {
      await sleep(100 + random.below(500));
      const at = random.below(WEBHOOKS);
      await webhooks[at]?.command.kill();
      webhooks[at] = await startOne();
    }
  }

  await Promise.all([
    kill(),
    ...plans.map(async (requests, sender) => {
      const own = makeRandom(seed + 1 + sender);
      for (const batch of requests) await send(batch, own);
    }),
  ]);
  await until('the worker has read everything', 60_000, () => worker.hasEnded());
  expect(await worker.ending()).toEqual({ code: 0, signal: null });

  const verdicts = await world.verdicts();
  const sent = [...plans.flat(2), ...records].map(({ event_id }) => event_id);
  expect(Object.keys(verdicts).sort()).toEqual([...new Set(sent)].sort());
  const firsts = new Map<string, number>();
  for (const { eventId, answer } of told) {
    const standing = standingIn(answer);
    expect([eventId, standing]).toEqual([eventId, verdicts[eventId]]);
    if (standing === answer) firsts.set(eventId, (firsts.get(eventId) ?? 0) + 1);
  }
  expect([...firsts].filter(([, count]) => count > 1)).toEqual([]);
  const published = (await readTopic(VERDICT_TOPIC)).map(({ value }): unknown => JSON.parse(String(value)));
  const heard = published.flatMap((message): [string, string][] =>
    isEvent(message) ? [[message.event_id, standingIn(verdictOf(message))]] : [],
  );
  expect(Object.fromEntries(heard)).toEqual(verdicts);
  expect(heard.filter(([eventId, standing]) => standing !== verdicts[eventId])).toEqual([]);
  const unbalanced = `select round_id from promo.ledger l join promo.rounds r using (feed_id, round_id) where r.refunded
    group by round_id, l.kind, l.currency having sum(l.amount_minor) <> 0`;
  expect(await world.rows(unbalanced)).toEqual([]);
  const [[refunded] = []] = await world.rows('select count(*) from promo.rounds where refunded');
  expect(Number(refunded)).toBeGreaterThan(0);
  process.stdout.write(
    `storm: seed ${seed}: ${told.length} answers, ${firsts.size} first answers, ${unanswered} requests not answered, ${refunded} rounds refunded\n`,
  );
}

/** The verdict that counts, according to the answers. */
function standingIn(answer: string): string {
  return /^duplicate of (\S+?)(, differs)?$/.exec(answer)?.[1] ?? answer;
}

interface EventJson {
  readonly event_id: string;
}

function isEvent(content: unknown): content is EventJson {
  return (
    typeof content === 'object' &&
    content !== null &&
    'event_id' in content &&
    typeof content.event_id === 'string'
  );
}

/** The verdict topic of one operator, as its own systems read it. */
import { isObject, parseJson } from '../../src/lib/json';
import { until } from '../servers/deadline';
import { kafkaAt } from './guest';
import { count, type Screen } from './screen';
import type { Stage } from './stage';
import { TOPIC_PREFIX } from './world';

/** The operator whose answers are shown. */
export const OPERATOR = 'fjordspill';
const READ_DEADLINE_MS = 60_000;
/** The refund of dev/demo/webhook.ts. */
const REFUND = 'demo-refund';

export type Message = Readonly<Record<string, unknown>>;

export async function reportOwnTopic(stage: Stage, screen: Screen): Promise<readonly Message[]> {
  const topic = `${stage.topicHere(TOPIC_PREFIX)}verdict.${OPERATOR}`;
  const messages = await readMessages(stage, topic);
  const byVerdict = Map.groupBy(messages, ({ verdict }) => String(verdict));
  const counts = [...byVerdict].map(([verdict, { length }]) => `${count(length)} ${verdict}`);
  screen.heading(`An operator's own answers: ${topic}`);
  screen.line(`  ${count(messages.length)} messages, all about events of ${OPERATOR}: ${counts.join(', ')}.`);
  screen.line('  The refund by the webhook is among them, with the sums that it reversed:');
  const refund = messages.find(({ event_id, verdict }) => event_id === REFUND && verdict === 'accepted');
  if (refund === undefined) throw new Error(`${topic} has no message about ${REFUND}`);
  const { event_id, verdict, kind, round_id, reversed } = refund;
  screen.line(`    ${JSON.stringify({ event_id, verdict, kind, round_id }).slice(0, -1)},`);
  screen.line(`     "reversed":${JSON.stringify(reversed)}, ...}`);
  return messages;
}

/** Reads the messages up to the end of now. */
export async function readMessages(
  { kafkaBrokers, topicHere }: Stage,
  topic: string,
): Promise<readonly Message[]> {
  const kafka = kafkaAt(kafkaBrokers);
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic).finally(() => admin.disconnect());
  const wanted = ends.reduce((sum, { high }) => sum + Number(high), 0);
  const consumer = kafka.consumer({ groupId: `${topicHere(TOPIC_PREFIX)}reader` });
  const messages: Message[] = [];
  let failure: unknown;
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ message: { value } }) => {
        const json = parseJson(value?.toString() ?? '');
        if (isObject(json)) messages.push(json);
        else failure = new Error(`${topic} has a message that is no object`);
      },
    });
    await until(`${topic} is read`, READ_DEADLINE_MS, () => {
      if (failure !== undefined) throw failure;
      return messages.length >= wanted;
    });
  } finally {
    await consumer.disconnect();
  }
  return messages;
}

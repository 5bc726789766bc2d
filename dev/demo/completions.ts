/** The topic of completions of one operator, as a system reads it that credits rewards. */
import type { Client } from 'pg';
import { until } from '../servers/deadline';
import { type Message, OPERATOR, readMessages } from './own-topic';
import { count, type Screen } from './screen';
import type { Stage } from './stage';
import { TOPIC_PREFIX } from './world';

const PUBLISH_DEADLINE_MS = 60_000;
const IS_PUBLISHED = `select (select max(entry_no) from promo.completions) <= published_up_to as published from promo.completion_publishing`;
/** Digits of an id that are shown. */
const ID_SHOWN = 8;

/** @param players those of whom the messages of rank 1 are shown, in their order */
export async function reportCompletions(
  stage: Stage,
  client: Client,
  screen: Screen,
  players: readonly string[],
): Promise<void> {
  const topic = `${stage.topicHere(TOPIC_PREFIX)}completion.${OPERATOR}`;
  screen.passing('completions', 'promo-intake completions ...');
  const publishing = stage.start('completions');
  await until('completions are published', PUBLISH_DEADLINE_MS, async () => {
    if (publishing.endedBy !== undefined) throw publishing.failure(`ended (${publishing.endedBy})`);
    const { rows } = await client.query<{ published: boolean }>(IS_PUBLISHED);
    return rows[0]?.published === true;
  });
  await publishing.stop();
  const messages = await readMessages(stage, topic);
  screen.heading(`Completions, for the system that credits rewards: ${topic}`);
  screen.line(`  ${count(messages.length)} messages. The refund gave rank 1 of the race to another player:`);
  const ofRankOne = messages
    .filter(({ rank, player_ref }) => rank === 1 && players.includes(String(player_ref)))
    .sort((a, b) => Number(a.entry_no) - Number(b.entry_no));
  for (const message of ofRankOne) screen.line(`    ${shown(message)}`);
  screen.line('  Credit once for each completion_id, and take back what is revoked.');
}

function shown({ completion_id, change, player_ref, rank }: Message): string {
  const id = `${String(completion_id).slice(0, ID_SHOWN)}...`;
  const json = JSON.stringify({ completion_id: id, change, player_ref, rank });
  return `${json.slice(0, -1)}, ...}`;
}

/** Topics that senders may take for ours and that nobody reads: what is sent there gets no verdict and becomes no dead letter. */

import { connectedAdmin, type makeKafka } from '../kafka/client/client';
import { nearest } from '../lib/did-you-mean';

/** The prefix that the documents recommend for topics of events. */
const PREFIX = /^promo\.event\.v1(?![a-z0-9])/i;
/** A name is close to one that is read where so many letters differ, for each so many letters of it. */
const LETTERS_A_SLIP = 8;
const MOST_SLIPS = 3;
/** Of such topics so many are named. */
const MOST_NAMED = 20;

export interface ReadTopics {
  /** Topics that a connection or KAFKA_TOPICS names. */
  readonly known: readonly string[];
  /** Topics that this deployment writes. */
  readonly own: readonly (string | undefined)[];
}

export interface UnreadTopic {
  readonly topic: string;
  /** The topic that may be meant. */
  readonly meant: string | null;
}

/** Of the topics of a cluster those that look like topics of events and that nobody reads. */
export function unreadTopics(existing: Iterable<string>, { known, own }: ReadTopics): UnreadTopic[] {
  const candidates = [...existing].filter(
    (topic) => !known.includes(topic) && !own.includes(topic) && !isWritten(topic, own),
  );
  return candidates
    .sort()
    .flatMap((topic) => {
      const meant = nearest(topic, known, slipsIn, (text) => text.toLowerCase()) ?? null;
      return meant !== null || PREFIX.test(topic) ? [{ topic, meant }] : [];
    })
    .slice(0, MOST_NAMED);
}

const slipsIn = (name: string) => Math.min(MOST_SLIPS, Math.floor(name.length / LETTERS_A_SLIP));

/** Dead letters of another deployment, and what a mirror makes of ours. */
function isWritten(topic: string, own: readonly (string | undefined)[]): boolean {
  return (
    topic.endsWith('.dead-letter') || own.some((name) => name !== undefined && topic.endsWith(`.${name}`))
  );
}

/** For people, a sentence each. */
export function describeUnread(topics: readonly UnreadTopic[]): string[] {
  return topics.map(
    ({ topic, meant }) =>
      `nobody reads ${topic}, which looks like a topic of events${meant === null ? '' : ` (is ${meant} meant?)`}: name it in a connection of the reference data, or have its sender send elsewhere`,
  );
}

/** The same of the cluster as it is now. */
export async function findUnread(
  kafka: ReturnType<typeof makeKafka>,
  read: ReadTopics,
): Promise<UnreadTopic[]> {
  const admin = await connectedAdmin(kafka);
  try {
    return unreadTopics(await admin.listTopics(), read);
  } finally {
    await admin.disconnect();
  }
}

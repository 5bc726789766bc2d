/**
 * Finds topics that senders may use by mistake and no worker reads. Their records get no verdict and no dead
 * letter.
 */

import { connectedAdmin, type makeKafka } from '../../kafka/client/client';
import { nearest } from '../../lib/did-you-mean';

/** The prefix that the documents recommend for topics of events. */
const PREFIX = /^promo\.event\.v1(?![a-z0-9])/i;
/**
 * A name is close to a read topic if at most one letter in LETTERS_A_SLIP differs, and at most MOST_SLIPS in
 * all.
 */
const LETTERS_A_SLIP = 8;
const MOST_SLIPS = 3;
/** The most topics that are named. */
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

/** The topics of a cluster that look like topics of events but are not read. */
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

/** Whether a topic has dead letters of another deployment, or is a mirror of one of `own`. */
function isWritten(topic: string, own: readonly (string | undefined)[]): boolean {
  return (
    topic.endsWith('.dead-letter') || own.some((name) => name !== undefined && topic.endsWith(`.${name}`))
  );
}

/** A sentence about each topic, for people. */
export function describeUnread(topics: readonly UnreadTopic[]): string[] {
  return topics.map(
    ({ topic, meant }) =>
      `no worker reads ${topic}, which looks like a topic of events${meant === null ? '' : ` (did the sender mean ${meant}?)`}. Add it to a connection of the reference data, or correct the topic of its sender. A topic of another cell needs neither`,
  );
}

/** The unread topics of a cluster as it is now. */
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

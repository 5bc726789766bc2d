/**
 * Publishes completions (docs/rules.md, S10): each step reads entries of the outbox, sends them, and then
 * moves the cursor. A crash in between repeats messages, which have equal ids.
 */
import type { TopicsProducer } from '../kafka/producer';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import type { OperatorTopics } from '../publishing/operator-topics';
import { completionMessage, type OutboxEntry } from './completion-message';
import type { Outbox, OutboxBatch, TopicRefusal } from './outbox';
import { type OnCompletions, type OutboxMessage, sendCompletions } from './send-completions';

/** The most bytes that are sent at once: for each operator with a backlog, and for all others together. */
export const BATCH_BYTES = 512 * 1024;
/** While messages are sent, the lease is kept this often. */
const HOLD_EVERY_MS = 3_000;

/** An operator whose topic refuses, for the log. */
export interface HeldBack extends TopicRefusal {
  readonly operatorId: string;
  /** Undefined where the operator can have no topic. */
  readonly topic: string | undefined;
  readonly failures: number;
  readonly waitMs: number;
}

export type PublishedStep =
  /** Another process publishes. */
  | { readonly kind: 'standby'; readonly lagSeconds: number }
  | {
      readonly kind: 'published';
      readonly messages: number;
      /** The cursor has advanced, so there may be more to publish. */
      readonly hasAdvanced: boolean;
      /** How long the oldest entry had waited. */
      readonly lagSeconds: number;
      readonly heldBack: readonly HeldBack[];
    };

export interface BacklogStep {
  readonly messages: number;
  /** A cursor has advanced, so there may be more to publish. */
  readonly hasAdvanced: boolean;
  readonly heldBack: readonly HeldBack[];
  /** The ids of operators that have caught up. */
  readonly caughtUp: readonly string[];
}

export interface CompletionPublisher {
  /** Publishes for the operators without a backlog. @throws where nothing can be published now */
  step(): Promise<PublishedStep>;
  /** Tries the operators with a backlog whose wait is over. */
  stepBacklogs(): Promise<BacklogStep>;
  release(): Promise<void>;
}

export interface PublisherOptions {
  readonly outbox: Outbox;
  readonly producer: TopicsProducer;
  readonly topics: OperatorTopics;
  readonly clock: Clock;
  readonly onCompletions: OnCompletions;
}

export function makeCompletionPublisher(options: PublisherOptions): CompletionPublisher {
  const { outbox, producer, topics, clock, onCompletions } = options;
  /** Operators whose topic refused, with the number of failures in a row, and the time of the next try. */
  const waits = new Map<number, { failures: number; dueAt: number }>();

  function heldBack(entries: readonly OutboxEntry[], refusals: readonly TopicRefusal[]): HeldBack[] {
    return refusals.map((refusal) => {
      const failures = (waits.get(refusal.operatorNo)?.failures ?? 0) + 1;
      const waitMs = backoffMs(failures);
      waits.set(refusal.operatorNo, { failures, dueAt: clock.now() + waitMs });
      const operatorId = entries.find((entry) => entry.operatorNo === refusal.operatorNo)?.operatorId ?? '';
      const [topic] = topics.topicsOf([operatorId]);
      return { ...refusal, operatorId, topic, failures, waitMs };
    });
  }

  /** Sends, and keeps the lease meanwhile. A lease that cannot be kept only lets another process repeat. */
  async function send(messages: readonly OutboxMessage[]): Promise<TopicRefusal[]> {
    if (messages.length === 0) return [];
    const sent = new AbortController();
    const keeping = (async () => {
      while (!sent.signal.aborted) {
        await clock.sleep(HOLD_EVERY_MS, sent.signal);
        if (!sent.signal.aborted) await outbox.hold().catch(() => undefined);
      }
    })();
    try {
      const refused = await sendCompletions(producer, topics, messages, onCompletions);
      const [first] = refused.values();
      // All operators share the topic, so nobody can go on.
      if (first !== undefined && !topics.isPerOperator) throw first;
      return [...refused].map(([operatorNo, error]) => ({ operatorNo, reason: error.message }));
    } finally {
      sent.abort();
      await keeping;
    }
  }

  return {
    async step() {
      const { batch, lagSeconds } = await outbox.take();
      if (batch === null) return { kind: 'standby', lagSeconds };
      if (batch.upTo === batch.after)
        return { kind: 'published', messages: 0, hasAdvanced: false, lagSeconds, heldBack: [] };
      const { messages, ...cut } = cutToBytes(batch);
      const refusals = await send(messages);
      if (!(await outbox.move({ ...cut, leftOut: batch.leftOut }, refusals)))
        return { kind: 'standby', lagSeconds };
      const refusing = new Set(refusals.map(({ operatorNo }) => operatorNo));
      const published = cut.entries.filter(({ operatorNo }) => !refusing.has(operatorNo)).length;
      return {
        kind: 'published',
        messages: published,
        hasAdvanced: true,
        lagSeconds,
        heldBack: heldBack(cut.entries, refusals),
      };
    },

    async stepBacklogs() {
      const batches = await outbox.takeBacklogs((no) => (waits.get(no)?.dueAt ?? 0) <= clock.now());
      if (batches.length === 0) return { messages: 0, hasAdvanced: false, heldBack: [], caughtUp: [] };
      const cuts = batches.map((batch) => ({ ...batch, ...cutToBytes(batch) }));
      const refusals = await send(cuts.flatMap(({ messages }) => messages));
      const refusing = new Set(refusals.map(({ operatorNo }) => operatorNo));
      const published = cuts.filter(({ operatorNo }) => !refusing.has(operatorNo));
      const ended = await outbox.moveBacklogs(published, refusals);
      for (const { operatorNo } of published) waits.delete(operatorNo);
      return {
        messages: published.reduce((sum, { entries }) => sum + entries.length, 0),
        hasAdvanced: published.length > 0,
        heldBack: heldBack(
          cuts.flatMap(({ entries }) => entries),
          refusals,
        ),
        caughtUp: cuts
          .filter(({ operatorNo }) => ended.includes(operatorNo))
          .map(({ operatorId }) => operatorId),
      };
    },
    release: () => outbox.release(),
  };
}

/** The first messages of a batch, of BATCH_BYTES at most, or one that is larger. */
function cutToBytes<B extends OutboxBatch>(batch: B): OutboxBatch & { readonly messages: OutboxMessage[] } {
  const messages: OutboxMessage[] = [];
  let bytes = 0;
  for (const entry of batch.entries) {
    const message = completionMessage(entry);
    bytes += Buffer.byteLength(message.value ?? '');
    if (bytes > BATCH_BYTES && messages.length > 0) break;
    messages.push({ ...message, entry });
  }
  const entries = messages.map(({ entry }) => entry);
  const isWhole = entries.length === batch.entries.length;
  return {
    after: batch.after,
    upTo: isWhole ? batch.upTo : (entries.at(-1)?.entryNo ?? batch.after),
    entries,
    messages,
  };
}

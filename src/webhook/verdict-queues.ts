/** The queues in which verdicts on requests wait for their topic to store them (docs/rules.md, S7, S9). */
import type { Logger } from 'pino';
import type { WebhookRequest } from '../intake/delivery';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { type PublishedAnswer, type PublishVerdicts, publishingRest } from '../publishing/published-answer';
import type { Metrics } from '../telemetry/metrics';

interface Unpublished {
  readonly answers: readonly PublishedAnswer[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export interface Publishing {
  /** Whether the last attempt failed. No more requests may be decided until an attempt succeeds. */
  isBlocked(connectionId: string): boolean;
  /**
   * Resolves once the answers are published. Waiting answers are published in one batch. Rejects after
   * `ended`.
   */
  publish(origin: WebhookRequest, answers: readonly PublishedAnswer[]): Promise<void>;
}

export interface PublishingDeps {
  readonly publishVerdicts: PublishVerdicts<WebhookRequest>;
  /** Whether each operator has a topic of its own. */
  readonly isPerOperator?: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Aborted once the server is closed: no retry goes on after that. */
  readonly ended: AbortSignal;
}

/** Answers that are published one after the other. */
class Queue {
  waiting: Unpublished[] = [];
  isRunning = false;
  failures = 0;
}

/**
 * Publishes the verdicts on the webhook's events in the order in which they were decided, before the requests
 * are answered (docs/rules.md, S7). It retries until it succeeds, as a partition does. The verdicts are
 * already stored: if the events were decided again, they would be duplicates.
 *
 * Where operators have topics of their own, each has a queue of its own: a topic that refuses blocks no other
 * operator (S9).
 */
export function makePublishing({
  publishVerdicts,
  isPerOperator = false,
  clock,
  logger,
  metrics,
  ended,
}: PublishingDeps): Publishing {
  /** By operator id. One for all operators, under the empty id, where they share a topic. */
  const queues = new Map<string, Queue>();
  /** The queue that a connection has used last. */
  const byConnection = new Map<string, Queue>();

  function queueOf(operatorId: string): Queue {
    const queue = queues.get(operatorId) ?? new Queue();
    queues.set(operatorId, queue);
    return queue;
  }

  async function publishWithRetries(queue: Queue, publish: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await publish();
        queue.failures = 0;
        return;
      } catch (error) {
        if (ended.aborted) throw error;
        const waitMs = backoffMs(++queue.failures);
        metrics.retries.inc({ class: 'undecided' });
        logger.warn(
          { failures: queue.failures, waitMs, error: messageOf(error) },
          'cannot publish verdicts, retrying',
        );
        await clock.sleep(waitMs, ended);
        if (ended.aborted) throw error;
      }
    }
  }

  async function run(queue: Queue, origin: WebhookRequest): Promise<void> {
    queue.isRunning = true;
    while (queue.waiting.length > 0) {
      const together = queue.waiting;
      queue.waiting = [];
      try {
        // A message does not name its request, so one origin serves for all.
        const answers = together.flatMap(({ answers }) => answers);
        await publishWithRetries(queue, publishingRest(publishVerdicts, origin, answers));
        for (const { resolve } of together) resolve();
      } catch (error) {
        for (const { reject } of together) reject(error);
      }
    }
    queue.isRunning = false;
  }

  return {
    isBlocked(connectionId) {
      const queue = isPerOperator ? byConnection.get(connectionId) : queues.get('');
      return queue !== undefined && queue.failures > 0;
    },
    publish: (origin, answers) =>
      new Promise((resolve, reject) => {
        // All answers of a request belong to its connection.
        const queue = queueOf(isPerOperator ? (answers[0]?.connection?.operator.id ?? '') : '');
        byConnection.set(origin.connectionId, queue);
        queue.waiting.push({ answers, resolve, reject });
        if (!queue.isRunning) void run(queue, origin);
      }),
  };
}

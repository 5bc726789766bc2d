/**
 * Keeps a member in its group while a fetch waits. kafkajs 2.2.4 sends a heartbeat only between two fetches: a broker that throttles fetches
 * by a quota, or a slow line, costs the membership where a fetch takes as long as the session timeout.
 *
 * - A broker that throttles is not asked while it does: to kafkajs these are fetches that brought nothing, each with its heartbeat behind it.
 * - A fetch that waits for its answer has heartbeats beside it. Where one of them fails, as in a rebalance, the fetch is abandoned:
 *   nothing of it is handed over, and kafkajs rejoins as after any other heartbeat that failed.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup';
import { NEVER, systemClock } from '../../../lib/clock';
import { answerListener } from './fetch';
import { isJoining } from './joining';
import { watchThrottling } from './throttling';

/** Heartbeats in a session timeout: as many as Kafka's own clients send at least, and two more. */
const HEARTBEATS_A_SESSION = 5;
/** How often a fetch that waits looks whether a heartbeat is due. */
const CHECK_MS = 500;

/** How often a member sends a heartbeat. */
export const heartbeatMs = (sessionTimeoutMs: number) => Math.floor(sessionTimeoutMs / HEARTBEATS_A_SESSION);

interface WaitingFetch {
  abandoned: boolean;
}
const current = new AsyncLocalStorage<WaitingFetch>();
/** When the brokers that throttle a member take its next fetch, by their numbers. */
const throttled = new WeakMap<ConsumerGroup, Map<string, number>>();

const { fetch, recoverFromFetch } = ConsumerGroup.prototype;

/** For every consumer of this process. */
export function installHeartbeats(): void {
  ConsumerGroup.prototype.fetch = async function (nodeId) {
    const leftMs = (throttled.get(this)?.get(nodeId) ?? 0) - systemClock.now();
    if (leftMs > 0) {
      await systemClock.sleep(Math.min(leftMs, this.maxWaitTime), NEVER);
      return [];
    }
    const waiting: WaitingFetch = { abandoned: false };
    const answered = current.run(waiting, () =>
      watchThrottling(
        (ms) => noteThrottling(this, nodeId, ms),
        () => fetch.call(this, nodeId),
      ),
    );
    return besideHeartbeats(this, waiting, answered);
  };
  ConsumerGroup.prototype.recoverFromFetch = async function (error) {
    // It may join the group, which kafkajs does by itself once a fetch is abandoned: two at once would be two members.
    if (current.getStore()?.abandoned !== true) await recoverFromFetch.call(this, error);
  };
}

function noteThrottling(group: ConsumerGroup, nodeId: string, ms: number): void {
  answerListener()?.throttled(ms);
  const until = throttled.get(group) ?? new Map<string, number>();
  until.set(nodeId, systemClock.now() + ms);
  throttled.set(group, until);
}

/** @throws where a heartbeat fails before the fetch is answered */
async function besideHeartbeats<T>(
  group: ConsumerGroup,
  waiting: WaitingFetch,
  answered: Promise<T>,
): Promise<T> {
  const over = new AbortController();
  const beat = async (): Promise<never> => {
    for (;;) {
      await systemClock.sleep(CHECK_MS, over.signal);
      if (over.signal.aborted) return new Promise<never>(() => undefined);
      if (!isJoining(group)) await group.heartbeat({ interval: heartbeatMs(group.sessionTimeout) });
    }
  };
  const failed = beat().catch((error: unknown): never => {
    waiting.abandoned = true;
    throw error;
  });
  try {
    return await Promise.race([answered, failed]);
  } finally {
    over.abort();
    // Whichever of the two is late has nobody to report to: kafkajs acts on the first.
    answered.catch(() => undefined);
    failed.catch(() => undefined);
  }
}

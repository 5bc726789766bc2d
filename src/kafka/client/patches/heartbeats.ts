/**
 * Keeps a member in its group while a fetch waits. Without this patch kafkajs 2.2.4 sends a heartbeat only
 * between two fetches. A fetch may take as long as the session timeout, by a quota of the broker or a slow
 * line. The member then loses its membership.
 *
 * - A broker that throttles gets no fetch meanwhile. To kafkajs this looks like an empty fetch, after which
 *   it sends a heartbeat.
 * - Heartbeats are sent while a fetch waits for its response. If one of them fails, as in a rebalance, the
 *   fetch is abandoned. Its records are dropped, and kafkajs rejoins as after any other failed heartbeat.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup';
import { NEVER, systemClock } from '../../../lib/clock';
import { answerListener } from './fetch';
import { isJoining } from './joining';
import { watchThrottling } from './throttling';

/** Heartbeats in a session timeout: two more than Kafka's own clients send at least. */
const HEARTBEATS_A_SESSION = 5;
/** A waiting fetch checks this often whether a heartbeat is due. */
const CHECK_MS = 500;

/** The time between two heartbeats of a member. */
export const heartbeatMs = (sessionTimeoutMs: number) => Math.floor(sessionTimeoutMs / HEARTBEATS_A_SESSION);

interface WaitingFetch {
  abandoned: boolean;
}
const current = new AsyncLocalStorage<WaitingFetch>();
/** The time from which a throttling broker accepts the member's next fetch, by the broker's number. */
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
    // The original may join the group, and kafkajs joins by itself after an abandoned fetch: two joins at
    // once would make two members.
    if (current.getStore()?.abandoned !== true) await recoverFromFetch.call(this, error);
  };
}

function noteThrottling(group: ConsumerGroup, nodeId: string, ms: number): void {
  answerListener()?.onThrottled(ms);
  const until = throttled.get(group) ?? new Map<string, number>();
  until.set(nodeId, systemClock.now() + ms);
  throttled.set(group, until);
}

/**
 * Waits for a fetch and sends heartbeats meanwhile. The wait has one timer, and no AbortController: each
 * abort makes an error with a stack, at each fetch.
 *
 * @throws if a heartbeat fails before the fetch has its response
 */
function besideHeartbeats<T>(group: ConsumerGroup, waiting: WaitingFetch, answered: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const beat = async () => {
      try {
        if (!isJoining(group)) await group.heartbeat({ interval: heartbeatMs(group.sessionTimeout) });
      } catch (error) {
        waiting.abandoned = true;
        clearInterval(timer);
        reject(error);
      }
    };
    const timer = setInterval(() => void beat(), CHECK_MS);
    answered.then(resolve, reject).finally(() => clearInterval(timer));
  });
}

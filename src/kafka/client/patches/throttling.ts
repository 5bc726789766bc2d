/**
 * Reports how long brokers throttle the requests of a client. kafkajs 2.2.4 reads the time from each response
 * and waits, but does not report it.
 *
 * A broker with a quota responds at once and names the time. It reads nothing more from that connection until
 * the time is over (KIP-219).
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import Connection from 'kafkajs/src/network/connection';
import { systemClock } from '../../../lib/clock';
import type { OnThrottled, ThrottledRequest } from '../../port';

/**
 * The listener to the throttling of a client, by its socket factory: the one object that all its connections
 * share.
 */
const listeners = new WeakMap<object, OnThrottled>();
/** When a broker began to throttle every fetch of a client, by the client's socket factory and the broker. */
const fetchesThrottledSince = new WeakMap<object, Map<string, number>>();
const watched = new AsyncLocalStorage<(ms: number) => void>();

/** Registers the listener of the clients with this socket factory. */
export function reportThrottling(socketFactory: object, onThrottled: OnThrottled): void {
  listeners.set(socketFactory, onThrottled);
}

/** Runs requests, and reports the throttling of these requests alone. */
export function watchThrottling<T>(onThrottled: (ms: number) => void, run: () => T): T {
  return watched.run(onThrottled, run);
}

const { send } = Connection.prototype;

/** For every client of this process. */
export function installThrottleReports(): void {
  Connection.prototype.send = function (protocol) {
    const { request, response } = protocol;
    const decode = async (bytes: Buffer): Promise<unknown> => {
      const decoded: unknown = await response.decode(bytes);
      const ms = throttleOf(decoded);
      const kind = kindOf(request.apiName);
      const everyFetchForMs = kind === 'fetch' ? fetchAnswered(this.socketFactory, this.broker, ms) : 0;
      if (ms > 0) {
        watched.getStore()?.(ms);
        listeners.get(this.socketFactory)?.({ request: kind, broker: this.broker, ms, everyFetchForMs });
      }
      return decoded;
    };
    return send.call(this, { ...protocol, response: { ...response, decode } });
  };
}

/**
 * The time for which every fetch has been throttled, with the present one. A throttled fetch has no records:
 * they arrive with a response that is not throttled, or never.
 */
function fetchAnswered(socketFactory: object, broker: string, ms: number): number {
  const brokers = fetchesThrottledSince.get(socketFactory) ?? new Map<string, number>();
  fetchesThrottledSince.set(socketFactory, brokers);
  if (ms === 0) {
    brokers.delete(broker);
    return 0;
  }
  const now = systemClock.now();
  const since = brokers.get(broker) ?? now;
  brokers.set(broker, since);
  return Math.round(now - since) + ms;
}

function throttleOf(decoded: unknown): number {
  if (typeof decoded !== 'object' || decoded === null) return 0;
  const ms: unknown = Reflect.get(decoded, 'clientSideThrottleTime');
  return typeof ms === 'number' ? ms : 0;
}

function kindOf(apiName: string): ThrottledRequest {
  if (apiName === 'Fetch') return 'fetch';
  return apiName === 'Produce' ? 'produce' : 'other';
}

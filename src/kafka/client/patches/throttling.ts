/**
 * Reports how long brokers throttle the requests of a client. kafkajs 2.2.4 knows it from each answer, waits, and reports nothing.
 *
 * A broker with a quota answers at once, names the time, and reads nothing more of that connection until the time is over (KIP-219).
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import Connection from 'kafkajs/src/network/connection';
import { systemClock } from '../../../lib/clock';
import type { OnThrottled, ThrottledRequest } from '../../port';

/** Who hears of the throttling of a client's connections, by the socket factory: the one object that they all share. */
const listeners = new WeakMap<object, OnThrottled>();
/** Since when a broker has answered every fetch of a client by throttling, by the client's socket factory and the broker. */
const fetchesThrottledSince = new WeakMap<object, Map<string, number>>();
const watched = new AsyncLocalStorage<(ms: number) => void>();

/** For the clients that are made with this socket factory. */
export function reportThrottling(socketFactory: object, onThrottled: OnThrottled): void {
  listeners.set(socketFactory, onThrottled);
}

/** Runs requests, and reports the throttling of exactly these. */
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

/** A throttled fetch is answered without records: they arrive with an answer that is not throttled, or never. */
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

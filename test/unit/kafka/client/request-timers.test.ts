import { setTimeout as sleep } from 'node:timers/promises';
import RequestQueue from 'kafkajs/src/network/requestQueue';
import { until } from '../../../../dev/servers/deadline';
import { installRequestTimers } from '../../../../src/kafka/client/patches/request-timers';

beforeAll(installRequestTimers);

let timers: jest.SpyInstance<unknown, Parameters<typeof setTimeout>>;
let queue: RequestQueue;
let sent: number[];
beforeEach(() => {
  sent = [];
  queue = new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 1_000,
    logger: { debug: () => undefined },
  });
  timers = jest.spyOn(globalThis, 'setTimeout');
});
afterEach(() => {
  timers.mockRestore();
  queue.destroy();
});

/** Sends a request, or queues it. */
function push(correlationId: number): void {
  queue.push({
    entry: Object.assign({ correlationId }, { resolve: () => undefined, reject: () => undefined }),
    expectResponse: true,
    sendRequest: () => sent.push(correlationId),
  });
}
const respond = (correlationId: number) => queue.fulfillRequest({ correlationId, payload: null, size: 0 });
const delays = () => timers.mock.calls.map(([, ms]) => ms ?? 0);

test('a queue in which nothing waits sets no timer', () => {
  push(1);
  respond(1);
  push(2);
  respond(2);
  expect(sent).toEqual([1, 2]);
  expect(delays()).toEqual([]);
});

test('a request that waits for another is sent after the response, and its timer is the last one', async () => {
  push(1);
  push(2);
  expect(sent).toEqual([1]);
  respond(1);
  expect(sent).toEqual([1, 2]);
  respond(2);
  await sleep(50);
  expect(delays()).toEqual([10]);
});

test('a throttled request is sent when the time is over', async () => {
  queue.maybeThrottle(60);
  push(1);
  expect(sent).toEqual([]);
  await until('it is sent', 10_000, () => sent.length > 0);
  expect(sent).toEqual([1]);
  for (const delay of delays()) expect(delay).toBeGreaterThan(0);
});

/**
 * An alarm that is exact to about a tenth of a millisecond. Node's own timers are exact to a millisecond
 * only. A thread that sleeps on a futex is more exact, and costs nothing while it sleeps.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type { MakeAlarm } from './delay-line';

/** Milliseconds of a clock that all threads share. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

interface Shared {
  /** Changes whenever another moment is set. */
  readonly version: Int32Array<SharedArrayBuffer>;
  readonly dueAt: Float64Array<SharedArrayBuffer>;
}

function sharedOf(buffer: SharedArrayBuffer): Shared {
  return { dueAt: new Float64Array(buffer, 0, 1), version: new Int32Array(buffer, 8, 1) };
}

export const makeThreadAlarm: MakeAlarm = (ring) => {
  const buffer = new SharedArrayBuffer(16);
  const { version, dueAt } = sharedOf(buffer);
  dueAt[0] = Number.POSITIVE_INFINITY;
  const thread = new Worker(__filename, { workerData: buffer });
  thread.on('message', ring);
  return {
    now,
    set(at) {
      if (dueAt[0] === at) return;
      dueAt[0] = at;
      Atomics.add(version, 0, 1);
      Atomics.notify(version, 0);
    },
    close: () => void thread.terminate(),
  };
};

/** Rings once for each moment that is set. */
function keepWatch({ version, dueAt }: Shared, ring: () => void): never {
  for (;;) {
    const seen = Atomics.load(version, 0);
    const wait = (dueAt[0] ?? Number.POSITIVE_INFINITY) - now();
    if (wait > 0) Atomics.wait(version, 0, seen, wait);
    if (Atomics.load(version, 0) !== seen) continue;
    if ((dueAt[0] ?? Number.POSITIVE_INFINITY) > now()) continue;
    ring();
    Atomics.wait(version, 0, seen);
  }
}

if (!isMainThread && workerData instanceof SharedArrayBuffer && parentPort !== null) {
  const port = parentPort;
  keepWatch(sharedOf(workerData), () => port.postMessage(null));
}

/** The file that LIVENESS_HEARTBEAT names, by which Kubernetes knows that a process lives, and which nobody outside its pod can reach. */
import { closeSync, openSync, rmSync, utimesSync } from 'node:fs';

const BEAT_MS = 1_000;
/** The time of the file lies so far ahead of the last beat. */
const LIVE_FOR_MS = 15_000;

/**
 * Sets the modification time of the file ahead, once a second, while the process lives.
 *
 * The time is how long the process counts as alive, so that a probe compares it with the present and runs no Node:
 * `test FILE -nt /proc/self`. A process whose event loop hangs sets no time.
 * @returns what ends it and removes the file
 * @throws where the file cannot be made
 */
export function startHeartbeat(
  file: string,
  isLive: () => boolean,
  onFault: (error: unknown) => void,
): () => void {
  closeSync(openSync(file, 'a'));
  const beat = (): void => {
    if (!isLive()) return;
    const until = new Date(Date.now() + LIVE_FOR_MS);
    try {
      utimesSync(file, until, until);
    } catch (error) {
      onFault(error);
    }
  };
  beat();
  const timer = setInterval(beat, BEAT_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    rmSync(file, { force: true });
  };
}

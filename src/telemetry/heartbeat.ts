/**
 * The heartbeat file that LIVENESS_HEARTBEAT names. It shows Kubernetes that the process lives, and nobody
 * outside the pod can reach it.
 */
import { closeSync, openSync, rmSync, utimesSync } from 'node:fs';

const BEAT_MS = 1_000;
/** How far the file's time is ahead of the last beat. */
const LIVE_FOR_MS = 15_000;

/**
 * Sets the modification time of the file ahead, once a second, while the process is live.
 *
 * The time is the end of the process's liveness. A probe compares it with the present and runs no Node: `test
 * FILE -nt /proc/self`. A process whose event loop hangs sets no time.
 *
 * @returns a function that stops the heartbeat and removes the file
 * @throws where the file cannot be created
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

/** For tests of memory: collects all objects without references. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('garbage collection is not available');
  // An object read through a WeakRef in this turn of the event loop is kept until the end of the turn.
  await new Promise((resolve) => setTimeout(resolve, 0));
  collect();
}

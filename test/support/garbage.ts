/** For tests of what is kept in memory: what nothing refers to any more is gone. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('no garbage can be collected');
  // What the turn of the event loop that is under way has looked at by a WeakRef is kept until its end.
  await new Promise((resolve) => setTimeout(resolve, 0));
  collect();
}

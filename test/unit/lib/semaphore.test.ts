/** A limited number of places. */
import { Semaphore } from '../../../src/lib/semaphore';

it('a waiter that times out takes no place, and leaves it to the waiters behind', async () => {
  const semaphore = new Semaphore(1);
  expect(await semaphore.acquireWithin(0)).toBe(true);
  const hasty = semaphore.acquireWithin(1);
  const patient = semaphore.acquireWithin(10_000);
  expect(await hasty).toBe(false);
  semaphore.release();
  expect(await patient).toBe(true);
  semaphore.release();
  expect(await semaphore.acquireWithin(0)).toBe(true);
});

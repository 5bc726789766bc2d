/** Every wait has a name and a deadline. The error of a missed deadline names both. */

export class DeadlineError extends Error {
  constructor(
    readonly what: string,
    readonly milliseconds: number,
  ) {
    super(`Not within ${milliseconds / 1000} s: ${what}`);
    this.name = 'DeadlineError';
  }
}

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });

/** The result of `work`, or a DeadlineError. The work itself is not cancelled. */
export async function within<T>(what: string, milliseconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new DeadlineError(what, milliseconds)), milliseconds);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/** Between two questions: short at first. A question costs CPU on both sides. */
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 100;
/** A later pause is this part of the time so far, so a wait is this much too long at most. */
const PART_OF_WAIT = 1 / 20;

/** Asks repeatedly until the answer is true. */
export async function until(
  what: string,
  milliseconds: number,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  const began = Date.now();
  while (!(await isSo())) {
    const waited = Date.now() - began;
    if (waited >= milliseconds) {
      throw new DeadlineError(what, milliseconds);
    }
    await sleep(Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, waited * PART_OF_WAIT)));
  }
}

/** The blocking form, for the 'exit' event of a process: nothing asynchronous runs in it. */
export function untilBlocking(milliseconds: number, isSo: () => boolean): boolean {
  const end = Date.now() + milliseconds;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  while (!isSo()) {
    if (Date.now() >= end) {
      return false;
    }
    Atomics.wait(cell, 0, 0, 10);
  }
  return true;
}

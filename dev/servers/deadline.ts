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

/** Asks repeatedly until the answer is true. */
export async function until(
  what: string,
  milliseconds: number,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  const end = Date.now() + milliseconds;
  while (!(await isSo())) {
    if (Date.now() >= end) {
      throw new DeadlineError(what, milliseconds);
    }
    await sleep(25);
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

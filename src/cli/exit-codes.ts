/** With what a command ends. */

export const DONE = 0;
/** It failed, or what it looked at is not clean. */
export const FAILED = 1;
/** Wrong usage or configuration: nothing was started. */
export const USAGE = 2;

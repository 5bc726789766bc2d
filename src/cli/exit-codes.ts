/** The exit codes of the commands. */

export const DONE = 0;
/** The command failed, or found a problem in the data that it checked. */
export const FAILED = 1;
/** Usage or configuration is wrong. Nothing was started. */
export const USAGE = 2;

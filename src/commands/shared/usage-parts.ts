/** Parts of help that the tables of commands share. */

export const WRONG_USAGE = 'a wrong option or setting; nothing was started';
export const WRONG_USAGE_OR_FILE = 'a wrong option, setting or FILE; nothing was started';

/** The option of commands that write to the log of operations. */
export const REQUESTED_BY = {
  value: 'NAME',
  help: 'the requester, for promo.operations (default USER@HOST of this process)',
} as const;

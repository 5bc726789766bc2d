/** Parts of help that the tables of commands share. */

export const WRONG_USAGE = 'a wrong option or setting; nothing was started';
export const WRONG_USAGE_OR_FILE = 'a wrong option, setting or FILE; nothing was started';

/** The option of commands that write to the log of operations. */
export const REQUESTED_BY = {
  value: 'NAME',
  help: 'the requester, for promo.operations (default USER@HOST of this process)',
} as const;

/** The options of commands that judge a file by the rules of a connection. Each needs the other. */
export const RULES_OF_CONNECTION = {
  reference: {
    value: 'FILE',
    file: 'file',
    needs: 'connection',
    help: 'apply the brand and game rules of this reference data',
  },
  connection: {
    value: 'ID',
    needs: 'reference',
    help: 'the connection of the reference data by which the events come',
  },
} as const;

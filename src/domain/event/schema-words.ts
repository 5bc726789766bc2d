/** The parts of the event's schema that ajv takes from outside: its pattern, and its format. */
import { AMOUNT_PATTERN, decimalsOf } from './money';
import { parseInstant } from './timestamp';

/**
 * The schema's only pattern. The scan that converts amounts also matches it: one grammar, and a cost linear
 * in the text's length.
 */
export const amountPattern = Object.assign(
  (pattern: string) => {
    if (pattern !== AMOUNT_PATTERN) throw new Error(`no matcher for the pattern ${pattern}`);
    return { test: (text: string) => decimalsOf(text) >= 0 };
  },
  { code: 'new RegExp' },
);

export const FORMATS = {
  'date-time': { type: 'string', validate: (text: string) => parseInstant(text) !== undefined },
} as const;

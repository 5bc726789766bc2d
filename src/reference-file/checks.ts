/** Checks of the texts in reference data. */
import { MAX_NAME_BYTES } from '../domain/event/event';
import { decimalsOf, MAX_MINOR, toMajor, toMinor } from '../domain/event/money';

export interface Complaint {
  readonly message: string;
  readonly remedy: string;
}

/** Returns the fault of a text, or undefined where the text is valid. */
export type Check = (text: string) => Complaint | undefined;

/**
 * Checks ids of operators, connections and feeds. A feed's public name is operator/feed, so neither id has a
 * slash. A connection's id appears in a record's header and people type it, so it has no invisible character.
 */
export const checkName: Check = (text) => {
  const complaint = checkGame(text) ?? checkBytes(text);
  if (complaint !== undefined) return complaint;
  if (text.includes('/')) return { message: 'An id has no slash.', remedy: 'Use a hyphen in place of "/".' };
  if (/[\s\p{Z}\p{Cc}\p{Cf}]/u.test(text)) {
    return {
      message: 'The id holds a space or an invisible character.',
      remedy: 'Use a hyphen in its place.',
    };
  }
  return undefined;
};

/**
 * Checks a brand. Every brand that an event can name is valid: any text that the store accepts, up to the
 * length of the event's field.
 */
export const checkBrand: Check = (text) => checkGame(text) ?? checkBytes(text);

/** Checks a game. Every game that an event can name is valid. */
export const checkGame: Check = (text) => {
  if (text === '') return { message: 'The text is empty.', remedy: 'Write the id.' };
  if (text.includes('\0') || !text.isWellFormed()) {
    const message = 'The text has U+0000 or half of a surrogate pair, which Postgres cannot store.';
    return { message, remedy: 'Remove the character: an event with it is never valid.' };
  }
  return undefined;
};

function checkBytes(text: string): Complaint | undefined {
  const bytes = Buffer.byteLength(text);
  if (bytes <= MAX_NAME_BYTES) return undefined;
  const message = `The id has ${bytes} bytes of UTF-8; the limit is ${MAX_NAME_BYTES}.`;
  return { message, remedy: 'Shorten it; a letter outside ASCII has several bytes.' };
}

export const TOPIC_PATTERN = '^(?!\\.{1,2}$)[a-zA-Z0-9._-]{1,249}$';
const topicPattern = new RegExp(TOPIC_PATTERN);

export const checkTopic: Check = (text) => {
  // In JavaScript, $ matches only the very end of the text, unlike in many other dialects.
  if (topicPattern.test(text)) return undefined;
  const remedy =
    'Use 1 to 249 ASCII letters, digits, dots, underscores and hyphens, and not "." or ".." alone.';
  return { message: 'Kafka does not allow this topic name.', remedy };
};

/** Checks a minimum bet in major units, which has to be exact in the currency. */
export function checkAmount(text: string, code: string, scale: number): Complaint | undefined {
  const decimals = decimalsOf(text);
  if (decimals < 0) {
    const message = text.startsWith('-') ? 'The amount is negative.' : 'The amount is no plain decimal.';
    return {
      message,
      remedy: 'Write digits such as "0.10": no sign, exponent, separator or leading zero.',
    };
  }
  if (decimals > scale) {
    const remedy = scale === 0 ? 'Write a whole number.' : `Write at most ${scale} decimals; zeros count.`;
    return { message: `The amount has more decimals (${decimals}) than ${code} (${scale}).`, remedy };
  }
  if (toMinor(text, scale) !== undefined) return undefined;
  return {
    message: 'The amount is too large.',
    remedy: `Write at most ${toMajor(MAX_MINOR, scale)} for ${code}.`,
  };
}

/** Makes foreign text safe to print: escapes the characters that a terminal obeys, and shortens long text. */

/** The number of characters of a foreign text that are shown. */
const MAX_SHOWN = 60;

/** Nearly all texts match. */
const PLAIN = /^[\t\n -~]*$/;
/** Control characters, which a terminal obeys, and characters that hide or reorder their neighbours. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Escapes each of these characters, except tab and line feed, as JSON does (`\u001b`). JSON keeps its
 * meaning.
 */
export function escapeUnprintable(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(UNPRINTABLE, (found) => (found === '\t' || found === '\n' ? found : escaped(found)));
}

/**
 * The same in one line. Tab and line feed are escaped too, so that a foreign text cannot begin a line of its
 * own.
 */
export function inOneLine(text: string): string {
  return escapeUnprintable(text).replace(/[\t\n]/g, escaped);
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, unit) => {
    const code = character.charCodeAt(unit).toString(16);
    return `\\u${code.padStart(4, '0')}`;
  }).join('');
}

/** A foreign text in quotes: first shortened, then escaped. */
export function quoted(text: string): string {
  if (text.length <= MAX_SHOWN) return escapeUnprintable(JSON.stringify(text));
  return `${escapeUnprintable(JSON.stringify(text.slice(0, MAX_SHOWN)))}... (${text.length} characters)`;
}

/** An id without quotes where nobody can misread it, else in quotes. */
export function plain(text: string): string {
  return /^[\p{L}\p{N}._:@/+-]{1,80}$/u.test(text) ? text : quoted(text);
}

/**
 * A value of an event with its type, to follow "is": `the number 5`, `the text "x"`, `an array of 2 values`.
 */
export function described(value: unknown): string {
  if (typeof value === 'string') return `the text ${quoted(value)}`;
  return typeof value === 'number' ? describedNumber(value) : typeOf(value);
}

/** JSON.parse rounds long numbers, and makes Infinity of `1e400`. The sender wrote neither. */
function describedNumber(value: number): string {
  if (Math.abs(value) === Number.POSITIVE_INFINITY)
    return `a number ${value > 0 ? 'above ' : 'below -'}1.8e308`;
  return Math.abs(value) > Number.MAX_SAFE_INTEGER ? `a number near ${value}` : `the number ${value}`;
}

/** The type alone, where the value may name a player: `a text`, `a number`, `an array of 2 values`. */
export function typeOf(value: unknown): string {
  if (typeof value === 'string') return 'a text';
  if (typeof value === 'number' || typeof value === 'bigint') return 'a number';
  if (value === null || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? `an array of ${counted(value.length, 'value')}` : 'an object';
}

/** The words with the sign that ends them. A question, such as `did you mean "EUR"?`, has its own. */
export function asSentence(words: string): string {
  return words.endsWith('?') ? words : `${words}.`;
}

/** "1,200": a whole number for people. */
export function grouped(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** "1 value", "2 values"; "unknown values" where the number is unknown. */
export function counted(count: number | null, noun: string, plural = `${noun}s`): string {
  return `${count ?? 'unknown'} ${count === 1 ? noun : plural}`;
}

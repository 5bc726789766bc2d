/** Foreign text made safe to read: what a terminal would obey is escaped, what is long is shortened. */

/** Characters of a foreign text that are shown. */
const MAX_SHOWN = 60;

/** Nearly all text is made of these alone. */
const PLAIN = /^[\t\n -~]*$/;
/** Control characters, which a terminal obeys, and characters that hide or reorder their neighbours. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The text with each of these characters but tab and line feed as JSON may write it (`\u001b`): JSON stays the same JSON. */
export function escapeUnprintable(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(UNPRINTABLE, (found) => (found === '\t' || found === '\n' ? found : escaped(found)));
}

/** The same in one line: tab and line feed are escaped too, so that a foreign text cannot begin a line of its own. */
export function inOneLine(text: string): string {
  return escapeUnprintable(text).replace(/[\t\n]/g, escaped);
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, unit) => {
    const code = character.charCodeAt(unit).toString(16);
    return `\\u${code.padStart(4, '0')}`;
  }).join('');
}

/** A foreign text in quotes: escaped, and shortened before anything else is done with it. */
export function quoted(text: string): string {
  if (text.length <= MAX_SHOWN) return escapeUnprintable(JSON.stringify(text));
  return `${escapeUnprintable(JSON.stringify(text.slice(0, MAX_SHOWN)))}... (${text.length} characters)`;
}

/** A value of an event with its type, to go on behind "is": `the number 5`, `the text "x"`, `an array of 2 values`. */
export function described(value: unknown): string {
  if (typeof value === 'string') return `the text ${quoted(value)}`;
  return typeof value === 'number' ? `the number ${value}` : typeOf(value);
}

/** The type alone, where the value may name a player: `a text`, `a number`, `an array of 2 values`. */
export function typeOf(value: unknown): string {
  if (typeof value === 'string') return 'a text';
  if (typeof value === 'number' || typeof value === 'bigint') return 'a number';
  if (value === null || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? `an array of ${counted(value.length, 'value')}` : 'an object';
}

/** "1 value", "2 values"; "unknown values" where nobody knows how many. */
export function counted(count: number | null, noun: string, plural = `${noun}s`): string {
  return `${count ?? 'unknown'} ${count === 1 ? noun : plural}`;
}

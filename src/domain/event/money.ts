/**
 * Exact money: currencies, their scales, and the conversion of decimal strings to minor units without
 * rounding (docs/rules.md, M1-M5).
 */

export interface Currency {
  readonly code: string;
  /** Decimals of the currency: an amount of 1 is 10^scale minor units. */
  readonly scale: number;
  /** The stored number of the currency. It never changes and is never given to another code. */
  readonly no: number;
}

/** The currencies (M4). Add a new one at the end of its scale's list; it gets the next free number. */
const TABLE: readonly (readonly [scale: number, firstNo: number, codes: string])[] = [
  [0, 1, 'JPY'],
  [2, 100, 'USD EUR GBP CHF CAD AUD NZD PLN CZK HUF RON BGN SEK NOK DKK TRY UAH RUB BRL MXN INR ZAR'],
  [6, 200, 'USDT USDC XRP ADA TRX'],
  [8, 300, 'BTC LTC DOGE'],
  [9, 400, 'SOL'],
  [18, 500, 'DAI ETH BNB MATIC'],
];

export const CURRENCIES: readonly Currency[] = TABLE.flatMap(([scale, firstNo, codes]) =>
  codes.split(' ').map((code, index) => ({ code, scale, no: firstNo + index })),
);

const byCode = new Map(CURRENCIES.map((currency) => [currency.code, currency]));
const byNo = new Map(CURRENCIES.map((currency) => [currency.no, currency]));
const LONGEST_CODE = Math.max(...CURRENCIES.map((currency) => currency.code.length));

/**
 * The currency of a code in any letter case; undefined where the table has none (M4).
 *
 * Only ASCII letters are folded: toUpperCase alone would turn U+017F into S and U+0131 into I.
 */
export function currencyOf(code: string): Currency | undefined {
  const exact = byCode.get(code);
  if (exact !== undefined || code.length > LONGEST_CODE) return exact;
  for (let i = 0; i < code.length; i++) if (code.charCodeAt(i) > 0x7f) return undefined;
  return byCode.get(code.toUpperCase());
}

/** The currency of a stored number; undefined for a number that only a newer version knows. */
export function currencyOfNo(no: number): Currency | undefined {
  return byNo.get(no);
}

/**
 * The grammar of an amount, as the schema publishes it. The scan below has the same grammar:
 * test/unit/domain/event/money.test.ts compares them.
 */
export const AMOUNT_PATTERN = '^(0|[1-9][0-9]*)(\\.[0-9]+)?$';

const ZERO = 0x30;
const NINE = 0x39;
const DOT = 0x2e;

/**
 * The number of decimals of a well-formed amount, or -1 where the text is no plain decimal (M1).
 *
 * It takes one pass and no regular expression, so the cost of a text of megabytes is linear in its length.
 */
export function decimalsOf(text: string): number {
  const length = text.length;
  let i = 0;
  while (i < length && isDigit(text.charCodeAt(i))) i++;
  if (i === 0) return -1;
  if (i > 1 && text.charCodeAt(0) === ZERO) return -1;
  if (i === length) return 0;
  if (text.charCodeAt(i) !== DOT) return -1;
  const firstDecimal = i + 1;
  for (i = firstDecimal; i < length; i++) if (!isDigit(text.charCodeAt(i))) return -1;
  return length > firstDecimal ? length - firstDecimal : -1;
}

/**
 * A well-formed amount in its shortest form, without zeros at the end, so that one number has one text. Null
 * where the text is no plain decimal.
 */
export function plainDecimal(text: string): string | null {
  const decimals = decimalsOf(text);
  if (decimals < 0) return null;
  if (decimals === 0) return text;
  let end = text.length;
  while (text.charCodeAt(end - 1) === ZERO) end--;
  return text.slice(0, text.charCodeAt(end - 1) === DOT ? end - 1 : end);
}

function isDigit(charCode: number): boolean {
  return charCode >= ZERO && charCode <= NINE;
}

/** The largest number of minor units: the store keeps signed 64 bits (M3). */
export const MAX_MINOR = 9_223_372_036_854_775_807n;
const MAX_MINOR_DIGITS = 19;
/** Integers of up to 15 digits are exact as a double. A double is the fast way to a bigint. */
export const EXACT_DOUBLE_DIGITS = 15;

/**
 * Minor units of a decimal text (M2, M3). Undefined where the text is no plain decimal, has more decimals
 * than `scale`, or is too large for a signed 64-bit integer. Excess zeros are refused too: nothing is rounded
 * away.
 */
export function toMinor(text: string, scale: number): bigint | undefined {
  const decimals = decimalsOf(text);
  if (decimals < 0 || decimals > scale) return undefined;
  const wholeDigits = decimals === 0 ? text.length : text.length - decimals - 1;
  if (wholeDigits + scale > MAX_MINOR_DIGITS + 1) return undefined;
  const digits = decimals === 0 ? text : text.slice(0, wholeDigits) + text.slice(wholeDigits + 1);
  const padded = digits + '0'.repeat(scale - decimals);
  if (padded.length <= EXACT_DOUBLE_DIGITS) return BigInt(Number(padded));
  const minor = BigInt(padded);
  return minor <= MAX_MINOR ? minor : undefined;
}

/**
 * Minor units as a decimal text in major units, with exactly `scale` decimals: 1050 at scale 2 is "10.50".
 */
export function toMajor(minor: bigint, scale: number): string {
  const sign = minor < 0n ? '-' : '';
  const digits = (minor < 0n ? -minor : minor).toString().padStart(scale + 1, '0');
  if (scale === 0) return sign + digits;
  return `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

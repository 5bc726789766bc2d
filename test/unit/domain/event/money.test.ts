/** Exact money (M1-M5). BigInt arithmetic is the oracle. */
import fc from 'fast-check';
import {
  AMOUNT_PATTERN,
  CURRENCIES,
  currencyOf,
  currencyOfNo,
  decimalsOf,
  MAX_MINOR,
  plainDecimal,
  toMajor,
  toMinor,
} from '../../../../src/domain/event/money';
import { aBet, aDeposit, anEvent, aSettled, aWithdrawal } from '../../../support/builders';
import { judged, verdictOf } from '../world';

const BAD_AMOUNT = 'rejected/bad_amount';

/** The agreed table, by number of decimals. The numbers are stored and never change. */
const TABLE = [
  { scale: 0, firstNo: 1, codes: ['JPY'] },
  {
    scale: 2,
    firstNo: 100,
    codes: [
      ...['USD', 'EUR', 'GBP', 'CHF', 'CAD', 'AUD', 'NZD', 'PLN', 'CZK', 'HUF', 'RON', 'BGN', 'SEK', 'NOK'],
      ...['DKK', 'TRY', 'UAH', 'RUB', 'BRL', 'MXN', 'INR', 'ZAR'],
    ],
  },
  { scale: 6, firstNo: 200, codes: ['USDT', 'USDC', 'XRP', 'ADA', 'TRX'] },
  { scale: 8, firstNo: 300, codes: ['BTC', 'LTC', 'DOGE'] },
  { scale: 9, firstNo: 400, codes: ['SOL'] },
  { scale: 18, firstNo: 500, codes: ['DAI', 'ETH', 'BNB', 'MATIC'] },
] as const;
const SCALES = TABLE.map(({ scale }) => scale);

const minorOf = (amount: string, currency: string) => judged(aBet({ amount, currency })).fields.amountMinor;

describe('the currencies [M4]', () => {
  it.each([
    ['0', 0],
    ['2', 2],
    ['6', 6],
    ['8', 8],
    ['9', 9],
    ['18', 18],
  ])('with the number of decimals %s', (_, scale) => {
    const { codes, firstNo } = TABLE.find((row) => row.scale === scale)!;
    expect(CURRENCIES.filter((currency) => currency.scale === scale)).toEqual(
      codes.map((code, index) => ({ code, scale, no: firstNo + index })),
    );
    for (const code of codes) {
      const mostExact = scale === 0 ? '7' : `0.${'0'.repeat(scale - 1)}7`;
      expect(minorOf(mostExact, code)).toBe(7n);
      expect(verdictOf(aBet({ amount: `${mostExact}${scale === 0 ? '.0' : '0'}`, currency: code }))).toBe(
        BAD_AMOUNT,
      );
    }
  });

  it('are 36, each with its own number', () => {
    expect(CURRENCIES).toHaveLength(36);
    expect(new Set(CURRENCIES.map(({ no }) => no)).size).toBe(36);
    for (const currency of CURRENCIES) expect(currencyOfNo(currency.no)).toBe(currency);
    expect(currencyOfNo(0)).toBeUndefined();
    expect(currencyOfNo(2)).toBeUndefined();
  });

  it('are found in any letter case [M4]', () => {
    const anyCase = (code: string) =>
      fc.mixedCase(fc.constant(code)).map((text) => ({ text, currency: currencyOf(code) }));
    fc.assert(
      fc.property(fc.oneof(...CURRENCIES.map(({ code }) => anyCase(code))), ({ text, currency }) => {
        expect(currency).toBeDefined();
        expect(currencyOf(text)).toBe(currency);
      }),
    );
    expect(judged(aBet({ currency: 'eUr' })).fields.currency?.code).toBe('EUR');
  });

  it('a code that is not in the table is skipped as currency_unknown [M4]', () => {
    for (const currency of [
      'XXX',
      'EURO',
      'EU',
      '',
      ' EUR',
      'EUR ',
      'EUR\n',
      '€',
      '978',
      'SHIB',
      'MATICC',
      'constructor',
    ])
      for (const kind of ['bet', 'win', 'settled', 'refund', 'deposit', 'withdrawal'])
        expect(verdictOf(anEvent(kind, { currency, amount: '1' }))).toBe('skipped/currency_unknown');
  });

  it.each([
    ['long s, whose upper case is S', 'u\u017fd'],
    ['long s', '\u017fol'],
    ['dotless i, whose upper case is I', '\u0131nr'],
    ['capital I with a dot', '\u0130NR'],
    ['Kelvin sign, whose lower case is k', 'CZ\u212a'],
    ['full-width letters', '\uff25\uff35\uff32'],
    ['Cyrillic letters that look alike', '\u0415UR'],
    ['a combining mark', 'EU\u0301R'],
    ['a ligature, whose upper case is two letters', '\ufb01'],
  ])('letters are compared as ASCII: %s is another code [M4] [V7]', (_, currency) => {
    expect(currencyOf(currency)).toBeUndefined();
    expect(verdictOf(aBet({ currency }))).toBe('skipped/currency_unknown');
  });
});

describe('the form of an amount [M1]', () => {
  it.each([
    ['0', 0],
    ['7', 0],
    ['10', 0],
    ['0.0', 1],
    ['0.5', 1],
    ['10.50', 2],
    ['1.000', 3],
    ['9'.repeat(40), 0],
    [`0.${'0'.repeat(40)}`, 40],
  ])('"%s" has %i decimals', (text, decimals) => {
    expect(decimalsOf(text)).toBe(decimals);
  });

  it.each([
    ['leading minus', '-1'],
    ['leading minus', '-0.50'],
    ['leading plus', '+1'],
    ['exponent form', '1e2'],
    ['exponent form', '1E2'],
    ['exponent form', '1.5e1'],
    ['comma decimal', '1,50'],
    ['thousands separator', '1,000.00'],
    ['thousands separator', '1_000'],
    ['leading zero', '01'],
    ['leading zero', '00'],
    ['leading zero', '00.5'],
    ['leading zero', '007.50'],
    ['leading dot', '.5'],
    ['trailing dot', '5.'],
    ['trailing dot', '0.'],
    ['two dots', '1.5.0'],
    ['two dots', '1..5'],
    ['dot alone', '.'],
    ['empty', ''],
    ['blank', ' '],
    ['blank in front', ' 1'],
    ['blank behind', '1 '],
    ['line feed behind', '1\n'],
    ['line feed behind', '1.5\n'],
    ['hexadecimal', '0x10'],
    ['a word', 'NaN'],
    ['a word', 'Infinity'],
    ['currency sign', '€1'],
    ['Arabic-Indic digits', '\u0661'],
    ['full-width digits', '\uff11'],
    ['the characters on both sides of the digits', '1/'],
    ['the characters on both sides of the digits', '1:'],
    ['the characters on both sides of the digits', '1./'],
    ['the characters on both sides of the digits', '1.:'],
    ['a fraction', '1/2'],
  ])('%s: "%s" is refused', (_, amount) => {
    expect(decimalsOf(amount)).toBe(-1);
    for (const kind of ['bet', 'win', 'settled', 'refund', 'deposit', 'withdrawal'])
      expect(verdictOf(anEvent(kind, { amount }))).toBe(BAD_AMOUNT);
    expect(toMinor(amount, 2)).toBeUndefined();
  });

  it('is the published pattern, for any text', () => {
    const pattern = new RegExp(AMOUNT_PATTERN);
    // `$` of a JSON Schema pattern, which has no multi-line flag, is the end of the text.
    const near = fc.string({
      unit: fc.constantFrom('0', '1', '9', '.', '-', 'e', '\n', '/', ':'),
      maxLength: 8,
    });
    fc.assert(
      fc.property(fc.oneof(near, fc.string()), (text) => {
        const groups = pattern.exec(text);
        return decimalsOf(text) === (groups === null ? -1 : (groups[2] ?? '.').length - 1);
      }),
      { numRuns: 2_000 },
    );
  });

  it('an amount of any length has a form', () => {
    const many = 10_000;
    expect(decimalsOf('9'.repeat(many))).toBe(0);
    expect(decimalsOf(`0.${'9'.repeat(many)}`)).toBe(many);
    expect(verdictOf(aBet({ amount: '9'.repeat(many) }))).toBe(BAD_AMOUNT);
    expect(verdictOf(aBet({ amount: `1.${'0'.repeat(many)}` }))).toBe(BAD_AMOUNT);
  });
});

describe('minor units are exact [M2]', () => {
  it.each([
    ['10', 'EUR', 1000n],
    ['10.5', 'EUR', 1050n],
    ['10.50', 'EUR', 1050n],
    ['0.01', 'EUR', 1n],
    ['0.07', 'USD', 7n],
    ['1.15', 'USD', 115n],
    ['90071992547409.93', 'EUR', 9007199254740993n],
    ['92233720368547758.07', 'EUR', MAX_MINOR],
  ])('%s %s is %d', (amount, currency, minor) => {
    expect(minorOf(amount, currency)).toBe(minor);
    expect(verdictOf(aBet({ amount, currency }))).toBe('accepted');
  });

  it.each([
    ['1', 1n],
    ['1500', 1500n],
    ['9223372036854775807', MAX_MINOR],
  ])('%s JPY is %d', (amount, minor) => {
    expect(minorOf(amount, 'JPY')).toBe(minor);
    expect(verdictOf(aBet({ amount, currency: 'JPY' }))).toBe('accepted');
  });

  it.each([
    ['1', 100_000_000n],
    ['0.00000001', 1n],
    ['0.1', 10_000_000n],
    ['20999999.97690000', 2_099_999_997_690_000n],
    ['92233720368.54775807', MAX_MINOR],
  ])('%s BTC is %d', (amount, minor) => {
    expect(minorOf(amount, 'BTC')).toBe(minor);
    expect(verdictOf(aBet({ amount, currency: 'BTC' }))).toBe('accepted');
  });

  it.each(['1.505', '1.500', '0.001', '10.0000'])(
    '%s EUR has too many decimals, and is never rounded [M3]',
    (amount) => {
      expect(verdictOf(aBet({ amount, currency: 'EUR' }))).toBe(BAD_AMOUNT);
      expect(minorOf(amount, 'EUR')).toBeNull();
    },
  );

  it.each(['1.5', '1.0', '0.0', '100.00'])('%s JPY has decimals', (amount) => {
    expect(verdictOf(aBet({ amount, currency: 'JPY' }))).toBe(BAD_AMOUNT);
  });

  it('whole part and decimals are put together, for any number and scale', () => {
    const digits = (min: number, max: number) =>
      fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: min, maxLength: max });
    const whole = fc.oneof(fc.constant('0'), fc.bigInt({ min: 1n, max: 10n ** 21n }).map(String));
    fc.assert(
      fc.property(whole, digits(0, 20), fc.constantFrom(...SCALES), (head, decimals, scale) => {
        const text = decimals === '' ? head : `${head}.${decimals}`;
        const exact =
          decimals.length > scale
            ? undefined
            : BigInt(head) * 10n ** BigInt(scale) +
              BigInt(decimals || '0') * 10n ** BigInt(scale - decimals.length);
        return toMinor(text, scale) === (exact === undefined || exact > MAX_MINOR ? undefined : exact);
      }),
      // A number that is not exact in floating point: the random ones are mostly larger than allowed.
      { numRuns: 2_000, examples: [['90071992547409', '93', 2]] },
    );
  });
});

describe('minor units fit a signed 64-bit integer [M3]', () => {
  it('the largest number is 2^63 - 1', () => {
    expect(MAX_MINOR).toBe(2n ** 63n - 1n);
  });

  it.each(TABLE.map(({ scale, codes }) => [scale, codes[0]] as const))(
    'with %i decimals (%s) the largest amount is accepted, one unit more is refused',
    (scale, currency) => {
      expect(minorOf(toMajor(MAX_MINOR, scale), currency)).toBe(MAX_MINOR);
      expect(verdictOf(aBet({ amount: toMajor(MAX_MINOR, scale), currency }))).toBe('accepted');
      const beyond = toMajor(MAX_MINOR + 1n, scale);
      expect(verdictOf(aBet({ amount: beyond, currency }))).toBe(BAD_AMOUNT);
      expect(toMinor(beyond, scale)).toBeUndefined();
      expect(toMinor(toMajor(10n ** 19n, scale), scale)).toBeUndefined();
      expect(toMinor(toMajor(10n ** 25n, scale), scale)).toBeUndefined();
    },
  );

  it('with 18 decimals 9.22 units fit, 10 do not', () => {
    expect(minorOf('9.223372036854775807', 'ETH')).toBe(MAX_MINOR);
    expect(verdictOf(aBet({ amount: '9.223372036854775808', currency: 'ETH' }))).toBe(BAD_AMOUNT);
    expect(verdictOf(aBet({ amount: '10', currency: 'ETH' }))).toBe(BAD_AMOUNT);
    expect(verdictOf(aBet({ amount: '9', currency: 'DAI' }))).toBe('accepted');
  });

  it('numbers on both sides of 15 digits, where doubles end, are exact', () => {
    for (const text of [
      '99999999999999',
      '999999999999999',
      '1000000000000000',
      '9999999999999999',
      '9007199254740993',
    ])
      expect(toMinor(text, 0)).toBe(BigInt(text));
  });
});

describe('an amount of zero [G1]', () => {
  it.each(['0', '0.0', '0.00'])('"%s" of a bet or settled is skipped as zero_amount', (amount) => {
    expect(verdictOf(aBet({ amount }))).toBe('skipped/zero_amount');
    expect(verdictOf(aSettled({ amount }))).toBe('skipped/zero_amount');
  });

  it('of an account kind is decided like any other amount', () => {
    expect(verdictOf(aDeposit({ amount: '0' }))).toBe('accepted');
    expect(verdictOf(aWithdrawal({ amount: '0.00' }))).toBe('accepted');
    expect(judged(aDeposit({ amount: '0' })).fields.amountMinor).toBe(0n);
  });
});

describe('minor units become major units [M5]', () => {
  it.each([
    [0n, 0, '0'],
    [0n, 2, '0.00'],
    [1n, 2, '0.01'],
    [1050n, 2, '10.50'],
    [100n, 0, '100'],
    [-1050n, 2, '-10.50'],
    [-1n, 8, '-0.00000001'],
    [-7n, 0, '-7'],
    [MAX_MINOR, 18, '9.223372036854775807'],
    [10n ** 30n, 2, '10000000000000000000000000000.00'],
  ])('%d at scale %i is %s', (minor, scale, major) => {
    expect(toMajor(minor, scale)).toBe(major);
  });

  it('and back without loss, for every scale', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: MAX_MINOR }), fc.constantFrom(...SCALES), (minor, scale) => {
        expect(toMinor(toMajor(minor, scale), scale)).toBe(minor);
        expect(toMajor(-minor, scale)).toBe(minor === 0n ? toMajor(0n, scale) : `-${toMajor(minor, scale)}`);
      }),
    );
  });
});

describe('an amount in its shortest form, which is content if the currency is unknown [K4]', () => {
  it.each([
    ['0', '0'],
    ['0.0', '0'],
    ['0.000', '0'],
    ['10', '10'],
    ['100', '100'],
    ['10.0', '10'],
    ['10.5', '10.5'],
    ['10.50', '10.5'],
    ['10.05', '10.05'],
    ['10.050', '10.05'],
    ['0.10', '0.1'],
    ['100.00', '100'],
    ['9'.repeat(40), '9'.repeat(40)],
  ])('%s is %s', (text, plain) => {
    expect(plainDecimal(text)).toBe(plain);
  });

  it.each(['', '.', '1.', '.5', '01', '00', '-1', '1e2', '1,5', ' 1', '1 ', '1.5x', 'x'])(
    '"%s" has none, because it is no amount',
    (text) => {
      expect(plainDecimal(text)).toBeNull();
    },
  );

  it('two amounts have the same shortest form exactly if they are the same number', () => {
    const digits = fc.string({ unit: fc.constantFrom('0', '0', '1', '5'), maxLength: 4 });
    const amount = fc
      .tuple(fc.nat(120), digits)
      .map(([whole, decimals]) => (decimals === '' ? `${whole}` : `${whole}.${decimals}`));
    fc.assert(
      fc.property(amount, amount, (a, b) => {
        expect(plainDecimal(a) === plainDecimal(b)).toBe(Number(a) === Number(b));
        expect(Number(plainDecimal(a))).toBe(Number(a));
        expect(plainDecimal(`${a}`)).toBe(plainDecimal(plainDecimal(a) ?? ''));
      }),
    );
  });
});

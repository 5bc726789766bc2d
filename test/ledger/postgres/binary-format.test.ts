/**
 * Postgres reads our binary formats: rows of COPY, arrays as parameters, and keys on their way back to ids.
 */
import fc from 'fast-check';
import { ID_KEY, idFinder } from '../../../src/domain/event/id-key';
import { parseInstant } from '../../../src/domain/event/timestamp';
import { arrays, CopyRows, sinceEpoch } from '../../../src/postgres/binary-format';
import { StoreError } from '../../../src/postgres/errors';
import type { Row } from '../../../src/postgres/pipeline';
import { inTransaction } from '../../../src/postgres/transaction';
import { idKey } from '../../support/id-key';
import { freshStore, type TestStore } from '../../support/ledger';
import { anyCharacter } from '../../support/texts';

let store: TestStore;
beforeAll(async () => {
  // A database of its own, since shared databases are dropped before this file closes them.
  store = await freshStore({ own: true });
});
afterAll(() => store.close());

type Texts = (string | null)[];

/** The rows of a table after a COPY, as text, in the order of the first column. */
async function copied(columns: string, rows: CopyRows): Promise<Row[]> {
  return inTransaction(store.pool, async (session) => {
    await session.write([
      { name: 'create', text: `create temp table copied (${columns}) on commit drop` },
      { name: 'copy_in', text: 'copy copied from stdin binary', rows },
    ]);
    return session.query({ name: `read_${columns}`, text: 'select * from copied order by 1' });
  });
}

/** Passes values by COPY into a column, and returns them as text. */
async function throughCopy<T>(
  type: string,
  values: readonly T[],
  write: (rows: CopyRows, value: T) => void,
): Promise<Texts> {
  const rows = new CopyRows();
  values.forEach((value, index) => {
    rows.row(2);
    rows.int4Value(index);
    write(rows, value);
  });
  return (await copied(`n int, value ${type}`, rows)).map(([, value]) => value ?? null);
}

describe('statements of one request', () => {
  const rowsOf = (values: readonly number[]) => {
    const rows = new CopyRows();
    for (const value of values) {
      rows.row(1);
      rows.int4Value(value);
    }
    return rows;
  };
  const copyInto = (table: string, values: readonly number[]) => ({
    name: `copy_${table}`,
    text: `copy ${table} from stdin binary`,
    rows: rowsOf(values),
  });
  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);
  const tables = (...names: string[]) =>
    names.map((name) => ({ name, text: `create temp table ${name} (n int primary key) on commit drop` }));

  test('run in their order, each COPY with its own rows', async () => {
    const [counts] = await inTransaction(store.pool, async (session) => {
      await session.write([
        ...tables('a', 'b'),
        copyInto('a', [1, 2, 3]),
        { name: 'delete', text: 'delete from a where n = 2' },
        copyInto('b', upTo(100_000)),
        copyInto('a', [2, 4]),
      ]);
      return session.query({ name: 'counts', text: 'select (select sum(n) from a), (select sum(n) from b)' });
    });
    expect(counts).toEqual(['10', '4999950000']);
  });

  test('end at the failing one, which the error names; later rows are skipped, and the connection stays usable', async () => {
    const many = upTo(200_000);
    for (const failing of [
      copyInto('a', [1, 1]),
      copyInto('missing', many),
      { name: 'division', text: 'select 1 / 0' },
    ]) {
      const error = await inTransaction(store.pool, (session) =>
        session.writeAndCommit([...tables('a', 'b'), copyInto('b', [1]), failing, copyInto('b', many)]),
      ).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(StoreError);
      expect(String(error)).toContain(`StoreError: ${failing.name}: `);
      expect(await copied('n int', rowsOf([7]))).toEqual([['7']]);
    }
  });
});

/** Passes values by a parameter, and returns them as text. */
async function throughArray(type: string, array: Buffer): Promise<Texts> {
  const rows = await store.rows(
    `select value from unnest($1::${type}[]) with ordinality as t (value, n) order by n`,
    [array],
  );
  return rows.map(([value]) => value ?? null);
}

const textOf = (value: unknown) => (value === null ? null : String(value));

describe('numbers', () => {
  const numerics = [
    ...[
      0n,
      1n,
      9n,
      10n,
      9_999n,
      10_000n,
      10_001n,
      19_999n,
      99_999_999n,
      10n ** 8n,
      10n ** 8n + 1n,
      10n ** 12n,
    ],
    // Below and above the largest exact integer of a double, and of 64 bits.
    ...[2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n],
    ...[
      10n ** 16n,
      10n ** 19n,
      10n ** 30n - 1n,
      10n ** 30n,
      10n ** 30n + 1n,
      10n ** 30n + 10_000n,
      3n * 10n ** 100n,
    ],
  ];

  test('a numeric keeps its value, however large and with any number of final zeros [M5]', async () => {
    expect(await throughCopy('numeric', numerics, (rows, value) => rows.numericValue(value))).toEqual(
      numerics.map(String),
    );
    expect(await throughArray('numeric', arrays.numeric(numerics))).toEqual(numerics.map(String));
    // It is as good as any other numeric: its sums, comparisons and text are those of the number.
    const [[equal] = []] = await store.rows(
      `select bool_and(value = text::numeric and value + 1 - 1 = text::numeric and scale(value) = 0 and hash_numeric(value) = hash_numeric(text::numeric))
       from unnest($1::numeric[], $2::text[]) as t (value, text)`,
      [arrays.numeric(numerics), arrays.text(numerics.map(String))],
    );
    expect(equal).toBe('t');
  });

  test('any whole numeric keeps its value and its sign, and null [M5]', async () => {
    const value = fc.oneof(
      fc.bigInt({ min: -(10n ** 6n), max: 10n ** 6n }),
      fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
      fc
        .tuple(fc.bigInt({ min: 0n, max: 99_999n }), fc.nat(40))
        .map(([digits, zeros]) => digits * 10n ** BigInt(zeros)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 50, maxLength: 100 }), async (values) => {
        expect(await throughArray('numeric', arrays.numeric([...values, null]))).toEqual([
          ...values.map(String),
          null,
        ]);
      }),
      { numRuns: 20 },
    );
  });

  test('an integer of each size keeps its value, as number and as bigint, and null', async () => {
    const int8 = [
      ...[
        0,
        1,
        -1,
        255,
        256,
        2 ** 31 - 1,
        2 ** 31,
        -(2 ** 31),
        -(2 ** 31) - 1,
        2 ** 32 - 1,
        2 ** 32,
        2 ** 32 + 1,
      ],
      ...[-(2 ** 32), -(2 ** 32) - 1, 2 ** 53 - 1, -(2 ** 53 - 1), 1_795_262_400_123_456, null],
      ...[0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 32n, -(2n ** 32n)],
    ];
    const int4 = [0, 1, -1, 2 ** 31 - 1, -(2 ** 31), null];
    const int2 = [0, 1, -1, 2 ** 15 - 1, -(2 ** 15), null];
    const bool = [true, false, null];
    expect(await throughCopy('bigint', int8, (rows, value) => rows.int8Value(value))).toEqual(
      int8.map(textOf),
    );
    expect(await throughArray('bigint', arrays.int8(int8))).toEqual(int8.map(textOf));
    expect(await throughCopy('int', int4, (rows, value) => rows.int4Value(value))).toEqual(int4.map(textOf));
    expect(await throughArray('int', arrays.int4(int4))).toEqual(int4.map(textOf));
    expect(await throughCopy('smallint', int2, (rows, value) => rows.int2Value(value))).toEqual(
      int2.map(textOf),
    );
    expect(await throughArray('smallint', arrays.int2(int2))).toEqual(int2.map(textOf));
    const letters = ['t', 'f', null];
    expect(await throughCopy('boolean', bool, (rows, value) => rows.boolValue(value))).toEqual(letters);
    expect(await throughArray('boolean', arrays.bool(bool))).toEqual(letters);
  });

  test('a time keeps its microseconds', async () => {
    const micros = [-62_135_596_800_000_000n, 946_684_800_000_000n, 1_764_000_000_123_456n, null];
    const answer = await store.rows(
      'select (extract(epoch from t) * 1000000)::bigint from unnest($1::timestamptz[]) with ordinality u (t, n) order by n',
      [arrays.timestamptz(micros)],
    );
    expect(answer).toEqual(micros.map((value) => [textOf(value)]));
  });

  test('any integer of a double keeps its value', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.maxSafeInteger(), { minLength: 100, maxLength: 100 }), async (values) => {
        expect(await throughArray('bigint', arrays.int8(values))).toEqual(values.map(String));
      }),
      { numRuns: 20 },
    );
  });

  test('a time is the number of microseconds since 2000', async () => {
    const texts = [
      '2026-11-21 12:00:00.123456+00',
      '1999-12-31 23:59:59.999999+00',
      '2000-01-01 00:00:00+00',
      '0001-01-01 00:00:00+00',
    ];
    const micros = texts.map((text) =>
      sinceEpoch(parseInstant(text.replace(' ', 'T').replace('+00', 'Z')) ?? 0n),
    );
    expect(await throughCopy('timestamptz', micros, (rows, value) => rows.int8Value(value))).toEqual(texts);
  });
});

describe('texts', () => {
  const lengths = [0, 1, 63, 64, 65, 66, 255, 256, 1_000, 100_000];
  const texts = [
    ...lengths.map((length) => 'x'.repeat(length)),
    // A non-ASCII letter at the beginning, in the middle and at the end, in short and in long texts.
    ...[1, 2, 62, 63, 64, 65, 200].flatMap((length) => [
      `é${'x'.repeat(length - 1)}`,
      `${'x'.repeat(length - 1)}é`,
    ]),
    ...[
      'é'.repeat(32),
      'é'.repeat(33),
      'é'.repeat(64),
      '€'.repeat(64),
      '🎰'.repeat(32),
      '🎰'.repeat(33),
      '\u007f',
      '\u0080',
      '\uffff',
    ],
    ...[
      '\\',
      '\\N',
      '\\.',
      '\t',
      '\n',
      '\r\n',
      '"',
      "'",
      '{}',
      '{null}',
      'NULL',
      ',',
      ' ',
      '\u0001',
      '\ufeffx',
    ],
    null,
  ];

  test('a text of any length and letters keeps its value, and null', async () => {
    expect(await throughCopy('text', texts, (rows, value) => rows.textValue(value))).toEqual(texts);
    expect(await throughArray('text', arrays.text(texts))).toEqual(texts);
  });

  test('a text that is not ASCII does not change the fields after it', async () => {
    const rows = new CopyRows();
    rows.row(4);
    rows.textValue('a');
    rows.textValue('xxxé');
    rows.int4Value(7);
    rows.textValue('b');
    expect(await copied('a text, b text, c int, d text', rows)).toEqual([['a', 'xxxé', '7', 'b']]);
  });

  test('any text that can be stored keeps its value', async () => {
    const text = fc.string({ unit: anyCharacter, maxLength: 70 }).map((value) => value.replaceAll('\0', ''));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(text), { minLength: 50, maxLength: 50 }), async (values) => {
        expect(await throughArray('text', arrays.text(values))).toEqual(values);
        expect(await throughCopy('text', values, (rows, value) => rows.textValue(value))).toEqual(values);
      }),
      { numRuns: 20 },
    );
  });

  test('a JSON value keeps its value, and null', async () => {
    const values = [
      {},
      { EUR: { bet: '9'.repeat(40), name: 'é€🎰"\\' } },
      [1, 'a', null, true],
      'x'.repeat(70_000),
      null,
    ];
    const written = values.map((value) => (value === null ? null : JSON.stringify(value)));
    const read = await throughCopy('jsonb', written, (rows, value) => rows.jsonbValue(value));
    expect(read.map((text): unknown => (text === null ? null : JSON.parse(text)))).toEqual(values);
  });
});

describe('rows and arrays', () => {
  test('no rows, and an empty array of each type', async () => {
    expect(await copied('n int', new CopyRows())).toEqual([]);
    for (const [type, array] of [
      ['bigint', arrays.int8([])],
      ['int', arrays.int4([])],
      ['smallint', arrays.int2([])],
      ['boolean', arrays.bool([])],
      ['timestamptz', arrays.timestamptz([])],
      ['numeric', arrays.numeric([])],
      ['text', arrays.text([])],
      ['bytea', arrays.formatted([], ID_KEY)],
    ] as const) {
      expect([type, await throughArray(type, array)]).toEqual([type, []]);
      expect(await store.value(`select $1::${type}[] = '{}'`, [array])).toBe('t');
    }
  });

  test('rows of every type may exceed any buffer, and the buffers are reused', async () => {
    const count = 3_000;
    const expected = Array.from({ length: count }, (_, n): Texts => {
      const text = `${'x'.repeat(n % 130)}${n % 7 === 0 ? 'é' : ''}`;
      return [
        `${n}`,
        n % 3 === 0 ? 't' : 'f',
        text,
        `${BigInt(n) ** 9n}`,
        n % 5 === 0 ? null : `{"n": ${n}}`,
      ];
    });
    // The second time in the buffer of the first, which holds other rows. The third time in a buffer of many
    // rows.
    for (const size of [10, count, 3, count]) {
      const rows = new CopyRows();
      for (const [n, isThird, text, power, json] of expected.slice(0, size)) {
        rows.row(5);
        rows.int4Value(Number(n));
        rows.boolValue(isThird === 't');
        rows.textValue(text ?? null);
        rows.numericValue(BigInt(power ?? 0));
        rows.jsonbValue(json ?? null);
      }
      expect(await copied('n int, third boolean, name text, power numeric, json jsonb', rows)).toEqual(
        expected.slice(0, size),
      );
    }
  });

  test('rows that are written while others are in flight stay separate', async () => {
    const jobs = Array.from({ length: 12 }, async (_, job) => {
      const values = Array.from({ length: 500 }, (_, n) => `${job}-${n}-${'x'.repeat((job * 37 + n) % 90)}`);
      expect(await throughCopy('text', values, (rows, value) => rows.textValue(value))).toEqual(values);
    });
    await Promise.all(jobs);
  });

  test('refused rows are not mixed with the next ones', async () => {
    for (let i = 0; i < 3; i++) {
      await expect(
        throughCopy('smallint', [1, 2, 3], (rows, value) => rows.int4Value(value)),
      ).rejects.toThrow('copy_in');
      const values = [`a${i}`, 'é'.repeat(3_000), 'b'];
      expect(await throughCopy('text', values, (rows, value) => rows.textValue(value))).toEqual(values);
    }
  });
});

describe('keys of ids [K1] [K5]', () => {
  const UUID = '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01';
  const ids = [
    ...['e', 'x'.repeat(15), 'é'.repeat(7), '🎰🎰🎰', '\u0001', '\\x41', '\ufeff', ' ', '00', 'é€🎰 \uffff'],
    ...[
      UUID,
      '00000000-0000-0000-0000-000000000000',
      'ffffffff-ffff-ffff-ffff-ffffffffffff',
      '61616161-6161-6161-6161-616161616161',
    ],
    ...[
      'x'.repeat(16),
      'é'.repeat(8),
      UUID.toUpperCase(),
      UUID.replaceAll('-', ''),
      `{${UUID}}`,
      'x'.repeat(100_000),
    ],
  ];
  const hexOf = (id: string) => `\\x${idKey(id).toString('hex')}`;

  test('ids of all three classes have the keys of the store, in one array and in one COPY', async () => {
    const keys = ids.map(hexOf);
    expect(await throughArray('bytea', arrays.formatted(ids, ID_KEY))).toEqual(keys);
    expect(await throughCopy('bytea', ids, (rows, id) => rows.formatted(id, ID_KEY))).toEqual(keys);
    expect(
      (
        await store.rows(
          'select promo_store.id_key(id) from unnest($1::text[]) with ordinality i (id, n) order by n',
          [ids],
        )
      ).flat(),
    ).toEqual(keys);
  });

  test('a key in an answer of the store leads back to its id, in each class', async () => {
    const idOf = idFinder(ids);
    const answered = await throughArray('bytea', arrays.formatted(ids, ID_KEY));
    expect(answered.map((key) => idOf(key ?? ''))).toEqual(ids);
  });

  test('any ids are found by their keys, in any order', async () => {
    const id = fc
      .oneof(
        fc.uuid(),
        fc.uuid().map((uuid) => uuid.toUpperCase()),
        fc.string({ unit: anyCharacter, minLength: 1, maxLength: 16 }),
        fc.string({ unit: anyCharacter, minLength: 14, maxLength: 60 }),
      )
      .map((text) => text.replaceAll('\0', '0'));
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(id, { minLength: 50, maxLength: 50 }), async (some) => {
        const idOf = idFinder(some);
        const keys = await store.rows(
          'select promo_store.id_key(id) from unnest($1::text[]) with ordinality i (id, n) order by n desc',
          [some],
        );
        expect(keys.map(([key]) => idOf(key ?? ''))).toEqual([...some].reverse());
      }),
      { numRuns: 20 },
    );
  });

  test('a digest that was not requested leads to no id', () => {
    const idOf = idFinder(['short', UUID, 'long, but another one']);
    expect(idOf(hexOf('this one was not asked for'))).toBeUndefined();
    expect(idOf(hexOf('long, but another one'))).toBe('long, but another one');
    expect(idFinder([])(hexOf('this one was not asked for'))).toBeUndefined();
  });

  test('no short id is mistaken for a UUID or a digest: no short id has a key of 16 or 20 bytes', () => {
    // A text of the 16 bytes of a UUID: as an id it is too long to be its own key.
    const sixteen = Buffer.from('61616161616161616161616161616161', 'hex').toString();
    expect(idKey('61616161-6161-6161-6161-616161616161').toString()).toBe(sixteen);
    expect(idKey(sixteen)).toHaveLength(20);
    const both = [sixteen, '61616161-6161-6161-6161-616161616161'];
    const idOf = idFinder(both);
    expect(both.map((id) => idOf(hexOf(id)))).toEqual(both);
    // The longest ids that are their own keys have 15 bytes, in any number of letters.
    for (const longest of ['a'.repeat(15), 'é'.repeat(7), '€'.repeat(5), '🎰'.repeat(3)]) {
      expect(idKey(longest).length).toBeLessThan(16);
      expect(idKey(`${longest}xx`).length).toBe(
        Buffer.byteLength(longest) < 14 ? Buffer.byteLength(longest) + 2 : 20,
      );
    }
  });
});

test('settings of a transaction end with it: each statement uses its index, planned once for any values', async () => {
  const settings = [
    'enable_seqscan',
    'enable_nestloop',
    'jit',
    'plan_cache_mode',
    'statement_timeout',
    'lock_timeout',
    'idle_in_transaction_session_timeout',
  ];
  const read = `select ${settings.map((name) => `current_setting('${name}')`).join(', ')}`;
  const [before] = await store.rows(read);
  const [during] = await inTransaction(store.pool, (session) =>
    session.query({ name: 'settings_read', text: read }),
  );
  expect(during).toEqual(['off', 'off', 'off', 'force_generic_plan', '8s', '5s', '15s']);
  for (let i = 0; i < 4; i++) expect(await store.rows(read)).toEqual([before]);
});

/** The comparison of schemas against documents: where no change is breaking, documents stay valid. */
import Ajv2020 from 'ajv/dist/2020';
import fc from 'fast-check';
import { compareSchemas, type Direction } from '../../dev/compatibility/json-schema';
import { inRun } from '../../dev/long-run';

/** FUZZ_RUNS=100000 takes some minutes. */
const RUNS = inRun({ usual: 300, long: 700, variable: 'FUZZ_RUNS' });

type Schema = Readonly<Record<string, unknown>>;

describe('random schemas', () => {
  const NAMES = ['a', 'b', 'c'];
  const scalar = fc.constantFrom<unknown>('', 'x', 'xy', 0, 1, 2.5, 3, true, null);
  const { value: anyValue } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      scalar,
      fc.array(tie('value'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom(...NAMES, 'd'), tie('value'), { maxKeys: 3 }),
    ),
  }));
  const anyDocument = anyValue.map((value): unknown => JSON.parse(JSON.stringify(value)));
  const maybe = { requiredKeys: [] };
  const { schema: anyPart } = fc.letrec<{ schema: Schema | boolean }>((tie) => ({
    schema: fc.oneof(
      { depthSize: 'small' },
      fc.boolean(),
      fc.record(
        {
          type: fc.oneof(
            fc.constantFrom('object', 'string', 'number', 'integer', 'null'),
            fc.uniqueArray(fc.constantFrom('object', 'string', 'number', 'array'), {
              minLength: 1,
              maxLength: 2,
            }),
          ),
          enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 3 }),
          minimum: fc.nat(3),
          maxLength: fc.nat(2),
          uniqueItems: fc.boolean(),
        },
        maybe,
      ),
      fc.record(
        {
          type: fc.constantFrom('object', 'object', 'array'),
          required: fc.subarray(NAMES),
          properties: fc.dictionary(fc.constantFrom(...NAMES), tie('schema'), { maxKeys: 2 }),
          additionalProperties: tie('schema'),
          items: tie('schema'),
          prefixItems: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          not: tie('schema'),
          $ref: fc.constant('#/$defs/other'),
        },
        maybe,
      ),
    ),
  }));

  /** Parts may refer to another part, which refers to nothing. */
  const anySchema = fc
    .tuple(anyPart, anyPart)
    .filter(([, other]) => !JSON.stringify(other).includes('$ref'))
    .map(([part, other]) => (typeof part === 'boolean' ? part : { ...part, $defs: { other } }));

  /** A change of one keyword is compatible more often than two unrelated schemas. */
  function withOneKeyword(one: Schema | boolean, other: Schema | boolean): Schema | boolean {
    if (typeof one === 'boolean' || typeof other === 'boolean') return other;
    return { ...one, ...Object.fromEntries(Object.entries(other).slice(0, 1)) };
  }

  /** Whether a document has, at any level, a property that a change introduces. */
  function holdsOneOf(names: ReadonlySet<string>, document: unknown): boolean {
    if (typeof document !== 'object' || document === null) return false;
    return Object.entries(document).some(([name, part]) => names.has(name) || holdsOneOf(names, part));
  }

  test.each<Direction>(['others_write', 'others_read'])(
    'without a breaking change, where %s: documents stay valid',
    (direction) => {
      const ajv = new Ajv2020({ strict: false });
      // No schema here has unevaluatedItems. Ajv 8.20 counts evaluated items wrongly beside `not: true`: it
      // throws "items0 is not defined".
      ajv.opts.unevaluated = false;
      let [compatible, valid] = [0, 0];
      fc.assert(
        fc.property(
          anySchema,
          anySchema,
          fc.boolean(),
          fc.array(anyDocument, { minLength: 5, maxLength: 15 }),
          (one, other, isPart, documents) => {
            const next = isPart ? withOneKeyword(one, other) : other;
            const changes = compareSchemas(one, next, direction);
            if (changes.some(({ isBreaking }) => isBreaking)) return;
            compatible++;
            const names = changes.flatMap(({ path, change }) =>
              change === 'is new' ? (path.split('/').at(-1) ?? []) : [],
            );
            const [from, to] = direction === 'others_write' ? [one, next] : [next, one];
            const [accepts, acceptsToo] = [ajv.compile(from), ajv.compile(to)];
            for (const document of documents) {
              if (holdsOneOf(new Set(names), document) || !accepts(document)) continue;
              valid++;
              expect(acceptsToo(document) ? 'valid' : { document, changes }).toBe('valid');
            }
          },
        ),
        { numRuns: RUNS },
      );
      expect(compatible).toBeGreaterThan(RUNS / 20);
      expect(valid).toBeGreaterThan(RUNS / 20);
    },
  );
});

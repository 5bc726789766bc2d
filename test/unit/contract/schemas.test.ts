/** The published schemas of the contract: valid in their draft, with examples that match or break them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { projectRoot as ROOT } from '../../../dev/servers/download';

const EXAMPLES = join(ROOT, 'schemas/contract-examples');

interface Example {
  readonly file: string;
  readonly schema: string;
  readonly isValid: boolean;
  readonly says: string;
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));
const ajv = new Ajv2020({ allowUnionTypes: true });
const isIndex = ajv.compile<{ readonly about: string; readonly examples: readonly Example[] }>({
  type: 'object',
  required: ['about', 'examples'],
  additionalProperties: false,
  properties: {
    about: { type: 'string' },
    examples: {
      type: 'array',
      items: {
        type: 'object',
        required: ['file', 'schema', 'isValid', 'says'],
        additionalProperties: false,
        properties: {
          file: { type: 'string' },
          schema: { enum: ['operator.error.v2', 'wallet.request.v2', 'wallet.error.v2'] },
          isValid: { type: 'boolean' },
          says: { type: 'string', pattern: '^[A-Z].*\\.$' },
        },
      },
    },
  },
});

function readIndex(): readonly Example[] {
  const index = readJson(join(EXAMPLES, 'index.json'));
  if (!isIndex(index)) throw new Error(JSON.stringify(isIndex.errors));
  return index.examples;
}

/** @throws where the file is no schema of draft 2020-12 */
function compile(schema: string) {
  const given = readJson(join(ROOT, 'schemas', `${schema}.json`));
  if (typeof given !== 'object' || given === null) throw new Error(`${schema} is no object`);
  return new Ajv2020({ allowUnionTypes: true }).compile(given);
}

const examples = readIndex();

test.each(examples)('$file: $says', ({ file, schema, isValid }) => {
  expect(compile(schema)(readJson(join(EXAMPLES, file)))).toBe(isValid);
  expect(file.startsWith(isValid ? 'valid/' : 'invalid/')).toBe(true);
});

test('every file of the directory is in the index', () => {
  const files = ['valid', 'invalid'].flatMap((directory) =>
    readdirSync(join(EXAMPLES, directory)).map((name) => `${directory}/${name}`),
  );
  expect(examples.map(({ file }) => file).sort()).toEqual(files.sort());
});

test.each(['operator.error.v2', 'wallet.request.v2', 'wallet.error.v2'])(
  '%s is broken by an example, and has own ones',
  (schema) => {
    expect(
      new Set(examples.filter((each) => each.schema === schema).map(({ isValid }) => isValid)).size,
    ).toBe(2);
    const matches = compile(schema);
    const own = matches.schema;
    const list: unknown = typeof own === 'object' ? Reflect.get(own, 'examples') : undefined;
    if (!Array.isArray(list)) throw new Error(`${schema} has no examples`);
    expect(list.map((example) => matches(example))).toEqual(list.map(() => true));
  },
);

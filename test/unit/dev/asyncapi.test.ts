/** The AsyncAPI document of the topics: by the specification's schema, and with the schemas that it names. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import Ajv2020 from 'ajv/dist/2020';
import { objectOf, targetOf } from '../../../dev/compatibility/json-schema';
import { projectRoot as ROOT } from '../../../dev/servers/download';

const SPECIFICATION = join(ROOT, 'node_modules', '@asyncapi', 'specs', 'schemas', '3.0.0.json');
const readJson = (path: string): object => objectOf(JSON.parse(readFileSync(path, 'utf8')));
const document = readJson(join(ROOT, 'schemas', 'topics.asyncapi.json'));

function problemsOf(value: object): string[] {
  const validate = new Ajv({
    strict: false,
    validateFormats: false,
    meta: false,
    validateSchema: false,
  }).compile(readJson(SPECIFICATION));
  validate(value);
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/** The values of all references in a document. */
function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) =>
    key === '$ref' && typeof part === 'string' ? [part] : referencesIn(part),
  );
}

test('the document is valid AsyncAPI 3, and one without its version or with an unknown action is not', () => {
  expect(problemsOf(document)).toEqual([]);
  expect(problemsOf({ ...document, asyncapi: '9' })).not.toEqual([]);
  expect(problemsOf({ ...document, operations: { read: { action: 'read' } } })).not.toEqual([]);
});

test('each reference leads to a part of the document, or to a published schema', () => {
  const references = referencesIn(document);
  expect(references.filter((each) => each.startsWith('#') && targetOf(each, document) === undefined)).toEqual(
    [],
  );
  const files = references.filter((each) => !each.startsWith('#'));
  expect(files.filter((each) => !existsSync(join(ROOT, 'schemas', each)))).toEqual([]);
  expect([...files].sort()).toEqual([
    ...[
      './promo.completion.v1.json',
      './promo.event.v1.avsc',
      './promo.event.v1.json',
      './promo.verdict.v1.json',
    ],
  ]);
});

test('each example of a message fits the schema of its payload', () => {
  const { messages } = objectOf(objectOf(document).components);
  const schema = readJson(join(ROOT, 'schemas', 'promo.event.v1.json'));
  const fits = new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
  const { examples } = objectOf(objectOf(messages).event);
  const payloads = (Array.isArray(examples) ? examples : []).map((each) => objectOf(each).payload);
  expect(payloads.map((payload) => fits(payload))).toEqual([true, true]);
});

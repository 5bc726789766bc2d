/** The AsyncAPI document of the topics, with the schemas that it names. Layer `dev` has the specification. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { objectOf, targetOf } from '../../../dev/compatibility/json-schema';
import { projectRoot as ROOT } from '../../../dev/servers/download';

const readJson = (path: string): object => objectOf(JSON.parse(readFileSync(path, 'utf8')));
const document = readJson(join(ROOT, 'schemas', 'topics.asyncapi.json'));

/** The values of all references in a document. */
function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) =>
    key === '$ref' && typeof part === 'string' ? [part] : referencesIn(part),
  );
}

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

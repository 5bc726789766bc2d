/** The AsyncAPI document of the topics by the schema of its specification, which is slow to compile. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import { objectOf } from '../../dev/compatibility/json-schema';
import { projectRoot as ROOT } from '../../dev/servers/download';

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

test('the document is valid AsyncAPI 3, and one without its version or with an unknown action is not', () => {
  expect(problemsOf(document)).toEqual([]);
  expect(problemsOf({ ...document, asyncapi: '9' })).not.toEqual([]);
  expect(problemsOf({ ...document, operations: { read: { action: 'read' } } })).not.toEqual([]);
});

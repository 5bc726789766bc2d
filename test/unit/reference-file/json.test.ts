/** JSON as a tree, compared with the tree of the YAML parser for the same text. */
import { readJsonTree } from '../../../src/reference-file/json';
import { FaultReport } from '../../../src/reference-file/report';
import { readTree } from '../../../src/reference-file/yaml';

/** Reads the text with the YAML parser: with the comment it is not JSON. */
const byYaml = (text: string) => readTree(`${text}\n# a comment\n`, 'a file', new FaultReport(text), '');

test.each([
  '{"operators": []}',
  '{"a": {"b": [1, -2.5, 1e3, true, false, null, "x\\u00e9\\n\\"y", ""]}, "a": 2, "c d": {}}',
  ' \n[ {"a":1} , [ ] ]\n',
])('%s has the same places and values', (text) => {
  expect(readJsonTree(text)).toEqual(byYaml(text));
});

test.each([
  '{"a": 1,}',
  '{a: 1}',
  '{"a" 1}',
  '[1 2]',
  '{"a": 01}',
  '["\\x"]',
  '["a',
  '{} {}',
  '',
  '# no',
  `${'['.repeat(50)}${']'.repeat(50)}`,
])('%s is read by the YAML parser', (text) => {
  expect(readJsonTree(text)).toBeUndefined();
});

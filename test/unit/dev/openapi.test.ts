/** The comparison of OpenAPI documents: planted changes. */
import { compareOpenApi } from '../../../dev/compatibility/openapi';

const TEXT = { type: 'string' };

const BASE = {
  openapi: '3.1.0',
  info: { title: 'Example', version: '1' },
  security: [{ key: [] }],
  paths: {
    '/games/{id}': {
      parameters: [{ $ref: '#/components/parameters/id' }],
      get: {
        operationId: 'getGame',
        parameters: [{ in: 'query', name: 'limit', schema: { type: 'integer', maximum: 10 } }],
        responses: {
          '200': {
            description: 'A game.',
            headers: { 'X-Request-Id': { required: true, schema: TEXT } },
            content: { 'application/json': { schema: { $ref: '#/components/schemas/game' } } },
          },
          default: { $ref: '#/components/responses/error' },
        },
      },
      put: {
        operationId: 'updateGame',
        requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/game' } } } },
        responses: {},
      },
    },
  },
  components: {
    securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } },
    parameters: { id: { in: 'path', name: 'id', required: true, schema: TEXT } },
    responses: { error: { content: { 'application/json': { schema: { properties: { code: TEXT } } } } } },
    schemas: {
      game: { type: 'object', required: ['id'], properties: { id: TEXT, kind: { enum: ['a', 'b'] } } },
    },
  },
} as const;

const GET = 'paths|/games/{id}|get';
const PUT = 'paths|/games/{id}|put';
const GAME = 'components|schemas|game';

function changed(path: string, value: unknown): unknown {
  const copy = structuredClone(BASE);
  const names = path.split('|');
  const last = names.pop() ?? '';
  const within = names.reduce<unknown>((part, name) => Reflect.get(Object(part), name), copy);
  if (value === undefined) Reflect.deleteProperty(Object(within), last);
  else Reflect.set(Object(within), last, value);
  return copy;
}

test.each<[string, string, unknown, readonly string[]]>([
  ['a new path', 'paths|/rounds', { get: {} }, ['addition /paths/~1rounds is new']],
  ['a path that is gone', 'paths|/games/{id}', undefined, ['breaking /paths/~1games~1{id} is gone']],
  ['a new operation', 'paths|/games/{id}|delete', {}, ['addition /paths/~1games~1{id}/delete is new']],
  ['an operation that is gone', PUT, undefined, ['breaking /paths/~1games~1{id}/put is gone']],
  [
    'another operation id',
    `${PUT}|operationId`,
    'x',
    ['breaking /paths/~1games~1{id}/put/operationId has changed'],
  ],
  ['another key', `${PUT}|security`, [], ['breaking /paths/~1games~1{id}/put/security has changed']],
  [
    'another header of the key',
    'components|securitySchemes|key|name',
    'X-Other',
    ['breaking /components/securitySchemes/key has changed'],
  ],
  [
    'a new optional parameter',
    `${GET}|parameters|1`,
    { in: 'query', name: 'from', schema: TEXT },
    ['addition /paths/~1games~1{id}/get/parameters/query from is new'],
  ],
  [
    'a new required parameter',
    `${GET}|parameters|1`,
    { in: 'query', name: 'from', required: true, schema: TEXT },
    [
      'breaking /paths/~1games~1{id}/get/parameters/query from is required now',
      'addition /paths/~1games~1{id}/get/parameters/query from is new',
    ],
  ],
  [
    'a parameter that is required now',
    `${GET}|parameters|0|required`,
    true,
    ['breaking /paths/~1games~1{id}/get/parameters/query limit is required now'],
  ],
  [
    'a lower limit of a parameter',
    `${GET}|parameters|0|schema|maximum`,
    5,
    ['breaking /paths/~1games~1{id}/get/parameters/query limit/schema/maximum is 5 instead of 10'],
  ],
  [
    'a parameter that is gone',
    `${GET}|parameters`,
    [],
    ['breaking /paths/~1games~1{id}/get/parameters/query limit is gone'],
  ],
  [
    'a body that is required now',
    `${PUT}|requestBody|required`,
    true,
    ['breaking /paths/~1games~1{id}/put/requestBody is required now'],
  ],
  [
    'a value more, which clients may write but do not expect to read',
    `${GAME}|properties|kind|enum`,
    ['a', 'b', 'c'],
    [
      'breaking /paths/~1games~1{id}/get/responses/200/content/application~1json/schema/properties/kind/enum "c" is new',
      'addition /paths/~1games~1{id}/put/requestBody/content/application~1json/schema/properties/kind/enum "c" is new',
    ],
  ],
  [
    'a newly required field, which clients read but do not write',
    `${GAME}|required`,
    ['id', 'kind'],
    [
      'addition /paths/~1games~1{id}/get/responses/200/content/application~1json/schema/required kind is new',
      'breaking /paths/~1games~1{id}/put/requestBody/content/application~1json/schema/required kind is new',
    ],
  ],
  [
    'a response that is gone',
    `${GET}|responses|200`,
    undefined,
    ['breaking /paths/~1games~1{id}/get/responses/200 is gone'],
  ],
  [
    'a field of a shared response that is gone',
    'components|responses|error|content|application/json|schema|properties',
    {},
    [
      'breaking /paths/~1games~1{id}/get/responses/default/content/application~1json/schema/properties/code is gone',
    ],
  ],
  [
    'a header that may be absent',
    `${GET}|responses|200|headers|X-Request-Id|required`,
    false,
    ['breaking /paths/~1games~1{id}/get/responses/200/headers/X-Request-Id may be absent now'],
  ],
  ['webhooks', 'webhooks', {}, ['breaking /webhooks has changed']],
  ['another text', `${GET}|summary`, 'Reads a game.', []],
  ['a server', 'servers', [{ url: 'https://example.com' }], []],
])('%s', (_, path, value, expected) => {
  const changes = compareOpenApi(BASE, changed(path, value));
  expect(
    changes.map((each) => `${each.isBreaking ? 'breaking' : 'addition'} ${each.path} ${each.change}`),
  ).toEqual(expected);
});

test('an equal document has no changes', () => {
  expect(compareOpenApi(BASE, structuredClone(BASE))).toEqual([]);
});

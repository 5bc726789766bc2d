/**
 * Compares two versions of an OpenAPI 3.1 document. Clients of before have to work with the service of now:
 * they write parameters and bodies, and read responses. Servers, tags and texts are not compared.
 */
import { isObject } from '../../src/lib/json';
import {
  addition,
  breaking,
  compareSchemas,
  type Direction,
  isEqual,
  objectOf,
  type SchemaChange,
  targetOf,
} from './json-schema';

type JsonObject = Readonly<Record<string, unknown>>;

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const;

export function compareOpenApi(before: unknown, after: unknown): SchemaChange[] {
  const roots = { before, after };
  const [old, now] = [objectOf(before), objectOf(after)];

  /** The parts of an object by name, with references followed. */
  const partsOf = (value: unknown, root: unknown): Map<string, JsonObject> =>
    new Map(Object.entries(objectOf(value)).map(([name, part]) => [name, followed(part, root)]));

  /** Compares the parts that both have. A part that is gone is breaking, and a new one is an addition. */
  function eachPart(
    [was, is]: readonly [ReadonlyMap<string, JsonObject>, ReadonlyMap<string, JsonObject>],
    path: string,
    compare: (was: JsonObject, is: JsonObject, path: string) => SchemaChange[],
  ): SchemaChange[] {
    return [...new Set([...was.keys(), ...is.keys()])].flatMap((name) => {
      const at = `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      const [oldPart, newPart] = [was.get(name), is.get(name)];
      if (newPart === undefined) return [breaking(at, 'is gone')];
      return oldPart === undefined ? [addition(at, 'is new')] : compare(oldPart, newPart, at);
    });
  }

  const compareParts = (
    was: unknown,
    is: unknown,
    path: string,
    compare: (was: JsonObject, is: JsonObject, path: string) => SchemaChange[],
  ) => eachPart([partsOf(was, before), partsOf(is, after)], path, compare);

  const compareContent = (was: JsonObject, is: JsonObject, direction: Direction, path: string) =>
    compareParts(was.content, is.content, `${path}/content`, (oldMedia, newMedia, at) =>
      compareSchemas(oldMedia.schema ?? true, newMedia.schema ?? true, direction, roots, `${at}/schema`),
    );

  function comparePath(was: JsonObject, is: JsonObject, path: string): SchemaChange[] {
    const operations = (item: JsonObject): Map<string, JsonObject> =>
      new Map(METHODS.flatMap((method) => (isObject(item[method]) ? [[method, item[method]]] : [])));
    return eachPart([operations(was), operations(is)], path, (oldOne, newOne, at) => {
      const parameters = [
        parametersOf([was.parameters, oldOne.parameters], before),
        parametersOf([is.parameters, newOne.parameters], after),
      ] as const;
      return [
        ...changed(oldOne.operationId, newOne.operationId, `${at}/operationId`),
        ...changed(oldOne.security ?? old.security, newOne.security ?? now.security, `${at}/security`),
        ...compareParameters(parameters, `${at}/parameters`),
        ...compareBodies(oldOne.requestBody, newOne.requestBody, `${at}/requestBody`),
        ...compareParts(oldOne.responses, newOne.responses, `${at}/responses`, compareResponses),
      ];
    });
  }

  function compareParameters(
    [was, is]: readonly [ReadonlyMap<string, JsonObject>, ReadonlyMap<string, JsonObject>],
    path: string,
  ): SchemaChange[] {
    const isDemanded = (parameter: JsonObject | undefined) => parameter?.required === true;
    const demanded = [...is]
      .filter(([name, parameter]) => isDemanded(parameter) && !isDemanded(was.get(name)))
      .map(([name]) => breaking(`${path}/${name}`, 'is required now'));
    const compared = eachPart([was, is], path, (oldOne, newOne, at) => [
      ...changed(oldOne.style, newOne.style, `${at}/style`),
      ...changed(oldOne.explode, newOne.explode, `${at}/explode`),
      ...compareSchemas(oldOne.schema ?? true, newOne.schema ?? true, 'others_write', roots, `${at}/schema`),
      ...compareContent(oldOne, newOne, 'others_write', at),
    ]);
    return [...demanded, ...compared];
  }

  function compareBodies(was: unknown, is: unknown, path: string): SchemaChange[] {
    const [oldBody, newBody] = [followed(was, before), followed(is, after)];
    const isDemanded = newBody.required === true && oldBody.required !== true;
    return [
      ...(isDemanded ? [breaking(path, 'is required now')] : []),
      ...compareContent(oldBody, newBody, 'others_write', path),
    ];
  }

  function compareResponses(was: JsonObject, is: JsonObject, path: string): SchemaChange[] {
    return [
      ...compareContent(was, is, 'others_read', path),
      ...compareParts(was.headers, is.headers, `${path}/headers`, (oldOne, newOne, at) => [
        ...(oldOne.required === true && newOne.required !== true ? [breaking(at, 'may be absent now')] : []),
        ...compareSchemas(oldOne.schema ?? true, newOne.schema ?? true, 'others_read', roots, `${at}/schema`),
      ]),
    ];
  }

  const schemes = (document: JsonObject) => objectOf(document.components).securitySchemes;
  return [
    ...compareParts(old.paths, now.paths, '/paths', comparePath),
    ...compareParts(schemes(old), schemes(now), '/components/securitySchemes', (was, is, at) =>
      changed(withoutText(was), withoutText(is), at),
    ),
    ...changed(old.webhooks, now.webhooks, '/webhooks'),
  ];
}

/** A part that only equality can judge. */
function changed(before: unknown, after: unknown, path: string): SchemaChange[] {
  return isEqual(before, after) ? [] : [breaking(path, 'has changed')];
}

function withoutText({ description: _, ...scheme }: JsonObject): JsonObject {
  return scheme;
}

/** The parameters of a path and of its operation, by place and name. Those of the operation win. */
function parametersOf(lists: readonly unknown[], root: unknown): Map<string, JsonObject> {
  const parameters = lists.flatMap((list) => (Array.isArray(list) ? list : []));
  return new Map(
    parameters
      .map((parameter) => followed(parameter, root))
      .map((parameter) => [`${String(parameter.in)} ${String(parameter.name)}`, parameter]),
  );
}

/** The target of a reference; an empty object where there is none. */
function followed(part: unknown, root: unknown): JsonObject {
  const { $ref } = objectOf(part);
  return typeof $ref === 'string' ? objectOf(targetOf($ref, root)) : objectOf(part);
}

/**
 * JSON schemas for kubeconform, made of the projects' own sources. They cover the objects of Kubernetes and
 * of the operators that the chart uses.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { isObject } from '../../src/lib/json';
import type { Environment } from '../servers/types';
import { cacheOf, type Found, sourcesOf } from './tools';

type Json = Readonly<Record<string, unknown>>;

/** The place of the definitions in each operator's package. */
const OPERATORS = {
  'github.com/kedacore/keda/v2': 'config/crd/bases',
  'github.com/prometheus-operator/prometheus-operator': 'example/prometheus-operator-crd',
} as const;
/** The operators' kinds that the chart has. */
const OPERATOR_KINDS = [
  'ScaledObject',
  'TriggerAuthentication',
  'PodMonitor',
  'ServiceMonitor',
  'PrometheusRule',
];

/** File names as kubeconform looks for them. */
export const SCHEMA_FILE = '{{ .ResourceKind }}{{ .KindSuffix }}.json';
export const CRD_DIRECTORY = 'crds';

export function findSchemas(environment: Environment = process.env): Found {
  const path = directory(environment);
  return existsSync(path)
    ? { path }
    : { problem: 'the schemas are not made: run make chart-tools, for which Go is needed' };
}

function directory(environment: Environment): string {
  return join(cacheOf('cluster', environment), `schemas-${cacheOf('crds', environment).split('-').at(-1)}`);
}

/** @returns the problem, or undefined once the schemas are there */
export function makeSchemas(environment: Environment = process.env): string | undefined {
  const made = directory(environment);
  if (existsSync(made)) return undefined;
  const partial = `${made}.partial-${process.pid}`;
  try {
    mkdirSync(join(partial, CRD_DIRECTORY), { recursive: true });
    const swagger = join(
      sourcesOf('cluster', 'k8s.io/kubernetes', environment),
      'api/openapi-spec/swagger.json',
    );
    const own = schemasOfSwagger(JSON.parse(readFileSync(swagger, 'utf8')));
    const crds = Object.entries(OPERATORS).flatMap(([name, path]) => {
      const sources = join(sourcesOf('crds', name, environment), path);
      return readdirSync(sources).map((file) => readFileSync(join(sources, file), 'utf8'));
    });
    for (const text of crds) {
      const crd: unknown = parse(text);
      for (const [file, schema] of schemasOfCrd(crd)) {
        own.set(file, schema);
        writeFileSync(join(partial, CRD_DIRECTORY, file), JSON.stringify(crd));
      }
    }
    for (const [file, schema] of own) writeFileSync(join(partial, file), JSON.stringify(schema));
    renameSync(partial, made);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

function fileName(kind: string, group: string, version: string): string {
  const suffix = group === '' ? version : `${group.split('.')[0]}-${version}`;
  return `${kind.toLowerCase()}-${suffix}.json`;
}

/** @returns a schema by file name, each complete in itself */
function schemasOfSwagger(swagger: unknown): Map<string, Json> {
  if (!isObject(swagger) || !isObject(swagger.definitions))
    throw new Error('the swagger.json has no definitions');
  const definitions = new Map(
    Object.entries(swagger.definitions).flatMap(([name, definition]) =>
      isObject(definition) ? [[name, strict(definition)] as const] : [],
    ),
  );
  const schemas = new Map<string, Json>();
  for (const [name, definition] of definitions) {
    const kinds = definition['x-kubernetes-group-version-kind'];
    const [kind, ...others] = Array.isArray(kinds) ? kinds : [];
    // A definition of many groups at once, such as DeleteOptions, is no stored object.
    if (!isObject(kind) || others.length > 0) continue;
    const { group, version, kind: kindName } = kind;
    if (typeof group !== 'string' || typeof version !== 'string' || typeof kindName !== 'string') continue;
    const needed = Object.fromEntries(closure(name, definitions));
    schemas.set(fileName(kindName, group, version), { $ref: `#/definitions/${name}`, definitions: needed });
  }
  return schemas;
}

/** A definition and all definitions that it refers to. */
function closure(name: string, definitions: ReadonlyMap<string, Json>): Map<string, Json> {
  const found = new Map<string, Json>();
  const wanted = [name];
  for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
    const definition = definitions.get(next);
    if (definition === undefined || found.has(next)) continue;
    found.set(next, definition);
    for (const [, reference = ''] of JSON.stringify(definition).matchAll(/"#\/definitions\/([^"]+)"/g))
      wanted.push(reference);
  }
  return found;
}

/** @returns a schema by file name, for each version of the kinds that the chart has */
function schemasOfCrd(crd: unknown): [string, Json][] {
  const spec = isObject(crd) && isObject(crd.spec) ? crd.spec : {};
  const kind = isObject(spec.names) ? spec.names.kind : undefined;
  if (typeof kind !== 'string' || typeof spec.group !== 'string' || !OPERATOR_KINDS.includes(kind)) return [];
  const { group, versions } = spec;
  return (Array.isArray(versions) ? versions : []).flatMap((version: unknown) => {
    if (!isObject(version) || typeof version.name !== 'string' || !isObject(version.schema)) return [];
    const { openAPIV3Schema: schema } = version.schema;
    return isObject(schema)
      ? [[fileName(kind, group, version.name), strict(withMetadata(schema))] as [string, Json]]
      : [];
  });
}

/** A definition describes metadata only as an object: Kubernetes itself checks its content. */
function withMetadata(schema: Json): Json {
  const properties = isObject(schema.properties) ? schema.properties : {};
  return {
    ...schema,
    properties: { ...properties, metadata: { type: 'object', additionalProperties: true } },
  };
}

/** Removes keywords that JSON schema does not have, and forbids unknown fields. */
function strict(schema: Json): Json {
  const mapped = Object.entries(schema).map(([key, value]): [string, unknown] => {
    if (key === 'properties' && isObject(value))
      return [
        key,
        Object.fromEntries(
          Object.entries(value).map(([name, each]) => [name, isObject(each) ? strict(each) : each]),
        ),
      ];
    if (isObject(value) && (key === 'items' || key === 'additionalProperties')) return [key, strict(value)];
    if (Array.isArray(value) && ['oneOf', 'anyOf', 'allOf'].includes(key)) return [key, value];
    return [key, value];
  });
  const { format, ...rest } = Object.fromEntries(mapped);
  const isEither = format === 'int-or-string' || schema['x-kubernetes-int-or-string'] === true;
  const isQuantity =
    typeof schema.description === 'string' && schema.description.startsWith('Quantity is a fixed-point');
  if (isEither || isQuantity) return { description: schema.description, type: ['string', 'number'] };
  const isClosed =
    isObject(schema.properties) &&
    schema.additionalProperties === undefined &&
    schema['x-kubernetes-preserve-unknown-fields'] !== true;
  return isClosed ? { ...rest, additionalProperties: false } : rest;
}

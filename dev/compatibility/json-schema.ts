/**
 * Compares two versions of a JSON Schema (draft 2020-12), and lists every difference as an addition or as a
 * breaking change. A difference that it cannot judge is breaking.
 *
 * The direction decides. Where others write the documents, all documents of before stay valid. Where others
 * read them, all documents of now are valid before, and nothing that was listed is gone. A new optional
 * property is an addition in both directions: readers ignore fields that they do not know.
 */
import { isObject } from '../../src/lib/json';

/** Who meets the documents of a schema: parties that write them, or parties that read them. */
export type Direction = 'others_write' | 'others_read';

export interface SchemaChange {
  /** A JSON pointer into the schema, with references followed. */
  readonly path: string;
  readonly isBreaking: boolean;
  readonly change: string;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Keywords that validate nothing and promise nothing. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  ...['title', 'description', 'examples', 'example', '$comment', 'deprecated', 'readOnly', 'writeOnly'],
  ...['$defs', 'definitions', 'components', 'discriminator', 'externalDocs', 'xml'],
]);
/** Keywords that are not compared with the others: two are one list of values, one is beside a reference. */
const COMPARED_APART: ReadonlySet<string> = new Set(['enum', 'const', 'default']);
/** Keywords whose larger value accepts fewer documents. */
const LEAST: ReadonlySet<string> = new Set([
  ...['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties', 'minContains'],
]);
/** Keywords whose smaller value accepts fewer documents. */
const MOST: ReadonlySet<string> = new Set([
  ...['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties', 'maxContains'],
]);
/** Keywords that constrain where they are present. Two values cannot be compared. */
const CONSTRAINTS: ReadonlySet<string> = new Set([
  ...['pattern', 'format', 'multipleOf', 'contentEncoding', 'contentMediaType', 'contentSchema'],
  ...['not', 'contains', 'dependentRequired', 'unevaluatedItems'],
]);
/** Of these, the ones whose value is a schema. Only an equal schema is no change. */
const SUBSCHEMAS: ReadonlySet<string> = new Set(['not', 'contains', 'contentSchema', 'unevaluatedItems']);

/** The documents that the schemas are parts of, where `#/...` points into. */
interface Roots {
  readonly before: unknown;
  readonly after: unknown;
}

/** @param roots the documents around the schemas, where a schema is only a part */
export function compareSchemas(
  before: unknown,
  after: unknown,
  direction: Direction,
  roots: Roots = { before, after },
  path = '',
): SchemaChange[] {
  return new Comparison(direction, roots).schemas(before, after, path);
}

class Comparison {
  /** Pairs of references that are being compared: a schema may refer to itself. */
  private readonly pairs = new Set<string>();

  constructor(
    private readonly direction: Direction,
    private readonly roots: Roots,
    /** Whether a schema around this one reverses or tests it: no change is an addition then. */
    private readonly isExact = false,
  ) {}

  schemas(given: unknown, now: unknown, path: string): SchemaChange[] {
    const before = withoutReference(given, this.roots.before);
    const after = withoutReference(now, this.roots.after);
    if (before === undefined || after === undefined)
      return isEqual(given, now) ? [] : [breaking(path, 'has a reference that cannot be followed')];
    const defaults = changedDefault(objectOf(given).default, objectOf(now).default, `${path}/default`);
    return this.isFirst(referenceOf(given), referenceOf(now))
      ? [...defaults, ...this.targets(before, after, path)]
      : defaults;
  }

  /** Whether the targets of two references are not compared yet. */
  private isFirst(before: string | undefined, after: string | undefined): boolean {
    if (before === undefined || after === undefined) return true;
    const pair = `${before} ${after}`;
    if (this.pairs.has(pair)) return false;
    this.pairs.add(pair);
    return true;
  }

  private targets(before: JsonObject | false, after: JsonObject | false, path: string): SchemaChange[] {
    if (before === false || after === false) {
      if (before === after) return [];
      if (after === false) return [breaking(path, 'is not allowed any more')];
      return [this.looser(path, 'is allowed now')];
    }
    return [
      ...this.values(valuesOf(before), valuesOf(after), `${path}/enum`),
      ...this.keywords(before, after, path),
    ];
  }

  private keywords(before: JsonObject, after: JsonObject, path: string): SchemaChange[] {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => {
      if (ANNOTATIONS.has(name) || COMPARED_APART.has(name) || name.startsWith('x-')) return [];
      if (name === 'additionalProperties' || name === 'unevaluatedProperties')
        return this.restOf(name, before, after, path);
      const at = `${path}/${name}`;
      switch (name) {
        case 'properties':
          return this.properties(before, after, path);
        case 'required':
          return this.required(textsOf(before.required), textsOf(after.required), at);
        case 'type':
          return this.alternatives(typesOf(before.type), typesOf(after.type), at);
        case 'items':
        case 'propertyNames':
          return this.constraint(before[name], after[name], at);
        case 'patternProperties':
        case 'dependentSchemas':
          return this.named(before[name], after[name], at);
        case 'allOf':
        case 'anyOf':
        case 'oneOf':
        case 'prefixItems':
          return this.branches(name, before[name], after[name], at);
        case 'if':
        case 'then':
        case 'else':
          return this.conditional(name, before, after, at);
        case 'uniqueItems':
          return this.uniqueness(before[name] === true, after[name] === true, at);
        default:
          return this.simple(name, before[name], after[name], at);
      }
    });
  }

  /** A change that accepts more documents. */
  private looser(path: string, change: string): SchemaChange {
    return { path, isBreaking: this.direction === 'others_read', change };
  }

  /** A change that accepts fewer documents. */
  private tighter(path: string, change: string): SchemaChange {
    return { path, isBreaking: this.direction === 'others_write', change };
  }

  private properties(before: JsonObject, after: JsonObject, path: string): SchemaChange[] {
    const [old, now] = [objectOf(before.properties), objectOf(after.properties)];
    const wasClosed = before.additionalProperties === false || before.unevaluatedProperties === false;
    return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((name) => {
      const at = `${path}/properties/${name}`;
      if (!Object.hasOwn(now, name)) return [breaking(at, 'is gone')];
      if (Object.hasOwn(old, name)) return this.schemas(old[name], now[name], at);
      if (now[name] === false) return [breaking(at, 'is forbidden now')];
      // A reader that checks by the closed schema of before refuses the new field.
      if (wasClosed) return [this.looser(at, 'is new in a closed object')];
      const rest = before.additionalProperties;
      return [addition(at, 'is new'), ...(isObject(rest) ? this.schemas(rest, now[name], at) : [])];
    });
  }

  private required(before: readonly string[], after: readonly string[], path: string): SchemaChange[] {
    return [
      ...after.filter((name) => !before.includes(name)).map((name) => this.tighter(path, `${name} is new`)),
      ...before.filter((name) => !after.includes(name)).map((name) => this.looser(path, `${name} is gone`)),
    ];
  }

  /** Types or values of which one applies. Null: any. A listed one that goes away is never an addition. */
  private alternatives(
    before: readonly unknown[] | null,
    after: readonly unknown[] | null,
    path: string,
  ): SchemaChange[] {
    if (before === null) return [this.tighter(path, 'is limited now')];
    if (after === null) return [this.looser(path, 'is not limited any more')];
    const includes = (list: readonly unknown[], one: unknown) =>
      list.some(
        (each) => isEqual(each, one) || (each === 'number' && one === 'integer' && path.endsWith('/type')),
      );
    return [
      ...after
        .filter((one) => !includes(before, one))
        .map((one) => this.looser(path, `${JSON.stringify(one)} is new`)),
      ...before
        .filter((one) => !includes(after, one))
        .map((one) => breaking(path, `${JSON.stringify(one)} is gone`)),
    ];
  }

  private values(
    before: readonly unknown[] | null,
    after: readonly unknown[] | null,
    path: string,
  ): SchemaChange[] {
    return before === null && after === null ? [] : this.alternatives(before, after, path);
  }

  private restOf(name: string, before: JsonObject, after: JsonObject, path: string): SchemaChange[] {
    return this.schemas(before[name] ?? true, after[name] ?? true, `${path}/${name}`);
  }

  private constraint(before: unknown, after: unknown, path: string): SchemaChange[] {
    if (before === undefined) return [this.tighter(path, 'is new')];
    return after === undefined ? [this.looser(path, 'is gone')] : this.schemas(before, after, path);
  }

  /** Schemas by name that constrain where the name applies. */
  private named(before: unknown, after: unknown, path: string): SchemaChange[] {
    const [old, now] = [objectOf(before), objectOf(after)];
    return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((name) =>
      this.constraint(old[name], now[name], `${path}/${name}`),
    );
  }

  /** Branches are compared by their places. */
  private branches(
    name: 'allOf' | 'anyOf' | 'oneOf' | 'prefixItems',
    before: unknown,
    after: unknown,
    path: string,
  ): SchemaChange[] {
    const [old, now] = [listOf(before), listOf(after)];
    if (name !== 'prefixItems' && before === undefined) return [this.tighter(path, 'is new')];
    if (name !== 'prefixItems' && after === undefined) return [this.looser(path, 'is gone')];
    return Array.from({ length: Math.max(old.length, now.length) }, (_, index) => index).flatMap((index) => {
      const at = `${path}/${index}`;
      if (index < old.length && index < now.length) return this.schemas(old[index], now[index], at);
      const change = index < old.length ? 'is gone' : 'is new';
      if (name === 'allOf') return [change === 'is new' ? this.tighter(at, change) : this.looser(at, change)];
      // A document that fits a new branch of oneOf may fit an old one as well, and is refused then. A place
      // of prefixItems takes its item away from `items`.
      return [name === 'anyOf' && change === 'is new' ? this.looser(at, change) : breaking(at, change)];
    });
  }

  private conditional(
    name: 'if' | 'then' | 'else',
    before: JsonObject,
    after: JsonObject,
    path: string,
  ): SchemaChange[] {
    if (before.if === undefined && name !== 'if') return [];
    if (before.if === undefined) return [this.tighter(path, 'is new')];
    if (after.if === undefined) return name === 'if' ? [this.looser(path, 'is gone')] : [];
    if (name === 'if') return this.isSame(before.if, after.if) ? [] : [breaking(path, 'has changed')];
    return this.constraint(before[name], after[name], path);
  }

  private uniqueness(was: boolean, isNow: boolean, path: string): SchemaChange[] {
    if (was === isNow) return [];
    return [isNow ? this.tighter(path, 'is new') : this.looser(path, 'is gone')];
  }

  /** Whether two schemas differ in their texts alone. */
  private isSame(before: unknown, after: unknown): boolean {
    const exact = this.isExact ? this : new Comparison(this.direction, this.roots, true);
    return exact.schemas(before, after, '').length === 0;
  }

  private simple(name: string, before: unknown, after: unknown, path: string): SchemaChange[] {
    // A reference in an equal schema may have another target now.
    if (isEqual(before, after) && !SUBSCHEMAS.has(name)) return [];
    const isBound = LEAST.has(name) || MOST.has(name);
    if (isBound || CONSTRAINTS.has(name)) {
      if (before === undefined) return [this.tighter(path, 'is new')];
      if (after === undefined) return [this.looser(path, 'is gone')];
      if (SUBSCHEMAS.has(name) && this.isSame(before, after)) return [];
    }
    if (!isBound || typeof before !== 'number' || typeof after !== 'number')
      return [breaking(path, 'has changed')];
    const isTighter = LEAST.has(name) ? after > before : after < before;
    const change = `is ${after} instead of ${before}`;
    return [isTighter ? this.tighter(path, change) : this.looser(path, change)];
  }
}

export function breaking(path: string, change: string): SchemaChange {
  return { path, isBreaking: true, change };
}

export function addition(path: string, change: string): SchemaChange {
  return { path, isBreaking: false, change };
}

function referenceOf(schema: unknown): string | undefined {
  return isObject(schema) && typeof schema.$ref === 'string' ? schema.$ref : undefined;
}

/**
 * The schema itself: false, or an object. A reference gives its target, if nothing but annotations is beside
 * it. Undefined where a reference leads nowhere or has constraints beside it.
 */
function withoutReference(schema: unknown, root: unknown): JsonObject | false | undefined {
  const seen = new Set<string>();
  let current = schema;
  for (;;) {
    if (typeof current === 'boolean') return current && {};
    if (!isObject(current)) return undefined;
    const { $ref, ...rest } = current;
    if ($ref === undefined) return current;
    if (typeof $ref !== 'string' || seen.has($ref)) return undefined;
    if (Object.keys(rest).some((name) => !ANNOTATIONS.has(name) && name !== 'default')) return undefined;
    seen.add($ref);
    current = targetOf($ref, root);
  }
}

/** The part of a document that a local reference names. */
export function targetOf(reference: string, root: unknown): unknown {
  if (reference === '#') return root;
  if (!reference.startsWith('#/')) return undefined;
  return reference
    .slice(2)
    .split('/')
    .map((part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((within, part) => {
      if (Array.isArray(within)) return within[Number(part)];
      return isObject(within) && Object.hasOwn(within, part) ? within[part] : undefined;
    }, root);
}

/** The values that `enum` lists, or the one of `const`. Null where both are absent. */
function valuesOf(schema: JsonObject): readonly unknown[] | null {
  if ('const' in schema) return [schema.const];
  return Array.isArray(schema.enum) ? schema.enum : null;
}

function changedDefault(before: unknown, after: unknown, path: string): SchemaChange[] {
  if (isEqual(before, after)) return [];
  return before === undefined ? [addition(path, 'is new')] : [breaking(path, 'has changed')];
}

function typesOf(type: unknown): readonly unknown[] | null {
  if (type === undefined) return null;
  return Array.isArray(type) ? type : [type];
}

function textsOf(value: unknown): string[] {
  return listOf(value).filter((each) => typeof each === 'string');
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** Whether two JSON values are equal, in whatever order their keys are. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) || Array.isArray(b))
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((each, index) => isEqual(each, b[index]))
    );
  if (!isObject(a) || !isObject(b)) return Object.is(a, b);
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && isEqual(a[name], b[name]))
  );
}

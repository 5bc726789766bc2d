/**
 * helm/promo-intake/values.schema.json and README.md. They are made of the comments of values.yaml, the
 * schema beside this file, and SETTINGS.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMap, isScalar, type Pair, parse, parseDocument, stringify } from 'yaml';
import { GROUPS, SETTINGS, type SettingName } from '../../src/config/config';
import type { Setting } from '../../src/config/setting';
import { isObject } from '../../src/lib/json';
import { code, codeBlock, document, generatedFrom, paragraph, table } from './markdown';

type Json = Readonly<Record<string, unknown>>;

export const CHART = 'helm/promo-intake';
const SCHEMA_SOURCE = 'dev/chart/values.schema.yaml';
const FIELD_WIDTH = 60;

/** A value of values.yaml. */
interface Value {
  /** Such as worker.replicas. */
  readonly path: readonly string[];
  readonly comment: string;
  readonly fallback: string;
}

// --- values.yaml

/**
 * The values that have a comment, in the order of the file.
 *
 * @throws if a value has no comment, neither its own nor one above or within it
 */
export function readValues(text: string): Value[] {
  const { contents } = parseDocument(text);
  if (!isMap(contents)) throw new Error(`${CHART}/values.yaml is no map`);
  return contents.items.flatMap((pair, index) => valuesOf(pair, [], index === 0));
}

function valuesOf({ key, value }: Pair, above: readonly string[], isFirst: boolean): Value[] {
  if (!isScalar(key) || typeof key.value !== 'string') throw new Error('a key of values.yaml is no text');
  const path = [...above, key.value];
  // The comment of the first key begins with the comment of the file.
  const comment = isFirst ? afterBlankLine(key.commentBefore) : key.commentBefore;
  const text = (comment ?? '').trim().replaceAll(/\s*\n\s*/g, ' ');
  if (text === '') throw new Error(`${path.join('.')} has no comment in ${CHART}/values.yaml`);
  // A map without comments inside is one value.
  const isGroup = isMap(value) && value.items.some((pair) => isScalar(pair.key) && pair.key.commentBefore);
  const first = isMap(value) ? value.items[0]?.key : undefined;
  const own = isMap(value) && isScalar(first) ? (first.commentBefore ?? value.commentBefore) : undefined;
  if (isMap(value) && (isGroup || own !== undefined)) {
    // The parser may keep the comment above a map's first key with the map.
    if (isScalar(first) && !first.commentBefore && value.commentBefore)
      first.commentBefore = value.commentBefore;
    return [
      { path, comment: text, fallback: '' },
      ...value.items.flatMap((pair) => valuesOf(pair, path, false)),
    ];
  }
  const fallback = value === null || value === undefined ? 'null' : shortly(value);
  return [{ path, comment: text, fallback }];
}

function afterBlankLine(comment: string | null | undefined): string | undefined {
  return comment?.split(/\n\s*\n/).at(-1);
}

function shortly(value: unknown): string {
  const json: unknown = JSON.parse(JSON.stringify(value));
  const text = stringify(json, { collectionStyle: 'flow', lineWidth: 0 }).trim();
  return text.length > FIELD_WIDTH ? 'see values.yaml' : text;
}

// --- the schema

/** @throws if values.yaml and the schema do not have the same values */
export function renderSchema(root: string): string {
  const source: unknown = parse(readFileSync(join(root, SCHEMA_SOURCE), 'utf8'));
  if (!isObject(source)) throw new Error(`${SCHEMA_SOURCE} is no map`);
  const values = readValues(readFileSync(join(root, CHART, 'values.yaml'), 'utf8'));
  const comments = new Map(values.map(({ path, comment }) => [path.join('.'), comment]));
  const known = new Set<string>();
  const schema = complete(source, [], comments, known);
  const unknown = [...comments.keys()].filter((path) => !known.has(path));
  if (unknown.length > 0) throw new Error(`${SCHEMA_SOURCE} does not know ${unknown.join(', ')}`);
  const head = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $comment: `Generated from ${SCHEMA_SOURCE}, values.yaml and the settings of the service; changes belong there.`,
  };
  return `${JSON.stringify({ ...head, ...schema }, null, 2)}\n`;
}

/** The schema with descriptions and settings. It allows only the keys that it names. */
function complete(
  schema: Json,
  path: readonly string[],
  comments: ReadonlyMap<string, string>,
  known: Set<string>,
): Json {
  const { 'x-settings': settings, ...rest } = schema;
  const described = comments.get(path.join('.'));
  if (described !== undefined) known.add(path.join('.'));
  const properties = {
    ...(typeof settings === 'string' ? settingsSchema(settings) : {}),
    ...(isObject(schema.properties) ? schema.properties : {}),
  };
  const each = Object.entries(properties).map(([name, property]) => {
    const within = path[0] === 'definitions' ? path : [...path, name];
    return [name, isObject(property) ? complete(property, within, comments, known) : property];
  });
  const inside = Object.entries(rest).map(([name, value]) => {
    if (name === 'items' && isObject(value)) return [name, complete(value, ['definitions'], comments, known)];
    if (name !== 'definitions' || !isObject(value)) return [name, value];
    const definitions = Object.entries(value).map(([each, definition]) => [
      each,
      isObject(definition) ? complete(definition, ['definitions'], comments, known) : definition,
    ]);
    return [name, Object.fromEntries(definitions)];
  });
  // With a maximum of its own it is closed already.
  const isClosed =
    schema.type === 'object' && schema.additionalProperties === undefined && !('maxProperties' in schema);
  return {
    ...(described === undefined ? {} : { description: described }),
    ...Object.fromEntries(inside),
    ...(isClosed ? { properties: Object.fromEntries(each), additionalProperties: false } : {}),
  };
}

/**
 * @param what kind of settings: plain, secret or file; then the names of groups, to take only their settings
 */
function settingsSchema(what: string): Json {
  const [kind, ...groups] = what.split(' ');
  const names = Object.keys(SETTINGS).filter(isUsualSetting);
  const isOfGroup = (name: SettingName) =>
    groups.length === 0 || groups.filter(isGroup).some((group) => name in GROUPS[group].settings);
  const wanted = names.filter((name) => kindOf(name) === kind && isOfGroup(name));
  const schemas: [string, Json][] = wanted.map((name) => [
    name,
    { description: SETTINGS[name].describe, ...valueSchema(SETTINGS[name]) },
  ]);
  if (kind === 'plain')
    schemas.push([
      'DATABASE_URL',
      {
        description: 'Postgres database, where the address holds no password: see secrets.DATABASE_PASSWORD.',
        type: 'string',
        pattern: '^(postgres(ql)?://([^:/@]+@)?[^@]+)?$',
      },
    ]);
  if (kind === 'file')
    schemas.push([
      'NODE_EXTRA_CA_CERTS',
      {
        description: "Authorities beside those that Node knows, in PEM form; Node's own variable.",
        $ref: '#/definitions/source',
      },
    ]);
  return Object.fromEntries(schemas);
}

function kindOf(name: SettingName): 'plain' | 'secret' | 'file' {
  const { secret, parse }: Setting<unknown> = SETTINGS[name];
  if (secret) return 'secret';
  return parse.accepts !== undefined && 'file' in parse.accepts ? 'file' : 'plain';
}

function valueSchema({ secret, parse }: Setting<unknown>): Json {
  if (secret) return { $ref: '#/definitions/secretKey' };
  const { accepts } = parse;
  if (accepts === undefined) return { type: 'string' };
  if ('file' in accepts) return { $ref: '#/definitions/source' };
  if ('values' in accepts) return { enum: ['', ...accepts.values] };
  return { type: 'integer', minimum: accepts.least, maximum: accepts.most };
}

/** Whether the settings of all pods may have it. The key of the pseudonyms is in pseudonyms.secrets. */
export function isUsualSetting(name: string): name is SettingName {
  return name in SETTINGS && !name.startsWith('PSEUDONYM_');
}

function isGroup(name: string): name is keyof typeof GROUPS {
  return name in GROUPS;
}

// --- the README

export function renderChartReadme(command: string, root: string): string {
  const values = readValues(readFileSync(join(root, CHART, 'values.yaml'), 'utf8'));
  const chart: unknown = parse(readFileSync(join(root, CHART, 'Chart.yaml'), 'utf8'));
  const image = `registry.example.com/promo-intake:${isObject(chart) ? chart.appVersion : ''}`;
  return document([
    generatedFrom('the comments of values.yaml', command),
    '# The chart of promo-intake',
    paragraph(
      'Workers, a job that migrates the database, a job that applies reference data, and the objects around them. Kafka and Postgres are not part of it.',
      'From an empty namespace to verdicts. The image is in your registry, and Kafka has the topics of the reference data:',
    ),
    codeBlock('sh', [
      `make image IMAGE=${image} && docker push ${image}`,
      "kubectl create secret generic promo-intake --from-literal=database-url='postgres://promo:secret@db.example.com/promo'",
      'helm install promo-intake helm/promo-intake --values helm/promo-intake/examples/minimal.yaml --wait \\',
      '  --set image.repository=registry.example.com/promo-intake --set settings.KAFKA_BROKERS=kafka-0.kafka:9092 \\',
      '  --set-file reference.data=schemas/examples/reference.yaml',
      'helm test promo-intake',
    ]),
    paragraph(
      'Values files to begin with are in [examples/](examples/), and [docs/kubernetes.md](../../docs/kubernetes.md) says what happens on an upgrade,',
      'what to set for a managed Postgres and for pgbouncer, and how the chart is checked. A value that is unknown or cannot be is refused before',
      'anything is installed.',
    ),
    '## Values',
    table(
      ['value', 'default', 'meaning'],
      values.map(({ path, comment, fallback }) => [
        path.length === 1 && fallback === '' ? `**${code(path.join('.'))}**` : code(path.join('.')),
        fallback === '' ? '' : code(fallback),
        comment,
      ]),
    ),
    '## Settings',
    paragraph(
      'Every setting of [docs/configuration.md](../../docs/configuration.md) can be set, each in the map that is its place. Those of the map `files` take a Secret or a',
      'ConfigMap, and so does `NODE_EXTRA_CA_CERTS` there.',
    ),
    table(
      ['map', 'settings'],
      (['plain', 'secret', 'file'] as const).map((kind) => [
        code({ plain: 'settings', secret: 'secrets', file: 'files' }[kind]),
        Object.keys(SETTINGS)
          .filter(isUsualSetting)
          .filter((name) => kindOf(name) === kind)
          .map(code)
          .join(', '),
      ]),
    ),
  ]);
}

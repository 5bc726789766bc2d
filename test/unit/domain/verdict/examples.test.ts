/**
 * The committed examples: each gets the verdict that schemas/examples/index.json names, over the named
 * connection of reference.yaml.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { REASONS } from '../../../../src/domain/verdict/reasons';
import { parseReference } from '../../../../src/reference-file/reference-file';
import { aReference } from '../../../support/builders';
import { judgeBytes, World } from '../world';

interface Example {
  readonly file: string;
  readonly connection: string;
  readonly verdict: string;
  readonly reason: string | null;
  readonly says: string;
  readonly after?: string[];
}
interface Index {
  readonly about: string;
  readonly reference: string;
  readonly examples: Example[];
}
const INDEX_SCHEMA = {
  type: 'object',
  required: ['about', 'reference', 'examples'],
  additionalProperties: false,
  properties: {
    about: { type: 'string' },
    reference: { type: 'string' },
    examples: {
      type: 'array',
      items: {
        type: 'object',
        required: ['file', 'connection', 'verdict', 'reason', 'says'],
        additionalProperties: false,
        properties: {
          file: { type: 'string' },
          connection: { type: 'string' },
          verdict: { type: 'string', enum: ['accepted', 'rejected', 'skipped', 'duplicate'] },
          reason: { type: 'string', nullable: true },
          says: { type: 'string', pattern: '^[A-Za-zU].*[.,]$' },
          after: { type: 'array', items: { type: 'string' } },
        },
      },
    },
  },
};

const EXAMPLES = join(__dirname, '../../../../schemas/examples');
const read = (file: string) => readFileSync(join(EXAMPLES, file));

function readIndex(): Index {
  const index: unknown = JSON.parse(read('index.json').toString());
  const isIndex = new Ajv2020().compile<Index>(INDEX_SCHEMA);
  if (!isIndex(index)) throw new Error(`schemas/examples/index.json: ${JSON.stringify(isIndex.errors)}`);
  return index;
}
const index = readIndex();

function readReference() {
  const parsed = parseReference(read(index.reference).toString(), index.reference);
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return aReference(parsed.document);
}
const reference = readReference();

function verdictOf({ file, connection: id, after = [] }: Example): string {
  const connection = reference.connections.get(id);
  if (connection === undefined) throw new Error(`${index.reference} has no connection ${id}`);
  const world = new World();
  const [verdict] = [...after, file]
    .map((name) => world.decideJudged(judgeBytes(read(name), connection), connection))
    .slice(-1);
  return verdict!;
}

it.each(index.examples.map((example) => [example.file, example] as const))('%s', (_, example) => {
  const { verdict, reason } = example;
  expect(verdictOf(example)).toBe(reason === null ? verdict : `${verdict}/${reason}`);
});

it('the index lists every file, once', () => {
  const files = readdirSync(EXAMPLES, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath !== EXAMPLES)
    .map((entry) => join(entry.parentPath, entry.name).slice(EXAMPLES.length + 1))
    // Messages about events and completions, not events.
    .filter((file) => !/^(verdicts|completions)\//.test(file));
  expect(index.examples.map(({ file }) => file).sort()).toEqual(files.sort());
  for (const { after = [] } of index.examples)
    for (const file of after) expect(existsSync(join(EXAMPLES, file))).toBe(true);
});

it('the name of a file has its verdict and reason', () => {
  const folders = { accepted: 'valid/', rejected: 'invalid/', skipped: 'skipped/', duplicate: 'duplicate/' };
  for (const { file, verdict, reason } of index.examples) {
    const folder = Object.entries(folders).find(([name]) => name === verdict)?.[1];
    expect([file, file.startsWith(`${folder}${reason === null ? '' : `${reason}-`}`)]).toEqual([file, true]);
  }
});

it('every reason that an event can have has an example [V2]', () => {
  const shown = new Set(index.examples.map(({ reason }) => reason));
  const missing = REASONS.filter(({ name }) => !shown.has(name)).map(({ name }) => name);
  // An event does not cause a panic by its content.
  expect(missing).toEqual(['panic']);
});

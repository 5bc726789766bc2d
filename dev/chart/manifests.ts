/** The objects that Helm would install, as files for kubectl, which waits for nothing by itself. */
import { parseAllDocuments } from 'yaml';
import { isObject } from '../../src/lib/json';
import { at, type Manifest } from './objects';

export interface ManifestFile {
  readonly name: string;
  readonly text: string;
}

interface Rendered {
  readonly manifest: Manifest;
  readonly text: string;
}

/**
 * One file for each weight of the hooks, in the order in which they are applied, each named by its content.
 * The release and its test follow.
 *
 * @param rendered the output of `helm template`
 */
export function manifestFiles(rendered: string): ManifestFile[] {
  const all = parseAllDocuments(rendered).flatMap((document): Rendered[] => {
    const manifest: unknown = document.toJS();
    // Only the separators between the documents of a file are needed: `join` below adds them.
    return isObject(manifest) ? [{ manifest, text: document.toString().replace(/^---\n/, '') }] : [];
  });
  const hookOf = ({ manifest }: Rendered): unknown => annotation(manifest, 'helm.sh/hook');
  const weightOf = ({ manifest }: Rendered): number =>
    Number(annotation(manifest, 'helm.sh/hook-weight') ?? 0);
  const before = all.filter((each) => hookOf(each) !== undefined && hookOf(each) !== 'test');
  const weights = [...new Set(before.map(weightOf))].sort((a, b) => a - b);
  const steps: readonly (readonly [what: string, of: readonly Rendered[]])[] = [
    ...weights.map((weight) => {
      const hooks = before.filter((each) => weightOf(each) === weight);
      const kinds = new Set(hooks.map(({ manifest }) => String(manifest.kind).toLowerCase()));
      return [`before-${[...kinds].join('-')}`, hooks] as const;
    }),
    ['release', all.filter((each) => hookOf(each) === undefined)],
    ['test', all.filter((each) => hookOf(each) === 'test')],
  ];
  return steps.map(([what, of], index) => ({
    name: `${index + 1}-${what}.yaml`,
    text: of.map(({ text }) => text).join('---\n'),
  }));
}

/** Names of annotations have dots, so they cannot be read as a path. */
function annotation(manifest: Manifest, name: string): unknown {
  const annotations = at(manifest, 'metadata.annotations');
  return isObject(annotations) ? annotations[name] : undefined;
}

/** `kubectl apply` keeps an object as an annotation of itself, which has this limit. */
export const MAX_APPLIED_BYTES = 262_144;

/** @returns one sentence with the remedy if an object is larger than `kubectl apply` accepts */
export function tooLargeForApply(rendered: string): string | undefined {
  for (const text of rendered.split(/^---$/m)) {
    const bytes = Buffer.byteLength(text);
    if (bytes <= MAX_APPLIED_BYTES) continue;
    const kind = /^kind: (.*)$/m.exec(text)?.[1] ?? 'object';
    const name = /^ {2}name: (.*)$/m.exec(text)?.[1] ?? '';
    return `The ${kind} ${name} has ${bytes} bytes, more than the limit of ${MAX_APPLIED_BYTES} of kubectl apply. Create a ConfigMap or Secret from the gzipped file with kubectl create, or put the file into a volume, and set reference.existing instead of reference.data.`;
  }
  return undefined;
}

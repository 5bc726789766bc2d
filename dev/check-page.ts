/**
 * Builds the page that checks events. It is one HTML file: the rules of src/domain, its style, and the
 * examples of schemas/examples. `npm run build` runs it, from the root: `node build/check-page.js OUT`.
 *
 * The page's policy allows its own script and style alone, by their digests. So it can neither load nor send
 * anything.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { _ } from 'ajv';
import standaloneCode from 'ajv/dist/standalone';
import { build, type Plugin } from 'esbuild';
import { compileEventSchema } from '../src/domain/event/compile-schema';
import { amountPattern } from '../src/domain/event/schema-words';
import { isObject } from '../src/lib/json';
import { readReference } from '../src/reference-file/reference-file';

const EXAMPLES = 'schemas/examples';
const PAGE = 'src/check-page';

/** @param root the directory of package.json */
export async function makeCheckPage(root: string): Promise<string> {
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const script = await bundle(root);
  // A browser would end the script at the first, and read another one from the second on.
  if (/<\/script|<!--/i.test(script)) throw new Error('the script of the page holds a tag of HTML');
  const style = read(join(PAGE, 'page.css'));
  const policy = [
    "default-src 'none'",
    `script-src '${digestOf(script)}'`,
    `style-src '${digestOf(style)}'`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const parts = { '{policy}': policy, '/* style */': style, '/* script */': script };
  let page = read(join(PAGE, 'page.html'));
  for (const [place, part] of Object.entries(parts)) {
    if (!page.includes(place)) throw new Error(`${PAGE}/page.html has no ${place}`);
    // By a function: a text with $& would be changed.
    page = page.replace(place, () => part);
  }
  // Commands escape other characters when they print. Then the digests would be those of other texts.
  if (!/^[\t\n -~]*$/.test(page))
    throw new Error('the page has unprintable characters, or some beyond ASCII');
  return page;
}

function digestOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

async function bundle(root: string): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [join(PAGE, 'page.ts')],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    charset: 'ascii',
    legalComments: 'none',
    inject: [join(PAGE, 'node-in-browser.ts')],
    tsconfig: join(PAGE, 'tsconfig.json'),
    logLevel: 'silent',
    plugins: [inPlaceOfNode(root), compiledSchema, pageData(root)],
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error('esbuild wrote no script');
  return output.text.replaceAll(/\p{Cc}/gu, (control) =>
    control === '\n' || control === '\t'
      ? control
      : `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

// --- the parts that the page has in place of files

/** The page has no such function, and a call fails. A test looks for this text in the page. */
const ABSENT = 'not in the page';

function inPlaceOfNode(root: string): Plugin {
  return {
    name: 'in-place-of-node',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^node:buffer$/ }, () => ({ path: join(root, PAGE, 'node-in-browser.ts') }));
      onResolve({ filter: /^node:(crypto|util)$/ }, ({ path }) => ({
        path,
        namespace: 'absent',
        sideEffects: false,
      }));
      onLoad({ filter: /.*/, namespace: 'absent' }, () => ({
        contents: `const absent = () => { throw new Error(${JSON.stringify(ABSENT)}); };
          export { absent as hash, absent as createHash, absent as types };`,
      }));
    },
  };
}

/** The function that ajv makes of the event's schema, in place of ajv. */
const compiledSchema: Plugin = {
  name: 'compiled-schema',
  setup({ onLoad }) {
    onLoad({ filter: /domain[\\/]event[\\/]schema-check\.ts$/ }, ({ path }) => {
      const { ajv, matches } = compileEventSchema({
        source: true,
        esm: true,
        formats: _`FORMATS`,
        regExp: Object.assign((pattern: string) => amountPattern(pattern), { code: 'amountPattern' }),
      });
      return {
        resolveDir: dirname(path),
        contents: `import { amountPattern, FORMATS } from './schema-words';
          ${standaloneCode(ajv, matches)}
          export const schemaErrors = (json) => validate(json) ? [] : (validate.errors ?? []);`,
      };
    });
  },
};

const pageData = (root: string): Plugin => ({
  name: 'page-data',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^\.\/data$/ }, ({ path }) => ({ path, namespace: 'data' }));
    onLoad({ filter: /.*/, namespace: 'data' }, () => ({
      contents: Object.entries(dataOf(root))
        .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
        .join('\n'),
    }));
  },
});

function dataOf(root: string) {
  const read = (path: string) => readFileSync(join(root, path));
  const parse = (path: string): Record<string, unknown> => {
    const json: unknown = JSON.parse(read(path).toString());
    if (!isObject(json)) throw new Error(`${path} is no object`);
    return json;
  };
  const { reference, examples } = parse(join(EXAMPLES, 'index.json'));
  const parsed = readReference(read(join(EXAMPLES, String(reference))), String(reference));
  if ('faults' in parsed || !Array.isArray(examples)) throw new Error(`${EXAMPLES} has faults`);
  return {
    version: parse('package.json').version,
    reference: parsed.document,
    examples: examples.filter(isObject).map((example) => ({
      ...example,
      bytes: read(join(EXAMPLES, String(example.file))).toString('base64'),
    })),
  };
}

if (require.main === module) {
  const [out] = process.argv.slice(2);
  if (out === undefined) throw new Error('usage: node build/check-page.js OUT');
  void makeCheckPage(process.cwd()).then((page) => {
    mkdirSync(dirname(out), { recursive: true });
    writeFileSync(out, page);
  });
}

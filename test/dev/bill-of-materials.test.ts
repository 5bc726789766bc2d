/** The packages of the image in build/sbom.cdx.json, which npm writes of package-lock.json. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');
const lock: {
  readonly packages: Readonly<
    Record<string, { readonly version?: string; readonly dev?: boolean; readonly optional?: boolean }>
  >;
} = JSON.parse(read('package-lock.json'));
const ofTheProduct = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && dev !== true);

test('the bill of materials has name and version of the product, and only the packages of its image', () => {
  execFileSync('make', ['--silent', 'sbom'], { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
  const bom: {
    readonly metadata: { readonly component: { readonly name: string; readonly version: string } };
    readonly components: readonly { readonly 'bom-ref': string }[];
  } = JSON.parse(read('build/sbom.cdx.json'));
  const { name, version } = JSON.parse(read('package.json'));
  expect(bom.metadata.component).toMatchObject({ name, version });
  const ofTheImage = ofTheProduct.filter(([, { optional }]) => optional !== true);
  const refs = ofTheImage.map(([path, { version: of }]) => `${path.split('node_modules/').at(-1)}@${of}`);
  expect(bom.components.map((component) => component['bom-ref']).sort()).toEqual(refs.sort());
});

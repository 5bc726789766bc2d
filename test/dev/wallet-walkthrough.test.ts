/** The walkthrough of docs/wallet-check.md, run as a reader runs it: in two terminals of a fresh checkout. */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { freePort } from '../../dev/servers/ports';
import { blocksOf, Terminal } from '../support/terminal';

const COPIED = [
  'src',
  'dev',
  'docs',
  'migrations',
  'schemas',
  'Makefile',
  'package.json',
  'package-lock.json',
];
const CONFIGURATION = ['tsconfig.json'];
/** The port in the page and in the example. */
const PORT = '8787';
const SECTION = /^## From nothing to a passing check\n(.*?)^## /ms;

let directory: string;
const terminals: Terminal[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'walkthrough-'));
});
afterEach(async () => {
  for (const terminal of terminals.splice(0)) await terminal.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A checkout whose packages are installed. */
function checkOut(): void {
  for (const path of [...COPIED, ...CONFIGURATION])
    cpSync(join(ROOT, path), join(directory, path), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  // Older than the installed packages: make installs nothing into the directory that all tests share.
  for (const path of ['package.json', 'package-lock.json']) utimesSync(join(directory, path), 0, 0);
}

/** Without numbers that differ from run to run. */
const comparable = (text: string) => text.replace(/\d+ requests in [\d.]+ s/g, 'N requests in T s');

function open(port: number): Terminal {
  const { WALLET_DATABASE_URL: _, ...environment } = process.env;
  const terminal = new Terminal(directory, { ...environment, PORT: String(port) });
  terminals.push(terminal);
  return terminal;
}

test('the walkthrough of wallet-check does what its page shows, in less than half of its ten minutes', async () => {
  checkOut();
  const began = performance.now();
  const port = await freePort();
  for (const file of ['schemas/examples/wallet.yaml', 'docs/wallet-check.md']) {
    const path = join(directory, file);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll(PORT, String(port)));
  }
  const page = readFileSync(join(directory, 'docs/wallet-check.md'), 'utf8');
  const blocks = blocksOf(SECTION.exec(page)?.[1] ?? '');
  const second = open(port);
  const [codes, wallets]: [number[], string[]] = [[], []];
  let wallet: Terminal | undefined;
  for (const [i, { language, lines }] of blocks.entries()) {
    const next = blocks[i + 1];
    const shown = next?.language === 'text' ? next.lines : [];
    const [first = ''] = lines;
    if (language === 'yaml') writeFileSync(join(directory, first.replace('# ', '')), lines.join('\n'));
    if (language !== 'sh') continue;
    if (first.startsWith('make example-wallet')) {
      await wallet?.close();
      wallet = open(port);
      await wallet.start(lines, shown);
      wallets.push(first);
      continue;
    }
    const { code, output } = await second.run(lines);
    codes.push(code);
    const printed = comparable(output).split('\n');
    expect(shown.length).toBeGreaterThan(2);
    expect(shown.filter((line) => !printed.includes(comparable(line)))).toEqual([]);
  }
  expect(wallets).toHaveLength(2);
  expect(codes).toEqual([0, 0, 1]);
  // The page leaves the rest of its time for reading.
  expect(SECTION.exec(page)?.[1]).toMatch(/^\s*This takes ten minutes, most of them for reading\./);
  expect((performance.now() - began) / 60_000).toBeLessThan(5);
}, 300_000);

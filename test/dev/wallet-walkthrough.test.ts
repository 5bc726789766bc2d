/** The walkthrough of docs/wallet-check.md, run as a reader runs it: in two terminals of a fresh checkout. */
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until, within } from '../../dev/servers/deadline';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { freePort } from '../../dev/servers/ports';

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
const STEP_WITHIN_MS = 120_000;

interface Block {
  readonly language: string;
  readonly lines: readonly string[];
}

/** A shell whose output is kept. */
class Terminal {
  private readonly shell: ChildProcess;
  private written = '';
  private isOver = false;

  constructor(directory: string, port: number) {
    const { WALLET_DATABASE_URL: _, ...environment } = process.env;
    this.shell = spawn('bash', ['-c', 'exec bash 2>&1'], {
      cwd: directory,
      env: { ...environment, PORT: String(port) },
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true, // a process group of its own, as in a terminal
    });
    this.shell.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.written += text;
    });
    this.shell.once('close', () => {
      this.isOver = true;
    });
  }

  /** @returns the exit code of the last command, and all that was printed */
  async run(lines: readonly string[]): Promise<{ code: number; output: string }> {
    const from = this.written.length;
    this.shell.stdin?.write(`${lines.join('\n')}\necho "ended with $?"\n`);
    const end = () => /^ended with (\d+)$/m.exec(this.written.slice(from));
    await until(`${lines.at(-1)} ends`, STEP_WITHIN_MS, () => end() !== null || this.isOver);
    return { code: Number(end()?.[1]), output: this.written.slice(from) };
  }

  /** Starts a command that stays in the foreground. */
  async start(lines: readonly string[], output: readonly string[]): Promise<void> {
    const from = this.written.length;
    this.shell.stdin?.write(`${lines.join('\n')}\n`);
    await until(`${lines[0]} prints ${output[0]}`, STEP_WITHIN_MS, () => {
      if (this.isOver) throw new Error(this.written);
      return output.every((line) => this.written.slice(from).includes(line));
    });
  }

  /** Ctrl-C, and the end of the shell. */
  async close(): Promise<void> {
    if (this.isOver) return;
    const closed = new Promise((resolve) => this.shell.once('close', resolve));
    this.shell.stdin?.end();
    process.kill(-(this.shell.pid ?? 0), 'SIGINT');
    await within('the terminal closes', STEP_WITHIN_MS, closed);
  }
}

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

function blocksOf(page: string): Block[] {
  const section = SECTION.exec(page)?.[1] ?? '';
  return [...section.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', text = '']) => ({
    language,
    lines: text.trimEnd().split('\n'),
  }));
}

/** Without numbers that differ from run to run. */
const comparable = (text: string) => text.replace(/\d+ requests in [\d.]+ s/g, 'N requests in T s');

function open(port: number): Terminal {
  const terminal = new Terminal(directory, port);
  terminals.push(terminal);
  return terminal;
}

test('the walkthrough of wallet-check does what its page shows', async () => {
  checkOut();
  const port = await freePort();
  for (const file of ['schemas/examples/wallet.yaml', 'docs/wallet-check.md']) {
    const path = join(directory, file);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll(PORT, String(port)));
  }
  const blocks = blocksOf(readFileSync(join(directory, 'docs/wallet-check.md'), 'utf8'));
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
}, 300_000);

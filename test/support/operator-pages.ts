/** The pages of operators as programs: a shell in a directory of its own runs the code blocks of a page. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { PUBLISHED_KAFKAJS } from '../../dev/servers/guest';
import { inheritedFrom, productCommand } from '../../dev/servers/product';
import { type Block, blocksOf, Terminal } from './terminal';
import { program, RunningCommand } from './worker';

const START_DEADLINE_MS = 60_000;
/** Blocks that need a container engine. */
const IN_CONTAINERS = /^docker run|GenericContainer/;

/** The connection of the pages. */
export const HOOK = 'acme-hook';
export const EXAMPLES = 'schemas/examples';
export const REFERENCE = `${EXAMPLES}/reference.yaml`;
export const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
export const FILES_PAGE = 'docs/operators/files.md';
/** The file of files.md, which other pages use as well. */
export const events = (): string => text(blocksOf(read(FILES_PAGE))[0]);
export const layEvents = (directory: string): void =>
  writeFileSync(join(directory, 'events.ndjson'), events());
export const text = (block: Block | undefined): string => `${(block?.lines ?? []).join('\n')}\n`;

export interface Shell {
  readonly directory: string;
  readonly terminal: Terminal;
}

export interface Bench extends Shell {
  /** A text of a page, with the addresses, topics and secrets of this run. */
  readonly real: (text: string) => string;
  /** The reverse, for outputs. */
  readonly shown: (text: string) => string;
}

/** Commands of the pages, by the names that the pages have. */
function installCommands(directory: string): string {
  const bin = join(directory, 'bin');
  mkdirSync(bin);
  const { environment, file, args } = productCommand(program(), []);
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const command = [...variables, file, ...args].map((word) => `'${word}'`).join(' ');
  const consumer = join(ROOT, 'test', 'support', 'console-consumer.cjs');
  const scripts = {
    'promo-intake': `exec env ${command} "$@"`,
    'kafka-console-consumer.sh': `exec '${process.execPath}' ${PUBLISHED_KAFKAJS.join(' ')} '${consumer}' "$@"`,
  };
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return bin;
}

/** A shell in a directory of its own, beside the example of reference data. */
export async function atAShell(work: (shell: Shell) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'operator-page-'));
  symlinkSync(join(ROOT, REFERENCE), join(directory, 'reference.yaml'));
  const environment = inheritedFrom(process.env);
  const PATH = `${installCommands(directory)}${delimiter}${environment.PATH}`;
  const terminal = new Terminal(directory, { ...environment, PATH });
  try {
    await work({ directory, terminal });
  } finally {
    await terminal.close();
    rmSync(directory, { recursive: true });
  }
}

/** Runs `try` for a shell. Its address replaces that of the pages. */
export async function withTry(
  shell: Shell,
  work: (bench: Bench & { readonly secret: string }) => Promise<void>,
): Promise<void> {
  const command = new RunningCommand(['try', '--port', '0'], {});
  const ready = /page +(http:\/\/127\.0\.0\.1:\d+)\/try/;
  await until('it is ready', START_DEADLINE_MS, () => command.hasEnded() || ready.test(command.output()));
  const [, address] = ready.exec(command.output()) ?? [];
  if (address === undefined) throw new Error(command.tail());
  const [, secret = ''] = /secret +(\S+) of acme-hook/.exec(command.output()) ?? [];
  const real = (given: string) =>
    given
      .replaceAll(/http:\/\/127\.0\.0\.1:8081|https:\/\/intake\.example\.com/g, address)
      .replaceAll('npx promo-intake', 'promo-intake')
      .replaceAll('whsec_...', secret);
  await work({ ...shell, secret, real, shown: (output) => output });
  expect(await command.stop()).toMatchObject({ code: 0 });
}

/** Without what differs from run to run: times and rates. */
export const comparable = (output: string): string =>
  output
    .replaceAll(/\d+\.\d s\b/g, 'N s')
    .replaceAll(/[\d,]+\/s, \d+\.\d MB/g, 'N/s')
    .replaceAll(/("decided_at":)"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"/g, '$1"T"')
    .trim();

/** The lines of an output that are JSON objects. */
const objectsIn = (output: string): unknown[] =>
  output.split('\n').flatMap((line): unknown[] => (line.startsWith('{') ? [JSON.parse(line)] : []));

/** A block with prompts: the commands, each with the output that the page shows. */
export function dialogue({ lines }: Block): { command: string; output: string }[] {
  const steps: { command: string; output: string }[] = [];
  for (const line of lines) {
    const step = steps.at(-1);
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2), output: '' });
    else if (step !== undefined) step.output += `${line}\n`;
  }
  return steps;
}

/** Runs the blocks of a page. @returns their number by language */
export async function runPage(page: string, desk: Bench): Promise<Record<string, number>> {
  const { terminal, directory, real, shown } = desk;
  const counts: Record<string, number> = {};
  let output = '';
  for (const block of blocksOf(read(page))) {
    const { language, lines, before } = block;
    if (IN_CONTAINERS.test(text(block))) continue;
    counts[language] = (counts[language] ?? 0) + 1;
    const [, saved] = /Save this as `([^`]+)`:\s*$/.exec(before) ?? [];
    if (saved !== undefined) writeFileSync(join(directory, saved), text(block));
    else if (language === 'sh') {
      const ended = await terminal.run(lines.map(real));
      output = shown(ended.output);
      expect([ended.code, output]).toEqual([0, output]);
      expect(output).not.toContain('ERROR_CODE');
    } else if (language === 'console') {
      for (const step of dialogue(block)) {
        output = shown((await terminal.run([real(step.command)])).output);
        expect(comparable(output)).toBe(comparable(step.output));
      }
    } else if (language === 'json' || language === 'text') {
      if (language === 'json') for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
      if (language === 'json')
        expect(objectsIn(comparable(output))).toEqual(objectsIn(comparable(text(block))));
      else expect(comparable(output)).toBe(comparable(text(block)));
    } else throw new Error(`${page}: no test runs a block of ${language}`);
  }
  return counts;
}

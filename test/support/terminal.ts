/** A shell whose output is kept, for the commands of documents. */
import { type ChildProcess, spawn } from 'node:child_process';
import { until, within } from '../../dev/servers/deadline';

const COMMAND_WITHIN_MS = 120_000;

export interface CommandEnd {
  readonly code: number;
  /** Of both streams. */
  readonly output: string;
}

export class Terminal {
  private readonly shell: ChildProcess;
  private written = '';
  private isOver = false;

  constructor(directory: string, environment: NodeJS.ProcessEnv) {
    this.shell = spawn('bash', ['-c', 'exec bash 2>&1'], {
      cwd: directory,
      env: environment,
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
  async run(lines: readonly string[]): Promise<CommandEnd> {
    const from = this.written.length;
    // The output of a command may have no line break at its end.
    this.shell.stdin?.write(`${lines.join('\n')}\nprintf '\\nended with %s\\n' $?\n`);
    const end = () => /\nended with (\d+)\n/.exec(this.written.slice(from));
    await until(`${lines.at(-1)} ends`, COMMAND_WITHIN_MS, () => end() !== null || this.isOver);
    const ended = end();
    if (ended === null) throw new Error(`the shell has ended:\n${this.written.slice(from)}`);
    return { code: Number(ended[1]), output: this.written.slice(from, from + ended.index) };
  }

  /** Starts a command that stays in the foreground. */
  async start(lines: readonly string[], output: readonly string[]): Promise<void> {
    const from = this.written.length;
    this.shell.stdin?.write(`${lines.join('\n')}\n`);
    await until(`${lines[0]} prints ${output[0]}`, COMMAND_WITHIN_MS, () => {
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
    await within('the terminal closes', COMMAND_WITHIN_MS, closed);
  }
}

/** A fenced block of a document. */
export interface Block {
  readonly language: string;
  readonly lines: readonly string[];
  /** The text between the block before and this one. */
  readonly before: string;
}

/** The fenced blocks of a document. Those inside a list are indented. */
export function blocksOf(markdown: string): Block[] {
  let end = 0;
  return [...markdown.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)].map((found) => {
    const [whole, indent = '', language = '', text = ''] = found;
    const before = markdown.slice(end, found.index);
    end = found.index + whole.length;
    const lines = text.trimEnd().split('\n');
    return { language, before, lines: lines.map((line) => line.slice(indent.length)) };
  });
}

/** A terminal that goes away, by the program `script` of util-linux. Every Debian and Ubuntu has it. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until, within } from '../../dev/servers/deadline';
import type { Problem } from './needed';

const WITHIN_MS = 60_000;

/** With CI set, a machine without the program fails the tests. */
export function findTerminals(): object | Problem {
  const { stdout } = spawnSync('script', ['--version'], { encoding: 'utf8' });
  if (String(stdout).includes('util-linux') || process.env.CI !== undefined) return {};
  return { problem: 'it needs the program script of util-linux' };
}

const quoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;

export class PseudoTerminal {
  private constructor(
    private readonly holder: ChildProcess,
    private readonly directory: string,
  ) {}

  /** Opens a terminal in which a command runs, as in the window of a person. */
  static async open(
    command: readonly string[],
    environment: NodeJS.ProcessEnv = {},
  ): Promise<PseudoTerminal> {
    const directory = mkdtempSync(join(tmpdir(), 'terminal-'));
    const written = (name: string) => quoted(join(directory, name));
    // The shell ends with the terminal, and then the kernel hangs up on the command. The shell inside
    // outlives both, and writes the exit code of the command.
    const lines = [
      `tty > ${written('tty')}`,
      `echo > ${written('ready')}`,
      `(trap '' HUP; ${command.map(quoted).join(' ')}; echo $? > ${written('code')})`,
      'true',
    ];
    const { PATH, HOME } = process.env;
    const holder = spawn('script', ['-q', '-c', lines.join('\n'), '/dev/null'], {
      env: { PATH, HOME, SHELL: '/bin/sh', ...environment },
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    const terminal = new PseudoTerminal(holder, directory);
    await until('the terminal is open', WITHIN_MS, () => existsSync(join(directory, 'ready')));
    return terminal;
  }

  /** The device. */
  path(): string {
    return readFileSync(join(this.directory, 'tty'), 'utf8').trim();
  }

  /** The exit code of the command; undefined while it runs. */
  code(): number | undefined {
    const file = join(this.directory, 'code');
    const text = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
    return text === '' ? undefined : Number(text);
  }

  /** As when a connection of SSH breaks: the kernel hangs up, and every later write fails. */
  async lose(): Promise<void> {
    if (this.holder.exitCode !== null || this.holder.signalCode !== null) return;
    const closed = once(this.holder, 'close');
    this.holder.kill('SIGKILL');
    await within('the terminal is gone', WITHIN_MS, closed);
  }

  async close(): Promise<void> {
    await this.lose();
    rmSync(this.directory, { recursive: true });
  }
}

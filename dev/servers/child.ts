/**
 * One child process. Its output goes to a file. It can be awaited, signalled, and ended together with its own
 * children.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { DeadlineError, until, within } from './deadline';
import { descendantsOf, isAlive, type ProcessIdentity, sendSignal } from './process-table';

export interface Command {
  /** For messages. */
  name: string;
  file: string;
  args: readonly string[];
  directory: string;
  environment: NodeJS.ProcessEnv;
  logFile: string;
  user?: { uid: number; gid: number } | undefined;
  /** The signal for a quick but clean end. */
  stopSignal: 'SIGTERM' | 'SIGINT';
}

const STOP_DEADLINE_MS = 15_000;
const KILL_DEADLINE_MS = 10_000;
const LOG_TAIL_LINES = 20;

/** A failed command; the message ends with the last lines of its log. */
export class CommandError extends Error {
  constructor(
    problem: string,
    /** All output since the start. */
    readonly output: string,
    logFile: string,
  ) {
    const lines = output.trimEnd().split('\n').slice(-LOG_TAIL_LINES);
    super(`${problem}; the end of ${logFile}:\n${lines.map((line) => `  | ${line}`).join('\n')}`);
    this.name = 'CommandError';
  }
}

let deathSignalTool: boolean | undefined;

/** On Linux, setpriv (util-linux) makes the kernel end a process when its parent dies, even by SIGKILL. */
function canDieWithParent(): boolean {
  deathSignalTool ??=
    process.platform === 'linux' &&
    spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true'], { stdio: 'ignore', timeout: 30_000 }).status === 0;
  return deathSignalTool;
}

export class Child {
  private readonly process: ChildProcess;
  private readonly logStart: number;
  private readonly ended: Promise<void>;
  private ending: string | undefined;

  /** `started` is called with the pid before anything else can happen. */
  constructor(
    readonly command: Command,
    started: (pid: number) => void,
  ) {
    const { file, args, directory, environment, logFile, user } = command;
    const dieWithParent = canDieWithParent();
    // Straight to a file: a pipe that nobody reads fills up, and then the child hangs in its own log line.
    const output = openSync(logFile, 'a', 0o600);
    this.logStart = statSync(logFile).size;
    try {
      this.process = spawn(
        dieWithParent ? 'setpriv' : file,
        dieWithParent ? ['--pdeathsig', 'KILL', '--', file, ...args] : args,
        // A session of its own: the terminal's Ctrl-C goes to the parent alone, which ends its children in
        // order.
        { cwd: directory, env: environment, stdio: ['ignore', output, output], detached: true, ...user },
      );
    } finally {
      closeSync(output);
    }
    this.ended = new Promise((resolve) => {
      this.process.once('error', (error) => {
        this.ending ??= error.message;
        resolve();
      });
      this.process.once('exit', (code, signal) => {
        this.ending ??= signal === null ? `exit code ${code}` : `signal ${signal}`;
        resolve();
      });
    });
    if (this.process.pid !== undefined) {
      started(this.process.pid);
    }
    // A program that forgets to stop its servers still ends; the 'exit' event then removes them.
    this.process.unref();
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  /** The exit code or signal that ended it, or undefined while it runs. */
  get endedBy(): string | undefined {
    return this.ending;
  }

  output(): string {
    return readFileSync(this.command.logFile).subarray(this.logStart).toString('utf8');
  }

  failure(problem: string): CommandError {
    return new CommandError(`${this.command.name}: ${problem}`, this.output(), this.command.logFile);
  }

  /** Waits for `line` in its own log: a port that answers may belong to another process. */
  async untilLogged(line: RegExp, milliseconds: number): Promise<void> {
    try {
      await until(`${this.command.name} logs ${line}`, milliseconds, () => {
        if (this.ending !== undefined) {
          throw this.failure(`ended while starting (${this.ending})`);
        }
        return line.test(this.output());
      });
    } catch (error) {
      throw error instanceof DeadlineError ? this.failure(error.message) : error;
    }
  }

  /**
   * Waits for its end.
   *
   * @throws unless it ends with this exit code
   */
  async untilDone(milliseconds: number, code = 0): Promise<void> {
    // An unreferenced child alone does not keep this program alive; the timer of the deadline does.
    await within(`${this.command.name} ends`, milliseconds, this.ended);
    if (this.ending !== `exit code ${code}`) {
      throw this.failure(`failed (${this.ending})`);
    }
  }

  suspend(): void {
    if (this.pid !== undefined && this.ending === undefined) {
      // The process itself is stopped first, so that it cannot fork. The list of its descendants is then
      // complete.
      sendSignal(this.pid, 'SIGSTOP');
      for (const { pid } of descendantsOf(this.pid)) {
        sendSignal(pid, 'SIGSTOP');
      }
    }
  }

  resume(): void {
    if (this.pid !== undefined && this.ending === undefined) {
      for (const { pid } of descendantsOf(this.pid)) {
        sendSignal(pid, 'SIGCONT');
      }
      sendSignal(this.pid, 'SIGCONT');
    }
  }

  /** Ends it cleanly within the deadline, else by SIGKILL. Returns once it is gone. */
  async stop(milliseconds = STOP_DEADLINE_MS): Promise<void> {
    if (this.pid === undefined || this.ending !== undefined) {
      return;
    }
    sendSignal(this.pid, this.command.stopSignal);
    this.resume();
    try {
      await within(`${this.command.name} stops`, milliseconds, this.ended);
    } catch {
      await this.kill();
    }
  }

  /** Sends SIGKILL to the process and all its descendants. Returns once all of them are gone. */
  async kill(): Promise<void> {
    const killed = this.killNow();
    await within(`${this.command.name} ends after SIGKILL`, KILL_DEADLINE_MS, this.ended);
    await until(`the processes of ${this.command.name} end after SIGKILL`, KILL_DEADLINE_MS, () => {
      return !killed.some(isAlive);
    });
  }

  killNow(): ProcessIdentity[] {
    if (this.pid === undefined || this.ending !== undefined) {
      return [];
    }
    sendSignal(this.pid, 'SIGSTOP');
    const descendants = descendantsOf(this.pid);
    sendSignal(this.pid, 'SIGKILL');
    for (const { pid } of descendants) {
      sendSignal(pid, 'SIGKILL');
    }
    return descendants;
  }
}

/** Runs of Jest one after another in a process of their own: see run-jest.cjs. */
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';

const PROGRAM = join(__dirname, 'run-jest.cjs');
/** Then another process takes over: Jest keeps memory of each run. */
const RUNS_OF_A_PROCESS = 15;

interface Program {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  runs: number;
  /** The output since the run began. */
  said: string;
}

export class JestRuns {
  private program: Program | undefined;

  constructor(private readonly directory: string) {}

  /**
   * @param options as on the command line of Jest, in camel case
   * @returns what Jest says
   * @throws where the run has not ended in time
   */
  async run(options: object, environment: NodeJS.ProcessEnv, withinMs: number): Promise<string> {
    this.program ??= this.start();
    const { program } = this;
    program.said = '';
    program.runs += 1;
    let isLate = false;
    const deadline = setTimeout(() => {
      isLate = true;
      program.child.kill('SIGKILL');
    }, withinMs);
    const hasEnded = await new Promise<boolean>((resolve) => {
      program.child.once('message', () => resolve(false));
      void program.ended.then(() => resolve(true));
      program.child.send({ options, environment });
    });
    clearTimeout(deadline);
    if (hasEnded) this.program = undefined;
    else if (program.runs === RUNS_OF_A_PROCESS) await this.end();
    if (isLate) throw new Error(`does not end within ${withinMs / 1000} s`);
    return program.said;
  }

  async end(): Promise<void> {
    const ending = this.program;
    this.program = undefined;
    ending?.child.kill('SIGKILL');
    await ending?.ended;
  }

  private start(): Program {
    const child = fork(PROGRAM, {
      cwd: this.directory,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      execArgv: [],
    });
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const program: Program = { child, ended, runs: 0, said: '' };
    child.on('error', (error) => {
      program.said += error.message;
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        program.said += text;
      });
    return program;
  }
}

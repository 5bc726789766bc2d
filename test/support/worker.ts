/** Workers as users run them: the compiled `cli.js worker` in a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { DeadlineError, until, within } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { compileProject } from './compile';

export const ROOT = resolve(__dirname, '../..');
const PROGRAMS = join(ROOT, 'build', 'test-worker');
/** Age at which a compiled program of other sources is removed: by then no run can still use it. */
const PROGRAM_KEPT_MS = 3_600_000;
/** Longer than any test keeps a worker from answering. */
const ANSWER_DEADLINE_MS = 60_000;
const START_DEADLINE_MS = 60_000;
const END_DEADLINE_MS = 40_000;
const DRAIN_DEADLINE_MS = 60_000;
/** Number of last log lines that a failing test shows. */
const SHOWN_LINES = 60;

export type Settings = Readonly<Record<string, string | undefined>>;

export interface LogLine {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** How a process ended. */
export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * Headers of a request with a connection of its own. The server ends an idle connection after some seconds.
 * On a busy machine this meets the next request, which then fails.
 */
export const ONE_REQUEST = { connection: 'close' } as const;

const running = new Set<RunningCommand>();

/** Ends all processes that a test left running. Call it after each test of a file. */
export async function killWorkers(): Promise<void> {
  await Promise.all([...running].map((worker) => worker.kill()));
}

/** A running command of the program. */
export class RunningCommand {
  private readonly child: ChildProcess;
  private text = '';
  private readonly texts = { stdout: '', stderr: '' };
  /** The lines of its log up to a place in the text: a test reads the log many times while it waits. */
  private readonly lines: LogLine[] = [];
  private readTo = 0;
  readonly ended: Promise<End>;
  private end: End | null = null;

  constructor(args: readonly string[], settings: Settings, node?: string) {
    const command = productCommand(program(), args);
    this.child = spawn(node ?? command.file, command.args, {
      env: { ...command.environment, ...environmentOf(settings) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const name of ['stdout', 'stderr'] as const) {
      this.child[name]?.setEncoding('utf8').on('data', (text: string) => {
        this.text += text;
        this.texts[name] += text;
      });
    }
    running.add(this);
    this.ended = new Promise((done, failed) => {
      this.child.once('error', failed);
      this.child.once('close', (code, signal) => {
        running.delete(this);
        this.end = { code, signal };
        done(this.end);
      });
    });
  }

  /**
   * The largest amount of memory that the process has held so far, in MiB.
   * @throws where the system does not report it: only Linux does
   */
  peakMib(): number {
    const [, kibibytes] =
      /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8')) ?? [];
    if (kibibytes === undefined) throw new Error('the system does not report the memory of the worker');
    return Number(kibibytes) / 1024;
  }

  /** The whole output, of both streams. The order of two streams differs from run to run. */
  output(): string {
    return this.text;
  }

  /** The whole output of each stream. */
  outputs(): { readonly stdout: string; readonly stderr: string } {
    return { ...this.texts };
  }

  /** The lines of its log, without lines that are no JSON. */
  log(): LogLine[] {
    const end = this.text.lastIndexOf('\n') + 1;
    for (const line of parseLines(this.text.slice(this.readTo, end))) this.lines.push(line);
    this.readTo = end;
    return [...this.lines, ...parseLines(this.text.slice(end))];
  }

  /** The lines of its log with this message. */
  logged(message: string): LogLine[] {
    return this.log().filter(({ msg }) => msg === message);
  }

  /** Resolves with the first line of the log that `matches`. */
  async waitForLog(
    matches: string | ((line: LogLine) => boolean),
    milliseconds = START_DEADLINE_MS,
  ): Promise<LogLine> {
    const isIt = typeof matches === 'string' ? (line: LogLine) => line.msg === matches : matches;
    const what = typeof matches === 'string' ? `the log has "${matches}"` : 'a line of the log matches';
    let found: LogLine | undefined;
    try {
      await until(what, milliseconds, () => {
        found = this.log().find(isIt);
        if (found === undefined && this.end !== null)
          throw new Error(`It ended before ${what}\n${this.tail()}`);
        return found !== undefined;
      });
    } catch (error) {
      throw error instanceof DeadlineError ? new Error(`${error.message}\n${this.tail()}`) : error;
    }
    if (found === undefined) throw new Error(what);
    return found;
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  hasEnded(): boolean {
    return this.end !== null;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Resolves when the process has ended, with its exit code or signal. */
  async ending(milliseconds = END_DEADLINE_MS): Promise<End> {
    try {
      return await within('the command ends', milliseconds, this.ended);
    } catch (error) {
      throw error instanceof DeadlineError ? new Error(`${error.message}\n${this.tail()}`) : error;
    }
  }

  /** Sends SIGTERM, and waits for the end. */
  async stop(milliseconds = END_DEADLINE_MS): Promise<End> {
    this.signal('SIGTERM');
    return this.ending(milliseconds);
  }

  /** Sends SIGKILL, as a crash. */
  async kill(): Promise<End> {
    this.signal('SIGKILL');
    return this.ending();
  }

  tail(): string {
    return this.text.split('\n').slice(-SHOWN_LINES).join('\n');
  }

  /** Requests a path from its health server. */
  async get(path: string): Promise<{ status: number; text: string }> {
    const { port } = await this.waitForLog('serving health and metrics');
    const signal = AbortSignal.timeout(ANSWER_DEADLINE_MS);
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: ONE_REQUEST, signal });
    return { status: response.status, text: await response.text() };
  }

  /**
   * A value of its metrics; 0 where the metric has no such line. `name` may hold labels:
   * `promo_x_total{reason="unclaimed"}`.
   */
  async metric(name: string): Promise<number> {
    let text = '';
    // The server answers 429 to a client that sends more than 50 requests a second.
    await until('it answers with its metrics', ANSWER_DEADLINE_MS, async () => {
      const answer = await this.get('/metrics');
      text = answer.text;
      return answer.status === 200;
    });
    const line = text.split('\n').find((each) => each.startsWith(`${name} `));
    return line === undefined ? 0 : Number(line.slice(name.length));
  }
}

let compiled: string | undefined;

/**
 * The program, compiled from the present sources. Developers forget to build before they run tests, and a
 * build during a run would change the program under test. Runs with the same sources share one program.
 */
export function program(): string {
  compiled ??= compile();
  return compiled;
}

function compile(): string {
  const hash = createHash('sha256');
  const sources = join(ROOT, 'src');
  for (const name of readdirSync(sources, { recursive: true, encoding: 'utf8' }).sort()) {
    const { mtimeMs, size } = statSync(join(sources, name));
    hash.update(`${name} ${mtimeMs} ${size}\n`);
  }
  const directory = join(PROGRAMS, hash.digest('hex').slice(0, 16));
  const cli = join(directory, 'dist', 'cli.js');
  if (existsSync(cli)) {
    // Keeps the program as long as a new one.
    utimesSync(directory, new Date(), new Date());
    return cli;
  }
  mkdirSync(PROGRAMS, { recursive: true });
  for (const name of readdirSync(PROGRAMS)) {
    const old = join(PROGRAMS, name);
    // Another run may be removing it at the same time.
    const { mtimeMs = Date.now() } = statSync(old, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs < Date.now() - PROGRAM_KEPT_MS) rmSync(old, { recursive: true, force: true });
  }
  const unfinished = mkdtempSync(join(PROGRAMS, 'unfinished-'));
  compileProject(ROOT, join(unfinished, 'dist'));
  for (const name of ['migrations', 'pages', 'package.json'])
    symlinkSync(join(ROOT, name), join(unfinished, name));
  // Made by `npm run build`.
  symlinkSync(join(ROOT, 'dist', 'check.html'), join(unfinished, 'dist', 'check.html'));
  try {
    renameSync(unfinished, directory);
  } catch (error) {
    // Another run was faster.
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(cli)) throw error;
  }
  return cli;
}

/** The command gets only the given settings, and the variables that programs need to run. */
function environmentOf(settings: Settings): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE } = process.env;
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, ...Object.fromEntries(given) };
}

const parseLines = (text: string): LogLine[] => text.split('\n').flatMap((line) => parseLine(line) ?? []);

function parseLine(line: string): LogLine | null {
  if (!line.startsWith('{')) return null;
  try {
    const value: unknown = JSON.parse(line);
    return isLogLine(value) ? value : null;
  } catch {
    return null; // The rest of the line is still to come.
  }
}

function isLogLine(value: unknown): value is LogLine {
  return typeof value === 'object' && value !== null && 'msg' in value && 'level' in value;
}

export interface WorkerOptions {
  readonly drain?: boolean;
  /** Another Node than the tests' own. */
  readonly node?: string;
}

/** Starts a worker. It serves health on any free port, unless the settings name one. */
export function startWorker(settings: Settings, { drain = false, node }: WorkerOptions = {}): RunningCommand {
  return new RunningCommand(
    drain ? ['worker', '--drain'] : ['worker'],
    { HTTP_PORT: '0', ...settings },
    node,
  );
}

/**
 * Waits for the end of a draining worker.
 * @throws where it does not end with 0
 */
export async function drained(worker: RunningCommand, milliseconds = DRAIN_DEADLINE_MS): Promise<void> {
  const { code, signal } = await worker.ending(milliseconds);
  if (code !== 0) throw new Error(`worker --drain ended with ${code ?? signal}\n${worker.tail()}`);
}

/**
 * Runs a worker until its group has decided all records of the topics.
 * @throws where it does not end with 0
 */
export async function drain(settings: Settings, milliseconds = DRAIN_DEADLINE_MS): Promise<RunningCommand> {
  const worker = startWorker(settings, { drain: true });
  await drained(worker, milliseconds);
  return worker;
}

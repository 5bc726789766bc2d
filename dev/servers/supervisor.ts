/**
 * Owns the child processes and containers of one set of servers, and their directory. However this program
 * ends, it removes them: by `stop`, on exit, and on SIGINT, SIGTERM and SIGHUP at any moment. (SIGKILL leaves
 * everything, and an exit without `stop` leaves containers. The next start of any program that uses this
 * library removes both: stack-directory.ts.)
 */
import { runInThisContext } from 'node:vm';
import { Child, type Command } from './child';
import { untilBlocking, within } from './deadline';
import { identify, isAlive, type ProcessIdentity, serversInside } from './process-table';
import { StackDirectory } from './stack-directory';
import { InterruptedError, type Log } from './types';

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
const START_END_DEADLINE_MS = 30_000;
type HandledSignal = keyof typeof SIGNALS;

/**
 * The real process object: in a Jest test the global `process` is a copy that gets neither signals nor
 * 'exit'.
 */
const program: NodeJS.Process = runInThisContext('process');

/**
 * Waits for work that comes before there is anything to stop. A signal to end this program throws
 * InterruptedError at once; the work continues unattended.
 */
export async function unlessSignalled<T>(work: Promise<T>): Promise<T> {
  let interrupt = (): void => {};
  const interrupted = new Promise<never>((_resolve, reject) => {
    interrupt = () => reject(new InterruptedError());
  });
  for (const signal of Object.keys(SIGNALS)) {
    program.on(signal, interrupt);
  }
  try {
    return await Promise.race([work, interrupted]);
  } finally {
    for (const signal of Object.keys(SIGNALS)) {
      program.off(signal, interrupt);
    }
  }
}

export class Supervisor {
  readonly directory: StackDirectory;
  private readonly children = new Set<Child>();
  private readonly starts = new Set<Promise<unknown>>();
  private readonly cleanups: (() => Promise<void>)[] = [];
  private stopping: Promise<void> | undefined;

  constructor(
    private readonly log: Log,
    private readonly exitAfterSignal: boolean,
    isLasting = true,
  ) {
    this.directory = new StackDirectory(isLasting);
    for (const signal of Object.keys(SIGNALS)) {
      program.on(signal, this.onSignal);
    }
    program.on('exit', this.onExit);
  }

  /** Starts a child, unless everything is being stopped already. */
  spawn(command: Command): Child {
    this.refuseWhenStopping();
    for (const child of this.children) {
      if (child.endedBy !== undefined) {
        this.children.delete(child);
      }
    }
    const child = new Child(command, (pid) => this.directory.addChild(pid));
    this.children.add(child);
    return child;
  }

  /** Runs a command to its end, which has to be a success. */
  async run(command: Command, milliseconds: number): Promise<void> {
    const child = this.spawn(command);
    try {
      await child.untilDone(milliseconds);
    } catch (error) {
      await child.stop();
      this.refuseWhenStopping();
      throw error;
    }
  }

  /**
   * Runs work that uses the directory or starts servers. `stop` waits for its end before it removes anything.
   */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.refuseWhenStopping();
    const start = work();
    this.starts.add(start);
    try {
      return await start;
    } finally {
      this.starts.delete(start);
    }
  }

  refuseWhenStopping(): void {
    if (this.stopping !== undefined) {
      throw new InterruptedError();
    }
  }

  /** Adds a clean-up: `stop` calls it once or, if a server was still starting, twice. */
  onStop(cleanup: () => Promise<void>): void {
    this.cleanups.push(cleanup);
  }

  stop(): Promise<void> {
    this.stopping ??= this.end();
    return this.stopping;
  }

  private async end(): Promise<void> {
    const results = await Promise.allSettled([...this.children].map((child) => child.stop()));
    const cleanUp = async (): Promise<void> => {
      results.push(...(await Promise.allSettled(this.cleanups.map((cleanup) => cleanup()))));
    };
    const underWay = [...this.starts];
    await cleanUp();
    if (underWay.length > 0) {
      // The unfinished starts fail soon, since their servers are gone and new ones are refused. A start may
      // also have succeeded meanwhile, so the clean-up runs again.
      const starts = Promise.allSettled(underWay).then(() => {});
      results.push(
        ...(await Promise.allSettled([within('starts under way end', START_END_DEADLINE_MS, starts)])),
      );
      await cleanUp();
    }
    const failed = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    // The next start finds containers that could not be removed by their directory.
    if (failed.length === 0 || !this.directory.hasContainers) {
      this.directory.remove();
    }
    for (const signal of Object.keys(SIGNALS)) {
      program.off(signal, this.onSignal);
    }
    program.off('exit', this.onExit);
    if (failed.length > 0) {
      throw new AggregateError(failed, `Not everything could be stopped: ${failed.map(String).join('; ')}`);
    }
  }

  private readonly onSignal = (signal: HandledSignal): void => {
    if (this.stopping === undefined) {
      this.log(`${signal}: stopping the servers`);
    }
    const exit = (): void => {
      if (this.exitAfterSignal) {
        program.exit(128 + SIGNALS[signal]);
      }
    };
    this.stop().then(exit, (error: unknown) => {
      this.log(String(error));
      exit();
    });
  };

  /** The program ends without having called `stop`: nothing asynchronous runs any more. */
  private readonly onExit = (): void => {
    const killed: ProcessIdentity[] = [];
    for (const child of this.children) {
      const own = child.pid === undefined || child.endedBy !== undefined ? undefined : identify(child.pid);
      killed.push(...child.killNow(), ...(own === undefined ? [] : [own]));
    }
    untilBlocking(5_000, () => ![...killed, ...serversInside(this.directory.path)].some(isAlive));
    if (!this.directory.hasContainers) {
      this.directory.remove();
    }
  };
}

/** A server as a child process: started, disturbed and started again on the same port and data. */
import type { Child, Command } from './child';
import { DeadlineError, within } from './deadline';
import type { Supervisor } from './supervisor';
import type { Log, Server } from './types';

export interface Readiness {
  /** The log line of a server that serves. */
  line: RegExp;
  /** A first connection, which has to succeed. */
  connect(): Promise<void>;
}

const READY_DEADLINE_MS = 60_000;
const CONNECT_DEADLINE_MS = 20_000;

export class LocalServer implements Server {
  private child: Child | undefined;

  constructor(
    private readonly supervisor: Supervisor,
    private readonly command: Command,
    private readonly readiness: Readiness,
    private readonly log: Log,
  ) {}

  async start(): Promise<void> {
    if (this.child !== undefined && this.child.endedBy === undefined) {
      throw new Error(`${this.command.name} is running already`);
    }
    const { name } = this.command;
    const begin = Date.now();
    const child = this.supervisor.spawn(this.command);
    this.child = child;
    try {
      await child.untilLogged(this.readiness.line, READY_DEADLINE_MS);
      await within(`first connection to ${name}`, CONNECT_DEADLINE_MS, this.readiness.connect());
    } catch (error) {
      await child.stop();
      this.supervisor.refuseWhenStopping();
      throw error instanceof DeadlineError ? child.failure(error.message) : error;
    }
    this.log(`${name} is ready (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  }

  async stop(): Promise<void> {
    await this.child?.stop();
  }

  async kill(): Promise<void> {
    await this.child?.kill();
  }

  async suspend(): Promise<void> {
    this.child?.suspend();
  }

  async resume(): Promise<void> {
    this.child?.resume();
  }
}

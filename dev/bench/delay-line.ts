/**
 * A slow line between two sockets: bytes leave later than they arrive, in the same order. A slow reader slows
 * its writer down.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Calls `ring` once at the moment that was set. A later call of `set` replaces the moment. */
export interface Alarm {
  /** @param at milliseconds of `now` */
  set(at: number): void;
  now(): number;
  close(): void;
}

export type MakeAlarm = (ring: () => void) => Alarm;

/** Most bytes on the line. A faster sender waits, as it would for a slow reader. */
const MAX_BYTES = 4 * 1024 * 1024;

/** One direction of one connection. */
class DelayLine {
  private readonly chunks: { readonly bytes: Buffer | null; readonly dueAt: number }[] = [];
  private bytes = 0;
  private blocked = false;

  constructor(
    private readonly from: Socket,
    private readonly to: Socket,
    private readonly delayMs: number,
    private readonly now: () => number,
    private readonly changed: () => void,
  ) {
    from.on('data', (bytes: Buffer) => this.put(bytes));
    from.on('end', () => this.put(null));
    to.on('drain', () => {
      this.blocked = false;
      this.deliver();
      this.changed();
    });
  }

  /** When the next chunk is to be delivered; Infinity if none can be. */
  get dueAt(): number {
    return this.blocked ? Number.POSITIVE_INFINITY : (this.chunks[0]?.dueAt ?? Number.POSITIVE_INFINITY);
  }

  private put(bytes: Buffer | null): void {
    this.chunks.push({ bytes, dueAt: this.now() + this.delayMs });
    this.bytes += bytes?.length ?? 0;
    if (this.bytes > MAX_BYTES) this.from.pause();
    if (this.delayMs === 0) this.deliver();
    this.changed();
  }

  deliver(): void {
    while (this.dueAt <= this.now()) {
      const chunk = this.chunks.shift();
      if (chunk === undefined) return;
      if (chunk.bytes === null) this.to.end();
      else {
        this.bytes -= chunk.bytes.length;
        if (!this.to.destroyed && !this.to.write(chunk.bytes)) this.blocked = true;
        if (this.from.isPaused() && this.bytes <= MAX_BYTES / 2) this.from.resume();
      }
    }
  }
}

export interface DelayProxy {
  readonly port: number;
  close(): Promise<void>;
}

export interface DelayProxyOptions {
  readonly host: string;
  readonly port: number;
  /** Delay of each direction: half of the time that the proxy adds to a round trip. */
  readonly delayMs: number;
}

const LOOPBACK = '127.0.0.1';

/** Listens on a free port of the loopback interface, and forwards each connection to `host:port`. */
export async function startDelayProxy(options: DelayProxyOptions, makeAlarm: MakeAlarm): Promise<DelayProxy> {
  const lines = new Set<DelayLine>();
  const sockets = new Set<Socket>();
  const alarm = makeAlarm(() => {
    for (const line of lines) line.deliver();
    setAlarm();
  });
  const setAlarm = () => {
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of lines) next = Math.min(next, dueAt);
    if (next < Number.POSITIVE_INFINITY) alarm.set(next);
  };
  const join = (near: Socket) => {
    const far = connect({ host: options.host, port: options.port, noDelay: true, allowHalfOpen: true });
    const both = [
      new DelayLine(near, far, options.delayMs, alarm.now, setAlarm),
      new DelayLine(far, near, options.delayMs, alarm.now, setAlarm),
    ];
    for (const line of both) lines.add(line);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      // An error of one side breaks the other side too.
      socket.on('error', () => other.destroy());
      socket.on('close', (hadError) => {
        if (hadError) other.destroy();
        sockets.delete(socket);
        if (!sockets.has(other)) for (const line of both) lines.delete(line);
      });
    }
  };
  const server = createServer({ noDelay: true, allowHalfOpen: true }, join);
  await listen(server);
  return {
    port: portOf(server),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      alarm.close();
    },
  };
}

async function listen(server: Server): Promise<void> {
  server.listen(0, LOOPBACK);
  await once(server, 'listening');
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  return address.port;
}

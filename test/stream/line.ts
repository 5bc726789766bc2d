/**
 * A network line to a server that can break, fall silent, and recover. It affects only the connections of one
 * test.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export class Line {
  private readonly sockets = new Set<Socket>();
  private state: 'open' | 'silent' | 'broken' = 'open';
  private readonly server = createServer((near) => {
    this.keep(near);
    if (this.state === 'broken') near.destroy();
    if (this.state !== 'open') return;
    const far = this.keep(connect(this.port, this.host));
    near.pipe(far).pipe(near);
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });

  constructor(
    private host: string,
    private port: number,
  ) {}

  /** @returns the port of the line's near end, on the loopback interface */
  async open(): Promise<number> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    const address: AddressInfo | string | null = this.server.address();
    if (address === null || typeof address === 'string') throw new Error('the line has no port');
    return address.port;
  }

  /** Ends all connections; new connections find the line in the new state. */
  become(state: 'open' | 'silent' | 'broken'): void {
    this.state = state;
    for (const socket of this.sockets) socket.destroy();
  }

  /** Leads to another server from now on, as when an address moves. */
  leadTo(host: string, port: number): void {
    this.host = host;
    this.port = port;
    this.become('open');
  }

  async close(): Promise<void> {
    this.become('broken');
    await new Promise((resolve) => this.server.close(resolve));
  }

  private keep(socket: Socket): Socket {
    this.sockets.add(socket);
    return socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
  }
}

/** The address with the line's near end in place of the server. */
export async function throughLine(address: string): Promise<{ line: Line; address: string }> {
  const url = new URL(address);
  const line = new Line(url.hostname, Number(url.port));
  url.hostname = '127.0.0.1';
  url.port = String(await line.open());
  return { line, address: url.href.replace(/\/$/, '') };
}

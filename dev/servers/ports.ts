/** Free TCP ports of the loopback interface. */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { CommandError } from './child';
import { messageOf } from './types';

export const LOOPBACK = '127.0.0.1';

const LOWEST = 15_000;
const ATTEMPTS = 3;

/**
 * The highest port to choose: below the range of ports for outgoing connections. A client that keeps
 * connecting to a stopped server could otherwise get the server's own port. The server could then not start
 * again.
 */
function highest(): number {
  try {
    const range = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8');
    const first = Number(/^\s*(\d+)/.exec(range)?.[1]);
    return first - 1 > LOWEST + 1_000 ? first - 1 : 65_535;
  } catch {
    return 49_151;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

export async function freePort(): Promise<number> {
  const end = highest();
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(LOWEST, end + 1);
    if (await isFree(port)) {
      return port;
    }
  }
  throw new Error(`No free port found between ${LOWEST} and ${end}`);
}

/** Whether the error says that the port is taken, in the words of servers' logs or of container engines. */
function isTaken(error: unknown): boolean {
  const text = error instanceof CommandError ? error.output : messageOf(error);
  return /address already in use|port \d+ .*in use|port is already allocated|ports are not available/i.test(
    text,
  );
}

/** Calls `use` with free ports. Tries again with other ports if another program took one first. */
export async function withFreePorts<T>(
  count: number,
  use: (ports: readonly number[]) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const ports: number[] = [];
    while (ports.length < count) {
      const port = await freePort();
      if (!ports.includes(port)) {
        ports.push(port);
      }
    }
    try {
      return await use(ports);
    } catch (error) {
      if (!isTaken(error) || attempt === ATTEMPTS) {
        throw error;
      }
    }
  }
}

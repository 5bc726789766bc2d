/** Servers of a test's own, on any free port of the loopback interface. */
import { once } from 'node:events';
import type { Server } from 'node:http';

export interface Serving {
  readonly port: number;
  close(): Promise<void>;
}

export async function serve(server: Server): Promise<Serving> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return {
    port: address.port,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

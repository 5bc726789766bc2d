/**
 * The limits of connections of a server that everybody may reach: in all, and of one address. An IPv6 network
 * /64 counts as one address, since it belongs to one sender.
 *
 * At a limit, a new connection takes the place of the oldest one that waits for a request. So idle
 * connections and half-sent requests keep nobody out.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf, plainAddress } from '../lib/address';

export interface ConnectionLimits {
  /** The most connections in all. */
  readonly most: number;
  /** The most connections of one address. */
  readonly anAddress: number;
  /** Connections of a proxy are of many senders: its address has no limit of its own. */
  readonly isProxy?: (address: string) => boolean;
  readonly onDropped: (network: string) => void;
}

interface OpenConnection {
  readonly network: string;
  requests: number;
}

/**
 * Keeps the open connections, the oldest first. A connection whose request was answered moves behind those
 * that wait for a request.
 */
export function limitConnections({ most, anAddress, isProxy = () => false, onDropped }: ConnectionLimits) {
  const open = new Map<Socket, OpenConnection>();
  const oldest = (network?: string): Socket | undefined => {
    let answering: Socket | undefined;
    for (const [socket, connection] of open) {
      if (network !== undefined && connection.network !== network) continue;
      if (connection.requests === 0) return socket;
      answering ??= socket;
    }
    return answering;
  };
  const drop = (socket: Socket | undefined): void => {
    if (socket === undefined) return;
    const { network = '' } = open.get(socket) ?? {};
    open.delete(socket);
    socket.destroy();
    onDropped(network);
  };
  return {
    add(socket: Socket): void {
      const network = networkAt(socket);
      let same = 0;
      for (const connection of open.values()) if (connection.network === network) same++;
      if (same >= anAddress && !isProxy(addressAt(socket))) drop(oldest(network));
      else if (open.size >= most) drop(oldest());
      open.set(socket, { network, requests: 0 });
      socket.once('close', () => open.delete(socket));
    },
    /** Ends the connection where the answer is late. After the answer it is the youngest one that waits. */
    answering({ socket }: IncomingMessage, response: ServerResponse, withinMs: number): void {
      const connection = open.get(socket);
      if (connection !== undefined) connection.requests++;
      const late = setTimeout(() => socket.destroy(), withinMs);
      response.once('close', () => {
        clearTimeout(late);
        if (connection === undefined) return;
        connection.requests--;
        if (open.delete(socket) && !socket.destroyed) open.set(socket, connection);
      });
    },
  };
}

function addressAt({ remoteAddress = '' }: Socket): string {
  return plainAddress(remoteAddress);
}

/** The key of the limits of an address. */
export function networkAt(socket: Socket): string {
  return networkOf(addressAt(socket));
}

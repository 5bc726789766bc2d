/**
 * The peers of the webhook, its open network connections, and the choice of the peer that is dropped if there
 * are too many. A peer is `unsigned` until a request with a valid signature has come from it. Unsigned peers
 * are dropped first, so that a client without a secret cannot keep a sender out (docs/rules.md, W8).
 *
 * A connection of the reference data is another thing: many senders may share a peer, such as a proxy.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { networkOf, plainAddress } from '../lib/address';
import type { Clock } from '../lib/clock';

/**
 * The most connection ids remembered for one network connection: a load balancer carries requests of many
 * senders.
 */
const MAX_SIGNED_IDS = 32;

/** A network connection. */
export interface Peer {
  readonly socket: Socket;
  /** The peer's address, as it is logged. */
  readonly address: string;
  /** The key of the limit per address. */
  readonly network: string;
  readonly isProxy: boolean;
  /** Connection ids with a valid signature over it, the latest last. Empty if the peer is unsigned. */
  readonly signedIds: Set<string>;
  /** The responses to its requests that are not answered yet. */
  readonly responses: Set<ServerResponse>;
  /** When its last response closed, by the clock. */
  idleSince: number;
  /** Bytes received when its last answer left. Any further bytes belong to a request that has begun. */
  bytesAnswered: number;
  /** Whether this service has ended it and reported why. */
  isEnded: boolean;
  /** Since when an answer has waited to be read, by the clock; null if no answer waits. */
  unreadSince: number | null;
}

export interface PeerLimits {
  readonly connections: number;
  readonly perAddress: number;
}

export interface PeersDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly limits: PeerLimits;
  readonly isProxy: (address: string) => boolean;
  /** Ends a peer's connection and reports it. */
  readonly drop: (peer: Peer, why: 'full' | 'address') => void;
}

export class Peers {
  private readonly peers = new Map<Duplex, Peer>();
  /** Unsigned peers by network, each with its oldest first. */
  private readonly unsigned = new Map<string, Set<Peer>>();
  private readonly byNetwork = new Map<string, number>();

  constructor(private readonly deps: PeersDeps) {}

  get open(): number {
    return this.peers.size;
  }

  get signed(): number {
    let count = 0;
    for (const { signedIds } of this.peers.values()) if (signedIds.size > 0) count++;
    return count;
  }

  all(): Iterable<Peer> {
    return this.peers.values();
  }

  of(socket: Duplex): Peer | undefined {
    return this.peers.get(socket);
  }

  /**
   * Admits a new peer, if necessary in place of another one.
   *
   * @returns null if the new peer is dropped
   */
  admit(socket: Socket): Peer | null {
    const { limits, drop } = this.deps;
    const address = plainAddress(socket.remoteAddress ?? '');
    const peer: Peer = {
      socket,
      address,
      network: networkOf(address),
      isProxy: this.deps.isProxy(address),
      signedIds: new Set(),
      responses: new Set(),
      idleSince: this.deps.clock.now(),
      unreadSince: null,
      bytesAnswered: 0,
      isEnded: false,
    };
    // On CONNECT Node removes its own listener. Without a listener, a reset would end the process.
    socket.on('error', () => undefined);
    const isBeyondShare = !peer.isProxy && this.countOf(peer.network) >= limits.perAddress;
    if (isBeyondShare || this.peers.size >= limits.connections) {
      const why = isBeyondShare ? 'address' : 'full';
      const victim = this.victimFor(isBeyondShare ? peer.network : null);
      drop(victim ?? peer, why);
      if (victim === null) return null;
      this.remove(victim);
    }
    this.peers.set(socket, peer);
    this.byNetwork.set(peer.network, this.countOf(peer.network) + 1);
    const unsigned = this.unsigned.get(peer.network);
    if (unsigned === undefined) this.unsigned.set(peer.network, new Set([peer]));
    else unsigned.add(peer);
    socket.once('close', () => this.remove(peer));
    return peer;
  }

  /** Records that a request of this connection id with a valid signature came over the network connection. */
  sign(peer: Peer, connectionId: string): void {
    // The latest id is last. Beyond the limit the oldest id is removed.
    peer.signedIds.delete(connectionId);
    peer.signedIds.add(connectionId);
    const [oldest] = peer.signedIds;
    if (peer.signedIds.size > MAX_SIGNED_IDS && oldest !== undefined) peer.signedIds.delete(oldest);
    this.leaveUnsigned(peer);
  }

  private countOf(network: string): number {
    return this.byNetwork.get(network) ?? 0;
  }

  private remove(peer: Peer): void {
    if (!this.peers.delete(peer.socket)) return;
    const left = this.countOf(peer.network) - 1;
    if (left > 0) this.byNetwork.set(peer.network, left);
    else this.byNetwork.delete(peer.network);
    this.leaveUnsigned(peer);
  }

  private leaveUnsigned(peer: Peer): void {
    const unsigned = this.unsigned.get(peer.network);
    unsigned?.delete(peer);
    if (unsigned?.size === 0) this.unsigned.delete(peer.network);
  }

  /**
   * The peer to drop. It is the oldest unsigned peer of the network with the most unsigned ones. If there is
   * none, it is the longest idle peer of the connection id with the most idle ones.
   *
   * @param network not null if this network's share is used up: only its own peers are then dropped
   */
  private victimFor(network: string | null): Peer | null {
    let most: Set<Peer> | undefined;
    if (network !== null) most = this.unsigned.get(network);
    else for (const set of this.unsigned.values()) if (set.size > (most?.size ?? 0)) most = set;
    const [oldest] = most ?? [];
    if (oldest !== undefined) return oldest;
    const idle = new Map<string, Peer[]>();
    for (const peer of this.peers.values()) {
      if (peer.responses.size > 0 || (network !== null && peer.network !== network)) continue;
      const id = [...peer.signedIds].at(-1) ?? '';
      const list = idle.get(id);
      if (list === undefined) idle.set(id, [peer]);
      else list.push(peer);
    }
    let largest: Peer[] = [];
    for (const list of idle.values()) if (list.length > largest.length) largest = list;
    return largest.reduce<Peer | null>(
      (found, peer) => (found === null || peer.idleSince < found.idleSince ? peer : found),
      null,
    );
  }
}

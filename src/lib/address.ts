/**
 * The address of a request's sender: the peer's address, or the one in X-Forwarded-For behind a trusted
 * proxy.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

/** The most proxies that a request may have passed. Entries further left are ignored. */
const MAX_HOPS = 10;
/** An IPv6 sender usually has a whole /64 network: 4 groups of 16 bits. */
const PREFIX_GROUPS = 4;
const GROUPS = 8;
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const BRACKETED = /^\[([^\]]+)\](:\d+)?$/;
const WITH_PORT = /^(\d+\.\d+\.\d+\.\d+):\d+$/;

export interface Addresses {
  /** Whether the address is a trusted proxy, whose connections carry requests of many senders. */
  isProxy(peer: string): boolean;
  /** The address of a request's sender. */
  senderOf(peer: string, headers: IncomingHttpHeaders): string;
}

/** @param trusted addresses, or networks such as 10.0.0.0/8. @throws if an entry is neither */
export function makeAddresses(trusted: readonly string[]): Addresses {
  const proxies = new BlockList();
  for (const network of trusted) {
    const [address = '', bits] = network.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (bits === undefined) proxies.addAddress(address, family);
    else proxies.addSubnet(address, Number(bits), family);
  }
  const isProxy = (address: string) => proxies.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  return {
    isProxy,
    senderOf(peer, headers) {
      const forwarded = headers['x-forwarded-for'];
      if (typeof forwarded !== 'string' || !isProxy(peer)) return peer;
      let sender = peer;
      // Each proxy appends the address that it sees, so only entries appended by trusted proxies are
      // reliable.
      for (const entry of forwarded.split(',').slice(-MAX_HOPS).reverse()) {
        const address = addressIn(entry);
        if (address === null) return sender;
        sender = address;
        if (!isProxy(address)) return sender;
      }
      return sender;
    },
  };
}

/** The address in an entry of X-Forwarded-For, without its port; null if the entry has no address. */
function addressIn(entry: string): string | null {
  const text = entry.trim();
  const address = BRACKETED.exec(text)?.[1] ?? WITH_PORT.exec(text)?.[1] ?? text;
  return isIP(address) === 0 ? null : plainAddress(address);
}

/** An address as it is logged: an IPv4 address loses the IPv6 prefix that sockets add. */
export function plainAddress(address: string): string {
  return MAPPED.exec(address)?.[1] ?? address;
}

/** The key of the limits per address: an IPv4 address, or the /64 network of an IPv6 address. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [written = ''] = address.toLowerCase().split('%');
  const [head = '', tail] = written.split('::');
  const groupsOf = (text: string) => (text === '' ? [] : text.split(':'));
  const left = groupsOf(head);
  const right = groupsOf(tail ?? '');
  // The last group may be an IPv4 address, which counts as two groups.
  const length = left.length + right.length + (written.includes('.') ? 1 : 0);
  const zeros = tail === undefined ? 0 : Math.max(0, GROUPS - length);
  const groups = [...left, ...Array.from({ length: zeros }, () => '0'), ...right];
  const prefix = groups.slice(0, PREFIX_GROUPS).map((group) => group.replace(/^0+(?=.)/, ''));
  return `${prefix.join(':')}::/64`;
}

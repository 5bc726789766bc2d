/**
 * Tells an address that brokers advertise from one of KAFKA_BROKERS. A client looks up the cluster at the addresses that it is given, and
 * then connects to the addresses that the brokers advertise; kafkajs 2.2.4 reports a failure at either in the same words.
 */
import type Connection from 'kafkajs/src/network/connection';

/** The addresses that a client is given, by its socket factory: the one object that all its connections share. */
const given = new WeakMap<object, ReadonlySet<string>>();

/** In the message of an error: the address is none that we were given. cli/explain-error.ts looks for it. */
const ADVERTISED = /\(the brokers advertise (\S+)\)/;

/** For the client that is made with this socket factory. */
export function nameAdvertised(socketFactory: object, brokers: readonly string[]): void {
  given.set(socketFactory, new Set(brokers));
}

/** An error of a connection, whose message names the address where the brokers advertise it. */
export function markAdvertised({ socketFactory, broker }: Connection, error: unknown): unknown {
  const isGiven = given.get(socketFactory)?.has(broker) ?? true;
  if (error instanceof Error && !isGiven && !ADVERTISED.test(error.message))
    error.message += ` (the brokers advertise ${broker})`;
  return error;
}

/**
 * Marks errors of connections to addresses that brokers advertise. A client looks up the cluster at
 * KAFKA_BROKERS, and then connects to the advertised addresses. The client (kafkajs 2.2.4) reports a failure
 * at either address in the same words.
 */
import type Connection from 'kafkajs/src/network/connection';

/**
 * A client's addresses of KAFKA_BROKERS, by its socket factory: the one object that all its connections
 * share.
 */
const given = new WeakMap<object, ReadonlySet<string>>();

/** The mark in the message of an error. cli/explain-error.ts looks for it. */
const ADVERTISED = /\(the brokers advertise (\S+)\)/;

/** Registers the addresses of the client with this socket factory. */
export function registerBrokers(socketFactory: object, brokers: readonly string[]): void {
  given.set(socketFactory, new Set(brokers));
}

/** Adds the mark to a connection's error if the brokers advertise its address. @returns the same error */
export function markAdvertised({ socketFactory, broker }: Connection, error: unknown): unknown {
  const isGiven = given.get(socketFactory)?.has(broker) ?? true;
  if (error instanceof Error && !isGiven && !ADVERTISED.test(error.message))
    error.message += ` (the brokers advertise ${broker})`;
  return error;
}

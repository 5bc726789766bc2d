/** The kinds of hostile senders that the mode `neighbours` runs beside a well-behaved sender. */

export interface HostileKind {
  readonly name: string;
  /** Sentence fragment for the table: the attack in a few words. */
  readonly about: string;
  /** The attack is a backlog: it is complete before the worker starts. */
  readonly isBacklog?: true;
}

/** `programs/hostile-neighbour.ts` has the attack for each name. */
export const HOSTILE_KINDS = [
  { name: 'none', about: 'no hostile sender' },
  { name: 'large-keys', about: 'Kafka: zstd batches of one event with a key of 60 MiB', isBacklog: true },
  {
    name: 'large-headers',
    about: 'Kafka: zstd batches of one event with a header of 60 MiB',
    isBacklog: true,
  },
  {
    name: 'many-headers',
    about: 'Kafka: records of 99,999 empty headers that become dead letters',
    isBacklog: true,
  },
  { name: 'nested-rounds', about: 'Kafka: round ids a, aa, aaa ..., then ids of 60 KB that begin alike' },
  { name: 'idle-connections', about: 'webhook: 1,000 connections that send nothing' },
  { name: 'idle-same-address', about: 'webhook: the same from the address of the other sender' },
  { name: 'one-byte-chunks', about: 'webhook: bodies in chunks of one byte with a wrong signature' },
  { name: 'endless-bodies', about: 'webhook: bodies of refused requests that do not end' },
  {
    name: 'many-values',
    about: 'webhook: signed bodies of 90,000 keys, 300,000 arrays, or 500,000 nested ones',
  },
  { name: 'many-requests', about: 'webhook: 200 requests at a time of one connection' },
  { name: 'nested-rounds-webhook', about: 'webhook: round ids of 60 KB that begin alike' },
  { name: 'replays', about: 'webhook: one signed request sent again and again' },
  { name: 'half-sent-requests', about: 'health port: 110 requests that do not end' },
  { name: 'advisory-locks', about: 'Postgres: a role that may only connect takes all advisory locks' },
] as const satisfies readonly HostileKind[];

export type HostileName = (typeof HOSTILE_KINDS)[number]['name'];

export function isHostileName(text: string): text is HostileName {
  return HOSTILE_KINDS.some(({ name }) => name === text);
}

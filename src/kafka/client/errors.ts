/** Problems with Kafka that have an error text of their own. */

/** Kafka lacks something or refuses it. The message is complete: it needs no stack trace. */
export class KafkaProblem extends Error {
  override readonly name: string = 'KafkaProblem';
}

/** A problem that no retry changes: an operator has to act first. */
export class KafkaRefusal extends KafkaProblem {
  override readonly name = 'KafkaRefusal';
}

export function noTopic(topic: string): string {
  return `Kafka has no topic ${topic}, or hides it from this user`;
}

/** Why a compacted topic takes no verdict or dead letter without a key, and the remedy. */
export const COMPACTED = 'A compacted topic refuses messages without a key: set its cleanup.policy to delete';

/** The remedy for a message that the brokers refuse as too large. */
export function raiseMessageLimit(topic: string): string {
  return `Raise max.message.bytes of the topic: kafka-configs.sh --bootstrap-server BROKERS --alter --topic ${topic} --add-config max.message.bytes=BYTES`;
}

export function isCompacted(topic: string): string {
  return `Topic ${topic} is compacted. ${COMPACTED}`;
}

/** Problems with Kafka that are worth a sentence of their own. */

/** What Kafka has not, or does not do, in a sentence that says all there is to know. */
export class KafkaProblem extends Error {
  override readonly name: string = 'KafkaProblem';
}

/** The same where asking again would change nothing: somebody has to act first. */
export class KafkaRefusal extends KafkaProblem {
  override readonly name = 'KafkaRefusal';
}

export function noTopic(topic: string): string {
  return `Kafka has no topic ${topic}, or does not show it to us`;
}

export function noPartition(topic: string, partition: number): string {
  return `${topic} has no partition ${partition}`;
}

/** A partition of a Kafka topic. */

/** A Kafka partition. */
export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** A partition's name in logs and maps. */
export function keyOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`;
}

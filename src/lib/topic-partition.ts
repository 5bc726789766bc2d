/** A partition of a Kafka topic. */
export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** The key of a partition in logs and maps. */
export function keyOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`;
}

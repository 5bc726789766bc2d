/** Kafka clients of the tools and tests. */
import { Kafka, type KafkaConfig, logLevel } from 'kafkajs';
import { installRequestTimers } from '../../src/kafka/client/patches/request-timers';

/** A client that logs nothing, and for which Node has no warning either. */
export function quietKafka(config: KafkaConfig): Kafka {
  installRequestTimers();
  return new Kafka({ logLevel: logLevel.NOTHING, ...config });
}

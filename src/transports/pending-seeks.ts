/**
 * Lets kafkajs 2.2.4 forget where partitions were to go on when their group shares them out anew. It keeps that until it next fetches the partition,
 * and that may be long after: another member may have had the partition meanwhile, and committed something else.
 */
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup';

const { joinAndSync } = ConsumerGroup.prototype;

/** For every consumer of this process. */
export function forgetSeeksWhenJoining(): void {
  ConsumerGroup.prototype.joinAndSync = async function () {
    await joinAndSync.call(this);
    this.seekOffset.clear();
  };
}

/**
 * Adds three things to each join of a group by kafkajs 2.2.4.
 *
 * - The listener gets an event when a join begins. Without the patch, kafkajs reports each end of a join, but
 *   not each begin. A member that was frozen, or whose topics have changed, joins in silence.
 * - A join drops the positions to seek to. Without the patch, kafkajs keeps them until its next fetch of the
 *   partition, which may be long after. Another member may have had the partition meanwhile, and committed
 *   another offset.
 * - The listener gets the id of the group's cluster: DNS may lead to another cluster by now.
 */
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup';
import { clusterIdIn } from '../../commit-notes';
import { answerListener } from './fetch';

/** Number of running joins, by member: the fetches of two brokers may each begin one. */
const joins = new WeakMap<ConsumerGroup, number>();

const { joinAndSync } = ConsumerGroup.prototype;

/** For every consumer of this process. */
export function installJoining(): void {
  ConsumerGroup.prototype.joinAndSync = async function () {
    answerListener()?.onJoining();
    joins.set(this, (joins.get(this) ?? 0) + 1);
    try {
      await joinAndSync.call(this);
      this.seekOffset.clear();
      const listener = answerListener();
      if (listener?.onJoined !== undefined)
        listener.onJoined(clusterIdIn(await this.cluster.metadata({ topics: [] })));
    } finally {
      joins.set(this, (joins.get(this) ?? 1) - 1);
    }
  };
}

/** Whether a member is joining: it has no generation until the join ends. */
export function isJoining(group: ConsumerGroup): boolean {
  return (joins.get(group) ?? 0) > 0;
}

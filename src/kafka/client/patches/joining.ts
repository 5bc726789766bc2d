/**
 * Adds three things to each join of a group by kafkajs 2.2.4.
 *
 * - kafkajs reports the end of a join, and its begin only in one of the cases: a member that was frozen, or whose topics have changed,
 *   joins in silence. Its listener hears of each.
 * - kafkajs keeps where partitions are to go on until it next fetches them, and that may be long after. Another member may have had the
 *   partition meanwhile and committed something else, so that a join forgets it.
 * - Names in the domain name system may lead to another cluster by now. The listener hears which cluster the group is on.
 */
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup';
import { clusterIdIn } from '../../cluster-id';
import { answerListener } from './fetch';

/** Joins under way, by member: two brokers' fetches may each begin one. */
const joins = new WeakMap<ConsumerGroup, number>();

const { joinAndSync } = ConsumerGroup.prototype;

/** For every consumer of this process. */
export function installJoining(): void {
  ConsumerGroup.prototype.joinAndSync = async function () {
    answerListener()?.joining();
    joins.set(this, (joins.get(this) ?? 0) + 1);
    try {
      await joinAndSync.call(this);
      this.seekOffset.clear();
      const listener = answerListener();
      if (listener?.joined !== undefined)
        listener.joined(clusterIdIn(await this.cluster.metadata({ topics: [] })));
    } finally {
      joins.set(this, (joins.get(this) ?? 1) - 1);
    }
  };
}

/** Whether a member joins just now: until then it is of no generation. */
export function isJoining(group: ConsumerGroup): boolean {
  return (joins.get(group) ?? 0) > 0;
}

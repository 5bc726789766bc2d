/**
 * Lets clients work while a partition has no leader, as when all of its replicas are down. Without this patch
 * kafkajs 2.2.4 takes one such partition for an error of the whole metadata response. A consumer then stops
 * reading all of its topics. A client that requests all topics of the cluster does not start, even if the
 * topic is another team's. https://github.com/tulios/kafkajs/issues/1520
 */
import Cluster from 'kafkajs/src/cluster';
import { createErrorFromCode } from 'kafkajs/src/protocol/error';
import metadataResponse from 'kafkajs/src/protocol/requests/metadata/v6/response';
import { answerListener } from './fetch';

/**
 * Replaces the number of the leader. No broker has this number, so kafkajs leaves the partition out of
 * fetches.
 */
const NO_LEADER = -1;
const LEADER_NOT_AVAILABLE = 5;

/** For every client of this process. */
export function installLeaders(): void {
  metadataResponse.parse = (answer) => {
    const listener = answerListener();
    for (const { topic, partitionMetadata } of answer.topicMetadata)
      for (const partition of partitionMetadata) {
        const { partitionErrorCode, partitionId } = partition;
        if (partitionErrorCode === 0) continue;
        partition.partitionErrorCode = 0;
        partition.leader = NO_LEADER;
        listener?.onLeaderless({ topic, partition: partitionId }, createErrorFromCode(partitionErrorCode));
      }
    return parseMetadata(answer);
  };
  Cluster.prototype.fetchTopicsOffset = async function (wanted) {
    const isLed = (topic: string, partition: number) => {
      const metadata = this.findTopicPartitionMetadata(topic);
      return metadata.find(({ partitionId }) => partitionId === partition)?.leader !== NO_LEADER;
    };
    // A consumer gets the offsets of its other partitions. Any other client must not take a leaderless
    // partition for a missing one: it gets an error.
    if (answerListener() === undefined)
      for (const { topic, partitions } of wanted)
        for (const { partition } of partitions)
          if (!isLed(topic, partition)) throw withoutLeader(`${topic}/${partition}`);
    const led = wanted.map((each) => ({
      ...each,
      partitions: each.partitions.filter(({ partition }) => isLed(each.topic, partition)),
    }));
    const found = await fetchTopicsOffset.call(this, led);
    return wanted.map(({ topic }) => found.find((each) => each.topic === topic) ?? { topic, partitions: [] });
  };
}

const parseMetadata = metadataResponse.parse;
const { fetchTopicsOffset } = Cluster.prototype;

function withoutLeader(partition: string): Error {
  const error = createErrorFromCode(LEADER_NOT_AVAILABLE);
  error.message = `${partition}: ${error.message}`;
  return error;
}

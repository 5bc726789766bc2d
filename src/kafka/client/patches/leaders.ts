/**
 * Has kafkajs 2.2.4 go on where a partition has no leader, as when all of its replicas are away. It takes one such partition, of whichever topic it
 * asks about, for an error of the whole answer: a consumer stops reading all of its topics, and a client that asks about all topics of the cluster
 * does not start, whoever the topic belongs to. https://github.com/tulios/kafkajs/issues/1520
 */
import Cluster from 'kafkajs/src/cluster';
import { createErrorFromCode } from 'kafkajs/src/protocol/error';
import metadataResponse from 'kafkajs/src/protocol/requests/metadata/v6/response';
import { answerListener } from './fetch';

/** In the place of a broker's number. kafkajs asks no broker of that number, so that it leaves the partition out of fetches. */
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
        listener?.leaderless({ topic, partition: partitionId }, createErrorFromCode(partitionErrorCode));
      }
    return parseMetadata(answer);
  };
  Cluster.prototype.fetchTopicsOffset = async function (wanted) {
    const isLed = (topic: string, partition: number) => {
      const metadata = this.findTopicPartitionMetadata(topic);
      return metadata.find(({ partitionId }) => partitionId === partition)?.leader !== NO_LEADER;
    };
    // A consumer finds out where its other partitions begin. Whoever else asks is not to take what is missing for what is not there.
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

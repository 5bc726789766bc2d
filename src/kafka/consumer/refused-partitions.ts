/** Partitions that a broker does not let us read, that have no leader, or whose next batch is damaged: no fetch asks for them but from time to time, and they are no hindrance to the others. */
import type { Consumer } from 'kafkajs';
import type { Logger } from 'pino';
import { backoffMs } from '../../lib/backoff';
import type { Clock } from '../../lib/clock';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';

/** A topic that stays refused for the same reason is told of again after this long. */
const SAID_AGAIN_MS = 600_000;

interface Refused {
  readonly partition: TopicPartition;
  readonly failures: number;
  readonly nextTryAt: number;
  /** Whether no fetch asks for it. */
  isLeftOut: boolean;
}

/**
 * Leaves refused partitions out of fetches, by the client's pauses: one that is refused is answered at once, so that fetches would follow one
 * another without end. Knows what else is paused, which has to stay so.
 */
export class RefusedPartitions {
  private readonly refused = new Map<string, Refused>();
  private readonly paused = new Set<string>();
  /** What was said of topics, and when. */
  private readonly said = new Map<string, { readonly because: string; readonly at: number }>();

  constructor(
    private readonly client: Pick<Consumer, 'pause' | 'resume'>,
    private readonly clock: Pick<Clock, 'now'>,
    private readonly logger: Logger,
    /** A partition is refused, or is no more. */
    private readonly changed: (partition: TopicPartition, because: string | null) => void,
  ) {}

  /** The group has shared out its partitions: none is paused, and each is tried. */
  assigned(): void {
    this.refused.clear();
    this.paused.clear();
  }

  pause(partition: TopicPartition): void {
    this.paused.add(keyOf(partition));
    this.client.pause([toTopicPartitions(partition)]);
  }

  resume(partition: TopicPartition): void {
    const key = keyOf(partition);
    this.paused.delete(key);
    if (this.refused.get(key)?.isLeftOut !== true) this.client.resume([toTopicPartitions(partition)]);
  }

  /** A fetch begins: the only moment at which the client is sure to take a pause. */
  fetchBegins(): void {
    const now = this.clock.now();
    for (const [key, refused] of this.refused) {
      const isLeftOut = now < refused.nextTryAt;
      if (isLeftOut === refused.isLeftOut) continue;
      refused.isLeftOut = isLeftOut;
      const partitions = [toTopicPartitions(refused.partition)];
      if (isLeftOut) this.client.pause(partitions);
      else if (!this.paused.has(key)) this.client.resume(partitions);
    }
  }

  refuse(partition: TopicPartition, error: Error): void {
    const key = keyOf(partition);
    const now = this.clock.now();
    const known = this.refused.get(key);
    const failures = (known?.failures ?? 0) + 1;
    this.refused.set(key, {
      ...{ partition, failures, nextTryAt: now + backoffMs(failures) },
      isLeftOut: known?.isLeftOut ?? false,
    });
    if (known === undefined) this.changed(partition, error.message);
    const said = this.said.get(partition.topic);
    if (said?.because === error.message && now - said.at < SAID_AGAIN_MS) return;
    this.said.set(partition.topic, { because: error.message, at: now });
    this.logger.error(
      { ...partition, error: error.message },
      'a topic cannot be read; it is tried again, and others go on',
    );
  }

  /** A broker answered a fetch of the partition. */
  answered(partition: TopicPartition): void {
    if (this.said.size === 0) return;
    const { topic } = partition;
    const key = keyOf(partition);
    const known = this.refused.get(key);
    if (known !== undefined) {
      this.refused.delete(key);
      this.changed(partition, null);
      // Another fetch that asked for it was refused meanwhile: one of another broker, where its leader moves.
      if (known.isLeftOut && !this.paused.has(key)) this.client.resume([toTopicPartitions(partition)]);
    }
    if (!this.said.has(topic) || [...this.refused.values()].some((each) => each.partition.topic === topic))
      return;
    this.said.delete(topic);
    this.logger.info({ topic }, 'a topic can be read again');
  }
}

export function toTopicPartitions({ topic, partition }: TopicPartition): {
  topic: string;
  partitions: number[];
} {
  return { topic, partitions: [partition] };
}

/**
 * Partitions that cannot be read: a broker refuses access, there is no leader, or the next batch is damaged.
 * Fetches include such a partition only from time to time, and the other partitions continue.
 */
import type { Consumer } from 'kafkajs';
import type { Logger } from 'pino';
import { backoffMs } from '../../lib/backoff';
import type { Clock } from '../../lib/clock';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';

/** A topic that stays refused for the same reason is logged again after this time. */
const LOG_AGAIN_MS = 600_000;

interface Refused {
  readonly partition: TopicPartition;
  readonly failures: number;
  readonly nextTryAt: number;
  /** Whether fetches leave the partition out. */
  isLeftOut: boolean;
}

/**
 * Leaves refused partitions out of fetches by pausing them in the client. A broker refuses at once, so
 * without a pause one fetch would follow another without end. Also tracks the partitions that are paused for
 * other reasons, which must stay paused.
 */
export class RefusedPartitions {
  private readonly refused = new Map<string, Refused>();
  private readonly paused = new Set<string>();
  /** The last logged reason of each refused topic, and when it was logged. */
  private readonly logged = new Map<string, { readonly because: string; readonly at: number }>();

  constructor(
    private readonly client: Pick<Consumer, 'pause' | 'resume'>,
    private readonly clock: Pick<Clock, 'now'>,
    private readonly logger: Logger,
    /** Called where a partition becomes refused, and with null where it can be read again. */
    private readonly onChanged: (partition: TopicPartition, because: string | null) => void,
  ) {}

  /** Forgets pauses and refusals: after an assignment each partition is tried. */
  onAssigned(): void {
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

  /** A fetch begins: only now does the client apply a pause for certain. */
  onFetchStart(): void {
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
    if (known === undefined) this.onChanged(partition, error.message);
    const last = this.logged.get(partition.topic);
    if (last?.because === error.message && now - last.at < LOG_AGAIN_MS) return;
    this.logged.set(partition.topic, { because: error.message, at: now });
    this.logger.error(
      { ...partition, error: error.message },
      'cannot read a topic, retrying; other topics continue',
    );
  }

  /** A broker answered a fetch of the partition. */
  onAnswered(partition: TopicPartition): void {
    if (this.logged.size === 0) return;
    const { topic } = partition;
    const key = keyOf(partition);
    const known = this.refused.get(key);
    if (known !== undefined) {
      this.refused.delete(key);
      this.onChanged(partition, null);
      // A fetch from another broker was refused meanwhile, while the partition's leader moved.
      if (known.isLeftOut && !this.paused.has(key)) this.client.resume([toTopicPartitions(partition)]);
    }
    if (!this.logged.has(topic) || [...this.refused.values()].some((each) => each.partition.topic === topic))
      return;
    this.logged.delete(topic);
    this.logger.info({ topic }, 'topic is readable again');
  }
}

export function toTopicPartitions({ topic, partition }: TopicPartition): {
  topic: string;
  partitions: number[];
} {
  return { topic, partitions: [partition] };
}

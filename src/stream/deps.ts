/** The parts of the worker that the stream uses. */

import type { Logger } from 'pino';
import type { Intake } from '../intake/intake';
import type { ReadCluster, ReadDecidedUpTo } from '../kafka/commit-notes';
import type { RecordSource } from '../kafka/port';
import type { Clock } from '../lib/clock';
import type { TopicPartition } from '../lib/topic-partition';
import type { VerdictSupply } from '../publishing/joint-requests';
import type { PublishVerdicts } from '../publishing/published-answer';
import type { WireFormat } from '../schema-registry/wire-format';
import type { Metrics } from '../telemetry/metrics';

export interface StreamDeps {
  readonly source: RecordSource;
  readonly intake: Pick<Intake, 'decide'>;
  readonly wireFormat: Pick<WireFormat, 'decode'>;
  readonly publishVerdicts: PublishVerdicts | null;
  /** Kept up to date for `publishVerdicts`. */
  readonly verdictSupply?: VerdictSupply;
  /** The cluster that `source` reads. */
  readonly cluster: ReadCluster;
  readonly readDecidedUpTo: ReadDecidedUpTo;
  /**
   * Records in the store that this is the first offset that is read of a partition of this cluster. The
   * records before it were read on another cluster.
   *
   * @throws where the store cannot write now
   */
  readonly recordFirstOffset: (partition: TopicPartition, offset: number) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly batchEvents: number;
  /** Whether records of different partitions share rounds. */
  readonly areRoundsShared: () => boolean;
  /** Replaces LARGE_BATCH_BYTES, in tests. */
  readonly largeBatchBytes?: number | undefined;
  readonly partitionsAtOnce: number;
}

/** What the stream needs of the rest of the worker. */

import type { Logger } from 'pino';
import type { Intake } from '../intake/intake';
import type { ReadCluster, ReadDecidedUpTo } from '../kafka/moved-offsets';
import type { RecordSource } from '../kafka/port';
import type { Clock } from '../lib/clock';
import type { TopicPartition } from '../lib/topic-partition';
import type { PublishVerdicts } from '../publishing/published-answer';
import type { WireFormat } from '../schema-registry/wire-format';
import type { Metrics } from '../telemetry/metrics';

export interface StreamDeps {
  readonly source: RecordSource;
  readonly intake: Pick<Intake, 'decide'>;
  readonly wireFormat: Pick<WireFormat, 'decode'>;
  readonly publishVerdicts: PublishVerdicts | null;
  /** The cluster that `source` reads. */
  readonly cluster: ReadCluster;
  readonly readDecidedUpTo: ReadDecidedUpTo;
  /** Notes in the store that a partition is read from this offset on after a move: other clusters have what is before it. @throws where the store cannot now */
  readonly beginAt: (partition: TopicPartition, offset: number) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly batchEvents: number;
  /** Instead of LARGE_BATCH_BYTES and AHEAD_BYTES. */
  readonly largeBatchBytes?: number | undefined;
  readonly partitionsAtOnce: number;
}

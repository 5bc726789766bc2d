/** The commands of operations, as data: looking, retention, erasure, replays. */
import type { Command } from './usage';

const WRONG_USAGE = 'a wrong option or setting; nothing was started';

export const OPERATIONS: readonly Command[] = [
  {
    name: 'status',
    summary: 'tell how it stands, and whether it needs a person',
    purpose:
      'Looks at the store and at Kafka: version of the schema and of the reference data, members of the group, lag in records and in seconds, undecided partitions, whether the counters balance, and the settings that take effect, without secrets. What cannot be reached is told as such, and hides nothing of the rest. A partition is undecided where a record has waited for over 60 s and nothing of the partition was decided as long. For the seconds the oldest waiting record of each partition is read, as a group of its own (KAFKA_GROUP_ID.status-...).',
    example: 'promo-intake status --json',
    options: {
      json: { help: 'print one JSON document, for scripts' },
      check: { help: 'run promo.check_invariants() as well: reads everything stored, and takes a reader' },
    },
    settings: [
      'KAFKA',
      'KAFKA_GROUP_ID',
      'KAFKA_TOPICS',
      'DATABASE',
      'SCHEMA_REGISTRY',
      'VERDICT_TOPIC',
      'DEAD_LETTER_TOPIC',
      'HTTP_PORT',
      'LOG_LEVEL',
      'BATCH_EVENTS',
      'PARTITIONS_AT_ONCE',
      'SHUTDOWN_SECONDS',
    ],
    exits: {
      0: 'nothing needs a person',
      1: 'something does, or cannot be told; each is named',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./status.js')).status({ json: options.has('json'), check: options.has('check') }),
  },
];

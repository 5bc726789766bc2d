/**
 * Every tested fault: the behaviour of the worker, its visible signs, and the tests that prove it. A test is
 * named by its file and its name. The name begins with that of its `describe`. docs/faults.md is made of this
 * catalogue. The program dev/faults.ts compares it with the tests that ran.
 */
export interface Fault {
  readonly fault: string;
  readonly does: string;
  /** The signs that an SRE sees: log lines, metrics, exit codes. */
  readonly sees: string;
  readonly tests: Readonly<Record<string, readonly string[]>>;
}

export interface FaultGroup {
  readonly title: string;
  readonly faults: readonly Fault[];
}

/** Both terms are explained once, above the table: dev/generate/faults.ts. */
const UNDECIDED = '*undecided*';
const WAITS = '*Undecided*.';
const READ_AGAIN = '`promo_intake_redeliveries_total`';

/** Files. */
const CELLS = 'test/faults/cells.test.ts';
const CLI = 'test/commands/cli.test.ts';
const CLUSTERS = 'test/stream/clusters.test.ts';
const COMPLETIONS = 'test/stream/completions.test.ts';
const DISKS = 'test/stream/disks.test.ts';
const THROTTLING = 'test/stream/throttling.test.ts';
const START = 'test/stream/start-refused.test.ts';
const LEDGER = 'test/ledger/failures.test.ts';
const GROUPS = 'test/stream/groups.test.ts';
const HOSTILE = 'test/stream/hostile-batches.test.ts';
const HOSTILE_BYTES = 'test/stream/hostile-bytes.test.ts';
const KAFKA = 'test/faults/kafka.test.ts';
const LOG = 'test/faults/log.test.ts';
const LONG = 'test/faults/long.test.ts';
const NEIGHBOURS = 'test/bench/neighbours.test.ts';
const OFFSETS = 'test/stream/offsets.test.ts';
const OPERATION = 'test/stream/operation.test.ts';
const POSTGRES = 'test/faults/postgres.test.ts';
const PROCESSES = 'test/faults/processes.test.ts';
const RECORDS = 'test/stream/records.test.ts';
const REGISTRY = 'test/faults/registry.test.ts';
const ROLLUPS = 'test/ledger/rollups.test.ts';
const RESTORE = 'test/stream/restore.test.ts';
const SECURITY = 'test/stream/security.test.ts';
const SWEEP = 'test/faults/sweep.test.ts';
const TRACES = 'test/stream/traces.test.ts';
const UNDECIDED_TESTS = 'test/stream/undecided.test.ts';
const VERIFY = 'test/stream/verify.test.ts';
const VERDICT_TOPICS_TESTS = 'test/stream/verdict-topics.test.ts';
const REFUSED_TOPICS_TESTS = 'test/stream/verdict-topics-refused.test.ts';
const WAITS_TESTS = 'test/unit/stream/stream.test.ts';
const WEBHOOK = 'test/webhook/webhook.test.ts';
const WEBHOOK_STORM = 'test/webhook/webhook-storm.test.ts';
const WEBHOOK_LIMITS = 'test/webhook/limits.test.ts';
const WEBHOOK_RAW = 'test/webhook/raw.test.ts';
const WEBHOOK_UNIT = 'test/unit/webhook/handler.test.ts';

/** The name of the test of one kind of outage. */
const outage = (name: string): string =>
  `${name}: undecided, no event id is used up, and all events are decided once it is over`;
const FULL_DISK =
  'a disk that is full: undecided, no event id is used up, and all events are decided once there is room';
const withoutTrace = (name: string): string =>
  `a store that cannot decide: ${name} leaves all events undecided, without a trace`;

/** The tests that `make test-faults` may skip, by file and name, each with the place where it runs. */
export const MAY_BE_SKIPPED: Readonly<Record<string, string>> = {
  [`${POSTGRES} ${FULL_DISK}`]: 'where no small file system may be mounted',
};

export const FAULTS: readonly FaultGroup[] = [
  {
    title: 'The worker',
    faults: [
      {
        fault: 'Its connection to Postgres is cut, at any message of a transaction or of connecting',
        does: 'Decides the batch again, after a wait of 1 s at first. If the transaction had committed and only its answer was lost, its records are recognized and answered as before.',
        sees: `${UNDECIDED}; \`the store closed a connection\``,
        tests: {
          [SWEEP]: [
            ...['plain', 'with a dead letter'].map(
              (kind) =>
                `cut at each message of the transaction that decides a batch ${kind}, and of the one that finds the batch decided`,
            ),
            'cut at each message of the transaction that decides a batch of three partitions',
            'cut at each message of a new connection to Postgres, and of the start of a partition',
            'the worker makes progress within 35 s of every point',
          ],
        },
      },
      {
        fault: 'Its connection to Kafka is cut, at any request or answer',
        does: 'Connects again. It sends verdicts and dead letters again, equal to the first ones, and retries the offset commit.',
        sees: '`offset commit failed`, `the Kafka client restarts`, `partition is undecided` where a message could not be sent',
        tests: {
          [SWEEP]: [
            'cut at each request to Kafka, and at its answer',
            'cut at each request to Kafka from the start of a worker to its first commit',
            'cut and kill -9 between the decision and the topics of two operators',
          ],
        },
      },
      {
        fault:
          'It is killed (SIGKILL, out of memory) at any of these points, also between COMMIT and the offset commit',
        does: 'After 10 s the group assigns its partitions to another worker. That one reads from the committed offset again, and answers decided records as before.',
        sees: `restart of the pod, ${READ_AGAIN}`,
        tests: {
          [SWEEP]: [
            ...['plain', 'with a dead letter'].map(
              (kind) =>
                `kill -9 at each message of the transaction that decides a batch ${kind}, and of the one that finds the batch decided`,
            ),
            'kill -9 at each message of the transaction that decides a batch of three partitions',
            'kill -9 at each message of a new connection to Postgres, and of the start of a partition',
            'kill -9 at each request to Kafka that a batch makes, and at its answer',
            'cut and kill -9 between the decision and the topics of two operators',
          ],
          [OFFSETS]: [
            'a crash: between the transaction and the offset commit loses nothing, and records that are read again are no duplicates',
            'a crash: in the middle of the load: every record has a verdict in the topic, and repeated verdicts are equal',
          ],
        },
      },
      {
        fault: 'It was killed, and Kafka still counts it as a member of the group',
        does: 'Within 12 s another worker, which makes progress itself, sees that the member commits nothing although it has records to read. It rejoins, so that Kafka checks the members, and gets the partitions 15 s later. If the member is alive and only undecided, nothing changes: then the worker rejoins after 1, 2, 4 ... 60 min.',
        sees: '`members of the group do not read their partitions`, then `partitions assigned`',
        tests: {
          [PROCESSES]: [
            'a killed member that Kafka still counts: another worker rejoins, once, and gets its partitions',
            'a killed member that Kafka still counts: nobody rejoins where KAFKA_DEAD_MEMBER_WATCH is disabled',
          ],
        },
      },
      {
        fault: 'SIGTERM in the middle of a batch',
        does: 'Finishes the batches in flight within SHUTDOWN_SECONDS, commits them, and leaves the group. The next owner reads the waiting records.',
        sees: '`signal received`, `stopping`, `stopped`; exit code 0, or 1 and `stopped at the deadline; records in flight are read again`, `connections did not close in time, dropping them`',
        tests: {
          [OFFSETS]: [
            'SIGTERM: in the middle of the load: ends with 0, and the committed offsets are those of the decided records',
          ],
          [UNDECIDED_TESTS]: [
            'Postgres stopped: SIGTERM ends the wait at once',
            'Postgres hangs: SIGTERM ends the worker within SHUTDOWN_SECONDS, a second SIGTERM at once; no event is lost',
          ],
        },
      },
      {
        fault: 'Crash of `move-operator`, in any phase, while the operator goes on sending',
        does: 'The next run continues. Each event counts once over both cells, and a resend is a duplicate in the new one.',
        sees: '`state` of `promo.moves` is not `done`.',
        tests: {
          [CELLS]: [
            'an operator moves to another cell under load, with kills in every phase: each event counts once, and resends are duplicates there',
          ],
        },
      },
      {
        fault:
          'It is frozen beyond the session timeout (SIGSTOP, a machine that sleeps), and continues while another worker has its partitions',
        does: 'Postgres ends its open transactions after 15 s. Each of the two workers recognizes the records that the other has decided. The frozen one rejoins the group.',
        sees: `\`partitions assigned\` by both, ${READ_AGAIN}`,
        tests: {
          [PROCESSES]: [
            'a zombie: SIGSTOP under load beyond the session timeout, and SIGCONT once another worker has its partitions',
          ],
        },
      },
      {
        fault: 'Its event loop is blocked beyond the session timeout',
        does: 'The same. It answers no request meanwhile.',
        sees: 'no answer from `/livez`, then `partitions assigned`',
        tests: {
          [PROCESSES]: [
            'an event loop that is blocked beyond the session timeout: health does not answer, then the worker continues',
          ],
        },
      },
      {
        fault:
          'Its log cannot be written: a full disk, a pipe whose reader has stopped, a pipe or a terminal that is gone (worker, `worker --drain`, webhook)',
        does: 'Continues. Up to 1 MiB of lines wait, and further lines are dropped. SIGTERM ends the process as always, and so does the end of its own terminal.',
        sees: '`promo_intake_log_lines_dropped_total`; once lines can be written again, `log lines dropped while the log could not be written` with their number',
        tests: {
          [LOG]: [
            'a device without room',
            'a pipe whose reader has stopped',
            'a pipe whose reader is gone',
            'a terminal that is gone',
          ]
            .flatMap((sink) => [
              `a log to ${sink}: the worker decides, /livez answers, and SIGTERM ends it with 0`,
              `a log to ${sink}: worker --drain decides all, and ends with 0`,
              `a log to ${sink}: SIGTERM ends a worker that cannot start`,
              `a log to ${sink}: the webhook answers /livez, and SIGTERM ends it with 0`,
            ])
            .concat(
              'a log to a terminal that goes away: the worker decides on, and SIGTERM ends it with 0',
              'a worker whose own terminal goes away leaves its group, and ends with 0',
              'a worker on which a shell and the kernel hang up ends with 0',
            ),
        },
      },
      {
        fault: 'The results of a command cannot be written',
        does: 'Completes its work, and ends with the exit code of the work. A reader that ended, as `head` does, is no fault. Without room the command ends with 1. While the reader has stopped, the command waits, and SIGTERM ends it within 2 s.',
        sees: '`standard output cannot be written (ENOSPC): the results are incomplete`; no sign if the reader ended',
        tests: {
          [LOG]: [
            'results to a pipe whose reader is gone: the command ends without output, with the exit code of its work',
            'results to a device without room: the command reports it in one sentence, and ends with 1',
            'results to a terminal that is gone: the command reports it in one sentence, and ends with 1',
            'results to a pipe whose reader has stopped: the command waits, and SIGTERM ends it',
            'results of a change to a pipe whose reader is gone: the change is made, and the exit code is 0',
          ],
        },
      },
      {
        fault: 'Its clock jumps, forward or back',
        does: 'Continues: its own waits use a monotonic clock. After a jump back the Kafka client sends no heartbeat, and the worker rejoins the group after 20 s.',
        sees: '`the membership of the group has ended; rejoining` after a jump back',
        tests: {
          [PROCESSES]: ['forward', 'back'].map(
            (direction) => `a clock that jumps a day ${direction}: later records are decided and committed`,
          ),
        },
      },
    ],
  },
  {
    title: 'Kafka',
    faults: [
      {
        fault: 'A broker restarts or crashes, or all brokers are away for minutes',
        does: 'Connects again and again. It continues by itself within 35 s of their return.',
        sees: 'warnings with `"client":"Connection"`; if it lasts, also `the Kafka client restarts` and `cannot check topics, retrying`; `/livez` stays 200, since a restart would not help',
        tests: {
          [KAFKA]: [
            'a broker that is killed and started again: the worker continues by itself',
            'all brokers away for three minutes: liveness holds, and all records are decided within 35 s of their return',
          ],
          [LONG]: [
            'long faults: Kafka stopped and started again: the worker continues by itself, and reads new topics, too',
          ],
        },
      },
      {
        fault: 'Brokers hang: connections stay up, and no answer comes',
        does: 'Ends a request after 15 s, and continues within 35 s of the end of the fault. SIGTERM ends it in time.',
        sees: 'the same signs',
        tests: {
          [LONG]: [
            'long faults: Kafka hangs for half a minute: records sent meanwhile are decided within 35 s of its end',
            'long faults: Kafka hangs for longer than LIVENESS_SECONDS: liveness holds, since a restart would not help, and SIGTERM ends the worker in time',
          ],
        },
      },
      {
        fault: 'Kafka is away when a worker starts',
        does: 'Retries for a minute, and then ends with 1.',
        sees: '`Kafka is not ready, retrying`, then `the worker cannot start`; exit code 1',
        tests: {
          [LONG]: [
            'long faults: a worker whose Kafka does not come up reports it and ends with 1 after a minute',
          ],
        },
      },
      {
        fault: 'Rebalances: every few seconds a worker joins, leaves or crashes',
        does: 'Drops its undecided records, and continues with the partitions that it is assigned. A batch in flight is decided, and the old owner does not commit its offset.',
        sees: `\`partitions assigned\`, ${READ_AGAIN}`,
        tests: {
          [KAFKA]: [
            'a rebalance every two seconds: all events are decided once, and the load progresses meanwhile',
          ],
          [GROUPS]: [
            'workers that join and leave under load: lose no event, and records that are read twice are no duplicates',
            'an undecided and full partition in a rebalance: is read again by its next owner, which waits 1 s and decides once the store can',
          ],
          [LONG]: [
            'long faults: three workers that are killed and replaced in turn: the same tables as an undisturbed run',
          ],
        },
      },
      {
        fault: 'Partitions or topics are added',
        does: 'Reads them within 60 s, from their beginning.',
        sees: '`partitions assigned`; before that `topic does not exist; it is read once it exists`',
        tests: {
          [GROUPS]: [
            'topics: new partitions of a topic are read within 60 s',
            'topics: a missing topic is reported once, stops no other topic, and is read within 60 s of its creation',
          ],
        },
      },
      {
        fault: 'Committed offsets are set back or lost',
        does: 'Reads the records again, and answers as before. No record is a duplicate of itself.',
        sees: READ_AGAIN,
        tests: {
          [KAFKA]: [
            'offsets set back, or lost: records that are read again are answered as before, and are no duplicates',
          ],
        },
      },
      {
        fault: 'Another program sets committed offsets forward',
        does: 'Continues from there, and does not read the records between.',
        sees: '`records were passed over`, which has the offsets; `promo_intake_gap_records_total`; `promo-intake verify` names the records',
        tests: {
          [KAFKA]: [
            'offsets set forward: the worker logs the records that were passed over, and none after its own commits',
          ],
          [VERIFY]: [
            'verify: names records that were committed and not decided, and contradictions within the store',
          ],
        },
      },
      {
        fault: 'The group moves to another Kafka cluster, or back, and a mirror translates its offsets',
        does: 'Continues on the new cluster. Offsets of the other cluster are not compared with it. A store that has lost decisions is noticed on each cluster.',
        sees: '`the partition continues from another Kafka cluster`; `verify` on the new cluster',
        tests: {
          [CLUSTERS]: [
            'a move back to the old offsets of the group raises no alarm, and records that were copied back are duplicates',
            'a store that is restored to a time before the move is noticed on the new cluster, which is read from its beginning',
            'a topic that the mirror has renamed continues as under its old name',
          ],
        },
      },
      {
        fault: 'The address of the brokers leads a running worker to another Kafka cluster',
        does: 'Ends, and commits no offset there. After a restart it continues as after a move.',
        sees: '`the Kafka client has ended`: `The brokers belong to another Kafka cluster than at the start`',
        tests: {
          [CLUSTERS]: [
            'a source ends without handing over a record if its brokers belong to another cluster',
          ],
        },
      },
      {
        fault: 'Retention deletes records before they are read',
        does: 'Continues with the oldest record that is left. `worker --drain` does not wait for deleted records or topics, and ends with 1.',
        sees: '`records were deleted before they were read`, which has the offsets; `promo_intake_gap_records_total`; `promo-intake verify` names the offsets until the group has passed them. With `--drain`: `records were deleted before they were decided`',
        tests: {
          [KAFKA]: [
            'retention that overruns a worker: the remaining records are decided, and worker and verify report the gap',
          ],
          [OFFSETS]: [
            'worker --drain: records that are deleted before they are decided: ends with 1 once all other records are decided',
            'worker --drain: records that are deleted with their topic before they are decided: ends with 1 once all other records are decided',
          ],
        },
      },
      {
        fault: 'Compaction leaves gaps',
        does: 'Reads past them. `worker --drain` ends all the same.',
        sees: 'no sign',
        tests: {
          [LONG]: ['long faults: gaps of compaction do not end a drain: a compacted topic is drained'],
        },
      },
      {
        fault: 'A topic is deleted and created again',
        does: 'Other topics continue. The new topic is read from its beginning. Its records are new, whatever their offsets.',
        sees: '`topic does not exist; it is read once it exists`',
        tests: {
          [GROUPS]: [
            'topics: a topic that is deleted and created again starts at offset 0: its new records are decided, and other topics continue',
          ],
        },
      },
      {
        fault: 'A quota of the brokers throttles a worker, even below the size of a batch',
        does: 'Reads more slowly, and keeps its membership. A batch larger than ten seconds of `consumer_byte_rate` never arrives: raise the quota.',
        sees: '`Kafka throttles requests of this process by a quota`, once a minute; after a minute without a record also `Kafka throttles every fetch, and no record arrives ...`, an error; `promo_intake_kafka_throttled_seconds_total`',
        tests: {
          [THROTTLING]: [
            'a consumer byte quota of 50 kB/s slows a worker down and does not cost it its membership',
            'a batch larger than ten seconds of the quota never arrives; the log reports it after a minute, and a larger quota helps',
          ],
        },
      },
      {
        fault: 'There are fewer brokers than a topic of our own needs replicas, as while brokers start',
        does: 'Retries for a minute, since brokers may still join. Then it ends with 1.',
        sees: '`Kafka is not ready, retrying`, then `the worker cannot start`, with the topic, the request and the remedy',
        tests: {
          [START]: [
            'a topic with more replicas than brokers is requested until the start ends, since brokers may still join',
          ],
        },
      },
      {
        fault: 'An ACL forbids reading a topic, or a broker cannot read it from its disk',
        does: 'Other topics continue. The worker retries at least twice a minute, and reads on once it can.',
        sees: '`cannot read a topic, retrying; other topics continue`, an error, every ten minutes; `promo_intake_refused_partitions`',
        tests: {
          [SECURITY]: [
            'a topic that a worker may not read is logged and stops no other; it is read once the ACL allows it',
          ],
        },
      },
      {
        fault:
          'A partition of any topic has no leader, as when the only broker or disk with its data is away',
        does: 'Other partitions continue, and workers can start. The partition is read once it has a leader. `status`, `verify` and `worker --drain` report that they cannot read it.',
        sees: '`cannot read a topic, retrying; other topics continue`, an error, every ten minutes; `promo_intake_refused_partitions`',
        tests: {
          [DISKS]: ['a partition without a leader delays neither other partitions nor starting workers'],
        },
      },
      {
        fault: 'Aborted and open transactions',
        does: 'Aborted records are never decided. Records behind an open transaction wait for its end.',
        sees: 'none for aborted transactions. For an open one: `promo_intake_lag_records` and `promo_intake_lag_seconds`, which raises the alert PromoIntakeLag',
        tests: {
          [RECORDS]: ['transactions: aborted records are never decided'],
          [OFFSETS]: [
            'worker --drain: waits for an open transaction, whose records are in the topic already, and for the records behind it',
          ],
        },
      },
      {
        fault: 'Records of 10 MiB, compression bombs, hundreds of thousands of tiny records, damaged batches',
        does: 'Decides the readable records. A batch that is unreadable, or larger than 64 MiB when decompressed, becomes one dead letter. Memory stays bounded.',
        sees: '`records sent to the dead-letter topic`, `promo_intake_dead_letters_total{reason="undecodable"}`',
        tests: {
          [KAFKA]: ['records of 10 MiB and bombs, on several partitions at once: memory stays bounded'],
          [HOSTILE]: [
            'decides the records behind a bomb, 300,000 tiny records, 100,000 headers and a 10 MiB record',
          ],
          [DISKS]: ['a batch whose bytes a disk has changed is a dead letter, although they could be parsed'],
        },
      },
      {
        fault:
          'Valid records whose keys or headers are 60 MiB, compressed to a few kilobytes; records with a thousand headers and more',
        does: 'Decides them one at a time, within the memory limit of the chart. A record with more than 1,000 headers becomes a dead letter. Other operators wait at most 2 s.',
        sees: 'a record with too many headers: `records sent to the dead-letter topic`, `promo_intake_dead_letters_total{reason="undecodable"}`; none for the others',
        tests: {
          [HOSTILE_BYTES]: [
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by gzip: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by snappy: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by lz4: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by zstd: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a header of 60 MiB: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: a key or a header of 60 MiB on 12 partitions, some of them in sequence: memory is bounded',
            'large keys and headers, compressed: dead letters with keys and headers of 60 MiB: memory is bounded meanwhile, and other records are decided',
            'very many headers: 200 unclaimed records of 99,999, and as many on a topic of their own: memory is bounded, and other records are decided',
            'very many headers: 4,000 records of 1,000, unclaimed: memory is bounded, and other records are decided',
            'very many headers: 4,000 records of 1,000, of an unknown schema on an own topic: memory is bounded, and other records are decided',
          ],
        },
      },
      {
        fault: 'The verdict topic of one operator is missing or refuses, where each operator has its own',
        does: 'Decides records of all operators. Partitions that hold records of that operator wait, and retry the messages that are not published yet. All other partitions go on. Creates a missing topic where it may.',
        sees: UNDECIDED,
        tests: {
          [VERDICT_TOPICS_TESTS]: [
            'a topic that refuses leaves the partitions of its operator undecided, and no others',
          ],
          [REFUSED_TOPICS_TESTS]: [
            'a topic that is deleted, and one that may not be written, leave the other operators at full speed',
          ],
        },
      },
      {
        fault: 'The dead-letter topic or the verdict topic refuses',
        does: 'Decides the records before the refused one, which waits. Publishes verdicts again without deciding again.',
        sees: UNDECIDED,
        tests: {
          [UNDECIDED_TESTS]: [
            'a dead-letter topic that refuses: leaves the record undecided until it accepts: records before it are decided, and other partitions continue',
          ],
          [WAITS_TESTS]: [
            'publishing verdicts: is retried until it succeeds, without deciding again, before the offset is committed',
          ],
        },
      },
    ],
  },
  {
    title: 'Postgres',
    faults: [
      {
        fault: 'It restarts, crashes, is shut down by its operator, or is away for minutes',
        does: WAITS,
        sees: UNDECIDED,
        tests: {
          [UNDECIDED_TESTS]: [
            'Postgres stopped: every partition waits 1, 2, 4, 8 s and stays with its member; once Postgres is back, all records are decided',
            'Postgres ended in the middle of the load: by its operator and by a crash: the worker survives, and decides every event once',
          ],
          [LEDGER]: ['active', 'idle in transaction'].map(
            (state) =>
              `a store that cannot decide: a connection that the store ends while it is ${state} leaves all events undecided, and the worker continues`,
          ),
          [LONG]: [
            'long faults: Postgres stopped for 40 s, a worker killed three times: the tables differ only in the order of bet and refund',
          ],
        },
      },
      {
        fault: 'It hangs: connections stay up, and no answer comes',
        does: 'Ends the connection after 10 s without an answer. Then as above.',
        sees: `${UNDECIDED}: \`no answer within\``,
        tests: {
          [UNDECIDED_TESTS]: [
            'Postgres hangs: in the middle of the load, for longer than the worker waits for an answer: the worker survives, and decides every event once',
          ],
          [LEDGER]: [
            'a store that cannot decide: a store that falls silent in the middle of a batch leaves all events undecided, and its connection is discarded',
          ],
        },
      },
      {
        fault: 'It is away when a worker starts, or lacks migrations',
        does: 'Retries for a minute, and then ends with 1. Without the migrations the worker does not start.',
        sees: '`Postgres is not ready, retrying`, then `the worker cannot start`; exit code 1',
        tests: {
          [UNDECIDED_TESTS]: [
            'at the start: Postgres may start later than its worker, which answers health checks from the start',
          ],
          [OPERATION]: ['the start: on a database that lacks migrations reports it and ends with 1'],
        },
      },
      {
        fault: 'It fails over to a server at another address',
        does: 'Resolves the address at each new connection, and continues there. It depends on no state of a session.',
        sees: UNDECIDED,
        tests: {
          [POSTGRES]: [
            'failover to a server at another address, in the middle of a load: the worker continues there',
          ],
        },
      },
      {
        fault: 'Another session holds a lock',
        does: `Waits 5 s for the lock. Then the batch is undecided, and the other partitions continue.`,
        sees: `${UNDECIDED}: \`canceling statement due to lock timeout\``,
        tests: {
          [UNDECIDED_TESTS]: ['a partition that is locked: is undecided, and the other partitions continue'],
          [LEDGER]: [
            'a store that cannot decide: a lock held too long and a statement that runs too long leave all events undecided',
          ],
        },
      },
      {
        fault: 'A statement runs too long',
        does: `Ends the statement after 8 s. ${WAITS}`,
        sees: `${UNDECIDED}: \`canceling statement due to statement timeout\``,
        tests: { [POSTGRES]: [outage('a statement that runs too long')] },
      },
      {
        fault: 'Deadlocks, serialization failures, lost races',
        does: 'Decides again at once, at most five times, in smaller batches. Then the batch is undecided.',
        sees: '`batch is decided again`',
        tests: {
          [LEDGER]: [
            ...['a serialization failure', 'a deadlock'].map(
              (name) =>
                `a store that cannot decide: ${name} is decided again at once, and is undecided after five tries`,
            ),
            'a store that cannot decide: a batch that meets a real deadlock with a foreign writer is retried, and decided as a whole',
          ],
        },
      },
      {
        fault: 'Its disk is full',
        does: WAITS,
        sees: `${UNDECIDED}: \`No space left on device\``,
        tests: {
          [POSTGRES]: [FULL_DISK],
          [LEDGER]: [withoutTrace('disk full')],
        },
      },
      {
        fault: 'It has too many connections',
        does: WAITS,
        sees: `${UNDECIDED}: \`too many connections\``,
        tests: {
          [POSTGRES]: [outage('too many connections')],
          [LEDGER]: [withoutTrace('too many connections')],
        },
      },
      {
        fault: 'It is read-only, as a standby is',
        does: WAITS,
        sees: `${UNDECIDED}: \`read-only transaction\``,
        tests: {
          [POSTGRES]: [outage('a database that is read-only')],
          [LEDGER]: [
            'a store that cannot decide: a read-only store leaves all events undecided, and decides once it accepts writes again',
          ],
        },
      },
      {
        fault: 'Its answers take two seconds',
        does: 'Decides, slowly: two or three round trips a batch. A new connection may take 15 s.',
        sees: '`promo_intake_batch_seconds`',
        tests: {
          [POSTGRES]: [
            'answers that take two seconds: events are decided, slowly, also on new connections and by a new worker',
          ],
        },
      },
      {
        fault: 'Its clock is wrong by minutes or by a day, or goes back',
        does: 'Decides as before: times of verdicts are those of the clock, and their numbers show the order. A lease that was written while the clock was ahead counts as over. `retention apply` drops nothing.',
        sees: '`decided_at` goes back while `verdict_id` rises; `The clock of Postgres shows` from `retention apply`',
        tests: {
          [POSTGRES]: [
            'a clock that goes forward and back by minutes and by a day: all events are decided, in their order',
          ],
          [ROLLUPS]: ['a lease that was written while the clock of Postgres was an hour ahead is over'],
          [COMPLETIONS]: ['a lease that was written while the clock of Postgres was an hour ahead is over'],
          [CLI]: [
            'retention and erasure: retention drops nothing where the clock of Postgres differs from its own by hours',
          ],
        },
      },
      {
        fault: 'A grant is missing',
        does: `${WAITS} A bad deployment costs time, and no event.`,
        sees: `${UNDECIDED}: \`permission denied\``,
        tests: {
          [POSTGRES]: [outage('a missing grant')],
          [LEDGER]: [
            'a store that cannot decide: a missing permission on history (insert) leaves all events undecided, without a trace',
          ],
        },
      },
      {
        fault: 'A column or table is missing or changed',
        does: 'The same.',
        sees: `${UNDECIDED}: \`does not exist\``,
        tests: {
          [POSTGRES]: [outage('a missing column')],
          [LEDGER]: ['a missing column', 'a missing table', 'a column of another type'].map(
            (name) =>
              `a store that cannot decide: ${name} leaves all events undecided, without a trace and without a panic`,
          ),
        },
      },
      {
        fault: 'A trigger or a value makes one event fail',
        does: 'Halves the batch until the event is alone. If it fails twice, it is stored as `rejected/panic` with its payload, and the rest is decided. Beyond ten panics a minute of a worker, the event waits instead.',
        sees: '`event failed twice and is rejected as panic`, `promo_intake_verdicts_total{reason="panic"}`',
        tests: {
          [POSTGRES]: [
            'a trigger that fails one event: the event is rejected as panic and logged, and the rest is decided',
          ],
          [LEDGER]: [
            'an event that fails twice alone: stays undecided beyond ten panics a minute, and is decided once the minute is over',
          ],
        },
      },
    ],
  },
  {
    title: 'The schema registry',
    faults: [
      {
        fault: 'It is down, takes longer than 5 s, or answers 500, or 404 as a proxy would',
        does: 'A record of a new schema waits, with the records behind it in its partition. Records without a frame or of known schemas, and other partitions, continue.',
        sees: UNDECIDED,
        tests: {
          [REGISTRY]: [
            'is down',
            'takes longer than five seconds',
            'answers 500',
            'answers 404 without the code of an unknown id',
          ].map(
            (fault) =>
              `a registry that ${fault}: its records wait, others continue, and all are decided once it answers`,
          ),
          [UNDECIDED_TESTS]: [
            'a registry that is away: leaves its records undecided, and other records continue; once it is back, they are decided',
          ],
        },
      },
      {
        fault: 'It does not know the id',
        does: 'Asks a second time. Then the record becomes a dead letter.',
        sees: '`records sent to the dead-letter topic`, `promo_intake_dead_letters_total{reason="schema_unknown"}`',
        tests: {
          [REGISTRY]: [
            'a registry that does not know the id: the record is a dead letter, and the next one is decided',
          ],
        },
      },
    ],
  },
  {
    title: 'The webhook',
    faults: [
      {
        fault: 'Postgres is away',
        does: 'Answers 503 with `Retry-After`, and stores nothing. The request is decided when it is sent again once Postgres is back.',
        sees: '`request undecided`, `promo_intake_retries_total{class="undecided"}`; `/livez` and `/readyz` stay 200',
        tests: {
          [WEBHOOK]: ['while Postgres is away requests are undecided, and they are decided when sent again'],
        },
      },
      {
        fault: 'It is killed at any moment',
        does: 'Committed decisions stay. A sender without an answer sends again. Its events are then duplicates, and the answer has their verdicts.',
        sees: 'connections that end; no trace in the store',
        tests: {
          [WEBHOOK_STORM]: [
            'an event has one verdict, and all answers have that one, however senders race and webhooks die',
          ],
        },
      },
      {
        fault: 'More requests come than it can decide, or a transaction hangs',
        does: 'Answers 503 with `Retry-After`: after 0.5 s without a slot, and after at most 20 s with one.',
        sees: '`promo_intake_webhook_requests_total{status="503"}`, `promo_intake_webhook_requests_in_progress`, `request refused`',
        tests: {
          [WEBHOOK]: [
            'a request without a free slot within half a second is answered 503, and one with a slot is decided',
          ],
          [WEBHOOK_UNIT]: [
            'a request that waits too long is answered 503, and requests in flight keep their slots',
          ],
        },
      },
      {
        fault: 'The verdict topic refuses, or Kafka is away',
        does: 'Publishes the stored verdicts again, after 1 s, doubling to 30 s, and then answers. A request that waits for 20 s is answered 503. New requests are answered 503 meanwhile.',
        sees: '`cannot publish verdicts, retrying`, `request undecided` with the cause kafka',
        tests: {
          [WEBHOOK_UNIT]: [
            'verdicts are answered once they are published; while the topic refuses, no more requests are decided',
          ],
        },
      },
      {
        fault: 'A sender leaves in the middle of a request, or sends it slower than 10 s',
        does: 'Decides none of its events, and ends the connection. Other senders are served meanwhile.',
        sees: '`request aborted by the sender`, `promo_intake_webhook_requests_total{status="broken_off"}`',
        tests: {
          [WEBHOOK_UNIT]: [
            'a sender that aborts its request is counted, and nothing of the request is decided',
            'a sender that does not complete a request in time is dropped, and others are served meanwhile',
          ],
        },
      },
      {
        fault: 'A sender speaks no HTTP/1.1, or resets its connection at any moment',
        does: 'Answers 400, 405, 408 or 431 where the sender can still read it, and ends the connection. Other senders are served.',
        sees: '`connection dropped` with `why`, `promo_intake_webhook_dropped_total`',
        tests: {
          [WEBHOOK_RAW]: [
            'a sender that speaks no HTTP, or leaves in the middle: is answered, counted and logged, and the process continues',
            'a sender that speaks no HTTP, or leaves in the middle: does not end the process by a reset at any moment',
          ],
        },
      },
      {
        fault: 'One sender sends more than its share, or keeps connections or unfinished requests open',
        does: 'Answers that sender 429 with Retry-After, or ends its connections: first those without a valid signature, then slow bodies. Other senders are served.',
        sees: '`request refused`, `connection dropped`, `promo_intake_webhook_refusals_total`, `promo_intake_webhook_dropped_total`',
        tests: {
          [WEBHOOK_UNIT]: [
            'half-sent requests block nobody: slow ones are answered, and give their places to others',
            'of too many connections those without a valid signature are dropped first, and a signed one is served',
            'a body in pieces of a byte is refused early, and holds no memory',
          ],
          [WEBHOOK_LIMITS]: [
            'an unread answer ends its connection after ten seconds, and others are served',
            'refusals of one sender are one line a minute, and those of many senders a hundred; all are counted',
            'during a flood of unsigned requests the secrets file is read once a second, and a rotation still works',
          ],
        },
      },
      {
        fault: 'A hostile operator attacks memory, the event loop, connections or the store',
        does: 'Counts and bounds the resources of each sender (docs/security.md, "Limits on a sender"). Other operators are decided and answered.',
        sees: 'Dead letters, refusals and dropped connections of that operator',
        tests: {
          [NEIGHBOURS]: [
            'a hostile operator does not slow, stop or refuse its neighbour, by Kafka and by the webhook',
          ],
        },
      },
      {
        fault: 'The file of its secrets becomes wrong',
        does: 'Keeps the secrets that it had.',
        sees: '`changed secrets are not valid, keeping the old ones`',
        tests: {
          [WEBHOOK]: ['a changed secrets file is used, and an invalid one changes nothing'],
        },
      },
    ],
  },
  {
    title: 'Lost data, and observers',
    faults: [
      {
        fault:
          'Postgres has lost committed data: a standby that was behind took over, or it is restored from a backup',
        does: 'Notices it by the next batch of a partition. Without records it notices it by a check of the store, at an assignment and every 20 s. It first reads the lost records again that Kafka still has: docs/operations/backup-and-restore.md.',
        sees: '`the store has lost decided events; reading them again`; `verify` ends with 1 until then, and names each partition',
        tests: {
          [POSTGRES]: [
            'failover to a standby that was behind, with no new records: the records that it lacks are read again',
          ],
          [RESTORE]: [
            'a restored store is behind its group: verify reports it, and workers repair it by themselves',
          ],
          [WAITS_TESTS]: [
            'a store that has lost decided events: makes the partition rewind, without a wait, before any record behind is decided',
            'a store that has lost decided events: is noticed also while no records come',
          ],
        },
      },
      {
        fault: 'The collector of traces refuses, hangs or is away',
        does: 'Decides as always. Traces wait up to a limit, and then are dropped.',
        sees: '`cannot send some or all traces`, once a minute; `last traces not sent in time` when the worker ends',
        tests: {
          [TRACES]: [
            'a collector that: refuses is logged once, and delays nothing',
            'a collector that: never answers is logged once, and delays nothing',
          ],
        },
      },
    ],
  },
];

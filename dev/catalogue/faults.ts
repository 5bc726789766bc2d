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
const CLUSTERS = 'test/stream/clusters.test.ts';
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
const RESTORE = 'test/stream/restore.test.ts';
const SECURITY = 'test/stream/security.test.ts';
const SWEEP = 'test/faults/sweep.test.ts';
const TRACES = 'test/stream/traces.test.ts';
const UNDECIDED_TESTS = 'test/stream/undecided.test.ts';
const VERIFY = 'test/stream/verify.test.ts';
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
  `a store that cannot decide: ${name} leaves all undecided, without a trace`;

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
        does: 'Decides the batch again, from a wait of 1 s on. Where the transaction had been committed and only the answer was lost, its records are recognized and answered as before.',
        sees: `${UNDECIDED}; \`the store closed a connection\``,
        tests: {
          [SWEEP]: [
            ...['plain', 'with a dead letter'].map(
              (kind) =>
                `cut at each message of the transaction that decides a batch ${kind}, and of the one that finds the batch decided`,
            ),
            'cut at each message of a new connection to Postgres, and of the start of a partition',
            'the worker makes progress within 35 s of every point',
          ],
        },
      },
      {
        fault: 'Its connection to Kafka is cut, at any request or answer',
        does: 'Connects anew. Verdicts and dead letters are sent again, equal to the first; an offset is committed once it can be.',
        sees: '`offset commit failed`, `the Kafka client restarts`, `partition is undecided` where a message could not be sent',
        tests: {
          [SWEEP]: [
            'cut at each request to Kafka, and at its answer',
            'cut at each request to Kafka from the start of a worker to its first commit',
          ],
        },
      },
      {
        fault:
          'It is killed (SIGKILL, out of memory), at any of these points, between COMMIT and the offset commit, too',
        does: 'The group gives its partitions to another worker after 10 s, which reads again from the committed offset and answers what is decided as before.',
        sees: `restart of the pod, ${READ_AGAIN}`,
        tests: {
          [SWEEP]: [
            ...['plain', 'with a dead letter'].map(
              (kind) =>
                `kill -9 at each message of the transaction that decides a batch ${kind}, and of the one that finds the batch decided`,
            ),
            'kill -9 at each message of a new connection to Postgres, and of the start of a partition',
            'kill -9 at each request to Kafka that a batch makes, and at its answer',
          ],
          [OFFSETS]: [
            'a crash: between the transaction and the offset commit loses nothing, and records that are read again are no duplicates',
            'a crash: in the middle of the load: every record has a verdict in the topic, and repeated verdicts are equal',
          ],
        },
      },
      {
        fault: 'It was killed, and Kafka goes on counting it as a member of the group',
        does: 'Another worker sees within 12 s that the member commits nothing of what it could read, while its own partitions get on. It joins anew, which makes Kafka ask who is there, and has the partitions 15 s later. Where that changes nothing, since the member lives and is undecided, it joins anew after 1 min, 2, 4 ... 60.',
        sees: '`members of the group do not read their partitions`, then `partitions assigned`',
        tests: {
          [PROCESSES]: [
            'a killed member that Kafka still counts: another worker rejoins, once, and gets its partitions',
          ],
        },
      },
      {
        fault: 'SIGTERM in the middle of a batch',
        does: 'Finishes what is under way within SHUTDOWN_SECONDS, commits it, and leaves the group. What waits is left to the next owner.',
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
        fault:
          'It is frozen beyond the session timeout (SIGSTOP, a machine that sleeps), and goes on while another has its partitions',
        does: 'Postgres ends its open transactions after 15 s. What it still decides is recognized by the other, and the other way round; it joins the group anew.',
        sees: `\`partitions assigned\` by both, ${READ_AGAIN}`,
        tests: {
          [PROCESSES]: [
            'a zombie: SIGSTOP under load beyond the session timeout, and SIGCONT once another worker has its partitions',
          ],
        },
      },
      {
        fault: 'Its event loop is blocked beyond the session timeout',
        does: 'The same; nobody is answered meanwhile.',
        sees: 'no answer from `/livez`, then `partitions assigned`',
        tests: {
          [PROCESSES]: [
            'an event loop that is blocked beyond the session timeout: health does not answer, then the worker continues',
          ],
        },
      },
      {
        fault:
          'Its log cannot be written: a full disk, a pipe whose reader has stopped, a pipe or a terminal that is gone; of worker, worker --drain and webhook',
        does: 'Goes on. 1 MiB of lines wait, the lines beyond are dropped. SIGTERM ends the process as always.',
        sees: '`promo_intake_log_lines_dropped_total`; `log lines were dropped while the log could not be written`, with their number, once lines can be written again',
        tests: {
          [LOG]: [
            'a device without room',
            'a pipe whose reader has stopped',
            'a pipe whose reader is gone',
          ].flatMap((sink) => [
            `a log to ${sink}: the worker decides, /livez answers, and SIGTERM ends it with 0`,
            `a log to ${sink}: worker --drain decides all, and ends with 0`,
            `a log to ${sink}: SIGTERM ends a worker that cannot start`,
            `a log to ${sink}: the webhook answers /livez, and SIGTERM ends it with 0`,
          ]),
        },
      },
      {
        fault: 'The results of a command cannot be written',
        does: 'Does its work to the end, with the exit code of the work. A reader that ended, as head does, is no fault; without room the command ends with 1. While a reader has stopped, the command waits, and SIGTERM ends it within 2 s.',
        sees: '`standard output cannot be written (ENOSPC): the results are incomplete`; nothing where the reader ended',
        tests: {
          [LOG]: [
            'results to a pipe whose reader is gone: the command ends without output, with the exit code of its work',
            'results to a device without room: the command reports it in one sentence, and ends with 1',
            'results to a pipe whose reader has stopped: the command waits, and SIGTERM ends it',
            'results of a change to a pipe whose reader is gone: the change is made, and the exit code is 0',
          ],
        },
      },
      {
        fault: 'Its clock jumps, forward or back',
        does: 'Goes on: its own waits are by a clock that only goes forward. The Kafka client, set back, sends no heartbeat: after 20 s the worker joins the group anew.',
        sees: '`the membership of the group has ended; rejoining` where it was set back',
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
        fault: 'A broker that restarts or crashes, or all of them away for minutes',
        does: 'Connects again and again. Within 35 s of their return it has gone on by itself.',
        sees: 'warnings with `"client":"Connection"`; where it lasts also `the Kafka client restarts`, `cannot check topics, retrying`; `/livez` stays 200, since a restart would not help',
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
        fault: 'Brokers that hang: connections stay up, and nothing answers',
        does: 'Gives a request up after 15 s, and goes on within 35 s of the end. SIGTERM ends it in time.',
        sees: 'the same',
        tests: {
          [LONG]: [
            'long faults: Kafka hangs for half a minute: records sent meanwhile are decided within 35 s of its end',
            'long faults: Kafka hangs for longer than LIVENESS_SECONDS: liveness holds, since a restart would not help, and SIGTERM ends the worker in time',
          ],
        },
      },
      {
        fault: 'Kafka is not there when a worker starts',
        does: 'Tries for a minute.',
        sees: '`Kafka is not ready, retrying`, then `the worker cannot start`; exit code 1',
        tests: {
          [LONG]: [
            'long faults: a worker whose Kafka does not come up reports it and ends with 1 after a minute',
          ],
        },
      },
      {
        fault: 'Rebalances: workers that come, go and crash, one every few seconds',
        does: 'Drops what it has not decided, and goes on with what it is given. A batch under way is decided, and not committed by the old owner.',
        sees: `\`partitions assigned\`, ${READ_AGAIN}`,
        tests: {
          [KAFKA]: [
            'a rebalance every two seconds: all events are decided once, and the load progresses meanwhile',
          ],
          [GROUPS]: [
            'workers that join and leave under load: lose no event, and records that are read twice are no duplicates',
            'a partition that is undecided and full while the group rebalances: is read again by its next owner, which waits 1 s first and decides it once the store can',
          ],
          [LONG]: [
            'long faults: three workers that are killed and replaced in turn: the same tables as an undisturbed run',
          ],
        },
      },
      {
        fault: 'Partitions are added, or topics',
        does: 'Takes them up within 60 s, from their beginning.',
        sees: '`partitions assigned`; before that `topic does not exist; it is read once it exists`',
        tests: {
          [GROUPS]: [
            'topics: new partitions of a topic are read within 60 s',
            'topics: a missing topic is reported once, stops no other topic, and is read within 60 s of its creation',
          ],
        },
      },
      {
        fault: 'Committed offsets are set back, or lost',
        does: 'Reads again and answers as before; nothing is a duplicate of itself.',
        sees: READ_AGAIN,
        tests: {
          [KAFKA]: [
            'offsets set back, or lost: records that are read again are answered as before, and are no duplicates',
          ],
        },
      },
      {
        fault: 'Committed offsets are set forward, by somebody else',
        does: 'Goes on there: what lies between is not read.',
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
        does: 'Goes on there. Offsets of the other cluster are compared with nothing. A store that has lost decisions is noticed on each cluster.',
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
        does: 'Ends, and commits nothing there. Started again, it goes on as after a move.',
        sees: '`the Kafka client has ended`: `The brokers belong to another Kafka cluster than at the start`',
        tests: {
          [CLUSTERS]: [
            'a source ends without handing over a record if its brokers belong to another cluster',
          ],
        },
      },
      {
        fault: 'Retention deletes records before they were read',
        does: 'Goes on with the oldest record there is. `worker --drain` does not wait for what is deleted, nor for a topic that is, and ends with 1.',
        sees: '`records were deleted before they were read`, which has the offsets; `promo_intake_gap_records_total`; `promo-intake verify` names the offsets until they are passed. With `--drain`: `records were deleted before they were decided`',
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
        fault: 'Gaps of compaction',
        does: 'Reads over them; `worker --drain` ends all the same.',
        sees: 'nothing',
        tests: {
          [LONG]: ['long faults: gaps of compaction do not end a drain: a compacted topic is drained'],
        },
      },
      {
        fault: 'A topic is deleted, and made again',
        does: 'Other topics go on. The new one is read from its beginning; its records are new, whatever offsets they have.',
        sees: '`topic does not exist; it is read once it exists`',
        tests: {
          [GROUPS]: [
            'topics: a topic that is deleted and created again starts at offset 0: its new records are decided, and other topics continue',
          ],
        },
      },
      {
        fault: 'A quota of the brokers throttles a worker, down to one that no batch fits',
        does: 'It reads more slowly and keeps its membership. A batch larger than ten seconds of `consumer_byte_rate` never arrives: the quota has to be raised.',
        sees: '`Kafka throttles requests of this process by a quota`, once a minute; after a minute without a record also `Kafka throttles every fetch, and no record arrives ...`, an error; `promo_intake_kafka_throttled_seconds_total`',
        tests: {
          [THROTTLING]: [
            'a consumer byte quota of 50 kB/s slows a worker down and does not cost it its membership',
            'a batch larger than ten seconds of the quota never arrives; the log reports it after a minute, and a larger quota helps',
          ],
        },
      },
      {
        fault: 'Fewer brokers than a topic of our own needs replicas, as while brokers start',
        does: 'A start retries for a minute, since brokers may still join. Then it ends with 1.',
        sees: '`Kafka is not ready, retrying`, then `the worker cannot start`, with the topic, the request and the remedy',
        tests: {
          [START]: [
            'a topic with more replicas than brokers is requested until the start ends, since brokers may still join',
          ],
        },
      },
      {
        fault: 'A topic may not be read, by its ACL, or a broker cannot read it from its disk',
        does: 'Other topics go on. It asks again at least twice a minute, and reads on once it may.',
        sees: '`cannot read a topic, retrying; other topics continue`, an error, every ten minutes; `promo_intake_refused_partitions`',
        tests: {
          [SECURITY]: [
            'a topic that a worker may not read is logged and stops no other; it is read once the ACL allows it',
          ],
        },
      },
      {
        fault:
          'A partition has no leader, as where a broker or a disk is away that alone held it; of a topic that is read, or of any other',
        does: 'Other partitions go on, and workers start. It is read once it has a leader. `status`, `verify` and `worker --drain` say that they cannot tell.',
        sees: '`cannot read a topic, retrying; other topics continue`, an error, every ten minutes; `promo_intake_refused_partitions`',
        tests: {
          [DISKS]: ['a partition without a leader delays neither other partitions nor starting workers'],
        },
      },
      {
        fault: 'Aborted and open transactions',
        does: 'Aborted records are never decided. What stands behind an open transaction waits for its end.',
        sees: 'nothing of aborted ones. An open one: `promo_intake_lag_records`, and `promo_intake_lag_seconds`, by which the alert PromoIntakeLag fires',
        tests: {
          [RECORDS]: ['transactions: aborted records are never decided'],
          [OFFSETS]: [
            'worker --drain: waits for an open transaction, whose records are in the topic already, and for the records behind it',
          ],
        },
      },
      {
        fault: 'Records of 10 MiB, compression bombs, hundreds of thousands of tiny records, damaged batches',
        does: 'Decides what can be read. A batch that cannot, or is beyond 64 MiB when decompressed, is one dead letter. Memory stays bounded.',
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
        does: 'Decides them one at a time, in the memory that the chart gives. A record with more than 1,000 headers is a dead letter. Other operators wait no longer than 2 s.',
        sees: 'a record with too many headers: `records sent to the dead-letter topic`, `promo_intake_dead_letters_total{reason="undecodable"}`; nothing of the others',
        tests: {
          [HOSTILE_BYTES]: [
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by gzip: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by snappy: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by lz4: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a key of 60 MiB, by zstd: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: 16 batches with a header of 60 MiB: memory is bounded, and other records are decided meanwhile',
            'large keys and headers, compressed: a key or a header of 60 MiB on 12 partitions, some of them in sequence: memory is bounded',
            'large keys and headers, compressed: dead letters with keys and headers of 60 MiB: memory is bounded while they are sent, and other records are decided',
            'very many headers: 200 unclaimed records of 99,999, and as many on a topic of their own: memory is bounded, and other records are decided',
            'very many headers: 4,000 unclaimed records of 1,000, in batches of a few kilobytes: memory is bounded, and other records are decided',
          ],
        },
      },
      {
        fault: 'The dead-letter topic or the verdict topic refuses',
        does: 'What stands before the record is decided, the record waits. Verdicts are published again without deciding again.',
        sees: UNDECIDED,
        tests: {
          [UNDECIDED_TESTS]: [
            'a dead-letter topic that refuses: leaves the record undecided: records before it are decided, other partitions continue, and it is sent when the topic accepts it',
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
        fault: 'Restart, crash, admin shutdown, minutes away',
        does: WAITS,
        sees: UNDECIDED,
        tests: {
          [UNDECIDED_TESTS]: [
            'Postgres stopped: every partition waits 1, 2, 4, 8 s and stays with its member; once Postgres is back, all records are decided',
            'Postgres ended in the middle of the load: by its operator and by a crash: the worker survives, and decides every event once',
          ],
          [LEDGER]: ['active', 'idle in transaction'].map(
            (state) =>
              `a store that cannot decide: a connection that the store ends while it is ${state} leaves all undecided, and the worker lives on`,
          ),
          [LONG]: [
            'long faults: Postgres stopped for 40 s, a worker killed three times: the tables differ only in the order of bet and refund',
          ],
        },
      },
      {
        fault: 'It hangs: connections stay up, and nothing answers',
        does: 'Gives an answer up after 10 s and the connection with it; then the same.',
        sees: `${UNDECIDED}: \`no answer within\``,
        tests: {
          [UNDECIDED_TESTS]: [
            'Postgres hangs: in the middle of the load, for longer than the worker waits for an answer: the worker survives, and decides every event once',
          ],
          [LEDGER]: [
            'a store that cannot decide: a store that falls silent in the middle of a batch leaves all undecided, and is given up',
          ],
        },
      },
      {
        fault: 'It is not there when a worker starts, or lacks migrations',
        does: 'Tries for a minute; without the migrations it does not start.',
        sees: '`Postgres is not ready, retrying`, then `the worker cannot start`; exit code 1',
        tests: {
          [UNDECIDED_TESTS]: [
            'at the start: Postgres may start later than its worker, which answers health checks from the start',
          ],
          [OPERATION]: ['the start: on a database that lacks migrations reports it and ends with 1'],
        },
      },
      {
        fault: 'Failover to a server at another address',
        does: 'Looks its address up at each new connection, and goes on there. Nothing of a session has to be taken along.',
        sees: UNDECIDED,
        tests: {
          [POSTGRES]: [
            'failover to a server at another address, in the middle of a load: the worker continues there',
          ],
        },
      },
      {
        fault: 'A lock that another session holds',
        does: `Waits 5 s for it, then the batch is undecided. The others go on.`,
        sees: `${UNDECIDED}: \`canceling statement due to lock timeout\``,
        tests: {
          [UNDECIDED_TESTS]: ['a partition that is locked: is undecided, and the other partitions continue'],
          [LEDGER]: [
            'a store that cannot decide: a lock held too long and a statement that runs too long leave all undecided',
          ],
        },
      },
      {
        fault: 'A statement that runs too long',
        does: `Is ended after 8 s. ${WAITS}`,
        sees: `${UNDECIDED}: \`canceling statement due to statement timeout\``,
        tests: { [POSTGRES]: [outage('a statement that runs too long')] },
      },
      {
        fault: 'Deadlocks, serialization failures, lost races',
        does: 'Decides again at once, at most five times, in smaller batches; then the batch is undecided.',
        sees: '`batch is decided again`',
        tests: {
          [LEDGER]: [
            ...['a serialization failure', 'a deadlock'].map(
              (name) =>
                `a store that cannot decide: ${name} is decided again at once, and is undecided after five tries`,
            ),
            'a store that cannot decide: a real deadlock with a foreign writer is decided again, and all of it is decided',
          ],
        },
      },
      {
        fault: 'A disk that is full',
        does: WAITS,
        sees: `${UNDECIDED}: \`No space left on device\``,
        tests: {
          [POSTGRES]: [FULL_DISK],
          [LEDGER]: [withoutTrace('disk full')],
        },
      },
      {
        fault: 'Too many connections',
        does: WAITS,
        sees: `${UNDECIDED}: \`too many connections\``,
        tests: {
          [POSTGRES]: [outage('too many connections')],
          [LEDGER]: [withoutTrace('too many connections')],
        },
      },
      {
        fault: 'Read-only, as a standby is',
        does: WAITS,
        sees: `${UNDECIDED}: \`read-only transaction\``,
        tests: {
          [POSTGRES]: [outage('a database that is read-only')],
          [LEDGER]: [
            'a store that cannot decide: a read-only store leaves all undecided, and decides once it takes writes again',
          ],
        },
      },
      {
        fault: 'Answers that take two seconds',
        does: 'Decides, slowly: two or three round trips a batch. A new connection may take 15 s.',
        sees: '`promo_intake_batch_seconds`',
        tests: {
          [POSTGRES]: [
            'answers that take two seconds: events are decided, slowly, also on new connections and by a new worker',
          ],
        },
      },
      {
        fault: 'A missing grant',
        does: `${WAITS} A bad deploy costs time, and no event.`,
        sees: `${UNDECIDED}: \`permission denied\``,
        tests: {
          [POSTGRES]: [outage('a missing grant')],
          [LEDGER]: [
            'a store that cannot decide: a missing permission on history (insert) leaves all undecided, without a trace',
          ],
        },
      },
      {
        fault: 'A missing or changed column or table',
        does: 'The same.',
        sees: `${UNDECIDED}: \`does not exist\``,
        tests: {
          [POSTGRES]: [outage('a missing column')],
          [LEDGER]: ['a missing column', 'a missing table', 'a column of another type'].map(
            (name) =>
              `a store that cannot decide: ${name} leaves all undecided, without a trace and without a panic`,
          ),
        },
      },
      {
        fault: 'A trigger or a value that fails one event',
        does: 'The batch is divided until the event is alone. Where it fails twice it is stored as `rejected/panic` with its payload; the rest is decided. Beyond ten a minute of its worker it waits instead.',
        sees: '`event failed twice and is rejected as panic`, `promo_intake_verdicts_total{reason="panic"}`',
        tests: {
          [POSTGRES]: [
            'a trigger that fails one event: the event is rejected as panic and logged, and the rest is decided',
          ],
          [LEDGER]: [
            'an event that fails alone, twice: stays undecided beyond ten panics a minute, and is decided once the minute is over',
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
        does: 'A record whose schema is not known yet waits, with what stands behind it. Records without a frame, of known schemas, and other partitions go on.',
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
        does: 'Asks a second time; then the record is a dead letter.',
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
        does: 'Answers 503 with Retry-After, and keeps nothing. Sent again once Postgres is back, the request is decided.',
        sees: '`request is undecided`, `promo_intake_retries_total{class="undecided"}`; `/livez` and `/readyz` stay 200',
        tests: {
          [WEBHOOK]: ['while Postgres is away requests are undecided, and sent again they are decided'],
        },
      },
      {
        fault: 'It is killed, at any moment',
        does: 'What was committed stays, and whoever was not answered sends again: a duplicate, which is told the verdict that stands.',
        sees: 'connections that end; nothing in the store',
        tests: {
          [WEBHOOK_STORM]: [
            'whatever senders race and whichever webhook dies, an event has one verdict, and all are told that one',
          ],
        },
      },
      {
        fault: 'More comes than it can decide, or a transaction hangs',
        does: 'Answers 503 with Retry-After to whoever waits for more than 0.5 s for a slot, and within 20 s to whoever has one.',
        sees: '`promo_intake_webhook_requests_total{status="503"}`, `promo_intake_webhook_requests_in_progress`, `a request is refused`',
        tests: {
          [WEBHOOK]: [
            'where no slot is free within half a second a request is told to come again, and what has one is decided',
          ],
          [WEBHOOK_UNIT]: [
            'who waits for too long is told to come again, and what is under way keeps its slot',
          ],
        },
      },
      {
        fault: 'The verdict topic refuses, or Kafka is away',
        does: 'Publishes the verdicts that are stored again, after 1 s, doubling to 30 s, and answers then; whoever waits for 20 s is answered 503. Nothing more is decided meanwhile: 503.',
        sees: '`verdicts are not published`, `request is undecided` with the cause kafka',
        tests: {
          [WEBHOOK_UNIT]: [
            'verdicts are answered once they are published; while the topic refuses, nothing more is decided',
          ],
        },
      },
      {
        fault: 'A sender leaves in the middle of a request, or sends it slower than 10 s',
        does: 'Decides nothing of it; the connection ends. Others are served meanwhile.',
        sees: '`a request is broken off`, `promo_intake_webhook_requests_total{status="broken_off"}`',
        tests: {
          [WEBHOOK_UNIT]: [
            'a sender who leaves before his request is whole is counted, and nothing of it is decided',
            'who does not send a request to its end in time is let go, and others are served meanwhile',
          ],
        },
      },
      {
        fault: 'A sender speaks no HTTP/1.1, or resets its connection at any moment',
        does: 'Answers 400, 405, 408 or 431 where the sender can still read it, and ends the connection. Others are served.',
        sees: '`a connection is dropped` with `why`, `promo_intake_webhook_dropped_total`',
        tests: {
          [WEBHOOK_RAW]: [
            'a sender that speaks no HTTP, or leaves in the middle: is answered, counted and logged, and the process goes on',
            'a sender that speaks no HTTP, or leaves in the middle: ends no process by a reset at any moment',
          ],
        },
      },
      {
        fault: 'One sender sends more than its share, or keeps connections and half requests open',
        does: 'Answers that sender 429 with Retry-After, or ends its connections: first those without a valid signature, then slow bodies. Other senders are served.',
        sees: '`a request is refused`, `a connection is dropped`, `promo_intake_webhook_refusals_total`, `promo_intake_webhook_dropped_total`',
        tests: {
          [WEBHOOK_UNIT]: [
            'requests that come half keep nobody out: the slow ones go for others, are told so, and give their places back',
            'of too many connections those without a valid signature go first, and a signed one is served',
            'a body in pieces of a byte is refused before it has cost much, and holds no memory',
          ],
          [WEBHOOK_LIMITS]: [
            'an answer that is not read ends its connection after ten seconds, and costs others nothing',
            'refusals of one sender are a line a minute, and those of many a hundred; all are counted',
            'an unsigned flood reads the file of the secrets once a second, and a rotation still counts',
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
        does: 'Goes on with those that it had.',
        sees: '`changed secrets are not valid, keeping the old ones`',
        tests: {
          [WEBHOOK]: ['secrets in a file are followed, and a file that has become wrong changes nothing'],
        },
      },
    ],
  },
  {
    title: 'What was lost, and who only looks on',
    faults: [
      {
        fault:
          'Postgres has lost what it had committed: a standby took over that was behind, or it is restored from a backup',
        does: 'Notices by the next batch of a partition, or by a look at what the store knows, as it takes up the partition and every 20 s. It reads again what was lost, as far as Kafka still has it, before anything behind it: docs/operations/backup-and-restore.md.',
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
        does: 'Decides. Traces wait up to a limit, and are dropped then.',
        sees: '`cannot send some or all traces`, once a minute; `last traces not sent in time` at its end',
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

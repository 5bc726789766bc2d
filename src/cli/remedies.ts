/**
 * Remedies by the error codes of Postgres and Kafka. Tests provoke most of them on real servers
 * (test/commands/postgres-refusals.test.ts, test/stream/kafka-refusals.test.ts).
 */

/** @param names the missing migrations, if they are known */
export function lacksMigrations(names: readonly string[] = []): string {
  const which = names.length === 0 ? 'migrations' : `the migrations ${names.join(', ')}`;
  return `The database lacks ${which}. Run: promo-intake migrate`;
}

/**
 * Remedies by SQLSTATE and message: one SQLSTATE may have several causes. The first row that matches both
 * counts.
 */
const POSTGRES: readonly [sqlState: string, words: RegExp | null, remedy: string][] = [
  [
    '28P01',
    null,
    'Correct the user or the password in DATABASE_URL, or DATABASE_PASSWORD. Postgres gives the same answer for an expired password (alter role ... valid until).',
  ],
  ['28000', /valid client certificate/, 'Set DATABASE_SSL_CERT_FILE and DATABASE_SSL_KEY_FILE.'],
  [
    '28000',
    /no encryption|SSL off/,
    'Set DATABASE_SSL_MODE to verify-full, or allow the user in pg_hba.conf.',
  ],
  ['28000', /not permitted to log in/, 'Run: alter role ... login. Or correct the user in DATABASE_URL.'],
  ['28000', null, 'Correct the user in DATABASE_URL, or allow the user in pg_hba.conf.'],
  ['3D000', null, 'Create the database, or correct DATABASE_URL.'],
  ['3F000', null, lacksMigrations()],
  ['42P01', null, lacksMigrations()],
  ['42703', null, lacksMigrations()],
  ['42883', null, lacksMigrations()],
  [
    '42501',
    /for database/,
    'Grant the user of DATABASE_URL connect on this database: promo-intake grant revokes it from all others. A user who runs migrate needs create as well.',
  ],
  [
    '42501',
    /for (schema|table|view|sequence|function|procedure) /,
    'Run promo-intake grant for the user of DATABASE_URL, or set DATABASE_URL to a user with the permission. The commands migrate and grant run as the owner of the tables; docs/operations/roles.md has the role of each command.',
  ],
  ['42501', null, 'Grant the permission to the user of DATABASE_URL, or set another user.'],
  [
    '42704',
    /configuration parameter/,
    'Postgres has no such setting. Correct the options in DATABASE_URL, or run: alter role ... reset, and alter database ... reset.',
  ],
  [
    '25006',
    null,
    'If the server is a standby, set DATABASE_URL to the primary. Else turn default_transaction_read_only off: for the user, the database, or in DATABASE_URL.',
  ],
  ['53300', /for role/, 'Close connections of this user, or run: alter role ... connection limit N.'],
  ['53300', /for database/, 'Close connections, or run: alter database ... connection limit N.'],
  ['53300', null, 'Close connections, or raise max_connections.'],
  [
    '53100',
    null,
    'The disk of the server is full. Free space on it; promo-intake retention apply drops old months.',
  ],
  [
    '55000',
    /not currently accepting connections/,
    'Run: alter database ... allow_connections true. Or correct DATABASE_URL.',
  ],
  [
    '55000',
    /operator '.*(cell|moved)/,
    'Leave the operator to the cell that has it, or finish its move: see docs/operations/cells.md.',
  ],
  [
    '55006',
    /rebuild of the/,
    'Run it again once rebuilt_because of promo.promotion_coverage and of promo.rollup_coverage is null. Where the rebuild does not go on, start its process. Or let it begin again: --restart-rebuilds.',
  ],
  [
    '55P03',
    null,
    'Another session holds the lock. Find it in pg_stat_activity, and try again once it has ended.',
  ],
  [
    '57014',
    /statement timeout/,
    'Look in pg_stat_activity for the load of the server. If statement_timeout is set for the user, the database or in DATABASE_URL, raise it.',
  ],
  [
    '57014',
    null,
    'A person or a deadline cancelled the statement. Try again, or raise the deadline: statement_timeout or transaction_timeout.',
  ],
  ['25P04', null, 'Raise transaction_timeout, which is set for the user, the database or in DATABASE_URL.'],
  ['57P01', null, 'Somebody ended the session, or stopped the server. Try again once the server runs.'],
  ['57P03', null, 'Try again in a moment.'],
];

/** An answer of Postgres. The hint is empty where it has none. */
interface PostgresAnswer {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** @returns our remedy, else that of Postgres, else the code itself */
export function postgresRemedy({ code, message, hint }: PostgresAnswer): string {
  const row = POSTGRES.find(([state, words]) => state === code && (words === null || words.test(message)));
  return row?.[2] ?? (hint === '' ? `SQLSTATE ${code}.` : hint);
}

const ACLS = 'docs/security.md lists the ACLs';

/**
 * Remedies by Kafka's error codes (https://kafka.apache.org/protocol#protocol_error_codes), with the names of
 * kafkajs.
 */
const KAFKA: Readonly<Record<string, string>> = {
  TOPIC_AUTHORIZATION_FAILED: `Grant the Kafka user of this process Describe and Read on a topic that it reads, Describe and Write on a topic that it writes (${ACLS}).`,
  GROUP_AUTHORIZATION_FAILED: `Grant the Kafka user of this process Describe and Read on the group KAFKA_GROUP_ID. The commands status, verify, replay and dead-letters need Read and Delete on groups whose names begin with it and a dot (${ACLS}).`,
  CLUSTER_AUTHORIZATION_FAILED: `Grant the missing ACL to the Kafka user of this process (${ACLS}).`,
  GROUP_MAX_SIZE_REACHED:
    'Run fewer workers, or raise group.max.size of the brokers. Members in excess of the partitions read nothing.',
  INCONSISTENT_GROUP_PROTOCOL:
    'Members of another program or protocol use this group. Set KAFKA_GROUP_ID to a name that only workers use, or stop those members.',
  GROUP_COORDINATOR_NOT_AVAILABLE:
    'Start the missing brokers. Groups need the topic __consumer_offsets, which needs as many brokers as offsets.topic.replication.factor.',
  NOT_ENOUGH_REPLICAS:
    'Start the missing brokers, or lower min.insync.replicas of the topic to its number of replicas.',
  UNKNOWN_TOPIC_OR_PARTITION: 'Create the topic, or grant the Kafka user of this process Describe on it.',
  LEADER_NOT_AVAILABLE: 'Start the brokers that have replicas of this partition.',
  UNSUPPORTED_VERSION: 'Upgrade the brokers to a version that README.md lists.',
};

/** @param type the name that kafkajs gives to the code @returns the remedy; undefined if none is known */
export function kafkaRemedy(type: string): string | undefined {
  return KAFKA[type];
}

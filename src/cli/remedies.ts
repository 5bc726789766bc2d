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
    'Correct the user or the password in DATABASE_URL, or DATABASE_PASSWORD. Postgres says the same of a password whose time is over (alter role ... valid until).',
  ],
  ['28000', /valid client certificate/, 'Set DATABASE_SSL_CERT_FILE and DATABASE_SSL_KEY_FILE.'],
  [
    '28000',
    /no encryption|SSL off/,
    'Set DATABASE_SSL_MODE to verify-full, or let the user in (pg_hba.conf).',
  ],
  ['28000', /not permitted to log in/, 'Run: alter role ... login. Or correct the user in DATABASE_URL.'],
  ['28000', null, 'Correct the user in DATABASE_URL, or let it in (pg_hba.conf).'],
  ['3D000', null, 'Create the database, or correct DATABASE_URL.'],
  ['3F000', null, lacksMigrations()],
  ['42P01', null, lacksMigrations()],
  ['42703', null, lacksMigrations()],
  ['42883', null, lacksMigrations()],
  [
    '42501',
    /for database/,
    'Grant the user of DATABASE_URL connect on this database (promo-intake grant takes it from all others), and create where the user runs migrate.',
  ],
  [
    '42501',
    /promo/,
    'Run promo-intake grant for the user of DATABASE_URL, or name a user in DATABASE_URL who has the permission: migrate and grant run as the owner of the tables.',
  ],
  ['42501', null, 'Grant the user of DATABASE_URL the permission, or name another user.'],
  [
    '42704',
    /configuration parameter/,
    'Postgres has no such setting: correct the options in DATABASE_URL, or alter role ... reset and alter database ... reset.',
  ],
  [
    '25006',
    null,
    'Either the server is a standby: DATABASE_URL has to name the primary. Or default_transaction_read_only is on for the user, the database or in DATABASE_URL: turn it off.',
  ],
  ['53300', /for role/, 'Close connections of this user, or run: alter role ... connection limit N.'],
  ['53300', /for database/, 'Close connections, or run: alter database ... connection limit N.'],
  ['53300', null, 'Close connections, or raise max_connections.'],
  [
    '53100',
    null,
    'The disk of the server is full: free space on it. Retention drops old months (promo-intake retention apply).',
  ],
  [
    '55000',
    /not currently accepting connections/,
    'Run: alter database ... allow_connections true. Or correct DATABASE_URL.',
  ],
  [
    '55P03',
    null,
    'Another session holds a lock on it: find the session in pg_stat_activity, and try again once it has ended.',
  ],
  [
    '57014',
    /statement timeout/,
    'Look in pg_stat_activity for what the server is busy with. Where statement_timeout is set for the user, the database or in DATABASE_URL, raise it.',
  ],
  [
    '57014',
    null,
    'Somebody cancelled the statement. Try again, or raise the deadline that did (statement_timeout, transaction_timeout).',
  ],
  ['25P04', null, 'Raise transaction_timeout, which is set for the user, the database or in DATABASE_URL.'],
  ['57P03', null, 'Try again in a moment.'],
];

/** @returns the remedy, or the code itself if no remedy is known */
export function postgresRemedy(sqlState: string, message: string): string {
  const row = POSTGRES.find(([code, words]) => code === sqlState && (words === null || words.test(message)));
  return row?.[2] ?? `SQLSTATE ${sqlState}.`;
}

const ACLS = 'docs/security.md lists the ACLs';

/**
 * Remedies by Kafka's error codes (https://kafka.apache.org/protocol#protocol_error_codes), with the names of
 * kafkajs.
 */
const KAFKA: Readonly<Record<string, string>> = {
  TOPIC_AUTHORIZATION_FAILED: `Grant the Kafka user of this process what the topic needs: Describe and Read to read from it, Describe and Write to write to it (${ACLS}).`,
  GROUP_AUTHORIZATION_FAILED: `Grant the Kafka user of this process Describe and Read on the group KAFKA_GROUP_ID. status, verify, replay and dead-letters need Read and Delete on groups that begin with its name and a dot (${ACLS}).`,
  CLUSTER_AUTHORIZATION_FAILED: `Grant the Kafka user of this process what it needs (${ACLS}).`,
  GROUP_MAX_SIZE_REACHED:
    'Run fewer workers, or raise group.max.size of the brokers. More members than partitions read nothing.',
  INCONSISTENT_GROUP_PROTOCOL:
    'Members of another program, or of another protocol, use this group: set KAFKA_GROUP_ID to a name that workers alone use, or end those members.',
  GROUP_COORDINATOR_NOT_AVAILABLE:
    'Start the brokers that are missing: groups need the topic __consumer_offsets, and that needs as many brokers as offsets.topic.replication.factor.',
  NOT_ENOUGH_REPLICAS:
    'Start the brokers that are missing, or lower min.insync.replicas of the topic to the replicas that it has.',
  UNKNOWN_TOPIC_OR_PARTITION: 'Create the topic, or grant the Kafka user of this process Describe on it.',
  LEADER_NOT_AVAILABLE: 'Start the brokers that have replicas of this partition.',
  UNSUPPORTED_VERSION: 'Use brokers of a version that README.md names.',
};

/** @param type the name that kafkajs gives to the code @returns the remedy; undefined if none is known */
export function kafkaRemedy(type: string): string | undefined {
  return KAFKA[type];
}

/** The settings that each command reads. The help uses them too, and must not load the commands. */
import type { GroupName, SettingName } from '../../config/config';

type Settings = readonly (SettingName | GroupName)[];

export const WORKER_SETTINGS = [
  'KAFKA',
  'KAFKA_GROUP_ID',
  'KAFKA_TOPICS',
  'KAFKA_DEAD_MEMBER_WATCH',
  'DATABASE',
  'SCHEMA_REGISTRY',
  'VERDICT_TOPIC',
  'DEAD_LETTER_TOPIC',
  'HTTP_PORT',
  'LIVENESS_HEARTBEAT',
  'LOG_LEVEL',
  'BATCH_EVENTS',
  'PARTITIONS_AT_ONCE',
  'FETCH_INTERVAL_MS',
  'REJECT_LIMIT',
  'LIVENESS_SECONDS',
  'SHUTDOWN_SECONDS',
  'TRACES',
] as const satisfies Settings;

/** `status` reports the settings of the workers. */
export const STATUS_SETTINGS = WORKER_SETTINGS;

export const WEBHOOK_SETTINGS = [
  'WEBHOOK',
  'REJECT_LIMIT',
  'DATABASE',
  'VERDICT_TOPIC',
  'HTTP_PORT',
  'LIVENESS_HEARTBEAT',
  'LOG_LEVEL',
  'SHUTDOWN_SECONDS',
  'TRACES',
] as const satisfies Settings;

/** The settings of a webhook that publishes verdicts. */
export const PUBLISHING_WEBHOOK_SETTINGS = [...WEBHOOK_SETTINGS, 'KAFKA'] as const satisfies Settings;

export const SEND_SETTINGS = ['WEBHOOK_SECRETS'] as const satisfies Settings;

/** One of them: the store is asked, or with --url the webhook. */
export const RECONCILE_SETTINGS = ['DATABASE', 'WEBHOOK_SECRETS'] as const satisfies Settings;

export const CONSOLE_SETTINGS = [
  'CONSOLE',
  'DATABASE',
  'HTTP_PORT',
  'LIVENESS_HEARTBEAT',
  'LOG_LEVEL',
  'SHUTDOWN_SECONDS',
] as const satisfies Settings;

export const SANDBOX_SETTINGS = ['DATABASE', 'LOG_LEVEL', 'SHUTDOWN_SECONDS'] as const satisfies Settings;

export const FOLD_SETTINGS = [
  'DATABASE',
  'HTTP_PORT',
  'LIVENESS_HEARTBEAT',
  'LOG_LEVEL',
  'LIVENESS_SECONDS',
  'SHUTDOWN_SECONDS',
] as const satisfies Settings;

export const PSEUDONYMS_SETTINGS = [...FOLD_SETTINGS, 'PSEUDONYM_KEYS'] as const satisfies Settings;

export const COMPLETIONS_SETTINGS = [
  'KAFKA',
  ...FOLD_SETTINGS,
  'COMPLETION_TOPIC',
] as const satisfies Settings;

export const PUBLISH_SETTINGS = ['KAFKA'] as const satisfies Settings;

export const LIST_SETTINGS = ['KAFKA', 'KAFKA_GROUP_ID', 'DEAD_LETTER_TOPIC'] as const satisfies Settings;

export const REPLAY_LETTERS_SETTINGS = [...LIST_SETTINGS, 'DATABASE'] as const satisfies Settings;

export const REPLAY_SETTINGS = [
  'KAFKA',
  'KAFKA_GROUP_ID',
  'DATABASE',
  'SCHEMA_REGISTRY',
  'VERDICT_TOPIC',
  'DEAD_LETTER_TOPIC',
  'BATCH_EVENTS',
  'REJECT_LIMIT',
] as const satisfies Settings;

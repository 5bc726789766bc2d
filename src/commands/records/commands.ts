/** The commands for records in Kafka: send them, decide them again, and find those without a verdict. */
import { interruption } from '../../cli/interruption';
import type { Command } from '../../cli/usage';
import { SPEC } from '../../domain/event/event';
import { DEAD_LETTER_REASONS } from '../../domain/verdict/reasons';
import {
  LIST_SETTINGS,
  PUBLISH_SETTINGS,
  REPLAY_LETTERS_SETTINGS,
  REPLAY_SETTINGS,
} from '../shared/settings';
import { REQUESTED_BY, WRONG_USAGE, WRONG_USAGE_OR_FILE } from '../shared/usage-parts';

const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
const LETTERS = {
  reason: {
    value: 'REASON',
    choices: DEAD_LETTER_REASONS.map(({ name }) => name),
    help: 'only records with this reason',
  },
  'source-topic': { value: 'TOPIC', help: 'only records from this topic' },
  'source-partition': { value: 'N', help: 'only records from this partition' },
  'from-offset': {
    value: 'N',
    help: 'the first offset in the source partition; needs --source-topic and --source-partition',
  },
  'to-offset': { value: 'N', help: 'the last offset' },
  since: {
    value: 'TIME',
    help: 'only records that became dead letters at this time or later, such as 2026-11-22T10:00:00Z',
  },
  until: { value: 'TIME', help: 'only records that became dead letters before this time' },
} as const;
export const RECORD_COMMANDS: readonly Command[] = [
  {
    name: 'publish',
    file: 'file or -',
    summary: 'send events to Kafka, one per line',
    purpose:
      'Sends each line of FILE to a topic as one record, unchanged; its key is player_ref, or else event_id.',
    example: 'promo-intake publish events.ndjson --connection acme-stream',
    options: {
      topic: { value: 'TOPIC', help: `the topic, which must exist (default ${SPEC})` },
      connection: {
        value: 'ID',
        help: 'set the header connection-id, for a topic that several connections share',
      },
      compression: {
        value: 'CODEC',
        choices: COMPRESSIONS,
        help: `${COMPRESSIONS.join(', ')} (default none)`,
      },
      force: { help: 'also send lines that are no JSON objects; the exit code is still 1 then' },
    },
    settings: PUBLISH_SETTINGS,
    exits: {
      0: 'every line was sent, and is a JSON object',
      1: 'a line was refused or is no JSON object, Kafka is away, the topic does not exist, or it was interrupted',
      2: WRONG_USAGE_OR_FILE,
    },
    run: async ({ file, options }) => {
      const { publish } = await import('./publish.js');
      const compression = COMPRESSIONS.find((name) => name === options.get('compression')) ?? 'none';
      const [topic = SPEC, connection] = [options.get('topic'), options.get('connection')];
      const isDefaultTopic = !options.has('topic');
      const force = options.has('force');
      return publish({ file, topic, isDefaultTopic, connection, compression, force }, interruption());
    },
  },
  {
    name: 'replay',
    summary: 'decide a range of a topic again',
    purpose:
      'Decides a range of offsets or times by the rules and reference data in force; without --confirm it only prints the range.',
    example: 'promo-intake replay --topic promo.event.v1 --since 2026-11-21T22:00:00Z --confirm',
    options: {
      topic: { value: 'TOPIC', required: true, help: 'the topic' },
      partition: { value: 'N', help: 'only this partition' },
      'from-offset': { value: 'N', help: 'the first offset; needs --partition' },
      'to-offset': { value: 'N', help: 'the last offset' },
      since: {
        value: 'TIME',
        help: 'begin at the first record of this time or later, such as 2026-11-22T10:00:00Z',
      },
      until: { value: 'TIME', help: 'end before the first record of this time or later' },
      confirm: { help: 'run the replay' },
      by: REQUESTED_BY,
    },
    settings: REPLAY_SETTINGS,
    exits: {
      0: 'replayed, or the range is printed',
      1: 'topic or partition do not exist, no connection names the topic, some records are undecided, or promo.operations could not be written',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./replay.js')).replay(options),
  },
  {
    name: 'dead-letters list',
    summary: 'list the records that could not get a verdict, newest first',
    purpose:
      'Lists the records of the dead-letter topic with reason, detail, source and time, without their values.',
    example: 'promo-intake dead-letters list --reason unclaimed --since 2026-11-22T00:00:00Z',
    options: {
      ...LETTERS,
      limit: { value: 'N', help: 'print at most N records (default 20); all records are counted' },
      json: { help: 'print one JSON document, for scripts' },
    },
    settings: LIST_SETTINGS,
    exits: { 0: 'listed, or there are none', 1: 'the topic cannot be read', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./dead-letters.js')).listDeadLetters(options),
  },
  {
    name: 'dead-letters replay',
    summary: 'send dead letters back to their source',
    purpose:
      'Sends dead letters, unchanged, to the topic and partition that they came from; without --confirm it only prints the plan.',
    example: 'promo-intake dead-letters replay --reason unclaimed --confirm',
    options: {
      ...LETTERS,
      to: { value: 'TOPIC', help: 'send them to this topic instead, by their keys' },
      confirm: { help: 'send them' },
      by: REQUESTED_BY,
    },
    settings: REPLAY_LETTERS_SETTINGS,
    exits: {
      0: 'sent, or the plan is printed',
      1: 'some were not sent, or promo.operations could not be written; sent records are counted',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./dead-letters.js')).replayDeadLetters(options),
  },
];

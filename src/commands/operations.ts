/** The table of the commands for operations: status, retention, erasure, replays. */

import type { Command } from '../cli/usage';
import { DEAD_LETTER_REASONS } from '../domain/verdict/reasons';
import { LIST_SETTINGS, REPLAY_LETTERS_SETTINGS, REPLAY_SETTINGS, STATUS_SETTINGS } from './settings';

const WRONG_USAGE = 'a wrong option or setting; nothing was started';

const BY = {
  value: 'NAME',
  help: 'who asks for it, for the log (default USER@HOST of this process)',
} as const;
const LETTERS = {
  reason: {
    value: 'REASON',
    choices: DEAD_LETTER_REASONS.map(({ name }) => name),
    help: 'those of one reason',
  },
  'source-topic': { value: 'TOPIC', help: 'those that came from this topic' },
  'source-partition': { value: 'N', help: 'those that came from this partition' },
  'from-offset': { value: 'N', help: 'the first offset in that partition; needs its topic and number' },
  'to-offset': { value: 'N', help: 'the last one' },
  since: {
    value: 'TIME',
    help: 'those that became dead letters then or later, such as 2026-11-22T10:00:00Z',
  },
  until: { value: 'TIME', help: 'those that did so before' },
} as const;

export const OPERATIONS: readonly Command[] = [
  {
    name: 'status',
    summary: 'tell how it stands, and whether it needs a person',
    purpose:
      'Looks at the store and at Kafka: version of the schema and of the reference data, members of the group, lag in records and in seconds, undecided partitions, whether the counters balance, and the settings that take effect, without secrets. What cannot be reached or told is named as such, and hides nothing of the rest. A partition is undecided where a record has waited for over 60 s and nothing of the partition was decided as long. Topics that were read once and are not to be read any more are told where records of them are not decided, and need nobody. For the seconds the oldest waiting record of each partition is read, as a group of its own (KAFKA_GROUP_ID.status-...).',
    example: 'promo-intake status --json',
    options: {
      json: { help: 'print one JSON document, for scripts' },
      check: { help: 'run promo.check_invariants() as well: reads everything stored, and takes a reader' },
    },
    settings: STATUS_SETTINGS,
    exits: {
      0: 'nothing needs a person',
      1: 'something does, or cannot be told; each is named',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./status.js')).status({ json: options.has('json'), check: options.has('check') }),
  },
  {
    name: 'dead-letters list',
    summary: 'tell what could not be given a verdict, newest first',
    purpose:
      'Reads the dead-letter topic and tells of each record why it is there, where it came from and when: never what it holds. Reads as a group of its own (KAFKA_GROUP_ID.dead-letters-...).',
    example: 'promo-intake dead-letters list --reason unclaimed --since 2026-11-22T00:00:00Z',
    options: {
      ...LETTERS,
      limit: { value: 'N', help: 'so many at most (default 20); all are counted' },
      json: { help: 'print one JSON document, for scripts' },
    },
    settings: LIST_SETTINGS,
    exits: { 0: 'told, also where there are none', 1: 'the topic cannot be read', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./dead-letters.js')).listDeadLetters(options),
  },
  {
    name: 'dead-letters replay',
    summary: 'send dead letters back to where they came from',
    purpose:
      'Once what stood in their way is mended (a connection that claims them, a schema that is registered): sends the records byte for byte to the topic and partition that they came from, without the headers that made them dead letters. Only tells what it would send, unless --confirm is given. The dead letters stay, and nothing keeps which of them were sent: name by --until when it was mended. What is sent names its first source in the header dead-letter-replayed, so that a record which becomes a dead letter again is sent once a run, however many dead letters it has left. An event that is sent again is decided by its event_id, and so a duplicate. A record that the brokers refuse, as too large mostly, is named by where it came from, and the others go on. Whole batches that could not be read are not sent. Noted in promo.operations.',
    example: 'promo-intake dead-letters replay --reason unclaimed --confirm',
    options: {
      ...LETTERS,
      to: { value: 'TOPIC', help: 'send them to this topic, by their keys' },
      confirm: { help: 'send them' },
      by: BY,
    },
    settings: REPLAY_LETTERS_SETTINGS,
    exits: {
      0: 'sent, or told what would be',
      1: 'not all were sent, or that could not be noted; what was is counted, and a duplicate if it is sent again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./dead-letters.js')).replayDeadLetters(options),
  },
  {
    name: 'replay',
    summary: 'have a range of a topic decided again',
    purpose:
      'Reads offsets, or what came in a time, once more and has it decided by the rules and the reference data in force, beside running workers and without touching their group. What is decided already is answered as it was, changes nothing, and is counted as redeliveries; what never was decided is decided; verdicts are published again where VERDICT_TOPIC is set. Events are looked for in the feed that their connection names now: where that is another than it was, they are new events and count again, and what no connection claims any more becomes a dead letter. A topic that no connection names is refused. Goes no further than the group has committed. Only tells the range, unless --confirm is given. Run as the writer, with the settings of the workers. Noted in promo.operations.',
    example: 'promo-intake replay --topic promo.event.v1 --since 2026-11-21T22:00:00Z --confirm',
    options: {
      topic: { value: 'TOPIC', required: true, help: 'the topic' },
      partition: { value: 'N', help: 'this partition alone' },
      'from-offset': { value: 'N', help: 'the first offset; needs --partition' },
      'to-offset': { value: 'N', help: 'the last one' },
      since: { value: 'TIME', help: 'what Kafka has of then or later, such as 2026-11-22T10:00:00Z' },
      until: { value: 'TIME', help: 'what stands before the first record of that time or later' },
      confirm: { help: 'do it' },
      by: BY,
    },
    settings: REPLAY_SETTINGS,
    exits: {
      0: 'replayed, or told what would be',
      1: 'there is no such topic or partition, no connection names the topic, not all could be decided, or that could not be noted; what was decided is kept, and counts once if it is replayed again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./replay.js')).replay(options),
  },
  {
    name: 'retention apply',
    summary: 'drop months of history that are over',
    purpose:
      'Drops the tables of history, duplicate deliveries and unstored records of all months before those that are kept, in one transaction, and names them. Keys, rounds and counters stay: what was decided stays a duplicate. Run it daily as the janitor; where it would wait more than 3 s for somebody it drops nothing, and the next run tries again. Noted in promo.operations where anything was dropped.',
    example: 'promo-intake retention apply --keep-months 13 --dry-run',
    options: {
      'keep-months': {
        value: 'N',
        required: true,
        help: 'full months to keep beside the current one, 1 at least',
      },
      'dry-run': { help: 'only tell what would be dropped' },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: { 0: 'dropped, or there is nothing to drop', 1: 'nothing was dropped', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./maintenance.js')).applyRetention(options),
  },
  {
    name: 'erase-player',
    summary: 'replace a player in all that is stored, for good',
    purpose:
      'For the right to erasure: puts erased:N, N the number of the erasure, in the place of player_ref and of unregistered brands in all months of history. Takes what compares players from events and rounds, and payload and error from all panics of the operator. Ids, amounts and sums stay, and so does what an event is answered when it is sent or read again. In transactions of 5,000 verdicts; broken off, run it again. Noted in promo.operations without the player. What Kafka and backups hold is told in the end. Run as the maintainer.',
    example: 'cat player.txt | promo-intake erase-player --operator acme',
    options: {
      operator: { value: 'ID', required: true, help: 'the operator whose player it is' },
      player: {
        value: 'PLAYER_REF',
        help: 'the player; else read from standard input, so that no shell keeps the name in its history',
      },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'erased; also where there was nothing',
      1: 'not all is erased: run it again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./maintenance.js')).erase(options),
  },
  {
    name: 'reference export',
    summary: 'print the reference data in force, or an earlier version',
    purpose:
      'Prints a version as JSON, which reference apply takes as it is: applied again it changes nothing.',
    example: 'promo-intake reference export --version 3',
    options: { version: { value: 'N', help: 'this version (default that in force)' } },
    settings: ['DATABASE'],
    exits: { 0: 'printed', 1: 'there is no such version', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./reference.js')).exportReference(options),
  },
  {
    name: 'reference history',
    summary: 'list the versions of the reference data',
    purpose:
      'Lists every version, the newest first: number, when it was applied, how many operators it names.',
    example: 'promo-intake reference history',
    options: {},
    settings: ['DATABASE'],
    exits: { 0: 'listed', 1: 'the database cannot be read', 2: WRONG_USAGE },
    run: async () => (await import('./reference.js')).referenceHistory(),
  },
  {
    name: 'reference rollback',
    summary: 'put an earlier version of the reference data into force',
    purpose:
      'Applies an earlier version as a new one, and prints what changes. Verdicts keep the version that gave them, and decided events stay as they are. Run as the migrator. Noted in promo.operations.',
    example: 'promo-intake reference rollback --to 3 --dry-run',
    options: {
      to: { value: 'N', required: true, help: 'the version' },
      'dry-run': { help: 'only print what would change' },
      'allow-removal': { help: 'allow operators and connections to be removed' },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or nothing changes',
      1: 'there is no such version, or it would remove something: nothing was applied; or it is in force, as told, and that could not be noted',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./reference.js')).rollbackReference(options),
  },
];

/** The table of the commands for operations: status, retention, erasure, replays. */

import type { Command } from '../cli/usage';
import { DEAD_LETTER_REASONS } from '../domain/verdict/reasons';
import { LIST_SETTINGS, REPLAY_LETTERS_SETTINGS, REPLAY_SETTINGS, STATUS_SETTINGS } from './settings';

const WRONG_USAGE = 'a wrong option or setting; nothing was started';

const BY = {
  value: 'NAME',
  help: 'the requester, for promo.operations (default USER@HOST of this process)',
} as const;
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

export const OPERATIONS: readonly Command[] = [
  {
    name: 'status',
    summary: 'report the state of the service, and whether a person has to act',
    purpose:
      'Reports versions, group, lag, undecided partitions, balance of counters and settings in effect, and names each problem.',
    example: 'promo-intake status --json',
    options: {
      json: { help: 'print one JSON document, for scripts' },
      check: { help: 'also run promo.check_invariants(), as a reader; it reads everything stored' },
    },
    settings: STATUS_SETTINGS,
    exits: {
      0: 'no person has to act',
      1: 'a person has to act, or a part cannot be read; each is named',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./status.js')).status({ json: options.has('json'), check: options.has('check') }),
  },
  {
    name: 'dead-letters list',
    summary: 'list the records that could not get a verdict, newest first',
    purpose:
      'Lists the records of the dead-letter topic with their reason, source and time, without their content.',
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
      by: BY,
    },
    settings: REPLAY_LETTERS_SETTINGS,
    exits: {
      0: 'sent, or the plan is printed',
      1: 'some were not sent, or promo.operations could not be written; sent records are counted',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./dead-letters.js')).replayDeadLetters(options),
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
      by: BY,
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
    name: 'retention apply',
    summary: 'drop expired months of history',
    purpose:
      'Drops the tables of all months before the kept ones, in one transaction, and prints their names.',
    example: 'promo-intake retention apply --keep-months 13 --dry-run',
    options: {
      'keep-months': {
        value: 'N',
        required: true,
        help: 'full months to keep besides the current one, at least 1',
      },
      'dry-run': { help: 'only print the months that would be dropped' },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: { 0: 'dropped, or there is nothing to drop', 1: 'nothing was dropped', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./maintenance.js')).applyRetention(options),
  },
  {
    name: 'erase-player',
    summary: 'erase a player from all stored data, for good',
    purpose:
      'Replaces the player by erased:N in all history, and deletes tags and payloads that could identify the player. Open wallet calls of the player are not sent again, and are unresolved.',
    example: 'cat player.txt | promo-intake erase-player --operator acme',
    options: {
      operator: { value: 'ID', required: true, help: 'the operator of the player' },
      player: {
        value: 'PLAYER_REF',
        help: 'the player; without it, the name is read from standard input and no shell history keeps it',
      },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'erased, or nothing was stored',
      1: 'not everything is erased: run it again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./maintenance.js')).erase(options),
  },
  {
    name: 'move-operator',
    summary: 'move an operator to another cell',
    purpose:
      'Moves all stored data of an operator from the database of DATABASE_URL to that of another cell; without --confirm it only prints the plan. Both addresses need the role that migrates. A move that was interrupted continues where it was.',
    example: 'promo-intake move-operator --operator acme --to cell-b.url --confirm',
    options: {
      operator: { value: 'ID', required: true, help: 'the operator' },
      to: {
        value: 'FILE',
        required: true,
        help: 'a file with the address of the receiving database, with its password',
      },
      confirm: { help: 'move the operator, or continue its move' },
      cancel: { help: 'give the move up while its rows are copied, and delete the copy' },
      offsets: {
        value: 'FILE',
        help: 'write the offsets at which the receiving cell continues, for kafka-consumer-groups.sh --from-file',
      },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'moved, cancelled, or the plan is printed',
      1: 'not moved, or not whole: correct the named cause, and run it again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./move-operator.js')).move(options),
  },
  {
    name: 'reference export',
    summary: 'print the reference data in force, or an earlier version',
    purpose: 'Prints a version as JSON, in the form that reference apply reads.',
    example: 'promo-intake reference export --version 3',
    options: { version: { value: 'N', help: 'the version to print (default: the version in force)' } },
    settings: ['DATABASE'],
    exits: { 0: 'printed', 1: 'there is no such version', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./reference.js')).exportReference(options),
  },
  {
    name: 'reference history',
    summary: 'list the versions of the reference data',
    purpose: 'Lists all versions, newest first, each with its time and its number of operators.',
    example: 'promo-intake reference history',
    options: {},
    settings: ['DATABASE'],
    exits: { 0: 'listed', 1: 'the database cannot be read', 2: WRONG_USAGE },
    run: async () => (await import('./reference.js')).referenceHistory(),
  },
  {
    name: 'reference rollback',
    summary: 'put an earlier version of the reference data into force',
    purpose: 'Applies an earlier version as a new one, and prints the changes.',
    example: 'promo-intake reference rollback --to 3 --dry-run',
    options: {
      to: { value: 'N', required: true, help: 'the version to apply' },
      'dry-run': { help: 'only print the changes' },
      'allow-removal': { help: 'allow operators and connections to be removed' },
      by: BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or there are no changes',
      1: 'there is no such version, it removes something, or promo.operations could not be written',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./reference.js')).rollbackReference(options),
  },
];

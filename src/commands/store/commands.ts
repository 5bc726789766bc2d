/** The commands of the store: tables, roles and reference data, and the data of a player or an operator. */
import type { Command } from '../../cli/usage';
import { REQUESTED_BY, WRONG_USAGE, WRONG_USAGE_OR_FILE } from '../shared/usage-parts';

const ROLES = [
  ...(['writer', 'reader', 'janitor', 'maintainer'] as const),
  ...(['reconciler', 'attributor', 'wallet', 'rollups', 'pseudonyms', 'promotions', 'completions'] as const),
] as const;
export const STORE_COMMANDS: readonly Command[] = [
  {
    name: 'migrate',
    summary: 'bring the database to this version',
    purpose:
      'Runs the migrations that the database lacks, each in its own transaction, and prints their names.',
    example: 'DATABASE_URL=postgres://postgres@localhost/promo promo-intake migrate',
    options: {},
    settings: ['DATABASE'],
    exits: { 0: 'the database is up to date', 1: 'a migration failed', 2: WRONG_USAGE },
    run: async () => (await import('./migrate.js')).migrate(),
  },
  {
    name: 'grant',
    summary: 'grant roles of the database their permissions, and revoke all others',
    purpose:
      'Grants each named role its permissions in the schemas promo, promo_reader and promo_store, and revokes all others that it has there.',
    example: 'promo-intake grant --writer promo_app --reader analysts --janitor promo_cron',
    options: {
      writer: {
        value: 'NAME',
        help: 'the role of workers: decides events, cannot change or delete decided ones',
      },
      reader: {
        value: 'NAME',
        help: 'the role of analysts and of verify: reads the views of promo_reader, and those of promo without players',
      },
      janitor: { value: 'NAME', help: 'the role of retention apply: drops expired months' },
      maintainer: { value: 'NAME', help: 'the role of erase-player and dead-letters replay' },
      reconciler: { value: 'NAME', help: 'the role of reconcile: looks event ids up, and reads no event' },
      attributor: {
        value: 'NAME',
        help: 'the role of attribute: sets the players that rounds are credited to',
      },
      wallet: { value: 'NAME', help: "the role of the service that calls operators' wallets" },
      rollups: {
        value: 'NAME',
        help: 'the role of rollups: reads history without players, and writes rollups',
      },
      pseudonyms: {
        value: 'NAME',
        help: 'the role of pseudonyms: reads the names of players, and writes pseudonyms',
      },
      promotions: {
        value: 'NAME',
        help: 'the role of promotions: reads history, and writes progress and completions',
      },
      completions: {
        value: 'NAME',
        help: 'the role of completions: reads the ledger of completions, and writes how far it is published',
      },
      print: { help: 'only print the SQL, for another person to run; needs no database' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'granted, or printed',
      1: 'a role does not exist or cannot be limited; nothing was granted',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => {
      const { grant } = await import('./grant.js');
      const grantees = ROLES.flatMap((role) => {
        const name = options.get(role);
        return name === undefined ? [] : [{ role, name }];
      });
      return grant(grantees, options.has('print'));
    },
  },
  {
    name: 'reference apply',
    file: 'file or -',
    summary: 'put operators, connections, brands and rules into force',
    purpose:
      'Applies a reference data file (YAML or JSON, plain or gzipped) as a whole, and prints the changes.',
    example: 'promo-intake reference apply schemas/examples/reference.yaml --dry-run',
    options: {
      'dry-run': { help: 'only print the changes' },
      'allow-removal': { help: 'allow operators and connections to be removed' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or there are no changes',
      1: 'the file has faults, or removes something; nothing was applied',
      2: WRONG_USAGE_OR_FILE,
    },
    run: async ({ file, options }) =>
      (await import('./reference.js')).applyReferenceFile({
        file,
        dryRun: options.has('dry-run'),
        allowRemoval: options.has('allow-removal'),
      }),
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
      by: REQUESTED_BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or there are no changes',
      1: 'there is no such version, it removes something, or promo.operations could not be written',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./reference.js')).rollbackReference(options),
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
      'restart-rebuilds': {
        help: 'let rebuilds of rollups and promotions begin again with the kept months (default: nothing is dropped until they are shown)',
      },
      by: REQUESTED_BY,
    },
    settings: ['DATABASE'],
    exits: { 0: 'dropped, or there is nothing to drop', 1: 'nothing was dropped', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./retention.js')).applyRetention(options),
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
      by: REQUESTED_BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'erased, or nothing was stored',
      1: 'not everything is erased: run it again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./erase-player.js')).erase(options),
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
      by: REQUESTED_BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'moved, cancelled, or the plan is printed',
      1: 'not moved, or not whole: correct the named cause, and run it again',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./move-operator.js')).move(options),
  },
];

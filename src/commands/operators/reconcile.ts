/**
 * `promo-intake reconcile FILE`: compares the events of a file with the verdicts of the intake, and changes
 * nothing. It names the events to send again, and those to correct.
 */
import { resolve } from 'node:path';
import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { wrongOption } from '../../cli/option-values';
import { nameInstead } from '../../cli/unknown-name';
import { openWholeFile, type WholeFile } from '../../cli/whole-file';
import { readConfig } from '../../config/config';
import type { Reference } from '../../domain/reference';
import { UnreadableReference } from '../../ledger/failures';
import { makeReferences } from '../../ledger/reference-store';
import type { PostgresPool } from '../../postgres/pool';
import { makeReconciler, scopeOf } from '../../reconciliation/reconciler';
import { explainNewer, withPool } from '../shared/command-pool';
import { compareFile, type Verdicts } from './reconcile-file';
import { makeRemoteVerdicts } from './reconcile-remote';
import { targetOf } from './webhook-target';

export interface ReconcileOptions {
  /** `-` is standard input. */
  readonly file: string;
  readonly connection: string;
  /** The address of a webhook, which is asked and not the store. */
  readonly url: string | undefined;
  /** Print a JSON object for each entry instead of text for people. */
  readonly json: boolean;
  /** FILE is CSV. A name that ends with .csv has the same effect. */
  readonly csv: boolean;
  /** Files to write: the events to send again, and those to correct. */
  readonly resend: string | undefined;
  readonly mend: string | undefined;
}

/** Entries of one look-up. While the store answers, the next entries are judged. */
const AT_ONCE = 4_000;

/** @returns the exit code: 1 where something has to be sent again, corrected or asked again */
export async function reconcile(options: ReconcileOptions, stop: AbortSignal): Promise<number> {
  return options.url === undefined
    ? reconcileWithStore(options, stop)
    : reconcileWithWebhook(options, options.url, stop);
}

async function reconcileWithWebhook(
  options: ReconcileOptions,
  url: string,
  stop: AbortSignal,
): Promise<number> {
  const { file, connection } = options;
  const target = targetOf(url, connection, readConfig(process.env, ['WEBHOOK_SECRETS']).WEBHOOK_SECRETS);
  refuseSameFile(options);
  const report = (text: string) => console.error(`${file}: ${text}`);
  return writeComparison(options, makeRemoteVerdicts(target, report, stop), stop);
}

async function reconcileWithStore(options: ReconcileOptions, stop: AbortSignal): Promise<number> {
  const database = readConfig(process.env, ['DATABASE']).DATABASE;
  refuseSameFile(options);
  return withPool(database, 'reconcile', async (pool) => {
    const reference = await readReference(pool);
    const scope = scopeOf(reference, options.connection);
    if (scope === undefined) {
      console.error(unknownConnection(options.connection, reference));
      return USAGE;
    }
    const reconciler = makeReconciler(pool, Date.now);
    const verdicts: Verdicts = {
      connection: scope.connection,
      atOnce: AT_ONCE,
      lookUp: (entries) =>
        reconciler.reconcile(
          scope,
          entries.map(({ parsed }) => parsed),
        ),
    };
    return writeComparison(options, verdicts, stop);
  });
}

/** The outputs appear once the comparison is complete. */
async function writeComparison(
  options: ReconcileOptions,
  verdicts: Verdicts,
  stop: AbortSignal,
): Promise<number> {
  const { file, csv, json: isJson } = options;
  const files: WholeFile[] = [];
  const open = async (name: 'resend' | 'mend') => {
    const path = options[name];
    if (path === undefined) return null;
    const opened = await openWholeFile(name, path);
    files.push(opened);
    return opened;
  };
  try {
    const out = { resend: await open('resend'), mend: await open('mend') };
    const isCsv = csv || /\.csv$/i.test(file);
    const isEnded = await compareFile({ file, isCsv, isJson, verdicts, out }, stop);
    if (isEnded === null) return FAILED;
    for (const each of files) await each.finish();
    return isEnded ? DONE : FAILED;
  } finally {
    for (const each of files) await each.discard();
  }
}

/** @throws ConfigError where an output would replace FILE or the other output */
function refuseSameFile({ file, resend, mend }: ReconcileOptions): void {
  const paths = [file === '-' ? undefined : file, resend, mend].map((path) => path && resolve(path));
  const [input, ...outputs] = paths;
  for (const [index, name] of (['resend', 'mend'] as const).entries())
    if (outputs[index] !== undefined && outputs[index] === input)
      throw wrongOption(name, 'names FILE itself', 'Name another file');
  if (outputs[0] !== undefined && outputs[0] === outputs[1])
    throw wrongOption('mend', 'names the same file as --resend', 'Name another file');
}

async function readReference(pool: PostgresPool): Promise<Reference> {
  try {
    return await makeReferences(pool).current();
  } catch (error) {
    throw explainNewer(error, [UnreadableReference]);
  }
}

function unknownConnection(id: string, { connections }: Reference): string {
  return `--connection: the reference data has no connection ${id}. ${nameInstead(id, [...connections.keys()])}`;
}

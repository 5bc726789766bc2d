/** `promo-intake tail`: prints each verdict as it is decided, until a signal ends it. */

import { DONE } from '../../cli/exit-codes';
import { explainShortly } from '../../cli/explain-error';
import { isOutputLost, print } from '../../cli/output';
import { nameInstead } from '../../cli/unknown-name';
import { readConfig } from '../../config/config';
import { nameOf, REASONS } from '../../domain/verdict/reasons';
import { isStoreAway } from '../../ledger/failures';
import {
  type FollowedConnections,
  type FollowedVerdict,
  followedConnections,
  followVerdicts,
  type VerdictFilters,
} from '../../ledger/verdict-tail';
import { backoffMs } from '../../lib/backoff';
import { systemClock } from '../../lib/clock';
import { inOneLine } from '../../lib/printable';
import { makePool } from '../../postgres/pool';
import { sentenceOf } from '../../publishing/sentence';
import { makeLogger } from '../../telemetry/logger';

export interface TailCommandOptions {
  readonly filters: VerdictFilters;
  /** Print a JSON object for each verdict instead of a sentence. */
  readonly json: boolean;
  /** The time of the first verdicts, in ms since 1970; undefined for now. */
  readonly sinceMs: number | undefined;
}

const POLL_MS = 500;

/** @returns the exit code */
export async function tail(
  { filters, json, sinceMs }: TailCommandOptions,
  stop: AbortSignal,
): Promise<number> {
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const options = { ...DATABASE, maxConnections: 1, applicationName: 'promo-intake-tail' };
  const pool = makePool(options, makeLogger('silent'));
  try {
    const verdicts = await followVerdicts(pool, filters, sinceMs);
    const silent = whySilent(filters, await followedConnections(pool, filters));
    if (silent !== null) console.error(`warning: ${silent}`);
    const which =
      sinceMs === undefined
        ? 'are decided from now on'
        : `were decided from ${new Date(sinceMs).toISOString()} on`;
    console.error(`following the verdicts that ${which}; Ctrl-C ends it`);
    let failures = 0;
    while (!stop.aborted && !isOutputLost()) {
      try {
        const lost = await verdicts.poll((found) =>
          print(found.map((each) => describe(each, json)).join('')),
        );
        if (failures > 0) console.error('following again; no verdict was passed over');
        failures = 0;
        if (lost !== null)
          console.error(
            `the database has lost batches from number ${lost} on: following those that are decided again`,
          );
      } catch (error) {
        if (!isStoreAway(error)) throw error;
        failures++;
        console.error(`${explainShortly(error)}; trying again`);
      }
      await systemClock.sleep(failures > 0 ? backoffMs(failures) : POLL_MS, stop);
    }
    return DONE;
  } finally {
    await pool.end();
  }
}

/** Why no verdict can come. Null where one can. */
function whySilent(filters: VerdictFilters, { count, tests, others }: FollowedConnections): string | null {
  const { isTest = false } = filters;
  if (count === 0)
    return `no connection in force has these names, so no verdict comes. ${unknownName(filters, others)}`;
  if (isTest && tests === 0) return 'the connections in force are not for tests: leave out --test';
  if (!isTest && tests === count) return 'the connections in force are for tests: add --test';
  return null;
}

function unknownName(
  { operator, connection = '' }: VerdictFilters,
  others: FollowedConnections['others'],
): string {
  if (others.length === 0) return 'Run promo-intake reference apply';
  const operators = [...new Set(others.map((each) => each.operator))];
  if (operator !== undefined && !operators.includes(operator))
    return `There is no operator ${operator}. ${nameInstead(operator, operators)}`;
  const own = others.filter((each) => operator === undefined || each.operator === operator);
  const names = own.map((each) => each.connection);
  const whose = operator === undefined ? 'There is' : `${operator} has`;
  return `${whose} no connection ${connection}. ${nameInstead(connection, names)}`;
}

const REMEDIES: ReadonlyMap<string, string | null> = new Map(
  REASONS.map(({ name, remedy, charge }) => [name, charge === 'nobody' ? null : remedy]),
);

function describe(followed: FollowedVerdict, isJson: boolean): string {
  const { verdict, reason, decided_at: at, kind, amount, currency, event_id: id, faults } = followed;
  const remedy = (reason === null ? null : REMEDIES.get(reason)) ?? null;
  if (isJson) return `${JSON.stringify({ ...followed, remedy })}\n`;
  const name = nameOf({ verdict, reason });
  const fields = [...new Set(faults.flatMap(({ field }) => field || []))];
  const sentence = sentenceOf({ kind, event_id: id, amount, currency, name, remedy, fields });
  return `${at.slice(0, 19)}Z ${inOneLine(followed.connection_id)}: ${sentence}\n`;
}

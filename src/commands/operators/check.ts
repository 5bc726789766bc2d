/**
 * `promo-intake check FILE`: prints the verdict on each event of a file, as far as it depends on no stored
 * state.
 */

import {
  connectionsOf,
  duplicateText,
  type Finding,
  faultText,
  findingJson,
  leftOut,
  makeCheck,
} from '../../check/finding';
import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { openText } from '../../cli/open-text';
import { isOutputLost, print } from '../../cli/output';
import { nameInstead } from '../../cli/unknown-name';
import type { Connection } from '../../domain/reference';
import { printFileFaults } from '../shared/file-faults';
import { readReferenceInput } from '../shared/reference-input';
import { makeSeenIds } from './seen-ids';

export interface CheckOptions {
  /** `-` is standard input. */
  readonly file: string;
  /** Print a JSON object for each event instead of text for people. */
  readonly json: boolean;
  /** The connection whose brand and game rules apply. Absent: no such rules apply. */
  readonly rules: { readonly reference: string; readonly connection: string } | undefined;
}

/** @returns the exit code: 1 if an event is not accepted */
export async function check({ file, json, rules }: CheckOptions, stop: AbortSignal): Promise<number> {
  let connection: Connection | undefined;
  if (rules !== undefined) {
    connection = await readConnection(rules);
    if (connection === undefined) return USAGE;
  }
  const run = makeCheck(connection, makeSeenIds());
  const notice = (text: string) => console.error(`${file}: ${text}`);
  try {
    for await (const findings of run.findings(openText(file, 'check', stop), notice))
      await print(
        findings.map((finding) => (json ? `${findingJson(finding)}\n` : asText(file, finding))).join(''),
      );
  } catch (error) {
    if (!stop.aborted) throw error;
  }
  const together = run.together();
  if (together !== undefined) console.error(`${file}: warning: ${together}.`);
  const summary = `${file}: ${stop.aborted ? 'interrupted; so far ' : ''}${run.summary()}\n${leftOut(connection)}\n`;
  if (json && !isOutputLost()) process.stderr.write(summary);
  else await print(summary);
  return run.isClean() && !stop.aborted ? DONE : FAILED;
}

// --- the rules to check by

/** The connection, compiled as for the worker. Undefined after a message that says why there is none. */
async function readConnection({
  reference: file,
  connection: id,
}: NonNullable<CheckOptions['rules']>): Promise<Connection | undefined> {
  const parsed = await readReferenceInput(file);
  if ('faults' in parsed) {
    printFileFaults(file, parsed.faults, 'nothing was checked', MOST_FAULTS);
    return undefined;
  }
  const connections = connectionsOf(parsed.document);
  const connection = connections.get(id);
  if (connection === undefined) {
    console.error(`${file} has no connection ${id}. ${nameInstead(id, [...connections.keys()])}`);
  }
  return connection;
}

const MOST_FAULTS = 20;

// --- what is printed

/** A line for each fault, the deciding fault first. Empty if the event is accepted. */
function asText(file: string, { line, verdict, reason, faults, first, warning }: Finding): string {
  const at = `${file}:${line}:`;
  const lines = faults.map((fault, index) => {
    const decides = index === 0 && first === undefined;
    return `${at} ${decides ? `${verdict}/${reason}` : `also ${fault.reason}`}  ${faultText(fault)}\n`;
  });
  if (first !== undefined) lines.unshift(`${at} duplicate  ${duplicateText(first)}\n`);
  if (warning !== undefined) lines.push(`${at} warning: ${warning}.\n`);
  return lines.join('');
}

/**
 * `promo-intake check FILE`: prints the verdict on each event of a file, as far as it depends on no stored
 * state.
 */

import { DONE, FAILED, USAGE } from '../cli/exit-codes';
import { type Line, MAX_LINE_BYTES, openInput, readEvents, readLines } from '../cli/input-lines';
import { isOutputLost, print } from '../cli/output';
import { contentHashOf } from '../domain/event/content-hash';
import type { Fault } from '../domain/event/event';
import { type Connection, compileReference, type Numbers } from '../domain/reference';
import { judge } from '../domain/verdict/judge';
import { OTHER_CONTENT_REMEDY, type Reason, reasonInfo, type Verdict } from '../domain/verdict/reasons';
import { counted } from '../lib/printable';
import { describeFileFault } from '../reference-file/reference-file';
import { bodyBytes } from '../webhook/client';
import { readReferenceInput } from './reference-input';
import { makeSeenIds, type SeenIds } from './seen-ids';
import { makeTally } from './tally';
import { tooMuchAlone, tooMuchTogether } from './webhook-limits';

export interface CheckOptions {
  /** `-` is standard input. */
  readonly file: string;
  /** Print a JSON object for each event instead of text for people. */
  readonly json: boolean;
  /** The connection whose brand and game rules apply. Absent: no such rules apply. */
  readonly rules: { readonly reference: string; readonly connection: string } | undefined;
}

/** The result for one event. It holds nothing of the payload but the id. */
interface Finding {
  readonly line: number;
  readonly eventId: string | null;
  readonly verdict: Verdict;
  readonly reason: Reason | null;
  readonly faults: readonly Fault[];
  /** The earlier event of the file with the same id. */
  readonly first: { readonly line: number; readonly contentDiffers: boolean } | undefined;
  /** Why the webhook would refuse the event, if the connection belongs to the webhook. */
  readonly warning?: string | undefined;
}

/** @returns the exit code: 1 if an event is not accepted */
export async function check({ file, json, rules }: CheckOptions, stop: AbortSignal): Promise<number> {
  let connection: Connection | undefined;
  if (rules !== undefined) {
    connection = await readConnection(rules);
    if (connection === undefined) return USAGE;
  }
  let isDocument = false;
  const notice = (text: string, isOne: boolean) => {
    isDocument = isOne;
    console.error(`${file}: ${text}`);
  };
  const isWebhook = connection?.transport === 'webhook';
  let [events, bytes, warnings] = [0, 0, 0];
  const seen = makeSeenIds();
  const tally = makeTally();
  try {
    for await (const lines of readEvents(readLines(openInput(file, stop)), notice)) {
      const findings = lines.map((line) => {
        const warning = isWebhook ? tooMuchAlone(line) : undefined;
        return { ...inspect(line, connection, seen), warning };
      });
      for (const finding of findings) {
        tally.add(finding);
        if (finding.warning !== undefined) warnings++;
      }
      events += lines.length;
      for (const line of lines) bytes += line.bytes?.length ?? 0;
      await print(findings.map((finding) => (json ? asJson(finding) : asText(file, finding))).join(''));
    }
  } catch (error) {
    if (!stop.aborted) throw error;
  }
  const together = isWebhook && isDocument ? tooMuchTogether(events, bodyBytes(events, bytes)) : undefined;
  if (together !== undefined) console.error(`${file}: warning: ${together}.`);
  const summary = `${file}: ${stop.aborted ? 'interrupted; so far ' : ''}${tally.summary()}\n${leftOut(connection)}\n`;
  if (json && !isOutputLost()) process.stderr.write(summary);
  else await print(summary);
  return tally.isClean() && warnings === 0 && together === undefined && !stop.aborted ? DONE : FAILED;
}

// --- the rules to check by

/** The connection, compiled as for the worker. Undefined after a message that says why there is none. */
async function readConnection({
  reference: file,
  connection: id,
}: NonNullable<CheckOptions['rules']>): Promise<Connection | undefined> {
  const parsed = await readReferenceInput(file);
  if ('faults' in parsed) {
    for (const fault of parsed.faults.slice(0, FAULTS_SHOWN)) console.error(describeFileFault(file, fault));
    console.error(`${file}: ${counted(parsed.faults.length, 'fault')}; nothing was checked`);
    return undefined;
  }
  const { connections } = compileReference(parsed.document, NO_VERSION, SOME_NUMBERS);
  const connection = connections.get(id);
  if (connection === undefined) {
    const known = [...connections.keys()].join(', ') || 'none';
    console.error(`${file} has no connection ${id}. Its connections: ${known}`);
  }
  return connection;
}

const FAULTS_SHOWN = 20;

/** The store assigns numbers to names. A verdict does not depend on them. */
const NO_VERSION = { version: 0, appliedAt: '' };
const SOME_NUMBERS: Numbers = { feed: () => 1, connection: () => 1, brand: () => 1 };

// --- one event

const TOO_LONG: Fault = {
  reason: 'no_idempotency_key',
  field: '',
  detail: `the line is longer than ${MAX_LINE_BYTES} bytes, the limit of a record`,
};

function inspect({ number, bytes }: Line, connection: Connection | undefined, seen: SeenIds): Finding {
  if (bytes === null) return refused(number, [TOO_LONG]);
  const judged = judge({ type: 'json', bytes }, connection);
  if (judged.type === 'unkeyed') return refused(number, judged.faults);
  const { eventId, faults, refusal } = judged;
  const contentHash = contentHashOf(judged);
  const earlier = seen.add(eventId, { line: number, contentHash });
  // A duplicate gets no verdict of its own, whatever its content (V1). Its faults are still listed.
  const outcome = earlier === undefined ? refusal : { verdict: 'duplicate' as const, reason: null };
  return {
    line: number,
    eventId,
    verdict: outcome?.verdict ?? 'accepted',
    reason: outcome?.reason ?? null,
    faults,
    first: earlier && { line: earlier.line, contentDiffers: earlier.contentHash !== contentHash },
  };
}

function refused(line: number, faults: readonly Fault[]): Finding {
  const reason = 'no_idempotency_key';
  return { line, eventId: null, verdict: 'rejected', reason, faults, first: undefined };
}

// --- what is printed

function asJson({ line, eventId, verdict, reason, faults, first, warning }: Finding): string {
  const duplicate = first && { first_line: first.line, content_differs: first.contentDiffers };
  return `${JSON.stringify({ line, event_id: eventId, verdict, reason, faults, ...duplicate, warning })}\n`;
}

/** A line for each fault, the deciding fault first. Empty if the event is accepted. */
function asText(file: string, { line, verdict, reason, faults, first, warning }: Finding): string {
  const at = `${file}:${line}:`;
  const lines = faults.map((fault, index) => {
    const decides = index === 0 && first === undefined;
    return `${at} ${decides ? `${verdict}/${reason}` : `also ${fault.reason}`}  ${describe(fault)}\n`;
  });
  if (first !== undefined) lines.unshift(`${at} duplicate  ${describeDuplicate(first)}\n`);
  if (warning !== undefined) lines.push(`${at} warning: ${warning}.\n`);
  return lines.join('');
}

function describe({ reason, field, detail }: Fault): string {
  return `${field === '' ? 'payload' : field}: ${detail}. ${reasonInfo(reason).remedy}`;
}

function describeDuplicate({ line, contentDiffers }: NonNullable<Finding['first']>): string {
  return contentDiffers
    ? `/event_id: line ${line} has it, with other content. ${OTHER_CONTENT_REMEDY}`
    : `/event_id: line ${line} is the same event. Nothing to do.`;
}

function leftOut(connection: Connection | undefined): string {
  const rules =
    connection === undefined ? 'brand and game rules (--reference and --connection add them); ' : '';
  return `Not checked: ${rules}stored state (event_ids that are decided already, and refunded rounds).`;
}

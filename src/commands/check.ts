/**
 * `promo-intake check FILE`: prints the verdict on each event of a file, as far as it depends on no stored
 * state.
 */

import { hash } from 'node:crypto';
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

// --- ids

interface Sighting {
  readonly line: number;
  readonly contentHash: number;
}

interface SeenIds {
  /** @returns the first sighting of the id; undefined if this is the first */
  add(id: string, sighting: Sighting): Sighting | undefined;
}

const FIRST_SLOTS = 2 ** 12;
const FULLEST = 0.7;
/**
 * Words of a slot: four of the digest (K5), two of the content hash, two of the line. A free slot has line 0.
 */
const WORDS = 8;

/**
 * A hash table with open addressing and 32 bytes a slot. A Map needs five times as much, and holds at most
 * 16.7 million entries.
 */
function makeSeenIds(): SeenIds {
  let slots = FIRST_SLOTS;
  let words = new Uint32Array(slots * WORDS);
  let used = 0;

  const isFree = (at: number) => words[at + 6] === 0 && words[at + 7] === 0;
  const hasKey = (at: number, key: Uint32Array) =>
    words[at] === key[0] && words[at + 1] === key[1] && words[at + 2] === key[2] && words[at + 3] === key[3];

  /** The position of the key, or of the free slot for it. */
  function find(key: Uint32Array): number {
    let slot = (key[0] ?? 0) % slots;
    while (!isFree(slot * WORDS) && !hasKey(slot * WORDS, key)) slot = (slot + 1) % slots;
    return slot * WORDS;
  }

  function grow(): void {
    const old = words;
    slots *= 2;
    words = new Uint32Array(slots * WORDS);
    for (let at = 0; at < old.length; at += WORDS) {
      const entry = old.subarray(at, at + WORDS);
      if (entry[6] !== 0 || entry[7] !== 0) words.set(entry, find(entry));
    }
  }

  return {
    add(id, { line, contentHash }) {
      const digest = hash('sha256', id, 'buffer');
      const entry = new Uint32Array(WORDS);
      for (let word = 0; word < 4; word++) entry[word] = digest.readUInt32LE(word * 4);
      const at = find(entry);
      if (!isFree(at)) return sightingOf(words.subarray(at, at + WORDS));
      entry.set(wordsOf(contentHash), 4);
      entry.set(wordsOf(line), 6);
      words.set(entry, at);
      if (++used > slots * FULLEST) grow();
      return undefined;
    },
  };
}

function wordsOf(value: number): [low: number, high: number] {
  return [value >>> 0, Math.floor(value / 2 ** 32)];
}

function sightingOf([, , , , hashLow = 0, hashHigh = 0, lineLow = 0, lineHigh = 0]: Uint32Array): Sighting {
  return { line: lineHigh * 2 ** 32 + lineLow, contentHash: hashHigh * 2 ** 32 + hashLow };
}

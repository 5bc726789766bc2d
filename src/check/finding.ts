/**
 * The finding on each event of a file: its verdict without stored state, and the words for it.
 * `check` prints the findings. The page of src/check-page shows them.
 */
import { contentHashOf } from '../domain/event/content-hash';
import { type Fault, type Fields, NO_FIELDS } from '../domain/event/event';
import { bodyBytes } from '../domain/event/request-body';
import { type Connection, compileReference, type Numbers, type ReferenceDocument } from '../domain/reference';
import { judge } from '../domain/verdict/judge';
import { OTHER_CONTENT_REMEDY, type Reason, reasonInfo, type Verdict } from '../domain/verdict/reasons';
import { asSentence } from '../lib/printable';
import { type Line, MAX_LINE_BYTES, readEvents, readLines } from './lines';
import { tooMuchAlone, tooMuchTogether } from './request-limits';
import { makeTally } from './tally';

export interface Sighting {
  readonly line: number;
  /** 53 bits. */
  readonly contentHash: number;
}

export interface Sightings {
  /** @returns the first sighting of the id; undefined if this is the first */
  add(id: string, sighting: Sighting): Sighting | undefined;
}

/** The result for one event. */
export interface Finding {
  readonly line: number;
  readonly eventId: string | null;
  readonly verdict: Verdict;
  readonly reason: Reason | null;
  readonly faults: readonly Fault[];
  /** The fields that are valid by themselves. */
  readonly fields: Fields;
  /** The earlier event of the file with the same id. */
  readonly first: { readonly line: number; readonly contentDiffers: boolean } | undefined;
  /** Why the webhook would refuse the event, if the connection belongs to the webhook. */
  readonly warning?: string | undefined;
}

/** The store assigns numbers to names. A verdict does not depend on them. */
const NO_VERSION = { version: 0, appliedAt: '' };
const SOME_NUMBERS: Numbers = { feed: () => 1, connection: () => 1, brand: () => 1 };

/** The connections of reference data by id, compiled as for the worker. */
export function connectionsOf(document: ReferenceDocument): ReadonlyMap<string, Connection> {
  return compileReference(document, NO_VERSION, SOME_NUMBERS).connections;
}

/**
 * The check of one file.
 *
 * @param connection whose brand and game rules apply. Undefined: no such rules apply
 */
export function makeCheck(connection: Connection | undefined, seen: Sightings) {
  const isWebhook = connection?.transport === 'webhook';
  const tally = makeTally();
  let isDocument = false;
  let [events, bytes, warnings] = [0, 0, 0];

  /** Why the webhook would refuse the file as one request; undefined if it would not, or is not meant. */
  const together = () =>
    isWebhook && isDocument ? tooMuchTogether(events, bodyBytes(events, bytes)) : undefined;

  return {
    /** The findings of each chunk. @param notice receives a note on the form of the file */
    async *findings(
      chunks: AsyncIterable<Buffer>,
      notice: (text: string) => void,
    ): AsyncGenerator<readonly Finding[]> {
      const onForm = (text: string, isOne: boolean) => {
        isDocument = isOne;
        notice(text);
      };
      for await (const lines of readEvents(readLines(chunks), onForm)) {
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
        yield findings;
      }
    },
    /** "9 events: 7 accepted, ..." of the findings so far. */
    summary: () => tally.summary(),
    together,
    /** Whether every event so far is accepted, and no request is too large. */
    isClean: () => tally.isClean() && warnings === 0 && together() === undefined,
  };
}

const TOO_LONG: Fault = {
  reason: 'no_idempotency_key',
  field: '',
  detail: `the line is longer than ${MAX_LINE_BYTES} bytes, the limit of a record`,
};

function inspect({ number, bytes }: Line, connection: Connection | undefined, seen: Sightings): Finding {
  if (bytes === null) return refused(number, [TOO_LONG]);
  const judged = judge({ type: 'json', bytes }, connection);
  if (judged.type === 'unkeyed') return refused(number, judged.faults);
  const { eventId, faults, fields, refusal } = judged;
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
    fields,
    first: earlier && { line: earlier.line, contentDiffers: earlier.contentHash !== contentHash },
  };
}

function refused(line: number, faults: readonly Fault[]): Finding {
  const reason = 'no_idempotency_key';
  return { line, eventId: null, verdict: 'rejected', reason, faults, fields: NO_FIELDS, first: undefined };
}

// --- the words

/** The line of `check --json`, without a line feed. */
export function findingJson(finding: Finding): string {
  const { line, eventId, verdict, reason, faults, first, warning } = finding;
  const duplicate = first && { first_line: first.line, content_differs: first.contentDiffers };
  return JSON.stringify({ line, event_id: eventId, verdict, reason, faults, ...duplicate, warning });
}

/** The words for a fault: its place, its cause and the remedy. */
export function faultText({ reason, field, detail }: Fault): string {
  return `${field === '' ? 'payload' : field}: ${asSentence(detail)} ${reasonInfo(reason).remedy}`;
}

/** The words for a duplicate: the event before it, and the remedy. */
export function duplicateText({ line, contentDiffers }: NonNullable<Finding['first']>): string {
  return contentDiffers
    ? `/event_id: line ${line} has it, with other content. ${OTHER_CONTENT_REMEDY}`
    : `/event_id: line ${line} is the same event. Nothing to do.`;
}

/** The rules that a check leaves out. */
export function leftOut(connection: Connection | undefined): string {
  const rules =
    connection === undefined ? 'brand and game rules (--reference and --connection add them); ' : '';
  return `Not checked: ${rules}stored state (event_ids that are decided already, and refunded rounds). ${UNSENT}`;
}

/** The remedies are those of events that the service has decided. */
export const UNSENT = 'An event that was never sent keeps its event_id.';

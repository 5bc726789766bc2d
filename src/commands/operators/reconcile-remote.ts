/** Looks entries up by signed requests to a webhook, in requests of its limits. */

import { isUtf8 } from 'node:buffer';
import { MAX_BYTES } from '../../check/request-limits';
import { NO_TAGS } from '../../domain/event/player-tag';
import { valuesOf } from '../../domain/event/request-body';
import { type Standing, standingOf } from '../../reconciliation/standing';
import type { WebhookTarget } from '../../webhook/client';
import { requestStandings } from '../../webhook/reconcile-client';
import { MAX_RECONCILED_VALUES } from '../../webhook/reconciling';
import type { Verdicts } from './reconcile-file';
import type { Entry } from './reconcile-report';
import { type RequestPart, RequestParts } from './request-parts';
import { untilAnswered } from './signed-retry';

/** Entries of one look-up: their events fit into few requests, and the progress moves. */
const AT_ONCE = 3_000;
/** A look-up has fewer entries than a request may have. */
const LIMITS = { events: AT_ONCE, values: MAX_RECONCILED_VALUES };

/** An entry as the request has it. */
interface Question extends RequestPart {
  /** Its place in the slice. */
  readonly no: number;
}

/** @param report receives a line about each failed attempt */
export function makeRemoteVerdicts(
  target: WebhookTarget,
  report: (text: string) => void,
  stop: AbortSignal,
): Verdicts {
  let last: Promise<readonly Standing[] | null> = Promise.resolve([]);

  async function lookUp(entries: readonly Entry[]): Promise<readonly Standing[] | null> {
    // The answers replace these.
    const standings = entries.map(unanswered);
    for (const questions of requestsOf(entries)) {
      const answers = await requestUntilAnswered(target, questions, report, stop);
      if (answers === null) return null;
      for (const [index, { no }] of questions.entries()) {
        const answer = answers[index];
        const entry = entries[no];
        if (answer === undefined || entry === undefined) throw new Error('a question has no answer');
        const { eventId, faults } = entry.parsed;
        // The request has no more of such an entry than its place.
        standings[no] =
          eventId === null && answer.details.length > 0 ? { ...answer, details: faults } : answer;
      }
    }
    return standings;
  }

  return {
    connection: undefined,
    atOnce: AT_ONCE,
    // One request at a time: a further one of the same connection would have to wait.
    lookUp(entries) {
      last = last.then((before) => (before === null ? null : lookUp(entries)));
      return last;
    },
  };
}

/** The standing of an entry that no request can ask for. */
function unanswered({ parsed }: Entry): Standing {
  if (parsed.eventId === null) return standingOf(parsed, { type: 'absent' }, NO_TAGS);
  return {
    eventId: parsed.eventId,
    state: 'undecided',
    reason: null,
    action: 'wait',
    remedy: TOO_LONG,
    contentDiffers: false,
    details: [],
  };
}

const TOO_LONG = `Its event_id is longer than a request may be, ${MAX_BYTES} bytes. Have the service's side look it up.`;

/** Divides the entries that can be asked for into requests. */
function* requestsOf(entries: readonly Entry[]): Generator<readonly Question[]> {
  const request = new RequestParts<Question>(LIMITS);
  for (const [no, entry] of entries.entries()) {
    const question = questionOf(no, entry);
    if (question === null) continue;
    if (!request.fits(question)) yield request.take();
    request.add(question);
  }
  if (!request.isEmpty) yield request.take();
}

/** An event as it is, or else its id and place. Null where the entry has neither, or no request holds it. */
function questionOf(no: number, { bytes, parsed }: Entry): Question | null {
  const { eventId, place, event } = parsed;
  if (event !== null && bytes !== null && isUtf8(bytes)) {
    const whole = { no, bytes, values: valuesOf(bytes) };
    if (new RequestParts(LIMITS).fits(whole)) return whole;
  }
  if (eventId === null && place === null) return null;
  const fields = { ...(eventId !== null && { event_id: eventId }), ...(place !== null && { source: place }) };
  const text = Buffer.from(JSON.stringify(fields));
  const named = { no, bytes: text, values: valuesOf(text) };
  return new RequestParts(LIMITS).fits(named) ? named : null;
}

/** Retries until the webhook answers. @returns null if the request is refused, or on a stop signal */
async function requestUntilAnswered(
  target: WebhookTarget,
  questions: readonly Question[],
  report: (text: string) => void,
  stop: AbortSignal,
): Promise<readonly Standing[] | null> {
  const events = questions.map(({ bytes }) => bytes);
  const reports = {
    refused: (because: string) => report(`cannot be looked up: ${because}`),
    retried: (because: string, seconds: number) => report(`asking again in ${seconds} s: ${because}`),
  };
  const answer = await untilAnswered((id) => requestStandings(target, id, events, stop), reports, stop);
  return answer?.standings ?? null;
}

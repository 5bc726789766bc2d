/** Asks a webhook for the standing of events, as an operator's system does. */

import type { Fault } from '../domain/event/event';
import { bodyOf } from '../domain/event/request-body';
import { DEAD_LETTER_REASONS, REASONS } from '../domain/verdict/reasons';
import { isObject } from '../lib/json';
import { ACTIONS, STATES, type Standing } from '../reconciliation/standing';
import { type NotAnswered, postSigned, requestAddress, shownOrNull, type WebhookTarget } from './client';

export type Reconciled =
  | { readonly type: 'reconciled'; readonly standings: readonly Standing[] }
  | NotAnswered;

/** @param id the same for each attempt @param events JSON texts, each an event or an id with its place */
export async function requestStandings(
  { url, connectionId, secret }: WebhookTarget,
  id: string,
  events: readonly Buffer[],
  stop: AbortSignal,
): Promise<Reconciled> {
  const to = requestAddress(url, connectionId, 'reconcile');
  const sent = await postSigned(to, secret, id, bodyOf(events), stop);
  if (sent.type !== 'answered') return sent;
  const list: unknown = isObject(sent.json) ? sent.json.entries : undefined;
  const standings = Array.isArray(list) ? list.map(readStanding) : [];
  const known = standings.filter((each) => each !== undefined);
  if (known.length === events.length) return { type: 'reconciled', standings: known };
  return { type: 'refused', because: NO_STANDINGS };
}

const NO_STANDINGS =
  'it answered 200 without a standing for each event: it is no webhook of promo-intake, or of another version';

/** An entry of the answer, without its repeats: those of a whole file are found here. */
function readStanding(json: unknown): Standing | undefined {
  if (!isObject(json)) return undefined;
  const state = STATES.find((each) => each === json.state);
  const action = ACTIONS.find((each) => each === json.action);
  if (state === undefined || action === undefined) return undefined;
  const details: unknown[] = Array.isArray(json.details) ? json.details : [];
  return {
    eventId: typeof json.event_id === 'string' ? json.event_id : null,
    state,
    action,
    reason: reasonOf(json.reason),
    remedy: shownOrNull(json.remedy),
    ...(typeof json.needs_new_event_id === 'boolean' && { needsNewEventId: json.needs_new_event_id }),
    contentDiffers: json.content_differs === true,
    details: details.map(readFault).filter((fault) => fault !== undefined),
  };
}

function reasonOf(value: unknown): Standing['reason'] {
  const known = [...REASONS, ...DEAD_LETTER_REASONS].find(({ name }) => name === value);
  return known?.name ?? null;
}

function readFault(json: unknown): Fault | undefined {
  if (!isObject(json)) return undefined;
  const reason = REASONS.find(({ name }) => name === json.reason)?.name;
  const detail = shownOrNull(json.detail);
  if (reason === undefined || detail === null) return undefined;
  return { reason, field: shownOrNull(json.field) ?? '', detail };
}

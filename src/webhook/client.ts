/**
 * Sends signed events to a webhook, as an operator's system does, and reads the verdicts (docs/rules.md,
 * W4-W6).
 */

import { bodyOf } from '../domain/event/request-body';
import { REASONS, type Reason, type Verdict } from '../domain/verdict/reasons';
import { causeOf, fetchProblem } from '../lib/errors';
import { isObject, parseJson } from '../lib/json';
import { inOneLine } from '../lib/printable';
import { readAnswer } from '../lib/read-limited';
import type { SignedUrl } from './routes';
import { SIGNATURE_HEADERS, sign } from './signature';

/** Time limit of one request with its answer. The webhook answers within 31 s. */
const TIMEOUT_MS = 35_000;
/** Enough for the answer to 8,000 events with ids of a usual length. */
const MAX_ANSWER_BYTES = 16 * 1024 ** 2;

export interface WebhookTarget {
  /** The address that /v1/events/ID is appended to. */
  readonly url: URL;
  readonly connectionId: string;
  readonly secret: Buffer;
  /** Nothing is stored. */
  readonly isRehearsal?: boolean;
}

/** The webhook's verdict on one event. */
export interface ReceivedVerdict {
  readonly verdict: Verdict;
  readonly reason: Reason | null;
  readonly remedy: string | null;
  /** The verdict that counts: the event's own, or the first verdict if the event is a duplicate. */
  readonly standing: { readonly verdict: Verdict; readonly reason: Reason | null };
  readonly contentDiffers: boolean;
  /** The faults of the event, the one that decided the verdict first. */
  readonly details: readonly string[];
  /** The verdict's JSON, as received. */
  readonly json: Readonly<Record<string, unknown>>;
}

/** No usable answer. */
export type NotAnswered =
  /** No answer came, or the answer asks for a retry. Events already decided are then duplicates. */
  | {
      readonly type: 'later';
      readonly because: string;
      /** The shortest wait before the retry that the answer allows. */
      readonly waitMs: number;
    }
  /** A retry does not help. */
  | {
      readonly type: 'refused';
      readonly because: string;
      /** Absent: no answer came, or an answer with status 200 cannot be read. */
      readonly status?: number;
    };

export type Sent = { readonly type: 'decided'; readonly verdicts: readonly ReceivedVerdict[] } | NotAnswered;

/** The JSON of an answer with status 200. */
type Answered = { readonly type: 'answered'; readonly json: unknown };

/** The address of a connection's requests. @param url the address of the webhook */
export function requestAddress(url: URL, connectionId: string, route: SignedUrl['route'] = 'events'): URL {
  const to = new URL(url);
  to.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/${route}/${encodeURIComponent(connectionId)}`;
  return to;
}

/** Sends a batch. @param id the same for each attempt @param events JSON texts */
export async function sendBatch(
  { url, connectionId, secret, isRehearsal = false }: WebhookTarget,
  id: string,
  events: readonly Buffer[],
  stop: AbortSignal,
): Promise<Sent> {
  const to = requestAddress(url, connectionId, isRehearsal ? 'rehearse' : 'events');
  const sent = await postSigned(to, secret, id, bodyOf(events), stop);
  if (sent.type === 'refused' && sent.status === 404 && isRehearsal)
    return { ...sent, because: `${sent.because}. ${OLDER}` };
  if (sent.type !== 'answered') return sent;
  const { json } = sent;
  if (isRehearsal && (!isObject(json) || json.dry_run !== true))
    return { type: 'refused', because: NO_REHEARSAL };
  const verdicts = verdictsIn(json);
  if (verdicts?.length === events.length) return { type: 'decided', verdicts };
  return {
    type: 'refused',
    because: 'it answered 200 without a verdict for each event: is it a webhook of promo-intake?',
  };
}

/** Sends a signed body. @param id the same for each attempt */
export async function postSigned(
  to: URL,
  secret: Buffer,
  id: string,
  body: Buffer,
  stop: AbortSignal,
): Promise<Answered | NotAnswered> {
  const timestamp = String(Math.floor(Date.now() / 1000));
  let status: number;
  let answer: string;
  let waitMs: number;
  try {
    const response = await fetch(to, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        [SIGNATURE_HEADERS.id]: id,
        [SIGNATURE_HEADERS.timestamp]: timestamp,
        [SIGNATURE_HEADERS.signature]: sign(secret, { id, timestamp }, body),
      },
      body,
      // Nobody has approved the redirect's target for events.
      redirect: 'manual',
      signal: AbortSignal.any([stop, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    status = response.status;
    waitMs = retryAfterMs(response.headers);
    answer = await readAnswer(response.body, MAX_ANSWER_BYTES);
    if (status >= 300 && status < 400)
      return {
        type: 'refused',
        because: `it redirects to ${inOneLine(response.headers.get('location') ?? '')}: use that address in --url`,
      };
  } catch (error) {
    const code = String(causeOf(error)?.code);
    const problem = fetchProblem(error);
    const [, remedy] = REMEDIES.find(([codes]) => codes.test(code) || codes.test(problem)) ?? [];
    const shown = /^ERR_SSL_/.test(code) ? code : problem;
    const because = remedy === undefined ? shown : `${shown}. ${remedy}`;
    const isForGood = FOR_GOOD.test(code) || FOR_GOOD.test(problem);
    return isForGood ? { type: 'refused', because } : { type: 'later', because, waitMs: 0 };
  }
  const json = parseJson(answer);
  if (status === 200) return { type: 'answered', json };
  const stranger = status === 404 || status === 405 ? `. ${NO_WEBHOOK}` : '';
  const message = isObject(json) && typeof json.message === 'string' ? inOneLine(json.message) : '';
  const words = status === 401 ? unsigned(message) : message;
  const because = `it answered ${status}${words === '' ? stranger : `: ${words}`}`;
  const isForGood = status < 500 && !RETRIED.has(status);
  return isForGood ? { type: 'refused', because, status } : { type: 'later', because, waitMs };
}

/**
 * The longest wait: a proxy with a wrong clock, or a mistyped Retry-After, must not stop a sender for days.
 */
export const MAX_RETRY_AFTER_MS = 300_000;

/**
 * The wait of Retry-After, which holds seconds or a date by the server's clock. 0 if there is no usable
 * value.
 */
export function retryAfterMs(headers: Headers): number {
  const written = headers.get('retry-after')?.trim() ?? '';
  const date = /^\d+$/.test(written) ? Number.NaN : Date.parse(written);
  const answeredAt = Date.parse(headers.get('date') ?? '');
  const since = Number.isNaN(answeredAt) ? Date.now() : answeredAt;
  const ms = Number.isNaN(date) ? Number(written) * 1000 : date - since;
  return ms > 0 ? Math.min(Math.ceil(ms / 1000) * 1000, MAX_RETRY_AFTER_MS) : 0;
}

/**
 * The message of a 401, with the causes that are left for this client: its signature is right by itself. The
 * webhook's own advice is for people who write a client.
 */
function unsigned(message: string): string {
  const [token = ''] = message.split(':');
  const causes = UNSIGNED[token];
  if (causes === undefined) return message;
  return token === 'signature_invalid' ? `${token}: ${causes}` : `${message}. ${causes}`;
}

const UNSIGNED: Readonly<Record<string, string>> = {
  signature_invalid:
    'the secret of WEBHOOK_SECRETS is not that of this connection at this address. Check the secret, --connection and --url. A proxy that changes bodies has the same effect',
  signature_stale: 'Correct the clock of this machine, such as by NTP',
  signature_missing: 'A proxy before the webhook removes headers: have it pass on all of webhook-*',
  unauthorized: 'Check --connection and --url first',
};

const OLDER =
  'A webhook of an older version has no rehearsals, and no event was decided: have it upgraded first';
const NO_REHEARSAL =
  'its answer was no rehearsal: a proxy may have changed the path. Have this corrected first';
const NO_WEBHOOK =
  'There is no webhook of promo-intake at this address: correct --url, without /v1/events/ID';

/** Remedies for errors without an answer, by Node's error code or message. */
const REMEDIES: readonly [codes: RegExp, remedy: string][] = [
  [
    /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/,
    'No known authority signed its certificate: check NODE_EXTRA_CA_CERTS',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'Its certificate belongs to another host: correct the host in --url, or the certificate',
  ],
  [/^CERT_/, 'Its certificate is not valid now: have a new one issued, or correct the clock here'],
  [/^(ERR_SSL_|EPROTO)/, 'The port has no TLS: correct the scheme or the port in --url'],
  [/^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED)$/, 'Check the host and the port in --url, and that the webhook runs'],
  [
    /^(UND_ERR_SOCKET|ECONNRESET|HPE_)/,
    'If each try ends like this, correct --url: the webhook may need https, or another program uses that port',
  ],
  [/^bad port$/, 'HTTP clients refuse to use this port: correct the port in --url'],
];

/** Statuses below 500 that are retried. All from 500 on are retried too. */
const RETRIED: ReadonlySet<number> = new Set([408, 429]);
/** Errors that no retry resolves: certificates, and ports that fetch refuses to use. */
const FOR_GOOD = /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_|ERR_SSL_)|^bad port$/;

function verdictsIn(json: unknown): ReceivedVerdict[] | undefined {
  if (!isObject(json) || !Array.isArray(json.verdicts)) return undefined;
  const list: unknown[] = json.verdicts;
  const verdicts = list.map(readVerdict);
  return verdicts.every((each) => each !== undefined) ? verdicts : undefined;
}

const VERDICTS: readonly Verdict[] = ['accepted', 'rejected', 'skipped', 'duplicate'];

function readVerdict(json: unknown): ReceivedVerdict | undefined {
  if (!isObject(json)) return undefined;
  const verdictOf = (value: unknown) => VERDICTS.find((each) => each === value);
  const reasonOf = (value: unknown) => REASONS.find(({ name }) => name === value)?.name ?? null;
  const verdict = verdictOf(json.verdict);
  if (verdict === undefined) return undefined;
  const reason = reasonOf(json.reason);
  const first = verdictOf(json.first_verdict);
  const details: unknown[] = Array.isArray(json.details) ? json.details : [];
  return {
    verdict,
    reason,
    remedy: shownOrNull(json.remedy),
    standing:
      first === undefined ? { verdict, reason } : { verdict: first, reason: reasonOf(json.first_reason) },
    contentDiffers: json.content_differs === true,
    details: details
      .filter(isObject)
      .map(({ field, detail }) => `${shownOrNull(field) || 'event'}: ${shownOrNull(detail) ?? ''}`),
    json,
  };
}

/** A text of an answer, safe to print; null for anything else. */
export function shownOrNull(value: unknown): string | null {
  return typeof value === 'string' ? inOneLine(value) : null;
}

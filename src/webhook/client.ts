/** Sends events to a webhook, signed, as an operator's system does, and reads what became of them (docs/rules.md, W4-W6). */

import { REASONS, type Reason, type Verdict } from '../domain/verdict/reasons';
import { causeOf, fetchProblem } from '../lib/errors';
import { isObject, parseJson } from '../lib/json';
import { inOneLine } from '../lib/printable';
import { readAnswer } from '../lib/read-limited';
import { SIGNATURE_HEADERS, sign } from './signature';

/** One request, its answer included, which the webhook gives within 31 s. */
const TIMEOUT_MS = 35_000;
/** Of 8,000 events with ids of a usual length. */
const MAX_ANSWER_BYTES = 16 * 1024 ** 2;

export interface WebhookTarget {
  /** Where its paths begin. */
  readonly url: URL;
  readonly connectionId: string;
  readonly secret: Buffer;
}

/** What became of one event. */
export interface ToldVerdict {
  readonly verdict: Verdict;
  readonly reason: Reason | null;
  readonly remedy: string | null;
  /** The verdict that stands: its own, or of a duplicate the first one. */
  readonly standing: { readonly verdict: Verdict; readonly reason: Reason | null };
  readonly contentDiffers: boolean;
  /** What was found wrong, a fault each, the deciding one first. */
  readonly details: readonly string[];
  /** The whole of it, as it came. */
  readonly json: Readonly<Record<string, unknown>>;
}

export type Sent =
  | { readonly type: 'decided'; readonly verdicts: readonly ToldVerdict[] }
  /** Nobody answered, or it is to be sent again; what was decided of it is a duplicate then. */
  | {
      readonly type: 'later';
      readonly because: string;
      /** The least wait that the answer asks for. */
      readonly waitMs: number;
    }
  /** Sending it again does not help. */
  | { readonly type: 'refused'; readonly because: string };

/** Sends a batch. @param id the same for each try @param events JSON texts */
export async function sendBatch(
  { url, connectionId, secret }: WebhookTarget,
  id: string,
  events: readonly Buffer[],
  stop: AbortSignal,
): Promise<Sent> {
  const body = Buffer.concat([
    BEGIN,
    ...events.flatMap((event, index) => (index === 0 ? [event] : [COMMA, event])),
    END,
  ]);
  const timestamp = String(Math.floor(Date.now() / 1000));
  const to = new URL(url);
  to.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/events/${encodeURIComponent(connectionId)}`;
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
      // Where it leads to nobody has said that events may go to.
      redirect: 'manual',
      signal: AbortSignal.any([stop, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    status = response.status;
    waitMs = retryAfterMs(response.headers);
    answer = await readAnswer(response.body, MAX_ANSWER_BYTES);
    if (status >= 300 && status < 400)
      return {
        type: 'refused',
        because: `it leads to ${inOneLine(response.headers.get('location') ?? '')}: name that`,
      };
  } catch (error) {
    const code = String(causeOf(error)?.code);
    const problem = fetchProblem(error);
    const [, remedy] = REMEDIES.find(([codes]) => codes.test(code) || codes.test(problem)) ?? [];
    const said = /^ERR_SSL_/.test(code) ? code : problem;
    const because = remedy === undefined ? said : `${said}. ${remedy}`;
    const isForGood = FOR_GOOD.test(code) || FOR_GOOD.test(problem);
    return isForGood ? { type: 'refused', because } : { type: 'later', because, waitMs: 0 };
  }
  const json = parseJson(answer);
  if (status === 200) {
    const verdicts = verdictsIn(json);
    if (verdicts?.length === events.length) return { type: 'decided', verdicts };
    return {
      type: 'refused',
      because: 'it answered 200 without a verdict for each event: is it a webhook of promo-intake?',
    };
  }
  const stranger = status === 404 || status === 405 ? `. ${NO_WEBHOOK}` : '';
  const told = isObject(json) && typeof json.message === 'string' ? `: ${inOneLine(json.message)}` : stranger;
  const because = `it answered ${status}${told}`;
  const isForGood = status < 500 && !RETRIED.has(status);
  return isForGood ? { type: 'refused', because } : { type: 'later', because, waitMs };
}

/** A longer Retry-After counts as this: a proxy with a wrong clock, or a mistyped number, must not stop a sender for days. */
export const MAX_RETRY_AFTER_MS = 300_000;

/** The wait that Retry-After names, as seconds or as a date of the answer's own clock; 0 where it names none. */
export function retryAfterMs(headers: Headers): number {
  const written = headers.get('retry-after')?.trim() ?? '';
  const date = /^\d+$/.test(written) ? Number.NaN : Date.parse(written);
  const answeredAt = Date.parse(headers.get('date') ?? '');
  const since = Number.isNaN(answeredAt) ? Date.now() : answeredAt;
  const ms = Number.isNaN(date) ? Number(written) * 1000 : date - since;
  return ms > 0 ? Math.min(Math.ceil(ms / 1000) * 1000, MAX_RETRY_AFTER_MS) : 0;
}

const NO_WEBHOOK =
  'It is no webhook of promo-intake, or not at this path: correct --url, to which /v1/events/ID is added';

/** Of an error without an answer, by the codes of Node or its words. */
const REMEDIES: readonly [codes: RegExp, remedy: string][] = [
  [
    /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/,
    'No authority that is known here has signed its certificate: look at NODE_EXTRA_CA_CERTS',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'Its certificate is of another host: correct the host in --url, or the certificate',
  ],
  [/^CERT_/, 'Its certificate is not valid now: have a new one issued, or correct the clock here'],
  [/^(ERR_SSL_|EPROTO)/, 'It does not speak TLS at that port: correct the scheme or the port in --url'],
  [/^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED)$/, 'Check the host and the port in --url, and that the webhook runs'],
  [
    /^(UND_ERR_SOCKET|ECONNRESET|HPE_)/,
    'Where each try ends so, correct --url: http where the webhook speaks https, or no webhook at that port',
  ],
  [/^bad port$/, 'No web client connects to this port: correct the port in --url'],
];

/** Beside those from 500 on. */
const RETRIED: ReadonlySet<number> = new Set([408, 429]);
/** What no time mends: certificates, and ports that fetch asks nobody at. */
const FOR_GOOD = /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_|ERR_SSL_)|^bad port$/;
const BEGIN = Buffer.from('{"events":[');
const COMMA = Buffer.from(',');
const END = Buffer.from(']}');
/** What a body takes beside its events, with a comma for each. */
export const bodyBytes = (events: number, bytes: number): number =>
  BEGIN.length + END.length + bytes + Math.max(0, events - 1);

function verdictsIn(json: unknown): ToldVerdict[] | undefined {
  if (!isObject(json) || !Array.isArray(json.verdicts)) return undefined;
  const list: unknown[] = json.verdicts;
  const verdicts = list.map(readVerdict);
  return verdicts.every((each) => each !== undefined) ? verdicts : undefined;
}

const VERDICTS: readonly Verdict[] = ['accepted', 'rejected', 'skipped', 'duplicate'];

function readVerdict(json: unknown): ToldVerdict | undefined {
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
    remedy: textOr(json.remedy),
    standing:
      first === undefined ? { verdict, reason } : { verdict: first, reason: reasonOf(json.first_reason) },
    contentDiffers: json.content_differs === true,
    details: details
      .filter(isObject)
      .map(({ field, detail }) => `${textOr(field) || 'event'}: ${textOr(detail) ?? ''}`),
    json,
  };
}

function textOr(value: unknown): string | null {
  return typeof value === 'string' ? inOneLine(value) : null;
}

/**
 * The events that a throwaway intake has decided, and the requests that it has refused, as they came. Both
 * lists are bounded: the oldest entries leave first.
 */
import { toMajor } from '../domain/event/money';
import { nameOf } from '../domain/verdict/reasons';
import type { Answer } from '../intake/delivery';
import { isObject, parseJson } from '../lib/json';
import { outcomeFields } from '../publishing/outcome';
import { sentenceOf } from '../publishing/sentence';

export const MAX_LISTED_EVENTS = 5_000;
/** The most characters of all listed events together. */
const MAX_LISTED_CHARACTERS = 16 * 1024 ** 2;
export const MAX_LISTED_REFUSALS = 500;
/** A longer event is listed without its content. */
const MAX_CONTENT_BYTES = 4_096;

/** Conditions on the listed events. An undefined one sets no condition. */
export interface EventFilters {
  readonly verdict?: string | undefined;
  readonly reason?: string | undefined;
  readonly connection?: string | undefined;
  /** Only events behind this number. */
  readonly after: number;
  /** The most events; the latest ones are listed. */
  readonly limit: number;
}

export interface RefusedRequest {
  readonly request_id: string;
  /** Null where the path names no connection that has a secret. */
  readonly connection_id: string | null;
  readonly status: number;
  readonly message: string;
}

interface Entry {
  readonly no: number;
  readonly connection: string;
  readonly verdict: string;
  readonly reason: string | null;
  /** The JSON of the event as it is listed. */
  readonly json: string;
}

export type EventLog = ReturnType<typeof makeEventLog>;

/** @param now milliseconds since 1970 */
export function makeEventLog(now: () => number) {
  let entries: Entry[] = [];
  let refusals: string[] = [];
  let characters = 0;
  let last = 0;
  let since = now();
  const counts = new Map<string, number>();
  const count = (name: string): void => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  };

  function trim(): void {
    let gone = Math.max(0, entries.length - MAX_LISTED_EVENTS);
    for (let at = 0; at < gone; at++) characters -= entries[at]?.json.length ?? 0;
    while (characters > MAX_LISTED_CHARACTERS && gone < entries.length - 1)
      characters -= entries[gone++]?.json.length ?? 0;
    if (gone > 0) entries = entries.slice(gone);
  }

  return {
    /** Lists the events of a request, or of several that were decided together. */
    add(connection: string, answers: readonly Answer[]): void {
      const at = new Date(now()).toISOString();
      for (const answer of answers) {
        const entry = entryOf(answer, { no: ++last, at, connection });
        if (entry === null) continue;
        entries.push(entry);
        characters += entry.json.length;
        count(entry.verdict);
      }
      trim();
    },
    addRefusal(refused: RefusedRequest): void {
      count('refused_requests');
      refusals.push(JSON.stringify({ received_at: new Date(now()).toISOString(), ...refused }));
      if (refusals.length > MAX_LISTED_REFUSALS) refusals.shift();
    },
    /** JSON: the counts, and the latest events that meet the conditions, in the order in which they came. */
    listEvents({ verdict, reason, connection, after, limit }: EventFilters): string {
      const found = entries.filter(
        (entry) =>
          entry.no > after &&
          (verdict === undefined || entry.verdict === verdict) &&
          (reason === undefined || entry.reason === reason) &&
          (connection === undefined || entry.connection === connection),
      );
      const listed = limit === 0 ? [] : found.slice(-limit);
      const about = { ...summary(), matched: found.length };
      return `${JSON.stringify(about).slice(0, -1)},"events":[${listed.map(({ json }) => json).join(',\n')}]}\n`;
    },
    /** JSON: the counts, and the latest refused requests, in the order in which they came. */
    listRefusals(): string {
      return `${JSON.stringify(summary()).slice(0, -1)},"refusals":[${refusals.join(',\n')}]}\n`;
    },
    clear(): void {
      [entries, refusals, characters, last, since] = [[], [], 0, 0, now()];
      counts.clear();
    },
  };

  function summary() {
    const of = (name: string) => counts.get(name) ?? 0;
    return {
      since: new Date(since).toISOString(),
      counts: {
        accepted: of('accepted'),
        rejected: of('rejected'),
        skipped: of('skipped'),
        duplicate: of('duplicate'),
        refused_requests: of('refused_requests'),
      },
      // The number of the last event, also where it is not listed any more.
      last,
      listed: entries.length,
    };
  }
}

function entryOf(
  answer: Answer,
  { no, at, connection }: { readonly no: number; readonly at: string; readonly connection: string },
): Entry | null {
  const outcome = outcomeFields(answer);
  const decided: unknown = outcome === null ? null : parseJson(`{${outcome}}`);
  if (!isObject(decided)) return null;
  const { envelope, eventId, kind, fields = null } = answer;
  const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);
  const [verdict, reason] = [textOf(decided.verdict) ?? '', textOf(decided.reason)];
  const currency = fields?.currency ?? null;
  const minor = fields?.amountMinor ?? null;
  const amount = minor === null || currency === null ? null : toMajor(minor, currency.scale);
  const first = { verdict: textOf(decided.first_verdict) ?? '', reason: textOf(decided.first_reason) };
  const name = verdict === 'duplicate' ? `duplicate of ${nameOf(first)}` : nameOf({ verdict, reason });
  const about = {
    no,
    received_at: at,
    connection_id: connection,
    event_id: eventId,
    kind,
    brand: fields?.brand ?? null,
    round_id: fields?.roundId ?? null,
    amount,
    currency: currency?.code ?? null,
    sentence: sentenceOf({
      kind,
      event_id: eventId,
      amount,
      currency: currency?.code ?? null,
      name,
      remedy: textOf(decided.remedy),
    }),
  };
  const json = `${JSON.stringify(about).slice(0, -1)},${outcome},${contentOf(envelope.value)}}`;
  return { no, connection, verdict, reason, json };
}

/** The event as it came, as a field of a JSON object. */
function contentOf(value: Buffer | null): string {
  if (value === null || value.length > MAX_CONTENT_BYTES)
    return `"event":null,"event_bytes":${value?.length ?? 0}`;
  const text = value.toString('utf8');
  // A number keeps its digits: the text itself is the value.
  return `"event":${parseJson(text) === undefined ? JSON.stringify(text) : text.trim()},"event_bytes":${value.length}`;
}

/**
 * Answers `POST /v1/reconcile/CONNECTION_ID`: the standing of each event or id of a signed request. It
 * changes nothing, and has places and connections to Postgres of its own, so that it delays no decision.
 */
import { maxValuesOf, readBody } from '../domain/event/request-body';
import type { Clock } from '../lib/clock';
import { isObject, parseJson } from '../lib/json';
import { OUTCOME_PROPERTIES } from '../publishing/outcome';
import { anId, contentOf, contentsDiffer, type ReconcileEntry, readEntry } from '../reconciliation/entry';
import type { Reconciler, Scope } from '../reconciliation/reconciler';
import { ACTIONS, repeated, STATES, type Standing, standingFields } from '../reconciliation/standing';
import { Totals } from '../reconciliation/totals';
import { Places } from './places';
import { type HttpAnswer, noPlaceRefusal, REFUSALS } from './responses';

/** The most events or ids of a request. */
export const MAX_RECONCILED = 10_000;
/** Entries of one look-up. In between, other requests get their turn. */
const AT_ONCE = 1_000;
/** Requests that are answered at once, each with a connection to Postgres. A sender is a connection id. */
export const RECONCILING_PLACES = 2;
const PLACES = { places: RECONCILING_PLACES, share: 1, waiting: 8, waitingShare: 2 };
/** The most JSON values of a request. */
export const MAX_RECONCILED_VALUES = maxValuesOf(MAX_RECONCILED / 4);
const LIMITS = { maxEvents: MAX_RECONCILED, maxValues: MAX_RECONCILED_VALUES };

export interface ReconcileDeps {
  readonly reconciler: Reconciler;
  /** By the reference data in force. Undefined where it has no such connection. */
  readonly scopeOf: (connectionId: string) => Promise<Scope | undefined>;
}

const REQUEST_SPEC = 'promo.reconcile.v1';
const ANSWER_SPEC = 'promo.reconciliation.v1';

const COUNTS = {
  type: 'object',
  required: ['sent', ...STATES, 'content_differs'],
  properties: Object.fromEntries(
    ['sent', ...STATES, 'content_differs'].map((name) => [name, { type: 'integer', minimum: 0 }]),
  ),
} as const;

/** The source of schemas/promo.reconcile.v1.json, which is generated. */
export const RECONCILE_REQUEST_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: `urn:promo-intake:${REQUEST_SPEC}`,
  title: 'A request for the standing of events',
  description: `Events as they were sent, or their ids alone: at most ${MAX_RECONCILED} of them. Events are compared with the decided ones, and ids are only looked up.`,
  type: 'object',
  properties: {
    event_ids: {
      description: 'Ids to look up.',
      type: 'array',
      maxItems: MAX_RECONCILED,
      items: { type: 'string', minLength: 1 },
    },
    events: {
      description:
        'Events of promo.event.v1. A member `source` with topic, partition and offset names the place of its record in Kafka.',
      type: 'array',
      maxItems: MAX_RECONCILED,
    },
  },
  oneOf: [{ required: ['event_ids'] }, { required: ['events'] }],
} as const;

/** The source of schemas/promo.reconciliation.v1.json, which is generated. */
export const RECONCILIATION_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: `urn:promo-intake:${ANSWER_SPEC}`,
  title: 'The standing of events',
  description:
    'The standing of each event or id of a request, in its order, and totals. The command `reconcile` prints the same objects.',
  type: 'object',
  required: ['spec', 'connection_id', 'entries', 'totals'],
  properties: {
    spec: { const: ANSWER_SPEC },
    connection_id: { description: 'Connection of the request. Only its feed is read.', type: 'string' },
    entries: {
      type: 'array',
      items: {
        type: 'object',
        required: ['event_id', 'state', 'reason', 'action', 'remedy'],
        properties: {
          event_id: { type: ['string', 'null'] },
          state: {
            description:
              'The verdict of the event. Or never_received: the feed has no event of this id. Or undecided: it waits in its topic, or is a dead letter. Or unidentified: it has no usable event_id.',
            enum: [...STATES],
          },
          reason: {
            description: 'Why it was rejected or skipped, or became a dead letter; else null.',
            type: ['string', 'null'],
          },
          action: {
            description:
              'The next step of the sender: none, send it again as it is, correct it, or ask again later.',
            enum: [...ACTIONS],
          },
          remedy: {
            description: 'The action in words; null where there is nothing to do.',
            type: ['string', 'null'],
          },
          needs_new_event_id: {
            description:
              'Whether the corrected event needs a new event_id. Absent where there is nothing to correct.',
            type: 'boolean',
          },
          content_differs: {
            description: 'True where the content differs from that of the decided event. Otherwise absent.',
            const: true,
          },
          details: OUTCOME_PROPERTIES.details,
          first_entry: {
            description: 'The earlier entry with the same event_id, counted from 1. Totals count an id once.',
            type: 'integer',
            minimum: 1,
          },
        },
      },
    },
    totals: {
      type: 'object',
      required: ['entries', 'repeated', 'states', 'reasons', 'actions', 'kinds', 'hours', 'money'],
      properties: {
        entries: { type: 'integer', minimum: 0 },
        repeated: {
          description: 'Entries whose event_id an earlier entry has.',
          type: 'integer',
          minimum: 0,
        },
        states: COUNTS,
        reasons: { type: 'object', additionalProperties: { type: 'integer' } },
        actions: { type: 'object', additionalProperties: { type: 'integer' } },
        kinds: { description: 'By kind of the event.', type: 'object', additionalProperties: COUNTS },
        hours: {
          description: 'By hour of occurred_at, such as 2026-11-21T12Z.',
          type: 'object',
          additionalProperties: COUNTS,
        },
        money: {
          description:
            'Sums by kind and currency, in major units: of all events of the request, and of the accepted ones.',
          type: 'array',
          items: {
            type: 'object',
            required: ['kind', 'currency', 'sent', 'accepted'],
            properties: {
              kind: { type: 'string' },
              currency: { type: 'string' },
              sent: { type: 'string' },
              accepted: { type: 'string' },
            },
          },
        },
      },
    },
  },
} as const;

export type Reconciling = ReturnType<typeof makeReconciling>;

export function makeReconciling({ reconciler, scopeOf }: ReconcileDeps, clock: Clock) {
  const places = new Places({ clock, ...PLACES });
  return {
    places,
    /** @param withinMs the longest wait for a place. @throws StoreError */
    async answer(connectionId: string, body: Buffer, withinMs: number): Promise<HttpAnswer> {
      const place = await places.take(connectionId, withinMs);
      if (typeof place === 'string') return noPlaceRefusal(place);
      try {
        const scope = await scopeOf(connectionId);
        if (scope === undefined) return REFUSALS.noSuchConnection;
        const read = entriesIn(body);
        if ('status' in read) return read;
        const totals = new Totals();
        const firsts = new Map<string, { entryNo: number; content: number }>();
        const texts: string[] = [];
        for (let from = 0; from < read.count; from += AT_ONCE) {
          const entries = read.slice(from, from + AT_ONCE, scope);
          const standings = await reconciler.reconcile(scope, entries);
          for (const [index, each] of entries.entries()) {
            const found = standings[index];
            if (found === undefined) throw new Error('an entry has no standing');
            const standing = withRepeat(each, found, from + index + 1, firsts);
            totals.add(each, standing);
            texts.push(entryText(standing));
          }
        }
        const head = JSON.stringify({ spec: ANSWER_SPEC, connection_id: connectionId }).slice(0, -1);
        const report = JSON.stringify(totals.report());
        return { status: 200, body: `${head},"entries":[${texts.join()}],"totals":${report}}` };
      } finally {
        place.release();
      }
    },
  };
}

interface Entries {
  readonly count: number;
  slice(from: number, to: number, scope: Scope): ReconcileEntry[];
}

function entriesIn(body: Buffer): Entries | HttpAnswer {
  const read = readBody(body, LIMITS);
  if (read.type === 'malformed') return REFUSALS.malformed(read.isJson, read.problem);
  if (read.type === 'too_many') return REFUSALS.tooManyReconciled(MAX_RECONCILED);
  if (read.type === 'too_many_values') return REFUSALS.tooManyValues(LIMITS.maxValues);
  // `readBody` has limited the number of values.
  const json = body.includes('"event_ids"') ? parseJson(body.toString('utf8')) : undefined;
  if (isObject(json) && json.event_ids !== undefined && json.event_id === undefined) return idsIn(json);
  return {
    count: read.events.length,
    slice: (from, to, { connection }) =>
      read.events
        .slice(from, to)
        .map((event) => readEntry(event.bytes?.subarray(event.from, event.to) ?? NO_BYTES, connection)),
  };
}

const NO_BYTES = Buffer.alloc(0);

function idsIn({ event_ids: ids, events }: Record<string, unknown>): Entries | HttpAnswer {
  if (events !== undefined) return REFUSALS.malformed(true, 'the body has both events and event_ids');
  if (!Array.isArray(ids) || !ids.every(isUsableId))
    return REFUSALS.malformed(true, 'event_ids is not an array of ids, each a text that is not empty');
  if (ids.length > MAX_RECONCILED) return REFUSALS.tooManyReconciled(MAX_RECONCILED);
  const list: readonly string[] = ids;
  return { count: list.length, slice: (from, to) => list.slice(from, to).map((id) => anId(id, null)) };
}

function isUsableId(id: unknown): id is string {
  return typeof id === 'string' && id !== '' && id.isWellFormed() && !id.includes('\0');
}

function withRepeat(
  entry: ReconcileEntry,
  standing: Standing,
  entryNo: number,
  firsts: Map<string, { entryNo: number; content: number }>,
): Standing {
  if (entry.eventId === null) return standing;
  const content = contentOf(entry);
  const first = firsts.get(entry.eventId);
  if (first !== undefined) return repeated(standing, first.entryNo, contentsDiffer(first.content, content));
  firsts.set(entry.eventId, { entryNo, content });
  return standing;
}

function entryText(standing: Standing): string {
  const { repeatOf } = standing;
  return JSON.stringify({
    ...standingFields(standing),
    ...(repeatOf !== undefined && { first_entry: repeatOf }),
  });
}

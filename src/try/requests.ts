/** The paths of a throwaway intake beside the webhook: its page, its lists, and the reset. */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { serializeErrorBody } from '../contract/error-body';
import { REASONS } from '../domain/verdict/reasons';
import { nearest } from '../lib/did-you-mean';
import { messageOf } from '../lib/errors';
import { quoted } from '../lib/printable';
import { type EventFilters, type EventLog, MAX_LISTED_EVENTS } from './event-log';

/**
 * The page is the same for every request and holds no event: its script asks for the events, and writes them
 * as text alone. So no field of an event becomes markup.
 */
const DIRECTORY = join(__dirname, '..', '..', 'pages', 'try');

/** Nothing from another address, no inline script or style, and no frame around it. */
const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"],
    ...['img-src data:', "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ].join('; '),
  'referrer-policy': 'no-referrer',
};

const pageFile = (name: string, type: string) => ({
  type: `${type}; charset=utf-8`,
  body: readFileSync(join(DIRECTORY, name), 'utf8'),
});
const PAGE = new Map([
  ['/try', pageFile('page.html', 'text/html')],
  ['/try/page.js', pageFile('page.js', 'text/javascript')],
  ['/try/page.css', pageFile('page.css', 'text/css')],
]);

export interface TryDeps {
  readonly log: Pick<EventLog, 'listEvents' | 'listRefusals'>;
  /** Forgets every event. */
  readonly reset: () => Promise<void>;
}

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const JSON_TYPE = 'application/json; charset=utf-8';
const PARAMETERS = ['verdict', 'reason', 'connection', 'after', 'limit'] as const;
const VERDICTS: readonly string[] = ['accepted', 'rejected', 'skipped', 'duplicate'];
const REASON_NAMES: readonly string[] = REASONS.map(({ name }) => name);
const DEFAULT_LIMIT = 500;

/** @returns a function that answers a request of these paths, and returns false for any other */
export function makeTryRequests(deps: TryDeps) {
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s);
    if (path !== '/' && path !== '/try' && !path.startsWith('/try/')) return false;
    replyTo(request, path, query, deps)
      .catch((error: unknown) => refused(500, 'ERROR_CODE_INTERNAL', messageOf(error)))
      .then(({ status, type, body, headers }) => {
        response.writeHead(status, {
          'content-type': type,
          'content-length': Buffer.byteLength(body),
          // A page that was left open must not hold a network connection.
          'cache-control': 'no-store',
          'x-content-type-options': 'nosniff',
          connection: 'close',
          ...headers,
        });
        response.end(request.method === 'HEAD' ? undefined : body);
      });
    return true;
  };
}

async function replyTo(
  { method = '', headers }: IncomingMessage,
  path: string,
  query: string,
  { log, reset }: TryDeps,
): Promise<Reply> {
  if (path === '/try/reset') {
    if (method !== 'POST') return wrongMethod('POST');
    // A page of another site must not empty the intake of its visitor.
    if (!['same-origin', 'none', undefined].includes(headers['sec-fetch-site']?.toString()))
      return refused(403, 'ERROR_CODE_BUSINESS_REJECTED', 'forbidden: a page of another site sent this');
    await reset();
    return { status: 200, type: JSON_TYPE, body: log.listEvents({ after: 0, limit: 0 }) };
  }
  const file = PAGE.get(path);
  const read = file === undefined ? READERS[path] : () => ({ status: 200, ...file, headers: PAGE_HEADERS });
  if (read === undefined)
    return refused(
      404,
      'ERROR_CODE_INVALID_REQUEST',
      `invalid request: the paths are /try, /try/events, /try/refusals and POST /try/reset`,
    );
  if (method !== 'GET' && method !== 'HEAD') return wrongMethod('GET, HEAD');
  return read(log, query);
}

const READERS: Readonly<Record<string, (log: TryDeps['log'], query: string) => Reply>> = {
  '/': () => ({ status: 302, type: 'text/plain', body: '', headers: { location: '/try' } }),
  '/try/events'(log, query) {
    const filters = filtersIn(new URLSearchParams(query));
    if (typeof filters === 'string')
      return refused(400, 'ERROR_CODE_INVALID_REQUEST', `invalid request: ${filters}`);
    return { status: 200, type: JSON_TYPE, body: log.listEvents(filters) };
  },
  '/try/refusals': (log) => ({ status: 200, type: JSON_TYPE, body: log.listRefusals() }),
};

/** The filters of a query, or its fault with the remedy. */
function filtersIn(query: URLSearchParams): EventFilters | string {
  for (const name of query.keys()) {
    if (!PARAMETERS.some((known) => known === name))
      return `there is no parameter ${quoted(name)}; the parameters are ${PARAMETERS.join(', ')}`;
    if (query.getAll(name).length > 1) return `${name} is given twice; give it once`;
  }
  const [verdict, reason] = [query.get('verdict') ?? undefined, query.get('reason') ?? undefined];
  const problem = unknownAmong('verdict', verdict, VERDICTS) ?? unknownAmong('reason', reason, REASON_NAMES);
  if (problem !== undefined) return problem;
  const [after, limit] = [
    numberIn(query.get('after'), 0),
    numberIn(query.get('limit'), DEFAULT_LIMIT, MAX_LISTED_EVENTS),
  ];
  if (after === null) return 'after is not a whole number; write the `no` of an event';
  if (limit === null) return `limit is not a whole number up to ${MAX_LISTED_EVENTS}; correct it`;
  return { verdict, reason, connection: query.get('connection') ?? undefined, after, limit };
}

function unknownAmong(name: string, value: string | undefined, known: readonly string[]): string | undefined {
  if (value === undefined || known.includes(value)) return undefined;
  const near = nearest(value, known, (candidate) => Math.max(2, candidate.length / 3));
  const hint = near === undefined ? `use one of ${known.join(', ')}` : `did you mean ${near}?`;
  return `there is no ${name} ${quoted(value)}; ${hint}`;
}

function numberIn(text: string | null, fallback: number, most = Number.MAX_SAFE_INTEGER): number | null {
  if (text === null) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return value <= most ? value : null;
}

function wrongMethod(allow: string): Reply {
  const reply = refused(405, 'ERROR_CODE_INVALID_REQUEST', `invalid request: this path takes ${allow}`);
  return { ...reply, headers: { allow } };
}

function refused(
  status: number,
  code: Parameters<typeof serializeErrorBody>[0]['code'],
  message: string,
): Reply {
  return { status, type: JSON_TYPE, body: serializeErrorBody({ code, message, isRetryable: false }) };
}

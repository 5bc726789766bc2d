/** Checks of the operator's catalogue and token endpoint: requests, and the allowed answers. Pure. */
import { LIMITS, OPERATOR_TOKEN_SECONDS } from '../contract/limits';
import { isObject, parseJson } from '../lib/json';
import {
  type CatalogueProfile,
  type EndpointRequest,
  fieldAt,
  type TokenProfile,
  type WalletProfile,
} from '../wallet/profile';
import type { Scenario } from './scenario';

export interface EndpointReply {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
}

export interface EndpointCheck {
  readonly scenario: Scenario;
  /** The request at a time in seconds since 1970. */
  request(now: number): EndpointRequest;
  /** The expected answer; undefined where the answer is as expected. */
  fault(reply: EndpointReply, now: number): string | undefined;
}

export function endpointChecksFor({ catalogue, tokenEndpoint }: WalletProfile): EndpointCheck[] {
  return [
    ...(catalogue === null ? [] : CATALOGUE.map((row) => catalogueCheck(catalogue, row))),
    ...(tokenEndpoint === null ? [] : TOKEN.map((row) => tokenCheck(tokenEndpoint, row))),
  ];
}

interface CatalogueRow {
  readonly id: string;
  readonly must: string;
  /** The age of the request's time; negative for a time ahead. */
  readonly age?: number;
  readonly limit?: number;
  readonly expect: 'accepted' | 'refused' | 'either';
  /** The most entries of an answer that is accepted. */
  readonly most?: number;
}

/** The request takes time on its way, so the checks keep this far from the bounds. */
const MARGIN_S = 10;
const OLDEST = LIMITS.catalogue_timestamp_age.value;
const AHEAD = LIMITS.catalogue_timestamp_ahead.value;
const [LEAST, MOST] = [LIMITS.catalogue_diff_least.value, LIMITS.catalogue_diff_most.value];

const CATALOGUE: readonly CatalogueRow[] = [
  { id: 'now', must: 'A request of now is accepted.', expect: 'accepted' },
  {
    id: 'old',
    must: 'A request whose time is nearly 5 minutes old is accepted.',
    age: OLDEST - MARGIN_S,
    expect: 'accepted',
  },
  {
    id: 'too-old',
    must: 'A request whose time is more than 5 minutes old is refused.',
    age: OLDEST + MARGIN_S,
    expect: 'refused',
  },
  {
    id: 'ahead',
    must: 'A request whose time is nearly 30 s ahead is accepted.',
    age: MARGIN_S - AHEAD,
    expect: 'accepted',
  },
  {
    id: 'too-far-ahead',
    must: 'A request whose time is more than 30 s ahead is refused.',
    age: -AHEAD - MARGIN_S,
    expect: 'refused',
  },
  {
    id: 'least-limit',
    must: 'A diff with the limit 1 has at most one entry.',
    limit: LEAST,
    most: LEAST,
    expect: 'accepted',
  },
  {
    id: 'most-limit',
    must: 'A diff with the limit 1,000 has at most 1,000 entries.',
    limit: MOST,
    most: MOST,
    expect: 'accepted',
  },
  { id: 'zero-limit', must: 'A diff with the limit 0 is refused.', limit: LEAST - 1, expect: 'refused' },
  {
    id: 'larger-limit',
    must: 'A diff with the limit 1,001 is refused, or has at most 1,000 entries.',
    limit: MOST + 1,
    most: MOST,
    expect: 'either',
  },
  {
    id: 'default-limit',
    must: 'A diff without a limit has at most 200 entries.',
    most: LIMITS.catalogue_diff_default.value,
    expect: 'accepted',
  },
];

function catalogueCheck(profile: CatalogueProfile, row: CatalogueRow): EndpointCheck {
  const { id, must, age = 0, limit, expect, most } = row;
  const rule = row.age === undefined ? '8: catalogue diff limit' : '5 and 8: time of catalogue requests';
  return {
    scenario: { id: `catalogue-${id}`, rule, must, steps: [] },
    request: (now) => {
      const url = new URL(profile.url);
      if (limit !== undefined) url.searchParams.set(profile.limitParameter, String(limit));
      const headers = new Map(profile.headers).set(profile.timestampHeader, String(Math.floor(now) - age));
      return { ...profile, url: url.href, headers };
    },
    fault: ({ status, body }) => {
      if (status !== 200) {
        const isRefusal = status >= 400 && status < 500;
        return expect === 'accepted' || !isRefusal ? expected(expect) : undefined;
      }
      if (expect === 'refused') return expected(expect);
      const items = fieldAt(parseJson(body), profile.items);
      if (!Array.isArray(items)) return `a list at ${profile.items} (catalogue.items)`;
      return most === undefined || items.length <= most
        ? undefined
        : `at most ${most} entries, not ${items.length}`;
    },
  };
}

function expected(expect: CatalogueRow['expect']): string {
  return expect === 'accepted' ? 'HTTP 200' : 'a status from 400 to 499';
}

interface TokenRow {
  readonly id: string;
  readonly rule: string;
  readonly must: string;
  fault(profile: TokenProfile, reply: EndpointReply, now: number): string | undefined;
}

const { shortest, longest } = OPERATOR_TOKEN_SECONDS;

const TOKEN: readonly TokenRow[] = [
  {
    id: 'in-time',
    rule: '8: token endpoint answer',
    must: 'The token endpoint answers within 1.5 s.',
    fault: (_, { status, ms }) => {
      if (status !== 200) return 'HTTP 200';
      const { value } = LIMITS.token_endpoint_answer;
      return ms <= value ? undefined : `an answer within ${value} ms, not ${Math.round(ms)} ms`;
    },
  },
  {
    id: 'expiry',
    rule: '5 and 8: operator token expiry',
    must: `The token has an expiry of a few minutes (by our reading ${shortest} to ${longest} s).`,
    fault: (profile, { body }, now) => {
      const expiry = readTime(fieldAt(claimsOf(profile, body), profile.expiry));
      if (expiry === undefined) return `a time at ${profile.expiry} (token_endpoint.expiry)`;
      const seconds = Math.round(expiry - now);
      return seconds >= shortest && seconds <= longest
        ? undefined
        : `an expiry in ${shortest} to ${longest} s, not in ${seconds} s`;
    },
  },
  {
    id: 'player',
    rule: '5: player tokens carry external_player_id',
    must: 'The token names its player.',
    fault: (profile, { body }) => {
      const id = fieldAt(claimsOf(profile, body), profile.playerId);
      const bytes = typeof id === 'string' ? Buffer.byteLength(id) : 0;
      if (bytes > 0 && bytes <= LIMITS.player_ref_bytes.value) return undefined;
      return `a text of 1 to ${LIMITS.player_ref_bytes.value} bytes at ${profile.playerId} (token_endpoint.player_id)`;
    },
  },
];

function tokenCheck(profile: TokenProfile, { id, rule, must, fault }: TokenRow): EndpointCheck {
  return {
    scenario: { id: `token-${id}`, rule, must, steps: [] },
    request: () => profile,
    fault: (reply, now) => fault(profile, reply, now),
  };
}

/** The claims of the token, or the answer itself. A signature is not checked: the operator made it. */
function claimsOf({ jwt }: TokenProfile, body: string): unknown {
  const answer = parseJson(body);
  if (jwt === null) return answer;
  const token = fieldAt(answer, jwt);
  const payload = typeof token === 'string' ? token.split('.')[1] : undefined;
  const claims =
    payload === undefined ? undefined : parseJson(Buffer.from(payload, 'base64url').toString('utf8'));
  return isObject(claims) ? claims : undefined;
}

/** Seconds since 1970. A number above 10^11 is in milliseconds: as seconds it would be the year 5138. */
function readTime(value: unknown): number | undefined {
  if (typeof value === 'number' && Number.isFinite(value)) return value > 1e11 ? value / 1_000 : value;
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) ? ms / 1_000 : undefined;
}

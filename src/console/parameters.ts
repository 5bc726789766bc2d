/** Reads the parameters of a page. Pure. */
import { isStorable } from '../domain/event/payload';
import { quoted } from '../lib/printable';

/** The address has a parameter that the page cannot use. */
export class BadParameter extends Error {
  override readonly name = 'BadParameter';
}

/** The ranges of time that a page may show, each with the length of its buckets. */
export const RANGES = {
  '1h': { label: '1 hour', ms: 3_600_000, stepMs: 60_000 },
  '6h': { label: '6 hours', ms: 6 * 3_600_000, stepMs: 6 * 60_000 },
  '24h': { label: '24 hours', ms: 24 * 3_600_000, stepMs: 30 * 60_000 },
  '7d': { label: '7 days', ms: 7 * 86_400_000, stepMs: 3 * 3_600_000 },
} as const;
export type RangeName = keyof typeof RANGES;
const DEFAULT_RANGE = '1h';

export interface TimeRange {
  readonly name: RangeName;
  readonly since: Date;
  readonly until: Date;
  readonly stepMs: number;
  /** Whether the range ends now. */
  readonly isCurrent: boolean;
}

export interface Parameters {
  readonly range: TimeRange;
  /** The part of the feed's name behind the operator's id; empty for the operator's own feed. */
  readonly feed: string;
  /** The id of an event or round; null where the address has none. */
  readonly id: string | null;
  /** The id of a promotion; null where the address has none. */
  readonly promotion: string | null;
  /** The pseudonym of a player; null where the address has none. */
  readonly player: string | null;
}
export type ParameterName = 'range' | 'until' | 'feed' | 'id' | 'promotion' | 'player';

const MAX_LENGTH = 4_000;
const EARLIEST = Date.UTC(2000, 0, 1);
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** @param nowMs milliseconds since 1970. @throws BadParameter */
export function readParameters(
  search: URLSearchParams,
  allowed: readonly ParameterName[],
  nowMs: number,
): Parameters {
  for (const name of search.keys()) {
    if (!allowed.some((each) => each === name))
      throw new BadParameter(`${quoted(name)} is no parameter of this page.`);
    if (search.getAll(name).length > 1) throw new BadParameter(`The parameter ${name} is given twice.`);
  }
  return {
    range: readRange(search.get('range') ?? DEFAULT_RANGE, search.get('until'), nowMs),
    feed: readText('feed', search.get('feed') ?? ''),
    id: readId('id', search),
    promotion: readId('promotion', search),
    player: readId('player', search),
  };
}

function readId(name: ParameterName, search: URLSearchParams): string | null {
  const text = search.get(name) ?? '';
  return text === '' ? null : readText(name, text);
}

function readRange(written: string, until: string | null, nowMs: number): TimeRange {
  const name = Object.keys(RANGES).find((each): each is RangeName => each === written);
  if (name === undefined)
    throw new BadParameter(
      `The range ${quoted(written)} is not known. Use one of ${Object.keys(RANGES).join(', ')}.`,
    );
  const { ms, stepMs } = RANGES[name];
  // Whole seconds: the text of a query is then short. The current second is in the range.
  const end = until === null ? (Math.floor(nowMs / 1_000) + 1) * 1_000 : Date.parse(until);
  if (until !== null && (!TIME.test(until) || Number.isNaN(end) || end < EARLIEST))
    throw new BadParameter('The parameter until is no time such as 2026-11-27T05:00:00Z.');
  const last = Math.min(end, (Math.floor(nowMs / 1_000) + 1) * 1_000);
  return { name, since: new Date(last - ms), until: new Date(last), stepMs, isCurrent: until === null };
}

function readText(name: string, text: string): string {
  if (text.length > MAX_LENGTH)
    throw new BadParameter(`The parameter ${name} has more than ${MAX_LENGTH} characters.`);
  if (!isStorable(text, 'any'))
    throw new BadParameter(`The parameter ${name} has a character that no id may have.`);
  return text;
}

/** "2026-11-27T05:00:00Z" */
export function timeText(time: Date): string {
  return `${time.toISOString().slice(0, 19)}Z`;
}

/** An address of the console. Empty values are left out. */
export function linkTo(path: string, values: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(values).filter((each): each is [string, string] => (each[1] ?? '') !== '');
  const query = given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  return query === '' ? path : `${path}?${query}`;
}

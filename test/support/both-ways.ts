/** The two ways of judging an event, which must agree on every event of every test. */
import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import { contentHashOf } from '../../src/domain/event/content-hash';
import type { Judged } from '../../src/domain/event/event';
import { scan } from '../../src/domain/event/fast-scan';
import type { JsonText } from '../../src/domain/event/payload';
import { whyUnreadable } from '../../src/domain/event/unreadable';
import type { Connection } from '../../src/domain/reference';
import { judge } from '../../src/domain/verdict/judge';

const LARGE = 100_000;

/**
 * Judges bytes by the fast way (src/domain/event/fast-scan.ts) where it applies, and expects the same result
 * from the other way.
 *
 * @param text the bytes in the form that the caller passes on, where they are part of other bytes
 */
export function judgeBothWays(
  bytes: Buffer | null,
  connection: Connection | undefined,
  text: JsonText = { type: 'json', bytes },
): Judged {
  const judged = withHash(judge(text, connection));
  // Megabytes that the fast way refuses already went the other way.
  if (bytes !== null && bytes.length > LARGE && scan(bytes, null) === undefined) return judged;
  const slowly = withHash(judgeSlowly(bytes, connection));
  // The quick comparison first; the other one shows the difference.
  if (!isDeepStrictEqual(judged, slowly)) expect(judged).toEqual(slowly);
  return judged;
}

/** Adds the hash of the content, which the fast way leaves to its caller. */
function withHash(judged: Judged): Judged {
  return judged.type === 'keyed' ? { ...judged, contentHash: contentHashOf(judged) } : judged;
}

/** Judges by the parser and the contract alone. A value that is no JSON has no event_id. */
function judgeSlowly(bytes: Buffer | null, connection: Connection | undefined): Judged {
  const unkeyed = (detail: string): Judged => {
    return { type: 'unkeyed', faults: [{ reason: 'no_idempotency_key', field: '', detail }] };
  };
  if (bytes === null) return unkeyed('the record has no value (a tombstone)');
  if (!isUtf8(bytes)) return unkeyed(`the payload ${whyUnreadable(bytes)}`);
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    return unkeyed(`the payload ${whyUnreadable(bytes)}`);
  }
  return judge({ type: 'value', value }, connection);
}

/** The two ways on which an event is judged, which have to agree on all that a test says of it. */
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
 * Judges bytes, by the fast way from bytes to fields where it may be taken (src/domain/event/fast-scan.ts), and expects what the other way says.
 *
 * @param text the bytes as they are handed over, where they are part of others
 */
export function judgeBothWays(
  bytes: Buffer | null,
  connection: Connection | undefined,
  text: JsonText = { type: 'json', bytes },
): Judged {
  const judged = withHash(judge(text, connection));
  // Megabytes that the fast way refuses went the other way already.
  if (bytes !== null && bytes.length > LARGE && scan(bytes, null) === undefined) return judged;
  const slowly = withHash(judgeSlowly(bytes, connection));
  // The quick comparison first; the other one tells the difference.
  if (!isDeepStrictEqual(judged, slowly)) expect(judged).toEqual(slowly);
  return judged;
}

/** The fast way leaves the hash of the content to whoever asks for it. */
function withHash(judged: Judged): Judged {
  return judged.type === 'keyed' ? { ...judged, contentHash: contentHashOf(judged) } : judged;
}

/** By the parser and the contract alone. What is no JSON has no event_id. */
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

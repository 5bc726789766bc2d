/** The detailed cause of a dead letter, in words for the operator who looks for its sender. */
import type { DeadLetterReason } from '../domain/verdict/reasons';
import type { Envelope } from './delivery';

/** At most this many claims of a record are named, each with at most this many characters. */
const MAX_CLAIMS = 3;
const MAX_CLAIM_LENGTH = 64;

/**
 * The detail for the dead letter: the unknown schema id, the header that claims no connection, or the reason
 * why the bytes cannot be read.
 */
export function letterDetail(
  envelope: Pick<Envelope, 'payload' | 'claims'>,
  reason: DeadLetterReason,
): string {
  return reason === 'unclaimed' ? describeClaims(envelope.claims) : letterCause(envelope, reason);
}

/** The same without any text from the sender: a log must not hold such text. */
export function letterCause(
  { payload, claims }: Pick<Envelope, 'payload' | 'claims'>,
  reason: DeadLetterReason,
): string {
  switch (reason) {
    case 'schema_unknown':
      return payload.type === 'schema_unknown'
        ? `the schema registry has no readable schema of id ${payload.schemaId}`
        : 'the schema registry does not know the schema';
    case 'undecodable':
      return payload.type === 'undecodable' ? payload.because : 'the batch cannot be read';
    case 'unclaimed':
      if (claims.length === 0) return NO_CLAIM;
      return isContradiction(claims)
        ? 'the header connection-id claims several connections: the dead letter names them'
        : 'the header connection-id claims no connection of this topic: the dead letter names the claim';
  }
}

const NO_CLAIM =
  'the record has no header connection-id, and its topic does not belong to exactly one connection';

const isContradiction = (claims: readonly string[]): boolean => new Set(claims).size > 1;

function describeClaims(claims: readonly string[]): string {
  if (claims.length === 0) return NO_CLAIM;
  const named = claims.slice(0, MAX_CLAIMS).map(shown).join(', ');
  const more = claims.length > MAX_CLAIMS ? `, and ${claims.length - MAX_CLAIMS} more` : '';
  return isContradiction(claims)
    ? `the header connection-id claims several connections: ${named}${more}`
    : `the header connection-id claims ${named}${more}, which is no connection of this topic`;
}

/** Escaped, since a sender may write any text. */
function shown(claim: string): string {
  const isLong = claim.length > MAX_CLAIM_LENGTH;
  return JSON.stringify(isLong ? `${claim.slice(0, MAX_CLAIM_LENGTH)}...` : claim);
}

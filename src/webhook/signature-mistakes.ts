/**
 * Describes the mistake in a refused request: the sender's developer has no other source.
 * The answer reveals nothing beyond the request's own headers, unless the request was made with the secret.
 */
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { elapsedText } from '../lib/duration';
import { quoted } from '../lib/printable';
import { SIGNATURE_HEADERS, type SignedHeaders, sign } from './signature';

/**
 * A larger body is not hashed again: a client without a secret could make this service compute for each byte.
 */
const MAX_HASHED_BYTES = 65_536;
export const SECRET_AS_TEXT =
  'the secret was used as a text: decode the base64 after whsec_ into bytes first';

/** The length of an HMAC-SHA256 in base64, and in hexadecimal digits. */
const [BASE64_LENGTH, HEX_LENGTH] = [44, 64];
/** A time in milliseconds, for the next 260 years. */
const MILLISECONDS = /^\d{13}$/;

/** Names the signature headers that are missing or empty, such as `missing: webhook-id`. */
export function missingHeaders(headers: IncomingHttpHeaders): string {
  const missing = Object.values(SIGNATURE_HEADERS).filter((name) => typeof headers[name] !== 'string');
  const empty = Object.values(SIGNATURE_HEADERS).filter((name) => headers[name] === '');
  return [
    ...(missing.length > 0 ? [`missing: ${missing.join(', ')}`] : []),
    ...(empty.length > 0 ? [`empty: ${empty.join(', ')}`] : []),
  ].join('; ');
}

/** Describes a time outside the window. @param nowMs milliseconds since 1970 */
export function describeSkew({ timestamp }: SignedHeaders, nowMs: number): string {
  if (MILLISECONDS.test(timestamp)) return `${quoted(timestamp)} is in milliseconds`;
  if (!/^\d{1,12}$/.test(timestamp)) return `${quoted(timestamp)} is not a number of seconds`;
  const ahead = Number(timestamp) - Math.floor(nowMs / 1000);
  return `it is ${elapsedText(Math.abs(ahead))} ${ahead > 0 ? 'ahead of' : 'behind'} the time here`;
}

/** Describes a request without a valid signature. */
export function describeSignature(secrets: readonly Buffer[], headers: SignedHeaders, body: Buffer): string {
  const mistakes = new Set(headers.signatures.map(mistakeOfForm));
  if (!mistakes.has(null)) return [...mistakes].join('; ');
  if (body.length <= MAX_HASHED_BYTES && secrets.some((secret) => isSignedByText(secret, headers, body)))
    return SECRET_AS_TEXT;
  return 'check the secret, and sign exactly the bytes that you send, with the webhook-id and webhook-timestamp of the headers';
}

/** @returns null if the signature has the right form */
export function mistakeOfForm(signature: string): string | null {
  const [version = '', ...rest] = signature.split(',');
  const text = rest.join(',');
  if (rest.length === 0) return 'a signature begins with "v1,"';
  if (version !== 'v1') return `the version is ${quoted(version)}, and only v1 is supported`;
  if (text.length === HEX_LENGTH && /^[0-9a-f]+$/i.test(text))
    return 'the signature is in hexadecimal digits: write its bytes in base64';
  if (/^[\w-]+=*$/.test(text) && /[-_]/.test(text))
    return 'the signature is in base64url: write its bytes in base64, with + and /';
  if (text.length !== BASE64_LENGTH || !/^[A-Za-z0-9+/]+=$/.test(text))
    return `the signature has ${text.length} characters, and an HMAC-SHA256 in base64 has ${BASE64_LENGTH}`;
  return null;
}

/** Whether the sender signed with the secret's text instead of its bytes. */
function isSignedByText(secret: Buffer, headers: SignedHeaders, body: Buffer): boolean {
  const written = secret.toString('base64');
  const given = headers.signatures.map((signature) => Buffer.from(signature));
  return [`whsec_${written}`, written].some((text) => {
    const expected = Buffer.from(sign(Buffer.from(text), headers, body));
    return given.some((each) => each.length === expected.length && timingSafeEqual(each, expected));
  });
}

/** Describes the headers of a body that is not declared as plain JSON. */
export function describeType(headers: IncomingHttpHeaders): string {
  const { 'content-type': type, 'content-encoding': encoding } = headers;
  const came = type === undefined ? 'Content-Type is missing' : `Content-Type is ${quoted(type)}`;
  return encoding === undefined ? came : `${came}, Content-Encoding is ${quoted(encoding)}`;
}

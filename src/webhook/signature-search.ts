/**
 * Finds the part in which a request differs from the one that was signed, for `promo-intake sign --verify`.
 * It has the secrets of all connections, so it reveals more than an answer of the webhook may.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { inOneLine } from '../lib/printable';
import type { SignedHeaders } from './signature';
import { SECRET_AS_TEXT } from './signature-mistakes';

/** The secrets to try, by connection id. The searched connection comes first. */
export interface KnownSecrets {
  readonly connectionId: string;
  readonly secrets: ReadonlyMap<string, readonly Buffer[]>;
}

/** Pairs of differences are tried for bodies up to this size. Each pair hashes the body once. */
const MAX_PAIR_BYTES = 65_536;
/** Other times are tried up to this many seconds away. */
const MAX_OTHER_SECONDS = 900;

/** One assumption about the way in which the sender made the signature. */
interface Variant<T> {
  readonly value: T;
  /** The difference from the right way; null for the right way. */
  readonly differs: string | null;
}

type Layout = (id: string, timestamp: string, body: Buffer) => readonly (string | Buffer)[];

const LAYOUTS: readonly Variant<Layout>[] = [
  right((id, timestamp, body) => [`${id}.${timestamp}.`, body]),
  wrongly('the body alone was signed', (_id, _timestamp, body) => [body]),
  wrongly('the id was left out', (_id, timestamp, body) => [`${timestamp}.`, body]),
  wrongly('the time was left out', (id, _timestamp, body) => [`${id}.`, body]),
  wrongly('time and id were exchanged', (id, timestamp, body) => [`${timestamp}.${id}.`, body]),
  wrongly('the dots were left out', (id, timestamp, body) => [id, timestamp, body]),
  wrongly('line breaks were used instead of dots', (id, timestamp, body) => [`${id}\n${timestamp}\n`, body]),
  wrongly('the body was left out', (id, timestamp) => [`${id}.${timestamp}.`]),
  wrongly('the body was left out, with its dot', (id, timestamp) => [`${id}.${timestamp}`]),
];

const DIGESTS: readonly Variant<string>[] = [
  right('sha256'),
  wrongly('the digest is SHA-1: use SHA-256', 'sha1'),
  wrongly('the digest is SHA-512: use SHA-256', 'sha512'),
];

function right<T>(value: T): Variant<T> {
  return { value, differs: null };
}

function wrongly<T>(differs: string, value: T): Variant<T> {
  return { value, differs };
}

/**
 * The differences between the signed request and the given one, each in words. Empty where the signature is
 * right. Null where no tried difference explains it.
 */
export function findDifferences(
  known: KnownSecrets,
  headers: SignedHeaders,
  body: Buffer,
): readonly string[] | null {
  const given = headers.signatures.flatMap(digestsIn);
  if (given.length === 0) return null;
  const lists = {
    key: keysOf(known),
    body: bodiesOf(body),
    id: idsOf(headers.id),
    timestamp: timesOf(headers.timestamp),
    layout: LAYOUTS,
    digest: DIGESTS,
  };
  type Part = keyof typeof lists;
  const first = {
    key: lists.key[0] ?? right(Buffer.alloc(0)),
    body: right(body),
    id: right(headers.id),
    timestamp: right(headers.timestamp),
    layout: right(LAYOUTS[0]?.value ?? (() => [])),
    digest: right('sha256'),
  };
  const matches = (changed: Partial<typeof first>): readonly string[] | null => {
    const tried = { ...first, ...changed };
    const hmac = createHmac(tried.digest.value, tried.key.value);
    // Headers are latin1 on the wire.
    for (const piece of tried.layout.value(tried.id.value, tried.timestamp.value, tried.body.value))
      typeof piece === 'string' ? hmac.update(piece, 'latin1') : hmac.update(piece);
    const made = hmac.digest();
    if (!given.some((each) => each.length === made.length && timingSafeEqual(each, made))) return null;
    return Object.values(tried).flatMap(({ differs }) => differs ?? []);
  };
  const alone = (part: Part): Partial<typeof first>[] => lists[part].map((variant) => ({ [part]: variant }));
  const parts: readonly Part[] = ['key', 'body', 'id', 'timestamp', 'layout', 'digest'];
  for (const part of parts)
    for (const changed of alone(part)) {
      const found = matches(changed);
      if (found !== null) return found;
    }
  if (body.length > MAX_PAIR_BYTES) return null;
  // A search over other times and another part would take seconds, and explains no common mistake.
  const paired = parts.filter((part) => part !== 'timestamp');
  for (const [index, part] of paired.entries())
    for (const other of paired.slice(index + 1))
      for (const one of alone(part))
        for (const two of alone(other)) {
          const found = matches({ ...one, ...two });
          if (found !== null) return found;
        }
  return null;
}

/** The digests that a signature may stand for, in whatever form it is written. */
function digestsIn(signature: string): Buffer[] {
  const text = signature.includes(',') ? signature.slice(signature.indexOf(',') + 1) : signature;
  return /^([0-9a-f]{2})+$/i.test(text)
    ? [Buffer.from(text, 'hex'), Buffer.from(text, 'base64')]
    : [Buffer.from(text, 'base64')];
}

function keysOf({ connectionId, secrets }: KnownSecrets): Variant<Buffer>[] {
  const own = secrets.get(connectionId) ?? [];
  const others = [...secrets].filter(([id]) => id !== connectionId);
  return [
    ...own.map(right),
    ...own.flatMap((secret) => {
      const base64 = secret.toString('base64');
      return [`whsec_${base64}`, base64, `${base64}\n`, `whsec_${base64}\n`].map((text) =>
        wrongly(SECRET_AS_TEXT, Buffer.from(text)),
      );
    }),
    ...others.flatMap(([id, keys]) =>
      keys.map((key) =>
        wrongly(`the secret is that of ${inOneLine(id)}: sign with the secret of ${connectionId}`, key),
      ),
    ),
  ];
}

const EXACTLY = 'sign exactly the bytes that you send';

function bodiesOf(body: Buffer): Variant<Buffer>[] {
  const variants: Variant<Buffer>[] = [right(body)];
  const add = (differs: string, text: string | Buffer) => {
    const value = typeof text === 'string' ? Buffer.from(text) : text;
    if (!variants.some((each) => each.value.equals(value)))
      variants.push(wrongly(`${differs}: ${EXACTLY}`, value));
  };
  const text = body.toString('utf8');
  add('the body was signed without the line break at its end', text.replace(/\r?\n$/, ''));
  add('the body was signed with a line break at its end', `${text}\n`);
  add('the body was signed without the white space around it', text.trim());
  add('the body was signed with other line breaks', text.replace(/\r\n/g, '\n'));
  add('the body was signed with other line breaks', text.replace(/\r?\n/g, '\r\n'));
  add('the body was signed without its line breaks, as curl -d sends it', text.replace(/\r?\n/g, ''));
  add('the body was signed in latin1', Buffer.from(text, 'latin1'));
  add('an empty body was signed', '');
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return variants;
  }
  const written = 'the body was written again as JSON between signing and sending';
  add(written, JSON.stringify(json));
  for (const indent of [2, 4, '\t']) add(written, JSON.stringify(json, null, indent));
  add(written, spaced(JSON.stringify(json)));
  return variants;
}

/** Compact JSON with a space behind each comma and colon, as Python writes it. */
function spaced(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|[,:]/g, (found) => (found.length === 1 ? `${found} ` : found));
}

function idsOf(id: string): Variant<string>[] {
  return [
    right(id),
    wrongly('webhook-id was empty when it was signed: sign the id of the header', ''),
    wrongly('webhook-id was signed in quotes: sign the id of the header as it is', `"${id}"`),
    wrongly('webhook-id was signed in other letters: sign the id of the header as it is', id.toLowerCase()),
    wrongly('webhook-id was signed in other letters: sign the id of the header as it is', id.toUpperCase()),
  ];
}

function timesOf(timestamp: string): Variant<string>[] {
  const variants = [right(timestamp)];
  if (!/^\d{1,12}$/.test(timestamp)) return variants;
  const sent = Number(timestamp);
  const other = (text: string, form: string) =>
    variants.push(
      wrongly(`webhook-timestamp was ${form} when it was signed: sign the text of the header`, text),
    );
  other(new Date(sent * 1000).toISOString(), 'a date');
  for (let by = 1; by <= MAX_OTHER_SECONDS; by++)
    for (const seconds of [sent - by, sent + by]) other(String(seconds), String(seconds));
  for (let ms = 0; ms < 1000; ms++) other(String(sent * 1000 + ms), 'in milliseconds');
  return variants;
}

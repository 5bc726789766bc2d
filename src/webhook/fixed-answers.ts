/**
 * Answers that are the same for everyone until the service gets a new version: its OpenAPI document, and the
 * page that checks events.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';

const CACHED_SECONDS = 3_600;

export interface FixedAnswer {
  readonly status: 200 | 304;
  /** Made once, so an answer costs no more than its bytes. */
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

export type FixedAnswers = (request: IncomingMessage) => FixedAnswer;

export function makeJsonAnswers(json: object): FixedAnswers {
  return answersWith(Buffer.from(JSON.stringify(json)), { 'content-type': 'application/json' });
}

/** The page with the policy of its own head, and compressed for a reader that accepts it. */
export function makePageAnswers(page: string): FixedAnswers {
  const [, policy = "default-src 'none'"] =
    /http-equiv="content-security-policy" content="([^"]+)"/.exec(page) ?? [];
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    vary: 'accept-encoding',
  };
  const bytes = Buffer.from(page);
  const plain = answersWith(bytes, headers);
  const compressed = answersWith(gzipSync(bytes), { ...headers, 'content-encoding': 'gzip' });
  return (request) => (acceptsGzip(request) ? compressed : plain)(request);
}

function acceptsGzip({ headers }: IncomingMessage): boolean {
  const accepted = headers['accept-encoding'];
  return typeof accepted === 'string' && /(^|,)\s*gzip\s*(;\s*q=(1|0\.[1-9])[\d.]*\s*)?(,|$)/i.test(accepted);
}

function answersWith(body: Buffer, own: Readonly<Record<string, string>>): FixedAnswers {
  const etag = `"${createHash('sha256').update(body).digest('hex').slice(0, 16)}"`;
  const { 'content-type': type = '', ...others } = own;
  const headers = { ...others, etag, 'cache-control': `public, max-age=${CACHED_SECONDS}` };
  return ({ headers: { 'if-none-match': known } }) => {
    const tags = known?.split(',').map((tag) => tag.trim().replace(/^W\//, '')) ?? [];
    const isKnown = tags.includes(etag) || tags.includes('*');
    return isKnown
      ? { status: 304, body: Buffer.alloc(0), headers }
      : { status: 200, body, headers: { 'content-type': type, ...headers } };
  };
}

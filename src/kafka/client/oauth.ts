/**
 * Authenticates to brokers by OAUTHBEARER: with tokens from an authorization server, by the grant
 * client_credentials.
 *
 * - https://www.rfc-editor.org/rfc/rfc6749#section-4.4
 * - https://www.rfc-editor.org/rfc/rfc7628#section-3
 */
import { KafkaJSConnectionError, KafkaJSNonRetriableError, type Mechanism } from 'kafkajs';
import { causeOf, fetchProblem } from '../../lib/errors';
import { isObject, parseJson } from '../../lib/json';
import { readAnswer } from '../../lib/read-limited';

export interface TokenSource {
  readonly endpoint: string;
  readonly clientId: string;
  readonly clientSecret: () => string;
  readonly scope: string | undefined;
}

/** Time limit of one request to the token endpoint, with its response. */
const TOKEN_TIMEOUT_MS = 5_000;
/**
 * A token is replaced after this share of its lifetime: a broker refuses a token that expires on its way
 * there.
 */
const USED_SHARE = 0.8;
/**
 * A token is replaced at the latest this long before its end. A broker may end a session with its token. The
 * client authenticates again 10 s before that end, and a broker accepts that once a second at most.
 */
const RESERVE_SECONDS = 15;
/** Lifetime of a token if the server gives none. */
const DEFAULT_LIFETIME_SECONDS = 60;
/** The first words of every error about the endpoint. */
const ENDPOINT = 'the token endpoint';
const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * The mechanism by which the client authenticates. The client's own OAUTHBEARER takes a refused token for
 * accepted, and then finds its connection closed.
 *
 * The mechanism throws KafkaJSNonRetriableError when the token endpoint refuses us. Every other failure is a
 * KafkaJSConnectionError, after which the client opens a new connection. On the old one the broker accepts
 * nothing but a token.
 */
export function tokenMechanism(source: TokenSource, now: () => number): Mechanism {
  const tokens = makeTokens(source, now);
  return {
    mechanism: 'OAUTHBEARER',
    authenticationProvider: ({ saslAuthenticate }) => ({
      async authenticate() {
        const token = await tokens.get();
        const refusal = await saslAuthenticate({
          request: { encode: () => sized(`n,,\u0001auth=Bearer ${token}\u0001\u0001`) },
          response: { decode: (bytes) => bytes.subarray(SIZE_BYTES), parse: (bytes) => bytes.toString() },
        });
        if (!refusal) return;
        tokens.forget();
        throw new KafkaJSConnectionError(
          `SASL OAUTHBEARER authentication failed${codeIn(refusal, 'status')}`,
        );
      },
    }),
  };
}

const SIZE_BYTES = 4;

/** The message of a mechanism in the client's format: int32 length in big endian, then the text. */
function sized(message: string): Buffer {
  const bytes = Buffer.from(message);
  const size = Buffer.alloc(SIZE_BYTES);
  size.writeInt32BE(bytes.length);
  return Buffer.concat([size, bytes]);
}

/**
 * Keeps the current token, and requests a new one before it expires. Concurrent callers share one request.
 */
function makeTokens(source: TokenSource, now: () => number) {
  let token: { value: string; useUntil: number } | null = null;
  let request: Promise<string> | null = null;

  async function renew(): Promise<string> {
    const requestedAt = now();
    const { value, seconds } = await requestToken(source);
    const usedSeconds = Math.min(seconds * USED_SHARE, seconds - RESERVE_SECONDS);
    token = { value, useUntil: requestedAt + usedSeconds * 1000 };
    return value;
  }

  return {
    async get(): Promise<string> {
      if (token !== null && now() < token.useUntil) return token.value;
      request ??= renew().finally(() => {
        request = null;
      });
      return request;
    },
    forget(): void {
      token = null;
    },
  };
}

async function requestToken(source: TokenSource): Promise<{ value: string; seconds: number }> {
  const { clientId, clientSecret, endpoint, scope } = source;
  // Both are form-encoded before they become a user and a password (RFC 6749, 2.3.1).
  const credentials = [clientId, clientSecret()].map((text) => encodeURIComponent(text)).join(':');
  let status: number;
  let answer: string;
  try {
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: {
        accept: 'application/json',
        authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
      },
      body: new URLSearchParams({ grant_type: 'client_credentials', ...(scope && { scope }) }),
      // The target of a redirect would get the credentials too.
      redirect: 'error',
      signal: AbortSignal.timeout(TOKEN_TIMEOUT_MS),
    });
    status = response.status;
    answer = await readAnswer(response.body, MAX_ANSWER_BYTES);
  } catch (error) {
    throw new KafkaJSConnectionError(`${ENDPOINT} did not answer: ${fetchProblem(error)}`, codeOf(error));
  }
  if (status >= 400 && status < 500 && status !== 429)
    throw new KafkaJSNonRetriableError(`${ENDPOINT} refused us: HTTP ${status}${codeIn(answer, 'error')}`);
  const given = parseJson(answer);
  if (status !== 200 || !isObject(given) || typeof given.access_token !== 'string')
    throw new KafkaJSConnectionError(`${ENDPOINT} answered HTTP ${status} without a token`);
  const seconds = Number(given.expires_in ?? DEFAULT_LIFETIME_SECONDS);
  return {
    value: given.access_token,
    seconds: Number.isFinite(seconds) ? seconds : DEFAULT_LIFETIME_SECONDS,
  };
}

/**
 * The OAuth code of a response, such as invalid_client. Nothing else of it: the response may repeat the
 * request.
 */
function codeIn(answer: string, field: 'error' | 'status'): string {
  const parsed = parseJson(answer);
  const code = isObject(parsed) ? parsed[field] : undefined;
  return typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? `: ${code}` : '';
}

function codeOf(error: unknown): { code?: string } {
  const code = causeOf(error)?.code;
  return typeof code === 'string' ? { code } : {};
}

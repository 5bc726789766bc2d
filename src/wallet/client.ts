/** Sends one attempt of a call to a wallet by HTTP. Every failure of the network is a reply, too. */

import { LIMITS } from '../contract/limits';
import { causeOf } from '../lib/errors';
import { readUpTo } from '../lib/read-limited';
import { MAX_REPLY_BYTES, type WalletReply } from './answer';
import type { CallProfile } from './profile';
import { buildRequest, type HttpRequest, pathOf, type WalletSend } from './request';

export interface WalletClient {
  readonly profile: CallProfile;
  /** @param stop ends the attempt. Its reply is then `interrupted` */
  send(send: WalletSend, stop?: AbortSignal): Promise<SentReply>;
}

export interface SentReply {
  readonly reply: WalletReply;
  /** From the begin of the attempt to its end. */
  readonly ms: number;
  /** The code of the error of the network, such as ECONNREFUSED, for the log. Null without an error. */
  readonly networkCode: string | null;
}

export interface WalletClientOptions {
  /** Read for each request, so that a replaced file counts. */
  readonly secret: () => Uint8Array;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonicNow: () => number;
  /** Milliseconds since 1970, for `ts` and for signatures. */
  readonly wallNow: () => number;
  /** Shorter for tests. The contract's by default. */
  readonly deadlineMs?: number;
}

export function makeWalletClient(profile: CallProfile, options: WalletClientOptions): WalletClient {
  const { secret, wallNow } = options;
  return {
    profile,
    send: (attempt, stop) => {
      const path = pathOf(profile, attempt.action);
      return sendRequest(buildRequest(profile, path, attempt, wallNow(), secret), options, stop);
    },
  };
}

/** Sends a request that was built before. @param stop ends it. Its reply is then `interrupted` */
export async function sendRequest(
  { url, headers, body }: HttpRequest,
  {
    monotonicNow,
    deadlineMs = LIMITS.wallet_answer.value,
  }: Pick<WalletClientOptions, 'monotonicNow' | 'deadlineMs'>,
  stop?: AbortSignal,
): Promise<SentReply> {
  const began = monotonicNow();
  const deadline = AbortSignal.timeout(deadlineMs);
  const signal = stop === undefined ? deadline : AbortSignal.any([deadline, stop]);
  const over = (reply: WalletReply, networkCode: string | null = null): SentReply => ({
    reply,
    networkCode,
    ms: monotonicNow() - began,
  });
  const failed = (error: unknown): SentReply => {
    if (deadline.aborted) return over({ type: 'nothing', cause: 'timeout' });
    if (stop?.aborted === true) return over({ type: 'nothing', cause: 'interrupted' });
    return over({ type: 'nothing', cause: 'unreachable' }, codeOf(error));
  };
  let response: Response;
  try {
    // The target of a redirect is not the approved wallet, and would get the player's data.
    response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal });
  } catch (error) {
    return failed(error);
  }
  const read = response.body === null ? new Uint8Array() : await readReplyBody(response.body);
  if (signal.aborted) return failed(signal.reason);
  return over({
    type: 'http',
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: read,
    ms: monotonicNow() - began,
  });
}

/** The whole body, or why there is none. The caller knows whether the deadline cut it off. */
export async function readReplyBody(
  body: AsyncIterable<Uint8Array>,
): Promise<Uint8Array | 'too_large' | 'cut_off'> {
  try {
    return (await readUpTo(body, MAX_REPLY_BYTES)) ?? 'too_large';
  } catch {
    return 'cut_off';
  }
}

/** Only the code: a message may repeat the address or bytes of the reply. */
function codeOf(error: unknown): string {
  const code = causeOf(error)?.code;
  return typeof code === 'string' && /^[A-Z0-9_]{1,60}$/.test(code) ? code : 'unknown';
}

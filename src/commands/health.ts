/** `promo-intake health`: asks a worker whether it lives, for places that have neither curl nor a shell. */
import { readConfig } from '../config';
import { messageOf } from '../transports/record-source';

/** Below the time that those who ask give it, so that they hear why. */
const ANSWER_WITHIN_MS = 4_000;

/** @param url undefined: /livez of the worker of this machine @returns the exit code */
export async function health(url: string | undefined): Promise<number> {
  if (url !== undefined && !/^https?:\/\//.test(url)) {
    console.error(`--url is no address: ${url}; write http://host:port/readyz`);
    return 2;
  }
  const asked = url ?? `http://127.0.0.1:${readConfig(process.env, ['HTTP_PORT']).HTTP_PORT}/livez`;
  try {
    const answer = await fetch(asked, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    console.log(`${asked}: HTTP ${answer.status}: ${(await answer.text()).trim()}`);
    return answer.ok ? 0 : 1;
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    console.error(`${asked}: no answer: ${messageOf(cause)}`);
    return 1;
  }
}

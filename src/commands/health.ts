/** `promo-intake health`: asks a worker whether it lives, for places that have neither curl nor a shell. */
import { readConfig } from '../config';
import { messageOf } from '../errors';
import { DONE, FAILED, USAGE } from './exit-codes';

/** Below the time that those who ask give it, so that they hear why. */
const ANSWER_WITHIN_MS = 4_000;

/** @param url undefined: /livez of the worker of this machine @returns the exit code */
export async function health(url: string | undefined): Promise<number> {
  const problem = url === undefined ? undefined : problemOf(url);
  if (problem !== undefined) {
    console.error(`--url ${problem}; write http://host:port/readyz`);
    return USAGE;
  }
  const asked = url ?? `http://127.0.0.1:${readConfig(process.env, ['HTTP_PORT']).HTTP_PORT}/livez`;
  try {
    const answer = await fetch(asked, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    console.log(`${asked}: HTTP ${answer.status}: ${(await answer.text()).trim()}`);
    return answer.ok ? DONE : FAILED;
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    console.error(`${asked}: no answer: ${messageOf(cause)}`);
    return FAILED;
  }
}

/** In words that do not repeat it: it may hold a password. */
function problemOf(url: string): string | undefined {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return 'is no address';
  const { username, password } = new URL(url);
  return username === '' && password === '' ? undefined : 'holds a user or a password, which nobody asks for';
}

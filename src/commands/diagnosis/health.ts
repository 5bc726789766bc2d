/** `promo-intake health`: checks that a worker is alive, where neither curl nor a shell is available. */
import { get as getHttp, type IncomingMessage } from 'node:http';
import { get as getHttps } from 'node:https';
import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { readConfig } from '../../config/config';
import { messageOf } from '../../lib/errors';
import { readAnswer } from '../../lib/read-limited';

/** Shorter than the usual timeout of a health check, so that the output says why it failed. */
const ANSWER_WITHIN_MS = 4_000;
const MAX_ANSWER_BYTES = 64 * 1024;

/** @param url undefined for /livez of the worker on this machine @returns the exit code */
export async function health(url: string | undefined): Promise<number> {
  const problem = url === undefined ? undefined : problemOf(url);
  if (problem !== undefined) {
    console.error(`--url ${problem}; write http://host:port/readyz`);
    return USAGE;
  }
  const port = url === undefined ? readConfig(process.env, ['HTTP_PORT']).HTTP_PORT : undefined;
  if (port === 0) {
    console.error('HTTP_PORT=0 is any free port: give the address with --url');
    return USAGE;
  }
  const target = url ?? `http://127.0.0.1:${port}/livez`;
  try {
    const { status, text } = await answerOf(target, AbortSignal.timeout(ANSWER_WITHIN_MS));
    console.log(`${target}: HTTP ${status}: ${text.trim()}`);
    return status === 200 ? DONE : FAILED;
  } catch (error) {
    const place = url === undefined ? 'HTTP_PORT is its port' : '--url is its address';
    console.error(
      `${target}: no answer: ${messageOf(error)}. Check that the process runs, and that ${place}`,
    );
    return FAILED;
  }
}

/** Does not use fetch, which refuses ports that browsers block, such as 10080. */
async function answerOf(url: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
  const get = url.startsWith('https:') ? getHttps : getHttp;
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { signal, agent: false }, resolve).once('error', reject);
  });
  return { status: answer.statusCode ?? 0, text: await readAnswer(answer, MAX_ANSWER_BYTES) };
}

/** The problem of a URL. The text never repeats the URL, which may hold a password. */
function problemOf(url: string): string | undefined {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return 'is not an address';
  const { username, password } = new URL(url);
  return username === '' && password === '' ? undefined : 'has a user or a password, which is not used';
}

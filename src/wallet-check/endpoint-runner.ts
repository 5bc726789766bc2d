/** Sends the requests of the catalogue and token checks. */
import { fetchProblem } from '../lib/errors';
import { readAnswer } from '../lib/read-limited';
import type { EndpointRequest } from '../wallet/profile';
import type { EndpointCheck, EndpointReply } from './endpoints';
import type { CheckProblem } from './play';
import type { ScenarioResult } from './runner';

const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** Far beyond the 1.5 s of a token, so that a late answer is seen as one. */
const GIVE_UP_MS = 10_000;
const SHOWN_CHARACTERS = 200;

export interface EndpointDeps {
  readonly stop: AbortSignal;
  readonly progress: (done: number, result: ScenarioResult) => void;
}

export async function runEndpointChecks(
  checks: readonly EndpointCheck[],
  { stop, progress }: EndpointDeps,
): Promise<ScenarioResult[]> {
  const results: ScenarioResult[] = [];
  for (const check of checks) {
    const result = await runCheck(check, stop);
    results.push(result);
    progress(results.length, result);
  }
  return results;
}

async function runCheck(check: EndpointCheck, stop: AbortSignal): Promise<ScenarioResult> {
  const { scenario } = check;
  const notRun: ScenarioResult = {
    scenario,
    status: 'not_run',
    reason: 'the check was interrupted',
    problems: [],
    requests: 0,
    seconds: 0,
  };
  if (stop.aborted) return notRun;
  const now = Date.now() / 1_000;
  const request = check.request(now);
  const startedAt = performance.now();
  const reply = await send(request, stop);
  if (stop.aborted) return notRun;
  const problem = problemOf(check, request, reply, now);
  const [status, problems] =
    problem === undefined ? (['passed', []] as const) : (['failed', [problem]] as const);
  const seconds = (performance.now() - startedAt) / 1_000;
  return { scenario, status, reason: null, problems, requests: 1, seconds };
}

function problemOf(
  check: EndpointCheck,
  request: EndpointRequest,
  reply: EndpointReply | string,
  now: number,
): CheckProblem | undefined {
  const sent = `${request.method} ${request.url}`;
  if (typeof reply === 'string') return { sent, came: `no answer: ${reply}`, expected: 'an answer' };
  const expected = check.fault(reply, now);
  if (expected === undefined) return undefined;
  // The body of a token endpoint is a secret, and the body of a catalogue is long.
  const isToken = check.scenario.id.startsWith('token-');
  const shown = isToken ? `${reply.body.length} characters` : reply.body.slice(0, SHOWN_CHARACTERS);
  return { sent, came: `HTTP ${reply.status} after ${Math.round(reply.ms)} ms: ${shown}`, expected };
}

/** @returns the reply, or why there is none */
async function send(request: EndpointRequest, stop: AbortSignal): Promise<EndpointReply | string> {
  const { url, method, headers, body } = request;
  const startedAt = performance.now();
  try {
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: { accept: 'application/json', ...jsonType(request), ...Object.fromEntries(headers) },
      body: method === 'POST' && body !== null ? JSON.stringify(body) : null,
      signal: AbortSignal.any([stop, AbortSignal.timeout(GIVE_UP_MS)]),
    });
    const text = await readAnswer(response.body, MAX_BODY_BYTES);
    return { status: response.status, body: text, ms: performance.now() - startedAt };
  } catch (error) {
    return fetchProblem(error);
  }
}

function jsonType({ method, body }: EndpointRequest): Record<string, string> {
  return method === 'POST' && body !== null ? { 'content-type': 'application/json' } : {};
}

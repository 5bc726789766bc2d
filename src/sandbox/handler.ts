/** The stages of a call: path, body, signature, permission, ordered fault, behaviour. */
import type { Logger } from 'pino';
import type { Clock } from '../lib/clock';
import { NEVER } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { orderedError, refuse, type SandboxAnswer } from './answers';
import { authenticate, type Caller, type KnownKeys, type SignedCall, whyForbidden } from './authentication';
import { hashOf, type Operations } from './operations';
import {
  DELAY_HEADER,
  FAULT_HEADER,
  type OrderedFault,
  readDelayOrder,
  readFaultOrder,
} from './ordered-faults';
import { SANDBOX_ROUTES, type SandboxRoute } from './routes';
import type { SessionStore } from './session-store';

const JSON_TYPE = /^application\/json\s*(;|$)/i;
const utf8 = new TextDecoder('utf-8', { fatal: true });

export interface HandlerDeps {
  readonly keys: KnownKeys;
  readonly operations: Operations;
  readonly store: Pick<SessionStore, 'countFault'>;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly wallNow: () => number;
  readonly logger: Logger;
}

/** A call as it came. */
export interface ReceivedCall extends SignedCall {
  readonly requestId: string;
}

export interface SandboxHandler {
  /** The answer to a head that has no right to a body; undefined where the body is read. */
  refuseHead(method: string, path: string): SandboxAnswer | undefined;
  /** Never throws. */
  answer(call: ReceivedCall): Promise<SandboxAnswer>;
}

const ROUTES: ReadonlyMap<string, SandboxRoute> = new Map(SANDBOX_ROUTES.map((route) => [route.path, route]));

export function makeSandboxHandler(deps: HandlerDeps): SandboxHandler {
  const { keys, operations, store, clock, wallNow, logger } = deps;

  async function answerCall(call: ReceivedCall, route: SandboxRoute): Promise<SandboxAnswer> {
    const caller = authenticate(call, keys, wallNow());
    if ('status' in caller) return caller;
    const forbidden = whyForbidden(caller, route.isWrite);
    if (forbidden !== undefined) return forbidden;
    const [fault, delay] = [
      readFaultOrder(headerOf(call, FAULT_HEADER)),
      readDelayOrder(headerOf(call, DELAY_HEADER)),
    ];
    const problems = [fault, delay].flatMap((each) => ('problem' in each ? [each.problem] : []));
    if ('problem' in fault || 'problem' in delay) return refuse('invalid_request', problems.join('; '));
    return performWithOrders(call, route, caller, fault.order, delay.order ?? 0);
  }

  async function performWithOrders(
    call: ReceivedCall,
    route: SandboxRoute,
    caller: Caller,
    fault: OrderedFault | null,
    delayMs: number,
  ): Promise<SandboxAnswer> {
    const isFailing = fault !== null && (await failsNow(call, route, caller, fault));
    if (fault !== null && isFailing && !fault.isAfter) {
      await clock.sleep(delayMs, NEVER);
      return orderedError(fault.name, fault.token);
    }
    const answer = await performCall(call, route, caller, delayMs);
    // A call that is refused has no effect whose answer could be lost.
    return fault !== null && isFailing && answer.status < 300
      ? orderedError(fault.name, fault.token)
      : answer;
  }

  /** The same call is the one with the same operation, key and body, and the same ordered fault. */
  async function failsNow(
    call: ReceivedCall,
    { operation }: SandboxRoute,
    { operator, key }: Caller,
    { times, name, token }: OrderedFault,
  ): Promise<boolean> {
    if (times === null) return true;
    const hash = hashOf([operation, key.id, name, token ?? null, Buffer.from(call.body).toString('base64')]);
    return (await store.countFault(operator.id, hash)) <= times;
  }

  async function performCall(
    call: ReceivedCall,
    { operation }: SandboxRoute,
    { operator }: Caller,
    delayMs: number,
  ): Promise<SandboxAnswer> {
    const perform = operations[operation];
    if (perform === undefined)
      return refuse('unsupported action', `the contract shows only the name of ${operation}`);
    const type = headerOf(call, 'content-type') ?? '';
    if (!JSON_TYPE.test(type) || (headerOf(call, 'content-encoding') ?? 'identity') !== 'identity')
      return refuse(
        'invalid request',
        'Content-Type has to be application/json, without a Content-Encoding',
        415,
      );
    const json = readJson(call.body);
    if (json === undefined) return refuse('invalid json body', 'the body is not JSON in UTF-8');
    return perform({ operator, json: json.value, delayMs });
  }

  return {
    refuseHead(method, path) {
      if (!ROUTES.has(pathOf(path)))
        return refuse('invalid request', 'no call has this path; GET /openapi.json lists the calls', 404);
      if (method === 'POST') return undefined;
      const refusal = refuse('invalid request', 'send calls by POST', 405);
      return { ...refusal, headers: { ...refusal.headers, allow: 'POST' } };
    },
    async answer(call) {
      const route = ROUTES.get(pathOf(call.path));
      if (route === undefined) return refuse('internal error', 'the call was not checked');
      try {
        const answer = await answerCall(call, route);
        const { operation } = route;
        logger.debug(
          { requestId: call.requestId, operation, status: answer.status },
          'sandbox call answered',
        );
        return answer;
      } catch (error) {
        logger.error(
          { requestId: call.requestId, operation: route.operation, error: messageOf(error) },
          'sandbox call failed',
        );
        return refuse('internal error', 'the sandbox failed; its log has the cause under this request id');
      }
    },
  };
}

function pathOf(path: string): string {
  return path.split('?')[0] ?? '';
}

function headerOf({ headers }: SignedCall, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** Undefined where the bytes are not JSON in UTF-8. */
function readJson(bytes: Uint8Array): { readonly value: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes));
    return { value };
  } catch {
    return undefined;
  }
}

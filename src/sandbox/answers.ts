/**
 * Answers of the sandbox. An error has the status, code and tokens of the contract's table. Each answer says
 * that a sandbox gave it, in a header and in its body.
 */
import { serializeErrorBody } from '../contract/error-body';
import {
  isRetryable,
  type MessageToken,
  type ServiceErrorName,
  type ServiceErrorRow,
  serviceError,
  serviceErrorWith,
} from '../contract/service-errors';

export const SANDBOX_HEADER = { name: 'x-sandbox', value: 'promo-intake' } as const;
const RETRY_AFTER_SECONDS = '1';

export interface SandboxAnswer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** An answer with status 200 or 202. */
export function success(fields: Readonly<Record<string, unknown>>, status: 200 | 202 = 200): SandboxAnswer {
  return { status, body: JSON.stringify({ sandbox: true, ...fields }), headers: {} };
}

/**
 * @param text for people: the cause, and the remedy
 * @param status overrides that of the token's row, where HTTP has a more exact one
 */
export function refuse(token: MessageToken, text: string, status?: number): SandboxAnswer {
  return errorAnswer(serviceErrorWith(token), `${token}: ${text}`, status);
}

/** The error of a row that was ordered by the caller. */
export function orderedError(name: ServiceErrorName, token: MessageToken | undefined): SandboxAnswer {
  const row = serviceError(name);
  const words = token ?? row.tokens[0];
  return errorAnswer(row, `${words === undefined ? '' : `${words}: `}ordered by the request`);
}

function errorAnswer({ codes, status: usual }: ServiceErrorRow, text: string, status = usual): SandboxAnswer {
  const isLater = isRetryable(status);
  return {
    status,
    body: serializeErrorBody({ code: codes[0], message: `${text} (sandbox)`, isRetryable: isLater }),
    headers: isLater ? { 'retry-after': RETRY_AFTER_SECONDS } : {},
  };
}

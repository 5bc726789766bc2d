/**
 * The outer form of a wallet call and of a wallet's failure. The payload of each action, and the success, are
 * not shown: their fields come from an operator's profile. Fields that are not listed are kept as they are.
 */
import { isObject } from '../lib/json';
import { ERROR_CODES, type ErrorCode } from './error-codes';

/** A JSON object whose other fields are of no interest here, and are kept. */
type Open<Known> = Readonly<Known & Record<string, unknown>>;

export type WalletRequest = Open<{
  request_id: string;
  /** The time of the request. Its form is not shown. */
  ts: string | number;
  operator_id: string;
  /** The part of the action. */
  payload: Open<{ meta: Open<{ op_id: string }> }>;
}>;

/** The failure of a wallet call. */
export type WalletFailure = Open<{ status: 'error'; error: Open<{ code: ErrorCode }> }>;

export function walletFailure(code: ErrorCode): WalletFailure {
  return { status: 'error', error: { code } };
}

export type ReadWalletRequest =
  | { readonly type: 'request'; readonly request: WalletRequest }
  /** All faults at once. */
  | { readonly type: 'malformed'; readonly faults: readonly string[] };

/** @returns the value itself, with all of its fields */
export function readWalletRequest(value: unknown): ReadWalletRequest {
  return isWalletRequest(value)
    ? { type: 'request', request: value }
    : { type: 'malformed', faults: envelopeFaults(value) };
}

function isWalletRequest(value: unknown): value is WalletRequest {
  return envelopeFaults(value).length === 0;
}

function envelopeFaults(value: unknown): string[] {
  if (!isObject(value)) return ['the body is no JSON object'];
  const { request_id, ts, operator_id, payload } = value;
  const meta = isObject(payload) ? payload.meta : undefined;
  const rules: readonly (readonly [boolean, string])[] = [
    [isText(request_id), 'request_id is no text'],
    [isText(ts) || (typeof ts === 'number' && Number.isFinite(ts)), 'ts is neither a text nor a number'],
    [isText(operator_id), 'operator_id is no text'],
    [isObject(payload), 'payload is no object'],
    [isObject(meta), 'payload.meta is no object'],
    [isObject(meta) && isText(meta.op_id), 'payload.meta.op_id is no text'],
  ];
  return rules.filter(([holds]) => !holds).map(([, fault]) => fault);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

const TEXT = { type: 'string', minLength: 1 } as const;

/** The source of schemas/wallet.request.v2.json. */
export const WALLET_REQUEST_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:wallet.request.v2',
  title: 'Call of the service to a wallet',
  description:
    'The outer form of all ten actions. The contract grows by fields, so a wallet ignores fields that it does not know. Which fields the payload of an action has is not shown.',
  type: 'object',
  required: ['request_id', 'ts', 'operator_id', 'payload'],
  properties: {
    request_id: { description: 'The id of the request.', ...TEXT },
    ts: {
      description: 'The time of the request. Its form is not shown.',
      type: ['string', 'number'],
      minLength: 1,
    },
    operator_id: { description: 'The operator whose wallet is called.', ...TEXT },
    payload: {
      description: 'The part of the action.',
      type: 'object',
      required: ['meta'],
      properties: {
        meta: {
          description: 'The ids of the call.',
          type: 'object',
          required: ['op_id'],
          properties: {
            op_id: {
              description:
                'The id of the operation. A retry has the same op_id and the same content, and gets the same answer without a second effect. A wallet keeps that answer for at least four months.',
              ...TEXT,
            },
          },
        },
      },
    },
  },
  examples: [
    {
      request_id: '0f3c2a8e-8a55-4f1e-9a4b-0d6b3f1f2a10',
      ts: '2026-11-21T12:00:00Z',
      operator_id: 'acme',
      payload: { meta: { op_id: 'op-1001' } },
    },
  ],
} as const;

/** The source of schemas/wallet.error.v2.json. */
export const WALLET_FAILURE_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:wallet.error.v2',
  title: 'Failure of a wallet call',
  description:
    'A wallet answers a call that fails with HTTP 200 and this body. The statuses 404, 429 and 500 may carry it with ERROR_CODE_UNSUPPORTED_ACTION, ERROR_CODE_RATE_LIMITED and ERROR_CODE_INTERNAL. Any other status, and any of these without the body, is no answer: the service retries, and rolls a bet back.',
  type: 'object',
  required: ['status', 'error'],
  properties: {
    status: { const: 'error' },
    error: {
      type: 'object',
      required: ['code'],
      properties: { code: { description: 'The cause, from a closed list of 15 codes.', enum: ERROR_CODES } },
    },
  },
  examples: [{ status: 'error', error: { code: 'ERROR_CODE_INSUFFICIENT_FUNDS' } }],
} as const;

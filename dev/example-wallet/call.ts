/** Reads the payload of a call: the fields that this wallet needs, or the fault that makes it malformed. */
import { createHash } from 'node:crypto';
import type { WalletAction } from '../../src/contract/actions';
import type { WalletRequest } from '../../src/contract/envelope';
import type { Bugs } from './bugs';

/** A call with all fields that its action needs. Others are empty, or zero. */
export interface WalletCall {
  readonly action: WalletAction;
  readonly opId: string;
  readonly player: string;
  readonly token: string;
  readonly round: string;
  readonly original: string;
  readonly currency: string;
  readonly exponent: number;
  /** Taken from the player. */
  readonly stake: bigint;
  /** Paid to the player. */
  readonly win: bigint;
  /** The same for a repetition, and another for any other call. */
  readonly content: string;
}

const BETS: readonly WalletAction[] = ['debit', 'debit_and_credit'];
const WITH_MONEY: readonly WalletAction[] = [...BETS, 'credit'];
const WITH_ORIGINAL: readonly WalletAction[] = ['rollback', 'reconcile'];
const WITH_TOKEN: readonly WalletAction[] = [...BETS, 'authenticate'];
const BET_TYPES: readonly unknown[] = ['spin', 'bonus'];
/** The largest amount of a bigint column. */
const LARGEST = 2n ** 63n - 1n;

/** @returns undefined where the call is malformed: ERROR_CODE_INVALID_REQUEST */
export function readCall(
  action: WalletAction,
  { payload }: WalletRequest,
  bugs: Bugs,
): WalletCall | undefined {
  const isBet = BETS.includes(action);
  const hasMoney = WITH_MONEY.includes(action);
  const text = (field: string, isNeeded: boolean): string | undefined => {
    const value = payload[field];
    if (typeof value === 'string' && value !== '') return value;
    return value === undefined && !isNeeded ? '' : undefined;
  };
  const player = text('player', true);
  const token = text('token', WITH_TOKEN.includes(action) && !bugs.has('token_not_required'));
  const round = text('round', isBet || action === 'close_round');
  const original = text('original', WITH_ORIGINAL.includes(action));
  const currency = text('currency', hasMoney);
  const amount = hasMoney ? readMinor(payload.amount, bugs) : 0n;
  const win = action === 'debit_and_credit' ? readMinor(payload.win, bugs) : 0n;
  const { exponent = -1 } = payload;
  if (player === undefined || token === undefined || round === undefined) return undefined;
  if (original === undefined || currency === undefined) return undefined;
  if (amount === undefined || win === undefined || typeof exponent !== 'number') return undefined;
  if (isBet && !BET_TYPES.includes(payload.type) && !bugs.has('enum_not_checked')) return undefined;
  if (bugs.has('unknown_fields_refused') && 'x_wallet_check' in payload) return undefined;
  const comparedRound = bugs.has('round_not_compared') ? '' : round;
  // Only known fields: a later version of the service may add fields to a repetition.
  const compared = [action, player, comparedRound, original, currency, exponent, String(amount), String(win)];
  return {
    action,
    player,
    token,
    round,
    original,
    currency,
    exponent,
    opId: bugs.has('op_ids_by_action') ? `${action}:${payload.meta.op_id}` : payload.meta.op_id,
    stake: isBet ? amount : 0n,
    win: action === 'credit' ? amount : win,
    content: createHash('sha256').update(JSON.stringify(compared)).digest('hex'),
  };
}

/** An amount in minor units, as digits: more than zero, and within 64 bits. */
function readMinor(value: unknown, bugs: Bugs): bigint | undefined {
  if (typeof value !== 'string' || !/^-?\d{1,30}$/.test(value)) return undefined;
  const minor = BigInt(value);
  if (minor > LARGEST) {
    if (bugs.has('overflow_breaks')) throw new RangeError('bigint out of range');
    return undefined;
  }
  if (minor === 0n) return bugs.has('zero_taken') ? minor : undefined;
  return minor > 0n || bugs.has('negative_taken') ? minor : undefined;
}

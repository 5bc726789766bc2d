/**
 * The stored calls of wallets: the table promo_store.wallet_calls. Each operation is one statement in one
 * transaction. All times are those of the store's clock, so processes with wrong clocks agree.
 */

import type { Logger } from 'pino';
import { isWalletAction, type WalletAction } from '../contract/actions';
import { isErrorCode } from '../contract/error-codes';
import { messageOf } from '../lib/errors';
import { isObject, parseJson } from '../lib/json';
import { inMilliseconds, numberOf, textOf, timeAhead } from '../postgres/columns';
import type { Row } from '../postgres/pipeline';
import { inTransaction, type Statement, type Store } from '../postgres/transaction';
import type { NoAnswerCause, WalletAnswer } from './answer';
import { CALL_STATES, type CallChange, type CallState, type NewCall, type StoredCall } from './call-change';
import type { CallHistory } from './policy';
import type { CallValues } from './template';

/** A call that this process holds until its lease ends. */
export interface HeldCall extends StoredCall {
  readonly callNo: string;
  readonly leaseNo: number;
  readonly operatorId: string;
  readonly payload: string;
  /** When the attempt in flight began. */
  readonly sendingSince: number;
  /** Whether another process began that attempt, and is gone. Its outcome is unknown. */
  readonly isInterrupted: boolean;
  /** The store's time when it handed the call over. */
  readonly storeNow: number;
}

/** A call as others see it. */
export interface CallView {
  readonly operatorId: string;
  readonly opId: string;
  readonly action: WalletAction;
  readonly state: CallState;
  readonly attempts: number;
  /** Of the last ended attempt, without the body of the reply. Null before its end. */
  readonly answer: WalletAnswer | null;
}

export interface FoundCall {
  readonly view: CallView;
  readonly contentHash: string;
  /** Null once the call is over. */
  readonly payload: string | null;
}

export interface CallStore {
  /**
   * Stores a call whose first attempt begins now. Null where its op_id exists, or where the operator moves to
   * another cell.
   * @throws StoreError
   */
  begin(operatorId: string, call: NewCall, leaseMs: number): Promise<HeldCall | null>;
  /** Takes calls that are due, at most `free` of each operator. @throws StoreError */
  take(free: ReadonlyMap<string, number>, leaseMs: number): Promise<HeldCall[]>;
  /** Stores the end of an attempt. False where the call is no longer held. @throws StoreError */
  end(held: HeldCall, change: CallChange): Promise<boolean>;
  /** @throws StoreError */
  find(operatorId: string, opId: string): Promise<FoundCall | null>;
}

export interface CallLookup {
  /** Those of the calls that are stored. @throws StoreError */
  findAll(operatorId: string, opIds: readonly string[]): Promise<CallView[]>;
}

const at = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)`;
const HISTORY = `attempts, ${inMilliseconds('c.first_sent_at')}, ${inMilliseconds('c.last_sent_at')}, ${inMilliseconds('c.last_ended_at')}, c.last_answer::text, c.is_uncertain`;

const BEGIN_CALL: Statement = {
  name: 'begin_wallet_call',
  text: `insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, due_at, sending_since, lease_no)
select $1, $2, $3, decode($4, 'hex'), $5, $6::text::json, ${timeAhead('$7')}, now(), 1
where not exists (select from promo.moves m where m.operator_id = $1 and (m.direction = 'out' or m.state <> 'done'))
on conflict (operator_id, op_id) do nothing
returning call_no, lease_no, ${inMilliseconds('now()')}`,
};

/** A call whose attempt was interrupted keeps the time of that attempt until its end is stored. */
const TAKE_CALLS: Statement = {
  name: 'take_wallet_calls',
  text: `with due as materialized (
  select c.call_no, c.sending_since is not null as is_interrupted
  from unnest($1::text[], $2::int[]) w (operator_id, free)
  cross join lateral (
    select d.call_no, d.sending_since from promo_store.wallet_calls d
    where d.operator_id = w.operator_id and d.state = 'open' and d.due_at <= now()
    order by d.due_at limit w.free for update skip locked
  ) c
)
update promo_store.wallet_calls c
set lease_no = c.lease_no + 1, due_at = ${timeAhead('$3')}, sending_since = coalesce(c.sending_since, now())
from due where c.call_no = due.call_no
returning c.call_no, c.lease_no, ${inMilliseconds('now()')}, c.operator_id, c.op_id, c.action, c.payload, c.call_values::text,
  ${inMilliseconds('c.sending_since')}, due.is_interrupted, ${HISTORY}`,
};

const END_ATTEMPT: Statement = {
  name: 'end_wallet_attempt',
  text: `with mine as (
  update promo_store.wallet_calls c
  set state = $3, due_at = ${at('$4')}, sending_since = null, attempts = $5::int, first_sent_at = ${at('$6')}, last_sent_at = ${at('$7')},
    last_ended_at = ${at('$8')}, last_answer = $9::text::jsonb, is_uncertain = $10::bool,
    payload = case when $11::bool then c.payload end, call_values = case when $11::bool then c.call_values end,
    ended_at = case when $11::bool then null else now() end
  where c.call_no = $1::bigint and c.lease_no = $2::int and c.sending_since is not null
  returning c.call_no, c.operator_id
), following as (
  insert into promo_store.wallet_calls (operator_id, op_id, action, follows, content_hash, payload, call_values, due_at)
  select m.operator_id, $12::text, $13::text, m.call_no, decode($14::text, 'hex'), $15::text, $16::text::json, ${at('$17')}
  from mine m where $12::text is not null
)
select count(*) from mine`,
};

const FOUND = `c.operator_id, c.op_id, c.action, c.state, encode(c.content_hash, 'hex'), c.payload, ${HISTORY}
from promo_store.wallet_calls c`;

const FIND_CALL: Statement = {
  name: 'find_wallet_call',
  text: `select ${FOUND} where c.operator_id = $1 and c.op_id = $2`,
};

const FIND_CALLS: Statement = {
  name: 'find_wallet_calls',
  text: `select ${FOUND} where c.operator_id = $1 and c.op_id = any($2::text[])`,
};

export function makeCallStore(store: Store, logger: Logger): CallStore & CallLookup {
  const run = (statement: Statement, values: readonly unknown[]): Promise<Row[]> =>
    inTransaction(store, (session) => session.query(statement, values));
  return {
    async begin(operatorId, call, leaseMs) {
      const { opId, action, contentHash, payload, values } = call;
      const [row] = await run(BEGIN_CALL, [
        ...[operatorId, opId, action, contentHash, payload, JSON.stringify(values), leaseMs],
      ]);
      if (row === undefined) return null;
      const storeNow = numberOf(row[2]);
      return {
        operatorId,
        opId,
        action,
        values,
        payload,
        storeNow,
        sendingSince: storeNow,
        callNo: textOf(row[0]),
        leaseNo: numberOf(row[1]),
        isInterrupted: false,
        history: null,
      };
    },
    async take(free, leaseMs) {
      const rows = await run(TAKE_CALLS, [[...free.keys()], [...free.values()], leaseMs]);
      return rows.flatMap((row) => {
        try {
          return [heldCallOf(row)];
        } catch (error) {
          // One such call must not stop the others. Its lease ends, and a newer process takes it.
          logger.error(
            { operator: row[3], opId: row[4], error: messageOf(error) },
            'cannot read a stored wallet call',
          );
          return [];
        }
      });
    },
    async end({ callNo, leaseNo }, { state, history, dueAt, following }) {
      const { attempts, firstSentAt, last, isUncertain } = history;
      const isKept = state === 'open' || state === 'unresolved';
      const [row] = await run(END_ATTEMPT, [
        ...[callNo, leaseNo, state, dueAt, attempts, firstSentAt, last.sentAt, last.endedAt],
        ...[JSON.stringify(storedAnswer(last.answer)), isUncertain, isKept],
        ...[following?.opId ?? null, following?.action ?? null],
        ...[following?.contentHash ?? null, following?.payload ?? null],
        ...[following === null ? null : JSON.stringify(following.values), following?.dueAt ?? null],
      ]);
      return row?.[0] === '1';
    },
    async find(operatorId, opId) {
      const [row] = await run(FIND_CALL, [operatorId, opId]);
      if (row === undefined) return null;
      return { view: viewOf(row), contentHash: textOf(row[4]), payload: row[5] ?? null };
    },
    async findAll(operatorId, opIds) {
      return (await run(FIND_CALLS, [operatorId, opIds])).map(viewOf);
    },
  };
}

function viewOf(row: Row): CallView {
  const history = historyOf(row.slice(6));
  return {
    operatorId: textOf(row[0]),
    opId: textOf(row[1]),
    action: actionOf(row[2]),
    state: stateOf(row[3]),
    attempts: history?.attempts ?? 0,
    answer: history?.last.answer ?? null,
  };
}

function heldCallOf(row: Row): HeldCall {
  return {
    callNo: textOf(row[0]),
    leaseNo: numberOf(row[1]),
    storeNow: numberOf(row[2]),
    operatorId: textOf(row[3]),
    opId: textOf(row[4]),
    action: actionOf(row[5]),
    payload: textOf(row[6]),
    values: valuesOf(row[7]),
    sendingSince: numberOf(row[8]),
    isInterrupted: row[9] === 't',
    history: historyOf(row.slice(10)),
  };
}

function historyOf([attempts, first, sent, ended, answer, isUncertain]: Row): CallHistory | null {
  if (attempts === '0') return null;
  return {
    attempts: numberOf(attempts),
    firstSentAt: numberOf(first),
    last: { sentAt: numberOf(sent), endedAt: numberOf(ended), answer: readStoredAnswer(textOf(answer)) },
    isUncertain: isUncertain === 't',
  };
}

// --- answers as they are stored

/** Without the body, which has data of players. A code that is none of the list may be anything. */
export function storedAnswer(answer: WalletAnswer): Readonly<Record<string, unknown>> {
  if (answer.type === 'ok') return { type: 'ok' };
  if (answer.type !== 'no_answer') return answer;
  return { ...answer, code: answer.code !== null && isErrorCode(answer.code) ? answer.code : null };
}

const CAUSES: Readonly<Record<NoAnswerCause, true>> = {
  timeout: true,
  unreachable: true,
  interrupted: true,
  bare_status: true,
  too_large: true,
  cut_off: true,
  not_json: true,
  no_envelope: true,
  unknown_code: true,
  status_not_allowed: true,
  code_not_allowed: true,
};

function isCause(value: unknown): value is NoAnswerCause {
  return typeof value === 'string' && Object.hasOwn(CAUSES, value);
}

/** @throws where a newer version wrote it */
export function readStoredAnswer(text: string): WalletAnswer {
  const value = parseJson(text);
  if (isObject(value)) {
    const { type, code, cause, status } = value;
    const retryAfterMs = typeof value.retryAfterMs === 'number' ? value.retryAfterMs : null;
    if (type === 'ok') return { type, body: {} };
    if (type === 'refused' && typeof code === 'string' && isErrorCode(code)) return { type, code };
    if (type === 'retry' && typeof code === 'string' && isErrorCode(code))
      return { type, code, retryAfterMs };
    if (type === 'no_answer' && isCause(cause))
      return {
        type,
        cause,
        retryAfterMs,
        status: typeof status === 'number' ? status : null,
        code: typeof code === 'string' ? code : null,
      };
  }
  throw new Error('the store has an answer of a form that this version does not know: run the newer version');
}

// --- columns

function actionOf(value: string | null | undefined): WalletAction {
  const action = textOf(value);
  if (!isWalletAction(action))
    throw new Error(`the store has the unknown action ${action}: run the newer version`);
  return action;
}

function stateOf(value: string | null | undefined): CallState {
  const state = CALL_STATES.find((each) => each === value);
  if (state === undefined) throw new Error('the store has an unknown state of a call: run the newer version');
  return state;
}

function valuesOf(value: string | null | undefined): CallValues {
  const values = parseJson(textOf(value));
  if (!isObject(values)) throw new Error('the store has no values of a call');
  return Object.fromEntries(Object.entries(values).map(([name, each]) => [name, String(each)]));
}

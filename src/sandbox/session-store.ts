/** The sessions, grants and counted faults of a sandbox, in Postgres. All times are those of its clock. */
import { inMilliseconds, numberOf, textOf, timeAhead } from '../postgres/columns';
import type { Row } from '../postgres/pipeline';
import { inTransaction, type Session, type Statement, type Store } from '../postgres/transaction';
import type { SandboxAnswer } from './answers';
import { repeatedLaunch, type SandboxSession, SESSION_STATES, type SessionState } from './launch';
import type { LaunchRequest } from './requests';

/** After this time without an end, the process of a launch counts as gone. Longer than the longest delay. */
const LAUNCH_LEASE_MS = 45_000;

export type BegunLaunch =
  | { readonly type: 'begun'; readonly session: SandboxSession }
  | { readonly type: 'answer'; readonly answer: SandboxAnswer };

export interface SessionStore {
  /** Begins a launch, or answers a repeated one. @throws StoreError */
  beginLaunch(operatorId: string, request: LaunchRequest, sessionId: string): Promise<BegunLaunch>;
  /** Null where another launch took over. @throws StoreError */
  openSession(session: SandboxSession, seconds: number): Promise<SandboxSession | null>;
  /** @throws StoreError */
  openDemo(
    operatorId: string,
    demo: { readonly game: string; readonly currency: string },
    sessionId: string,
    seconds: number,
  ): Promise<SandboxSession>;
  /** Null where the operator has no such session. @throws StoreError */
  endSession(
    operatorId: string,
    sessionId: string,
    state: 'closed' | 'expired',
  ): Promise<SandboxSession | null>;
  /** An open session past its end is returned as expired. @throws StoreError */
  findSession(operatorId: string, sessionId: string): Promise<SandboxSession | null>;
  /** The grant of the key, and whether its body is the same. @throws StoreError */
  grant(
    operatorId: string,
    key: string,
    grant: { readonly grantId: string; readonly bodyHash: string },
  ): Promise<{ readonly grantId: string; readonly isSame: boolean }>;
  /** Counts an ordered fault. @returns how often this call failed, this time included. @throws StoreError */
  countFault(operatorId: string, callHash: string): Promise<number>;
}

const EFFECTIVE = "case when state = 'open' and until <= now() then 'expired' else state end";
const COLUMNS = `session_id, operator_id, token, player, game, currency, brand, promo_player_ref, ${EFFECTIVE}, launch_no, ${inMilliseconds('until')}, ${inMilliseconds('now()')}`;

const INSERT: Statement = {
  name: 'sandbox_insert_session',
  text: `insert into promo_sandbox.sessions (session_id, operator_id, token, player, game, currency, brand, promo_player_ref, state, until)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, ${timeAhead('$10')})
on conflict (operator_id, token) do nothing returning ${COLUMNS}`,
};
const FIND_BY_TOKEN: Statement = {
  name: 'sandbox_find_token',
  text: `select ${COLUMNS} from promo_sandbox.sessions where operator_id = $1 and token = $2 for update`,
};
const FIND: Statement = {
  name: 'sandbox_find_session',
  text: `select ${COLUMNS} from promo_sandbox.sessions where session_id = $1 and operator_id = $2`,
};
const LAUNCH_AGAIN: Statement = {
  name: 'sandbox_launch_again',
  text: `update promo_sandbox.sessions set launch_no = launch_no + 1, until = ${timeAhead('$2')} where session_id = $1 returning ${COLUMNS}`,
};
const OPEN: Statement = {
  name: 'sandbox_open_session',
  text: `update promo_sandbox.sessions set state = 'open', until = ${timeAhead('$3')}
where session_id = $1 and launch_no = $2::int and state = 'launching' returning ${COLUMNS}`,
};
const END: Statement = {
  name: 'sandbox_end_session',
  text: `update promo_sandbox.sessions set state = case when state in ('launching', 'open') then $3 else state end
where session_id = $1 and operator_id = $2 returning ${COLUMNS}`,
};
const INSERT_GRANT: Statement = {
  name: 'sandbox_insert_grant',
  text: `insert into promo_sandbox.grants (operator_id, idempotency_key, grant_id, body_hash) values ($1, $2, $3, $4)
on conflict (operator_id, idempotency_key) do nothing returning grant_id`,
};
const FIND_GRANT: Statement = {
  name: 'sandbox_find_grant',
  text: 'select grant_id, body_hash = $3 from promo_sandbox.grants where operator_id = $1 and idempotency_key = $2',
};
const COUNT_FAULT: Statement = {
  name: 'sandbox_count_fault',
  text: `insert into promo_sandbox.fault_counts as f (operator_id, call_hash, times) values ($1, $2, 1)
on conflict (operator_id, call_hash) do update set times = f.times + 1 returning times`,
};

export function makeSessionStore(store: Store): SessionStore {
  const one = async (statement: Statement, values: readonly unknown[]): Promise<SandboxSession | null> => {
    const [row] = await inTransaction(store, (session) => session.query(statement, values));
    return row === undefined ? null : sessionOf(row);
  };
  const insert = async (session: Session, values: readonly unknown[]): Promise<SandboxSession | null> => {
    const [row] = await session.query(INSERT, values);
    return row === undefined ? null : sessionOf(row);
  };
  return {
    beginLaunch: (operatorId, request, sessionId) =>
      inTransaction(store, async (session): Promise<BegunLaunch> => {
        const { token, player, game, currency, brand = null } = request;
        const promo = request.attributes?.promo_player_ref ?? null;
        const values = [sessionId, operatorId, token, player, game, currency, brand, promo];
        const begun = await insert(session, [...values, 'launching', LAUNCH_LEASE_MS]);
        if (begun !== null) return { type: 'begun', session: begun };
        const [row] = await session.query(FIND_BY_TOKEN, [operatorId, token]);
        if (row === undefined) throw new Error('a session of the sandbox is gone: launch again');
        const step = repeatedLaunch(sessionOf(row), request, numberOf(row[11]));
        if (step.type === 'answer') return step;
        const [again] = await session.query(LAUNCH_AGAIN, [row[0], LAUNCH_LEASE_MS]);
        return { type: 'begun', session: sessionOf(again ?? row) };
      }),
    openSession: ({ sessionId, launchNo }, seconds) => one(OPEN, [sessionId, launchNo, seconds * 1_000]),
    async openDemo(operatorId, { game, currency }, sessionId, seconds) {
      const values = [sessionId, operatorId, null, null, game, currency, null, null, 'open', seconds * 1_000];
      const session = await inTransaction(store, (transaction) => insert(transaction, values));
      if (session === null) throw new Error('a demo got the id of another session');
      return session;
    },
    endSession: (operatorId, sessionId, state) => one(END, [sessionId, operatorId, state]),
    findSession: (operatorId, sessionId) => one(FIND, [sessionId, operatorId]),
    grant: (operatorId, key, { grantId, bodyHash }) =>
      inTransaction(store, async (session) => {
        const [fresh] = await session.query(INSERT_GRANT, [operatorId, key, grantId, bodyHash]);
        if (fresh !== undefined) return { grantId, isSame: true };
        const [row] = await session.query(FIND_GRANT, [operatorId, key, bodyHash]);
        if (row === undefined) throw new Error('a grant of the sandbox is gone: issue it again');
        return { grantId: textOf(row[0]), isSame: row[1] === 't' };
      }),
    async countFault(operatorId, callHash) {
      const [row] = await inTransaction(store, (session) =>
        session.query(COUNT_FAULT, [operatorId, callHash]),
      );
      return numberOf(row?.[0]);
    },
  };
}

function sessionOf(row: Row): SandboxSession {
  const [sessionId, operatorId, token, player, game, currency, brand, promo, state, launchNo, until] = row;
  return {
    sessionId: textOf(sessionId),
    operatorId: textOf(operatorId),
    token: token ?? null,
    player: player ?? null,
    game: textOf(game),
    currency: textOf(currency),
    brand: brand ?? null,
    promoPlayerRef: promo ?? null,
    state: stateOf(state),
    launchNo: numberOf(launchNo),
    until: numberOf(until),
  };
}

function stateOf(value: string | null | undefined): SessionState {
  const state = SESSION_STATES.find((each) => each === value);
  if (state === undefined) throw new Error(`a session of the sandbox has the unknown state ${value}`);
  return state;
}

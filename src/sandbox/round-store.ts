/** The rounds of a sandbox and their events, in Postgres. All times are those of its clock. */

import { isObject, parseJson } from '../lib/json';
import { textOf, timeAhead } from '../postgres/columns';
import type { Row } from '../postgres/pipeline';
import { inTransaction, type Statement, type Store } from '../postgres/transaction';
import { eventJson, type PlannedEvent, ROUND_STATES, type RoundPlan, type RoundState } from './round';

export interface SandboxRound {
  readonly operatorId: string;
  readonly sessionId: string;
  readonly plan: RoundPlan;
  readonly state: RoundState;
  /** none, waiting, or the outcome of the attribution. */
  readonly attribution: string;
}

export interface StoredEvent extends PlannedEvent {
  readonly verdict: string | null;
  readonly reason: string | null;
}

export interface WaitingEvent {
  readonly eventNo: string;
  /** JSON. */
  readonly body: string;
  /** The failures of before. */
  readonly failures: number;
}

export interface WaitingAttribution {
  readonly roundId: string;
  readonly promoPlayerRef: string;
  readonly brand: string | null;
}

export interface RoundStore {
  /** Stores a round, or finds the one with its id. @throws StoreError */
  beginRound(
    round: Omit<SandboxRound, 'state'>,
    bodyHash: string,
  ): Promise<{ readonly round: SandboxRound; readonly isSame: boolean }>;
  /** @throws StoreError */
  findRound(operatorId: string, roundId: string): Promise<SandboxRound | null>;
  /** Takes rounds that nobody drives now. @throws StoreError */
  takeRounds(most: number): Promise<SandboxRound[]>;
  /** Lets the round be taken again after this time. @throws StoreError */
  returnRound(round: SandboxRound, afterMs: number): Promise<void>;
  /** Stores new events, and the state, in one transaction. @throws StoreError */
  keepRound(round: SandboxRound, events: readonly PlannedEvent[], state: RoundState): Promise<void>;
  /** @throws StoreError */
  eventsOf(round: SandboxRound): Promise<StoredEvent[]>;
  /** Takes events of an operator that have no verdict. @throws StoreError */
  takeEvents(operatorId: string, most: number, leaseMs: number): Promise<WaitingEvent[]>;
  /** @throws StoreError */
  keepVerdicts(
    verdicts: readonly {
      readonly eventNo: string;
      readonly verdict: string;
      readonly reason: string | null;
    }[],
  ): Promise<void>;
  /** Lets events be taken again after this time. @throws StoreError */
  returnEvents(events: readonly WaitingEvent[], afterMs: number): Promise<void>;
  /** @throws StoreError */
  waitingAttributions(operatorId: string, most: number): Promise<WaitingAttribution[]>;
  /** @throws StoreError */
  keepAttribution(operatorId: string, roundId: string, outcome: string): Promise<void>;
}

/** A process that drives a round, or a call of a player, takes the round for this time. */
export const ROUND_LEASE_MS = 5_000;

const COLUMNS = 'operator_id, session_id, plan::text, state, attribution';

const INSERT: Statement = {
  name: 'sandbox_insert_round',
  text: `insert into promo_sandbox.rounds (operator_id, round_id, session_id, body_hash, plan, attribution, due_at)
values ($1, $2, $3, $4, $5::json, $6, ${timeAhead('$7')}) on conflict (operator_id, round_id) do nothing returning ${COLUMNS}`,
};
const FIND: Statement = {
  name: 'sandbox_find_round',
  text: `select ${COLUMNS}, body_hash from promo_sandbox.rounds where operator_id = $1 and round_id = $2`,
};
const TAKE: Statement = {
  name: 'sandbox_take_rounds',
  text: `with due as materialized (
  select operator_id as o, round_id as r from promo_sandbox.rounds where state = 'playing' and due_at <= now()
  order by due_at limit $1 for update skip locked
)
update promo_sandbox.rounds set due_at = ${timeAhead('$2')} from due where operator_id = o and round_id = r returning ${COLUMNS}`,
};
const RETURN: Statement = {
  name: 'sandbox_return_round',
  text: `update promo_sandbox.rounds set due_at = ${timeAhead('$3')} where operator_id = $1 and round_id = $2`,
};
const INSERT_EVENTS: Statement = {
  name: 'sandbox_insert_events',
  text: `insert into promo_sandbox.events (operator_id, round_id, event_id, kind, amount, body)
select $1, $2, e.event_id, e.kind, e.amount, e.body
from unnest($3::text[], $4::text[], $5::text[], $6::text[]) with ordinality e (event_id, kind, amount, body, place)
order by e.place on conflict (operator_id, event_id) do nothing`,
};
const SET_STATE: Statement = {
  name: 'sandbox_set_round_state',
  text: `update promo_sandbox.rounds set state = $3, ended_at = now() where operator_id = $1 and round_id = $2 and state = 'playing'`,
};
const EVENTS: Statement = {
  name: 'sandbox_round_events',
  text: `select event_id, kind, amount, verdict, reason from promo_sandbox.events
where operator_id = $1 and round_id = $2 order by event_no`,
};
const TAKE_EVENTS: Statement = {
  name: 'sandbox_take_events',
  text: `with due as materialized (
  select event_no as n from promo_sandbox.events where operator_id = $1 and verdict is null and due_at <= now()
  order by event_no limit $2 for update skip locked
), taken as (
  update promo_sandbox.events set due_at = ${timeAhead('$3')} from due where event_no = n returning event_no, body, failures
)
select event_no, body, failures from taken order by event_no`,
};
const KEEP_VERDICTS: Statement = {
  name: 'sandbox_keep_verdicts',
  text: `update promo_sandbox.events set verdict = v.verdict, reason = v.reason
from unnest($1::bigint[], $2::text[], $3::text[]) v (n, verdict, reason) where event_no = v.n`,
};
const RETURN_EVENTS: Statement = {
  name: 'sandbox_return_events',
  text: `update promo_sandbox.events set due_at = ${timeAhead('$2')}, failures = failures + 1 where event_no = any($1::bigint[])`,
};
const ATTRIBUTIONS: Statement = {
  name: 'sandbox_waiting_attributions',
  text: `select r.round_id, s.promo_player_ref, s.brand from promo_sandbox.rounds r
join promo_sandbox.sessions s on s.session_id = r.session_id
where r.operator_id = $1 and r.attribution = 'waiting' limit $2`,
};
const KEEP_ATTRIBUTION: Statement = {
  name: 'sandbox_keep_attribution',
  text: 'update promo_sandbox.rounds set attribution = $3 where operator_id = $1 and round_id = $2',
};

export function makeRoundStore(store: Store): RoundStore {
  const run = (statement: Statement, values: readonly unknown[]): Promise<Row[]> =>
    inTransaction(store, (session) => session.query(statement, values));
  return {
    beginRound: ({ operatorId, sessionId, plan, attribution }, bodyHash) =>
      inTransaction(store, async (session) => {
        const values = [operatorId, plan.roundId, sessionId, bodyHash, JSON.stringify(plan), attribution];
        const [fresh] = await session.query(INSERT, [...values, ROUND_LEASE_MS]);
        if (fresh !== undefined) return { round: roundOf(fresh), isSame: true };
        const [row] = await session.query(FIND, [operatorId, plan.roundId]);
        if (row === undefined) throw new Error('a round of the sandbox is gone: play it again');
        return { round: roundOf(row), isSame: row[5] === bodyHash };
      }),
    async findRound(operatorId, roundId) {
      const [row] = await run(FIND, [operatorId, roundId]);
      return row === undefined ? null : roundOf(row);
    },
    takeRounds: async (most) => (await run(TAKE, [most, ROUND_LEASE_MS])).map(roundOf),
    async returnRound({ operatorId, plan }, afterMs) {
      await run(RETURN, [operatorId, plan.roundId, afterMs]);
    },
    keepRound: (round, events, state) =>
      inTransaction(store, async (session) => {
        const { operatorId, plan } = round;
        if (events.length > 0)
          await session.query(INSERT_EVENTS, [
            ...[
              operatorId,
              plan.roundId,
              events.map(({ eventId }) => eventId),
              events.map(({ kind }) => kind),
            ],
            ...[events.map(({ amount }) => amount), events.map((event) => eventJson(plan, event))],
          ]);
        if (state !== 'playing') await session.query(SET_STATE, [operatorId, plan.roundId, state]);
      }),
    async eventsOf({ operatorId, plan }) {
      const rows = await run(EVENTS, [operatorId, plan.roundId]);
      return rows.map(([eventId, kind, amount, verdict, reason]) => ({
        eventId: textOf(eventId),
        kind: kindOf(kind),
        amount: textOf(amount),
        verdict: verdict ?? null,
        reason: reason ?? null,
      }));
    },
    async takeEvents(operatorId, most, leaseMs) {
      const rows = await run(TAKE_EVENTS, [operatorId, most, leaseMs]);
      return rows.map(([eventNo, body, failures]) => ({
        eventNo: textOf(eventNo),
        body: textOf(body),
        failures: Number(failures),
      }));
    },
    async keepVerdicts(verdicts) {
      await run(KEEP_VERDICTS, [
        verdicts.map(({ eventNo }) => eventNo),
        verdicts.map(({ verdict }) => verdict),
        verdicts.map(({ reason }) => reason),
      ]);
    },
    async returnEvents(events, afterMs) {
      await run(RETURN_EVENTS, [events.map(({ eventNo }) => eventNo), afterMs]);
    },
    async waitingAttributions(operatorId, most) {
      const rows = await run(ATTRIBUTIONS, [operatorId, most]);
      return rows.map(([roundId, promo, brand]) => ({
        roundId: textOf(roundId),
        promoPlayerRef: textOf(promo),
        brand: brand ?? null,
      }));
    },
    async keepAttribution(operatorId, roundId, outcome) {
      await run(KEEP_ATTRIBUTION, [operatorId, roundId, outcome]);
    },
  };
}

function roundOf(row: Row): SandboxRound {
  const [operatorId, sessionId, plan, state, attribution] = row;
  const found = ROUND_STATES.find((each) => each === state);
  if (found === undefined) throw new Error(`a round of the sandbox has the unknown state ${state}`);
  return {
    operatorId: textOf(operatorId),
    sessionId: textOf(sessionId),
    plan: planOf(textOf(plan)),
    state: found,
    attribution: textOf(attribution),
  };
}

/** @throws where another version wrote the plan; the version of the tables says so before */
function planOf(text: string): RoundPlan {
  const value = parseJson(text);
  if (!isPlan(value)) throw new Error('a round of the sandbox has a plan of another form');
  return value;
}

function isPlan(value: unknown): value is RoundPlan {
  return (
    isObject(value) &&
    Array.isArray(value.bets) &&
    Array.isArray(value.wins) &&
    typeof value.roundId === 'string' &&
    typeof value.key === 'string'
  );
}

const KINDS = ['bet', 'win', 'settled', 'refund'] as const;

function kindOf(value: string | null | undefined): PlannedEvent['kind'] {
  const kind = KINDS.find((each) => each === value);
  if (kind === undefined) throw new Error(`an event of the sandbox has the unknown kind ${value}`);
  return kind;
}

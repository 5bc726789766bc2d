/**
 * The outbox of completions in the store: how far they are published (migrations/0035_completion_outbox.sql).
 *
 * The cursor moves after Kafka has stored the messages, so a crash repeats some and loses none. One cursor
 * serves all operators. An operator whose topic refuses gets a cursor of its own, a backlog, until it has
 * caught up: then the common cursor serves it again. All moves lock the row of the outbox, and only the
 * process that holds the lease moves.
 */
import { inTransaction, type Session, type Statement, type Store } from '../postgres/transaction';
import { COMPLETION_CHANGES } from '../promotions/completion';
import type { OutboxEntry } from './completion-message';

/** The most entries that are read, and published, at once. */
export const BATCH_ENTRIES = 1_000;
/** The most operators whose backlogs are tried at once. Each may have BATCH_ENTRIES. */
const BACKLOGS_AT_ONCE = 8;
/** Postgres' largest bigint. */
const NO_END = '9223372036854775807';

const INSTANT = `'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`;
const utc = (column: string) => `to_char(${column} at time zone 'utc', ${INSTANT})`;

/** Each look reads another part of the ledger, so it is planned for its own numbers. */
const PLANNING: Statement = {
  name: 'outbox_planning',
  text: `select set_config('enable_nestloop', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true)`,
};
const OPEN: Statement = {
  name: 'outbox_open',
  text: 'insert into promo_store.completion_outbox default values on conflict do nothing',
};
/** Writes only where the lease has to be taken, or is half over. */
const HOLD: Statement = {
  name: 'outbox_hold',
  text: `update promo_store.completion_outbox set holder = $1, held_until = clock_timestamp() + $2 * interval '1 millisecond'
where promo_store.lease_end(held_until) < clock_timestamp() + case when holder = $1 then $2 * interval '0.5 millisecond' else '0' end`,
};
const STATE: Statement = {
  name: 'outbox_state',
  text: `select o.after, o.holder = $1, coalesce(p.lag_seconds, 0) from promo_store.completion_outbox o, promo.completion_publishing p`,
};
const BACKLOGS: Statement = {
  name: 'outbox_backlogs',
  text: `select b.operator_no, o.operator_id, b.after from promo_store.completion_backlogs b join promo_store.operators o using (operator_no)
order by b.since, b.operator_no`,
};
const END_OF_BATCH: Statement = {
  name: 'outbox_end',
  text: `select max(r.entry_no) from (
  select e.entry_no from promo_store.promotion_completions e where e.entry_no > $1 and e.entry_no <= $2 order by e.entry_no limit $3) r`,
};
/** @param $3 operators, and $4 whether these are read alone, or left out */
const READ: Statement = {
  name: 'outbox_read',
  text: `select e.entry_no, o.operator_no, o.operator_id, encode(e.completion_id, 'hex'), e.change, p.promotion_id, w.version, v.definition->>'type',
  w.window_key, ${utc('w.starts_at')}, ${utc('w.ends_at')}, e.player_ref, e.ordinal, e.attempt, e.change_no, ${utc('e.changed_at')}
from promo_store.promotion_completions e
join promo_store.promotion_windows w using (window_no)
join promo_store.promotion_versions v on v.promotion_no = w.promotion_no and v.version = w.version
join promo_store.promotions p on p.promotion_no = w.promotion_no
join promo_store.operators o on o.operator_no = p.operator_no
where e.entry_no > $1 and e.entry_no <= $2 and (o.operator_no = any($3)) = $4 order by e.entry_no`,
};
const LOCK: Statement = {
  name: 'outbox_lock',
  text: 'select after from promo_store.completion_outbox where holder = $1 for update',
};
const MOVE: Statement = {
  name: 'outbox_move',
  text: 'update promo_store.completion_outbox set after = $1, moved_at = case when $2 then clock_timestamp() else moved_at end',
};
const HOLD_BACK: Statement = {
  name: 'outbox_hold_back',
  text: `insert into promo_store.completion_backlogs (operator_no, after, reason)
select * from unnest($1::int[], $2::bigint[], $3::text[]) on conflict do nothing`,
};
const CATCH_UP: Statement = {
  name: 'outbox_catch_up',
  text: 'update promo_store.completion_backlogs set after = $3 where operator_no = $1 and after = $2',
};
const BLAME: Statement = {
  name: 'outbox_blame',
  text: 'update promo_store.completion_backlogs set reason = $2 where operator_no = $1 and reason is distinct from $2',
};
const END_BACKLOG: Statement = {
  name: 'outbox_end_backlog',
  text: `delete from promo_store.completion_backlogs b using promo_store.completion_outbox o where b.operator_no = any($1) and b.after >= o.after
returning b.operator_no`,
};
const RELEASE: Statement = {
  name: 'outbox_release',
  text: 'update promo_store.completion_outbox set held_until = null where holder = $1',
};

/** Entries to publish: all of some operators with numbers higher than `after`, and up to `upTo`. */
export interface OutboxBatch {
  readonly after: number;
  readonly upTo: number;
  readonly entries: readonly OutboxEntry[];
}

export interface CommonBatch extends OutboxBatch {
  /** The operators with a backlog. The batch has none of their entries. */
  readonly leftOut: readonly number[];
}

export interface BacklogBatch extends OutboxBatch {
  readonly operatorNo: number;
  readonly operatorId: string;
}

/** An operator whose topic refused. */
export interface TopicRefusal {
  readonly operatorNo: number;
  readonly reason: string;
}

export interface Taken<Batch> {
  /** Null where another process publishes. */
  readonly batch: Batch | null;
  /** How long the oldest entry has waited. */
  readonly lagSeconds: number;
}

export interface Outbox {
  /** Takes or keeps the lease, and reads the next entries of the operators without a backlog. */
  take(): Promise<Taken<CommonBatch>>;
  /**
   * Moves the common cursor. Operators that refused get a backlog from their first entry on.
   *
   * @returns false where another process has moved it, or holds the lease
   */
  move(batch: CommonBatch, refusals: readonly TopicRefusal[]): Promise<boolean>;
  /** The next entries of operators with a backlog. @param isDue whether to try an operator now */
  takeBacklogs(isDue: (operatorNo: number) => boolean): Promise<readonly BacklogBatch[]>;
  /** Moves the cursors of backlogs that were published. @returns the operators that have caught up */
  moveBacklogs(
    published: readonly BacklogBatch[],
    refusals: readonly TopicRefusal[],
  ): Promise<readonly number[]>;
  /** Keeps the lease. */
  hold(): Promise<void>;
  /** Lets another process publish at once. */
  release(): Promise<void>;
}

/** @param holder names this process in the lease */
export function makeOutbox(store: Store, holder: string, leaseMs: number): Outbox {
  async function state(session: Session) {
    await session.query(PLANNING);
    await session.query(HOLD, [holder, leaseMs]);
    const [row] = await session.query(STATE, [holder]);
    if (row === undefined) return null;
    const [after, isOurs, lag] = row;
    return { after: Number(after), isOurs: isOurs === 't', lagSeconds: Number(lag) };
  }

  /** Reads at most BATCH_ENTRIES entries, of which those of some operators are in the batch. */
  async function read(
    session: Session,
    after: number,
    end: number | string,
    operators: readonly number[],
    isAlone: boolean,
  ): Promise<OutboxBatch> {
    const [[last = null] = []] = await session.query(END_OF_BATCH, [after, end, BATCH_ENTRIES]);
    if (last === null) return { after, upTo: typeof end === 'number' ? end : after, entries: [] };
    const rows = await session.query(READ, [after, last, operators, isAlone]);
    return { after, upTo: Number(last), entries: rows.map(entryOf) };
  }

  return {
    take: () =>
      inTransaction(store, async (session) => {
        let found = await state(session);
        if (found === null) {
          await session.query(OPEN);
          found = await state(session);
        }
        if (found === null || !found.isOurs) return { batch: null, lagSeconds: found?.lagSeconds ?? 0 };
        const leftOut = (await session.query(BACKLOGS)).map(([operatorNo]) => Number(operatorNo));
        const batch = await read(session, found.after, NO_END, leftOut, false);
        return { batch: { ...batch, leftOut }, lagSeconds: found.lagSeconds };
      }),

    move: ({ after, upTo, entries, leftOut }, refusals) =>
      inTransaction(store, async (session) => {
        const [[locked = null] = []] = await session.query(LOCK, [holder]);
        if (locked === null || Number(locked) !== after) return false;
        const begins = refusals.map(({ operatorNo }) => firstOf(entries, operatorNo) - 1);
        // A backlog may have ended since the batch was read. The batch lacks its operator: it begins again.
        await session.query(HOLD_BACK, [
          [...refusals.map(({ operatorNo }) => operatorNo), ...leftOut],
          [...begins, ...leftOut.map(() => after)],
          [...refusals.map(({ reason }) => reason), ...leftOut.map(() => null)],
        ]);
        await session.query(MOVE, [upTo, entries.length > 0]);
        return true;
      }),

    takeBacklogs: (isDue) =>
      inTransaction(store, async (session) => {
        const found = await state(session);
        if (found === null || !found.isOurs) return [];
        const due = (await session.query(BACKLOGS)).filter(([operatorNo]) => isDue(Number(operatorNo)));
        const batches: BacklogBatch[] = [];
        for (const [no, operatorId, after] of due.slice(0, BACKLOGS_AT_ONCE)) {
          const operatorNo = Number(no);
          const batch = await read(session, Number(after), found.after, [operatorNo], true);
          batches.push({ ...batch, operatorNo, operatorId: operatorId ?? '' });
        }
        return batches;
      }),

    moveBacklogs: (published, refusals) =>
      inTransaction(store, async (session) => {
        const [locked] = await session.query(LOCK, [holder]);
        if (locked === undefined) return [];
        for (const { operatorNo, after, upTo } of published)
          await session.query(CATCH_UP, [operatorNo, after, upTo]);
        for (const { operatorNo, reason } of refusals) await session.query(BLAME, [operatorNo, reason]);
        const ended = await session.query(END_BACKLOG, [published.map(({ operatorNo }) => operatorNo)]);
        return ended.map(([operatorNo]) => Number(operatorNo));
      }),

    hold: async () => {
      await inTransaction(store, (session) => session.query(HOLD, [holder, leaseMs]));
    },
    release: async () => {
      await inTransaction(store, (session) => session.query(RELEASE, [holder]));
    },
  };
}

function firstOf(entries: readonly OutboxEntry[], operatorNo: number): number {
  return entries.find((entry) => entry.operatorNo === operatorNo)?.entryNo ?? 0;
}

function entryOf([no, operatorNo, operatorId, id, change, ...row]: readonly (string | null)[]): OutboxEntry {
  const [promotionId, version, type, window, startsAt = null, endsAt = null, playerRef, ...rest] = row;
  const [ordinal, attempt, changeNo = null, changedAt] = rest;
  const name = COMPLETION_CHANGES[Number(change)];
  if (name === undefined) throw new RangeError(`completion entry ${no} has the unknown change ${change}`);
  return {
    entryNo: Number(no),
    operatorNo: Number(operatorNo),
    operatorId: operatorId ?? '',
    completionId: id ?? '',
    change: name,
    promotionId: promotionId ?? '',
    version: Number(version),
    type: type ?? '',
    window: window ?? '',
    startsAt,
    endsAt,
    playerRef: playerRef ?? '',
    ordinal: Number(ordinal),
    attempt: Number(attempt),
    changeNo: changeNo === null ? null : Number(changeNo),
    changedAt: changedAt ?? '',
  };
}

-- Calls of operators' wallets. A call is stored before its first attempt is sent, and its row says what is
-- uncertain until an answer is stored. Any process resumes a call whose process is gone.
--
-- Locks: creates only. Time: instant. Safe while older workers run: they need nothing of this.

create table promo_store.wallet_calls (
  call_no bigint generated always as identity primary key,
  operator_id text collate "C" not null,
  op_id text collate "C" not null,
  action text not null,
  follows bigint references promo_store.wallet_calls,
  content_hash bytea not null,
  payload text,
  call_values json,
  state text not null default 'open' check (state in ('open', 'ok', 'refused', 'followed', 'given_up', 'unresolved', 'closed')),
  due_at timestamptz not null,
  sending_since timestamptz,
  lease_no int not null default 0,
  attempts int not null default 0,
  first_sent_at timestamptz,
  last_sent_at timestamptz,
  last_ended_at timestamptz,
  last_answer jsonb,
  is_uncertain boolean not null default false,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  note text,
  -- Whatever may still be sent, or looked at by people, has its payload. Nothing else keeps data of players.
  check ((payload is not null and call_values is not null) = (state in ('open', 'unresolved'))),
  check ((ended_at is null) = (state in ('open', 'unresolved'))),
  check (state = 'open' or sending_since is null),
  check ((attempts = 0) = (last_answer is null))
);
create unique index wallet_calls_op on promo_store.wallet_calls (operator_id, op_id);
create index wallet_calls_due on promo_store.wallet_calls (operator_id, due_at) where state = 'open';
create index wallet_calls_follows on promo_store.wallet_calls (follows) where follows is not null;
create index wallet_calls_ended on promo_store.wallet_calls (ended_at) where ended_at is not null;
comment on table promo_store.wallet_calls is 'The calls of operators'' wallets. A row is written before the first attempt, and changed after each.';
comment on column promo_store.wallet_calls.call_no is 'Number of the call.';
comment on column promo_store.wallet_calls.operator_id is 'The operator whose wallet is called.';
comment on column promo_store.wallet_calls.op_id is 'The op_id, the same in all attempts.';
comment on column promo_store.wallet_calls.action is 'The action, such as debit.';
comment on column promo_store.wallet_calls.follows is 'The call that this one rolls back or reconciles.';
comment on column promo_store.wallet_calls.content_hash is 'SHA-256 of the payload without the player: the same op_id with other content is a mistake of ours.';
comment on column promo_store.wallet_calls.payload is 'The payload as sent. Null once the call is over: it has data of players.';
comment on column promo_store.wallet_calls.call_values is 'The values in the payload, for the payload of a call that follows. Null once the call is over.';
comment on column promo_store.wallet_calls.state is 'open: an attempt is due or in flight. ok and refused are final answers. A call that is followed has a rollback or a reconcile. given_up: no answer, and no effect. An unresolved call needs people, and they have resolved a closed one.';
comment on column promo_store.wallet_calls.due_at is 'When the next step is due. While an attempt is in flight: when another process may take the call over.';
comment on column promo_store.wallet_calls.sending_since is 'When the attempt in flight began; null without one. If the call is due, the process of that attempt is gone.';
comment on column promo_store.wallet_calls.lease_no is 'Counts the processes that took the call. Only the last one may store an answer.';
comment on column promo_store.wallet_calls.attempts is 'Ended attempts.';
comment on column promo_store.wallet_calls.first_sent_at is 'When the first attempt began.';
comment on column promo_store.wallet_calls.last_sent_at is 'When the last ended attempt began.';
comment on column promo_store.wallet_calls.last_ended_at is 'When it ended.';
comment on column promo_store.wallet_calls.last_answer is 'Its meaning, without the body of the reply.';
comment on column promo_store.wallet_calls.is_uncertain is 'Whether an attempt before it may have taken effect.';
comment on column promo_store.wallet_calls.created_at is 'When the call was stored.';
comment on column promo_store.wallet_calls.ended_at is 'When it was over; null before.';
comment on column promo_store.wallet_calls.note is 'closed: the words of the person who closed it.';

create view promo.wallet_calls as
select c.call_no, c.operator_id, c.op_id, c.action, o.op_id as follows, c.state, f.op_id as followed_by, f.state as followed_state,
  c.attempts, c.sending_since is not null as in_flight, c.due_at, c.first_sent_at, c.last_ended_at, c.last_answer ->> 'type' as last_answer,
  coalesce(c.last_answer ->> 'code', c.last_answer ->> 'cause') as last_cause, (c.last_answer ->> 'status')::int as last_status,
  c.is_uncertain, c.created_at, c.ended_at, c.note
from promo_store.wallet_calls c
left join promo_store.wallet_calls o on o.call_no = c.follows
left join promo_store.wallet_calls f on f.follows = c.call_no;
comment on view promo.wallet_calls is 'The calls of operators'' wallets, without data of players.';
comment on column promo.wallet_calls.call_no is 'Number of the call.';
comment on column promo.wallet_calls.operator_id is 'The operator whose wallet is called.';
comment on column promo.wallet_calls.op_id is 'The op_id.';
comment on column promo.wallet_calls.action is 'The action, such as debit.';
comment on column promo.wallet_calls.follows is 'The op_id of the call that this one rolls back or reconciles.';
comment on column promo.wallet_calls.state is 'As in promo_store.wallet_calls.';
comment on column promo.wallet_calls.followed_by is 'The op_id of the rollback or reconcile of this call.';
comment on column promo.wallet_calls.followed_state is 'The state of that call.';
comment on column promo.wallet_calls.attempts is 'Ended attempts.';
comment on column promo.wallet_calls.in_flight is 'Whether an attempt is in flight, or its process is gone.';
comment on column promo.wallet_calls.due_at is 'When the next step of an open call is due.';
comment on column promo.wallet_calls.first_sent_at is 'When the first attempt began.';
comment on column promo.wallet_calls.last_ended_at is 'When the last attempt ended.';
comment on column promo.wallet_calls.last_answer is 'ok, refused, retry or no_answer.';
comment on column promo.wallet_calls.last_cause is 'The code of the answer, or why there was none.';
comment on column promo.wallet_calls.last_status is 'The HTTP status of the last attempt without an answer.';
comment on column promo.wallet_calls.is_uncertain is 'Whether an attempt before the last one may have taken effect.';
comment on column promo.wallet_calls.created_at is 'When the call was stored.';
comment on column promo.wallet_calls.ended_at is 'When it was over; null before.';
comment on column promo.wallet_calls.note is 'The words of the person who closed it.';

create function promo.close_wallet_call(operator text, op text, words text) returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
begin
  if coalesce(words, '') = '' then
    raise exception 'no words are given: write how the call was resolved, without data of players' using errcode = 'invalid_parameter_value';
  end if;
  update promo_store.wallet_calls c set state = 'closed', payload = null, call_values = null, ended_at = now(), note = words
  where c.operator_id = operator and c.op_id = op and c.state = 'unresolved';
  return found;
end
$$;
comment on function promo.close_wallet_call is 'Closes a call that people have resolved, and removes its payload. Returns false where no such call is unresolved.';
revoke execute on function promo.close_wallet_call from public;

create function promo.forget_wallet_calls(before timestamptz, most int default 10000) returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  gone bigint;
begin
  -- A call goes after the calls that follow it: they name it.
  delete from promo_store.wallet_calls c where c.call_no = any(array(
    select d.call_no from promo_store.wallet_calls d
    where d.ended_at < before and not exists (select from promo_store.wallet_calls f where f.follows = d.call_no)
    order by d.ended_at limit most for update skip locked
  ));
  get diagnostics gone = row_count;
  return gone;
end
$$;
comment on function promo.forget_wallet_calls is 'Deletes calls that were over before a time, at most so many. Repeat it until it returns 0.';
revoke execute on function promo.forget_wallet_calls from public;

/** The tables of the example wallet, and its test players. Amounts are minor units. */

export const TABLES: readonly string[] = [
  `create schema if not exists example_wallet`,
  `create table if not exists example_wallet.players (
    id text primary key,
    token text not null,
    token_is_valid boolean not null default true,
    is_blocked boolean not null default false,
    is_limited boolean not null default false,
    currency text not null,
    exponent int not null,
    balance bigint not null
  )`,
  // One row for each op_id, kept for at least four months: its content, its effect, and its answer.
  `create table if not exists example_wallet.operations (
    op_id text primary key,
    content text not null,
    player text not null,
    round text,
    stake bigint not null,
    win bigint not null,
    state text not null check (state in ('applied', 'refused', 'rolled_back')),
    answer json not null,
    at timestamptz not null default now()
  )`,
  // Rollbacks that came before their debit. That debit must not charge when it comes.
  `create table if not exists example_wallet.rolled_back_early (
    op_id text primary key,
    at timestamptz not null default now()
  )`,
  `create table if not exists example_wallet.closed_rounds (
    player text not null,
    round text not null,
    primary key (player, round)
  )`,
  `insert into example_wallet.players (id, token, token_is_valid, is_blocked, is_limited, currency, exponent, balance)
  values
    ('p-usual', 't-usual', true, false, false, 'EUR', 2, 1000000),
    ('p-poor', 't-poor', true, false, false, 'EUR', 2, 500),
    ('p-blocked', 't-blocked', true, true, false, 'EUR', 2, 10000),
    ('p-expired', 't-expired', false, false, false, 'EUR', 2, 10000),
    ('p-limited', 't-limited', true, false, true, 'EUR', 2, 10000)
  on conflict do nothing`,
];

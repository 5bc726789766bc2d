/**
 * The table of the contender insert-only: an event as it arrived, under the key that makes its insert
 * idempotent.
 */
export const INSERT_ONLY_COLUMNS = [
  ['feed', 'text'],
  ['event_id', 'text'],
  ['brand', 'text'],
  ['player_ref', 'text'],
  ['kind', 'text'],
  ['round_id', 'text'],
  ['game_id', 'text'],
  ['amount', 'numeric'],
  ['currency', 'text'],
  ['occurred_at', 'timestamptz'],
  ['partition_no', 'int'],
  ['source_offset', 'bigint'],
] as const;

export const CREATE_INSERT_ONLY = `create table bench_insert_only (
  ${INSERT_ONLY_COLUMNS.map((column) => column.join(' ')).join(', ')}, primary key (feed, event_id))`;

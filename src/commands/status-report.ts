/** The report of `status`: its fields, as --json prints them, and its lines for people. */

import { seconds } from '../cli/seconds';
import type { EffectiveSetting } from '../config/config';
import { counted } from '../lib/printable';
import { keyOf } from '../lib/topic-partition';
import type { UnreadTopic } from './unread-topics';

export type Told<T> = T | { readonly unknown: string };

export interface PartitionStatus {
  readonly topic: string;
  readonly partition: number;
  /** Offsets that the group has not committed; null where Kafka does not tell. */
  readonly lag_records: number | null;
  /** Seconds that the oldest of them has been in Kafka; 0 without lag, null where it is not known. */
  readonly lag_seconds: number | null;
  /** Seconds since a batch of it was decided; null where none ever was, or the store does not tell. */
  readonly idle_seconds: number | null;
  /** It waits, and nothing of it is decided. */
  readonly undecided: boolean;
}

export interface Report {
  /** Sentences; empty where all is well. */
  readonly needs_a_person: readonly string[];
  /** Sentences about what may be as it should. */
  readonly notes: readonly string[];
  readonly unread_topics: readonly UnreadTopic[];
  readonly schema: Told<{ readonly newest: string | null; readonly missing: readonly string[] }>;
  readonly reference: Told<{ readonly version: number; readonly applied_at: string | null }>;
  readonly group: Told<{ readonly members: number }>;
  readonly lag: Told<{
    readonly records: number;
    readonly seconds: number | null;
    readonly undecided_partitions: number;
  }>;
  readonly balance: Told<{
    readonly records_read: number;
    readonly became: number;
    readonly dead_letters: number;
  }>;
  readonly invariants: Told<{ readonly damages: number | null }>;
  readonly partitions: readonly PartitionStatus[];
  readonly configuration: readonly EffectiveSetting[];
}

export function describe(report: Report): string[] {
  const { schema, reference, group, lag, balance, invariants, partitions, configuration } = report;
  const say = <T extends object>(part: Told<T>, tell: (value: T) => string) =>
    'unknown' in part ? 'not known' : tell(part);
  const behind = partitions.filter(({ lag_records }) => lag_records !== 0);
  return [
    `schema      ${say(schema, ({ newest, missing }) => `${newest ?? 'none'}${missing.length > 0 ? `, lacks ${missing.length}` : ''}`)}`,
    `reference   ${say(reference, ({ version, applied_at }) => (version === 0 ? 'none' : `version ${version}, applied ${applied_at}`))}`,
    `group       ${say(group, ({ members }) => counted(members, 'member'))}`,
    `lag         ${say(lag, (all) => `${counted(all.records, 'record')}${all.records === 0 ? '' : `, ${seconds(all.seconds)}`}; ${counted(all.undecided_partitions, 'undecided partition')}`)}`,
    `balance     ${say(balance, (all) => `${counted(all.records_read, 'record')} read, ${all.became} accounted for, ${all.dead_letters} of them dead letters`)}`,
    `invariants  ${say(invariants, ({ damages }) => (damages === null ? 'not checked (--check)' : counted(damages, 'damage')))}`,
    ...behind.map(
      ({ topic, partition, lag_records, lag_seconds, undecided }) =>
        `  ${keyOf({ topic, partition })}: ${counted(lag_records, 'record')}, ${seconds(lag_seconds)}${undecided ? ', undecided' : ''}`,
    ),
    'configuration',
    ...configuration.flatMap(({ name, value, from }) =>
      value === null ? [] : [`  ${name}=${value}${from === 'default' ? ' (default)' : ''}`],
    ),
    ...report.notes,
    ...report.needs_a_person.map((problem) => `! ${problem}`),
    report.needs_a_person.length === 0
      ? 'nothing needs a person'
      : `${report.needs_a_person.length} need a person`,
  ];
}

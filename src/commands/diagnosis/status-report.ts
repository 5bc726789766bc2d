/** The report of `status`: the fields that --json prints, and the lines for people. */

import type { EffectiveSetting } from '../../config/config';
import { elapsedText } from '../../lib/duration';
import { counted } from '../../lib/printable';
import { keyOf } from '../../lib/topic-partition';
import type { UnreadTopic } from '../services/unread-topics';
import type { VerdictTopicState } from '../services/verdict-publishing';
import { describeDerived, type ReportedDerived } from './derived-status';
import type { OrUnknown } from './status-part';

export interface ReportedPartition {
  readonly topic: string;
  readonly partition: number;
  /** Offsets that the group has not committed; null if Kafka does not answer. */
  readonly lag_records: number | null;
  /** Seconds that the oldest of them has been in Kafka; 0 without lag, null if unknown. */
  readonly lag_seconds: number | null;
  /**
   * Seconds since a batch of the partition was decided; null if none ever was, or if the store does not
   * answer.
   */
  readonly idle_seconds: number | null;
  /** Records wait, and none of them is being decided. */
  readonly undecided: boolean;
}

export interface Report extends ReportedDerived {
  /** Sentences about problems. Empty if there is none. */
  readonly needs_a_person: readonly string[];
  /** Sentences about facts that may be intended. */
  readonly notes: readonly string[];
  readonly unread_topics: readonly UnreadTopic[];
  readonly schema: OrUnknown<{ readonly newest: string | null; readonly missing: readonly string[] }>;
  readonly reference: OrUnknown<{ readonly version: number; readonly applied_at: string | null }>;
  readonly group: OrUnknown<{ readonly members: number }>;
  readonly lag: OrUnknown<{
    readonly records: number;
    readonly seconds: number | null;
    /** Null if the store does not answer. */
    readonly undecided_partitions: number | null;
  }>;
  readonly balance: OrUnknown<{
    readonly records_read: number;
    readonly became: number;
    readonly dead_letters: number;
  }>;
  readonly wallet_calls: OrUnknown<{
    readonly open: number;
    readonly unresolved: number;
    /** How long the oldest due call has waited; 0 where none is due. */
    readonly oldest_due_seconds: number | null;
  }>;
  readonly invariants: OrUnknown<{ readonly damages: number | null }>;
  /** One for all operators, or one for each. Empty where verdicts are not published. */
  readonly verdict_topics: OrUnknown<readonly VerdictTopicState[]>;
  readonly partitions: readonly ReportedPartition[];
  readonly configuration: readonly EffectiveSetting[];
}

export function describeReport(report: Report): string[] {
  const { schema, reference, group, lag, balance, wallet_calls, invariants, partitions, configuration } =
    report;
  const show = <T extends object>(part: OrUnknown<T>, describeValue: (value: T) => string) =>
    'unknown' in part ? 'unknown' : describeValue(part);
  const behind = partitions.filter(({ lag_records }) => lag_records !== 0);
  return [
    `schema      ${show(schema, ({ newest, missing }) => `${newest ?? 'none'}${missing.length > 0 ? `, lacks ${missing.length}` : ''}`)}`,
    `reference   ${show(reference, ({ version, applied_at }) => (version === 0 ? 'none' : `version ${version}, applied ${applied_at}`))}`,
    `group       ${show(group, ({ members }) => counted(members, 'member'))}`,
    `lag         ${show(lag, (all) => `${counted(all.records, 'record')}${all.records === 0 ? '' : `, ${elapsedText(all.seconds)}`}; ${all.undecided_partitions === null ? 'undecided partitions unknown' : counted(all.undecided_partitions, 'undecided partition')}`)}`,
    `balance     ${show(balance, (all) => `${counted(all.records_read, 'record')} read, ${all.became} accounted for, ${all.dead_letters} of them dead letters`)}`,
    `wallets     ${show(wallet_calls, (all) => `${counted(all.open, 'open call')}, ${all.unresolved} unresolved${(all.oldest_due_seconds ?? 0) > 0 ? `; the oldest is due for ${elapsedText(all.oldest_due_seconds)}` : ''}`)}`,
    ...describeDerived(report),
    `invariants  ${show(invariants, ({ damages }) => (damages === null ? 'not checked (--check)' : counted(damages, 'damage')))}`,
    ...('unknown' in report.verdict_topics || report.verdict_topics.length === 0
      ? []
      : [`verdicts    ${counted(report.verdict_topics.length, 'topic')}`]),
    ...('unknown' in report.verdict_topics ? ['verdicts    unknown'] : report.verdict_topics).map((each) =>
      typeof each === 'string' ? each : `  ${each.topic ?? each.operator}: ${each.state}`,
    ),
    ...behind.map(
      ({ topic, partition, lag_records, lag_seconds, undecided }) =>
        `  ${keyOf({ topic, partition })}: ${counted(lag_records, 'record')}, ${elapsedText(lag_seconds)}${undecided ? ', undecided' : ''}`,
    ),
    'configuration',
    ...configuration.flatMap(({ name, value, from }) =>
      value === null ? [] : [`  ${name}=${value}${from === 'default' ? ' (default)' : ''}`],
    ),
    ...report.notes,
    ...report.needs_a_person.map((problem) => `! ${problem}`),
    report.needs_a_person.length === 0
      ? 'no person has to act'
      : `${counted(report.needs_a_person.length, 'problem')} for a person`,
  ];
}

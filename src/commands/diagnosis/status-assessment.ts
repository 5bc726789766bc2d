/** Makes the report of `status` from the facts, and finds the problems that need a person. Pure. */
import { lacksMigrations } from '../../cli/remedies';
import type { EffectiveSetting } from '../../config/config';
import type { Position } from '../../kafka/admin/offsets';
import { noTopic } from '../../kafka/client/errors';
import type { PartitionBalance, StoredVersions } from '../../ledger/stored-state';
import type { WalletBacklog } from '../../ledger/wallet-backlog';
import { elapsedText, rounded } from '../../lib/duration';
import { counted } from '../../lib/printable';
import { keyOf } from '../../lib/topic-partition';
import { describeUnread, type UnreadTopic } from '../services/unread-topics';
import type { VerdictTopicState } from '../services/verdict-publishing';
import { type DerivedFacts, derivedNotes, derivedProblems, reportDerived } from './derived-status';
import { mapPart, type ReportPart, valueIn } from './status-part';
import type { Report, ReportedPartition } from './status-report';

/**
 * A partition whose records wait this long, with none decided, is undecided. Retries are at most 30 s apart
 * (U2).
 */
const UNDECIDED_AFTER_SECONDS = 60;
/** A process looks for due wallet calls every second. An attempt of each call of an outage takes a while. */
const LATE_CALL_SECONDS = 300;

export interface Facts extends DerivedFacts {
  /** Migrations of this version of the program. */
  readonly migrations: readonly string[];
  readonly versions: ReportPart<StoredVersions>;
  readonly balance: ReportPart<readonly PartitionBalance[]>;
  readonly positions: ReportPart<readonly Position[]>;
  readonly members: ReportPart<number>;
  readonly walletCalls: ReportPart<WalletBacklog>;
  /**
   * The age in seconds of the oldest undecided record in Kafka, by `keyOf`. Only for partitions where it was
   * found.
   */
  readonly oldestSeconds: ReadonlyMap<string, number | null>;
  /** Why the age of the other partitions is unknown; null if there was no error. */
  readonly oldestUnknown: string | null;
  /** Topics that the workers should read. */
  readonly wanted: readonly string[];
  readonly unread?: readonly UnreadTopic[];
  /** The number of damages of the invariants; null without --check. */
  readonly damages: ReportPart<number | null>;
  /** The topics of verdicts; absent where it was not asked. */
  readonly verdictTopics?: ReportPart<readonly VerdictTopicState[]>;
  readonly configuration: readonly EffectiveSetting[];
}

export function assess(facts: Facts): Report {
  const partitions = partitionsOf(facts);
  const versions = valueIn(facts.versions);
  const verdicts = (facts.verdictTopics && valueIn(facts.verdictTopics)) ?? [];
  const undecided = partitions.filter((each) => each.undecided);
  const known = partitions.flatMap(({ lag_seconds }) => lag_seconds ?? []);
  const records = partitions.reduce((sum, { lag_records }) => sum + (lag_records ?? 0), 0);
  const balance = valueIn(facts.balance) ?? [];
  const missing = facts.migrations.filter((name) => versions?.migrations.includes(name) === false);
  const sum = (count: (each: PartitionBalance) => number) =>
    balance.reduce((all, each) => all + count(each), 0);
  return {
    needs_a_person: [
      ...unknowns(facts),
      ...(missing.length > 0 ? [lacksMigrations(missing)] : []),
      ...(versions?.referenceVersion === 0
        ? ['there is no reference data, so nothing is decided: run promo-intake reference apply']
        : []),
      ...kafkaProblems(facts, records),
      ...unknownLag(partitions, facts.oldestUnknown),
      ...undecided.map(
        ({ topic, partition, lag_records, lag_seconds, idle_seconds }) =>
          `${keyOf({ topic, partition })} is undecided: ${counted(lag_records, 'record waits', 'records wait')}, the oldest for ${elapsedText(lag_seconds)}, and ${
            idle_seconds === null
              ? 'none was ever decided'
              : `none was decided for ${elapsedText(idle_seconds)}`
          }; /readyz of its worker says why`,
      ),
      ...balance.flatMap((each) =>
        each.recordsRead === each.became
          ? []
          : [
              `${keyOf(each)}: ${counted(each.recordsRead, 'record was', 'records were')} read, but ${each.became} have a counted result: run promo-intake verify`,
            ],
      ),
      ...walletProblems(facts),
      ...derivedProblems(facts),
      ...verdicts.flatMap(({ problem }) => (problem === null ? [] : [`VERDICT_TOPIC: ${problem}`])),
      ...((valueIn(facts.damages) ?? 0) > 0
        ? [`${counted(valueIn(facts.damages) ?? 0, 'damage')} of the invariants: run promo-intake verify`]
        : []),
    ],
    notes: [
      ...unread(facts),
      ...derivedNotes(facts),
      ...describeUnread(facts.unread ?? []),
      // Some roles may not read which operators have a topic. Nobody has to act for that.
      ...(facts.verdictTopics !== undefined && 'unknown' in facts.verdictTopics
        ? [`the topics of verdicts are unknown: ${facts.verdictTopics.unknown}`]
        : []),
      ...verdicts.flatMap(({ operator, topic, state }) =>
        state === 'missing'
          ? [
              `the verdict topic ${topic}${operator === null ? '' : ` of ${operator}`} is missing, or hidden from this user. A worker creates it where it may`,
            ]
          : [],
      ),
    ],
    verdict_topics: facts.verdictTopics === undefined ? [] : mapPart(facts.verdictTopics, (all) => all),
    unread_topics: facts.unread ?? [],
    schema: mapPart(facts.versions, ({ migrations }) => ({ newest: migrations.at(-1) ?? null, missing })),
    reference: mapPart(facts.versions, ({ referenceVersion, referenceAppliedAt }) => ({
      version: referenceVersion,
      applied_at: referenceAppliedAt,
    })),
    group: mapPart(facts.members, (members) => ({ members })),
    lag: mapPart(facts.positions, () => ({
      records,
      seconds: known.length === partitions.length ? Math.max(0, ...known) : null,
      undecided_partitions: 'unknown' in facts.balance ? null : undecided.length,
    })),
    balance: mapPart(facts.balance, () => ({
      records_read: sum(({ recordsRead }) => recordsRead),
      became: sum(({ became }) => became),
      dead_letters: sum(({ deadLetters }) => deadLetters),
    })),
    wallet_calls: mapPart(facts.walletCalls, ({ open, unresolved, oldestDueSeconds }) => ({
      open,
      unresolved,
      oldest_due_seconds: rounded(oldestDueSeconds),
    })),
    ...reportDerived(facts),
    invariants: mapPart(facts.damages, (damages) => ({ damages })),
    partitions,
    configuration: facts.configuration,
  };
}

/** The unknown parts, grouped by reason. */
function unknowns({ versions, balance, positions, members, walletCalls, damages }: Facts): string[] {
  const parts = [
    ['versions', versions],
    ['counters', balance],
    ['lag', positions],
    ['members of the group', members],
    ['wallet calls', walletCalls],
    ['invariants', damages],
  ] as const;
  const byReason = new Map<string, string[]>();
  for (const [name, part] of parts) {
    if (!('unknown' in part)) continue;
    byReason.set(part.unknown, [...(byReason.get(part.unknown) ?? []), name]);
  }
  return [...byReason].map(([reason, names]) => `unknown: ${names.join(', ')}: ${reason}`);
}

/** Partitions whose waiting records have an unknown age: they may be undecided. */
function unknownLag(partitions: readonly ReportedPartition[], because: string | null): string[] {
  const unknown = partitions.filter(
    ({ lag_records, lag_seconds }) => lag_records !== 0 && lag_seconds === null,
  );
  if (unknown.length === 0) return [];
  const reason = because === null ? '' : `: ${because}`;
  return [`the age of the waiting records of ${unknown.map(keyOf).join(', ')} is unknown${reason}`];
}

/**
 * Topics that are no longer configured are listed while they still have undecided records. They do not affect
 * the exit code.
 */
function unread(facts: Facts): string[] {
  const reached = reachedBy(facts);
  const waiting = new Map<string, number>();
  for (const position of valueIn(facts.positions) ?? []) {
    const { topic, high } = position;
    if (facts.wanted.includes(topic)) continue;
    waiting.set(topic, (waiting.get(topic) ?? 0) + Math.max(0, high - reached(position)));
  }
  return [...waiting].flatMap(([topic, records]) =>
    records === 0
      ? []
      : [
          `no worker reads ${topic} any more, and ${counted(records, 'record of it is', 'records of it are')} not decided`,
        ],
  );
}

function walletProblems({ walletCalls }: Facts): string[] {
  const { unresolved = 0, oldestDueSeconds = 0 } = valueIn(walletCalls) ?? {};
  return [
    ...(unresolved > 0
      ? [
          `${counted(unresolved, 'wallet call is', 'wallet calls are')} unresolved: resolve them with the operator, and call promo.close_wallet_call`,
        ]
      : []),
    ...(oldestDueSeconds > LATE_CALL_SECONDS
      ? [
          `the oldest due wallet call has waited for ${elapsedText(oldestDueSeconds)}: start a process that calls wallets, or give the wallet more connections`,
        ]
      : []),
  ];
}

function kafkaProblems({ positions, members, wanted }: Facts, lagRecords: number): string[] {
  if (valueIn(positions) === undefined) return [];
  const found = (valueIn(positions) ?? []).filter(({ topic }) => wanted.includes(topic));
  const missing = wanted.filter((name) => found.every(({ topic }) => topic !== name));
  const deleted = found.filter(({ committed, low }) => committed !== null && committed < low);
  const beyond = found.filter(({ committed, high }) => committed !== null && committed > high);
  return [
    ...missing.map(noTopic),
    ...deleted.map(
      ({ topic, partition, committed, low }) =>
        `${keyOf({ topic, partition })}: offsets ${committed} to ${low - 1} were deleted from Kafka before they were read`,
    ),
    ...beyond.map(
      ({ topic, partition, committed, high }) =>
        `${keyOf({ topic, partition })}: offset ${committed} is committed, but Kafka ends at ${high}: the topic was created again, or Kafka has lost records`,
    ),
    ...(valueIn(members) === 0 && lagRecords > 0
      ? [`${counted(lagRecords, 'record waits', 'records wait')}, and no worker is in the group`]
      : []),
  ];
}

/**
 * The first undecided offset of a partition. Kafka drops the offsets of a group without members, and of a
 * topic that the group no longer reads, usually after a week. Then the store's offset is used. It is ignored
 * if it is beyond the topic's end, because it then belongs to an earlier topic of the same name.
 *
 * A group with members begins at the first record of a partition without an offset. The store may have
 * decided these records already: they wait until their verdicts are published.
 */
export function reachedBy({
  balance,
  members,
  wanted,
}: Pick<Facts, 'balance' | 'members' | 'wanted'>): (position: Position) => number {
  const next = new Map((valueIn(balance) ?? []).map((each) => [keyOf(each), each.decidedUpTo]));
  const hasMembers = (valueIn(members) ?? 0) > 0;
  return (position) => {
    const { topic, low, high, committed } = position;
    const stored = hasMembers && wanted.includes(topic) ? low : (next.get(keyOf(position)) ?? low);
    return Math.max(committed ?? (stored > high ? low : stored), low);
  };
}

/** The status of each partition of the topics that the workers should read. */
export function partitionsOf(facts: Facts): ReportedPartition[] {
  const { positions, balance, oldestSeconds, wanted } = facts;
  const stored = new Map((valueIn(balance) ?? []).map((each) => [keyOf(each), each]));
  const reached = reachedBy(facts);
  const read = (valueIn(positions) ?? []).filter(({ topic }) => wanted.includes(topic));
  return read.map((position) => {
    const { topic, partition, high } = position;
    const key = keyOf({ topic, partition });
    const lag = Math.max(0, high - reached(position));
    const idle = stored.get(key)?.idleSeconds ?? null;
    const known = oldestSeconds.has(key) ? (oldestSeconds.get(key) ?? idle) : null;
    const waiting = lag === 0 ? 0 : known;
    const undecided =
      waiting !== null &&
      waiting > UNDECIDED_AFTER_SECONDS &&
      'value' in balance &&
      (idle ?? waiting) > UNDECIDED_AFTER_SECONDS;
    return {
      topic,
      partition,
      lag_records: lag,
      lag_seconds: rounded(waiting),
      idle_seconds: rounded(idle),
      undecided,
    };
  });
}

/** `promo-intake status`: a first look at the store and at Kafka, and the problems that need a person. */

import { DONE, FAILED } from '../../cli/exit-codes';
import { printLines, printText } from '../../cli/output';
import { lacksMigrations } from '../../cli/remedies';
import { describeConfig, type EffectiveSetting, readConfig } from '../../config/config';
import { countMembers, type Position, readPositions } from '../../kafka/admin/offsets';
import { makeKafka, readClusterId } from '../../kafka/client/client';
import { noTopic } from '../../kafka/client/errors';
import { readRecords } from '../../kafka/consumer/range-reader';
import { readCompletionState } from '../../ledger/completion-state';
import { readFoldCoverage } from '../../ledger/fold-coverage';
import { migrationNames } from '../../ledger/migrate';
import {
  countDamages,
  type PartitionBalance,
  readBalance,
  readVersions,
  type StoredVersions,
} from '../../ledger/stored-state';
import { readWalletBacklog, type WalletBacklog } from '../../ledger/wallet-backlog';
import { ageOf, NEVER, systemClock } from '../../lib/clock';
import { elapsedText, rounded } from '../../lib/duration';
import { counted } from '../../lib/printable';
import { keyOf } from '../../lib/topic-partition';
import { makeLogger } from '../../telemetry/logger';
import { describeUnread, findUnread, type UnreadTopic } from '../services/unread-topics';
import { OwnTopics, readVerdictTopics, type VerdictTopicState } from '../services/verdict-publishing';
import { STATUS_SETTINGS } from '../shared/settings';
import { type DerivedFacts, derivedNotes, derivedProblems, reportDerived } from './derived-status';
import { mapPart, PART_WITHIN_MS, part, type ReportPart, valueIn } from './status-part';
import { describeReport, type Report, type ReportedPartition } from './status-report';

/** Time limit to read the oldest waiting record of each partition. It includes joining a group. */
const OLDEST_WITHIN_MS = 20_000;
/** Time limit of a second query to a server that has just answered. */
const AGAIN_WITHIN_MS = 5_000;
/** Within this time an idle worker decides a record that has just arrived. */
const DECIDED_WITHIN_MS = 5_000;
/** Retries of an unreachable broker. Few, because a person waits for the report. */
const RETRIES = 2;
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

/** @returns the exit code: 1 if a problem needs a person */
export async function status(options: { json: boolean; check: boolean }): Promise<number> {
  const report = assess(await look(options.check));
  if (options.json) await printText(`${JSON.stringify(report, null, 2)}\n`);
  else await printLines(describeReport(report));
  return report.needs_a_person.length === 0 ? DONE : FAILED;
}

async function look(check: boolean): Promise<Facts> {
  const config = readConfig(process.env, STATUS_SETTINGS);
  // Silent: the report names each unreachable server once.
  const logger = makeLogger('silent');
  const kafka = makeKafka({ ...config.KAFKA, clientId: 'promo-intake-status', retries: RETRIES }, logger);
  const { DATABASE, KAFKA_GROUP_ID } = config;
  // The check comes first because it may take long. All other facts should be of the same moment.
  const damages: ReportPart<number | null> = check
    ? await part(() => countDamages(DATABASE), Number.POSITIVE_INFINITY)
    : { value: null };
  const cluster = part(() => readClusterId(kafka), AGAIN_WITHIN_MS);
  const readHere = async () => readBalance(DATABASE, valueIn(await cluster));
  const [versions, balance, walletCalls, members] = await Promise.all([
    part(() => readVersions(DATABASE)),
    part(readHere),
    part(() => readWalletBacklog(DATABASE)),
    part(() => countMembers(kafka, KAFKA_GROUP_ID)),
  ]);
  const decided = (valueIn(balance) ?? []).map(({ topic }) => topic);
  const named = config.KAFKA_TOPICS ?? valueIn(versions)?.topics;
  const topics = [...new Set([...(named ?? []), ...decided])].sort();
  // While the store is away, only the offsets of the group name the topics that the workers read.
  const positions = await part(() =>
    readPositions(kafka, KAFKA_GROUP_ID, topics, { others: named === undefined }),
  );
  const wanted = named ?? [...new Set((valueIn(positions) ?? []).map(({ topic }) => topic))];
  const oldest = new Map<string, number | null>();
  const read = await part(async () => {
    const reached = reachedBy({ balance, members, wanted });
    const ranges = (valueIn(positions) ?? [])
      .filter(({ topic }) => wanted.includes(topic))
      .map((position) => ({ ...position, from: reached(position), to: position.high }));
    await readRecords(
      kafka,
      { groupId: KAFKA_GROUP_ID, purpose: 'status', ranges, stalledMs: PART_WITHIN_MS },
      async (range, [first]) => {
        if (first !== undefined) oldest.set(keyOf(range), ageOf(Number(first.timestamp)));
        return false;
      },
      logger,
    );
    // All ranges were read. A range without a record holds only markers and the like, so its age is 0.
    for (const range of ranges) if (!oldest.has(keyOf(range))) oldest.set(keyOf(range), 0);
  }, OLDEST_WITHIN_MS);
  const own = new OwnTopics(config);
  const verdictTopics = await part(() => readVerdictTopics(own, DATABASE, kafka));
  const known = [...topics, ...(valueIn(versions)?.topics ?? [])];
  const facts: Facts = {
    migrations: await migrationNames(),
    versions,
    balance,
    positions,
    members,
    walletCalls,
    rollups: await part(() => readFoldCoverage(DATABASE, 'rollups')),
    pseudonyms: await part(() => readFoldCoverage(DATABASE, 'pseudonyms')),
    promotions: await part(() => readFoldCoverage(DATABASE, 'promotions')),
    completions: await part(() => readCompletionState(DATABASE)),
    // A copy: after its time limit the read goes on and would still change the map.
    oldestSeconds: new Map(oldest),
    oldestUnknown: 'unknown' in read ? read.unknown : null,
    wanted,
    // Without the store, topics that connections name are unknown, and would seem to be unread.
    unread:
      'unknown' in versions
        ? []
        : (valueIn(await part(() => findUnread(kafka, { known, own: own.all }))) ?? []),
    damages,
    verdictTopics,
    configuration: describeConfig(process.env, STATUS_SETTINGS),
  };
  return lookAgain(facts, async () => {
    await systemClock.sleep(DECIDED_WITHIN_MS, NEVER);
    return part(async () => {
      // The store is read first. Otherwise a partition could seem to have more decided records than Kafka
      // has.
      const balance = await readHere();
      return { balance, positions: await readPositions(kafka, KAFKA_GROUP_ID, topics) };
    }, AGAIN_WITHIN_MS);
  });
}

/**
 * Queries the partitions once more if one seems to be undecided. A record with an old timestamp that has just
 * arrived at an idle partition looks as if it had waited for long.
 */
export async function lookAgain(
  facts: Facts,
  again: () => Promise<ReportPart<{ balance: readonly PartitionBalance[]; positions: readonly Position[] }>>,
): Promise<Facts> {
  if (!partitionsOf(facts).some(({ undecided }) => undecided)) return facts;
  const found = valueIn(await again());
  if (found === undefined) return facts;
  return { ...facts, balance: { value: found.balance }, positions: { value: found.positions } };
}

// --- the report

/** Makes the report from the facts. It is pure, so that tests can cover every case. */
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
      ...{ open, unresolved, oldest_due_seconds: rounded(oldestDueSeconds) },
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
function reachedBy({
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
function partitionsOf(facts: Facts): ReportedPartition[] {
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
      ...{ topic, partition, lag_records: lag },
      ...{ lag_seconds: rounded(waiting), idle_seconds: rounded(idle), undecided },
    };
  });
}

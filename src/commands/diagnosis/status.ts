/** `promo-intake status`: a first look at the store and at Kafka, and the problems that need a person. */
import { DONE, FAILED } from '../../cli/exit-codes';
import { printLines, printText } from '../../cli/output';
import { describeConfig, readConfig } from '../../config/config';
import { countMembers, type Position, readPositions } from '../../kafka/admin/offsets';
import { makeKafka, readClusterId } from '../../kafka/client/client';
import { readRecords } from '../../kafka/consumer/range-reader';
import { readCompletionState } from '../../ledger/completion-state';
import { readFoldCoverage } from '../../ledger/fold-coverage';
import { migrationNames } from '../../ledger/migrate';
import { countDamages, type PartitionBalance, readBalance, readVersions } from '../../ledger/stored-state';
import { readWalletBacklog } from '../../ledger/wallet-backlog';
import { ageOf, NEVER, systemClock } from '../../lib/clock';
import { keyOf } from '../../lib/topic-partition';
import { makeLogger } from '../../telemetry/logger';
import { findUnread } from '../services/unread-topics';
import { OwnTopics, readVerdictTopics } from '../services/verdict-publishing';
import { STATUS_SETTINGS } from '../shared/settings';
import { assess, type Facts, partitionsOf, reachedBy } from './status-assessment';
import { PART_WITHIN_MS, part, type ReportPart, valueIn } from './status-part';
import { describeReport } from './status-report';

/** Time limit to read the oldest waiting record of each partition. It includes joining a group. */
const OLDEST_WITHIN_MS = 20_000;
/** Time limit of a second query to a server that has just answered. */
const AGAIN_WITHIN_MS = 5_000;
/** Within this time an idle worker decides a record that has just arrived. */
const DECIDED_WITHIN_MS = 5_000;
/** Retries of an unreachable broker. Few, because a person waits for the report. */
const RETRIES = 2;

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

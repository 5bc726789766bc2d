/**
 * Finds dead members that Kafka still counts: they read nothing of their partitions.
 *
 * Kafka 4.4 may fail to time out a member that dies at the same moment as its broker. The member's partitions
 * then stop until the next rebalance, which removes the member.
 *
 * The record docs/adr/0016-the-dead-member-watch.md has the issues of Kafka, and the condition for the
 * removal of this file.
 */
import { type Admin, AssignerProtocol, type Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';
import { committedOffsets } from '../admin/offsets';
import { connectedAdmin, offsetOf } from '../client/client';
import { type AnswerListener, runWithListener } from '../client/patches/fetch';

/** Interval of the checks. */
const CHECK_MS = 2_000;
/**
 * A member is taken for dead once it commits nothing for this long, on all its partitions, though at least
 * one has records to read.
 */
const STILL_MS = 8_000;
/**
 * Workers that find the same dead member rejoin at different moments within this time: the first rejoin is
 * enough.
 */
const STILL_SPREAD_MS = 2_000;
/**
 * A worker that commits nothing for this long, although it has records to read, is held up itself. The store
 * is then the usual cause, and holds up the other workers, too.
 */
const HELD_UP_MS = 3_000;
/**
 * A worker that was held up judges the other members only after this time. Each of them may wait for its next
 * retry: up to 30 s (docs/rules.md, U2), and some seconds to decide and to commit.
 */
const RECOVERY_MS = 35_000;
/**
 * Wait before the second rejoin. Each further wait is twice as long, because the member may be alive and only
 * undecided.
 */
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;

export interface GroupMember {
  readonly id: string;
  readonly partitions: readonly TopicPartition[];
}

export interface GroupView {
  readonly members: readonly GroupMember[];
  readonly positions: readonly GroupPosition[];
}

/** The group's committed offset in a partition, and one past the last record that can be read. */
export interface GroupPosition extends TopicPartition {
  readonly committed: number;
  readonly end: number;
}

/** Finds members without progress since the last rebalance. */
export class StillMembers {
  private heldUpAt = Number.NEGATIVE_INFINITY;
  private readonly partitions = new Map<
    string,
    { committed: number; committedAt: number; behindSince: number }
  >();

  /** @param stillMs how long a member makes no progress until it counts as still */
  constructor(private readonly stillMs: number) {}

  /** Forgets all observations: the group has rebalanced. */
  reset(): void {
    this.partitions.clear();
  }

  /**
   * The members without progress. None while this worker makes no progress either, and for RECOVERY_MS after:
   * then the cause is the store, or another common cause.
   *
   * @param now in ms
   */
  observe({ members, positions }: GroupView, ownId: string, now: number): GroupMember[] {
    for (const { committed, end, ...source } of positions) {
      const key = keyOf(source);
      const known = this.partitions.get(key);
      const isFirst = known === undefined;
      const hasCommitted = isFirst || known.committed !== committed;
      const isBehind = committed < end;
      this.partitions.set(key, {
        committed,
        committedAt: isFirst ? Number.NEGATIVE_INFINITY : hasCommitted ? now : known.committedAt,
        behindSince: !isBehind || hasCommitted ? now : known.behindSince,
      });
    }
    const isHeldUp = members.some((member) => member.id === ownId && this.isStill(member, now - HELD_UP_MS));
    if (isHeldUp) this.heldUpAt = now;
    if (now < this.heldUpAt + RECOVERY_MS) return [];
    return members.filter((member) => this.isStill(member, now - this.stillMs));
  }

  /** Whether a member has had records to read since this time, in ms, and has committed none. */
  private isStill({ partitions }: GroupMember, since: number): boolean {
    const known = partitions.flatMap((source) => this.partitions.get(keyOf(source)) ?? []);
    return (
      known.some(({ behindSince }) => behindSince <= since) &&
      known.every(({ committedAt }) => committedAt <= since)
    );
  }
}

/** Limits how often dead members cause a rejoin. */
export class JoinLimit {
  private times = 0;
  private nextAt = Number.NEGATIVE_INFINITY;

  /** Whether a rejoin is allowed now; if so, it counts as done. @param now in ms */
  take(now: number): boolean {
    if (now < this.nextAt) return false;
    // Long after the last rejoin the cause is a new one.
    if (now > this.nextAt + LONGEST_PAUSE_MS) this.times = 0;
    this.nextAt = now + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.times++);
    return true;
  }
}

export interface MemberWatchOptions {
  readonly groupId: string;
  /** This worker's member id and topics; null while it cannot judge other members. */
  readonly self: () => { readonly id: string; readonly topics: readonly string[] } | null;
  /** Called where members are dead, and this worker should rejoin. */
  readonly onDeadMembers: () => void;
}

export interface MemberWatch {
  /** Checks until the signal is aborted. */
  watch(signal: AbortSignal): Promise<void>;
  /** Called after each rebalance. */
  onRebalanced(): void;
}

export function makeMemberWatch(
  kafka: Kafka,
  { groupId, self, onDeadMembers }: MemberWatchOptions,
  logger: Logger,
): MemberWatch {
  const stillMembers = new StillMembers(STILL_MS + Math.random() * STILL_SPREAD_MS);
  const limit = new JoinLimit();

  async function check(admin: Admin): Promise<void> {
    const before = self();
    const view = before && (await viewGroup(admin, groupId, before.topics));
    // A rebalance in between may have mixed the view of two generations.
    if (before === null || view === null || self()?.id !== before.id) return;
    const now = systemClock.now();
    const still = stillMembers.observe(view, before.id, now);
    if (still.length === 0 || !limit.take(now)) return;
    logger.warn(
      { groupId, members: still.map(({ id, partitions }) => ({ id, partitions: partitions.length })) },
      'members of the group do not read their partitions; rejoining, so that Kafka checks its members',
    );
    onDeadMembers();
  }

  const report = (error: unknown) =>
    logger.warn({ error: messageOf(error) }, 'cannot describe the members of the group');

  return {
    async watch(signal) {
      let admin: Admin | null = null;
      while (!signal.aborted) {
        try {
          admin ??= await connectedAdmin(kafka);
          await check(admin);
        } catch (error) {
          report(error);
          // A failure here must not end the watch.
          await admin?.disconnect().catch(report);
          admin = null;
        }
        await systemClock.sleep(CHECK_MS, signal);
      }
      await admin?.disconnect();
    },
    onRebalanced: () => stillMembers.reset(),
  };
}

const IGNORE_ANSWERS: AnswerListener = {
  onHighWatermark: () => undefined,
  onRefused: () => undefined,
  onLeaderless: () => undefined,
  onMissing: () => undefined,
  onThrottled: () => undefined,
  onJoining: () => undefined,
  onCommitted: () => undefined,
};

/** A view of the group now; null during a rebalance, and where this worker is the only member. */
async function viewGroup(
  admin: Admin,
  groupId: string,
  topics: readonly string[],
): Promise<GroupView | null> {
  const { groups } = await admin.describeGroups([groupId]);
  const [group] = groups;
  if (group === undefined || group.state !== 'Stable' || group.members.length < 2) return null;
  const members = group.members.map(({ memberId, memberAssignment }) => ({
    id: memberId,
    partitions: assignedIn(memberAssignment),
  }));
  // Committed offsets are read first, so the ends can only be beyond them.
  const committed = new Map(
    (await committedOffsets(admin, groupId)).map((position) => [keyOf(position), position.offset]),
  );
  const positions = await Promise.all(
    topics.map(async (topic) => {
      // A partition without a leader has no answer, and is left out. The other partitions are checked.
      const offsets = await runWithListener(IGNORE_ANSWERS, () => admin.fetchTopicOffsets(topic));
      return offsets.map(({ partition, low, high }) => ({
        topic,
        partition,
        // Deleted records no longer have to be read.
        committed: Math.max(committed.get(keyOf({ topic, partition })) ?? -1, offsetOf(low)),
        end: offsetOf(high),
      }));
    }),
  );
  return { members, positions: positions.flat() };
}

function assignedIn(bytes: Buffer): TopicPartition[] {
  const assignment = AssignerProtocol.MemberAssignment.decode(bytes)?.assignment ?? {};
  return Object.entries(assignment).flatMap(([topic, partitions]) =>
    partitions.map((partition) => ({ topic, partition })),
  );
}

/**
 * Finds members of the group that read nothing of what they were assigned: dead ones, that Kafka goes on counting.
 *
 * Kafka 4.4 may forget to time out a member that dies at the moment at which the broker itself does. Its partitions then stand still until the group
 * shares them out again, which makes Kafka ask who is there.
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

/** How often the members are looked at. */
const CHECK_MS = 2_000;
/** A member that commits nothing for this long, though each of its partitions that has records to read could, is taken for dead. */
const STILL_MS = 8_000;
/** Workers that find the same member dead do not all join anew at the same moment, but within this time; the first of them is enough. */
const STILL_SPREAD_MS = 2_000;
/** A member may be alive and undecided. So the second time comes after this long, and each further one after twice as long as the one before. */
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

/** Where the group stands in a partition, and one past the last record that can be read. */
export interface GroupPosition extends TopicPartition {
  readonly committed: number;
  readonly end: number;
}

/** What of the group was seen to move since it last shared out its partitions. */
export class StillMembers {
  private readonly partitions = new Map<
    string,
    { committed: number; movedAt: number; behindSince: number }
  >();

  /** @param stillMs how long it takes a member to be still */
  constructor(private readonly stillMs: number) {}

  /** The group has shared out its partitions: nothing of before counts. */
  reset(): void {
    this.partitions.clear();
  }

  /**
   * Members that stand still; none while one of our own partitions stands still, too: then it is the store, or what we all wait for.
   *
   * @param now in ms
   */
  observe({ members, positions }: GroupView, ownId: string, now: number): GroupMember[] {
    for (const { committed, end, ...source } of positions) {
      const key = keyOf(source);
      const known = this.partitions.get(key);
      const isFirst = known === undefined;
      const moved = isFirst || known.committed !== committed;
      const isBehind = committed < end;
      this.partitions.set(key, {
        committed,
        movedAt: isFirst ? Number.NEGATIVE_INFINITY : moved ? now : known.movedAt,
        behindSince: !isBehind || moved ? now : known.behindSince,
      });
    }
    const still = members.filter((member) => this.isStill(member, now));
    return still.some(({ id }) => id === ownId) ? [] : still;
  }

  private isStill({ partitions }: GroupMember, now: number): boolean {
    const since = now - this.stillMs;
    const known = partitions.flatMap((source) => this.partitions.get(keyOf(source)) ?? []);
    return (
      known.some(({ behindSince }) => behindSince <= since) && known.every(({ movedAt }) => movedAt <= since)
    );
  }
}

/** How often members that stand still make us join anew. */
export class JoinLimit {
  private times = 0;
  private nextAt = Number.NEGATIVE_INFINITY;

  /** Whether it may be done now; then it counts as done. @param now in ms */
  take(now: number): boolean {
    if (now < this.nextAt) return false;
    // Long after the last time it is another trouble.
    if (now > this.nextAt + LONGEST_PAUSE_MS) this.times = 0;
    this.nextAt = now + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.times++);
    return true;
  }
}

export interface MemberWatchOptions {
  readonly groupId: string;
  /** Who we are to the group, and what it reads; null while that is open. */
  readonly self: () => { readonly id: string; readonly topics: readonly string[] } | null;
  /** Members stand still, and it is our turn to join anew. */
  readonly onStill: () => void;
}

export interface MemberWatch {
  /** Looks until the signal is aborted. */
  watch(signal: AbortSignal): Promise<void>;
  /** The group has shared out its partitions. */
  sharedOut(): void;
}

export function makeMemberWatch(
  kafka: Kafka,
  { groupId, self, onStill }: MemberWatchOptions,
  logger: Logger,
): MemberWatch {
  const stillMembers = new StillMembers(STILL_MS + Math.random() * STILL_SPREAD_MS);
  const limit = new JoinLimit();

  async function look(admin: Admin): Promise<void> {
    const before = self();
    const view = before && (await viewGroup(admin, groupId, before.topics));
    // What was seen meanwhile may be of before and behind a sharing out.
    if (before === null || view === null || self()?.id !== before.id) return;
    const now = systemClock.now();
    const still = stillMembers.observe(view, before.id, now);
    if (still.length === 0 || !limit.take(now)) return;
    logger.warn(
      { groupId, members: still.map(({ id, partitions }) => ({ id, partitions: partitions.length })) },
      'members of the group read nothing of their partitions; joining anew, so that Kafka asks who is there',
    );
    onStill();
  }

  const report = (error: unknown) =>
    logger.warn({ error: messageOf(error) }, 'the members of the group could not be looked at');

  return {
    async watch(signal) {
      let admin: Admin | null = null;
      while (!signal.aborted) {
        try {
          admin ??= await connectedAdmin(kafka);
          await look(admin);
        } catch (error) {
          report(error);
          // What goes wrong here must not end the watch.
          await admin?.disconnect().catch(report);
          admin = null;
        }
        await systemClock.sleep(CHECK_MS, signal);
      }
      await admin?.disconnect();
    },
    sharedOut: () => stillMembers.reset(),
  };
}

const UNHEARD: AnswerListener = {
  end: () => undefined,
  refused: () => undefined,
  leaderless: () => undefined,
  missing: () => undefined,
  throttled: () => undefined,
  joining: () => undefined,
  committed: () => undefined,
};

/** The group, as it is now; null where we are alone in it, or while it shares out its partitions. */
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
  // What was committed is read first: the ends can only be beyond it.
  const committed = new Map(
    (await committedOffsets(admin, groupId)).map((position) => [keyOf(position), position.offset]),
  );
  const positions = await Promise.all(
    topics.map(async (topic) => {
      // Of a partition without a leader nothing is told: nobody can be still there, and the others are looked at.
      const offsets = await runWithListener(UNHEARD, () => admin.fetchTopicOffsets(topic));
      return offsets.map(({ partition, low, high }) => ({
        topic,
        partition,
        // What Kafka has deleted is not to be read any more.
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

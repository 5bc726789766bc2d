/**
 * A model of Kafka: logs with gaps, a group whose partitions move, and the topics that workers write to. It
 * refuses offset commits of an old generation. test/support/source-contract.ts compares it with a real Kafka.
 */
import type { Random } from '../../dev/random';
import type { Chunk, OffsetToCommit, RecordSource, SourceListener } from '../../src/kafka/port';
import type { TopicsProducer } from '../../src/kafka/producer';
import type { StreamRecord } from '../../src/kafka/protocol/record';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { keyOf } from '../../src/lib/topic-partition';
import { messagesOf, type SentMessage } from '../support/record-batch';
import type { Faults, Point } from './faults';
import { Actor, type Scheduler } from './scheduler';

const SESSION_TIMEOUT_MS = 10_000;
const SEND_TIMEOUT_MS = 10_000;
/**
 * Decompressed size of a compressed chunk. It exceeds the bytes that a worker keeps decompressed, so that an
 * idle chunk is closed and opened again.
 */
const DECOMPRESSED_BYTES = 70 * 1024 * 1024;
const COMMIT_TIMEOUT_MS = 10_000;
/** A member learns of its new partitions within this time. Until then it continues with the old ones. */
const REJOIN_MS = 300;
/** Maximum number of records of a chunk. */
const CHUNK_RECORDS = 12;

export interface Log {
  readonly source: TopicPartition;
  /**
   * By offset. Null is an offset without a record: the marker of a transaction, or a record of an aborted
   * one.
   */
  readonly entries: (StreamRecord | null)[];
  /** The committed offset of the group; -1 where the group has never committed. */
  committed: number;
  /** The note committed with the offset; null where no worker has committed one. */
  expectedUpTo: number | null;
}

export interface Observer {
  /** @param isOwner whether the partition belongs to the member that commits; Kafka does not check this */
  onOffsetCommit(log: Log, offset: number, isOwner: boolean): void;
  onSent(topic: string, messages: readonly SentMessage[]): void;
}

export interface BrokerOptions {
  /** Chance that a chunk's records are compressed, so that opening it takes time. */
  readonly compressed: number;
  /** The longest time that a fetch takes. */
  readonly fetchMs: number;
  /** Memory that a chunk reports in addition to its records. */
  readonly chunkBytes: number;
}

export class BrokerModel {
  readonly actor = new Actor('kafka');
  readonly logs = new Map<string, Log>();
  private members = new Set<Member>();
  private generation = 0;

  constructor(
    readonly scheduler: Scheduler,
    readonly random: Random,
    readonly faults: Pick<Faults, 'at' | 'took' | 'lasts'>,
    readonly observer: Observer,
    readonly options: BrokerOptions,
  ) {}

  append(source: TopicPartition, entries: readonly (Omit<StreamRecord, 'offset'> | null)[]): void {
    const log = this.logOf(source);
    for (const entry of entries)
      log.entries.push(entry === null ? null : { ...entry, offset: log.entries.length });
    for (const member of this.members) member.fetch();
  }

  logOf(source: TopicPartition): Log {
    let log = this.logs.get(keyOf(source));
    if (log === undefined) {
      log = { source, entries: [], committed: -1, expectedUpTo: null };
      this.logs.set(keyOf(source), log);
    }
    return log;
  }

  /**
   * Deletes the topic and creates it again. Kafka forgets the committed offsets of the group, and new records
   * begin at offset 0.
   */
  recreate(source: TopicPartition): void {
    this.logs.set(keyOf(source), { source, entries: [], committed: -1, expectedUpTo: null });
  }

  /** A worker's membership of the group. */
  source(worker: Actor): RecordSource {
    const member = new Member(this, worker);
    return {
      async start(listener) {
        member.join(listener);
      },
      pause: (partition) => member.pause(partition),
      resume: (partition) => member.resume(partition),
      rewindTo: (partition, offset) => member.rewindTo(partition, offset),
      commit: (progress) => member.commit(progress),
      stop: () => member.leave(),
    };
  }

  producer(worker: Actor, points: Readonly<Record<string, Point>>): TopicsProducer {
    return {
      sendToTopics: async (items, encode) => {
        const sent = await Promise.all(
          [...items].flatMap(([topic, its]) =>
            its.map(async (item) => ({ item, topic, messages: await messagesOf([item], encode) })),
          ),
        );
        const [first] = sent;
        const point = first && points[first.topic];
        if (point === undefined) throw new Error(`unknown topic ${first?.topic}`);
        let stored = new Set<unknown>();
        const storeSome = (isPart: boolean) => {
          const taken = isPart ? sent.filter(() => this.random.chance(0.5)) : sent;
          for (const { topic, messages } of taken) this.observer.onSent(topic, messages);
          stored = new Set(isPart ? taken.map(({ item }) => item) : []);
          return taken.length > 0 && taken.length < sent.length;
        };
        try {
          await this.request(point, worker, SEND_TIMEOUT_MS, storeSome);
          return new Map();
        } catch {
          // An answer that names some partitions leaves the others to be sent again; no answer leaves all.
          const unsent = [...items].map(
            ([topic, its]) => [topic, its.filter((item) => !stored.has(item))] as const,
          );
          return new Map(unsent.filter(([, its]) => its.length > 0));
        }
      },
      send: async (topic, items, encode) => {
        const point = points[topic];
        if (point === undefined) throw new Error(`unknown topic ${topic}`);
        const messages = await messagesOf(items, encode);
        if (messages.length === 0) return;
        await this.request(point, worker, SEND_TIMEOUT_MS, (isPart) => {
          // Messages go to several partitions, by their keys.
          const taken = isPart ? messages.filter(() => this.random.chance(0.5)) : messages;
          this.observer.onSent(topic, taken);
          return taken.length > 0 && taken.length < messages.length;
        });
      },
      stop: async () => {},
    };
  }

  /**
   * A request to a broker.
   *
   * @param done applies the request, or a part of it; returns whether it applied some messages but not all
   * @throws where the request fails, whether or not the broker has applied it
   */
  async request(
    point: Point,
    worker: Actor,
    timeoutMs: number,
    done: (isPart: boolean) => boolean,
  ): Promise<void> {
    const { scheduler, faults } = this;
    const fault = faults.at(point, worker.name);
    if (fault !== null && fault !== 'partly accepted') faults.took(point, fault);
    scheduler.note(worker.name, point);
    await scheduler.turn(this.actor, point);
    if (fault === 'silence before' || fault === 'silence after') {
      faults.lasts(timeoutMs);
      if (fault === 'silence after') done(false);
      await new Promise<void>((resolve) => scheduler.after(timeoutMs, worker, 'no answer', resolve));
      throw new Error(`${point}: no answer within ${timeoutMs} ms`);
    }
    if (fault !== 'refused' && done(fault === 'partly accepted') && fault !== null) faults.took(point, fault);
    await scheduler.turn(worker, 'answer');
    if (fault === 'refused' || fault === 'partly accepted') throw new Error(`${point}: ${fault}`);
    if (fault === 'answer lost') throw new Error(`${point}: connection lost`);
  }

  joined(member: Member): void {
    this.members.add(member);
    this.rebalance();
  }

  left(member: Member): void {
    if (this.members.delete(member)) this.rebalance();
  }

  isMember(member: Member): boolean {
    return this.members.has(member);
  }

  /** Whether a member may commit: it knows the current generation of the group. */
  isCurrent(member: Member): boolean {
    return this.isMember(member) && member.generation === this.generation;
  }

  /**
   * Assigns the partitions to the members again. Each member learns of it after a delay of its own.
   * @returns whether the group has members
   */
  rebalance(): boolean {
    this.generation++;
    const { generation } = this;
    const members = this.random.shuffled([...this.members]);
    if (members.length === 0) return false;
    const shares = new Map<Member, TopicPartition[]>(members.map((member) => [member, []]));
    this.random.shuffled([...this.logs.values()]).forEach(({ source }, index) => {
      const member = members[index % members.length];
      if (member !== undefined) shares.get(member)?.push(source);
    });
    for (const [member, share] of shares) {
      this.scheduler.after(this.random.below(REJOIN_MS), member.worker, 'assigned', () => {
        if (this.generation === generation) member.assigned(generation, share);
      });
    }
    return true;
  }

  /** Removes a member that stays silent for the session timeout. Called when a worker dies or freezes. */
  watch(worker: Actor): void {
    this.scheduler.after(SESSION_TIMEOUT_MS, this.actor, 'session timeout', () => {
      const isGone = !worker.alive || worker.frozenUntil > this.scheduler.now();
      const member = [...this.members].find((each) => each.worker === worker);
      if (!isGone || member === undefined) return;
      this.scheduler.note('kafka', `${worker.name} is removed as dead`);
      this.left(member);
      // A process that wakes up learns from its next heartbeat that it was removed, and rejoins.
      this.scheduler.after(0, worker, 'joins anew', () => member.rejoin());
    });
  }
}

/** The position from which a member reads on. */
interface Position {
  readonly source: TopicPartition;
  /** The position belongs to this log only, which another log may have replaced. */
  readonly log: Log;
  offset: number;
  isFetching: boolean;
}

class Member {
  generation = -1;
  private listener: SourceListener | null = null;
  private hasLeft = false;
  /** The positions read in this generation, by partition. */
  private positions = new Map<string, Position>();
  private readonly paused = new Set<string>();
  /** As with the real client, no offset can be committed before a record was read. */
  private hasRead = false;

  constructor(
    private readonly broker: BrokerModel,
    readonly worker: Actor,
  ) {}

  join(listener: SourceListener): void {
    this.listener = listener;
    this.broker.joined(this);
  }

  rejoin(): void {
    if (!this.hasLeft) this.broker.joined(this);
  }

  async leave(): Promise<void> {
    this.hasLeft = true;
    this.positions.clear();
    await this.broker.scheduler.turn(this.broker.actor, 'leaves the group');
    this.broker.left(this);
    await this.broker.scheduler.turn(this.worker, 'left');
  }

  assigned(generation: number, share: readonly TopicPartition[]): void {
    if (this.hasLeft) return;
    this.generation = generation;
    this.hasRead = false;
    this.paused.clear();
    this.positions = new Map(
      share.map((source) => {
        const log = this.broker.logOf(source);
        return [keyOf(source), { source, log, offset: Math.max(0, log.committed), isFetching: false }];
      }),
    );
    this.broker.scheduler.note(this.worker.name, `assigned: ${share.map(keyOf).join(', ')}`);
    this.listener?.onAssigned(share);
    for (const source of share) {
      const { committed, expectedUpTo } = this.broker.logOf(source);
      this.listener?.onPositioned(source, committed < 0 ? null : committed, expectedUpTo);
    }
    this.fetch();
  }

  pause(partition: TopicPartition): void {
    this.paused.add(keyOf(partition));
  }

  resume(partition: TopicPartition): void {
    this.paused.delete(keyOf(partition));
    this.fetch();
  }

  /** Moves the position. Chunks of the partition that are in flight become void. */
  rewindTo(partition: TopicPartition, offset: number): void {
    const key = keyOf(partition);
    const before = this.positions.get(key);
    if (before !== undefined) this.positions.set(key, { ...before, offset, isFetching: false });
    this.fetch();
  }

  /** Fetches the available records of each partition, each after a delay of its own. */
  fetch(): void {
    const { scheduler, random } = this.broker;
    for (const [key, position] of this.positions) {
      if (position.isFetching || this.paused.has(key)) continue;
      if (this.isGone(position) || position.offset >= position.log.entries.length) continue;
      position.isFetching = true;
      scheduler.after(random.below(this.broker.options.fetchMs), this.worker, 'fetched', () => {
        position.isFetching = false;
        // Drop records fetched in an older generation, and records of a paused partition.
        if (this.positions.get(key) !== position || this.paused.has(key) || this.isGone(position)) return;
        this.handOver(position);
        this.fetch();
      });
    }
  }

  /** Whether the topic was deleted: no record of it arrives any more. */
  private isGone({ source, log }: Position): boolean {
    return this.broker.logOf(source) !== log;
  }

  private handOver(position: Position): void {
    const { random, options } = this.broker;
    const { log } = position;
    const from = position.offset;
    const to = Math.min(log.entries.length, from + 1 + random.below(CHUNK_RECORDS));
    position.offset = to;
    this.hasRead = true;
    // New objects each time, as from a real fetch: a record read again is not the object that is still being
    // decided.
    const records = log.entries.slice(from, to).flatMap((entry) => (entry === null ? [] : [{ ...entry }]));
    const isCompressed = random.chance(options.compressed);
    const cursor = (from = 0) => {
      const left = records.filter(({ offset }) => offset >= from).values();
      return { bytes: isCompressed ? DECOMPRESSED_BYTES : 0, next: () => left.next().value ?? null };
    };
    const chunk: Chunk = {
      ...position.source,
      bytes: records.reduce((sum, { size }) => sum + size, options.chunkBytes),
      nextOffset: to,
      open: (from) => (isCompressed ? this.decompressed().then(() => cursor(from)) : cursor(from)),
    };
    this.listener?.onActive();
    this.listener?.onChunk(chunk);
  }

  private async decompressed(): Promise<void> {
    this.broker.faults.at('open chunk', this.worker.name);
    await this.broker.scheduler.turn(this.worker, 'decompressed');
  }

  async commit(progress: readonly OffsetToCommit[]): Promise<void> {
    if (!this.hasRead) throw new Error('nothing was read since the group assigned its partitions');
    const { broker, generation } = this;
    let isRefused = false;
    await broker.request('commit offsets', this.worker, COMMIT_TIMEOUT_MS, () => {
      isRefused = generation !== this.generation || !broker.isCurrent(this);
      if (isRefused) return false;
      for (const { topic, partition, offset, expectedUpTo } of progress) {
        const log = broker.logOf({ topic, partition });
        broker.scheduler.note('kafka', `${topic}/${partition} is committed to ${offset}`);
        log.committed = offset;
        log.expectedUpTo = expectedUpTo;
        broker.observer.onOffsetCommit(log, offset, this.positions.has(keyOf(log.source)));
      }
      return false;
    });
    if (isRefused) throw new Error('the group is rebalancing');
  }
}

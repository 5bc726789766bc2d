/**
 * A sweep strikes a worker between taps at each point of its conversations with Postgres and Kafka. The
 * remaining records have to be decided exactly once. The points are the messages that passed the taps, so
 * that a new statement is swept without any change here.
 */
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { connectionOf, inWorld, type World } from '../stream/world';
import { aBet, aLogin, anOperator, aRefund, aWinOf, bytesOf, type EventJson } from '../support/builders';
import { type Outgoing, produce, readTopic } from '../support/kafka';
import { damagesOf } from '../support/ledger';
import { withAdmin } from '../support/servers';
import { type Director, KafkaTap, type Point, PostgresTap } from '../support/taps';
import type { Settings } from '../support/worker';
import { PROGRESS_MS, verifySound } from './promises';

const HELD_DEADLINE_MS = 60_000;

/**
 * The kind of strike: the held connections are cut, or the worker is killed (SIGKILL) and another one
 * started.
 */
export type Strike = 'cut' | 'kill -9';

/** A batch with a dead letter is committed in a round trip of its own, after the letter is sent. */
export type BatchKind = 'plain' | 'with a dead letter';

/** Holds each conversation at the point that the test has set for it, once. */
class Plan implements Director {
  /** Each point is for the next conversation of that name. */
  private readonly points = new Map<string, Point[]>();
  private seen = new Map<string, Map<string, Point>>();
  heldCount = 0;

  begins(of: string): Point | null {
    return this.points.get(of)?.shift() ?? null;
  }

  passed(of: string, point: Point): void {
    const points = this.seen.get(of) ?? new Map<string, Point>();
    points.set(`${point.direction} ${point.index}`, point);
    this.seen.set(of, points);
  }

  held(): void {
    this.heldCount++;
  }

  set(of: string, points: readonly Point[]): void {
    this.points.set(of, [...points]);
  }

  /**
   * The points of conversations since the last call, by the name of each. Conversations of one name are
   * merged.
   */
  taken(): Map<string, Point[]> {
    const taken = new Map([...this.seen].map(([of, points]) => [of, [...points.values()]]));
    this.seen = new Map();
    return taken;
  }
}

export interface Sweep {
  readonly plan: Plan;
  readonly partitions: number;
  /** The partitions that share a batch with this one. */
  groupOf(partition: number): number[];
  /** Sends records that later batches refer to. */
  seed(partitions: readonly number[]): Promise<void>;
  /** Sends a batch to each of the partitions. */
  send(partitions: readonly number[]): Promise<void>;
  /** Resolves once `count` conversations are held. */
  untilHeld(count: number): Promise<void>;
  /**
   * Resolves once `count` conversations are held, or all sent records of the partitions are decided.
   * @returns whether they are held
   */
  untilHeldOrDecided(count: number, partitions: readonly number[]): Promise<boolean>;
  /** Strikes the held conversations. */
  strike(how: Strike): Promise<void>;
  /** Ends the worker with SIGTERM and starts another. */
  restart(): Promise<void>;
  /**
   * Resolves when all sent records are decided and committed, with the milliseconds from the last strike for
   * each partition.
   */
  untilDecided(): Promise<Map<number, number>>;
  /**
   * Fails where an event was lost or decided twice in the store.
   * @returns records read again, by partition
   */
  check(): Promise<Map<number, number>>;
  /**
   * The same for the topics that the worker writes, and for the offsets.
   * @returns the verdict messages that came more than once
   */
  checkAll(): Promise<number>;
  /** Whether the worker has logged the message. */
  hasLogged(message: string): boolean;
  /** Cuts all connections to Postgres, so that the next batches need new ones. */
  disconnect(): void;
  /** The number by which the store knows a partition. */
  numberOf(partition: number): Promise<number>;
}

function next(counts: number[], index: number): number {
  const count = (counts[index] ?? 0) + 1;
  counts[index] = count;
  return count;
}

/** The counts of a batch, without the seeds. */
const SEEDS = { records: 2, accepted: 2 };
const BATCH = { records: 5, accepted: 3, duplicates: 1, without_key: 1 };
/** The records that `send` sends to a partition. */
const RECORDS_OF: Readonly<Record<BatchKind, number>> = { plain: 5, 'with a dead letter': 6 };

export interface SweepOptions {
  readonly kind: BatchKind;
  readonly partitions: number;
  /**
   * This many partitions share rounds and events, and their records a batch where they arrive together. One
   * by default.
   */
  readonly groupSize?: number;
  /** Logins are of the second operator, and each operator has a topic of verdicts. False by default. */
  readonly isTopicPerOperator?: boolean;
}

/** Runs a worker between taps, over a topic with `partitions` partitions. */
export async function inSweep(
  { kind, partitions, groupSize = 1, isTopicPerOperator = false }: SweepOptions,
  work: (sweep: Sweep) => Promise<void>,
): Promise<void> {
  await inWorld(
    {
      topics: { main: partitions, verdicts: 1 },
      // Two operators share the topic, so that a record without a header has no owner.
      operators: ({ main }) =>
        OPERATORS.map((id) => anOperator({ id, connections: [connectionOf(main, { id })] })),
    },
    async (world) => {
      const plan = new Plan();
      const cluster = await withAdmin((admin) => admin.describeCluster(), world.brokers);
      const postgres = await PostgresTap.open(world.writerUrl, plan);
      const kafka = await KafkaTap.open(
        {
          brokers: cluster.brokers,
          // The topics of the operators begin with the name of the one topic.
          topics: { 'a dead letter': world.deadLetterTopic, verdicts: world.topics.verdicts },
        },
        plan,
      );
      const settings = {
        DATABASE_URL: postgres.url,
        KAFKA_BROKERS: kafka.brokers,
        VERDICT_TOPIC: isTopicPerOperator ? `${world.topics.verdicts}.{operator}` : world.topics.verdicts,
        PARTITIONS_AT_ONCE: String(partitions),
        // So that each batch has the records of one group.
        BATCH_EVENTS: String(RECORDS_OF[kind] * groupSize),
      };
      try {
        await work(
          await startSweep(world, {
            kind,
            partitions,
            groupSize,
            isTopicPerOperator,
            plan,
            settings,
            taps: [postgres.tap, kafka.tap],
          }),
        );
      } finally {
        await Promise.all([postgres.tap.close(), kafka.tap.close()]);
        if (isTopicPerOperator)
          await withAdmin((admin) => deleteTopics(admin, ofOperators(world.topics.verdicts)), world.brokers);
      }
    },
  );
}

const OPERATORS = ['acme', 'bravo'] as const;
const ofOperators = (verdicts: string) => OPERATORS.map((id) => `${verdicts}.${id}`);

interface Parts extends Required<SweepOptions> {
  readonly plan: Plan;
  readonly settings: Settings;
  readonly taps: readonly (PostgresTap | KafkaTap)[];
}

async function startSweep(
  world: World<'main' | 'verdicts'>,
  { kind, partitions, groupSize, isTopicPerOperator, plan, settings, taps }: Parts,
): Promise<Sweep> {
  const { main, verdicts } = world.topics;
  const sent = Array.from({ length: partitions }, () => 0);
  const seeds = Array.from({ length: partitions }, () => 0);
  const batches = Array.from({ length: partitions }, () => 0);
  let worker = await world.started(settings);
  let struckAt = 0;

  const ownerOf = (kind: unknown) => (isTopicPerOperator && kind === 'login' ? 'bravo' : 'acme');
  const record = (partition: number, event: EventJson | null): Outgoing => ({
    partition,
    value: event === null ? null : bytesOf(event),
    headers: { 'connection-id': ownerOf(event?.kind) },
  });
  const sendAll = async (records: readonly Outgoing[]) => {
    for (const { partition = 0 } of records) next(sent, partition);
    await produce(main, records, { brokers: world.brokers });
  };
  const seedOf = (partition: number, no: number) => ({
    bet: aBet({ event_id: `bet-${partition}-${no}`, round_id: `round-${partition}-${no}` }),
    login: aLogin({ event_id: `login-${partition}-${no}` }),
  });
  const firstOfGroup = (partition: number) => partition - (partition % groupSize);
  /** The next partition of the group, in a circle; the same partition where it is alone. */
  const neighbourOf = (partition: number) => firstOfGroup(partition) + ((partition + 1) % groupSize);
  const untilDecided = async () => {
    const waiting = new Set(sent.flatMap((count, partition) => (count > 0 ? [partition] : [])));
    const after = new Map<number, number>();
    await until('all is decided and committed', PROGRESS_MS, async () => {
      const committed = await world.committed(main);
      for (const partition of waiting) {
        if (committed[partition] !== sent[partition]) continue;
        waiting.delete(partition);
        after.set(partition, Date.now() - struckAt);
      }
      return waiting.size === 0;
    });
    return after;
  };

  return {
    plan,
    partitions,
    groupOf: (partition) => Array.from({ length: groupSize }, (_, index) => firstOfGroup(partition) + index),
    async seed(to) {
      await sendAll(
        to.flatMap((partition) => {
          const { bet, login } = seedOf(partition, next(seeds, partition));
          return [record(partition, bet), record(partition, login)];
        }),
      );
    },
    async send(to) {
      await sendAll(
        to.flatMap((partition) => {
          const neighbour = neighbourOf(partition);
          const { bet, login } = seedOf(neighbour, seeds[neighbour] ?? 0);
          const no = next(batches, partition);
          const other = neighbourOf(neighbour);
          const event_id = `last-${partition}-${no}`;
          return [
            record(partition, aBet({ event_id: `new-bet-${partition}-${no}` })),
            record(partition, aRefund(bet, { event_id: `refund-${partition}-${no}` })),
            record(partition, login),
            record(partition, null),
            ...(kind === 'plain' ? [] : [{ ...record(partition, login), headers: {} }]),
            // Rounds that are there already: after a lost race, the worker's batches would take turns.
            record(
              partition,
              other === partition
                ? aLogin({ event_id })
                : aWinOf(seedOf(other, seeds[other] ?? 0).bet, { event_id }),
            ),
          ];
        }),
      );
    },
    async untilHeld(count) {
      await until(`${count} conversations are held`, HELD_DEADLINE_MS, () => plan.heldCount >= count);
    },
    async untilHeldOrDecided(count, of) {
      await until(`${count} conversations are held`, HELD_DEADLINE_MS, async () => {
        if (plan.heldCount >= count) return true;
        const committed = await world.committed(main);
        return of.every((partition) => committed[partition] === sent[partition]);
      });
      return plan.heldCount >= count;
    },
    async strike(how) {
      plan.heldCount = 0;
      struckAt = Date.now();
      if (how === 'kill -9') {
        await worker.kill();
        for (const tap of taps) tap.cut('all');
        worker = world.start(settings);
      } else {
        for (const tap of taps) tap.cut('held');
      }
    },
    async restart() {
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      worker = world.start(settings);
    },
    untilDecided,
    async check() {
      expect(worker.hasEnded()).toBe(false);
      const found = await world.rows(
        `select partition, records_read - redeliveries, accepted, rejected, skipped, duplicate_deliveries, events_without_key, dead_letters, redeliveries
         from promo.partitions where topic = $1 order by partition`,
        [main],
      );
      const letters = kind === 'plain' ? 0 : 1;
      expect(found.map((row) => row.slice(0, -1).map(Number))).toEqual(
        sent.flatMap((count, partition) => {
          const [seeded = 0, batched = 0] = [seeds[partition], batches[partition]];
          const accepted = seeded * SEEDS.accepted + batched * BATCH.accepted;
          return count === 0
            ? []
            : [
                [
                  partition,
                  count,
                  accepted,
                  0,
                  0,
                  batched * BATCH.duplicates,
                  batched * BATCH.without_key,
                  batched * letters,
                ],
              ];
        }),
      );
      expect(await damagesOf(world.pool)).toEqual([]);
      return new Map(found.map((row) => [Number(row[0]), Number(row.at(-1))]));
    },
    async checkAll() {
      await verifySound(world);
      return checkTopics(world, sent, { letters: kind === 'plain' ? 0 : 1, batches });
    },
    hasLogged: (message) => worker.logged(message).length > 0,
    disconnect: () => taps[0]?.cut('all'),
    async numberOf(partition) {
      const [[no] = []] = await world.rows(
        'select partition_no from promo_store.partitions where topic = $1 and partition = $2',
        [main, partition],
      );
      return Number(no);
    },
  };

  /**
   * Checks that every record has its verdict, in the topic of its operator. Every dead letter must be there,
   * and copies must be equal.
   */
  async function checkTopics(
    { deadLetterTopic, brokers }: World<string>,
    sent: readonly number[],
    { letters, batches }: { letters: number; batches: readonly number[] },
  ): Promise<number> {
    const published = new Map<string, Set<string>>();
    let messages = 0;
    for (const topic of isTopicPerOperator ? ofOperators(verdicts) : [verdicts])
      for (const { value } of await readTopic(topic, undefined, brokers)) {
        const { source, ...rest } = JSON.parse(value?.toString() ?? '');
        const key = JSON.stringify(source);
        published.set(key, (published.get(key) ?? new Set()).add(JSON.stringify(rest)));
        messages++;
        if (isTopicPerOperator) expect(topic).toBe(`${verdicts}.${ownerOf(rest.kind)}`);
      }
    const inLetters = batches.reduce((sum, count) => sum + count * letters, 0);
    expect(published.size).toBe(sent.reduce((sum, count) => sum + count, 0) - inLetters);
    expect([...published.values()].filter((texts) => texts.size > 1)).toEqual([]);
    const coordinates = (await readTopic(deadLetterTopic, undefined, brokers)).map(({ headers }) =>
      ['source-partition', 'source-offset'].map((name) => headers[name]).join('/'),
    );
    expect(new Set(coordinates).size).toBe(inLetters);
    return messages - published.size;
  }
}

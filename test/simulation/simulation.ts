/**
 * One run of the simulator. Workers run the project's real code (stream, intake, ledger, domain) over the
 * models of the store and of Kafka, until all records are decided. The same seed always gives the same run.
 */
import { pino } from 'pino';
import { makeRandom } from '../../dev/random';
import { feedIdOf } from '../../src/domain/reference';
import type { Origin } from '../../src/intake/delivery';
import { makeIntake } from '../../src/intake/intake';
import type { RecordSource } from '../../src/kafka/port';
import type { TopicsProducer } from '../../src/kafka/producer';
import type { StreamRecord } from '../../src/kafka/protocol/record';
import { type Ledger, makeLedger } from '../../src/ledger/decide-batch';
import { PartsBehind } from '../../src/ledger/failures';
import { readDecidedUpTo } from '../../src/ledger/partition-state';
import { makeReferences } from '../../src/ledger/reference-store';
import type { Clock } from '../../src/lib/clock';
import { keyOf, type TopicPartition } from '../../src/lib/topic-partition';
import { makeSendDeadLetters } from '../../src/publishing/dead-letters';
import type { PublishVerdicts } from '../../src/publishing/published-answer';
import { toDocumentJson } from '../../src/reference-file/stored';
import { type Decoded, RegistryUnavailable, type WireFormat } from '../../src/schema-registry/wire-format';
import { makeStream } from '../../src/stream/stream';
import { makeMetrics } from '../../src/telemetry/metrics';
import { aValue } from '../support/chunk';
import { BrokerModel, type Log } from './broker-model';
import { type Coverage, Faults, type WorldFault } from './faults';
import { type Coordinates, Monitor } from './monitor';
import { BUG, documentOf, type SimulatedRecord, type SimulationPlan } from './plan';
import { Violation } from './promise';
import { RequestMonitor } from './request-monitor';
import { type RequestIntake, Requests } from './requests';
import { Actor, Scheduler } from './scheduler';
import { ModelPool, type Network } from './store-client';
import { StoreModel } from './store-model';
import { operatorOfTopic, publisherOf, refusingFirst, VERDICT_POINTS } from './verdict-topics';

const DEAD_LETTERS = 'dead-letters';
/** After the last fault everything has to be done within this time. */
const DONE_WITHIN_MS = 240_000;
const MAX_STEPS = 400_000;
const STOP_DEADLINE_MS = 20_000;
/** The outcome code of an event that is stored as a panic. */
const PANIC = '10';
/** One set of metrics for all workers: no check reads them. */
const metrics = makeMetrics();

export interface Outcome {
  /** The promise that was broken, or null. */
  readonly problem: string | null;
  readonly steps: number;
  readonly virtualMs: number;
  readonly struck: Faults['struck'];
  readonly trace: readonly string[];
}

/** Breaks a worker on purpose, to prove that the monitor notices it. */
export interface Sabotage {
  readonly source?: (source: RecordSource) => RecordSource;
  readonly ledger?: (ledger: Ledger) => Ledger;
  readonly clock?: (clock: Clock) => Clock;
  readonly requests?: (intake: RequestIntake) => RequestIntake;
  readonly publish?: (publish: PublishVerdicts<Origin>) => PublishVerdicts<Origin>;
}

export async function simulate(
  plan: SimulationPlan,
  coverage: Coverage,
  { traced = false, sabotage = {} }: { traced?: boolean; sabotage?: Sabotage } = {},
): Promise<Outcome> {
  const world = new World(plan, coverage, traced, sabotage);
  let problem: string | null = null;
  try {
    await world.run();
  } catch (error) {
    problem =
      error instanceof Violation ? error.message : String(error instanceof Error ? error.stack : error);
  }
  const { scheduler, faults } = world;
  return {
    problem,
    steps: scheduler.steps,
    virtualMs: scheduler.now(),
    struck: faults.struck,
    trace: scheduler.trace ?? [],
  };
}

/** A process of the run: a worker, or a pod of the webhook. */
interface Running {
  readonly actor: Actor;
  isStopping: boolean;
  /** Stops as SIGTERM does. @returns whether all was done within the deadline */
  stop(deadlineMs: number): Promise<boolean>;
  /** The process is gone. @param vanishes without a word to anybody */
  onKilled?(vanishes: boolean): void;
  /** Starts another process in its place. */
  replace(): void;
}

class World {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  private readonly random;
  private readonly store: StoreModel;
  private readonly broker: BrokerModel;
  private readonly monitor: Monitor;
  private readonly network: Network;
  private readonly running = new Map<string, Running>();
  private readonly requests: Requests;
  private readonly outside = new Actor('world');
  private started = 0;
  /** Documents of the reference data, including versions that the store has lost. */
  private applied = 0;
  /** Topics that were deleted and created again. */
  private readonly recreated = new Set<string>();
  private isOver = false;
  /** An error thrown in a callback; the run throws it. */
  private broken: unknown = null;

  constructor(
    private readonly plan: SimulationPlan,
    private readonly coverage: Coverage,
    traced: boolean,
    private readonly sabotage: Sabotage,
  ) {
    const chance = (stream: number) => makeRandom(plan.seed * 7 + stream);
    this.random = chance(1);
    const scheduler = new Scheduler(chance(2), traced);
    this.scheduler = scheduler;
    this.faults = new Faults(plan.faults, chance(3), scheduler, coverage, (fault, worker, took) =>
      scheduler.soon(this.outside, fault, () => {
        if (this.strike(fault, worker)) took();
      }),
    );
    const requestMonitor = new RequestMonitor(scheduler, documentOf(1), plan.publishesRequests);
    this.monitor = new Monitor(scheduler, (coordinates) => this.recordAt(coordinates), requestMonitor);
    this.store = new StoreModel(
      scheduler,
      chance(4),
      (transaction) => this.watched(() => this.monitor.onCommit(this.store, transaction)),
      ({ event_id, outcome }) => event_id?.startsWith('storing-') === true && outcome !== PANIC,
      plan.betweenRows,
    );
    this.broker = new BrokerModel(
      scheduler,
      chance(5),
      this.faults,
      {
        onOffsetCommit: (log, offset, isOwner) =>
          this.watched(() => this.monitor.onOffsetCommit(log, offset, isOwner)),
        onSent: (topic, messages) =>
          this.watched(() => {
            const operator = operatorOfTopic(topic);
            if (operator === undefined) this.monitor.onDeadLetters(messages);
            else this.monitor.onVerdicts(messages, operator);
          }),
      },
      plan,
    );
    this.network = {
      scheduler,
      store: this.store,
      faults: this.faults,
      isStoreAway: false,
      connections: new Set(),
      onDefect: (error) => {
        this.broken ??= error;
      },
    };
    this.requests = new Requests({
      plan,
      scheduler,
      faults: this.faults,
      random: chance(8),
      monitor: requestMonitor,
      metrics,
      store: (pod) => new ModelPool(this.network, pod, plan.slots + 1),
      publisher: (pod) => {
        const producer = this.broker.producer(pod, VERDICT_POINTS);
        return this.publisher(plan.refusesFirstMessages ? refusingFirst(producer) : producer);
      },
      clock: (pod) => this.clock(pod),
      sabotage: sabotage.requests,
      onDefect: (error) => {
        this.broken ??= error;
      },
    });
    this.nameEverything();
    this.applyReference();
  }

  async run(): Promise<void> {
    this.produce();
    for (let worker = 0; worker < this.plan.workers; worker++) this.startWorker();
    for (let pod = 0; pod < this.plan.pods; pod++) this.startPod();
    this.requests.send();
    const { rewindAtMs, restoreAtMs } = this.plan;
    if (restoreAtMs !== null)
      this.scheduler.after(restoreAtMs, this.outside, 'restored', () => {
        this.takeStoreAway(0);
        this.fallBack(2 + this.random.below(30));
      });
    if (rewindAtMs !== null)
      this.scheduler.after(rewindAtMs, this.outside, 'set back', () => this.strike('offsets set back', ''));
    while (!this.isDone()) {
      if (this.scheduler.steps > MAX_STEPS) throw new Violation('end: the run does not end');
      await this.step();
      this.checkTime();
    }
    if (this.plan.pods > 0)
      await this.requests.settle(
        () => this.step(),
        () => this.faults.lastEffect,
      );
    await this.stopAll();
    this.monitor.checkEnd(this.store, this.broker.logs.values(), this.plan.requests);
  }

  private async step(): Promise<void> {
    if (!(await this.scheduler.step())) throw new Violation('I9: no task can run any more');
    if (this.broken !== null) throw this.broken;
  }

  private watched(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.broken ??= error;
    }
  }

  private isDone(): boolean {
    let entries = 0;
    for (const log of this.broker.logs.values()) {
      if (log.committed < log.entries.length && log.entries.length > 0) return false;
      entries += log.entries.length;
    }
    const expected = this.plan.partitions.reduce(
      (sum, each) => sum + (this.recreated.has(each.topic) ? each.recreated : each.entries).length,
      0,
    );
    return (
      entries === expected &&
      this.requests.areAnswered &&
      this.monitor.isAllDecided(this.broker.logs.values())
    );
  }

  private checkTime(): void {
    const lastEffect = Math.max(
      this.faults.lastEffect,
      ...this.plan.partitions.map(({ laterMs }) => laterMs),
      ...this.plan.requests.map(({ atMs }) => atMs),
    );
    const late = this.scheduler.now() - lastEffect;
    if (late <= 0) return;
    this.monitor.checkProgress(this.broker.logs.values(), lastEffect);
    if (late > DONE_WITHIN_MS) throw new Violation(`I9: not done ${late} ms after the last fault`);
  }

  /** Stops all workers as SIGTERM does: they commit decided records, and all waits end. */
  private async stopAll(): Promise<void> {
    this.faults.end();
    this.isOver = true;
    const began = this.scheduler.now();
    const stopping = new Set<Actor>();
    for (const { actor, stop, isStopping } of this.running.values()) {
      if (isStopping) continue;
      stopping.add(actor);
      void stop(STOP_DEADLINE_MS).then((inTime) => {
        stopping.delete(actor);
        if (!inTime && this.faults.lastEffect <= began)
          this.broken ??= new Violation('stop: a worker with nothing to do does not stop in time');
      });
    }
    // Faults that were already scheduled may still strike a stopping worker.
    while ([...stopping].some(({ alive }) => alive)) {
      if (!(await this.scheduler.step())) throw new Violation('stop: a worker does not stop');
      if (this.broken !== null) throw this.broken;
    }
  }

  // --- records

  private produce(): void {
    for (const { topic, partition, entries, first, laterMs } of this.plan.partitions) {
      const source = { topic, partition };
      const records = entries.map((entry) => (entry === null ? null : recordOf(entry)));
      this.broker.append(source, records.slice(0, first));
      const later = records.slice(first);
      if (later.length > 0)
        this.scheduler.after(laterMs, this.outside, 'produced', () => {
          if (!this.recreated.has(topic)) this.broker.append(source, later);
        });
    }
  }

  private recordAt({
    topic,
    partition,
    offset,
    isRecreated,
  }: Coordinates): SimulatedRecord | null | undefined {
    const found = this.plan.partitions.find((each) => each.topic === topic && each.partition === partition);
    return (isRecreated ? found?.recreated : found?.entries)?.[offset];
  }

  // --- reference data

  private nameEverything(): void {
    const names = new Map<string, readonly [string, string, string]>();
    for (const { id, connections, brands } of documentOf(1).operators) {
      for (const feed of [undefined, ...connections.map((connection) => connection.feed)])
        names.set(`feed ${feedIdOf(id, feed)}`, ['feed', id, feedIdOf(id, feed)]);
      for (const connection of connections)
        names.set(`c ${connection.id}`, ['connection', '', connection.id]);
      for (const brand of brands) names.set(`b ${id} ${brand.id}`, ['brand', id, brand.id]);
    }
    for (const [index, [type, operator, name]] of [...names.values()].entries())
      this.store.numbers.push([type, operator, name, String(index + 1)]);
  }

  private applyReference(): void {
    const { references } = this.store;
    const document = JSON.stringify(toDocumentJson(documentOf(++this.applied)));
    const since = ++this.store.committed;
    references.push({ since, appliedAt: String(this.store.nowMicros()), document });
  }

  // --- workers

  private startWorker(): void {
    const { scheduler, broker, faults, plan } = this;
    const actor = new Actor(`worker-${++this.started}`);
    actor.weight = this.random.pick([1, 1, 1, 0.2]);
    scheduler.note(actor.name, 'starts');
    const isFar = this.random.pick([false, true]);
    const store = new ModelPool(this.network, actor, plan.partitionsAtOnce + 2, isFar);
    const producer = broker.producer(actor, { ...VERDICT_POINTS, [DEAD_LETTERS]: 'send dead letters' });
    let generation = 0;
    /** By record: the generation in which its last answer was requested. */
    const generationOf = new Map<string, number>();
    const recordOf = (from: TopicPartition, offset: number) => `${keyOf(from)} ${offset}`;
    const logger = pino(
      { level: 'info', base: null, timestamp: false },
      { write: (line) => this.onLine(actor, line) },
    );

    // The ledger's threshold of a small batch varies, so that both ways of locking occur. A small batch locks
    // its rounds at once, a larger one in a step of its own.
    const fewEvents = this.random.pick([0, plan.batchEvents >> 1, plan.batchEvents]);
    // Either all batches take turns or none does.
    const largeBatchBytes = this.random.pick([0, Number.MAX_SAFE_INTEGER]);
    const areRoundsShared = this.random.pick([false, true]);
    const plain = makeLedger(store, { fewEvents });
    const ledger: Ledger = {
      ...plain,
      decideBatch: (batch) => {
        const meets = batch.items.some((item) => item.type === 'keyed' && item.fields.gameId === BUG);
        if (meets) throw new TypeError('cannot read properties of undefined');
        return plain.decideBatch(batch).catch((error: unknown) => {
          if (error instanceof PartsBehind && error.parts.size > 1) this.coverage.behindInSeveral++;
          throw error;
        });
      },
    };
    const intake = makeIntake({
      ledger: this.sabotage.ledger?.(ledger) ?? ledger,
      references: makeReferences(store),
      sendDeadLetters: makeSendDeadLetters(producer, DEAD_LETTERS),
      isPublished: true,
      logger,
      now: () => scheduler.now(),
    });
    const publish = this.publisher(producer);
    const joined = broker.source(actor);
    const source = this.sabotage.source?.(joined) ?? joined;
    const clock = this.clock(actor);
    const stream = makeStream({
      source: {
        ...source,
        rewindTo: (partition, offset) => {
          this.monitor.onProgress(`${actor.name} ${keyOf(partition)}`);
          source.rewindTo(partition, offset);
        },
        start: (listener) =>
          source.start({
            ...listener,
            onAssigned: (partitions) => {
              generation++;
              for (const partition of broker.logs.keys())
                this.monitor.onProgress(`${actor.name} ${partition}`);
              listener.onAssigned(partitions);
            },
          }),
      },
      intake: {
        decide: async (parts, whenSent) => {
          const requestedIn = generation;
          const results = await intake.decide(parts, whenSent);
          for (const [index, { origin: from }] of parts.entries()) {
            const answers = results[index]?.answers ?? [];
            for (const { envelope } of answers)
              generationOf.set(recordOf(from, envelope.offset), requestedIn);
            this.watched(() => this.monitor.onAnswers(from, answers));
          }
          return results;
        },
      },
      wireFormat: this.wireFormat(actor),
      // The group of the simulation never moves to another cluster.
      cluster: { id: null, name: '' },
      recordFirstOffset: async () => {
        throw new Error('a move without a mirror');
      },
      readDecidedUpTo: (partitions) => readDecidedUpTo(store, partitions),
      publishVerdicts: async (from, answers) => {
        const [first] = answers;
        const requestedIn = first && generationOf.get(recordOf(from, first.offset));
        await publish(from, answers);
        if (requestedIn === generation) this.monitor.onProgress(`${actor.name} ${keyOf(from)}`);
      },
      clock: this.sabotage.clock?.(clock) ?? clock,
      logger,
      metrics,
      batchEvents: plan.batchEvents,
      areRoundsShared: () => areRoundsShared,
      largeBatchBytes,
      partitionsAtOnce: plan.partitionsAtOnce,
    });
    this.running.set(actor.name, {
      actor,
      isStopping: false,
      stop: (deadlineMs) => stream.stop(deadlineMs),
      replace: () => this.startWorker(),
    });
    stream.start().catch((error: unknown) => {
      this.broken ??= error;
    });
    // Until the worker has joined, its partitions may have no owner.
    faults.lasts(0);
  }

  private publisher(producer: TopicsProducer) {
    const publish = publisherOf(producer, this.plan.isTopicPerOperator, (error) => {
      this.broken ??= error;
    });
    return this.sabotage.publish?.(publish) ?? publish;
  }

  private startPod(): void {
    const pod = this.requests.startPod();
    this.running.set(pod.actor.name, {
      actor: pod.actor,
      isStopping: false,
      stop: () => this.requests.stop(pod),
      onKilled: (vanishes) => this.requests.kill(pod, vanishes),
      replace: () => this.startPod(),
    });
  }

  private clock(actor: Actor): Clock {
    const { scheduler } = this;
    const timers = new Map<number, () => void>();
    let last = 0;
    return {
      now: () => scheduler.now(),
      after(ms, run) {
        const timer = ++last;
        const over = () => {
          timers.delete(timer);
          run();
        };
        timers.set(timer, scheduler.after(ms, actor, 'timer', over));
        return timer;
      },
      cancel(timer) {
        if (typeof timer !== 'number') return;
        timers.get(timer)?.();
        timers.delete(timer);
      },
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          if (signal.aborted) {
            resolve();
            return;
          }
          this.onSleep(actor, ms);
          const done = () => {
            cancel();
            signal.removeEventListener('abort', done);
            resolve();
          };
          const cancel = scheduler.after(ms, actor, 'time', done);
          signal.addEventListener('abort', done);
        }),
    };
  }

  /** The wait that a partition has just logged and is about to begin. */
  private announcedMs: number | null = null;

  private onSleep({ name }: Actor, ms: number): void {
    const announced = this.announcedMs;
    this.announcedMs = null;
    if (announced === null) {
      if (ms === COMMIT_RETRY_MS) this.faults.at('wait of an offset commit', name);
      return;
    }
    if (announced !== ms) this.broken ??= new Violation(`I10: waits ${ms} ms, but logs ${announced}`);
    this.faults.at('wait of an undecided partition', name);
  }

  private onLine(actor: Actor, line: string): void {
    const parsed: Record<string, unknown> = JSON.parse(line);
    const { msg, topic, partition, waitMs, from, to } = parsed;
    this.scheduler.note(actor.name, `logs ${line.trim()}`);
    if (msg === PASSED_OVER) this.monitor.onGap(`${topic}/${partition}`, Number(from), Number(to));
    if (msg !== 'partition is undecided') return;
    this.announcedMs = Number(waitMs);
    this.watched(() => this.monitor.onWait(`${actor.name} ${topic}/${partition}`, Number(waitMs)));
  }

  /**
   * A schema registry that may be away decodes values that begin with 0x00. Some decoded values cannot be
   * processed.
   */
  private wireFormat(actor: Actor): Pick<WireFormat, 'decode'> {
    const { scheduler, faults } = this;
    return {
      decode(value): Decoded | Promise<Decoded> {
        if (value[0] !== 0) return { type: 'json', bytes: value };
        const fault = faults.at('decode', actor.name);
        return scheduler.turn(actor, 'decoded').then((): Decoded => {
          if (fault !== null) faults.took('decode', fault);
          if (fault === 'registry away') throw new RegistryUnavailable('the registry is away');
          const event: Record<string, unknown> = JSON.parse(value.toString('utf8', 1));
          if (!String(event.event_id).startsWith('judging-')) return { type: 'value', value: event };
          const broken = Object.defineProperty({ ...event }, 'kind', {
            enumerable: true,
            get() {
              throw new TypeError('a value that cannot be read');
            },
          });
          return { type: 'value', value: broken };
        });
      },
    };
  }

  // --- what befalls the world

  /** @returns whether the fault changed anything: the store may already be away, or the worker dead */
  private strike(fault: WorldFault, name: string): boolean {
    const worker = this.running.get(name);
    this.scheduler.note('world', `${fault} (${name})`);
    this.faults.lasts(0);
    switch (fault) {
      case 'store away':
        return this.takeStoreAway(this.random.pick([100, 3_000, 20_000, 150_000]));
      case 'stale failover': {
        // Workers that are stopping no longer notice a loss; only later workers would.
        if (this.isOver) return false;
        // A worker that waits for nothing of the store at that moment may notice only that its connections
        // are new.
        this.takeStoreAway(this.random.pick([0, 100, 3_000]));
        return this.fallBack(1 + this.random.below(this.random.pick([2, 10])));
      }
      case 'rebalance':
        return this.broker.rebalance();
      case 'new reference':
        this.applyReference();
        return true;
      case 'offsets set back':
        return this.rewindOffsets();
      case 'offsets set forward':
        return this.skipOffsets();
      case 'topic recreated':
        return this.recreateTopic();
      case 'worker frozen': {
        if (worker === undefined || !worker.actor.alive) return false;
        const ms = this.random.pick([2_000, 12_000, 25_000]);
        worker.actor.frozenUntil = this.scheduler.now() + ms;
        this.broker.watch(worker.actor);
        this.faults.lasts(ms);
        return true;
      }
      case 'worker killed':
      case 'worker vanishes':
        if (worker?.actor.alive !== true) return false;
        this.kill(worker, fault === 'worker vanishes');
        return true;
      case 'worker stopped':
        if (worker === undefined || !worker.actor.alive || worker.isStopping) return false;
        worker.isStopping = true;
        void worker.stop(STOP_DEADLINE_MS).then(() => {
          this.kill(worker, false);
        });
        return true;
    }
  }

  /** The store loses its last transactions. @returns whether it had any */
  private fallBack(transactions: number): boolean {
    this.faults.lasts(0);
    const versions = this.store.references.length;
    const hasLost = this.store.fallBack(transactions, this.monitor.followsSince());
    this.monitor.onFallBack(this.store);
    this.rewindLostOffsets();
    // An operator who misses a version applies it again, or applies a newer one.
    if (this.store.references.length < versions) {
      const ms = this.random.pick([0, 1_000, 20_000]);
      this.faults.lasts(ms);
      this.scheduler.after(ms, this.outside, 'reference data is applied again', () => this.applyReference());
    }
    return hasLost;
  }

  /**
   * Rewinds the group as an operator does: it reads records again, and reads the records that its store has
   * lost.
   * @returns whether there are any such records
   */
  private rewindOffsets(): boolean {
    let isAny = false;
    for (const log of this.broker.logs.values()) {
      const { committed } = log;
      const most = Math.min(committed, this.monitor.firstLost(log));
      if (committed > 0) log.committed = this.random.below(most + 1);
      log.expectedUpTo = null;
      isAny ||= log.committed < committed;
    }
    this.broker.rebalance();
    return isAny;
  }

  /**
   * Sets offsets forward as an operator does: the group skips records that it has not read. Partitions
   * without decided records are left out, because a group may begin at any offset.
   *
   * @returns whether any skipped record is not decided
   */
  private skipOffsets(): boolean {
    const lastOf = ({ entries }: Log) => entries.findLastIndex((entry) => entry !== null);
    const logs = [...this.broker.logs.values()].filter(
      (log) => this.monitor.hasDecided(log) && lastOf(log) > Math.max(0, log.committed),
    );
    if (this.isOver || logs.length === 0) return false;
    const log = this.random.pick(logs);
    const from = Math.max(0, log.committed);
    log.committed = from + 1 + this.random.below(lastOf(log) - from);
    log.expectedUpTo = null;
    const isAny = this.monitor.onPassedOver(log);
    this.broker.rebalance();
    return isAny;
  }

  /**
   * Deletes a topic and creates it again, once. All its records are gone.
   * @returns whether it had any
   */
  private recreateTopic(): boolean {
    const topics = this.plan.partitions
      .filter((each) => !this.recreated.has(each.topic) && this.broker.logOf(each).entries.length > 0)
      .map(({ topic }) => topic);
    if (this.isOver || topics.length === 0) return false;
    const topic = this.random.pick(topics);
    this.recreated.add(topic);
    for (const { partition, recreated } of this.plan.partitions.filter((each) => each.topic === topic)) {
      const source = { topic, partition };
      this.broker.recreate(source);
      this.monitor.onRecreated(source);
      const records = recreated.map((entry) => (entry === null ? null : recordOf(entry)));
      const first = this.random.below(records.length + 1);
      const laterMs = this.random.below(3_000);
      this.scheduler.after(RECREATED_AFTER_MS, this.outside, 'produced', () => {
        this.broker.append(source, records.slice(0, first));
        // The second append is scheduled by the first: events that are due at the same time may come in any
        // order.
        this.scheduler.after(laterMs, this.outside, 'produced', () =>
          this.broker.append(source, records.slice(first)),
        );
      });
      this.faults.lasts(RECREATED_AFTER_MS + laterMs);
    }
    this.broker.rebalance();
    return true;
  }

  /**
   * Rewinds the group to the first lost record of a partition where an operator has set offsets and no worker
   * has committed since. There only the operator knows which records should have been decided.
   */
  private rewindLostOffsets(): void {
    let isAny = false;
    for (const log of this.broker.logs.values()) {
      const firstLost = this.monitor.firstLost(log);
      if (log.expectedUpTo !== null || log.committed <= firstLost) continue;
      this.monitor.onRewound(log, firstLost, log.committed);
      log.committed = firstLost;
      isAny = true;
    }
    if (isAny) this.broker.rebalance();
  }

  private takeStoreAway(ms: number): boolean {
    if (this.network.isStoreAway) return false;
    for (const connection of [...this.network.connections]) connection.cut();
    this.store.terminateAll();
    if (ms === 0) return true;
    this.network.isStoreAway = true;
    this.faults.lasts(ms);
    this.scheduler.after(ms, this.outside, 'the store is back', () => {
      this.network.isStoreAway = false;
    });
    return true;
  }

  private kill(worker: Running, vanishes: boolean): void {
    const { actor } = worker;
    actor.alive = false;
    this.running.delete(actor.name);
    worker.onKilled?.(vanishes);
    for (const connection of [...this.network.connections]) {
      if (connection.worker !== actor) continue;
      if (vanishes) connection.vanish();
      else connection.close();
    }
    if (vanishes) this.faults.lasts(VANISHED_MS);
    this.broker.watch(actor);
    this.scheduler.after(this.random.pick([300, 3_000, 8_000]), this.outside, 'a process starts', () =>
      worker.replace(),
    );
  }
}

/**
 * How long a recreated topic is missing. Afterwards no worker decides records of the old topic: even a worker
 * that was frozen knows by then that it has left the group.
 */
const RECREATED_AFTER_MS = 40_000;
/** How long the store keeps the transactions of a worker that went silent. */
const VANISHED_MS = 15_000;
const PASSED_OVER = 'records were passed over: offsets were set forward, or lost';
/** The committer's wait between two tries. */
const COMMIT_RETRY_MS = 1_000;

function recordOf({ content, claims, isFramed }: SimulatedRecord): Omit<StreamRecord, 'offset'> {
  const bytes = content === null || Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
  const value = isFramed && bytes !== null ? Buffer.concat([Buffer.from([0]), bytes]) : bytes;
  return {
    ...aValue(value),
    key: null,
    claims,
    timestamp: '1795262400000',
    headers: claims.map((claim) => ['connection-id', Buffer.from(claim)] as const),
  };
}

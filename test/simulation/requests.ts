/**
 * The webhook of a run: pods that run the project's real handler, and senders that repeat each request until
 * it is answered. Sockets are left out: a request reaches the handler as Node's HTTP parser hands it over.
 */
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { pino } from 'pino';
import type { Random } from '../../dev/random';
import type { Origin } from '../../src/intake/delivery';
import { type Intake, makeIntake } from '../../src/intake/intake';
import { makeLedger } from '../../src/ledger/decide-batch';
import { makeReferences } from '../../src/ledger/reference-store';
import type { Clock } from '../../src/lib/clock';
import type { Store } from '../../src/postgres/transaction';
import type { PublishVerdicts } from '../../src/publishing/published-answer';
import type { Metrics } from '../../src/telemetry/metrics';
import { type Handler, makeHandler } from '../../src/webhook/handler';
import { makeReports } from '../../src/webhook/refusal-log';
import type { HttpAnswer } from '../../src/webhook/responses';
import { sign, TIMESTAMP_WINDOW_SECONDS } from '../../src/webhook/signature';
import type { Faults, Point } from './faults';
import type { PlannedRequest, SimulationPlan } from './plan';
import type { RequestMonitor } from './request-monitor';
import { Actor, type Scheduler } from './scheduler';

/** The wall clock of the simulation at its begin, in milliseconds since 1970. */
const EPOCH_MS = 1_795_262_400_000;
const SECRET = Buffer.from('simulated');
const ADDRESS = '198.51.100.1';
/** A sender gives up an answer after this time. */
const SENDER_TIMEOUT_MS = 30_000;
/** The longest wait for a place or a slot in the handler, and its interval of checks for slow holders. */
const SLOT_WITHIN_MS = 500;
const CHECK_EVERY_MS = 50;
/** What requests hold has to be given back within this time after the last of them and the last fault. */
const AT_REST_WITHIN_MS = 60_000;

/** The tools of the world that pods and senders need. */
export interface RequestDeps {
  readonly plan: SimulationPlan;
  readonly scheduler: Scheduler;
  readonly faults: Pick<Faults, 'at' | 'took' | 'lasts'>;
  readonly random: Random;
  readonly monitor: RequestMonitor;
  readonly metrics: Metrics;
  /** The store as a pod reaches it. */
  readonly store: (pod: Actor) => Store;
  readonly publisher: (pod: Actor) => PublishVerdicts<Origin>;
  readonly clock: (pod: Actor) => Clock;
  /** Breaks the intake of a pod on purpose. */
  readonly sabotage?: ((intake: RequestIntake) => RequestIntake) | undefined;
  readonly onDefect: (error: unknown) => void;
}

export type RequestIntake = Pick<Intake, 'decideRequest'>;

/** A request on its way: from its head at a pod to its answer at its sender. */
interface Exchange {
  readonly message: IncomingMessage;
  /** Ends the exchange for its sender: with an answer, or with null where none comes. */
  readonly end: (answer: HttpAnswer | null) => void;
  hasLeft: boolean;
}

export interface Pod {
  readonly actor: Actor;
  readonly handler: Handler;
  readonly exchanges: Set<Exchange>;
  /** Requests that the handler still works on, also those whose sender has gone. */
  working: number;
  isStopping: boolean;
}

/** A signed request, as its sender repeats it byte for byte. */
interface Signed {
  readonly timestamp: string;
  readonly signature: string;
}

export class Requests {
  readonly pods = new Map<string, Pod>();
  private readonly senders = new Actor('senders');
  private started = 0;
  private unanswered: number;

  constructor(private readonly deps: RequestDeps) {
    this.unanswered = deps.plan.requests.length;
  }

  /** Whether each request was answered with its verdicts. */
  get areAnswered(): boolean {
    return this.unanswered === 0;
  }

  /** Begins to send the requests of the plan. */
  send(): void {
    for (const request of this.deps.plan.requests)
      this.deps.scheduler.after(request.atMs, this.senders, 'request due', () => {
        this.deliver(request).catch(this.deps.onDefect);
      });
  }

  // --- pods

  startPod(): Pod {
    const { plan, scheduler, faults, random, metrics } = this.deps;
    const actor = new Actor(`pod-${++this.started}`);
    actor.weight = random.pick([1, 1, 1, 0.2]);
    scheduler.note(actor.name, 'starts');
    const logger = pino(
      { level: 'info', base: null, timestamp: false },
      { write: (line) => scheduler.note(actor.name, `logs ${line.trim()}`) },
    );
    const store = this.deps.store(actor);
    const fewEvents = random.pick([0, plan.batchEvents >> 1, plan.batchEvents]);
    const plain = makeIntake({
      ledger: makeLedger(store, { fewEvents }),
      references: makeReferences(store),
      isPublished: true,
      logger,
      now: () => scheduler.now(),
    });
    const intake = this.deps.sabotage?.(plain) ?? plain;
    const exchanges = new Set<Exchange>();
    /** Strikes at a point of the pod. */
    const pass = (point: Point) => {
      if (faults.at(point, actor.name) === 'client goes away') this.leave(exchanges, point);
    };
    const clock = this.clockOf(actor, pass);
    const handler = makeHandler({
      intake: {
        decideRequest(origin, envelopes) {
          pass('decide requests');
          return intake.decideRequest(origin, envelopes);
        },
      },
      rehearse: () => Promise.reject(new Error('no sender rehearses')),
      publishVerdicts: plan.publishesRequests ? this.deps.publisher(actor) : null,
      clock,
      logger,
      metrics,
      slots: plan.slots,
      maxEvents: 500,
      maxBytes: 1024 ** 2,
      ended: new AbortController().signal,
      reports: makeReports({ logger, metrics, clock }),
      secretsOf: () => [SECRET],
      now: () => EPOCH_MS + scheduler.now(),
    });
    const pod: Pod = { actor, handler, exchanges, working: 0, isStopping: false };
    this.pods.set(actor.name, pod);
    faults.lasts(0);
    return pod;
  }

  private clockOf(actor: Actor, pass: (point: Point) => void): Clock {
    const clock = this.deps.clock(actor);
    return {
      ...clock,
      after(ms, run) {
        if (ms <= SLOT_WITHIN_MS && ms !== CHECK_EVERY_MS) pass('wait for a slot');
        return clock.after(ms, run);
      },
      sleep(ms, signal) {
        pass('wait of a publisher');
        return clock.sleep(ms, signal);
      },
    };
  }

  /** A sender of one of the requests in flight gives up. */
  private leave(exchanges: ReadonlySet<Exchange>, point: Point): void {
    if (exchanges.size === 0) return;
    const exchange = this.deps.random.pick([...exchanges]);
    this.deps.faults.took(point, 'client goes away');
    this.cutOff(exchange);
  }

  private cutOff(exchange: Exchange): void {
    exchange.hasLeft = true;
    exchange.message.destroy();
    exchange.end(null);
  }

  /** Ends a pod. @param vanishes its senders learn nothing of it, and wait until their timeout */
  kill(pod: Pod, vanishes: boolean): void {
    this.pods.delete(pod.actor.name);
    for (const exchange of pod.exchanges) {
      exchange.hasLeft = true;
      if (!vanishes) exchange.end(null);
    }
  }

  /** Stops a pod as SIGTERM does: it takes no more requests, and answers those in flight. */
  async stop(pod: Pod): Promise<boolean> {
    pod.isStopping = true;
    while (pod.working > 0 && pod.actor.alive)
      await new Promise<void>((resolve) => this.deps.scheduler.after(50, pod.actor, 'drains', resolve));
    return true;
  }

  /** Runs on until no pod holds anything. @throws Violation */
  async settle(step: () => Promise<void>, lastEffect: () => number): Promise<void> {
    const { scheduler, monitor } = this.deps;
    const began = scheduler.now();
    for (;;) {
      const busy = [...this.pods.values()].filter(({ actor, handler, working }) => {
        const { reading, deciding, slots, waiting, replays } = handler.load();
        return actor.alive && working + reading + deciding + slots + waiting + replays > 0;
      });
      if (busy.length === 0) return;
      const late = scheduler.now() - Math.max(began, lastEffect());
      if (late > AT_REST_WITHIN_MS)
        for (const { actor, handler } of busy) monitor.onLeak(actor.name, handler.load());
      await step();
    }
  }

  // --- senders

  /** Sends a request until it is answered: the same bytes again, or signed again. */
  private async deliver(request: PlannedRequest): Promise<void> {
    const { random, scheduler, faults, monitor } = this.deps;
    let signed: Signed | null = null;
    for (;;) {
      signed = signed !== null && random.chance(0.6) ? signed : this.signNow(request);
      const pods = [...this.pods.values()].filter(({ isStopping }) => !isStopping);
      const answer = pods.length === 0 ? null : await this.exchange(random.pick(pods), request, signed);
      if (answer?.status === 200) break;
      if (answer?.status === 401) signed = null;
      // Now and then a sender comes back only after the window of its signature.
      const isLate = answer === null && random.chance(0.05);
      const ms = isLate ? (TIMESTAMP_WINDOW_SECONDS + 2) * 1000 : random.pick([1, 100, 1_000, 5_000]);
      faults.lasts(isLate ? ms : 0);
      await this.wait(ms);
    }
    this.unanswered--;
    // Proxies and impatient senders repeat answered requests, too.
    if (signed === null || !random.chance(0.2)) return;
    await this.wait(random.pick([1, 1_000]));
    const pods = [...this.pods.values()].filter(({ isStopping }) => !isStopping);
    if (pods.length > 0) await this.exchange(random.pick(pods), request, signed);
    monitor.onRepeated();
    scheduler.note('senders', `${request.id} was repeated`);
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.deps.scheduler.after(ms, this.senders, 'sends again', resolve));
  }

  private signNow({ id, body }: PlannedRequest): Signed {
    const timestamp = String(Math.floor((EPOCH_MS + this.deps.scheduler.now()) / 1000));
    return { timestamp, signature: sign(SECRET, { id, timestamp }, body) };
  }

  /** @returns the answer; null where the sender gets none */
  private async exchange(
    pod: Pod,
    request: PlannedRequest,
    { timestamp, signature }: Signed,
  ): Promise<HttpAnswer | null> {
    const { scheduler, monitor, random } = this.deps;
    const { id, connection, body } = request;
    const message = new IncomingMessage(new Socket());
    message.method = 'POST';
    message.url = `/v1/events/${connection}`;
    message.httpVersion = '1.1';
    message.headers = {
      host: 'here',
      'content-type': 'application/json',
      'content-length': String(body.length),
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signature,
    };
    message.on('error', () => undefined);
    let end: Exchange['end'] = () => undefined;
    const ended = new Promise<HttpAnswer | null>((resolve) => {
      end = resolve;
    });
    const exchange: Exchange = { message, end, hasLeft: false };
    scheduler.note('senders', `${id} to ${pod.actor.name}`);
    scheduler.soon(pod.actor, 'request', () => {
      pod.exchanges.add(exchange);
      this.handle(pod, exchange, id, ended).catch((error: unknown) => {
        if (!exchange.hasLeft) this.deps.onDefect(error);
      });
      // The body comes whole, or in two pieces.
      const half = random.chance(0.3) ? random.below(body.length + 1) : body.length;
      message.push(body.subarray(0, half));
      const rest = () => {
        if (message.destroyed) return;
        message.push(body.subarray(half));
        message.push(null);
      };
      if (half === body.length) {
        message.push(null);
        return;
      }
      scheduler.after(random.pick([1, 200]), pod.actor, 'rest of a body', rest);
      if (this.deps.faults.at('request body', pod.actor.name) !== 'client goes away') return;
      this.deps.faults.took('request body', 'client goes away');
      this.cutOff(exchange);
    });
    const stopTimeout = scheduler.after(SENDER_TIMEOUT_MS, this.senders, 'sender gives up', () => {
      this.cutOff(exchange);
    });
    const answer = await ended;
    stopTimeout();
    pod.exchanges.delete(exchange);
    if (answer !== null) {
      scheduler.note('senders', `${id}: ${answer.status} ${answer.body}`);
      monitor.onAnswer(pod.actor.name, request, signature, Number(timestamp) * 1000 - EPOCH_MS, answer);
    }
    return answer;
  }

  /** The way of a request through a pod, and of its answer to the sender. */
  private async handle(
    pod: Pod,
    exchange: Exchange,
    requestId: string,
    sent: Promise<unknown>,
  ): Promise<void> {
    const { scheduler, faults } = this.deps;
    const { name } = pod.actor;
    pod.working++;
    try {
      const answer = await pod.handler.answer({
        request: exchange.message,
        requestId,
        began: scheduler.now(),
        address: ADDRESS,
        network: ADDRESS,
        sent,
        hasSigned: () => false,
        onSigned: () => undefined,
        onReading: () => undefined,
        dropUnread: () => undefined,
      });
      const fault = exchange.hasLeft ? null : faults.at('answer a request', name);
      await scheduler.turn(this.senders, 'answer');
      if (fault === 'answer lost' || fault === 'client goes away') {
        if (!exchange.hasLeft) faults.took('answer a request', fault);
        this.cutOff(exchange);
      }
      if (!exchange.hasLeft) exchange.end(answer);
    } finally {
      pod.working--;
    }
  }
}

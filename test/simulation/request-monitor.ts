/**
 * Watches the webhook of a run:
 * - Each event is decided once, whichever transport brings it.
 * - An answer equals the stored verdict. It comes after the verdict was published.
 * - A request that is repeated gets the same answer.
 * - A pod at rest holds no place and no slot.
 */
import type { ReferenceDocument } from '../../src/domain/reference';
import { feedIdOf } from '../../src/domain/reference';
import { outcomeOfCode } from '../../src/domain/verdict/reasons';
import type { HandlerLoad } from '../../src/webhook/handler';
import type { HttpAnswer } from '../../src/webhook/responses';
import { TIMESTAMP_WINDOW_SECONDS } from '../../src/webhook/signature';
import type { Delivery, ReferenceModel } from '../model/reference-model';
import type { Json } from '../support/ledger';
import type { PlannedRequest } from './plan';
import { must, nameOf } from './promise';
import type { Scheduler } from './scheduler';
import type { StoreModel } from './store-model';
import type { Values } from './wire';

/** The statuses of an answer that asks for the same request again. */
const AGAIN = [503, 429];
const STALE = 401;

export class RequestMonitor {
  /** By feed and event: the stored verdict, of every transport. */
  private readonly verdicts = new Map<string, string>();
  /** Events whose verdict the store has lost once. */
  private readonly lost = new Set<string>();
  /** By feed and event: the verdicts that the webhook has published. */
  private readonly published = new Map<string, Set<string>>();
  /** By pod and signature: the answer with verdicts. */
  private readonly answers = new Map<string, string>();
  /** By feed and event: the pod and signature that were answered with a fresh verdict. */
  private readonly fresh = new Map<string, string>();
  repeated = 0;

  constructor(
    private readonly scheduler: Scheduler,
    private readonly document: ReferenceDocument,
    private readonly isPublished: boolean,
  ) {}

  // --- the store

  /** A verdict of any transport was stored. */
  onVerdict(store: StoreModel, { feed_no, event_id, outcome }: Values): void {
    const key = keyOf(feedNameOf(store, feed_no), event_id);
    const before = this.verdicts.get(key);
    const now = verdictOf(outcome);
    must(before === undefined, 'K1', `${key} is decided twice: ${before}, then ${now}`);
    this.verdicts.set(key, now);
  }

  /** Forgets all verdicts: the store has lost some. @returns a function that notes those that are lost */
  onFallBack(): () => void {
    const before = [...this.verdicts.keys()];
    this.verdicts.clear();
    return () => {
      for (const key of before) if (!this.verdicts.has(key)) this.lost.add(key);
    };
  }

  // --- Kafka

  /** A verdict of the webhook was published. */
  onPublished(message: Record<string, unknown>): void {
    const { feed_id, event_id } = message;
    if (event_id === null) return;
    const key = keyOf(String(feed_id), String(event_id));
    const name = nameOf(message);
    if (!this.lost.has(key)) this.mustEqualStored('S7', key, name);
    const names = this.published.get(key);
    if (names === undefined) this.published.set(key, new Set([name]));
    else names.add(name);
  }

  // --- answers

  /** @param signedAtMs when the request was signed, in the time of the simulation */
  onAnswer(
    pod: string,
    request: PlannedRequest,
    signature: string,
    signedAtMs: number,
    { status, body }: HttpAnswer,
  ): void {
    const { id, connection, events } = request;
    if (status !== 200) {
      const isStale = this.scheduler.now() - signedAtMs > TIMESTAMP_WINDOW_SECONDS * 1000;
      const isExpected = AGAIN.includes(status) || (status === STALE && isStale);
      must(isExpected, 'W5', `${id} is answered ${status}: ${body}`);
      return;
    }
    const delivery = `${pod} ${signature}`;
    const before = this.answers.get(delivery) ?? body;
    must(before === body, 'W7', `${id} is answered ${inShort(before)}, then ${inShort(body)}`);
    this.answers.set(delivery, body);
    const verdicts = verdictsIn(body);
    must(
      verdicts.length === events.length,
      'W5',
      `${id} has ${events.length} events and ${verdicts.length} verdicts`,
    );
    const feed = this.feedOf(connection);
    for (const [index, event] of events.entries())
      this.checkVerdict(`${id} of ${pod}`, delivery, feed, event, verdicts[index] ?? {});
  }

  private checkVerdict(
    what: string,
    delivery: string,
    feed: string,
    event: Json,
    verdict: Record<string, unknown>,
  ): void {
    const { event_id } = event;
    const name = nameOf(verdict);
    if (!isId(event_id)) {
      must(name === 'without key', 'W5', `${what} has an event without an id, which is ${name}`);
      return;
    }
    const key = keyOf(feed, event_id);
    must(verdict.event_id === event_id, 'W5', `${what} is answered for ${verdict.event_id}, not ${event_id}`);
    if (this.lost.has(key)) return;
    this.mustEqualStored('I6', key, name);
    const isPublished = !this.isPublished || this.published.get(key)?.has(name) === true;
    must(isPublished, 'S7', `${what} is answered ${key}: ${name}, which was not published`);
    if (name.startsWith('duplicate')) return;
    const first = this.fresh.get(key) ?? delivery;
    must(first === delivery, 'K3', `${key} is answered as new by ${first} and by ${delivery}`);
    this.fresh.set(key, delivery);
  }

  private mustEqualStored(invariant: string, key: string, name: string): void {
    const stored = this.verdicts.get(key);
    must(stored !== undefined, invariant, `${key} is answered ${name}, and is not decided`);
    const [, first = name] = /^duplicate of ([^,]*)/.exec(name) ?? [];
    must(first === stored, invariant, `${key} is ${stored}, and answered ${name}`);
  }

  onRepeated(): void {
    this.repeated++;
  }

  onLeak(pod: string, load: HandlerLoad): void {
    must(false, 'W8', `${pod} is at rest and holds ${JSON.stringify(load)}`);
  }

  // --- the end

  /** The verdict of the rules on a stored row of the webhook. */
  checkRow(store: StoreModel, model: ReferenceModel, requests: readonly PlannedRequest[], row: Values): void {
    const { delivery, key } = this.deliveryOf(store, requests, row, 'first');
    const name = model.take(delivery);
    must(
      name === verdictOf(row.outcome),
      'rules',
      `${key} is ${verdictOf(row.outcome)}, by the rules ${name}`,
    );
    const counted = model.verdictOf(feedNameOf(store, row.feed_no), row.event_id ?? '')?.counted;
    must(counted === (row.counted === 't'), 'rules', `${key} counts ${row.counted}, by the rules ${counted}`);
  }

  /** The duplicates of the webhook follow the rules, and each event of a request is decided. */
  checkEnd(store: StoreModel, model: ReferenceModel, requests: readonly PlannedRequest[]): void {
    for (const [index, { values }] of store.appended.resends.entries()) {
      if (values.partition_no !== null) continue;
      const { delivery, key } = this.deliveryOf(store, requests, values, `again ${index}`);
      const name = `duplicate of ${verdictOf(values.first_outcome)}${values.content_differs === 't' ? ', differs' : ''}`;
      const taken = model.take(delivery);
      must(name === taken, 'rules', `${key} is ${name}, and and and by the rules ${taken}`);
    }
    for (const { id, connection, events } of requests)
      for (const { event_id } of events) {
        const key = keyOf(this.feedOf(connection), isId(event_id) ? event_id : '');
        const isDecided = !isId(event_id) || this.verdicts.has(key) || this.lost.has(key);
        must(isDecided, 'nothing lost', `${key} of ${id} was never decided`);
      }
  }

  private deliveryOf(
    store: StoreModel,
    requests: readonly PlannedRequest[],
    { feed_no, connection_no, event_id }: Values,
    source: string,
  ): { delivery: Delivery; key: string } {
    const connection = store.numbers.find(
      ([type, , , no]) => type === 'connection' && no === connection_no,
    )?.[2];
    const found = requests.find((each) => each.connection === connection && eventOf(each, event_id));
    const event = found && eventOf(found, event_id);
    const key = keyOf(feedNameOf(store, feed_no), event_id);
    if (connection === undefined || event === undefined) {
      must(false, 'I1', `${key} is decided for ${connection}, which never sent it`);
      throw new Error('unreachable');
    }
    return { delivery: { connection, source: `${key} ${connection} ${source}`, event }, key };
  }

  private feedOf(id: string): string {
    for (const operator of this.document.operators)
      for (const connection of operator.connections)
        if (connection.id === id) return feedIdOf(operator.id, connection.feed);
    throw new Error(`no connection ${id}`);
  }
}

function verdictsIn(body: string): Record<string, unknown>[] {
  const { verdicts }: { verdicts: Record<string, unknown>[] } = JSON.parse(body);
  return verdicts;
}

const inShort = (body: string) => verdictsIn(body).map(nameOf).join(' and ');
const eventOf = ({ events }: PlannedRequest, id: unknown) => events.find(({ event_id }) => event_id === id);
const isId = (value: unknown): value is string => typeof value === 'string' && value !== '';
const keyOf = (feed: string, eventId: string | null | undefined) => `${feed}/${eventId}`;

function verdictOf(outcome: string | null | undefined): string {
  const found = outcomeOfCode(Number(outcome));
  return [found?.verdict, found?.reason].filter(Boolean).join('/');
}

export function feedNameOf({ numbers }: StoreModel, no: string | null | undefined): string {
  return numbers.find(([type, , , number]) => type === 'feed' && number === no)?.[2] ?? '';
}

/**
 * Watches a run and reports a broken promise at once: the invariants I1-I6, I9, I10 of the promises in
 * docs/rules.md.
 */
import { currencyOf } from '../../src/domain/event/money';
import type { ReferenceDocument } from '../../src/domain/reference';
import { outcomeOfCode } from '../../src/domain/verdict/reasons';
import type { Answer } from '../../src/intake/delivery';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { keyOf } from '../../src/lib/topic-partition';
import { fromDocumentJson } from '../../src/reference-file/stored';
import { type Delivery, ReferenceModel } from '../model/reference-model';
import { placeOf } from '../model/verify';
import { brief } from '../support/ledger';
import type { SentMessage } from '../support/record-batch';
import type { Log } from './broker-model';
import { documentOf, isFromRecreatedLog, type PlannedRequest, type SimulatedRecord } from './plan';
import { must, nameOf, Violation } from './promise';
import { feedNameOf, type RequestMonitor } from './request-monitor';
import type { Scheduler } from './scheduler';
import type { StoreModel, Transaction } from './store-model';
import type { Values } from './wire';

/** I9: a partition makes progress within this time after the last fault. */
const PROGRESS_WITHIN_MS = 35_000;
/** I10: the waits of an undecided partition. */
const WAITS_MS = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
const COUNTED_KINDS: Readonly<Record<string, 'bet' | 'win' | 'settled'>> = {
  1: 'bet',
  2: 'win',
  3: 'settled',
};
const BELOW_MIN_BET = '24';

type SumName = 'bet' | 'win' | 'settled' | 'belowMinBet';
type RoundSums = Record<SumName, Map<string, bigint>>;

/** The place of a record in the topics. */
export interface Coordinates extends TopicPartition {
  readonly offset: number;
  /** Whether the record is in the log of a topic that was created again. */
  readonly isRecreated: boolean;
}

export class Monitor {
  /** By record: the answer that the store holds, in short. */
  private readonly stored = new Map<string, string>();
  /** By record: the answer that a worker received. */
  private readonly answered = new Map<string, string>();
  private readonly answeredAsNew = new Set<string>();
  private readonly verdicts = new Map<string, string>();
  private readonly deadLetters = new Map<string, string>();
  private readonly partitionNames = new Map<string, string>();
  private readonly rows = { verdicts: new Map<string, number>(), resends: new Map<string, number>() };
  private readonly unstored = new Map<string, number>();
  private readonly sums = new Map<string, RoundSums>();
  private readonly settledRounds = new Set<string>();
  private readonly verdictIds = new Set<string>();
  /** By partition: all offsets below this one were found to be decided. */
  private readonly checkedTo = new Map<string, number>();
  private readonly progressAt = new Map<string, number>();
  /**
   * Records whose answer the store has lost once. Workers may have received another answer before the loss.
   */
  private readonly lost = new Set<string>();
  /** Records before an offset set by an operator that were decided by then, but not published. */
  private readonly unpublished = new Set<string>();
  /** Records before such an offset that were not decided. */
  private readonly passedOver = new Set<string>();
  /** Lost records that an operator has the group read again. */
  private readonly rewound = new Set<string>();
  /** Records that a worker has logged as passed over. */
  private readonly gaps = new Set<string>();
  /** Number of waits of a worker's partition since it last made progress. */
  private readonly waits = new Map<string, number>();

  /**
   * Partitions of topics that were created again. The places of their records end with an apostrophe, so that
   * no two records share a place.
   */
  private readonly recreated = new Set<string>();
  /** The first transaction that decided a record of such a log. */
  private readonly followed = new Map<string, number>();

  constructor(
    private readonly scheduler: Scheduler,
    private readonly recordAt: (coordinates: Coordinates) => SimulatedRecord | null | undefined,
    private readonly ofRequests: RequestMonitor,
  ) {}

  // --- the store

  onCommit(store: StoreModel, transaction: Transaction): void {
    for (const row of store.partitions.values()) {
      const { partition_no: no, topic, partition } = row.newest ?? {};
      if (no != null) this.partitionNames.set(no, `${topic}/${partition}`);
    }
    const counted = [...transaction.changed].flatMap(([row, table]) =>
      table === 'partitions' ? (row.newest?.partition_no ?? []) : [],
    );
    for (const { values } of transaction.appended) {
      const no = values.partition_no ?? null;
      const isCounted = no === null || counted.includes(no);
      must(isCounted, 'D2', `a transaction decides records of partition ${no} without its lock`);
    }
    const keys = [...transaction.changed].filter(([, table]) => table === 'event_keys');
    const history = transaction.appended.filter(({ table }) => table === 'history');
    must(keys.length === history.length, 'I1', 'keys and verdicts of a transaction differ in number');
    for (const { table, values } of transaction.appended) {
      this.onAppended(store, table, values, transaction);
      const partition = this.partitionNames.get(values.partition_no ?? '') ?? '';
      if (isFromRecreatedLog(values.event_id) && !this.followed.has(partition))
        this.followed.set(partition, store.committed);
    }
    for (const [row] of keys) {
      const id = row.newest?.verdict_id ?? '';
      must(
        history.some(({ values }) => values.verdict_id === id),
        'I1',
        `key ${id} has no verdict`,
      );
    }
    for (const [row, table] of transaction.changed) {
      if (table === 'rounds') this.checkRound(row.newest ?? {});
      if (table === 'partitions') this.checkBalance(row.newest ?? {});
    }
  }

  /** The store has lost its last transactions: only the remaining ones count. */
  onFallBack(store: StoreModel): void {
    const before = [...this.stored.keys()];
    const noteLost = this.ofRequests.onFallBack();
    for (const known of [this.stored, this.rows.verdicts, this.rows.resends, this.unstored, this.sums])
      known.clear();
    this.settledRounds.clear();
    this.verdictIds.clear();
    for (const table of ['history', 'resends', 'unstored'] as const)
      for (const { values } of store.appended[table]) this.onAppended(store, table, values, null);
    noteLost();
    for (const place of before) {
      if (this.stored.has(place)) continue;
      this.lost.add(place);
      // The published verdict of a lost record does not answer the record when it is decided again.
      this.verdicts.delete(place);
      this.deadLetters.delete(place);
    }
  }

  /**
   * The offset of the first record whose answer the store has lost and which was not decided again. Infinite
   * where there is none.
   */
  firstLost({ source, entries }: Log): number {
    const first = entries.findIndex((_, offset) => {
      const place = this.placeIn(keyOf(source), offset);
      return this.lost.has(place) && !this.stored.has(place) && !this.passedOver.has(place);
    });
    return first < 0 ? Number.POSITIVE_INFINITY : first;
  }

  /**
   * An operator sets the offset of a log back to its first lost record. Until then, a worker may have decided
   * records from the offset on: no worker had written a note beside it, so nothing showed the loss.
   */
  onRewound({ source }: Log, from: number, to: number): void {
    for (let offset = from; offset < to; offset++) this.rewound.add(this.placeIn(keyOf(source), offset));
  }

  /** Whether the store holds an answer to any record of the log. */
  hasDecided({ source, entries }: Log): boolean {
    return entries.some((_, offset) => this.stored.has(this.placeIn(keyOf(source), offset)));
  }

  /**
   * An operator has set the offset of the group. Decided records before it may stay unpublished, because no
   * worker reads them again.
   *
   * @returns whether any record before the offset is not decided
   */
  onPassedOver({ source, entries, committed }: Log): boolean {
    let isAny = false;
    for (let offset = 0; offset < committed; offset++) {
      const place = this.placeIn(keyOf(source), offset);
      if (entries[offset] === null) continue;
      if (!this.stored.has(place)) {
        this.passedOver.add(place);
        isAny = true;
      } else if (!this.verdicts.has(place)) this.unpublished.add(place);
    }
    return isAny;
  }

  /** The topic of a partition was created again: the records of the old topic count as no loss. */
  onRecreated(source: TopicPartition): void {
    this.recreated.add(keyOf(source));
    this.checkedTo.delete(keyOf(source));
  }

  /**
   * The last of the transactions that first decided a record of a log that was created again. A store without
   * that transaction could not distinguish the two logs.
   */
  followsSince(): number {
    return Math.max(0, ...this.followed.values());
  }

  /** A record's place in the present log. */
  private placeIn(partition: string, offset: number): string {
    return `${partition}/${offset}${this.recreated.has(partition) ? MARK : ''}`;
  }

  /** A worker reports that records were passed over. */
  onGap(partition: string, from: number, to: number): void {
    for (let offset = from; offset < to; offset++) this.gaps.add(this.placeIn(partition, offset));
  }

  isAllDecided(logs: Iterable<Log>): boolean {
    return [...logs].every((log) => this.firstLost(log) === Number.POSITIVE_INFINITY);
  }

  /** @param transaction null where the transaction was checked before */
  private onAppended(
    store: StoreModel,
    table: string,
    values: Values,
    transaction: Transaction | null,
  ): void {
    if (table === 'panics') return;
    if (table === 'faults') {
      must(
        values.outcome !== '0',
        'V2',
        `an accepted event has the fault ${values.fault} at ${values.field}`,
      );
      return;
    }
    if (table === 'history') this.onVerdict(store, values, transaction);
    if (values.partition_no === null) return;
    const partition = this.partitionNames.get(values.partition_no ?? '') ?? '';
    const place = `${partition}/${values.source_offset}${markOf(values.event_id)}`;
    if (table === 'history') {
      const outcome = outcomeOfCode(Number(values.outcome));
      must(outcome !== undefined, 'I1', `${place} has the outcome ${values.outcome}`);
      this.decided(place, [outcome?.verdict, outcome?.reason].filter(Boolean).join('/'));
      count(this.rows.verdicts, partition);
      const { at } = this.sourceOf(values);
      const isPanic = outcome?.reason === 'panic';
      must(!isPanic || this.record(at).poison !== null, 'V9', `${place} is a panic, but it has no fault`);
    } else if (table === 'resends') {
      const first = outcomeOfCode(Number(values.first_outcome));
      const name = [first?.verdict, first?.reason].filter(Boolean).join('/');
      this.decided(place, `duplicate of ${name}${values.content_differs === 't' ? ', differs' : ''}`);
      must(values.batch_no !== null, 'L4', `${place} is a duplicate without the number of its batch`);
      count(this.rows.resends, partition);
    } else {
      this.decided(place, values.dead_letter === null ? 'without key' : 'dead letter');
      count(this.unstored, partition);
    }
    this.progressAt.set(partition, this.scheduler.now());
  }

  /** Checks a verdict of any transport. */
  private onVerdict(store: StoreModel, values: Values, transaction: Transaction | null): void {
    const { verdict_id, event_id, reference_version, counted, outcome } = values;
    this.ofRequests.onVerdict(store, values);
    const id = verdict_id ?? '';
    must(!this.verdictIds.has(id), 'I1', `the verdict id ${id} was given twice`);
    this.verdictIds.add(id);
    const version = Number(reference_version);
    const beganUnder = transaction?.beganUnder ?? version;
    must(version === beganUnder, 'C9', `${event_id} is judged by version ${version}, not ${beganUnder}`);
    must(counted !== 't' || outcome === '0', 'I4', `${event_id} counts, but is not accepted`);
    this.addToRound(`${event_id}`, values);
  }

  private decided(place: string, what: string): void {
    const before = this.stored.get(place);
    must(before === undefined, 'I1', `${place} is decided twice: ${before}, then ${what}`);
    this.stored.set(place, what);
  }

  private addToRound(place: string, values: Values): void {
    const { round_no: round, currency_no: currency, amount_minor: amount } = values;
    if (round == null) return;
    const sums = this.sums.get(round) ?? {
      bet: new Map(),
      win: new Map(),
      settled: new Map(),
      belowMinBet: new Map(),
    };
    this.sums.set(round, sums);
    const kind = COUNTED_KINDS[values.kind ?? ''];
    const isBelow = values.outcome === BELOW_MIN_BET;
    if (values.counted === 't' && kind === 'settled') {
      must(!this.settledRounds.has(round), 'I3', `${place} is the second counted settled`);
      this.settledRounds.add(round);
    }
    const name: SumName | undefined = isBelow ? 'belowMinBet' : values.counted === 't' ? kind : undefined;
    if (name === undefined || currency == null) return;
    sums[name].set(currency, (sums[name].get(currency) ?? 0n) + BigInt(amount ?? 0));
  }

  /** I3: the sums of a round equal the amounts that were counted for it. */
  private checkRound(row: Values): void {
    const sums = this.sums.get(row.round_no ?? '');
    const found = new Map<string, readonly string[]>();
    if (row.currency_no != null)
      found.set(
        row.currency_no,
        [row.bet_minor, row.win_minor, row.settled_minor, row.below_min_bet_minor].map(String),
      );
    const others: unknown = JSON.parse(row.other_sums ?? '{}');
    for (const [code, value] of Object.entries(others ?? {})) {
      const names = ['bet', 'win', 'settled', 'belowMinBet'];
      found.set(
        String(currencyOf(code)?.no),
        names.map((name) => String(Reflect.get(Object(value), name))),
      );
    }
    const currencies = new Set([
      ...found.keys(),
      ...Object.values(sums ?? {}).flatMap((map) => [...map.keys()]),
    ]);
    for (const currency of currencies) {
      const expected = (['bet', 'win', 'settled', 'belowMinBet'] as const).map((name) =>
        String(sums?.[name].get(currency) ?? 0n),
      );
      const held = found.get(currency) ?? ['0', '0', '0', '0'];
      must(
        held.join() === expected.join(),
        'I3',
        `round ${row.round_id} has ${held.join()} of currency ${currency}, not the counted ${expected.join()}`,
      );
    }
  }

  /** I5: the counts of a partition add up, and equal the number of its rows. */
  private checkBalance(row: Values): void {
    const partition = `${row.topic}/${row.partition}`;
    const [accepted, rejected, skipped, duplicates, redeliveries, deadLetters, withoutKey, read] = [
      ...[row.accepted, row.rejected, row.skipped, row.duplicates, row.redeliveries],
      ...[row.dead_letters, row.without_key, row.records_read],
    ].map(Number);
    const verdicts = (accepted ?? 0) + (rejected ?? 0) + (skipped ?? 0);
    const unstored = (deadLetters ?? 0) + (withoutKey ?? 0);
    const sum = verdicts + (duplicates ?? 0) + (redeliveries ?? 0) + unstored;
    must(read === sum, 'I5', `${partition} has read ${read} records, but answered ${sum}`);
    const rows = [this.rows.verdicts, this.rows.resends, this.unstored].map((map) => map.get(partition) ?? 0);
    const counted = [verdicts, duplicates, unstored];
    must(rows.join() === counted.join(), 'I5', `${partition} has counted ${counted}, but has ${rows} rows`);
  }

  // --- Kafka

  /**
   * I2, S5, S7: records before a committed offset are decided, and their verdict or dead letter is in Kafka.
   */
  onOffsetCommit({ source, entries }: Log, offset: number, isOwner: boolean): void {
    const partition = keyOf(source);
    must(isOwner, 'I2', `${partition} is committed by a worker that lost the partition`);
    must(offset <= entries.length, 'I2', `${partition} is committed to ${offset}, beyond its end`);
    let at = this.checkedTo.get(partition) ?? 0;
    for (; at < offset; at++) {
      if (entries[at] === null) continue;
      const place = this.placeIn(partition, at);
      if ([this.lost, this.passedOver, this.unpublished].some((places) => places.has(place))) continue;
      const stored = this.stored.get(place);
      must(stored !== undefined, 'I2', `the offset ${offset} passes ${place}, which is not decided`);
      const [isPublished, rule] =
        stored === 'dead letter' ? [this.deadLetters.has(place), 'S5'] : [this.verdicts.has(place), 'S7'];
      must(isPublished, rule, `the offset ${offset} passes ${place} (${stored}), which is not published`);
    }
    this.checkedTo.set(partition, at);
    this.progressAt.set(partition, this.scheduler.now());
  }

  /** @param operator whose topic it is; null where all have one */
  onVerdicts(messages: readonly SentMessage[], operator: string | null): void {
    for (const { value } of messages) {
      const { source, details, anomalies, ...message } = JSON.parse(String(value));
      const owner = message.operator_id;
      must(
        operator === null || owner === operator,
        'S9',
        `the topic of ${operator} has a verdict of ${owner}`,
      );
      if (source === null) {
        this.ofRequests.onPublished(message);
        continue;
      }
      const place = `${placeOf(source.topic, source.partition, source.offset)}${markOf(message.event_id)}`;
      const stored = this.stored.get(place);
      const wasLost = this.lost.has(place);
      // A worker may still publish the old verdict of a record that the store has lost.
      if (wasLost && nameOf(message) !== stored) continue;
      must(stored !== undefined, 'S7', `${place} is published, but not decided`);
      const text = JSON.stringify(message);
      const before = wasLost ? text : (this.verdicts.get(place) ?? text);
      must(before === text, 'I6', `${place} is published as ${before}, then as ${text}`);
      must(nameOf(message) === stored, 'I6', `${place} is ${stored}, but published as ${nameOf(message)}`);
      // Both describe the present reading: of the reference data, and of the round.
      for (const list of [details, anomalies])
        must(list === undefined || Array.isArray(list), 'S7', `${place} has details that are no list`);
      this.verdicts.set(place, text);
      this.progressAt.set(`${source.topic}/${source.partition}`, this.scheduler.now());
    }
  }

  onDeadLetters(messages: readonly SentMessage[]): void {
    for (const { headers, value } of messages) {
      const header = (wanted: string) => [...headers].find(([name]) => name.toString() === wanted)?.[1];
      const place = ['source-topic', 'source-partition', 'source-offset'].map(header).join('/');
      this.deadLetters.set(place, String(value));
    }
  }

  // --- the workers

  /** I6: every answer to a record equals the stored one. K3: a record is answered as new at most once. */
  onAnswers(source: TopicPartition, answers: readonly Answer[]): void {
    for (const answer of answers) {
      const { eventId, envelope } = answer;
      const place = `${placeOf(source.topic, source.partition, envelope.offset)}${markOf(eventId)}`;
      const text = brief(answer)
        .replace(/, again$/, '')
        .replace(/^(dead letter) .*/, '$1');
      if (this.lost.has(place)) continue;
      const stored = this.stored.get(place);
      must(stored === text, 'I6', `${place} is ${stored}, but answered as ${text}`);
      const before = this.answered.get(place) ?? text;
      must(before === text, 'I6', `${place} is answered as ${before}, then as ${text}`);
      this.answered.set(place, text);
      if (answer.decision.redelivered) continue;
      must(!this.answeredAsNew.has(place), 'K3', `${place} is answered as new twice`);
      this.answeredAsNew.add(place);
    }
  }

  /** I10: 1, 2, 4, 8, 16, 30, 30 s. */
  onWait(partition: string, waitMs: number): void {
    const waits = (this.waits.get(partition) ?? 0) + 1;
    this.waits.set(partition, waits);
    const expected = WAITS_MS[Math.min(waits, WAITS_MS.length) - 1];
    must(waitMs === expected, 'I10', `wait ${waits} of ${partition} is ${waitMs} ms, not ${expected}`);
  }

  /** A worker's partition made progress, or moved to another worker. */
  onProgress(partition: string): void {
    this.waits.delete(partition);
  }

  // --- the end

  /** I9: every partition that was not finished at the end of the last fault has made progress soon after. */
  checkProgress(logs: Iterable<Log>, lastEffectMs: number): void {
    const late = this.scheduler.now() - lastEffectMs;
    for (const log of logs) {
      if (log.committed === log.entries.length || log.entries.length === 0) continue;
      const partition = keyOf(log.source);
      const at = this.progressAt.get(partition) ?? 0;
      must(
        late <= PROGRESS_WITHIN_MS || at > lastEffectMs,
        'I9',
        `${partition} has made no progress for ${late} ms since the last fault`,
      );
    }
  }

  /**
   * Every record is decided, dead-lettered or counted, and its answer is published. The answers follow the
   * rules, in the order in which the records were decided.
   */
  checkEnd(store: StoreModel, logs: Iterable<Log>, requests: readonly PlannedRequest[]): void {
    for (const log of logs) {
      const partition = keyOf(log.source);
      log.entries.forEach((entry, offset) => {
        if (entry === null) return;
        const place = this.placeIn(partition, offset);
        const stored = this.stored.get(place);
        if (stored !== undefined) {
          const published = stored === 'dead letter' ? this.deadLetters : this.verdicts;
          // A record that an operator passed over may have been in flight, and no worker reads it again.
          const isSkipped = this.unpublished.has(place) || this.passedOver.has(place);
          must(published.has(place) || isSkipped, 'S7', `${place} is ${stored}, but was never published`);
          return;
        }
        must(this.passedOver.has(place), 'nothing lost', `${place} was never decided`);
        must(this.gaps.has(place), 'gap', `${place} was skipped, but no worker logged it`);
      });
    }
    must(store.deadlocks === 0, 'U4', 'workers met in a deadlock, which the order of locks prevents');
    this.checkRules(store, requests);
  }

  private checkRules(store: StoreModel, requests: readonly PlannedRequest[]): void {
    const model = new ReferenceModel(documentOf(1));
    const history = store.appended.history.map(({ values }) => values);
    history.sort((a, b) => Number(a.verdict_id) - Number(b.verdict_id));
    const references = new Map<number, ReferenceDocument>();
    const lastOffset = new Map<string, number>();
    const decided = new Set<string>();
    for (const values of history) {
      // The number of a version may have belonged to another document before. The store has then lost all
      // records that the old document judged.
      const version = Number(values.reference_version);
      const reference = references.get(version) ?? documentIn(store, version);
      references.set(version, reference);
      model.reference = reference;
      if (values.partition_no === null) {
        this.ofRequests.checkRow(store, model, requests, values);
        continue;
      }
      const { at, place } = this.sourceOf(values);
      const log = `${keyOf(at)}${at.isRecreated ? MARK : ''}`;
      const last = lastOffset.get(log) ?? -1;
      const mayBeLate = this.passedOver.has(place) || this.rewound.has(place);
      must(at.offset > last || mayBeLate, 'D2', `${place} is decided after a later record`);
      lastOffset.set(log, Math.max(last, at.offset));
      decided.add(place);
      const record = this.record(at);
      const taken = model.take(deliveryOf(place, record));
      const name = record.poison === null ? taken : 'rejected/panic';
      must(name === this.stored.get(place), 'rules', `${place} is ${this.stored.get(place)}, not ${name}`);
      if (record.poison !== null) continue;
      const verdict = model.verdictOf(feedNameOf(store, values.feed_no), values.event_id ?? '');
      must(
        verdict?.counted === (values.counted === 't'),
        'rules',
        `${place} counts ${values.counted}, and and and and by the rules ${verdict?.counted}`,
      );
    }
    for (const [place, stored] of this.stored) {
      if (decided.has(place) || stored === 'dead letter') continue;
      const record = this.record(coordinatesOf(place));
      const taken = model
        .take(deliveryOf(place, record))
        .replace(/of rejected\/malformed/, (found) => (record.poison === null ? found : 'of rejected/panic'));
      must(taken === stored, 'rules', `${place} is ${stored}, and and and and by the rules ${taken}`);
    }
    this.ofRequests.checkEnd(store, model, requests);
    for (const row of store.rounds.values()) {
      const round = row.newest;
      if (round === undefined) continue;
      const refundedBy = model.refundedBy(feedNameOf(store, round.feed_no), round.round_id ?? '');
      must(
        refundedBy === round.refunded_by,
        'I3',
        `round ${round.round_id} is refunded by ${round.refunded_by}, and and and and by the rules ${refundedBy}`,
      );
    }
  }

  private sourceOf(values: Values): { at: Coordinates; place: string } {
    const name = this.partitionNames.get(values.partition_no ?? '') ?? '';
    const place = `${name}/${values.source_offset}${markOf(values.event_id)}`;
    return { at: coordinatesOf(place), place };
  }

  private record(at: Coordinates): SimulatedRecord {
    const record = this.recordAt(at);
    if (record == null) throw new Violation(`I1: a verdict without a record: ${keyOf(at)}/${at.offset}`);
    return record;
  }
}

/** Ends the places of records in logs that were created again. */
const MARK = "'";
const markOf = (eventId: unknown): string => (isFromRecreatedLog(eventId) ? MARK : '');

function coordinatesOf(place: string): Coordinates {
  const [topic = '', partition, offset = ''] = place.split('/');
  const isRecreated = offset.endsWith(MARK);
  return {
    topic,
    partition: Number(partition),
    offset: Number(isRecreated ? offset.slice(0, -1) : offset),
    isRecreated,
  };
}

function deliveryOf(place: string, { connection, content, poison }: SimulatedRecord): Delivery {
  if (connection === null) throw new Violation(`C5: ${place} is decided, but no connection claims it`);
  if (content === null || Buffer.isBuffer(content)) return { connection, source: place, event: null };
  // Of an event that cannot be processed the store keeps only its id.
  const event = poison === null ? content : { event_id: content.event_id };
  return { connection, source: place, event };
}

function documentIn({ references }: StoreModel, version: number): ReferenceDocument {
  const document = references[version - 1]?.document;
  if (document === undefined)
    throw new Violation(`C9: the store has no reference data of version ${version}`);
  return fromDocumentJson(JSON.parse(document));
}

function count(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1);
}

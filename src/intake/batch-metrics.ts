/** The metrics and log lines of a decided batch. */

import type { Logger } from 'pino';
import { kindCode } from '../domain/event/event';
import { at } from '../lib/at';
import { type Clock, secondsSince } from '../lib/clock';
import { limitLines } from '../lib/line-limit';
import { keyOf } from '../lib/topic-partition';
import type { Metrics } from '../telemetry/metrics';
import { type Answer, isPartition, type Origin } from './delivery';
import type { Intake } from './intake';
import { letterCause } from './letter-detail';

interface Observers {
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Pick<Clock, 'now'>;
}

/** At most this many offsets are named in one line of the log. */
const MAX_LOGGED_OFFSETS = 20;
/** At most this many different causes of dead letters are named in one line of the log. */
const MAX_LOGGED_DETAILS = 5;

/** Observes a transaction. @param events of all its partitions, or of all its requests */
export function observeTransaction(
  { metrics }: Pick<Observers, 'metrics'>,
  events: number,
  ms: number,
): void {
  metrics.batchEvents.observe(events);
  metrics.batchSeconds.observe(ms / 1000);
}

/** Observes the batches of Kafka records that an intake decides. */
export function observed(
  intake: Pick<Intake, 'decide'>,
  { metrics, logger, clock }: Observers,
): Pick<Intake, 'decide'> {
  const observeAnswers = makeObserveAnswers({ metrics, logger, clock });
  return {
    async decide(parts, whenSent) {
      const began = clock.now();
      const results = await intake.decide(parts, whenSent);
      const ms = clock.now() - began;
      let events = 0;
      for (const [index, { origin, envelopes }] of parts.entries()) {
        const { answers } = at(results, index);
        const last = answers.at(-1);
        if (last === undefined) continue;
        events += answers.length;
        observeAnswers(origin, answers);
        const since = Number(envelopes[0]?.timestamp);
        // A producer may leave out the time.
        if (since > 0) metrics.decideSeconds.observe(secondsSince(since));
        const nextOffset = last.envelope.offset + 1;
        logger.debug({ ...origin, events: answers.length, nextOffset, ms: Math.round(ms) }, 'batch decided');
      }
      if (events > 0) observeTransaction({ metrics }, events, ms);
      return results;
    },
  };
}

export type ObserveAnswers = (origin: Origin, answers: readonly Answer[]) => void;
type LogLine = ReturnType<typeof limitLines>;

/**
 * Returns a function that counts each answer once, with one increment for each combination of labels. It logs
 * the records that have no verdict row, at a limited rate: a faulty sender may cause them in every batch.
 *
 * The answers of one call are of one partition, or of one webhook connection.
 */
export function makeObserveAnswers({ metrics, logger, clock }: Observers): ObserveAnswers {
  const logLimited = limitLines(logger, clock);
  return (origin, answers) => observeAnswers(metrics, logLimited, origin, answers);
}

function observeAnswers(
  metrics: Metrics,
  logLimited: LogLine,
  origin: Origin,
  answers: readonly Answer[],
): void {
  const verdicts = new Map<number, { labels: Record<string, string>; count: number; isTest: boolean }>();
  const unstored = new Map<string, number[]>();
  /** The detailed causes of dead letters, by reason. */
  const details = new Map<string, Set<string>>();
  const resends = new Map<number, { labels: Record<string, string>; count: number }>();
  let redeliveries = 0;
  for (const answer of answers) {
    const { decision, envelope } = answer;
    if (decision.redelivered) {
      redeliveries++;
      continue;
    }
    if (decision.type === 'unstored') {
      const reason = decision.deadLetter ?? 'no_idempotency_key';
      const offsets = unstored.get(reason);
      if (offsets === undefined) unstored.set(reason, [envelope.offset]);
      else offsets.push(envelope.offset);
      if (decision.deadLetter !== null) {
        const known = details.get(reason) ?? new Set();
        details.set(reason, known);
        if (known.size < MAX_LOGGED_DETAILS) known.add(letterCause(envelope, decision.deadLetter));
        continue;
      }
    }
    const key = classOf(answer);
    const seen = verdicts.get(key);
    if (seen === undefined) {
      const isTest = answer.connection?.isTest === true;
      verdicts.set(key, { labels: labelsOf(answer), count: 1, isTest });
    } else seen.count++;
    if (decision.type === 'duplicate' && answer.connection?.isTest !== true)
      countResend(resends, answer, decision);
  }
  if (redeliveries > 0) metrics.redeliveries.inc(redeliveries);
  for (const { labels, count, isTest } of verdicts.values())
    (isTest ? metrics.testVerdicts : metrics.verdicts).inc(labels, count);
  for (const { labels, count } of resends.values()) metrics.duplicates.inc(labels, count);
  // Log one line for each reason in a batch, not one for each record: a faulty sender repeats its fault
  // often.
  for (const [reason, offsets] of unstored) {
    const isDeadLetter = reason !== 'no_idempotency_key';
    if (isDeadLetter) metrics.deadLetters.inc({ reason }, offsets.length);
    logLimited(
      `${reason} ${isPartition(origin) ? keyOf(origin) : origin.connectionId}`,
      {
        ...origin,
        reason,
        records: offsets.length,
        // A request has no offsets that identify its events.
        ...(isPartition(origin) && { offsets: offsets.slice(0, MAX_LOGGED_OFFSETS) }),
        ...(details.has(reason) && { because: [...(details.get(reason) ?? [])] }),
      },
      isDeadLetter ? 'records sent to the dead-letter topic' : 'records without event_id',
    );
  }
}

type Duplicate = Extract<Answer['decision'], { type: 'duplicate' }>;

function countResend(
  resends: Map<number, { labels: Record<string, string>; count: number }>,
  { connection }: Answer,
  { firstTransport, contentDiffers }: Duplicate,
): void {
  const transport = connection?.transport ?? 'kafka';
  const key =
    (firstTransport === 'kafka' ? 1 : 0) + (transport === 'kafka' ? 2 : 0) + (contentDiffers ? 4 : 0);
  const seen = resends.get(key);
  if (seen !== undefined) seen.count++;
  else {
    const content = contentDiffers ? 'differs' : 'same';
    resends.set(key, { labels: { first: firstTransport, transport, content }, count: 1 });
  }
}

/** One number for each combination of labels. A text key would have to be built for each answer. */
function classOf({ decision, kind, connection }: Answer): number {
  const outcome =
    decision.type === 'decided' ? decision.outcome : decision.type === 'duplicate' ? decision.first : null;
  const verdict = outcome === null ? 0 : 1 + outcome.code * 2 + (decision.type === 'duplicate' ? 1 : 0);
  return ((connection?.no ?? 0) * MAX_KINDS + (kind === null ? 0 : kindCode(kind))) * MAX_VERDICTS + verdict;
}

const MAX_KINDS = 16;
const MAX_VERDICTS = 128;

function labelsOf(answer: Answer): Record<string, string> {
  const [verdict, reason] = verdictAndReason(answer);
  return { verdict, reason, kind: answer.kind ?? '', connection: answer.connection?.id ?? '' };
}

function verdictAndReason({ decision }: Answer): [verdict: string, reason: string] {
  switch (decision.type) {
    case 'unstored':
      return ['rejected', 'no_idempotency_key'];
    case 'duplicate':
      return ['duplicate', decision.first.reason ?? ''];
    case 'decided':
      return [decision.outcome.verdict, decision.outcome.reason ?? ''];
  }
}

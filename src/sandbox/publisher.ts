/**
 * Sends the events and attributions of rounds to the intakes, at least once. The intake knows resent ones by
 * their ids.
 */
import type { Logger } from 'pino';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { RoundStore, WaitingAttribution, WaitingEvent } from './round-store';

/** The answer of an intake to a batch. */
export type Delivered =
  | {
      readonly type: 'decided';
      /** One for each event, in their order. */
      readonly verdicts: readonly { readonly verdict: string; readonly reason: string | null }[];
    }
  | { readonly type: 'undecided'; readonly because: string; readonly waitMs: number };

/** The intake of an operator. */
export interface SandboxIntakeClient {
  readonly operatorId: string;
  /** @param id the same for each attempt of the same events */
  send(id: string, events: readonly string[], stop: AbortSignal): Promise<Delivered>;
  /** @returns an outcome for each. @throws where the intake's store cannot be reached */
  attribute(attributions: readonly WaitingAttribution[]): Promise<readonly string[]>;
}

export interface PublisherDeps {
  readonly store: RoundStore;
  readonly intakes: readonly SandboxIntakeClient[];
  readonly clock: Clock;
  readonly logger: Logger;
}

const AT_ONCE = 100;
/** Longer than an attempt. */
const LEASE_MS = 60_000;
const POLL_MS = 300;

/** Publishes until `stop`. */
export async function publishRounds(
  { store, intakes, clock, logger }: PublisherDeps,
  stop: AbortSignal,
): Promise<void> {
  async function sendEvents({ operatorId, send }: SandboxIntakeClient): Promise<void> {
    const events = await store.takeEvents(operatorId, AT_ONCE, LEASE_MS);
    const [first] = events;
    if (first === undefined) return;
    const id = `sandbox-${operatorId}-${first.eventNo}-${events.length}`;
    const answer = await send(
      id,
      events.map(({ body }) => body),
      stop,
    );
    if (answer.type === 'decided') {
      await store.keepVerdicts(verdictsOf(events, answer.verdicts));
      return;
    }
    const failures = 1 + Math.max(...events.map((event) => event.failures));
    const waitMs = Math.max(answer.waitMs, backoffMs(failures));
    await store.returnEvents(events, waitMs);
    logger.warn(
      { operator: operatorId, events: events.length, failures, waitMs, because: answer.because },
      'cannot publish events of the sandbox, retrying',
    );
  }

  async function sendAttributions({ operatorId, attribute }: SandboxIntakeClient): Promise<void> {
    const waiting = await store.waitingAttributions(operatorId, AT_ONCE);
    if (waiting.length === 0) return;
    const outcomes = await attribute(waiting);
    for (const [place, { roundId }] of waiting.entries()) {
      const outcome = outcomes[place];
      if (outcome === undefined) throw new Error('the intake answered fewer attributions than it got');
      // Retention may drop what is set at this moment: it is set again.
      if (outcome !== 'lost') await store.keepAttribution(operatorId, roundId, outcome);
    }
  }

  async function publishOf(intake: SandboxIntakeClient): Promise<void> {
    for (let failures = 0; !stop.aborted; ) {
      let waitMs = POLL_MS;
      const results = await Promise.allSettled([sendEvents(intake), sendAttributions(intake)]);
      const failed = results.find((result) => result.status === 'rejected');
      failures = failed === undefined ? 0 : failures + 1;
      if (failed !== undefined) {
        waitMs = backoffMs(failures);
        logger.warn(
          { operator: intake.operatorId, failures, waitMs, error: messageOf(failed.reason) },
          'cannot publish rounds of the sandbox, retrying',
        );
      }
      await clock.sleep(waitMs, stop);
    }
  }

  await Promise.all(intakes.map(publishOf));
}

function verdictsOf(
  events: readonly WaitingEvent[],
  verdicts: readonly { readonly verdict: string; readonly reason: string | null }[],
): { eventNo: string; verdict: string; reason: string | null }[] {
  return events.map(({ eventNo }, place) => {
    const given = verdicts[place];
    if (given === undefined) throw new Error('the intake answered fewer verdicts than it got events');
    return { eventNo, verdict: given.verdict, reason: given.reason };
  });
}
